//! Which engine, and why.
//!
//! `threads` costs some time for each entry below the directory. An engine below the file API costs
//! less for each, but a syncfs(2) before it begins; and `btrfs` goes through all inodes of the file
//! system, whatever share of it the directory holds. The file system may know how many there are;
//! how many are below the directory a catalog may know, or else it is guessed from a few random
//! ways down the tree (Knuth 1975, "Estimating the efficiency of backtrack programs"). A wrong
//! guess costs time, nothing else.

use std::fmt;

use gate::Fd;
use gate::btrfs::BTRFS_SUPER_MAGIC;
use gate::fs::{At, Want, getdents64, openat2, statx};
use gate::long::c_string;
use gate::machine::processors;
use ondisk::dirent::{EntryType, entries};

use crate::engine::stat::BUFFER;
use crate::engine::{MountContext, engine};
use crate::error::EngineRefusal;
use crate::job::{HERE, scan};
use crate::kind::EngineKind;

/// The engine chosen for a mount.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The engine.
    pub engine: EngineKind,
    /// Why it and not another.
    pub reason: PlanReason,
    /// For each engine, why it cannot work there, or that it can.
    pub engines: Vec<(EngineKind, Result<(), EngineRefusal>)>,
}

impl Plan {
    /// Why an engine cannot work there; `None` if it can.
    pub(crate) fn refusal(&self, engine: EngineKind) -> Option<&EngineRefusal> {
        let mut engines = self.engines.iter();
        engines.find_map(|(kind, possible)| possible.as_ref().err().filter(|_| *kind == engine))
    }
}

/// Why an engine was chosen for a mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PlanReason {
    /// It was requested.
    Requested,
    /// `threads`: no engine is faster on file systems of this type.
    NoFasterEngine,
    /// The first engine, which is for file systems of this type, cannot work here.
    Refused(EngineKind, EngineRefusal),
    /// The requested engine cannot work here; the plan chose another.
    RequestRefused {
        /// The requested engine.
        requested: EngineKind,
        /// Why it cannot work here.
        refusal: EngineRefusal,
        /// Why the other one was chosen.
        instead: Box<PlanReason>,
    },
    /// The chosen engine gave up before it had emitted anything; `threads` took its place.
    GaveUp(EngineKind, EngineRefusal),
    /// It costs less than the alternative: `threads`, or one below the file API.
    Cheaper {
        /// The engine below the file API, whether it was chosen or not.
        raw: EngineKind,
        /// Whether it was chosen.
        is_raw: bool,
        /// How much is walked.
        scope: Scope,
    },
}

/// How much of a file system a walk covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scope {
    /// About how many entries are walked.
    pub entries: u64,
    /// About how many the file system has, where it says so and not all of them are walked.
    pub total: Option<u64>,
    /// Whether the whole file system is walked.
    pub is_whole: bool,
}

impl fmt::Display for PlanReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanReason::Requested => f.write_str("it was asked for"),
            PlanReason::NoFasterEngine => f.write_str(
                "its calls to the file API are shared out among threads; this file system has no other door",
            ),
            PlanReason::Refused(engine, refusal) => {
                write!(f, "{} cannot work here: {refusal}", engine.name())
            }
            PlanReason::RequestRefused { requested, refusal, instead } => {
                write!(f, "{} cannot work here ({refusal}); {instead}", requested.name())
            }
            PlanReason::GaveUp(engine, refusal) => {
                write!(f, "{} could not do it: {refusal}", engine.name())
            }
            PlanReason::Cheaper { raw, is_raw: true, scope } => write!(
                f,
                "{scope}: for so many {} costs less, its start included",
                raw.name()
            ),
            PlanReason::Cheaper { raw, is_raw: false, scope } => write!(
                f,
                "{scope}: for so few the start of {} would cost more than it saves",
                raw.name()
            ),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = |n: u64| match n {
            0..1000 => "under 1,000".to_owned(),
            1000..1_000_000 => format!("about {},000", (n + 500) / 1000),
            _ => format!("about {:.1} million", n as f64 / 1e6),
        };
        let entries = about(self.entries);
        match (self.is_whole, self.total) {
            (true, _) => write!(f, "the whole file system is asked for, {entries} entries"),
            (false, None) => write!(f, "{entries} entries are asked for"),
            (false, Some(total)) => {
                write!(f, "{entries} of {} entries are asked for", about(total))
            }
        }
    }
}

/// What an engine costs by this plan, in microseconds for each entry below the directory (`btrfs`:
/// for each inode of the file system), on one processor with everything in the cache: measured on a
/// small machine, and good enough to choose by on others, where all is faster or slower alike.
fn price(engine: EngineKind) -> f64 {
    match engine {
        EngineKind::Ext4 => 0.15,
        EngineKind::Bulkstat => 0.75,
        EngineKind::Btrfs => 0.6,
        EngineKind::Threads | EngineKind::Stat | EngineKind::PerCall => 1.0,
    }
}

/// What it costs to begin below the file API, in milliseconds: above all a syncfs(2), which takes
/// some 0.2 where nothing is dirty, and long where much is.
fn start(context: &MountContext<'_>) -> f64 {
    if context.is_written { 0.5 } else { 4.0 }
}

/// Chooses an engine.
pub fn plan(context: &MountContext<'_>) -> Plan {
    let engines: Vec<_> = EngineKind::ALL
        .into_iter()
        .map(|kind| (kind, engine(kind).possible(context)))
        .collect();
    let below_the_api = engines.iter().find(|(kind, possible)| {
        !matches!(kind, EngineKind::Threads | EngineKind::Stat) && possible.is_ok()
    });
    let (engine, reason) = match below_the_api {
        Some(&(raw, _)) => weigh(context, raw),
        None => (EngineKind::Threads, why_threads(context, &engines)),
    };
    Plan {
        engine,
        reason,
        engines,
    }
}

/// Why no engine but `threads` can work.
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
    engines
        .iter()
        .filter(|(kind, _)| *kind == own)
        .find_map(|(_, possible)| possible.clone().err())
        .map_or(PlanReason::NoFasterEngine, |refusal| {
            PlanReason::Refused(own, refusal)
        })
}

/// Weighs an engine below the file API against `threads`.
fn weigh(context: &MountContext<'_>, raw: EngineKind) -> (EngineKind, PlanReason) {
    let used = context
        .statfs
        .files
        .saturating_sub(context.statfs.files_free);
    let is_whole = is_whole(context);
    let below = if is_whole && used > 0 {
        used
    } else {
        context.expected.unwrap_or_else(|| guess(context))
    };
    // btrfs does not report how many inodes it has: at least those below the directory.
    let all = used.max(below);
    let inodes = if raw == EngineKind::Btrfs { all } else { below };
    let cost =
        |kind: EngineKind, each: u64| each as f64 * price(kind) / 1000.0 / processors() as f64;
    let by_raw = start(context) + cost(raw, inodes);
    let is_raw = by_raw < cost(EngineKind::Threads, below);
    let scope = Scope {
        entries: below,
        total: (used > 0 && !is_whole).then_some(all),
        is_whole,
    };
    let engine = if is_raw { raw } else { EngineKind::Threads };
    (engine, PlanReason::Cheaper { raw, is_raw, scope })
}

/// Whether the directory is the root of its file system, or of its btrfs subvolume.
fn is_whole(context: &MountContext<'_>) -> bool {
    const BTRFS_FIRST_FREE_OBJECTID: u64 = 256;
    let Some(mount) = context.mount else {
        return false;
    };
    match &mount.content.fstype[..] {
        b"btrfs" => context.top.meta.ino == BTRFS_FIRST_FREE_OBJECTID,
        _ => context.top.is_mount_root && mount.content.fsroot == b"/",
    }
}

/// About how many entries are below a directory, from some random ways down.
fn guess(context: &MountContext<'_>) -> u64 {
    /// At most so many ways.
    const WAYS: u32 = 64;
    // Always the same ways, so that the same tree gives the same plan.
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut buffer = vec![0; BUFFER];
    let (mut total, mut ways, mut left) = (0.0, 0, Effort::ALL);
    while ways < WAYS && !left.is_spent() {
        total += one_way(context, &mut random, &mut buffer, &mut left);
        ways += 1;
    }
    (total / f64::from(ways)) as u64
}

/// What may yet be spent on a guess.
struct Effort {
    directories: u32,
    entries: u32,
}

impl Effort {
    /// So many of each are read within some tens of milliseconds, however large the directories
    /// are.
    const ALL: Effort = Effort {
        directories: 256,
        entries: 1 << 16,
    };

    fn is_spent(&self) -> bool {
        self.directories == 0 || self.entries == 0
    }
}

/// Goes down by a directory chosen at random each time. What is seen at a step counts for all the
/// directories that might have been chosen in its place.
fn one_way(
    context: &MountContext<'_>,
    random: &mut u64,
    buffer: &mut [u8],
    left: &mut Effort,
) -> f64 {
    const DEEPEST: usize = 64;
    let (mut seen, mut weight) = (0.0, 1.0);
    let mut name = c".".to_owned();
    let mut dir = None;
    for _ in 0..DEEPEST {
        let from = dir.as_ref().unwrap_or(&context.top.fd);
        let Ok(fd) = scan(context.noatime, |how| openat2(from, &name, how, HERE)) else {
            break;
        };
        let mut here = Beginning::default();
        while let Ok(n @ 1..) = getdents64(&fd, buffer) {
            for entry in entries(&buffer[..n]) {
                here.entries += 1;
                here.names += entry.name.to_bytes().len() as u64;
                if entry.entry_type == EntryType::Directory {
                    here.directories += 1;
                    // Each of them is chosen with the same likelihood.
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
            if here.entries >= Beginning::ENOUGH {
                // What it holds beside this counts as well: it is as what was seen.
                weight *= here.share_of(&fd, context.statfs.magic);
                break;
            }
        }
        left.directories = left.directories.saturating_sub(1);
        left.entries = left.entries.saturating_sub(here.entries as u32);
        seen += weight * here.entries as f64;
        if here.directories == 0 {
            break;
        }
        weight *= here.directories as f64;
        dir = Some(fd);
    }
    seen
}

/// What was read of a directory: all, or of a large one the beginning.
#[derive(Default)]
struct Beginning {
    entries: u64,
    directories: u64,
    /// Bytes of names.
    names: u64,
}

impl Beginning {
    /// Entries that suffice to estimate the mean length of the names in a directory.
    const ENOUGH: u64 = 4096;

    /// The size of the directory in relation to the part of it that was read; at least 1.
    fn share_of(&self, fd: &Fd, magic: u64) -> f64 {
        let size = statx(fd, c"", At::EMPTY_PATH, Want::SIZE).map_or(0, |seen| seen.size);
        let read = match magic {
            // There a directory has each name twice, by its hash and by its number, and nothing
            // else in its size.
            BTRFS_SUPER_MAGIC => 2 * self.names,
            // A name with its inode number, its lengths and what aligns it.
            _ => self.names + 14 * self.entries,
        };
        (size as f64 / read as f64).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traversal::open_top;

    /// One directory, and two plans: it is not read for either.
    #[test]
    fn what_is_known_need_not_be_guessed() {
        let top = open_top(b"/", 0).unwrap();
        let known = |entries| {
            weigh(
                &MountContext {
                    expected: Some(entries),
                    ..MountContext::new(&top, None)
                },
                EngineKind::Ext4,
            )
        };
        assert_eq!(
            (known(10).0, known(1_000_000).0),
            (EngineKind::Threads, EngineKind::Ext4)
        );
        assert!(known(1_000_000).1.to_string().contains("about 1.0 million"));
        // Where it costs little to begin, fewer are worth it.
        let few = |is_written| {
            let context = MountContext {
                expected: Some(2000 * processors() as u64),
                is_written,
                ..MountContext::new(&top, None)
            };
            weigh(&context, EngineKind::Ext4).0
        };
        assert_eq!(
            (few(false), few(true)),
            (EngineKind::Threads, EngineKind::Ext4)
        );
    }
}
