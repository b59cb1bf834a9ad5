//! Detects that an archive is compared with the wrong directory: one level too deep, or too
//! shallow.

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
    pub(super) fn check_members(
        &mut self,
        first: Option<&[u8]>,
        known: &ArchivedFiles,
    ) -> Result<(), Error> {
        let Some(first) = first.filter(|_| known.is_empty()) else {
            return Ok(());
        };
        match self.find_elsewhere(first) {
            None => Ok(()),
            Some(dir) => {
                let member = first.to_vec();
                let kind = ErrorKind::OtherTree { member, dir };
                Err(Error::new(Action::CompareWith, &self.dir, kind))
            }
        }
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
            let exists = || {
                statx_long(
                    &joined(dir, member),
                    AtFlags::SYMLINK_NOFOLLOW,
                    StatxMask::TYPE,
                )
                .is_ok()
            };
            if matches!(rest, Some([] | [b'/', ..])) && exists() {
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
