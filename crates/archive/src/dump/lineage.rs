//! The id of an archive, and that of its base.
//!
//! The id comes first in the archive, so it is computed before any file is read: from the planned
//! headers, with the metadata as collected. Rows are hashed one by one and the hashes summed, so
//! the id depends neither on the gathering method nor on the number of processes.

use catalog::rows::Rows;
use ondisk::pax::{self, ArchiveId, Lineage};
use walk::FileType;
use xxhash_rust::xxh3::xxh3_128;

use super::member::MemberNames;
use super::pieces::OwnRows;
use crate::increment::Base;
use crate::plan::{Plan, PlanStep};

/// The lineage header of an archive: its id, and that of its base.
pub(super) fn lineage(rows: &Rows, plan: &Plan, own: OwnRows<'_>, base: Option<&Base>) -> Lineage {
    let base = base.map_or(pax::Base::Nothing, Base::archive);
    let id = match base {
        // An archive without changes gets the id of its base, because a restore can skip it.
        pax::Base::Archive(id) if plan.is_unchanged => id,
        pax::Base::Archive(id) => sum(rows, plan, own).plus(hash(id.to_string().as_bytes())),
        pax::Base::Nothing | pax::Base::Unknown => sum(rows, plan, own),
    };
    Lineage { id, base }
}

fn hash(bytes: &[u8]) -> ArchiveId {
    ArchiveId(xxh3_128(bytes))
}

/// The sum of hashes over the rows written, except directories included only for entries below
/// them.
fn sum(rows: &Rows, plan: &Plan, own: OwnRows<'_>) -> ArchiveId {
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

/// Appends the hashed text of a row: member names, metadata, and the list of a directory. The atime
/// is not included, because reading changes it.
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
    // A NUL ends the name, since no name contains one.
    text.push(0);
    match plan.step(row) {
        PlanStep::Link => names.add_name(plan.target(row), text),
        _ => text.extend(plan.dumpdir(rows, row).unwrap_or_default()),
    }
}
