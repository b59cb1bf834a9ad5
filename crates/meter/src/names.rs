//! Absolute names of the files that calls are about: follows each process's descriptors, working
//! directory and root.
//!
//! A name is the path that the process gave, from its root, without `.` and doubled slashes.
//! Symbolic links stay, since only the kernel knows their targets, and so does `..`, unless the
//! component before it was opened with `O_NOFOLLOW`, and so is no link. So a file may have several
//! names, but no name is a guess: `None` stands for an unknown name. Unknown are the names of
//! descriptors that no call has opened (from a socket, io_uring, another namespace), absolute names
//! after chroot(2), and names over 4095 bytes. Files and directories that are renamed keep the name
//! that they were opened by.
//!
//! Each thread has a table of descriptors and a place (working directory and root), which it may
//! share with others, as clone(2) and unshare(2) say. A table that is copied by fork(2) is copied
//! here when one of the two changes. Memory is bounded ([`MOST_TASKS`], [`MOST_BYTES`]): what does
//! not fit is unknown, and counted ([`Names::forgotten`]).

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

pub use attached::Attached;
pub(crate) use attached::OpenFiles;
pub use inherited::Inherited;
pub use kind::DescriptorKind;
pub(crate) use kind::seen;
pub use subject::{Name, Subject, components};
pub use table::MOST_BYTES;

use self::lookup::{all_real, subject};
use self::table::{Descriptor, NameBase, NamedTask, Table};
use crate::call::{Call, Fork};
use crate::syscalls;

/// The most threads that are followed at a time.
pub const MOST_TASKS: usize = 8192;
const EBADF: i32 = 9;

/// The names of all processes.
#[derive(Debug, Default)]
pub struct Names {
    tasks: HashMap<u32, NamedTask>,
    /// Tasks that are not the main threads of their processes.
    threads: usize,
    inherited: Option<Inherited>,
    /// /proc is asked what unknown descriptors are.
    asks_proc: bool,
    /// The root and the mount namespace of the first process that a meter has attached to.
    root: Option<(Vec<u8>, Vec<u8>)>,
    /// Some process has another root than the command, and so may those of which nothing is known.
    has_other_root: bool,
    held: Rc<Cell<usize>>,
    opened: u64,
    forgotten: u64,
}

impl Names {
    /// Follows processes, of which the first one begins with `inherited`.
    pub fn new(inherited: Inherited) -> Names {
        Names {
            inherited: Some(inherited),
            ..Names::default()
        }
    }

    /// Asks /proc what a descriptor is when a call uses it that no call has opened: a pipe, a socket.
    /// The process may be gone by then, or may have closed it: then it is
    /// [`DescriptorKind::Unknown`].
    pub fn asking_proc(inherited: Inherited) -> Names {
        Names {
            asks_proc: true,
            ..Names::new(inherited)
        }
    }

    /// [`Names::asking_proc`] for processes that run already: absolute names are those of this process.
    pub fn of_machine() -> Names {
        Names {
            root: OpenFiles::own_root(),
            ..Names::asking_proc(Inherited::default())
        }
    }

    /// Descriptors that were forgotten, and threads that were not followed, because there were too
    /// many.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// What a call is about. Follows what it does to descriptors and places.
    pub fn call(&mut self, call: &Call<'_>) -> Subject {
        let Some(syscall) = syscalls::by_number(call.number) else {
            return Subject::default();
        };
        let tid = self.find_or_add(call.pid, call.tid);
        let Some((tid, task)) = tid.and_then(|tid| Some((tid, self.tasks.get(&tid)?))) else {
            return Subject::default();
        };
        let mut about = subject(task, syscall, call);
        if !about.by_name {
            about.descriptor = self.descriptor(tid, syscall, call);
        }
        self.follow(tid, syscall, call, &mut about);
        about
    }

    /// A process is metered from now on. Names are those of the first such process: absolute names of
    /// processes with another root or mount namespace are unknown.
    pub fn attach(&mut self, process: &Attached) {
        let Attached { pid, open, .. } = process;
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
            self.fork(&Fork {
                parent: *pid,
                pid: *pid,
                tid: *tid,
                shares_files: true,
                shares_fs: true,
            });
        }
    }

    /// A process or a thread begins.
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

    /// A process executes a program: it unshares its table and closes the close-on-exec
    /// descriptors, and its other threads end.
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
            // Those that an io_uring has replaced have stale names.
            let has_ring = std::mem::take(&mut table.has_ring);
            table.close_if(|_, cloexec| cloexec || has_ring);
            // Also those with a name: beyond the limit of calls, nothing tells that they were replaced.
            for (fd, kind) in others {
                table.set_unnamed(fd, kind, false);
            }
        });
    }

    /// A thread has ended.
    pub fn exit(&mut self, tid: u32) {
        if let Some(task) = self.tasks.remove(&tid) {
            self.threads -= usize::from(task.process != tid);
        }
    }

    /// The key of a thread in `tasks`: its id, or that of its process if the thread is unknown. An
    /// unknown process is added: the first one begins as the command does, of others nothing is
    /// known.
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
        let Inherited {
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

    /// Changes the table of descriptors of a thread. If there is no room for a copy of a shared
    /// table, the table is forgotten.
    fn change<T>(&mut self, tid: u32, with: impl FnOnce(&mut Table) -> T) -> Option<T> {
        let task = self.tasks.get(&tid)?;
        let mut files = task.files.borrow_mut();
        if Rc::strong_count(&files) > 1 && self.held.get() + files.bytes() > MOST_BYTES {
            self.forgotten += files.open.len() as u64;
            *files = Rc::new(Table::new(&self.held));
        }
        Some(with(Rc::make_mut(&mut files)))
    }

    /// Opens a descriptor, and returns the number of the open file.
    fn open(&mut self, tid: u32, fd: u32, open: Descriptor) -> Option<u64> {
        self.opened += 1;
        let opened = self.opened;
        self.set(tid, fd, Some(Descriptor { opened, ..open }))
            .then_some(opened)
    }

    /// Replaces a descriptor, or removes it. `false` if there is no room for it.
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
