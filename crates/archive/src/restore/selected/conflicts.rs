//! Reads archives before a restore, to find PATHs that no archive has, and existing entries that
//! the restore would remove.

use std::collections::BTreeSet;
use std::os::fd::AsFd;

use base::path::or_dot;
use gate::fs::{FileType, Open, StatxMask};
use gate::long::{open_beneath, stat_long};
use gate::{Errno, Fd};
use ondisk::pax::Member;

use super::SelectedPaths;
use crate::error::{Action, Error, ErrorKind};
use crate::input::{Input, is_regular};
use crate::restore::created::is_empty;
use crate::restore::name::clean;

impl SelectedPaths {
    /// Checks that each PATH is in some archive, unless one of the archives cannot be read twice or
    /// to its end.
    ///
    /// # Errors
    /// The first PATH that is in no archive.
    pub(in crate::restore) fn check_paths(&mut self, archives: &[Vec<u8>]) -> Result<(), Error> {
        let is_complete = self.read_members(archives, |own, member| {
            let name = clean(&member.path);
            let is_new = name.is_ok_and(|name| own.restored_name(&name.path).is_some());
            is_new && own.paths.given.iter().all(|path| path.is_met)
        });
        self.turn = 0;
        self.find_places();
        let missed = self.paths.given.iter().find(|path| !path.is_met);
        let missed = missed.map(|path| path.given.clone());
        self.paths
            .given
            .iter_mut()
            .for_each(|path| path.is_met = false);
        match missed.filter(|_| is_complete == Some(true)) {
            None => Ok(()),
            Some(path) => {
                let seen = stat_long(&path, StatxMask::TYPE);
                let is_directory = seen.is_ok_and(|seen| seen.file_type == FileType::Directory);
                let kind = ErrorKind::NoSuchPath { is_directory };
                Err(Error::new(Action::Restore, &path, kind))
            }
        }
    }

    /// Whether a path below DIR is a directory with entries, on a mount that answers.
    pub(in crate::restore) fn is_filled(&self, dir: &Fd, path: &[u8]) -> bool {
        let open = || open_beneath(dir.as_fd(), or_dot(path), Open::SCAN);
        self.check_mount(path).is_ok() && open().is_ok_and(|here| !is_empty(&here))
    }

    pub(in crate::restore) fn has_wildcards(&self) -> bool {
        !self.paths.patterns.is_empty()
    }

    /// Whether a PATH exists in `dir`, or the directory above wildcards has entries.
    pub(in crate::restore) fn meets_existing(&self, dir: &Fd) -> bool {
        let exists = |path: &[u8]| {
            let open = || open_beneath(dir.as_fd(), or_dot(path), Open::PATH);
            let is_absent = || matches!(open(), Err(Errno::ENOENT | Errno::ENOTDIR));
            self.check_mount(path).is_ok() && !is_absent()
        };
        self.paths.given.iter().any(|path| match path.pattern {
            Some(_) => self.is_filled(dir, path.tree()),
            None => exists(&path.name),
        })
    }

    /// The directories below `dir` with entries that a restore would mix with its own: PATHs and
    /// directories that wildcards match. `None` if an archive cannot be read twice or to its end.
    pub(in crate::restore) fn find_conflicts(
        &mut self,
        archives: &[Vec<u8>],
        dir: &Fd,
    ) -> Option<Vec<Vec<u8>>> {
        let found = self.find_matches(archives);
        self.turn = 0;
        self.find_places();
        let names = found?;
        let literal = self
            .paths
            .given
            .iter()
            .filter(|path| path.pattern.is_none());
        let whole = literal.map(|path| &path.name).chain(&names);
        let conflicts = whole.filter(|path| self.is_filled(dir, path));
        Some(conflicts.cloned().collect())
    }

    /// The names that wildcards match in the archives.
    fn find_matches(&mut self, archives: &[Vec<u8>]) -> Option<BTreeSet<Vec<u8>>> {
        let mut names = BTreeSet::new();
        self.read_members(archives, |own, member| {
            let name = clean(&member.path).ok();
            let Some(place) = name.and_then(|name| own.place(&name.path)) else {
                return false;
            };
            if let Some((name, _)) = own.paths.matched(&place)
                && !names.contains(name)
            {
                names.insert(name.to_vec());
            }
            false
        })?;
        Some(names)
    }

    /// Passes the members of archives to `take`, until it returns `true`. Returns whether no member
    /// is lost; `None` if an archive cannot be read twice or to its end.
    fn read_members(
        &mut self,
        archives: &[Vec<u8>],
        mut take: impl FnMut(&mut SelectedPaths, &Member) -> bool,
    ) -> Option<bool> {
        let mut is_complete = true;
        for archive in archives {
            if !is_regular(archive) {
                return None;
            }
            let mut input = Input::open(archive).ok()?;
            if let Some(regions) = self.regions() {
                input.narrow(regions);
            }
            while let Some(member) = input.next_or_resume().ok()? {
                if take(self, &member) {
                    return Some(is_complete);
                }
            }
            let defects = input.take_defects();
            is_complete &= !defects.iter().any(|it| it.damage.is_loss());
            self.next_archive();
        }
        Some(is_complete)
    }
}
