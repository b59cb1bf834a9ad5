//! Kinds of the descriptors that calls use.

use super::lookup::itself;
use super::table::to_fd;
use super::{DescriptorKind, EBADF, Names, kind};
use crate::call::{Call, LONG_CALL, LongCall};
use crate::syscalls::{self, Kind, Syscall};

/// The descriptors among the arguments of a call.
fn arguments(syscall: &Syscall, call: &Call<'_>) -> impl Iterator<Item = u32> {
    let fds = syscall.fds.iter();
    fds.filter_map(|arg| to_fd(call.args[*arg]))
}

impl Names {
    /// The kind of the descriptor that a call uses; `None` for a call without descriptor, or a bad
    /// one.
    pub(super) fn descriptor(
        &mut self,
        tid: u32,
        syscall: &Syscall,
        call: &Call<'_>,
    ) -> Option<DescriptorKind> {
        if call.errno() == Some(EBADF) {
            return None;
        }
        let used = arguments(syscall, call).chain(itself(syscall, call));
        let is_long = call.nanos >= LONG_CALL;
        DescriptorKind::of_all(used.map(|fd| self.kind(tid, call, fd)), is_long)
    }

    /// The kind of the descriptor that a long call used or opened. As earlier calls were not
    /// tracked, /proc is read. If the process has ended, the result is the kind at its last exec,
    /// or else a file.
    pub fn descriptor_of(&self, long: &LongCall<'_>) -> DescriptorKind {
        let call = &long.call;
        let Some(syscall) = syscalls::by_number(call.number) else {
            return DescriptorKind::File;
        };
        let opened = call.result.filter(|_| syscall.kind == Kind::Open);
        let opened = opened.and_then(|fd| u32::try_from(fd).ok());
        let used = arguments(syscall, call).chain(opened);
        let task = self.tasks.get(&call.tid);
        let task = task.or_else(|| self.tasks.get(&call.pid));
        let kind = |fd| {
            let seen = kind::seen(call.pid, fd);
            let known = || task.and_then(|task| task.kind(fd));
            seen.or_else(known).unwrap_or(DescriptorKind::File)
        };
        let found = long
            .descriptor
            .or_else(|| DescriptorKind::of_all(used.map(kind), true));
        found.unwrap_or(DescriptorKind::File)
    }

    pub(super) fn kind(&mut self, tid: u32, call: &Call<'_>, fd: u32) -> DescriptorKind {
        let known = self.tasks.get(&tid).and_then(|task| task.kind(fd));
        if known == Some(DescriptorKind::File) && call.nanos >= LONG_CALL && self.asks_proc {
            return self.check_fifo(tid, call.pid, fd);
        }
        known.unwrap_or_else(|| {
            let found = self.asks_proc.then(|| kind::of_descriptor(call.pid, fd));
            let kind = found.flatten().unwrap_or(DescriptorKind::Unknown);
            if self.asks_proc {
                // Assume that the unknown flag close-on-exec is set: then the kind is read from
                // /proc again after an exec.
                self.change(tid, |table| table.set_unnamed(fd, kind, true));
            }
            kind
        })
    }

    /// The kind of a descriptor that was opened by name and in which a call has waited: a pipe if
    /// it is a FIFO, otherwise a file.
    fn check_fifo(&mut self, tid: u32, pid: u32, fd: u32) -> DescriptorKind {
        if !kind::is_fifo(pid, fd) {
            return DescriptorKind::File;
        }
        self.change(tid, |table| {
            if let Some(open) = table.open.get_mut(&fd) {
                open.kind = DescriptorKind::Pipe;
            }
            if let Some(open) = table.unnamed.get_mut(&fd) {
                open.kind = DescriptorKind::Pipe;
            }
        });
        DescriptorKind::Pipe
    }
}
