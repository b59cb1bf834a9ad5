//! The effects of system calls on descriptors, working directories and roots.

use std::ops::RangeInclusive;

use gate::fs::Open as Flags;

use super::kind;
use super::table::{Descriptor, NameBase, Unnamed, to_fd};
use super::{CallFile, DescriptorKind, EBADF, Names};
use crate::call::{Call, LONG_CALL};
use crate::syscalls::Syscall;
use crate::syscalls::{CLONE_FILES, CLONE_FS, CLONE_NEWNS, CLONE_NEWUSER, O_CLOEXEC};

// These flags of open(2) have the same values on every supported architecture.
pub(super) const O_CREAT: u64 = 0o100;
/// The bit of `O_TMPFILE` that no other flag of open(2) has.
pub(super) const O_TMPFILE: u64 = 0o20_000_000;
pub(super) const F_DUPFD: u32 = 0;
pub(super) const F_SETFD: u32 = 2;
pub(super) const F_DUPFD_CLOEXEC: u32 = 1030;
pub(super) const FD_CLOEXEC: u64 = 1;
pub(super) const FIONCLEX: u32 = 0x5450;
pub(super) const FIOCLEX: u32 = 0x5451;
pub(super) const CLOSE_RANGE_UNSHARE: u64 = 2;
pub(super) const CLOSE_RANGE_CLOEXEC: u64 = 4;

impl Names {
    /// Applies the effects of a call by the thread with the key `tid`.
    pub(super) fn follow(
        &mut self,
        tid: u32,
        syscall: &Syscall,
        call: &Call<'_>,
        about: &mut CallFile,
    ) {
        let [a0, a1, a2, ..] = call.args;
        if syscall.name == "close" {
            // A failed close(2) closes the descriptor nevertheless, except after EBADF.
            if let Some(fd) = to_fd(a0).filter(|_| call.errno() != Some(EBADF)) {
                self.set(tid, fd, None);
            }
            return;
        }
        let Some(result) = call.result.filter(|_| call.errno().is_none()) else {
            return;
        };
        let new = u32::try_from(result).ok();
        match syscall.name {
            "close_range" => self.close_range(tid, call, a0 as u32..=a1 as u32, a2),
            "open" => self.open_by_name(tid, call, a1, about),
            "openat" | "open_tree" | "open_tree_attr" => self.open_by_name(tid, call, a2, about),
            "creat" => self.open_by_name(tid, call, O_CREAT, about),
            // The flags of openat2(2) are in the memory of the process, so assume O_CLOEXEC.
            "openat2" => self.open_by_name(tid, call, O_CLOEXEC, about),
            // open_by_handle_at(2) takes a descriptor of any file of the file system, not of the
            // opened one.
            "open_by_handle_at" => {
                *about = CallFile::default();
                self.open_by_name(tid, call, a2, about);
            }
            "dup" | "dup2" | "dup3" => {
                let cloexec = syscall.name == "dup3" && a2 & O_CLOEXEC != 0;
                let new = new.filter(|new| to_fd(a0) != Some(*new));
                self.duplicate(tid, a0, new, cloexec);
            }
            "fcntl" => match a1 as u32 {
                F_DUPFD => self.duplicate(tid, a0, new, false),
                F_DUPFD_CLOEXEC => self.duplicate(tid, a0, new, true),
                F_SETFD => self.set_cloexec(tid, a0, a2 & FD_CLOEXEC != 0),
                _ => {}
            },
            "ioctl" if a1 as u32 == FIOCLEX => self.set_cloexec(tid, a0, true),
            "ioctl" if a1 as u32 == FIONCLEX => self.set_cloexec(tid, a0, false),
            // These calls return descriptors of objects that have no path.
            "inotify_init" | "inotify_init1" | "fanotify_init" => {
                self.open_unnamed(tid, new, DescriptorKind::Watch);
            }
            "fsopen" | "fsmount" | "fspick" => {
                self.open_unnamed(tid, new, DescriptorKind::File);
            }
            "io_uring_setup" | "io_uring_enter" => {
                if syscall.name == "io_uring_setup" {
                    self.open_unnamed(tid, new, DescriptorKind::File);
                }
                self.change(tid, |table| table.has_ring = true);
            }
            "getdents64" | "getdents" => about.directory = true,
            _ => self.follow_place(tid, syscall, call, about),
        }
    }

    /// Applies the effects of a successful call on the working directory and root of a thread, and
    /// on what it shares with others.
    fn follow_place(&mut self, tid: u32, syscall: &Syscall, call: &Call<'_>, about: &mut CallFile) {
        let [a0, a1, ..] = call.args;
        match syscall.name {
            "chdir" | "fchdir" => {
                about.directory = true;
                let real = if about.may_be_link { 0 } else { about.real };
                self.change_place(tid, |place| {
                    (place.cwd, place.real) = (about.name.clone(), real);
                });
            }
            "chroot" => {
                self.has_other_root = true;
                self.change_place(tid, |place| place.has_commands_root = false);
            }
            "setns" if a1 == 0 || a1 & CLONE_NEWNS != 0 => {
                self.has_other_root = true;
                self.change_place(tid, |place| *place = NameBase::default());
            }
            // pivot_root(2) changes the root of every process of the mount namespace.
            "pivot_root" => {
                self.has_other_root = true;
                let tasks = self.tasks.values();
                tasks.for_each(|task| *task.place.borrow_mut() = NameBase::default());
            }
            "unshare" => {
                let Some(task) = self.tasks.get_mut(&call.tid) else {
                    return;
                };
                if a0 & CLONE_FILES != 0 {
                    task.unshare_files();
                }
                if a0 & (CLONE_FS | CLONE_NEWNS | CLONE_NEWUSER) != 0 {
                    task.unshare_place();
                }
            }
            _ => {}
        }
    }

    /// Records that a call has opened its file by name.
    fn open_by_name(&mut self, tid: u32, call: &Call<'_>, flags: u64, about: &mut CallFile) {
        let Some(new) = call.result.and_then(|new| u32::try_from(new).ok()) else {
            return;
        };
        self.enter_open(tid, call, new, flags, about);
        if call.nanos >= LONG_CALL {
            about.descriptor = Some(self.kind(tid, call, new));
        }
    }

    /// Enters a new descriptor into the table.
    fn enter_open(
        &mut self,
        tid: u32,
        call: &Call<'_>,
        new: u32,
        flags: u64,
        about: &mut CallFile,
    ) {
        let is_unnamed = flags & O_TMPFILE != 0;
        about.directory |= flags & Flags::DIRECTORY.bits() as u64 != 0 && !is_unnamed;
        let Some(name) = about.name.clone().filter(|_| !is_unnamed) else {
            self.open_unnamed(tid, Some(new), DescriptorKind::File);
            about.opened = None;
            return;
        };
        let is_followed = about.may_be_link && flags & Flags::NOFOLLOW.bits() as u64 == 0;
        // Opening /proc/self/fd/N or /dev/stdin opens the pipe that the descriptor N refers to.
        let kind = match kind::named_descriptor(&name, call.pid) {
            Some(fd) if fd != new => self.kind(tid, call, fd),
            _ => DescriptorKind::of_name(&name),
        };
        let open = Descriptor {
            name,
            kind,
            real: if is_followed { 0 } else { about.real },
            opened: 0,
            directory: about.directory,
            cloexec: flags & O_CLOEXEC != 0,
        };
        about.opened = self.open(tid, new, open);
    }

    /// Records a new descriptor without a known path. After an exec, its kind is read from /proc
    /// again.
    fn open_unnamed(&mut self, tid: u32, new: Option<u32>, kind: DescriptorKind) {
        if let Some(new) = new {
            self.change(tid, |table| table.set_unnamed(new, kind, true));
        }
    }

    fn duplicate(&mut self, tid: u32, from: u64, to: Option<u32>, cloexec: bool) {
        if let Some(to) = to {
            let task = self.tasks.get(&tid);
            let open = task.and_then(|task| task.open(from));
            let unnamed = task.and_then(|task| task.unnamed(from));
            self.set(tid, to, open.map(|open| Descriptor { cloexec, ..open }));
            if let Some(Unnamed { kind, .. }) = unnamed {
                self.change(tid, |table| table.set_unnamed(to, kind, cloexec));
            }
        }
    }

    pub(super) fn set_cloexec(&mut self, tid: u32, fd: u64, cloexec: bool) {
        // Do not copy a shared table to set a flag that is set already.
        let task = self.tasks.get(&tid);
        let open = task.and_then(|task| task.open(fd));
        let unnamed = task.and_then(|task| task.unnamed(fd));
        let was = open.map(|open| open.cloexec);
        let was = was.or(unnamed.map(|open| open.cloexec));
        if let Some(fd) = to_fd(fd)
            && was.is_some_and(|was| was != cloexec)
        {
            self.change(tid, |table| {
                if let Some(open) = table.open.get_mut(&fd) {
                    open.cloexec = cloexec;
                }
                if let Some(open) = table.unnamed.get_mut(&fd) {
                    open.cloexec = cloexec;
                }
            });
        }
    }

    fn close_range(&mut self, tid: u32, call: &Call<'_>, range: RangeInclusive<u32>, flags: u64) {
        if flags & CLOSE_RANGE_UNSHARE != 0
            && let Some(task) = self.tasks.get_mut(&call.tid)
        {
            task.unshare_files();
        }
        self.change(tid, |table| {
            if flags & CLOSE_RANGE_CLOEXEC == 0 {
                table.close_if(|fd, _| range.contains(&fd));
            } else {
                let inside = table.open.iter_mut().filter(|(fd, _)| range.contains(fd));
                inside.for_each(|(_, open)| open.cloexec = true);
                let unnamed = table.unnamed.iter_mut();
                let inside = unnamed.filter(|(fd, _)| range.contains(fd));
                inside.for_each(|(_, open)| open.cloexec = true);
            }
        });
    }
}
