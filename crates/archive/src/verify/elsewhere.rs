//! Detects that an archive is compared with the wrong directory: one level too deep, or too
//! shallow, or a different directory with the same entries.

use base::path::below;
use gate::fs::{AtFlags, StatxMask};
use gate::long::statx_long;
use mounts::root::absolute;
use walk::entry::{append, joined};

use super::known::ArchivedFiles;
use super::tree::Tree;
use crate::error::{Action, Error, ErrorKind};

impl Tree {
    /// Checks that some member is in the tree, or else that the first member is not in a directory
    /// nearby.
    ///
    /// # Errors
    /// The members are in a different directory, which the error names.
    pub(super) fn check_members(&mut self, known: &ArchivedFiles) -> Result<(), Error> {
        let Some(first) = known.first.first().filter(|_| known.is_empty()) else {
            return Ok(());
        };
        let member = first.clone();
        let kind = match self.find_elsewhere(first) {
            Some(dir) => ErrorKind::OtherTree { member, dir },
            None => match self.find_without_prefix(&known.first) {
                Some(prefix) => ErrorKind::OtherPrefix { member, prefix },
                None => return Ok(()),
            },
        };
        Err(Error::new(Action::CompareWith, &self.dir, kind))
    }

    /// The directory at the beginning of member names without which all of the first members are
    /// in the tree, as after a dump of a different directory with the same entries.
    fn find_without_prefix(&mut self, names: &[Vec<u8>]) -> Option<Vec<u8>> {
        /// Maximum number of components of the prefix: each takes a system call, which is the more
        /// expensive the longer the rest of the name.
        const MOST: usize = 64;
        let first = &names.first()?[..];
        let ends = first.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let ends = ends.map(|(at, _)| at).chain([first.len()]);
        let ends: Vec<usize> = ends.take(MOST).collect();
        for prefix in ends.into_iter().rev().map(|end| &first[..end]) {
            let rests = names.iter().filter_map(|name| below(prefix, name));
            let rests: Vec<&[u8]> = rests.filter(|rest| !rest.is_empty()).collect();
            let mut exists = |rest: &[u8]| self.spot(rest).and_then(|it| it.statx()).is_ok();
            if !rests.is_empty() && rests.into_iter().all(&mut exists) {
                return Some(prefix.to_vec());
            }
        }
        None
    }

    /// Searches for the directory of a member: an ancestor of the tree, if the member's name begins
    /// with the end of the tree's path; or the only subdirectory of the tree that has the member.
    fn find_elsewhere(&mut self, member: &[u8]) -> Option<Vec<u8>> {
        /// Maximum number of subdirectories searched.
        const MOST: usize = 10_000;
        let top = absolute(&self.dir)?;
        for at in (0..top.len()).rev().filter(|&at| top[at] == b'/') {
            let rest = member.strip_prefix(&top[at + 1..]);
            let dir = &top[..at.max(1)];
            let exists = |rest: &[u8]| {
                !self.silent.has(rest)
                    && statx_long(
                        &joined(dir, member),
                        AtFlags::SYMLINK_NOFOLLOW,
                        StatxMask::TYPE,
                    )
                    .is_ok()
            };
            if let Some(rest @ ([] | [b'/', ..])) = rest
                && exists(rest)
            {
                return Some(dir.to_vec());
            }
        }
        let names = self.list(b"").ok()?.names;
        let mut found = Vec::new();
        for name in names.iter().take(MOST) {
            let path = joined(name.to_bytes(), member);
            let spot = self.spot(&path);
            found.extend(spot.and_then(|spot| spot.statx()).is_ok().then_some(name));
        }
        let &[name] = &found[..] else {
            return None;
        };
        let mut dir = self.dir.clone();
        append(&mut dir, name.to_bytes());
        Some(dir)
    }
}
