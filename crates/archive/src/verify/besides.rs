//! What is in a tree besides what the archive has of it.
//!
//! In a directory that was dumped there ought to be its members, or in an increment what its list
//! of names says. So each of these is known, by a hash with a seed that nobody can guess: memory
//! goes by the tree, whatever the archive says.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::hash::{BuildHasher, RandomState};
use std::os::fd::AsFd;

use gate::fs::{At, Attributes, Open, Want, getdents64, statx};
use gate::long::{c_string, open_beneath};
use gate::{Errno, Fd, Gate};
use mounts::Warning;
use ondisk::Dev;
use ondisk::dirent;
use ondisk::pax::dumpdir::{self, Code};
use walk::entry::append;
use walk::{Filter, Type};

use super::difference::{Difference, TreeAccess};

use super::Tree;

/// What an archive has of what is in a tree.
#[derive(Debug, Default)]
pub(super) struct Known {
    seed: RandomState,
    names: HashSet<u64>,
    /// The directories that are to be looked through. In those that are `true`, nothing else ought
    /// to be; the others are on the way to something.
    dirs: HashMap<u64, bool>,
}

impl Known {
    fn hash(&self, path: &[u8]) -> u64 {
        self.seed.hash_one(path)
    }

    /// There is something in the tree with the name of a member. `is_dumped` says that it is a
    /// directory, and that all that was in it is in this archive.
    pub(super) fn add(&mut self, name: &[u8], is_dumped: bool) {
        let path = plain(name);
        self.names.insert(self.hash(&path));
        let mut above = &path[..];
        while !above.is_empty() {
            above = &above[..above.iter().rposition(|&byte| byte == b'/').unwrap_or(0)];
            let number = self.hash(above);
            if self.dirs.contains_key(&number) {
                break;
            }
            self.dirs.insert(number, false);
        }
        if is_dumped {
            self.dirs.insert(self.hash(&path), true);
        }
    }
}

/// A name without what means nothing in it: slashes too many, and components that are a dot.
fn plain(name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(name.len());
    let parts = name
        .split(|&byte| byte == b'/')
        .filter(|part| !part.is_empty() && *part != b".");
    parts.for_each(|part| append(&mut path, part));
    path
}

/// What is in a tree and is not told of, all the same.
pub(super) struct Spared<'a> {
    /// The archive itself.
    pub(super) own: Option<(Dev, u64)>,
    /// What was left out on purpose.
    pub(super) filter: &'a Filter,
}

impl Tree {
    /// Tells of what is in a directory and not in the list of names that its member has.
    pub(super) fn unlisted(
        &self,
        name: &[u8],
        list: &[u8],
        spared: &Spared<'_>,
        mut tell: impl FnMut(Warning),
    ) {
        let (path, Some(entries)) = (plain(name), dumpdir::entries(list)) else {
            return;
        };
        // What is not there any more has been told of.
        let Ok(Listed { dir, mut names, .. }) = self.list(&path) else {
            return;
        };
        for (_, name) in entries.filter(|(code, _)| matches!(code, Code::Y | Code::N | Code::D)) {
            if let Ok(name) = c_string(name) {
                names.remove(&name);
            }
        }
        names
            .iter()
            .for_each(|name| unknown(&path, &dir, name, spared, &mut tell));
    }

    /// Tells of what is in the directories that are known, and is not known itself.
    pub(super) fn besides(
        &self,
        known: &Known,
        spared: &Spared<'_>,
        mut tell: impl FnMut(Warning),
    ) {
        let mut left: Vec<Vec<u8>> = if known.dirs.is_empty() {
            Vec::new()
        } else {
            vec![Vec::new()]
        };
        while let Some(path) = left.pop() {
            let is_dumped = known
                .dirs
                .get(&known.hash(&path))
                .copied()
                .unwrap_or_default();
            let Listed {
                dir,
                names,
                is_mounted,
            } = match self.list(&path) {
                Ok(listed) => listed,
                // It was there a moment ago, as something else, or it is a symlink by now.
                Err((_, Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP)) => continue,
                Err((gate, errno)) => {
                    tell(Warning::failed(
                        &path,
                        gate,
                        errno,
                        TreeAccess::ListDirectory,
                    ));
                    continue;
                }
            };
            let mut below = path.clone();
            let (mut others, from) = (Vec::new(), left.len());
            let mut has_known = false;
            for name in &names {
                below.truncate(path.len());
                append(&mut below, name.to_bytes());
                let number = known.hash(&below);
                let is_known = known.names.contains(&number);
                has_known |= is_known;
                if known.dirs.contains_key(&number) {
                    left.push(below.clone());
                } else if !is_known {
                    others.push(name);
                }
            }
            left[from..].reverse();
            // What was mounted when it was dumped, and not entered, is in the archive as an empty
            // directory.
            if is_dumped && (has_known || !is_mounted) {
                others
                    .into_iter()
                    .for_each(|name| unknown(&path, &dir, name, spared, &mut tell));
            }
        }
    }

    /// The names in a directory.
    fn list(&self, path: &[u8]) -> Result<Listed, (Gate, Errno)> {
        const BUFFER: usize = 64 << 10;
        let dir =
            open_beneath(self.top.as_fd(), path, Open::SCAN).map_err(|e| (Gate::Openat2, e))?;
        let seen = statx(&dir, c"", At::EMPTY_PATH, Want::TYPE).map_err(|e| (Gate::Statx, e))?;
        let is_mounted = seen.attributes.contains(Attributes::MOUNT_ROOT);
        let (mut names, mut buffer) = (BTreeSet::new(), vec![0; BUFFER]);
        loop {
            match getdents64(&dir, &mut buffer).map_err(|e| (Gate::Getdents64, e))? {
                0 => {
                    return Ok(Listed {
                        dir,
                        names,
                        is_mounted,
                    });
                }
                n => names.extend(dirent::entries(&buffer[..n]).map(|entry| entry.name.to_owned())),
            }
        }
    }
}

/// A directory in the tree.
struct Listed {
    dir: Fd,
    names: BTreeSet<CString>,
    /// Whether it is where something is mounted.
    is_mounted: bool,
}

/// Tells of a name that is in no archive, unless it is a socket, which none can hold, or is spared.
fn unknown(
    path: &[u8],
    dir: &Fd,
    name: &CStr,
    spared: &Spared<'_>,
    tell: &mut impl FnMut(Warning),
) {
    if !spared.filter.keeps(path, name.to_bytes()) {
        return;
    }
    let Ok(seen) = statx(
        dir,
        name,
        At::SYMLINK_NOFOLLOW | At::NO_AUTOMOUNT,
        Want::BASIC_STATS,
    ) else {
        return;
    };
    if Type::from_mode(seen.mode) == Type::Socket || spared.own == Some((seen.dev.into(), seen.ino))
    {
        return;
    }
    let mut whole = path.to_vec();
    append(&mut whole, name.to_bytes());
    tell(Warning::about(&whole, Difference::NotInArchive));
}

#[cfg(test)]
mod tests {
    use super::{Known, plain};

    #[test]
    fn names_for_the_same() {
        for name in ["a/b", "./a/b", "/a//b/", "a/./b/."] {
            assert_eq!(plain(name.as_bytes()), b"a/b", "{name}");
        }
        assert_eq!(plain(b"./"), b"");
    }

    #[test]
    fn what_is_on_the_way_is_looked_through() {
        let mut known = Known::default();
        known.add(b"a/b/c/", true);
        known.add(b"a/b/c/d", false);
        let is_dumped = |name: &str| known.dirs.get(&known.hash(name.as_bytes())).copied();
        let found = ["", "a", "a/b", "a/b/c"].map(is_dumped);
        assert_eq!(found, [Some(false), Some(false), Some(false), Some(true)]);
        assert!(known.names.contains(&known.hash(b"a/b/c/d")));
    }
}
