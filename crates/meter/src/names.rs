//! Absolute names of the files that calls are about: tracks the descriptors, working directory and
//! root of each process.
//!
//! A name is the path that the process passed, made absolute, without `.` and doubled slashes.
//! Symbolic links are not resolved, since only the kernel knows their targets. `..` stays for the
//! same reason, unless the component before it was opened with `O_NOFOLLOW`, and so is no link. A
//! file may have several names, but no name is a guess: `None` stands for an unknown name. Unknown
//! are the names of descriptors that no call has opened (received by a socket, opened by io_uring
//! or in another namespace), absolute names after chroot(2), and names over 4095 bytes. A renamed
//! file keeps the name that it was opened by.
//!
//! Each thread has a table of descriptors, a working directory and a root, which it may share with
//! others, as clone(2) and unshare(2) say. A table that fork(2) duplicates is copied here when one
//! of the two changes. Memory is bounded ([`MOST_TASKS`], [`MOST_BYTES`]): a name for which there
//! is no room is unknown, and counted ([`Names::forgotten`]).

mod attached;
mod follow;
mod inherited;
mod kind;
mod lookup;
mod subject;
mod table;
mod used;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use foldhash::HashMap;

pub use attached::AttachedProcess;
pub(crate) use attached::OpenFiles;
pub use inherited::InheritedFiles;
pub use kind::DescriptorKind;
pub(crate) use kind::seen;
pub use subject::{CallFile, Name, components};
pub use table::MOST_BYTES;

use self::lookup::{all_real, subject};
use self::table::{Descriptor, NameBase, NamedTask, Table};
use crate::call::{Call, Fork};
use crate::syscalls;

/// The maximum number of threads that are tracked at a time.
pub const MOST_TASKS: usize = 8192;
const EBADF: i32 = 9;

/// The file names of all metered processes.
#[derive(Debug, Default)]
pub struct Names {
    tasks: HashMap<u32, NamedTask>,
    /// Number of threads that are not the main threads of their processes.
    threads: usize,
    inherited: Option<InheritedFiles>,
    /// Read /proc/PID/fd to learn the kind of unknown descriptors.
    asks_proc: bool,
    /// The root and the mount namespace of the first process that a meter attached to.
    root: Option<(Vec<u8>, Vec<u8>)>,
    /// Some process has a different root than the command, so processes with an unknown history
    /// may, too.
    has_other_root: bool,
    held: Rc<Cell<usize>>,
    opened: u64,
    forgotten: u64,
}

impl Names {
    /// Tracks processes, of which the first one begins with `inherited`.
    pub fn new(inherited: InheritedFiles) -> Names {
        Names {
            inherited: Some(inherited),
            ..Names::default()
        }
    }

    /// Also reads /proc when a call uses a descriptor that no call has opened, to tell a pipe from
    /// a socket. If the process has ended or closed the descriptor by then, it is
    /// [`DescriptorKind::Unknown`].
    pub fn asking_proc(inherited: InheritedFiles) -> Names {
        Names {
            asks_proc: true,
            ..Names::new(inherited)
        }
    }

    /// [`Names::asking_proc`] for running processes: absolute names start at the root of fathom.
    pub fn of_machine() -> Names {
        Names {
            root: OpenFiles::own_root(),
            ..Names::asking_proc(InheritedFiles::default())
        }
    }

    /// Number of descriptors and threads that were not tracked because there were too many.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// The file that a call is about. Tracks the effects of the call on descriptors, working
    /// directory and root.
    pub fn call(&mut self, call: &Call<'_>) -> CallFile {
        let Some(syscall) = syscalls::by_number(call.number) else {
            return CallFile::default();
        };
        let tid = self.find_or_add(call.pid, call.tid);
        let Some((tid, task)) = tid.and_then(|tid| Some((tid, self.tasks.get(&tid)?))) else {
            return CallFile::default();
        };
        let mut about = subject(task, syscall, call);
        if !about.by_name {
            about.descriptor = self.descriptor(tid, syscall, call);
        }
        self.follow(tid, syscall, call, &mut about);
        about
    }

    /// A process is metered from now on. Absolute names of processes whose root or mount namespace
    /// differs from that of the first such process are unknown.
    pub fn attach(&mut self, process: &AttachedProcess) {
        let AttachedProcess { pid, open, .. } = process;
        let threads = self.tasks.iter();
        let stale = threads.filter(|(tid, task)| task.process == *pid || *tid == pid);
        let stale: Vec<u32> = stale.map(|(tid, _)| *tid).collect();
        stale.into_iter().for_each(|tid| self.exit(tid));
        let root = open.root();
        if self.root.is_none() {
            self.root = root.cloned();
        }
        let is_same_root = self.root.as_ref() == root;
        self.has_other_root |= !is_same_root;
        self.inherited = Some(open.inherited());
        self.find_or_add(*pid, *pid);
        self.inherited = None;
        self.change_place(*pid, |place| place.has_commands_root = is_same_root);
        for fd in open.closed_on_exec() {
            self.set_cloexec(*pid, fd.into(), true);
        }
        for tid in process.threads.iter().filter(|tid| *tid != pid) {
            self.fork(&Fork::thread(*pid, *tid));
        }
    }

    /// A process or thread was created.
    pub fn fork(&mut self, fork: &Fork) {
        let parent = self.find_or_add(fork.parent, fork.parent);
        let task = parent.and_then(|parent| self.tasks.get(&parent)).cloned();
        let Some(mut task) = task.filter(|_| self.tasks.len() < MOST_TASKS) else {
            self.forgotten += 1;
            return;
        };
        task.process = fork.pid;
        if !fork.shares_files {
            task.unshare_files();
        }
        if !fork.shares_fs {
            task.unshare_place();
        }
        self.add(fork.tid, task);
    }

    /// Handles the execution of a program by a process: the descriptor table is no longer shared,
    /// close-on-exec descriptors are closed, and other threads of the process end.
    pub fn exec(&mut self, pid: u32) {
        self.find_or_add(pid, pid);
        if self.threads > 0 {
            let tasks = self.tasks.iter();
            let others = tasks.filter(|(tid, task)| task.process == pid && **tid != pid);
            let others: Vec<u32> = others.map(|(tid, _)| *tid).collect();
            others.into_iter().for_each(|tid| self.exit(tid));
        }
        if let Some(task) = self.tasks.get_mut(&pid) {
            task.unshare_files();
        }
        let others = match self.asks_proc {
            true => kind::of_descriptors(pid),
            false => Vec::new(),
        };
        self.change(pid, |table| {
            // Descriptors that io_uring requests have replaced have stale names.
            let has_ring = std::mem::take(&mut table.has_ring);
            table.close_if(|_, cloexec| cloexec || has_ring);
            // Forget the names of files, sockets and pipes, too: after the limit of reported calls,
            // a call that makes the number refer to a different file is not reported.
            for (fd, kind) in others {
                table.set_unnamed(fd, kind, false);
            }
        });
    }

    /// A thread ended.
    pub fn exit(&mut self, tid: u32) {
        if let Some(task) = self.tasks.remove(&tid) {
            self.threads -= usize::from(task.process != tid);
        }
    }

    /// The key of a thread in `tasks`: its id, or that of its process if the thread is unknown.
    /// Adds unknown processes: the first one starts with what the command inherits, others without
    /// any names.
    fn find_or_add(&mut self, pid: u32, tid: u32) -> Option<u32> {
        for id in [tid, pid] {
            if self.tasks.contains_key(&id) {
                return Some(id);
            }
        }
        if self.tasks.len() >= MOST_TASKS {
            self.forgotten += 1;
            return None;
        }
        let InheritedFiles {
            cwd,
            files,
            unnamed,
        } = self.inherited.take().unwrap_or_default();
        let place = NameBase {
            real: cwd.as_deref().map_or(0, all_real),
            cwd: cwd.map(Name::from),
            has_commands_root: !self.has_other_root,
        };
        let task = NamedTask {
            process: pid,
            files: Rc::new(RefCell::new(Rc::new(Table::new(&self.held)))),
            place: Rc::new(RefCell::new(place)),
        };
        self.add(pid, task);
        for (fd, name) in files {
            let open = Descriptor {
                real: all_real(&name),
                kind: DescriptorKind::of_name(&name),
                name: Name::from(name),
                opened: 0,
                directory: false,
                cloexec: false,
            };
            self.open(pid, fd, open);
        }
        if !unnamed.is_empty() {
            self.change(pid, |table| {
                for (fd, kind) in unnamed {
                    table.set_unnamed(fd, kind, false);
                }
            });
        }
        Some(pid)
    }

    fn add(&mut self, tid: u32, task: NamedTask) {
        self.exit(tid);
        self.threads += usize::from(task.process != tid);
        self.tasks.insert(tid, task);
    }

    /// Changes the descriptor table of a thread. If there is no room to copy a shared table, the
    /// table is dropped.
    fn change<T>(&mut self, tid: u32, with: impl FnOnce(&mut Table) -> T) -> Option<T> {
        let task = self.tasks.get(&tid)?;
        let mut files = task.files.borrow_mut();
        if Rc::strong_count(&files) > 1 && self.held.get() + files.bytes() > MOST_BYTES {
            self.forgotten += files.open.len() as u64;
            *files = Rc::new(Table::new(&self.held));
        }
        Some(with(Rc::make_mut(&mut files)))
    }

    /// Records an opened descriptor, and returns the number of its open file description.
    fn open(&mut self, tid: u32, fd: u32, open: Descriptor) -> Option<u64> {
        self.opened += 1;
        let opened = self.opened;
        self.set(tid, fd, Some(Descriptor { opened, ..open }))
            .then_some(opened)
    }

    /// Replaces or removes a descriptor in the table. `false` if there is no room for the
    /// descriptor.
    fn set(&mut self, tid: u32, fd: u32, open: Option<Descriptor>) -> bool {
        let is_kept = self.change(tid, |table| {
            table.close(fd);
            let Some(open) = open else { return true };
            let held = table.held.get() + open.bytes();
            if held > MOST_BYTES {
                return false;
            }
            table.held.set(held);
            table.open.insert(fd, open);
            true
        });
        self.forgotten += u64::from(is_kept == Some(false));
        is_kept == Some(true)
    }

    fn change_place(&mut self, tid: u32, with: impl FnOnce(&mut NameBase)) {
        if let Some(task) = self.tasks.get(&tid) {
            with(&mut task.place.borrow_mut());
        }
    }
}

#[cfg(test)]
mod tests;
