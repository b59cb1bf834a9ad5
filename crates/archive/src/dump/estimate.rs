//! Estimates the dumps of all levels of a tree, whose metadata is gathered only once.
//!
//! No file is opened. So a file with holes counts with its allocated space, and extended attributes
//! are not counted. Everything else is exact.

use catalog::hidden::Hidden;
use catalog::rows::Rows;
use ondisk::pax::{self, Member, dumpdir};
use walk::{Diagnostics, FileType, Meta};

use super::chain::{Chain, gone_since_last};
use super::load::NO_CHECKSUM;
use super::member::{MemberNames, member};
use super::options::{Counts, DumpOptions};
use super::output::end_of_archive;
use super::own::{leave_out_files, leave_out_root};
use super::read::WHOLE;
use super::users::Users;
use crate::error::Error;
use crate::gather::{Gathered, gather};
use crate::increment::levels::{Level, MOST};
use crate::increment::{Base, check_nested_sources, keep_unreadable, plan_since};
use crate::plan::{Plan, PlanStep};

/// The estimate of one dump.
#[derive(Clone, Debug, Default)]
pub struct Estimate {
    /// The level, if the dump is in a state directory.
    pub level: Option<u8>,
    /// The base catalog; `None` for a full dump.
    pub since: Option<Vec<u8>>,
    /// The members of the archive.
    pub counts: Counts,
    /// The bytes of data in the files, without holes.
    pub data_bytes: u64,
    /// The size of the archive, uncompressed.
    pub archive_bytes: u64,
    /// Entries of the base that no longer exist.
    pub removed: u64,
    /// Directories of the base that were renamed.
    pub renamed: u64,
    /// Entries that are unchanged since the base.
    pub unchanged: u64,
}

/// The estimates of dumps of one tree.
#[derive(Clone, Debug, Default)]
pub struct Estimates {
    /// The mounts of the tree.
    pub parts: Vec<Gathered>,
    /// Number of entries in the tree.
    pub entries: u64,
    /// One estimate per dump: with a state directory, one per level, ascending, up to one above the
    /// highest catalog.
    pub dumps: Vec<Estimate>,
}

/// Estimates the dump that `options` describe, or with a state directory (`state`) the dumps of all
/// levels.
///
/// # Errors
/// A SRC or a base catalog cannot be read, or the base is of a different tree.
pub fn estimate(
    options: &DumpOptions,
    state: Option<&[u8]>,
    diagnostics: &Diagnostics,
) -> Result<Estimates, Error> {
    let bases = match state {
        None => {
            let level = options.level.as_ref();
            vec![(level.map(|level| level.number), Chain::find_base(options)?)]
        }
        Some(state) => bases_of_levels(state)?,
    };
    // Open all bases first, so that a bad one fails before the tree is read.
    let open = |(level, since): (_, Option<Vec<u8>>)| {
        let base = since.as_deref();
        let base = base.map(|path| Base::open(path, &options.sources));
        Ok((level, since, base.transpose()?))
    };
    let bases: Vec<_> = bases.into_iter().map(open).collect::<Result<_, Error>>()?;
    let (rows, parts) = gather(&options.collect_options(None), diagnostics)?;
    check_nested_sources(&rows)?;
    let skipped = diagnostics.take_warnings();
    let hidden = Hidden::new(&skipped);
    let number = 0;
    let state = state
        .map(<[u8]>::to_vec)
        .map(|state| Level { number, state });
    let level = state.as_ref().or(options.level.as_ref());
    let base = bases.first().and_then(|(.., base)| base.as_ref());
    let gone = gone_since_last(level, base, Some(&rows))?;
    let mut dumps: Vec<Estimate> = Vec::new();
    for (level, since, base) in bases {
        // If a level has no catalog, the next level has the same base, and so the same estimate.
        if let Some(same) = dumps.last().filter(|last| last.since == since) {
            let same = same.clone();
            dumps.push(Estimate { level, ..same });
            continue;
        }
        let (since, mut plan) = match base.map(|base| plan_since(&base, &rows, &hidden)) {
            None => (since, Plan::full(&rows)),
            Some(Err(e)) if level.is_some() && e.kind.other_file_system().is_some() => {
                (None, Plan::full(&rows))
            }
            Some(plan) => (since, plan?),
        };
        if since.is_none() && level.is_none() && options.catalog.is_none() {
            leave_out_root(options, &mut plan);
        }
        keep_unreadable(&rows, &hidden, &mut plan);
        let files = options.archive.iter().chain(&options.catalog);
        leave_out_files(files.chain(&options.own), None, &rows, &mut plan);
        let estimate = Estimate {
            level,
            since,
            ..estimate_plan(&rows, &plan)
        };
        dumps.push(estimate);
    }
    skipped
        .into_iter()
        .for_each(|skipped| diagnostics.warn(skipped));
    gone.iter()
        .for_each(|gone| diagnostics.warn(gone.warning()));
    Ok(Estimates {
        parts,
        entries: rows.len() as u64,
        dumps,
    })
}

/// The levels to estimate for a state directory, each with its base catalog.
#[allow(clippy::type_complexity, reason = "a level, and its base")]
fn bases_of_levels(state: &[u8]) -> Result<Vec<(Option<u8>, Option<Vec<u8>>)>, Error> {
    let level = |number| Level {
        number,
        state: state.to_vec(),
    };
    // All levels above the newest catalog have that catalog as their base, so one of them is
    // enough.
    let last = level(0).last()?;
    let mut bases = Vec::new();
    for number in 0..=MOST {
        let base = level(number).base()?;
        let is_last = base == last;
        bases.push((Some(number), base));
        if is_last {
            break;
        }
    }
    Ok(bases)
}

/// Longest symlink target, in bytes (PATH_MAX).
const LONGEST_TARGET: u64 = 4096;

fn estimate_plan(rows: &Rows, plan: &Plan) -> Estimate {
    let (users, names) = (Users::read(), MemberNames::new(rows));
    let mut estimate = Estimate {
        removed: plan.removed,
        renamed: plan.renamed,
        unchanged: plan.unchanged(),
        ..Estimate::default()
    };
    let (mut header, mut from) = (Vec::new(), 0);
    let (id, base) = (pax::ArchiveId::default(), pax::Base::Nothing);
    pax::lineage_header(&pax::Lineage { id, base }, &mut header);
    let mut bytes = header.len() as u64;
    while let Some(row) = plan.next_written(from) {
        from = row + 1;
        let meta = rows.meta(row);
        let Some(member) = member(row, &meta, &names, &users, Member::default()) else {
            continue;
        };
        let is_link = plan.step(row) == PlanStep::Link;
        let member = match is_link {
            true => names.link(member, plan.target(row)),
            false => Some(with_contents(member, &meta, plan.dumpdir(rows, row))),
        };
        let Some(member) = member else {
            continue;
        };
        header.clear();
        pax::header(&member, &mut header);
        if member.stored > WHOLE {
            pax::trailer(&NO_CHECKSUM, &mut header);
        }
        bytes = bytes.saturating_add(header.len() as u64);
        bytes = bytes.saturating_add(member.stored.next_multiple_of(pax::BLOCK as u64));
        estimate.counts.add(meta.kind(), is_link, meta.size);
        if meta.kind() == FileType::Regular && !is_link {
            estimate.data_bytes = estimate.data_bytes.saturating_add(meta.data_bytes());
        }
    }
    estimate.archive_bytes = end_of_archive(bytes);
    estimate
}

/// Sets those fields of a member that determine its size in the archive.
fn with_contents(member: Member, meta: &Meta, list: Option<Vec<u8>>) -> Member {
    match meta.kind() {
        FileType::Regular => {
            let stored = meta.data_bytes();
            Member {
                stored,
                blake3: (stored <= WHOLE).then_some(NO_CHECKSUM),
                ..member
            }
        }
        FileType::Symlink => Member {
            // Cap the size: a FUSE file system may report any size for a symlink.
            link: vec![b'-'; meta.size.min(LONGEST_TARGET) as usize],
            ..member
        },
        _ => Member {
            dumpdir: list.filter(|list| list.len() <= dumpdir::MOST),
            ..member
        },
    }
}
