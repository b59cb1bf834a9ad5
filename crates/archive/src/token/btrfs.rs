//! btrfs: the generation of the subvolume.
//!
//! Every change to a subvolume, of a name, an attribute or data, goes into its tree, and a commit
//! writes that tree's root anew, with the number of the transaction as its generation. After
//! syncfs(2) nothing waits to be committed. Generations only grow, over mounts and boots as well;
//! the UUID of the subvolume ties them to it. Subvolumes below it are parts of their own.
//!
//! A file system that was restored from an image of its device can reach the same generation twice,
//! with other contents: so the time of the last change, to the nanosecond, is part of the state. And
//! what was written after a generation counts only if the mount is still the same, or an inode that
//! was last written in that generation is still as it was: no other history leads to that.

use std::fmt;

use gate::btrfs::get_subvol_info;
use ondisk::btrfs::{FIRST_INODE, LAST_INODE, Subvolume};
use walk::MountContext;
use walk::engine::btrfs::since::written_in;
use walk::entry::Time;

use super::mount::MountInstance;

/// The generation of a subvolume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    /// What must be the same for nothing to have changed.
    pub state: State,
    /// The mount that it was taken on; `None` if the kernel does not give mounts unique ids.
    pub mount: Option<MountInstance>,
    /// Some of the inodes that were written in that generation.
    pub last: Vec<Note>,
}

/// The state of a subvolume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// Of the subvolume.
    pub uuid: [u8; 16],
    /// The number of its tree.
    pub tree: u64,
    /// The transaction that last changed it.
    pub generation: u64,
    /// The time of that change.
    pub ctime: Time,
}

/// An inode that was written in the last generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Note {
    /// Its number.
    pub ino: u64,
    /// Its last change.
    pub ctime: Time,
    /// Its last access.
    pub atime: Time,
}

impl From<&(u64, Time, Time)> for Note {
    fn from(&(ino, ctime, atime): &(u64, Time, Time)) -> Note {
        Note { ino, ctime, atime }
    }
}

impl Token {
    pub(super) fn take(context: &MountContext<'_>) -> Option<Token> {
        /// Of so many, one most likely stays as it is until the next dump.
        const NOTES: usize = 8;
        let info = get_subvol_info(&context.top.fd).ok()?;
        let Subvolume {
            uuid,
            tree,
            generation,
            ctime,
            ..
        } = Subvolume::parse(&info)?;
        // This fails without CAP_SYS_ADMIN; but so does the question what was written since.
        let inodes = FIRST_INODE..=LAST_INODE;
        let last = written_in(&context.top.fd, tree, inodes, generation).unwrap_or_default();
        Some(Token {
            state: State {
                uuid,
                tree,
                generation,
                ctime: Time {
                    sec: ctime.sec,
                    nsec: ctime.nsec,
                },
            },
            mount: MountInstance::current(context),
            last: last.iter().take(NOTES).map(Note::from).collect(),
        })
    }

    /// The generation, if the token is of this subvolume, and the subvolume has certainly come from
    /// that state.
    pub(crate) fn generation(
        &self,
        context: &MountContext<'_>,
        subvolume: &Subvolume,
    ) -> Option<u64> {
        let State {
            uuid,
            tree,
            generation,
            ..
        } = self.state;
        if (uuid, tree) != (subvolume.uuid, subvolume.tree) {
            return None;
        }
        let is_still_so = |note: &Note| {
            let inode = note.ino..=note.ino;
            written_in(&context.top.fd, tree, inode, generation)
                .is_ok_and(|now| now.iter().any(|now| Note::from(now) == *note))
        };
        let is_of_mount = || self.mount.as_ref().is_some_and(|it| it.is_current(context));
        (is_of_mount() || self.last.iter().any(is_still_so)).then_some(generation)
    }

    pub(super) fn parse(text: &str) -> Option<Token> {
        let (uuid, rest) = text.split_once(" tree ")?;
        let (tree, rest) = rest.split_once(" generation ")?;
        let (generation, rest) = rest.split_once(" at ")?;
        let (ctime, rest) = rest.split_once(" on ")?;
        let (mount, last) = rest.split_once(" last")?;
        Some(Token {
            state: State {
                uuid: u128::from_str_radix(uuid, 16).ok()?.to_be_bytes(),
                tree: tree.parse().ok()?,
                generation: generation.parse().ok()?,
                ctime: parse_time(ctime)?,
            },
            mount: MountInstance::parse(mount),
            last: last.split(' ').filter_map(parse_note).collect(),
        })
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let State {
            uuid,
            tree,
            generation,
            ctime,
        } = self.state;
        let uuid = u128::from_be_bytes(uuid);
        let Time { sec, nsec } = ctime;
        write!(
            f,
            "{uuid:032x} tree {tree} generation {generation} at {sec}.{nsec:09} on "
        )?;
        if let Some(mount) = &self.mount {
            mount.fmt(f)?;
        }
        f.write_str(" last")?;
        self.last.iter().try_for_each(|note| {
            let Note { ino, ctime, atime } = note;
            write!(
                f,
                " {ino}:{}.{:09}:{}.{:09}",
                ctime.sec, ctime.nsec, atime.sec, atime.nsec
            )
        })
    }
}

fn parse_note(text: &str) -> Option<Note> {
    let (ino, times) = text.split_once(':')?;
    let (ctime, atime) = times.split_once(':')?;
    Some(Note {
        ino: ino.parse().ok()?,
        ctime: parse_time(ctime)?,
        atime: parse_time(atime)?,
    })
}

fn parse_time(text: &str) -> Option<Time> {
    let (sec, nsec) = text.split_once('.')?;
    Some(Time {
        sec: sec.parse().ok()?,
        nsec: nsec.parse().ok()?,
    })
}
