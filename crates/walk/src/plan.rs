//! Chooses the engine of a mount, and says why.
//!
//! `threads` costs some time for each entry below the directory. An engine below the file API costs
//! less per entry, but needs a syncfs(2) first; and `btrfs` reads all inodes of the file system,
//! whatever share of them is below the directory. The number of entries comes from statfs(2) or a
//! catalog, or else is estimated from random paths down the tree (Knuth 1975, "Estimating the
//! efficiency of backtrack programs"). A wrong estimate costs only time.

use std::fmt;

use gate::Fd;
use gate::btrfs::BTRFS_SUPER_MAGIC;
use gate::fs::{StatxMask, fstat, getdents64};
use gate::long::c_string;
use gate::machine::processors;
use gate::resolve::openat2;
use ondisk::FileType;
use ondisk::btrfs::FIRST_INODE;
use ondisk::dirent::entries;

use crate::engine::engine;
use crate::engine::stat::BUFFER;
use crate::error::EngineRefusal;
use crate::job::{HERE, scan};
use crate::kind::EngineKind;
use crate::top::MountContext;

/// The engine chosen for a mount.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Plan {
    pub engine: EngineKind,
    pub reason: PlanReason,
    /// Each engine, with the reason why it cannot work on the mount, if so.
    pub engines: Vec<(EngineKind, Result<(), EngineRefusal>)>,
}

impl Plan {
    /// Why an engine cannot work on the mount; `None` if it can.
    pub(crate) fn refusal(&self, engine: EngineKind) -> Option<&EngineRefusal> {
        let mut engines = self.engines.iter();
        engines.find_map(|(kind, possible)| possible.as_ref().err().filter(|_| *kind == engine))
    }
}

/// Why an engine was chosen for a mount.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum PlanReason {
    #[error("as requested")]
    Requested,
    #[error("statx(2) from several threads; there is no faster interface on this file system")]
    NoFasterEngine,
    /// The engine for this type of file system, or the preferred one, cannot work on the mount.
    #[error("{} cannot work here: {}", .0.name(), .1)]
    Refused(EngineKind, EngineRefusal),
    #[error("{} cannot work here ({refusal}); {instead}", requested.name())]
    RequestRefused {
        requested: EngineKind,
        refusal: EngineRefusal,
        /// Why the engine that replaces the refused one was chosen.
        instead: Box<PlanReason>,
    },
    /// Another rank, which found the mount, has chosen the engine.
    #[error("chosen by rank {0}, which found the mount")]
    ChosenByRank(usize),
    /// The chosen engine gave up before it had emitted anything; `threads` replaced it.
    #[error("{} failed: {}", .0.name(), .1)]
    GaveUp(EngineKind, EngineRefusal),
    /// The sink needs names only, and reading them by the file API costs less than the engine
    /// `raw`.
    #[error("{scope}: names suffice, and reading them costs less than {}", raw.name())]
    NamesSuffice { raw: EngineKind, scope: WalkScope },
    /// The chosen engine costs less than the alternative: `threads` or an engine below the file API
    /// (`raw`).
    #[error("{scope}: {}", match is_raw {
        true => format!("{} costs less for this many, including its start", raw.name()),
        false => format!("starting {} would cost more than it saves", raw.name()),
    })]
    Cheaper {
        raw: EngineKind,
        is_raw: bool,
        scope: WalkScope,
    },
}

/// How much of a file system a walk covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WalkScope {
    /// Approximate number of entries in the walk.
    pub entries: u64,
    /// Approximate number of entries in the file system, if known and not all are walked.
    pub total: Option<u64>,
    /// Whether the walk covers the whole file system or btrfs subvolume.
    pub is_whole: bool,
}

impl fmt::Display for WalkScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = |n: u64| match n {
            0..1000 => "fewer than 1,000".to_owned(),
            1000..1_000_000 => format!("about {},000", (n + 500) / 1000),
            _ => format!("about {:.1} million", n as f64 / 1e6),
        };
        let entries = about(self.entries);
        match (self.is_whole, self.total) {
            (true, _) => write!(f, "the whole file system, {entries} entries"),
            (false, None) => write!(f, "{entries} entries"),
            (false, Some(total)) if total < 1000 => write!(f, "{entries} entries"),
            (false, Some(total)) => {
                write!(f, "{entries} of {} entries", about(total))
            }
        }
    }
}

/// Price of an engine in microseconds per entry below the directory (`btrfs`: per inode of the file
/// system), on one processor with a warm cache. Measured on a small machine; on others all engines
/// are faster or slower alike.
fn price(engine: EngineKind, context: &MountContext<'_>) -> f64 {
    match engine {
        EngineKind::Threads if context.names_suffice => 0.3,
        EngineKind::Ext4 => 0.15,
        EngineKind::Bulkstat => 0.75,
        EngineKind::Btrfs => 0.6,
        EngineKind::Threads | EngineKind::Stat | EngineKind::PerCall => 1.0,
    }
}

/// Start cost of an engine below the file API, in milliseconds: mainly a syncfs(2), which takes
/// about 0.2 ms without dirty data, and long with much dirty data.
fn start_cost(context: &MountContext<'_>) -> f64 {
    if context.sink_syncs_first { 0.5 } else { 4.0 }
}

pub(crate) fn plan(context: &MountContext<'_>) -> Plan {
    let engines: Vec<_> = EngineKind::SELECTABLE
        .into_iter()
        .map(|kind| (kind, engine(kind).possible(context)))
        .collect();
    let below_the_api = engines.iter().find(|(kind, possible)| {
        !matches!(kind, EngineKind::Threads | EngineKind::Stat) && possible.is_ok()
    });
    let (engine, reason) = match below_the_api {
        Some(&(raw, _)) => cheaper(context, raw),
        None => (EngineKind::Threads, why_threads(context, &engines)),
    };
    Plan {
        engine,
        reason,
        engines,
    }
}

/// Why only `threads` can work on the mount: no faster engine exists, or why it refuses.
fn why_threads(
    context: &MountContext<'_>,
    engines: &[(EngineKind, Result<(), EngineRefusal>)],
) -> PlanReason {
    let Some(own) = context
        .mount
        .and_then(|mount| EngineKind::for_fstype(&mount.content.fstype))
    else {
        return PlanReason::NoFasterEngine;
    };
    let mut engines = engines.iter().filter(|(kind, _)| *kind == own);
    match engines.find_map(|(_, possible)| possible.clone().err()) {
        Some(refusal) => PlanReason::Refused(own, refusal),
        None => PlanReason::NoFasterEngine,
    }
}

/// Compares the costs of an engine below the file API and of `threads`.
fn cheaper(context: &MountContext<'_>, raw: EngineKind) -> (EngineKind, PlanReason) {
    let statfs = &context.statfs;
    let used = statfs.files.saturating_sub(statfs.files_free);
    let is_whole = is_whole(context);
    let below = if is_whole && used > 0 {
        used
    } else {
        context.expected.unwrap_or_else(|| estimate(context))
    };
    // btrfs does not report the number of its inodes: it has at least those below the directory.
    let all = used.max(below);
    let inodes = if raw == EngineKind::Btrfs { all } else { below };
    let cost = |kind: EngineKind, each: u64| {
        each as f64 * price(kind, context) / 1000.0 / processors() as f64
    };
    let by_raw = start_cost(context) + cost(raw, inodes);
    let is_raw = by_raw < cost(EngineKind::Threads, below);
    let scope = WalkScope {
        entries: below,
        total: (used > 0 && !is_whole).then_some(all),
        is_whole,
    };
    if !is_raw && context.names_suffice {
        return (EngineKind::Threads, PlanReason::NamesSuffice { raw, scope });
    }
    let engine = if is_raw { raw } else { EngineKind::Threads };
    (engine, PlanReason::Cheaper { raw, is_raw, scope })
}

/// Whether the directory is the root of its file system, or of its btrfs subvolume.
fn is_whole(context: &MountContext<'_>) -> bool {
    let Some(mount) = context.mount else {
        return false;
    };
    match &mount.content.fstype[..] {
        b"btrfs" => context.top.meta.ino == FIRST_INODE,
        _ => context.top.is_mount_root && mount.content.fsroot == b"/",
    }
}

/// The estimated number of entries below a directory.
fn estimate(context: &MountContext<'_>) -> u64 {
    const MOST_PATHS: u32 = 64;
    // The seed is fixed, so that the same tree gives the same plan.
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut buffer = vec![0; BUFFER];
    let (mut total, mut paths, mut left) = (0.0, 0, EstimateBudget::ALL);
    while paths < MOST_PATHS && left.directories > 0 && left.entries > 0 {
        total += estimate_by_path(context, &mut random, &mut buffer, &mut left);
        paths += 1;
    }
    (total / f64::from(paths)) as u64
}

/// A budget: the number of directories and entries that may still be read for an estimate.
struct EstimateBudget {
    directories: u32,
    entries: u32,
}

impl EstimateBudget {
    /// Limits for an estimate: reading takes some tens of milliseconds, however large the
    /// directories are.
    const ALL: EstimateBudget = EstimateBudget {
        directories: 256,
        entries: 1 << 16,
    };
}

/// Follows one random path down the tree. The entries of each step count for all directories that
/// could have been chosen instead.
fn estimate_by_path(
    context: &MountContext<'_>,
    random: &mut u64,
    buffer: &mut [u8],
    left: &mut EstimateBudget,
) -> f64 {
    const DEEPEST: usize = 64;
    let (mut estimate, mut weight) = (0.0, 1.0);
    let mut name = c".".to_owned();
    let mut dir = None;
    for _ in 0..DEEPEST {
        let from = dir.as_ref().unwrap_or(&*context.top.fd);
        let Ok(fd) = scan(context.noatime, |how| openat2(from, &name, how, HERE)) else {
            break;
        };
        let mut here = DirectorySample::default();
        while let Ok(n @ 1..) = getdents64(&fd, buffer) {
            for entry in entries(&buffer[..n]) {
                here.entries += 1;
                here.names += entry.name.to_bytes().len() as u64;
                if entry.file_type == FileType::Directory {
                    here.directories += 1;
                    // Reservoir sampling: each subdirectory is chosen with the same probability.
                    *random ^= *random << 13;
                    *random ^= *random >> 7;
                    *random ^= *random << 17;
                    if random.is_multiple_of(here.directories)
                        && let Ok(chosen) = c_string(entry.name.to_bytes())
                    {
                        name = chosen;
                    }
                }
            }
            if here.entries >= DirectorySample::ENOUGH {
                weight *= here.share_of(&fd, context.statfs.magic);
                break;
            }
        }
        left.directories = left.directories.saturating_sub(1);
        left.entries = left.entries.saturating_sub(here.entries as u32);
        estimate += weight * here.entries as f64;
        if here.directories == 0 {
            break;
        }
        weight *= here.directories as f64;
        dir = Some(fd);
    }
    estimate
}

/// The entries that were read of a directory: all, or the first ones of a large directory.
#[derive(Default)]
struct DirectorySample {
    entries: u64,
    directories: u64,
    /// Sum of the lengths of the names, in bytes.
    names: u64,
}

impl DirectorySample {
    /// Number of entries that suffices to estimate the mean length of names in a directory.
    const ENOUGH: u64 = 4096;

    /// The ratio of the size of the whole directory to the part that was read; at least 1.
    fn share_of(&self, fd: &Fd, magic: u64) -> f64 {
        let size = fstat(fd, StatxMask::SIZE).map_or(0, |seen| seen.size);
        let read = match magic {
            // The size of a btrfs directory counts each name twice: in the index by hash and in the
            // one by number.
            BTRFS_SUPER_MAGIC => 2 * self.names,
            // Size of a directory record besides the name: inode number, lengths and padding, 14
            // bytes on average.
            _ => self.names + 14 * self.entries,
        };
        (size as f64 / read as f64).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::open_top;

    #[test]
    fn known_number_of_entries_is_not_estimated() {
        let top = open_top(b"/", 0).unwrap();
        let known = |entries| {
            let context = MountContext {
                expected: Some(entries),
                ..MountContext::new(&top, None)
            };
            cheaper(&context, EngineKind::Ext4)
        };
        assert_eq!(
            (known(10).0, known(1_000_000).0),
            (EngineKind::Threads, EngineKind::Ext4)
        );
        assert!(known(1_000_000).1.to_string().contains("about 1.0 million"));
        // If starting the engine is cheap, it pays for fewer entries.
        let few = |sink_syncs_first| {
            let context = MountContext {
                expected: Some(2000 * processors() as u64),
                sink_syncs_first,
                ..MountContext::new(&top, None)
            };
            cheaper(&context, EngineKind::Ext4).0
        };
        assert_eq!(
            (few(false), few(true)),
            (EngineKind::Threads, EngineKind::Ext4)
        );
    }
}
