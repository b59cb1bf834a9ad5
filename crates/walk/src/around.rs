//! The mount table for a walk, and which of its mounts do not answer.
//!
//! A call that waits for a dead server cannot be interrupted. A child process, which can be left
//! behind ([`mounts::check`]), therefore touches each path first that may wait for a server
//! ([`mounts::doubt`]). Without such mounts this costs nothing, because a walk reads the mount table anyway.

use std::time::Duration;

use base::Warning;
use base::path::{below, compare};
use gate::Fd;
use gate::fs::Open;
use gate::long::open_long;
use gate::mount::mount_id;
use mounts::check::{find_silent, find_silent_paths};
use mounts::doubt::doubtful;
use mounts::is_kernel_file_system;
use mounts::root::name_of;
use ondisk::Mount;
use team::{Team, share};

use crate::entry::joined;
use crate::error::{Error, WarningKind};
use crate::filter::Filter;
use crate::job::Diagnostics;
use crate::top::mounts_around;

/// Timeout for the first answer of a server.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// The mount table, and the mounts that a walk must not enter because they do not answer.
#[derive(Debug, Default)]
pub struct ReachableMounts {
    pub(crate) mounts: Vec<Mount>,
    /// Mount points that do not answer, as paths that begin with a DIR as given.
    silent: Vec<Vec<u8>>,
    deadline: Duration,
}

impl ReachableMounts {
    /// Reads the mount table, and checks the network and FUSE mounts that a walk of `dirs` would
    /// enter. With `one_file_system` no mount below the directories is entered, so the timeout is
    /// short. Must be called before threads are started, because it forks.
    ///
    /// # Errors
    /// [`Error::Silent`]: a DIR itself does not answer in time.
    pub fn find(
        dirs: &[Vec<u8>],
        one_file_system: bool,
        filter: &Filter,
        deadline: Duration,
    ) -> Result<ReachableMounts, Error> {
        /// Timeout with `-x`: the walk needs only the attributes of the mount points.
        const ATTRIBUTES: Duration = Duration::from_secs(2);
        let mounts = mounts_around(None);
        let mut around = ReachableMounts {
            mounts,
            silent: Vec::new(),
            deadline,
        };
        let doubtful = doubtful(&around.mounts);
        if doubtful.is_empty() {
            return Ok(around);
        }
        // If fork(2) fails, no mount counts as silent, and the walk may block on a dead server.
        let tops = dirs.iter().map(Vec::as_slice);
        let silent =
            find_silent_paths(tops, &around.mounts, &doubtful, deadline).unwrap_or_default();
        if let Some((_, dir)) = silent
            .into_iter()
            .zip(dirs)
            .find(|(is_silent, _)| *is_silent)
        {
            return Err(Error::Silent(dir.clone(), deadline));
        }
        if one_file_system {
            around.deadline = deadline.min(ATTRIBUTES);
        }
        let is_asked = |mount: &Mount| doubtful.contains(&mount.id);
        let met = around.below(dirs, filter, |_| is_asked);
        let asked = met.iter().map(|(_, mount)| (*mount, target(mount)));
        let silent = find_silent(asked, around.deadline).unwrap_or_default();
        let silent = met
            .into_iter()
            .zip(silent)
            .filter(|(_, is_silent)| *is_silent);
        around.silent = silent.map(|((path, _), _)| path).collect();
        Ok(around)
    }

    /// The mounts below each directory that satisfy the condition for it and are not excluded, with their paths, which begin with a DIR
    /// as given.
    fn below<C: Fn(&Mount) -> bool>(
        &self,
        dirs: &[Vec<u8>],
        filter: &Filter,
        condition: impl Fn(&Fd) -> C,
    ) -> Vec<(Vec<u8>, &Mount)> {
        let mut found = Vec::new();
        for dir in dirs {
            // The path of the current directory is empty if it is the SRC of a list of names.
            let path: &[u8] = if dir.is_empty() { b"." } else { dir };
            let opened = open_long(path, Open::PATH | Open::DIRECTORY).ok();
            let named = opened.and_then(|fd| Some((name_of(&fd).ok()?, fd)));
            let Some((absolute, fd)) = named else {
                continue; // the walk reports that DIR cannot be opened
            };
            let is_wanted = condition(&fd);
            for mount in self.mounts.iter().filter(|mount| is_wanted(mount)) {
                let rel = below(&absolute, target(mount));
                if let Some(rel) = rel.filter(|rel| !rel.is_empty() && filter.keeps_all(dir, rel)) {
                    found.push((joined(dir, rel), mount));
                }
            }
        }
        found
    }

    /// The mount points below the directories that a walk with `-x` does not enter, as paths that begin with a DIR as given: without file
    /// systems of the kernel, and without mounts on other such mounts.
    pub fn not_entered(&self, dirs: &[Vec<u8>], filter: &Filter) -> Vec<Vec<u8>> {
        let is_other = |dir: &Fd| {
            let id = mount_id(dir);
            let own = self.mounts.iter().find(|own| Some(own.id) == id);
            let own = own.map(|own| own.dev);
            move |mount: &Mount| {
                own.is_some_and(|own| own != mount.dev)
                    && !is_kernel_file_system(&mount.content.fstype)
            }
        };
        let met = self.below(dirs, filter, is_other);
        let mut paths: Vec<Vec<u8>> = met.into_iter().map(|(path, _)| path).collect();
        paths.sort_by(|a, b| compare(a, b));
        paths.dedup_by(|path, above| below(above, path).is_some());
        paths
    }

    /// Wraps a known mount table, without checking whether its mounts answer.
    pub fn known(mounts: Vec<Mount>) -> ReachableMounts {
        ReachableMounts {
            mounts,
            ..ReachableMounts::default()
        }
    }

    pub(crate) fn contains_mount(&self, mount: u64) -> bool {
        self.mounts.iter().any(|row| row.id == mount)
    }

    /// The mounts that do not answer one of the processes of a team.
    pub(crate) fn silent(&self, team: &dyn Team) -> Vec<Vec<u8>> {
        let mut all = share(team, self.silent.clone()).concat();
        if team.size() > 1 {
            all.sort();
            all.dedup();
        }
        all
    }

    /// Whether every mount that was checked for a dead server answers.
    pub fn all_answer(&self) -> bool {
        self.silent.is_empty()
    }

    /// The mount points that do not answer, as paths that begin with a DIR as given.
    pub fn silent_paths(&self) -> &[Vec<u8>] {
        &self.silent
    }

    /// Forgets silent mounts at paths that are not to be walked.
    #[must_use]
    pub fn retain_silent(mut self, is_walked: impl Fn(&[u8]) -> bool) -> ReachableMounts {
        self.silent.retain(|path| is_walked(path));
        self
    }

    /// Excludes the mounts that do not answer, and warns of them.
    pub fn exclude_silent(&self, filter: Filter, diagnostics: &Diagnostics) -> Filter {
        self.warn(&self.silent, diagnostics);
        filter.without(&self.silent)
    }

    /// Warns of mounts that do not answer.
    pub(crate) fn warn(&self, silent: &[Vec<u8>], diagnostics: &Diagnostics) {
        for path in silent {
            let kind = WarningKind::Silent(self.deadline);
            diagnostics.warn(Warning::about(path, kind));
        }
    }
}

fn target(mount: &Mount) -> &[u8] {
    mount.target.as_deref().unwrap_or_default()
}
