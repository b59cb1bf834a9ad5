//! The token of btrfs: the generation of the subvolume.
//!
//! Every change to a subvolume, of a name, an attribute or data, goes into its tree, and a commit
//! rewrites the tree's root with the transaction number as its generation. After syncfs(2) nothing
//! is uncommitted. Generations only grow, across mounts and boots; the UUID ties them to the
//! subvolume. Nested subvolumes are separate parts.
//!
//! A file system restored from an image of its device can reach the same generation twice, with
//! different contents: so the time of the last change, in nanoseconds, is part of the state. And
//! inodes written after a generation count only if the mount is still the same, or if an inode last
//! written in that generation is unchanged: no other history leads to that state.

use std::fmt;

use gate::btrfs::get_subvol_info;
use ondisk::btrfs::{FIRST_INODE, LAST_INODE, Subvolume};
use walk::MountContext;
use walk::engine::btrfs::since::written_in;
use walk::entry::Time;

use super::mount::MountInstance;

/// The generation of a subvolume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Generation {
    /// The state of the subvolume. Two states are equal only if nothing has changed between them.
    pub(super) state: SubvolumeState,
    /// The mount when the token was taken; `None` if the kernel has no unique mount ids.
    pub(super) mount: Option<MountInstance>,
    /// Some inodes last written in this generation: inode number, ctime, atime.
    pub(super) last: Vec<(u64, Time, Time)>,
}

/// The state of a subvolume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SubvolumeState {
    uuid: [u8; 16],
    tree: u64,
    /// The last transaction that changed the subvolume; `ctime` is its time.
    generation: u64,
    ctime: Time,
}

impl Generation {
    pub(super) fn take(context: &MountContext<'_>) -> Option<Generation> {
        /// Number of inodes stored in a token: enough that most likely one is unchanged at the next
        /// dump.
        const INODES: usize = 8;
        let info = get_subvol_info(&context.top.fd).ok()?;
        let subvolume = Subvolume::parse(&info)?;
        let state = SubvolumeState {
            uuid: subvolume.uuid,
            tree: subvolume.tree,
            generation: subvolume.generation,
            ctime: subvolume.ctime,
        };
        // The search fails without CAP_SYS_ADMIN, but so does the later search for written inodes.
        let inodes = FIRST_INODE..=LAST_INODE;
        let last = written_in(&context.top.fd, state.tree, inodes, state.generation);
        let mut last = last.unwrap_or_default();
        last.truncate(INODES);
        let mount = MountInstance::current(context);
        Some(Generation { state, mount, last })
    }

    /// The generation number, if the subvolume is the same and has certainly evolved from this
    /// state.
    pub(crate) fn number(&self, context: &MountContext<'_>, subvolume: &Subvolume) -> Option<u64> {
        let SubvolumeState {
            uuid,
            tree,
            generation,
            ..
        } = self.state;
        if (uuid, tree) != (subvolume.uuid, subvolume.tree) {
            return None;
        }
        let is_still_so = |inode: &(u64, Time, Time)| {
            written_in(&context.top.fd, tree, inode.0..=inode.0, generation)
                .is_ok_and(|now| now.contains(inode))
        };
        let is_of_mount = || self.mount.as_ref().is_some_and(|it| it.is_current(context));
        (is_of_mount() || self.last.iter().any(is_still_so)).then_some(generation)
    }

    pub(super) fn parse(text: &str) -> Option<Generation> {
        let (uuid, rest) = text.split_once(" tree ")?;
        let (tree, rest) = rest.split_once(" generation ")?;
        let (generation, rest) = rest.split_once(" at ")?;
        let (ctime, rest) = rest.split_once(" on ")?;
        let (mount, last) = rest.split_once(" last")?;
        let inode = |text: &str| {
            let (ino, times) = text.split_once(':')?;
            let (ctime, atime) = times.split_once(':')?;
            Some((ino.parse().ok()?, parse_time(ctime)?, parse_time(atime)?))
        };
        Some(Generation {
            state: SubvolumeState {
                uuid: u128::from_str_radix(uuid, 16).ok()?.to_be_bytes(),
                tree: tree.parse().ok()?,
                generation: generation.parse().ok()?,
                ctime: parse_time(ctime)?,
            },
            mount: MountInstance::parse(mount),
            last: last.split(' ').filter_map(inode).collect(),
        })
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SubvolumeState {
            uuid,
            tree,
            generation,
            ctime,
        } = self.state;
        let (uuid, ctime) = (u128::from_be_bytes(uuid), time_text(ctime));
        let mount = self.mount.as_ref().map(MountInstance::to_string);
        let mount = mount.unwrap_or_default();
        write!(
            f,
            "{uuid:032x} tree {tree} generation {generation} at {ctime} on {mount} last"
        )?;
        self.last.iter().try_for_each(|&(ino, ctime, atime)| {
            write!(f, " {ino}:{}:{}", time_text(ctime), time_text(atime))
        })
    }
}

fn time_text(time: Time) -> String {
    format!("{}.{:09}", time.sec, time.nsec)
}

fn parse_time(text: &str) -> Option<Time> {
    let (sec, nsec) = text.split_once('.')?;
    Some(Time::new(sec.parse().ok()?, nsec.parse().ok()?))
}
