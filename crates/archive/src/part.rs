//! The file systems that a tree is made of, by what stays when device numbers change.

use gate::btrfs::BTRFS_SUPER_MAGIC;
use gate::fs::{Open, fs_uuid, fstatfs};
use gate::long::open_long;
use gate::sync::{Mutex, MutexGuard};
use ondisk::Dev;
use serde::{Deserialize, Serialize};
use walk::entry::append;
use walk::{EngineKind, Meta, MountContext};

use crate::error::FileSystemId;
use crate::stored;
use crate::token::Token;

/// A mount, or a subvolume in one, that a tree is made of. All entries of a part have their inode
/// numbers from one space. The fields are in the order of their names in a catalog.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Part {
    /// `st_dev`, as it was.
    #[serde(with = "stored::dev")]
    pub dev: Dev,
    /// The engine that walked it; `None` for what was not entered, or was found by the way.
    pub engine: Option<String>,
    /// What the file system calls itself in statfs(2).
    pub fsid: [u32; 2],
    /// The part of the file system that is mounted, where the mount table says.
    #[serde(flatten, with = "stored::fsroot")]
    pub fsroot: Option<Vec<u8>>,
    /// Type of the file system, where the mount table says.
    #[serde(flatten, with = "stored::fstype")]
    pub fstype: Option<Vec<u8>>,
    /// Inode number of the directory at which it begins.
    pub ino: u64,
    /// Number of the file system's type.
    pub magic: u64,
    /// Where it begins, below DIR; empty for DIR's own.
    #[serde(flatten, with = "stored::path")]
    pub path: Vec<u8>,
    /// The device or other source, where the mount table says.
    #[serde(flatten, with = "stored::source")]
    pub source: Option<Vec<u8>>,
    /// The token of the file system, before anything in it was read.
    #[serde(with = "stored::token")]
    pub token: Option<Token>,
    /// The number of the DIR that it was come upon in.
    pub top: u32,
    /// Its UUID, where the kernel gives it.
    #[serde(with = "stored::uuid")]
    pub uuid: Option<[u8; 16]>,
}

impl Part {
    /// Whether both are of one file system (on btrfs, of one subvolume), so that the same inode
    /// number means the same file.
    pub fn is_same_file_system(&self, other: &Part) -> bool {
        if self.magic != other.magic {
            return false;
        }
        // The UUID is the best; without it, what statfs says, which on some is but the device's
        // number; at last the source.
        match (self.uuid, other.uuid) {
            // On btrfs each subvolume has inode numbers of its own, and the number of the subvolume
            // is in `f_fsid`.
            (Some(a), Some(b)) => {
                a == b && (self.magic != BTRFS_SUPER_MAGIC || self.fsid == other.fsid)
            }
            _ if self.fsid != [0; 2] && other.fsid != [0; 2] => self.fsid == other.fsid,
            _ => self.fstype == other.fstype && self.source == other.source,
        }
    }

    /// What tells its file system from others, for messages.
    pub(crate) fn file_system_id(&self) -> FileSystemId {
        FileSystemId {
            fstype: self.fstype.clone(),
            uuid: self.uuid,
            fsid: self.fsid,
        }
    }

    /// The number of this part among those of a catalog: of the same file system at the same place,
    /// or else anywhere.
    pub(crate) fn among(&self, old: &[Part]) -> Option<u32> {
        let mut same = (0..)
            .zip(old)
            .filter(|(_, old)| old.is_same_file_system(self))
            .peekable();
        let any = same.peek().map(|(at, _)| *at);
        same.find(|(_, old)| (old.top, &old.path) == (self.top, &self.path))
            .map(|(at, _)| at)
            .or(any)
    }

    pub(crate) fn from_context(root: &[u8], ground: &MountContext<'_>, by: EngineKind) -> Part {
        let top = ground.top;
        let content = ground.mount.map(|mount| &mount.content);
        Part {
            top: 0,
            path: relative(root, &top.path).to_vec(),
            fstype: content.map(|c| c.fstype.clone()),
            source: content.and_then(|c| c.source.clone()),
            fsroot: content.map(|c| c.fsroot.clone()),
            magic: ground.statfs.magic,
            fsid: ground.statfs.fsid,
            uuid: fs_uuid(&top.fd)
                .ok()
                .flatten()
                .filter(|uuid| *uuid != [0; 16]),
            dev: top.meta.dev,
            ino: top.meta.ino,
            engine: Some(by.name().to_owned()),
            token: None,
        }
    }

    /// Of a name at which something begins that no job was made for: a subvolume, or what is
    /// mounted on a file.
    fn from_path(root: &[u8], path: &[u8], meta: &Meta) -> Part {
        let seen = open_long(path, Open::PATH | Open::NOFOLLOW)
            .and_then(|fd| fstatfs(&fd))
            .ok();
        Part {
            path: relative(root, path).to_vec(),
            magic: seen.map_or(0, |s| s.magic),
            fsid: seen.map_or([0; 2], |s| s.fsid),
            dev: meta.dev,
            ino: meta.ino,
            ..Part::default()
        }
    }
}

/// A name below `root`, which it begins with.
pub(crate) fn relative<'a>(root: &[u8], path: &'a [u8]) -> &'a [u8] {
    let mut rest = path.strip_prefix(root).unwrap_or(path);
    while let [b'/', tail @ ..] = rest {
        rest = tail;
    }
    rest
}

/// The parts of a walk, as they come.
#[derive(Debug)]
pub(crate) struct Parts {
    /// Each DIR, as it was given.
    roots: Vec<Vec<u8>>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The DIR that is being walked, by its number.
    top: usize,
    /// Each with the id of its mount.
    parts: Vec<(u64, Part)>,
}

impl Parts {
    pub(crate) fn new(roots: Vec<Vec<u8>>) -> Parts {
        Parts {
            roots,
            known: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    fn root(&self, top: usize) -> &[u8] {
        self.roots.get(top).map_or(b"", |root| root)
    }

    /// What comes from now on is in another DIR.
    pub(crate) fn turn_to(&self, top: usize) {
        self.known().top = top;
    }

    /// A mount is about to be walked. With `with_token`, what is dirty in it is written first, and
    /// its token taken.
    pub(crate) fn begin(&self, ground: &MountContext<'_>, by: EngineKind, with_token: bool) {
        let mut known = self.known();
        let top = known.top;
        let mut part = Part {
            top: top as u32,
            ..Part::from_context(self.root(top), ground, by)
        };
        let mount = ground.top.meta.mount;
        // What has been read already may have changed since: a token that is taken now would not
        // know. One that was taken before that does.
        let before = known
            .parts
            .iter()
            .find(|(other, before)| *other == mount && before.dev == part.dev);
        part.token = match before {
            Some((_, before)) => before.token.clone(),
            None if with_token && !known.parts.iter().any(|(other, _)| *other == mount) => {
                Token::take(ground)
            }
            None => None,
        };
        known.parts.push((mount, part));
    }

    /// The number of the part that an entry is in. `last` is for the caller to keep, one for each
    /// thread.
    pub(crate) fn number(
        &self,
        last: &mut Option<Last>,
        meta: &Meta,
        dir: &[u8],
        name: &[u8],
    ) -> u32 {
        if let Some(last) = last
            && (last.mount, last.dev) == (meta.mount, meta.dev)
        {
            return last.part;
        }
        let mut known = self.known();
        let place = known
            .parts
            .iter()
            .position(|(mount, part)| (*mount, part.dev) == (meta.mount, meta.dev));
        let part = place.unwrap_or_else(|| {
            let mut path = dir.to_vec();
            append(&mut path, name);
            let part = Part {
                top: known.top as u32,
                ..Part::from_path(self.root(known.top), &path, meta)
            };
            known.parts.push((meta.mount, part));
            known.parts.len() - 1
        });
        let part = u32::try_from(part).unwrap_or(u32::MAX);
        *last = Some(Last {
            mount: meta.mount,
            dev: meta.dev,
            part,
        });
        part
    }

    /// One of them.
    pub(crate) fn get(&self, number: u32) -> Option<Part> {
        self.known()
            .parts
            .get(number as usize)
            .map(|(_, part)| part.clone())
    }

    /// All of them. `by` are the engines that have walked those that were begun, in that order: it
    /// may have been another one in the end.
    pub(crate) fn all(&self, by: impl IntoIterator<Item = EngineKind>) -> Vec<Part> {
        let mut all: Vec<Part> = self
            .known()
            .parts
            .iter()
            .map(|(_, part)| part.clone())
            .collect();
        let begun = all.iter_mut().filter(|part| part.engine.is_some());
        begun
            .zip(by)
            .for_each(|(part, by)| part.engine = Some(by.name().to_owned()));
        all
    }
}

/// The part that was asked for last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Last {
    mount: u64,
    dev: Dev,
    part: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_below() {
        for (root, path, rest) in [
            ("/", "/usr", "usr"),
            (".", "./a/b", "a/b"),
            ("a", "a", ""),
            ("a/", "a/b", "b"),
            ("a", "a/b", "b"),
        ] {
            assert_eq!(relative(root.as_bytes(), path.as_bytes()), rest.as_bytes());
        }
    }

    #[test]
    fn a_file_system_is_known_by_what_stays() {
        let one = Part {
            magic: 1,
            fsid: [5, 0],
            uuid: Some([1; 16]),
            dev: (8, 1).into(),
            ..Part::default()
        };
        assert!(one.is_same_file_system(&Part {
            fsid: [6, 0],
            dev: (8, 2).into(),
            ..one.clone()
        }));
        assert!(!one.is_same_file_system(&Part {
            uuid: Some([2; 16]),
            ..one.clone()
        }));
        assert!(!one.is_same_file_system(&Part {
            magic: 2,
            ..one.clone()
        }));
        assert!(one.is_same_file_system(&Part {
            uuid: None,
            ..one.clone()
        }));
        let subvolume = Part {
            magic: BTRFS_SUPER_MAGIC,
            ..one.clone()
        };
        assert!(!subvolume.is_same_file_system(&Part {
            fsid: [6, 0],
            ..subvolume.clone()
        }));
        let nameless = Part {
            fsid: [0; 2],
            uuid: None,
            source: Some(b"server:/x".to_vec()),
            ..one
        };
        assert!(!nameless.is_same_file_system(&Part {
            source: None,
            ..nameless.clone()
        }));
    }
}
