//! Finds files in a tree that are not in the archive.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};

use base::Warning;
use base::directory::each_entry;
use base::path::split;
use gate::fs::{Attributes, Open, StatxMask, fstat, lstatat};
use gate::long::c_string;
use gate::{Errno, Fd, Gate};
use ondisk::pax::dumpdir::{self, Code};
use walk::FileType;
use walk::entry::{append, joined};

use super::difference::{Difference, TreeAccess};
use super::known::ArchivedFiles;
use super::tree::Tree;
use crate::list::plain;
use crate::warning::WarningKind;

/// Prefix of member names for globs: a glob that begins with a slash, as for a dump of an absolute
/// SRC, matches the whole name, which has no slash at its beginning.
const ROOT: &[u8] = b"/";

impl Tree {
    /// Warns of entries of a directory that the dumpdir of its member does not list.
    pub(super) fn find_unlisted(&self, name: &[u8], list: &[u8], mut tell: impl FnMut(Warning)) {
        let (path, Some(entries)) = (plain(name), dumpdir::entries(list)) else {
            return;
        };
        let Some(Listing {
            dir,
            mut names,
            is_mounted,
        }) = self.listing(&path, &mut tell)
        else {
            return;
        };
        // A mount point that the dump did not enter is an empty directory in the archive.
        if is_mounted && list.iter().all(|&byte| byte == 0) {
            return;
        }
        for (_, name) in entries.filter(|(code, _)| matches!(code, Code::Y | Code::N | Code::D)) {
            if let Ok(name) = c_string(name) {
                names.remove(&name);
            }
        }
        let mut matcher = self.filter.matcher();
        matcher.enter(&joined(ROOT, &path));
        for name in names.iter().filter(|name| matcher.keeps(name.to_bytes())) {
            self.warn_of_unknown(&path, &dir, name, &mut tell);
        }
    }

    /// Warns of files in known directories that are not in the archive.
    pub(super) fn find_unknown(&self, known: &ArchivedFiles, mut tell: impl FnMut(Warning)) {
        let mut matcher = self.filter.matcher();
        // A stack of directories to read, each with the length of its parent's path, which is a
        // prefix of the last path.
        let mut left = vec![(0, Vec::new()); usize::from(!known.dirs.is_empty())];
        let mut path = Vec::new();
        while let Some((len, name)) = left.pop() {
            path.truncate(len);
            append(&mut path, &name);
            let is_dumped = known.dirs.get(&known.hash(&path)) == Some(&true);
            let Some(listed) = self.listing(&path, &mut tell) else {
                continue;
            };
            let mut below = path.clone();
            let (mut others, from) = (Vec::new(), left.len());
            let mut has_known = false;
            for name in &listed.names {
                below.truncate(path.len());
                append(&mut below, name.to_bytes());
                let number = known.hash(&below);
                let is_known = known.names.contains(&number);
                has_known |= is_known;
                if known.dirs.contains_key(&number) {
                    left.push((path.len(), name.to_bytes().to_vec()));
                } else if !is_known {
                    others.push(name);
                }
            }
            left[from..].reverse();
            // A mount point that the dump did not enter is an empty directory in the archive.
            if is_dumped && (has_known || !listed.is_mounted) {
                matcher.enter(&joined(ROOT, &path));
                let others = others.into_iter();
                for name in others.filter(|name| matcher.keeps(name.to_bytes())) {
                    self.warn_of_unknown(&path, &listed.dir, name, &mut tell);
                }
            }
        }
    }

    /// Warns of names in the dump's list of files (`--files-from`) that are not in the archive.
    /// `told` are the paths that already have a warning.
    pub(super) fn find_unmet(
        &self,
        known: &ArchivedFiles,
        told: &BTreeSet<Vec<u8>>,
        mut tell: impl FnMut(Warning),
    ) {
        let names = self.listed.iter().flat_map(|listed| listed.names());
        let unmet = names
            .enumerate()
            .filter(|(at, path)| !known.listed.contains(at) && !self.silent.has(path));
        for (_, path) in unmet {
            let (above, name) = split(path);
            let found = self
                .open_directory(above, Open::PATH)
                .and_then(|dir| Ok((dir, c_string(name)?)))
                .and_then(|(dir, name)| {
                    lstatat(&dir, &name, StatxMask::TYPE)?;
                    Ok((dir, name))
                });
            match found {
                Err(Errno::ENOENT | Errno::ENOTDIR) => {
                    tell(Warning::about(path, Difference::OnlyListed));
                }
                Err(errno) => {
                    let access = TreeAccess::ReadAttributes;
                    tell(Warning::failed(path, Gate::Statx, errno, access));
                }
                Ok(_) if above_or_at(path).any(|path| told.contains(path)) => {}
                Ok((dir, name)) => self.warn_of_unknown(above, &dir, &name, &mut tell),
            }
        }
    }

    /// Lists a directory of the tree. `None` on failure; if it was removed or replaced, a warning
    /// about its member was already given. `None` also on a mount that does not answer.
    fn listing(&self, path: &[u8], tell: &mut impl FnMut(Warning)) -> Option<Listing> {
        if self.silent.has(path) {
            return None;
        }
        let failed = |(gate, errno)| {
            let kind =
                WarningKind::not_opened(errno, &joined(&self.dir, path), FileType::Directory);
            if matches!(kind, WarningKind::Unreadable) {
                let access = TreeAccess::ListDirectory;
                tell(Warning::failed(path, gate, errno, access));
            }
        };
        self.list(path).map_err(failed).ok()
    }

    pub(super) fn list(&self, path: &[u8]) -> Result<Listing, (Gate, Errno)> {
        // A listing must not change the access time of a directory, as the dump does not.
        let dir = walk::scan(true, |how| self.open_directory(path, how));
        let dir = dir.map_err(|e| (Gate::Openat2, e))?;
        let seen = fstat(&dir, StatxMask::TYPE).map_err(|e| (Gate::Statx, e))?;
        let is_mounted = seen.attributes.contains(Attributes::MOUNT_ROOT);
        let mut names = BTreeSet::new();
        let listed = each_entry(&dir, |entry| {
            names.insert(entry.name.to_owned());
        });
        listed.map_err(|e| (Gate::Getdents64, e))?;
        let tags = self.filter.tags().find(&dir);
        names.retain(|name: &CString| tags.keep(name.to_bytes()));
        Ok(Listing {
            dir,
            names,
            is_mounted,
        })
    }

    /// Warns of a file that is not in the archive, unless it is excluded, a socket (which tar cannot
    /// store), an archive file, on a mount that does not answer, or outside of the dump's list of
    /// files.
    fn warn_of_unknown(&self, path: &[u8], dir: &Fd, name: &CStr, tell: &mut impl FnMut(Warning)) {
        let mut whole = path.to_vec();
        append(&mut whole, name.to_bytes());
        let is_outside = self.listed.as_ref().is_some_and(|it| !it.has(&whole));
        if is_outside || self.silent.has(&whole) {
            return;
        }
        let Ok(seen) = lstatat(dir, name, StatxMask::BASIC_STATS) else {
            return;
        };
        let is_socket = FileType::from_mode(seen.mode) == FileType::Socket;
        if !is_socket && !self.archives.contains(&(seen.dev, seen.ino)) {
            tell(Warning::about(&whole, Difference::NotInArchive));
        }
    }
}

/// A path and its ancestors.
fn above_or_at(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(path), |&path| match split(path).0 {
        b"" => None,
        above => Some(above),
    })
}

/// The entries of a directory in the tree.
pub(super) struct Listing {
    dir: Fd,
    pub(super) names: BTreeSet<CString>,
    is_mounted: bool,
}
