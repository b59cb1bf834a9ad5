//! Which engine, and why.
//!
//! `threads` costs some time for each entry below the directory. An engine below the file API costs
//! less for each, but a syncfs(2) before it begins; and `btrfs` goes through all inodes of the file
//! system, whatever share of it the directory holds. The file system may know how many there are;
//! how many are below the directory a catalog may know, or else it is guessed from a few random
//! ways down the tree (Knuth 1975, "Estimating the efficiency of backtrack programs"). A wrong
//! guess costs time, nothing else.

use gate::Fd;
use gate::btrfs::BTRFS_SUPER_MAGIC;
use gate::fs::{At, Want, getdents64, openat2, statx};
use gate::long::c_string;
use gate::machine::processors;
use ondisk::dirent::{EntryType, entries};

use crate::engine::stat::BUFFER;
use crate::engine::{EngineKind, MountContext, Refusal};
use crate::job::{HERE, scan};

/// The engine chosen for a place.
#[derive(Clone, Debug)]
pub struct Plan {
    /// It.
    pub by: EngineKind,
    /// Why it and not another.
    pub why: String,
    /// For each engine, why it cannot work there, or that it can.
    pub engines: Vec<(EngineKind, Result<(), Refusal>)>,
}

/// What an engine costs by this plan, in microseconds for each entry below the directory (`btrfs`:
/// for each inode of the file system), on one processor with everything in the cache: measured on a
/// small machine, and good enough to choose by on others, where all is faster or slower alike.
fn price(by: EngineKind) -> f64 {
    match by {
        EngineKind::Ext4 => 0.15,
        EngineKind::Bulkstat => 0.75,
        EngineKind::Btrfs => 0.6,
        EngineKind::Threads | EngineKind::Stat | EngineKind::PerCall => 1.0,
    }
}

/// What it costs to begin below the file API, in milliseconds: above all a syncfs(2), which takes
/// some 0.2 where nothing is dirty, and long where much is.
fn start(ground: &MountContext<'_>) -> f64 {
    if ground.is_written { 0.5 } else { 4.0 }
}

/// Chooses.
pub fn plan(ground: &MountContext<'_>) -> Plan {
    let engines: Vec<_> = EngineKind::ALL
        .into_iter()
        .map(|by| (by, by.engine().possible(ground)))
        .collect();
    let below_the_api = engines.iter().find(|(by, possible)| {
        !matches!(by, EngineKind::Threads | EngineKind::Stat) && possible.is_ok()
    });
    let (by, why) = match below_the_api {
        Some(&(raw, _)) => weigh(ground, raw),
        None => (EngineKind::Threads, no_other(ground, &engines)),
    };
    Plan { by, why, engines }
}

fn no_other(ground: &MountContext<'_>, engines: &[(EngineKind, Result<(), Refusal>)]) -> String {
    let Some(own) = ground.mount.and_then(|mount| own_of(&mount.content.fstype)) else {
        return "its calls to the file API are shared out among threads; this file system has no other door".to_owned();
    };
    let refusal = engines
        .iter()
        .find(|(by, _)| *by == own)
        .and_then(|(_, possible)| possible.as_ref().err());
    format!(
        "{} cannot work here: {}",
        own.name(),
        refusal.map_or("", |refusal| &refusal.0)
    )
}

/// The engine that is for one type of file system only.
pub(crate) fn own_of(fstype: &[u8]) -> Option<EngineKind> {
    match fstype {
        b"ext4" | b"ext3" | b"ext2" => Some(EngineKind::Ext4),
        b"xfs" => Some(EngineKind::Bulkstat),
        b"btrfs" => Some(EngineKind::Btrfs),
        _ => None,
    }
}

/// Weighs an engine below the file API against `threads`.
fn weigh(ground: &MountContext<'_>, raw: EngineKind) -> (EngineKind, String) {
    let used = ground.statfs.files.saturating_sub(ground.statfs.files_free);
    let whole = is_whole(ground);
    let below = if whole && used > 0 {
        used
    } else {
        ground.expected.unwrap_or_else(|| guess(ground))
    };
    // Of btrfs nobody knows how many inodes it has: there are at least those below the directory.
    let all = used.max(below);
    let inodes = if raw == EngineKind::Btrfs { all } else { below };
    let cost = |by: EngineKind, each: u64| each as f64 * price(by) / 1000.0 / processors() as f64;
    let (by_raw, by_threads) = (
        start(ground) + cost(raw, inodes),
        cost(EngineKind::Threads, below),
    );
    let about = |n: u64| match n {
        0..1000 => "under 1,000".to_owned(),
        1000..1_000_000 => format!("about {},000", (n + 500) / 1000),
        _ => format!("about {:.1} million", n as f64 / 1e6),
    };
    let name = raw.name();
    let share = match (whole, used) {
        (true, _) => format!(
            "the whole file system is asked for, {} entries",
            about(below)
        ),
        (false, 0) => format!("{} entries are asked for", about(below)),
        (false, _) => format!("{} of {} entries are asked for", about(below), about(all)),
    };
    if by_raw < by_threads {
        (
            raw,
            format!("{share}: for so many {name} costs less, its start included"),
        )
    } else {
        (
            EngineKind::Threads,
            format!("{share}: for so few the start of {name} would cost more than it saves"),
        )
    }
}

/// Whether the directory is the root of its file system, or of its btrfs subvolume.
fn is_whole(ground: &MountContext<'_>) -> bool {
    const BTRFS_FIRST_FREE_OBJECTID: u64 = 256;
    let Some(mount) = ground.mount else {
        return false;
    };
    match &mount.content.fstype[..] {
        b"btrfs" => ground.top.meta.ino == BTRFS_FIRST_FREE_OBJECTID,
        _ => ground.top.is_mount_root && mount.content.fsroot == b"/",
    }
}

/// About how many entries are below a directory, from some random ways down.
fn guess(ground: &MountContext<'_>) -> u64 {
    /// At most so many ways.
    const WAYS: u32 = 64;
    // Always the same ways, so that the same tree gives the same plan.
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut buffer = vec![0; BUFFER];
    let (mut total, mut ways, mut left) = (0.0, 0, Effort::ALL);
    while ways < WAYS && !left.is_spent() {
        total += one_way(ground, &mut random, &mut buffer, &mut left);
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
    ground: &MountContext<'_>,
    random: &mut u64,
    buffer: &mut [u8],
    left: &mut Effort,
) -> f64 {
    const DEEPEST: usize = 64;
    let (mut seen, mut weight) = (0.0, 1.0);
    let mut name = c".".to_owned();
    let mut dir = None;
    for _ in 0..DEEPEST {
        let from = dir.as_ref().unwrap_or(&ground.top.fd);
        let Ok(fd) = scan(ground.noatime, |how| openat2(from, &name, how, HERE)) else {
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
                weight *= here.share_of(&fd, ground.statfs.magic);
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
    /// What of a directory tells how long its names are.
    const ENOUGH: u64 = 4096;

    /// How many times as much as was read there is in the directory, by its size.
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
                    ..MountContext::of(&top, None)
                },
                EngineKind::Ext4,
            )
        };
        assert_eq!(
            (known(10).0, known(1_000_000).0),
            (EngineKind::Threads, EngineKind::Ext4)
        );
        assert!(known(1_000_000).1.contains("about 1.0 million"));
        // Where it costs little to begin, fewer are worth it.
        let few = |is_written| {
            let ground = MountContext {
                expected: Some(2000 * processors() as u64),
                is_written,
                ..MountContext::of(&top, None)
            };
            weigh(&ground, EngineKind::Ext4).0
        };
        assert_eq!(
            (few(false), few(true)),
            (EngineKind::Threads, EngineKind::Ext4)
        );
    }
}
