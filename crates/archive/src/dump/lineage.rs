//! The id of an archive, and of the one that it is based on.
//!
//! The id precedes all members, so only what is known before any file is read can go into it: what the plan
//! writes, with the metadata as it was collected. Neither the way of gathering nor the number of processes
//! changes it: each row is hashed by itself, and the hashes are added up.

use catalog::rows::Rows;
use ondisk::pax::{self, ArchiveId, Lineage};
use walk::FileType;
use xxhash_rust::xxh3::xxh3_128;

use super::member::MemberNames;
use super::pieces::Own;
use crate::increment::Base;
use crate::plan::{Plan, Step};

/// What the archive of a plan says of its place in a chain.
pub(super) fn lineage(rows: &Rows, plan: &Plan, own: Own<'_>, base: Option<&Base>) -> Lineage {
    let base = base.map_or(pax::Base::Nothing, Base::archive);
    let id = match base {
        // As if there were no archive: the next one can do without it, too.
        pax::Base::Archive(id) if plan.is_unchanged => id,
        pax::Base::Archive(id) => sum(rows, plan, own).plus(hash(id.to_string().as_bytes())),
        pax::Base::Nothing | pax::Base::Unknown => sum(rows, plan, own),
    };
    Lineage { id, base }
}

fn hash(bytes: &[u8]) -> ArchiveId {
    ArchiveId(xxh3_128(bytes))
}

/// The sum over the rows that are written, except those that the archive has only for something below them.
fn sum(rows: &Rows, plan: &Plan, own: Own<'_>) -> ArchiveId {
    let names = MemberNames::new(rows);
    let (mut sum, mut text, mut from) = (ArchiveId::default(), Vec::new(), 0);
    while let Some(row) = plan.next_written(from) {
        from = row + 1;
        if own.has(row) && rows.kind(row) != FileType::Socket {
            text.clear();
            describe((rows, plan, &names), row, &mut text);
            sum = sum.plus(hash(&text));
        }
    }
    sum
}

/// What the headers of a row will have: its names, the metadata, and the list of a directory. Without the atime, which
/// reading changes.
fn describe((rows, plan, names): (&Rows, &Plan, &MemberNames<'_>), row: usize, text: &mut Vec<u8>) {
    let meta = rows.meta(row);
    let size = if meta.kind() == FileType::Regular {
        meta.size
    } else {
        0
    };
    let words = [
        u64::from(meta.mode),
        u64::from(meta.uid) << 32 | u64::from(meta.gid),
        size,
        meta.mtime.sec.cast_unsigned(),
        meta.ctime.sec.cast_unsigned(),
        u64::from(meta.mtime.nsec) << 32 | u64::from(meta.ctime.nsec),
        u64::from(meta.rdev.major) << 32 | u64::from(meta.rdev.minor),
    ];
    text.extend(words.into_iter().flat_map(u64::to_le_bytes));
    names.add_name(row, text);
    // No name has a NUL.
    text.push(0);
    match plan.step(row) {
        Step::Link => names.add_name(plan.target(row), text),
        _ => text.extend(plan.dumpdir(rows, row).unwrap_or_default()),
    }
}
