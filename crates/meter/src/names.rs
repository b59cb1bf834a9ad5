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
mod inherited;
mod kind;

use std::cell::{Cell, RefCell};
use std::ops::RangeInclusive;
use std::rc::Rc;

use foldhash::{HashMap, HashMapExt};
use gate::fs::Open as Flags;

pub use attached::Attached;
pub(crate) use attached::OpenFiles;
pub use inherited::Inherited;
pub use kind::DescriptorKind;
pub(crate) use kind::seen;

use crate::call::{Call, Fork, LONG_CALL, LONGEST_NAME, LongCall};
use crate::syscalls::{self, At, Kind, Syscall};
use crate::syscalls::{CLONE_FILES, CLONE_FS, CLONE_NEWNS, CLONE_NEWUSER, O_CLOEXEC};

/// An absolute name.
pub type Name = Rc<[u8]>;

/// The most threads that are followed at a time.
pub const MOST_TASKS: usize = 8192;
/// The most bytes of descriptors and their names.
pub const MOST_BYTES: usize = 8 << 20;
/// Bytes of a descriptor without its name.
const DESCRIPTOR: usize = 96;
/// Bytes of a descriptor that has no name.
const UNNAMED: usize = 32;

// These numbers are the same on every known architecture.
const O_CREAT: u64 = 0o100;
/// The bit of `O_TMPFILE` that no other flag has.
const O_TMPFILE: u64 = 0o20_000_000;
const AT_FDCWD: i32 = -100;
const EBADF: i32 = 9;
const ENOENT: i32 = 2;
const F_DUPFD: u32 = 0;
const F_SETFD: u32 = 2;
const F_DUPFD_CLOEXEC: u32 = 1030;
const FD_CLOEXEC: u64 = 1;
const FIONCLEX: u32 = 0x5450;
const FIOCLEX: u32 = 0x5451;
const CLOSE_RANGE_UNSHARE: u64 = 2;
const CLOSE_RANGE_CLOEXEC: u64 = 4;

/// The number of components of a name.
pub fn components(name: &[u8]) -> u64 {
    name.split(|&b| b == b'/')
        .filter(|part| !part.is_empty())
        .count() as u64
}

/// What a call is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The absolute name of its file: of its first path argument that is looked up, or else of its
    /// first descriptor.
    pub name: Option<Name>,
    /// The absolute name of the second file of rename, link, copy_file_range.
    pub other: Option<Name>,
    /// Whether the file was looked up by a name; otherwise it was open.
    pub by_name: bool,
    /// The file is known to be a directory.
    pub directory: bool,
    /// The number of the open directory that the name is relative to.
    pub base: Option<u64>,
    /// The number of the open file that the call uses or opens: an open file description, which
    /// duplicates of the descriptor share.
    pub opened: Option<u64>,
    /// What the descriptor is that the call uses, or that it has waited to open; `None` if it uses
    /// none, or a bad one, or looks a name up.
    pub descriptor: Option<DescriptorKind>,
    /// The last components of the name of which it is known that they are directories, and no
    /// links; but if `may_be_link`, the last one may be a link that was followed.
    real: u32,
    may_be_link: bool,
}

/// An open file.
#[derive(Clone, Debug)]
struct Descriptor {
    name: Name,
    /// As in [`Subject`].
    real: u32,
    opened: u64,
    directory: bool,
    /// execve(2) closes it, or may do so.
    cloexec: bool,
    kind: DescriptorKind,
}

impl Descriptor {
    fn bytes(&self) -> usize {
        DESCRIPTOR + self.name.len()
    }
}

/// An open descriptor that was not opened by a known name.
#[derive(Clone, Copy, Debug)]
struct Unnamed {
    kind: DescriptorKind,
    /// As in [`Descriptor`].
    cloexec: bool,
}

/// A table of descriptors. `held` are the bytes of all tables.
#[derive(Debug)]
struct Table {
    open: HashMap<u32, Descriptor>,
    unnamed: HashMap<u32, Unnamed>,
    held: Rc<Cell<usize>>,
}

impl Table {
    fn new(held: &Rc<Cell<usize>>) -> Table {
        Table {
            open: HashMap::new(),
            unnamed: HashMap::new(),
            held: Rc::clone(held),
        }
    }

    fn bytes(&self) -> usize {
        let named: usize = self.open.values().map(Descriptor::bytes).sum();
        named + UNNAMED * self.unnamed.len()
    }

    fn close(&mut self, fd: u32) {
        let named = self.open.remove(&fd).map_or(0, |open| open.bytes());
        let unnamed = self.unnamed.remove(&fd).map_or(0, |_| UNNAMED);
        let held = self.held.get();
        self.held.set(held.saturating_sub(named + unnamed));
    }

    /// Closes the descriptors of which this holds; it is given whether they are close-on-exec.
    fn close_if(&mut self, is_closed: impl Fn(u32, bool) -> bool) {
        let open = self.open.iter().map(|(fd, open)| (*fd, open.cloexec));
        let unnamed = self.unnamed.iter().map(|(fd, open)| (*fd, open.cloexec));
        let closed = open.chain(unnamed);
        let closed = closed.filter(|(fd, cloexec)| is_closed(*fd, *cloexec));
        let closed: Vec<u32> = closed.map(|(fd, _)| fd).collect();
        closed.into_iter().for_each(|fd| self.close(fd));
    }

    /// Whether there is room for more bytes.
    fn has_room(&self, bytes: usize) -> bool {
        self.held.get() + bytes <= MOST_BYTES
    }

    fn set_unnamed(&mut self, fd: u32, kind: DescriptorKind, cloexec: bool) {
        self.close(fd);
        if self.has_room(UNNAMED) {
            self.held.set(self.held.get() + UNNAMED);
            self.unnamed.insert(fd, Unnamed { kind, cloexec });
        }
    }
}

impl Clone for Table {
    fn clone(&self) -> Table {
        self.held.set(self.held.get() + self.bytes());
        Table {
            open: self.open.clone(),
            unnamed: self.unnamed.clone(),
            held: Rc::clone(&self.held),
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.held.set(self.held.get().saturating_sub(self.bytes()));
    }
}

/// Where names begin. By default that is unknown.
#[derive(Clone, Debug, Default)]
struct Place {
    cwd: Option<Name>,
    /// As in [`Subject`].
    real: u32,
    /// The root is that of the command.
    has_commands_root: bool,
}

/// A thread. The outer cells are shared as the kernel shares them; the inner `Rc` is a copy that
/// neither process has changed yet.
#[derive(Clone, Debug)]
struct Task {
    process: u32,
    files: Rc<RefCell<Rc<Table>>>,
    place: Rc<RefCell<Place>>,
}

impl Task {
    fn open(&self, fd: u64) -> Option<Descriptor> {
        self.files.borrow().open.get(&to_fd(fd)?).cloned()
    }

    fn unnamed(&self, fd: u64) -> Option<Unnamed> {
        self.files.borrow().unnamed.get(&to_fd(fd)?).copied()
    }

    /// What a descriptor is; `None` if that is unknown.
    fn kind(&self, fd: u32) -> Option<DescriptorKind> {
        let files = self.files.borrow();
        let named = files.open.get(&fd);
        let named = named.map(|open| open.kind);
        named.or_else(|| files.unnamed.get(&fd).map(|open| open.kind))
    }

    fn unshare_files(&mut self) {
        let copy = Rc::clone(&*self.files.borrow());
        self.files = Rc::new(RefCell::new(copy));
    }

    fn unshare_place(&mut self) {
        let copy = self.place.borrow().clone();
        self.place = Rc::new(RefCell::new(copy));
    }
}

/// The descriptor in an argument, of which the kernel reads 32 bits.
fn to_fd(arg: u64) -> Option<u32> {
    u32::try_from(arg as i32).ok()
}

/// The names of all processes.
#[derive(Debug, Default)]
pub struct Names {
    tasks: HashMap<u32, Task>,
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

    /// What the descriptor is that a call uses; `None` if it uses none, or a bad one.
    fn descriptor(
        &mut self,
        tid: u32,
        syscall: &Syscall,
        call: &Call<'_>,
    ) -> Option<DescriptorKind> {
        if call.errno() == Some(EBADF) {
            return None;
        }
        let used = |arg: &usize| to_fd(call.args[*arg]);
        let used = syscall.fds.iter().filter_map(used);
        let used = used.chain(itself(syscall, call));
        DescriptorKind::of_all(used.map(|fd| self.kind(tid, call, fd)))
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
        let used = |arg: &usize| to_fd(call.args[*arg]);
        let used = syscall.fds.iter().filter_map(used).chain(opened);
        let task = self.tasks.get(&call.tid);
        let task = task.or_else(|| self.tasks.get(&call.pid));
        let kind = |fd| {
            let seen = kind::seen(call.pid, fd);
            let known = || task.and_then(|task| task.kind(fd));
            seen.or_else(known).unwrap_or(DescriptorKind::File)
        };
        let found = long
            .descriptor
            .or_else(|| DescriptorKind::of_all(used.map(kind)));
        found.unwrap_or(DescriptorKind::File)
    }

    fn kind(&mut self, tid: u32, call: &Call<'_>, fd: u32) -> DescriptorKind {
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
            table.close_if(|_, cloexec| cloexec);
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
        if let Some(known) = [tid, pid]
            .into_iter()
            .find(|id| self.tasks.contains_key(id))
        {
            return Some(known);
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
        let place = Place {
            real: cwd.as_deref().map_or(0, all_real),
            cwd: cwd.map(Name::from),
            has_commands_root: !self.has_other_root,
        };
        let task = Task {
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

    fn add(&mut self, tid: u32, task: Task) {
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

    /// Does what a call of the thread with the key `tid` has done.
    fn follow(&mut self, tid: u32, syscall: &Syscall, call: &Call<'_>, about: &mut Subject) {
        let [a0, a1, a2, ..] = call.args;
        if syscall.name == "close" {
            // A close(2) that fails closes the descriptor all the same, if it was open.
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
            // The flags are in the memory of the process: it may be close-on-exec.
            "openat2" | "open_by_handle_at" => self.open_by_name(tid, call, O_CLOEXEC, about),
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
            // They return the descriptor of something that has no name.
            "inotify_init" | "inotify_init1" | "fanotify_init" => {
                self.open_unnamed(tid, new, DescriptorKind::Watch);
            }
            "io_uring_setup" | "fsopen" | "fsmount" | "fspick" => {
                self.open_unnamed(tid, new, DescriptorKind::File);
            }
            "getdents64" | "getdents" => about.directory = true,
            _ => self.follow_place(tid, syscall, call, about),
        }
    }

    /// Does what a successful call has done to the place of a thread, and to what it shares.
    fn follow_place(&mut self, tid: u32, syscall: &Syscall, call: &Call<'_>, about: &mut Subject) {
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
                self.change_place(tid, |place| *place = Place::default());
            }
            // It changes the root of every process of the mount namespace.
            "pivot_root" => {
                self.has_other_root = true;
                let tasks = self.tasks.values();
                tasks.for_each(|task| *task.place.borrow_mut() = Place::default());
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

    /// A call has opened the file that it is about.
    fn open_by_name(&mut self, tid: u32, call: &Call<'_>, flags: u64, about: &mut Subject) {
        let Some(new) = call.result.and_then(|new| u32::try_from(new).ok()) else {
            return;
        };
        self.enter_open(tid, call, new, flags, about);
        if call.nanos >= LONG_CALL {
            about.descriptor = Some(self.kind(tid, call, new));
        }
    }

    /// Enters the new descriptor into the table.
    fn enter_open(&mut self, tid: u32, call: &Call<'_>, new: u32, flags: u64, about: &mut Subject) {
        let is_unnamed = flags & O_TMPFILE != 0;
        about.directory |= flags & Flags::DIRECTORY.bits() as u64 != 0 && !is_unnamed;
        let Some(name) = about.name.clone().filter(|_| !is_unnamed) else {
            self.open_unnamed(tid, Some(new), DescriptorKind::File);
            about.opened = None;
            return;
        };
        let is_followed = about.may_be_link && flags & Flags::NOFOLLOW.bits() as u64 == 0;
        // To open the name of a descriptor is to open the same pipe once more.
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

    /// A call has opened something without a known name. After an exec, /proc is asked again.
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

    fn set_cloexec(&mut self, tid: u32, fd: u64, cloexec: bool) {
        // A table is not copied for a flag that is set already.
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

    fn change_place(&mut self, tid: u32, with: impl FnOnce(&mut Place)) {
        if let Some(task) = self.tasks.get(&tid) {
            with(&mut task.place.borrow_mut());
        }
    }
}

/// The descriptor that a call by an empty name is about (`AT_EMPTY_PATH`).
fn itself(syscall: &Syscall, call: &Call<'_>) -> Option<u32> {
    let At::Fd(arg) = syscall.names.first()?.at else {
        return None;
    };
    let is_empty = call.name.is_none_or(<[u8]>::is_empty);
    is_empty.then(|| to_fd(call.args[arg])).flatten()
}

/// What a call is about, before it does anything.
fn subject(task: &Task, syscall: &Syscall, call: &Call<'_>) -> Subject {
    let names = syscall.names.iter().zip([call.name, call.other]);
    let mut found = names.filter_map(|(name, given)| look_up(task, syscall, name.at, given, call));
    if let Some(first) = found.next() {
        return Subject {
            other: found.next().and_then(|second| second.name),
            ..first
        };
    }
    let open = |at: usize| task.open(call.args[*syscall.fds.get(at)?]);
    match open(0) {
        Some(first) => Subject {
            other: open(1).map(|second| second.name),
            ..Subject::from(first)
        },
        None => Subject::default(),
    }
}

impl From<Descriptor> for Subject {
    fn from(open: Descriptor) -> Subject {
        Subject {
            name: Some(open.name),
            directory: open.directory,
            opened: Some(open.opened),
            real: open.real,
            ..Subject::default()
        }
    }
}

/// The file of a path argument that is `given`; `None` if the argument is not looked up.
fn look_up(
    task: &Task,
    syscall: &Syscall,
    at: At,
    given: Option<&[u8]>,
    call: &Call<'_>,
) -> Option<Subject> {
    let dirfd = match at {
        At::Nowhere => return None,
        At::Here => None,
        At::Fd(arg) => Some(call.args[arg]).filter(|fd| *fd as i32 != AT_FDCWD),
    };
    let base = dirfd.and_then(|fd| task.open(fd));
    let place = task.place.borrow();
    let unknown = Subject {
        by_name: true,
        ..Subject::default()
    };
    Some(match (given, base) {
        // The descriptor itself, with AT_EMPTY_PATH, or without a name.
        (Some(b"") | None, base) if dirfd.is_some() && call.errno() != Some(ENOENT) => {
            Subject::from(base?)
        }
        (Some(b"") | None, _) => unknown,
        // RESOLVE_IN_ROOT of openat2, which is in the memory of the process, changes the root.
        (Some([b'/', ..]), _) if !place.has_commands_root || syscall.name == "openat2" => unknown,
        (Some(name @ [b'/', ..]), _) => join(b"", 0, name).unwrap_or(unknown),
        (Some(name), Some(base)) => match join(&base.name, base.real, name) {
            Some(joined) => Subject {
                base: Some(base.opened),
                ..joined
            },
            None => unknown,
        },
        (Some(name), None) => {
            let cwd = place.cwd.as_deref().filter(|_| dirfd.is_none());
            let joined = cwd.and_then(|cwd| join(cwd, place.real, name));
            joined.unwrap_or(unknown)
        }
    })
}

/// The file `dir/name`, without empty components and `.`; without `..` at the root and behind one
/// of the last `real` components of `dir`, which are directories. `None` if the name is too long.
fn join(dir: &[u8], real: u32, name: &[u8]) -> Option<Subject> {
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    if dir != b"/" {
        path.extend_from_slice(dir);
    }
    let (mut real, mut may_be_link) = (real, false);
    for part in name.split(|&b| b == b'/') {
        match part {
            // A link before a slash is always followed.
            b"" | b"." if may_be_link => {
                (real, may_be_link) = (0, false);
                continue;
            }
            b"" | b"." => continue,
            b".." if path.is_empty() => continue,
            // The component before may be a link: what it refers to is unknown.
            _ if may_be_link => real = 0,
            _ => {}
        }
        if part == b".." && real > 0 {
            path.truncate(path.iter().rposition(|&b| b == b'/').unwrap_or(0));
            real -= 1;
            continue;
        }
        path.push(b'/');
        path.extend_from_slice(part);
        may_be_link = part != b"..";
        real = if may_be_link { real + 1 } else { 0 };
    }
    if path.is_empty() {
        path.push(b'/');
    }
    (path.len() <= LONGEST_NAME).then(|| Subject {
        name: Some(Name::from(path)),
        by_name: true,
        real,
        may_be_link,
        ..Subject::default()
    })
}

/// The number of components of an absolute name without links.
fn all_real(name: &[u8]) -> u32 {
    u32::try_from(components(name)).unwrap_or(0)
}

#[cfg(test)]
mod tests;
