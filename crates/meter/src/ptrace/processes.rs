//! Creation, exec and exit of traced processes and threads.

use std::ffi::CString;
use std::sync::atomic::Ordering;

use gate::file;
use gate::fs::{self, CWD};
use gate::process;
use gate::ptrace;
use gate::seccomp::ARCH;

use super::thread::{Process, Thread};
use super::{Tracer, UNPRIVILEGED};
use crate::call::Fork;
use crate::error::WarningKind;
use crate::syscalls::{CLONE, CLONE_FILES, CLONE_FS, CLONE_THREAD, CLONE_UNTRACED, CLONE3};

impl Tracer<'_> {
    /// Clears CLONE_UNTRACED of a clone(2) or clone3(2): an untraced child would have the seccomp
    /// filter but no tracer, and its file-system calls would fail.
    pub(super) fn trace_child(&self, tid: u32, number: u32, argument: u64) {
        let flags = match number {
            CLONE => argument,
            CLONE3 => clone3_flags(tid, argument),
            _ => 0,
        };
        if flags & CLONE_UNTRACED != 0 {
            let others = flags & !CLONE_UNTRACED;
            let _ = match number {
                CLONE => ptrace::set_first_argument(tid, others),
                _ => ptrace::write_word(tid, argument, others),
            };
        }
    }

    /// Handles the creation of a process or a thread by the thread `by`.
    pub(super) fn fork(&mut self, by: u32) {
        let parent = self.threads.get(&by).map(|thread| thread.pid);
        if let (Ok(tid), Some(parent)) = (ptrace::event_message(by), parent) {
            let flags = clone_flags(by);
            if !self.threads.contains_key(&tid) {
                let is_thread = flags & CLONE_THREAD != 0;
                self.begin(&Fork {
                    parent,
                    pid: if is_thread { parent } else { tid },
                    tid,
                    shares_files: flags & CLONE_FILES != 0,
                    shares_fs: flags & CLONE_FS != 0,
                });
            }
            if let Some(at) = self.early.iter().position(|early| *early == tid) {
                self.early.swap_remove(at);
                self.resume(tid, 0);
            } else if let Some(at) = self.gone.iter().position(|gone| *gone == tid) {
                self.gone.swap_remove(at);
                self.exit(tid);
            }
        }
        self.resume(by, 0);
    }

    pub(super) fn begin(&mut self, fork: &Fork) {
        let parent = self.processes.get(&fork.parent);
        let is_inside = parent.is_some_and(|parent| parent.is_filtered);
        let thread = Thread {
            is_inside, // on return from fork
            ..Thread::new(fork.pid)
        };
        self.threads.insert(fork.tid, thread);
        if fork.pid == fork.tid {
            self.last_serial += 1;
            let mut made = Process {
                parent: (fork.parent, 0),
                serial: self.last_serial,
                ..Process::default()
            };
            if let Some(parent) = self.processes.get_mut(&fork.parent) {
                parent.children += 1;
                made.parent.1 = parent.serial;
                (made.program, made.is_filtered) = (parent.program, parent.is_filtered);
            }
            self.processes.insert(fork.pid, made);
        }
        self.collector.to.fork(fork);
    }

    /// Begins to trace threads whose fork is never reported: threads whose creators were killed
    /// first, and threads of the process `of` that has lost its other threads. /proc tells their
    /// processes.
    fn begin_early(&mut self, of: Option<u32>) {
        for tid in std::mem::take(&mut self.early) {
            let status = CString::new(format!("/proc/{tid}/status")).unwrap_or_default();
            let status = file::read_kernel(&status).unwrap_or_default();
            let field = |name| file::kernel_field(&status, name)?.parse().ok();
            let pid = field("Tgid:").unwrap_or(tid);
            let is_thread = pid != tid;
            let parent = if is_thread { Some(pid) } else { field("PPid:") };
            let creator = parent.filter(|parent| self.processes.contains_key(parent));
            if creator.is_some() && creator != of {
                self.early.push(tid);
                continue;
            }
            self.begin(&match is_thread {
                true => Fork::thread(pid, tid),
                false => Fork::process(parent.unwrap_or(self.root), pid),
            });
            self.resume(tid, 0);
        }
    }

    /// Handles the execution of a program by a process. Its other threads have ended, and the
    /// calling thread has taken over the id of the process.
    pub(super) fn exec(&mut self, pid: u32) {
        let former = ptrace::event_message(pid).unwrap_or(pid);
        let threads = self.threads.iter();
        let ended = threads.filter(|(tid, thread)| thread.pid == pid && **tid != former);
        let ended: Vec<u32> = ended.map(|(tid, _)| *tid).collect();
        for tid in ended {
            self.remove(tid);
            if tid != pid {
                self.collector.to.exit(pid, tid);
            }
        }
        let mut thread = self.threads.remove(&former);
        if let Some(thread) = &mut thread {
            self.queue.forget(thread.delay.take()); // the delay file of the old thread id, which may belong to a different thread now
        }
        let given = thread.as_ref().map(|thread| thread.names[0].clone());
        self.threads.extend(thread.map(|thread| (pid, thread)));
        self.begin_early(Some(pid));
        if pid == self.root && !self.has_begun {
            self.has_begun = true;
            self.empty_calls.sort_unstable();
            let median = self.empty_calls.get(self.empty_calls.len() / 2);
            self.empty_call = median.copied().unwrap_or_default();
        }
        let exe = CString::new(format!("/proc/{pid}/exe")).unwrap_or_default();
        let program = fs::readlinkat(CWD, &exe).unwrap_or_else(|_| given.unwrap_or_default());
        if let Some(process) = self.processes.get_mut(&pid) {
            process.program = self.collector.totals.program(&program);
        }
        self.warn_of_differences(pid, &exe, &program);
        self.collector.to.exec(pid, &program);
        self.resume(pid, 0);
    }

    /// Warns, once per kind, of effects of the meter on the command.
    pub(super) fn warn_of_differences(&mut self, pid: u32, exe: &CString, program: &[u8]) {
        let is_given = |warning: &WarningKind| matches!(warning, WarningKind::OtherArchitecture(_));
        let has_other_arch = !self.collector.warnings.iter().any(is_given)
            && self.doing(pid, true).is_ok_and(|doing| doing.arch != ARCH);
        let warnings = &mut self.collector.warnings;
        if has_other_arch {
            warnings.push(WarningKind::OtherArchitecture(program.to_vec()));
        }
        let is_unprivileged = self.words[UNPRIVILEGED].load(Ordering::SeqCst) != 0;
        let is_given = |warning: &WarningKind| matches!(warning, WarningKind::Unprivileged(_));
        if is_unprivileged && !warnings.iter().any(is_given) {
            let wanted = fs::StatxMask::MODE | fs::StatxMask::UID | fs::StatxMask::GID;
            let gains_privilege = |file: fs::Statx| {
                let (uid, gid) = process::ids();
                file.mode & 0o4000 != 0 && file.uid != uid
                    || file.mode & 0o2010 == 0o2010 && file.gid != gid
            };
            if fs::statx(CWD, exe, fs::AtFlags::empty(), wanted).is_ok_and(gains_privilege) {
                warnings.push(WarningKind::Unprivileged(program.to_vec()));
            }
        }
    }

    pub(super) fn ended(&mut self, tid: u32, ended: &process::ProcessEnd) {
        let Some(thread) = self.threads.get(&tid) else {
            return self.gone.push(tid);
        };
        if thread.pid == tid
            && let Some(process) = self.processes.get(&tid)
        {
            let (parent, serial) = process.parent;
            let parent = self.processes.get(&parent);
            let is_orphan = parent.is_none_or(|parent| parent.serial != serial);
            if is_orphan && tid != self.root {
                self.user += ended.user;
                self.sys += ended.sys;
            }
            self.has_orphans |= process.children > 0;
        }
        self.exit(tid);
        self.begin_early(None);
    }

    /// Handles the end of a thread; if the thread is the main thread, also the end of its process.
    pub(super) fn exit(&mut self, tid: u32) {
        let Some(pid) = self.remove(tid) else { return };
        if pid == tid
            && let Some(process) = self.processes.remove(&pid)
            && let Some(parent) = self.processes.get_mut(&process.parent.0)
            && parent.serial == process.parent.1
        {
            parent.children = parent.children.saturating_sub(1);
        }
        self.collector.to.exit(pid, tid);
    }

    /// Removes a thread, and returns its process. The current call of the thread has not returned.
    pub(super) fn remove(&mut self, tid: u32) -> Option<u32> {
        let mut thread = self.threads.remove(&tid)?;
        self.queue.forget(thread.delay.take());
        if let Some(entered) = thread.call.filter(|_| self.has_begun) {
            self.collector.end_in(&thread.call(tid, &entered, None, 0));
        }
        Some(thread.pid)
    }

    /// Kills processes that outlived the command, because the user does not wait for them.
    pub(super) fn kill_all(&mut self) {
        if !std::mem::replace(&mut self.is_ending, true) {
            let warning = WarningKind::Killed(self.processes.len());
            self.collector.warnings.push(warning);
        }
        self.processes.keys().copied().for_each(ptrace::kill);
    }
}

/// The flags of a thread's current clone(2) or clone3(2); none for fork(2) and vfork(2), or if they
/// cannot be read (a 32-bit program).
fn clone_flags(tid: u32) -> u64 {
    let registers = ptrace::call_registers(tid).ok().flatten();
    let call = registers.map(|registers| (registers.number as u32, registers.args[0]));
    match call {
        Some((CLONE, flags)) => flags,
        Some((CLONE3, address)) => clone3_flags(tid, address),
        _ => 0,
    }
}

/// The flags at the beginning of `struct clone_args` of clone3(2); none if unreadable.
fn clone3_flags(tid: u32, address: u64) -> u64 {
    let mut flags = [0; 8];
    match ptrace::read_memory(tid, address, &mut flags) == flags.len() {
        true => u64::from_ne_bytes(flags),
        false => 0,
    }
}
