//! The state of a restore, and the way through its directories.

use std::ffi::CStr;
use std::os::fd::AsFd;
use std::rc::Rc;

use gate::create::{fchmod, mkdirat, umask, unlinkat_directory};
use gate::file::unlinkat;
use gate::fs::{At, FileType, Open, Statx, Time, Want, statx};
use gate::long::{c_string, open_beneath};
use gate::{Errno, Fd, Gate};
use ondisk::pax::Member;
use walk::Moment;
use walk::moment::may_be_since;

use super::attributes::{Late, SET_ID, change_mode, inherits};
use super::name::Chosen;
use super::not_restored::{Failure, NotRestored};
use super::owners::Owners;
use super::report::{Counts, Remarks, RestoreProgress, RestoreSummary};
use super::trail::Trail;
use crate::error::Error;
use crate::tick::before_a_tick;

/// The permissions that the owner of a directory needs to work in it.
pub(super) const ALL: u32 = 0o700;

/// What is known of an open directory.
#[derive(Debug, Default)]
pub(super) struct Doing {
    /// What it gets when it is left.
    pub(super) late: Option<Box<Late>>,
    /// Whether what is made in it gets an access control list from it.
    pub(super) inherits: bool,
}

/// The user who restores.
pub(super) struct Rights {
    pub(super) is_root: bool,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// The permissions of a directory that no member describes.
    plain_directory: u32,
}

impl Rights {
    /// The mode that a member gets: a program that does not belong to its owner gets no set-id
    /// bits, since it would run in another user's name.
    pub(super) fn mode(&self, member: &Member) -> u32 {
        let is_owned = self.is_root || (member.uid == self.uid && member.gid == self.gid);
        member.mode & if is_owned { 0o7777 } else { 0o7777 & !SET_ID }
    }
}

pub(super) struct Restorer<'a> {
    pub(super) progress: &'a RestoreProgress,
    pub(super) top: Rc<Fd>,
    pub(super) top_doing: Doing,
    pub(super) trail: Trail<Doing>,
    pub(super) chosen: Chosen,
    pub(super) owners: Owners,
    pub(super) rights: Rights,
    pub(super) remarks: Remarks,
    pub(super) counts: Counts,
    /// What has a ctime from then on was changed in this run, as far as can be told.
    started: Time,
    /// The directory in which the last hard link's other name was.
    pub(super) linked: Option<(Vec<u8>, Rc<Fd>)>,
    /// Whether files can be made without a name here; found out with the first.
    pub(super) has_unnamed: bool,
    /// Whether an archive was restored before this one.
    pub(super) is_later: bool,
    /// A directory could not be renamed: it has its old name, by which the archives no longer list
    /// it. Nothing is removed from then on.
    pub(super) keeps_all: bool,
}

impl Drop for Restorer<'_> {
    fn drop(&mut self) {
        umask(0o777 & !self.rights.plain_directory);
    }
}

impl<'a> Restorer<'a> {
    pub(super) fn new(
        numeric_owner: bool,
        top: Rc<Fd>,
        chosen: Chosen,
        progress: &'a RestoreProgress,
    ) -> Restorer<'a> {
        // Members have the permissions that the archive says, from their first moment.
        let umask = umask(0);
        let is_root = gate::process::is_root();
        let (uid, gid) = gate::process::ids();
        let owners = match is_root && !numeric_owner {
            true => Owners::read(),
            false => Owners::default(),
        };
        Restorer {
            progress,
            top_doing: Doing {
                late: None,
                inherits: inherits(&top),
            },
            trail: Trail::new(Rc::clone(&top)),
            top,
            chosen,
            owners,
            rights: Rights {
                is_root,
                uid,
                gid,
                plain_directory: 0o777 & !umask,
            },
            remarks: Remarks::default(),
            counts: Counts::default(),
            started: before_a_tick(Moment::now().time()),
            linked: None,
            has_unnamed: true,
            is_later: false,
            keeps_all: false,
        }
    }

    pub(super) fn into_summary(mut self, stopped: Option<Error>) -> RestoreSummary {
        let mut remarks = std::mem::take(&mut self.remarks);
        std::mem::take(&mut self.chosen).warn_of_missed(&mut remarks);
        remarks.into_summary(self.counts, stopped)
    }

    /// The last directory of the trail, open.
    pub(super) fn here(&mut self) -> Result<Rc<Fd>, Failure> {
        self.trail.here().map_err(Failure::above)
    }

    pub(super) fn doing(&mut self) -> &mut Doing {
        self.trail.last().unwrap_or(&mut self.top_doing)
    }

    /// Enters a directory, and makes it where it is missing. Those that are left get what they are
    /// still to get.
    pub(super) fn enter(&mut self, dir: &[u8]) -> Result<(), Failure> {
        if self.trail.path() == dir {
            return Ok(());
        }
        while self.trail.rest(dir).is_none() {
            self.leave();
        }
        let rest = self.trail.rest(dir).unwrap_or_default();
        for name in rest.split(|&b| b == b'/').filter(|name| !name.is_empty()) {
            let (fd, doing) = self.enter_next(name)?;
            self.trail.push(name, Rc::new(fd), doing);
        }
        let mut place = self.progress.place.lock();
        place.clear();
        place.extend_from_slice(dir);
        Ok(())
    }

    fn enter_next(&mut self, name: &[u8]) -> Result<(Fd, Doing), Failure> {
        let here = self.here()?;
        let c_name = c_string(name).map_err(Failure::above)?;
        match self.open_directory(&here, &c_name, false) {
            Ok((fd, seen, changed_mode)) => {
                let is_ours = self.is_of_this_run(&seen);
                let late = is_ours.then(|| Box::new(Late::put_back(&seen, changed_mode)));
                let inherits = inherits(&fd);
                Ok((fd, Doing { late, inherits }))
            }
            Err(Errno::ENOENT) => {
                let mode = self.rights.plain_directory | if self.rights.is_root { 0 } else { ALL };
                mkdirat(&here, &c_name, mode)
                    .map_err(|e| Failure::call(Gate::Mkdirat, e, NotRestored::AboveNotMade))?;
                let fd = open_beneath(here.as_fd(), name, Open::SCAN).map_err(Failure::above)?;
                let (late, inherits) = (None, self.doing().inherits);
                Ok((fd, Doing { late, inherits }))
            }
            Err(e) => Err(Failure::above(e)),
        }
    }

    /// Leaves the last directory of the trail, which gets what it is still to get.
    fn leave(&mut self) {
        let late = self.doing().late.take();
        if let Some(late) = late {
            let path = self.trail.path().to_vec();
            match self.trail.here() {
                Ok(here) => late.give(&here, &path, &mut self.remarks),
                Err(e) => self.remarks.warn(&path, Failure::above(e)),
            }
        }
        self.trail.pop();
    }

    /// Leaves all directories, DIR itself included.
    pub(super) fn leave_all(&mut self) {
        while !self.trail.path().is_empty() {
            self.leave();
        }
        if let Some(late) = self.top_doing.late.take() {
            late.give(&self.top, b".", &mut self.remarks);
        }
    }

    /// Opens a directory. If it belongs to the user and does not let them in, and a member
    /// (`is_member`) or this run has made it so, its mode is changed first. Returns its attributes
    /// before that, and whether the mode was changed.
    pub(super) fn open_directory(
        &self,
        here: &Fd,
        name: &CStr,
        is_member: bool,
    ) -> gate::Result<(Fd, Statx, bool)> {
        let lets_in = |seen: &Statx| {
            let may = is_member || self.is_of_this_run(seen);
            !self.rights.is_root && may && seen.uid == self.rights.uid && seen.mode & ALL != ALL
        };
        let open = || open_beneath(here.as_fd(), name.to_bytes(), Open::SCAN);
        match open() {
            Err(Errno::EACCES) if !self.rights.is_root => {
                let seen = statx(here, name, At::SYMLINK_NOFOLLOW, Want::BASIC_STATS)?;
                if seen.file_type != FileType::Directory || !lets_in(&seen) {
                    return Err(Errno::EACCES);
                }
                change_mode(here, name, seen.mode | ALL)?;
                Ok((open()?, seen, true))
            }
            Err(e) => Err(e),
            Ok(fd) => {
                let seen = statx(&fd, c"", At::EMPTY_PATH, Want::BASIC_STATS)?;
                let is_let_in = lets_in(&seen);
                if is_let_in {
                    fchmod(&fd, seen.mode | ALL)?;
                }
                Ok((fd, seen, is_let_in))
            }
        }
    }

    /// Whether something was changed in this run, and so most likely by it.
    fn is_of_this_run(&self, seen: &Statx) -> bool {
        may_be_since(seen.ctime, self.started)
    }

    /// Removes what has a name, unless it is a directory with something in it.
    pub(super) fn clear(&self, here: &Fd, name: &CStr) -> Result<(), Failure> {
        let done = match unlinkat(here, name) {
            Err(Errno::EISDIR) => unlinkat_directory(here, name),
            other => other,
        };
        let reason = match done {
            Ok(()) | Err(Errno::ENOENT) => return Ok(()),
            Err(Errno::ENOTEMPTY) => NotRestored::DirectoryInTheWay,
            Err(_) => NotRestored::InTheWay,
        };
        done.map_err(|e| Failure::call(Gate::Unlinkat, e, reason))
    }
}
