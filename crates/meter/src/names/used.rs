//! What the descriptors are that calls use.

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
    /// What the descriptor is that a call uses; `None` if it uses none, or a bad one.
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

    /// What the descriptor is that a long call has used or opened. Calls before it were not followed, so
    /// /proc is asked. If the process has ended, it is what it was when its program was executed, or
    /// else a file.
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
                // Whether it is close-on-exec is unknown: after an exec, it is asked again.
                self.change(tid, |table| table.set_unnamed(fd, kind, true));
            }
            kind
        })
    }

    /// What a descriptor is that has the name of a file, and in which a call has waited.
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
