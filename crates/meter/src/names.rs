//! Absolute names of what calls are about: follows each process's descriptors, working directory
//! and root.
//!
//! A name is made of what the process said, as a path from its root: `.` and doubled slashes go.
//! Symbolic links stay, since only the kernel knows where they lead, and so does a `..`, unless
//! what stands before it was opened with `O_NOFOLLOW`, and is no link. So one file may have several
//! names, but no name is a guess: what cannot be known is `None`. That is so for a descriptor that
//! came past the calls (from a socket, a pipe, io_uring, another namespace), for absolute names
//! after chroot(2), and for names over 4095 bytes. Descriptors and directories keep the name that
//! they were opened by, also when they are renamed.
//!
//! Each thread has a table of descriptors and a place (working directory and root), alone or
//! together with others, as clone(2) and unshare(2) say. A copied table is copied only when it is
//! changed. Memory is bounded ([`MOST_TASKS`], [`MOST_BYTES`]): what there is no room for is
//! unknown, and counted ([`Names::forgotten`]).

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use foldhash::{HashMap, HashMapExt};
use gate::fs::{CWD, Open as Flags, getcwd, getdents64, openat, readlinkat};

use crate::call::{Call, Fork, LONGEST_NAME};
use crate::syscalls::{self, At, Syscall};

/// A name.
pub type Name = Rc<[u8]>;

/// Threads that are followed at one time.
pub const MOST_TASKS: usize = 8192;
/// Room for descriptors and their names, in bytes.
pub const MOST_BYTES: usize = 8 << 20;
/// What a descriptor takes beside its name.
const DESCRIPTOR: usize = 96;

/// What a command begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inherited {
    /// Its working directory.
    pub cwd: Option<Vec<u8>>,
    /// Open descriptors, and the absolute names of their files.
    pub files: Vec<(u32, Vec<u8>)>,
}

impl Inherited {
    /// What this process hands on to a command that it runs: its working directory, and those
    /// descriptors that execve(2) leaves open. Without /proc the descriptors are unknown.
    pub fn from_this_process() -> Inherited {
        Inherited {
            cwd: getcwd().ok().filter(|name| name.first() == Some(&b'/')),
            files: open_files().unwrap_or_default(),
        }
    }
}

fn open_files() -> Option<Vec<(u32, Vec<u8>)>> {
    let dir = openat(CWD, c"/proc/self/fd", Flags::DIRECTORY).ok()?;
    let mut buffer = vec![0; 8 << 10];
    let mut files = Vec::new();
    loop {
        let n = getdents64(&dir, &mut buffer).ok().filter(|n| *n > 0);
        let Some(entries) = n.and_then(|n| buffer.get(..n)) else {
            return Some(files);
        };
        for entry in ondisk::dirent::entries(entries) {
            let Some(fd) = entry.name.to_str().ok().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let name = readlinkat(&dir, entry.name)
                .ok()
                .filter(|name| is_file(name));
            files.extend(name.filter(|_| survives_exec(fd)).map(|name| (fd, name)));
        }
    }
}

/// Whether what /proc says of a descriptor is the name of a file that is there.
fn is_file(name: &[u8]) -> bool {
    name.first() == Some(&b'/') && !name.ends_with(b" (deleted)")
}

/// Whether execve(2) leaves a descriptor of this process open.
fn survives_exec(fd: u32) -> bool {
    if gate::command::was_closed(fd) {
        return false;
    }
    let Ok(path) = gate::long::c_string(format!("/proc/self/fdinfo/{fd}").as_bytes()) else {
        return false;
    };
    let text = gate::file::read_kernel(&path).unwrap_or_default();
    let flags = text
        .split(|&b| b == b'\n')
        .find_map(|line| line.strip_prefix(b"flags:"));
    let flags =
        flags.and_then(|flags| u64::from_str_radix(str::from_utf8(flags).ok()?.trim(), 8).ok());
    flags.is_some_and(|flags| flags & O_CLOEXEC == 0)
}

// The same numbers on every architecture that we know of.
const O_CREAT: u64 = 0o100;
const O_CLOEXEC: u64 = 0o2_000_000;
/// The bit of `O_TMPFILE` that nothing else has.
const O_TMPFILE: u64 = 0o20_000_000;
const AT_FDCWD: i32 = -100;
const CLONE_FS: u64 = 0x200;
const CLONE_FILES: u64 = 0x400;
const CLONE_NEWNS: u64 = 0x2_0000;
const CLONE_NEWUSER: u64 = 0x1000_0000;
const EBADF: i32 = 9;
const ENOENT: i32 = 2;

/// Components of a name.
pub fn components(name: &[u8]) -> u64 {
    name.split(|&b| b == b'/')
        .filter(|part| !part.is_empty())
        .count() as u64
}

/// What a call is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The absolute name of its file: of its first path argument that is looked up, or of its first
    /// descriptor.
    pub name: Option<Name>,
    /// The absolute name of the other file, where there are two: rename, link, copy_file_range.
    pub other: Option<Name>,
    /// Whether the file was looked up by a name; else it was open.
    pub by_name: bool,
    /// The file is known to be a directory.
    pub directory: bool,
    /// Of a name that begins in an open directory: the number of that opening.
    pub base: Option<u64>,
    /// Of a call on a descriptor, and of one that opens: a number that this opening of the file has
    /// alone, also in copies of the descriptor.
    pub opened: Option<u64>,
    /// So many of the last components of its name are directories, and not links to some.
    real: u32,
    /// Save that the last one may be a link, unless it was not to be followed.
    may_be_link: bool,
}

/// An open file.
#[derive(Clone, Debug)]
struct Descriptor {
    name: Name,
    /// So many of the last components of the name are directories, and not links to some.
    real: u32,
    opened: u64,
    directory: bool,
    /// execve(2) closes it; or that is not known.
    cloexec: bool,
}

impl Descriptor {
    fn weight(&self) -> usize {
        DESCRIPTOR + self.name.len()
    }
}

/// A table of descriptors, which adds what it takes to what all take together.
#[derive(Debug)]
struct Table {
    open: HashMap<u32, Descriptor>,
    held: Rc<Cell<usize>>,
}

impl Table {
    fn weight(&self) -> usize {
        self.open.values().map(Descriptor::weight).sum()
    }

    fn take(&mut self, fd: u32) -> Option<Descriptor> {
        let taken = self.open.remove(&fd)?;
        self.held
            .set(self.held.get().saturating_sub(taken.weight()));
        Some(taken)
    }

    fn retain(&mut self, keep: impl Fn(u32, &Descriptor) -> bool) {
        let gone: Vec<u32> = self
            .open
            .iter()
            .filter(|(fd, open)| !keep(**fd, open))
            .map(|(fd, _)| *fd)
            .collect();
        gone.into_iter().for_each(|fd| drop(self.take(fd)));
    }
}

impl Clone for Table {
    fn clone(&self) -> Table {
        self.held.set(self.held.get() + self.weight());
        Table {
            open: self.open.clone(),
            held: Rc::clone(&self.held),
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.held.set(self.held.get().saturating_sub(self.weight()));
    }
}

/// Where names begin.
#[derive(Clone, Debug)]
struct Place {
    cwd: Option<Name>,
    /// As of a descriptor.
    real: u32,
    /// Its root is that of the command.
    rooted: bool,
}

/// A thread. The outer cells are shared as the kernel shares them; the inner `Rc` is a copy that
/// nobody has changed yet.
#[derive(Clone, Debug)]
struct Task {
    process: u32,
    files: Rc<RefCell<Rc<Table>>>,
    place: Rc<RefCell<Place>>,
}

impl Task {
    fn open(&self, fd: u64) -> Option<Descriptor> {
        let fd = u32::try_from(fd as i32).ok()?; // the kernel looks at 32 bits
        self.files.borrow().open.get(&fd).cloned()
    }

    fn own_files(&mut self) {
        let copy = Rc::clone(&*self.files.borrow());
        self.files = Rc::new(RefCell::new(copy));
    }

    fn own_place(&mut self) {
        let copy = self.place.borrow().clone();
        self.place = Rc::new(RefCell::new(copy));
    }
}

/// The names of all processes.
#[derive(Debug)]
pub struct Names {
    tasks: HashMap<u32, Task>,
    /// Tasks that are not the main threads of their processes.
    threads: usize,
    start: Option<Inherited>,
    /// Some process has another root than the command: those of which nothing is known may have it,
    /// too.
    uprooted: bool,
    held: Rc<Cell<usize>>,
    opened: u64,
    forgotten: u64,
}

impl Names {
    /// The first process that is told of begins so.
    pub fn new(start: Inherited) -> Names {
        Names {
            tasks: HashMap::new(),
            threads: 0,
            start: Some(start),
            uprooted: false,
            held: Rc::default(),
            opened: 0,
            forgotten: 0,
        }
    }

    /// Descriptors that were forgotten, and threads that were not followed, because there were too
    /// many.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// What a call is about; and follows what it does to descriptors and places.
    pub fn call(&mut self, call: &Call<'_>) -> Subject {
        let Some(syscall) = syscalls::by_number(call.number) else {
            return Subject::default();
        };
        self.meet(call.pid, call.tid);
        let Some(task) = self.task(call.pid, call.tid) else {
            return Subject::default();
        };
        let mut about = about(task, syscall, call);
        self.follow(syscall, call, &mut about);
        about
    }

    /// A process or a thread begins.
    pub fn fork(&mut self, fork: &Fork) {
        self.meet(fork.parent, fork.parent);
        let task = self.task(fork.parent, fork.parent).cloned();
        let Some(mut task) = task.filter(|_| self.tasks.len() < MOST_TASKS) else {
            self.forgotten += 1;
            return;
        };
        task.process = fork.pid;
        if !fork.shares_files {
            task.own_files();
        }
        if !fork.shares_fs {
            task.own_place();
        }
        self.enter(fork.tid, task);
    }

    /// A process runs another program: its table is its own from now on, without what was to be
    /// closed; its other threads are no more.
    pub fn exec(&mut self, pid: u32) {
        self.meet(pid, pid);
        if self.threads > 0 {
            let others: Vec<u32> = self
                .tasks
                .iter()
                .filter(|(tid, task)| task.process == pid && **tid != pid)
                .map(|(tid, _)| *tid)
                .collect();
            others.into_iter().for_each(|tid| self.leave(tid));
        }
        if let Some(task) = self.tasks.get_mut(&pid) {
            task.own_files();
        }
        self.change(pid, pid, |table| table.retain(|_, open| !open.cloexec));
    }

    /// A thread has ended.
    pub fn exit(&mut self, tid: u32) {
        self.leave(tid);
    }

    /// A process that is met for the first time, without having been told of: the first of all
    /// begins as the command does, of others nothing is known.
    fn meet(&mut self, pid: u32, tid: u32) {
        if self.tasks.contains_key(&tid) || self.tasks.contains_key(&pid) {
            return;
        }
        if self.tasks.len() >= MOST_TASKS {
            self.forgotten += 1;
            return;
        }
        let start = self.start.take();
        let Inherited { cwd, files } = start.unwrap_or_default();
        let table = Table {
            open: HashMap::new(),
            held: Rc::clone(&self.held),
        };
        let task = Task {
            process: pid,
            files: Rc::new(RefCell::new(Rc::new(table))),
            place: Rc::new(RefCell::new(Place {
                real: cwd.as_deref().map_or(0, all_real),
                cwd: cwd.map(Name::from),
                rooted: !self.uprooted,
            })),
        };
        self.enter(pid, task);
        for (fd, name) in files {
            let real = all_real(&name);
            let open = Descriptor {
                name: Name::from(name),
                real,
                opened: 0,
                directory: false,
                cloexec: false,
            };
            self.put(pid, pid, fd, open);
        }
    }

    fn task(&self, pid: u32, tid: u32) -> Option<&Task> {
        self.tasks.get(&tid).or_else(|| self.tasks.get(&pid))
    }

    fn enter(&mut self, tid: u32, task: Task) {
        self.leave(tid);
        self.threads += usize::from(task.process != tid);
        self.tasks.insert(tid, task);
    }

    fn leave(&mut self, tid: u32) {
        if let Some(task) = self.tasks.remove(&tid) {
            self.threads -= usize::from(task.process != tid);
        }
    }

    /// Changes the table of descriptors of a thread. Where there is no room for a copy of its own,
    /// that table is forgotten.
    fn change<T>(&mut self, pid: u32, tid: u32, with: impl FnOnce(&mut Table) -> T) -> Option<T> {
        let task = self.task(pid, tid)?;
        let mut files = task.files.borrow_mut();
        let mut forgotten = 0;
        if Rc::strong_count(&files) > 1 && self.held.get() + files.weight() > MOST_BYTES {
            forgotten = files.open.len() as u64;
            *files = Rc::new(Table {
                open: HashMap::new(),
                held: Rc::clone(&self.held),
            });
        }
        let done = with(Rc::make_mut(&mut files));
        drop(files);
        self.forgotten += forgotten;
        Some(done)
    }

    /// A file is open from now on. What was there before has been closed somehow.
    fn put(&mut self, pid: u32, tid: u32, fd: u32, open: Descriptor) -> Option<u64> {
        self.opened += 1;
        let opened = self.opened;
        self.place(pid, tid, fd, Some(Descriptor { opened, ..open }))
            .then_some(opened)
    }

    /// Puts a descriptor into a table, or nothing.
    fn place(&mut self, pid: u32, tid: u32, fd: u32, open: Option<Descriptor>) -> bool {
        let kept = self.change(pid, tid, |table| {
            table.take(fd);
            let Some(open) = open else { return true };
            let held = table.held.get() + open.weight();
            if held > MOST_BYTES {
                return false;
            }
            table.held.set(held);
            table.open.insert(fd, open);
            true
        });
        self.forgotten += u64::from(kept == Some(false));
        kept == Some(true)
    }

    fn follow(&mut self, syscall: &Syscall, call: &Call<'_>, about: &mut Subject) {
        let (pid, tid) = (call.pid, call.tid);
        let [a0, a1, a2, ..] = call.args;
        let fd = |arg: u64| u32::try_from(arg as i32).ok();
        let result = call.result.filter(|_| call.errno().is_none());
        let new = result.and_then(|result| u32::try_from(result).ok());
        match (syscall.name, result) {
            // What failed to be closed is closed all the same, unless there was nothing.
            ("close", _) if call.errno() != Some(EBADF) => {
                if let Some(fd) = fd(a0) {
                    self.place(pid, tid, fd, None);
                }
            }
            (_, None) => {}
            ("close_range", _) => self.close_range(pid, tid, a0 as u32..=a1 as u32, a2),
            (
                "open" | "openat" | "openat2" | "creat" | "open_tree" | "open_tree_attr"
                | "open_by_handle_at",
                _,
            ) => {
                let Some(new) = new else { return };
                let flags = match syscall.name {
                    "open" => a1,
                    "openat" | "open_tree" | "open_tree_attr" => a2,
                    "creat" => O_CREAT,
                    // In memory that is not ours: what may be closed by execve(2) is taken to be.
                    _ => O_CLOEXEC,
                };
                about.directory |=
                    flags & Flags::DIRECTORY.bits() as u64 != 0 && flags & O_TMPFILE == 0;
                let name = about.name.clone().filter(|_| flags & O_TMPFILE == 0);
                about.opened = match name {
                    Some(name) => {
                        let followed =
                            about.may_be_link && flags & Flags::NOFOLLOW.bits() as u64 == 0;
                        let real = if followed { 0 } else { about.real };
                        let (directory, cloexec) = (about.directory, flags & O_CLOEXEC != 0);
                        self.put(
                            pid,
                            tid,
                            new,
                            Descriptor {
                                name,
                                real,
                                opened: 0,
                                directory,
                                cloexec,
                            },
                        )
                    }
                    None => {
                        self.place(pid, tid, new, None);
                        None
                    }
                };
            }
            ("dup" | "dup2" | "dup3", _) => {
                let cloexec = syscall.name == "dup3" && a2 & O_CLOEXEC != 0;
                if let Some(new) = new.filter(|new| fd(a0) != Some(*new)) {
                    self.copy(pid, tid, a0, new, cloexec);
                }
            }
            ("fcntl", _) => match a1 as u32 {
                F_DUPFD | F_DUPFD_CLOEXEC => {
                    if let Some(new) = new {
                        self.copy(pid, tid, a0, new, a1 as u32 == F_DUPFD_CLOEXEC);
                    }
                }
                F_SETFD => self.set_cloexec(pid, tid, fd(a0), a2 & FD_CLOEXEC != 0),
                _ => {}
            },
            ("ioctl", _) if a1 as u32 == FIOCLEX || a1 as u32 == FIONCLEX => {
                self.set_cloexec(pid, tid, fd(a0), a1 as u32 == FIOCLEX);
            }
            ("getdents64" | "getdents", _) => about.directory = true,
            ("chdir" | "fchdir", _) => {
                about.directory = true;
                let real = if about.may_be_link { 0 } else { about.real };
                self.move_to(pid, tid, |place| {
                    (place.cwd, place.real) = (about.name.clone(), real)
                });
            }
            ("chroot", _) => self.uproot(pid, tid, |place| place.rooted = false),
            ("setns", _) if a1 == 0 || a1 & CLONE_NEWNS != 0 => {
                self.uproot(pid, tid, |place| *place = NOWHERE)
            }
            // A new root for every process of the mount namespace.
            ("pivot_root", _) => {
                self.uprooted = true;
                self.tasks
                    .values()
                    .for_each(|task| *task.place.borrow_mut() = NOWHERE);
            }
            ("unshare", _) => {
                let Some(task) = self.tasks.get_mut(&tid) else {
                    return;
                };
                if a0 & CLONE_FILES != 0 {
                    task.own_files();
                }
                if a0 & (CLONE_FS | CLONE_NEWNS | CLONE_NEWUSER) != 0 {
                    task.own_place();
                }
            }
            _ => {
                if let Some(new) = new.filter(|_| FRESH.contains(&syscall.name)) {
                    self.place(pid, tid, new, None);
                }
            }
        }
    }

    fn copy(&mut self, pid: u32, tid: u32, from: u64, to: u32, cloexec: bool) {
        let open = self.task(pid, tid).and_then(|task| task.open(from));
        self.place(
            pid,
            tid,
            to,
            open.map(|open| Descriptor { cloexec, ..open }),
        );
    }

    fn set_cloexec(&mut self, pid: u32, tid: u32, fd: Option<u32>, cloexec: bool) {
        let is_other = |task: &Task| {
            let files = task.files.borrow();
            fd.and_then(|fd| files.open.get(&fd))
                .is_some_and(|open| open.cloexec != cloexec)
        };
        if let Some(fd) = fd
            && self.task(pid, tid).is_some_and(is_other)
        {
            self.change(pid, tid, |table| {
                if let Some(open) = table.open.get_mut(&fd) {
                    open.cloexec = cloexec;
                }
            });
        }
    }

    fn close_range(
        &mut self,
        pid: u32,
        tid: u32,
        range: std::ops::RangeInclusive<u32>,
        flags: u64,
    ) {
        if flags & CLOSE_RANGE_UNSHARE != 0
            && let Some(task) = self.tasks.get_mut(&tid)
        {
            task.own_files();
        }
        self.change(pid, tid, |table| {
            if flags & CLOSE_RANGE_CLOEXEC == 0 {
                table.retain(|fd, _| !range.contains(&fd));
            } else {
                let inside = table.open.iter_mut().filter(|(fd, _)| range.contains(fd));
                inside.for_each(|(_, open)| open.cloexec = true);
            }
        });
    }

    fn uproot(&mut self, pid: u32, tid: u32, with: impl FnOnce(&mut Place)) {
        self.uprooted = true;
        self.move_to(pid, tid, with);
    }

    fn move_to(&mut self, pid: u32, tid: u32, with: impl FnOnce(&mut Place)) {
        if let Some(task) = self.task(pid, tid) {
            with(&mut task.place.borrow_mut());
        }
    }
}

const NOWHERE: Place = Place {
    cwd: None,
    real: 0,
    rooted: false,
};
const F_DUPFD: u32 = 0;
const F_SETFD: u32 = 2;
const F_DUPFD_CLOEXEC: u32 = 1030;
const FD_CLOEXEC: u64 = 1;
const FIONCLEX: u32 = 0x5450;
const FIOCLEX: u32 = 0x5451;
const CLOSE_RANGE_UNSHARE: u64 = 2;
const CLOSE_RANGE_CLOEXEC: u64 = 4;
/// Calls that answer with a descriptor of something that has no name.
const FRESH: [&str; 7] = [
    "inotify_init",
    "inotify_init1",
    "fanotify_init",
    "io_uring_setup",
    "fsopen",
    "fsmount",
    "fspick",
];

/// What a call is about, before it does anything.
fn about(task: &Task, syscall: &Syscall, call: &Call<'_>) -> Subject {
    let mut about = Subject::default();
    let mut names = [None, None];
    let mut looked_up = 0;
    for (at, name) in syscall.names.iter().enumerate() {
        let given = if at == 0 { call.name } else { call.other };
        let Some(found) = found(task, syscall, name.at, given, call) else {
            continue;
        };
        if looked_up == 0 {
            about.by_name = found.by_name;
            (about.directory, about.base, about.opened) =
                (found.directory, found.base, found.opened);
            (about.real, about.may_be_link) = (found.real, found.may_be_link);
        }
        if let Some(slot) = names.get_mut(looked_up) {
            *slot = found.name;
        }
        looked_up += 1;
    }
    if looked_up == 0 {
        let open = |at: usize| {
            syscall
                .fds
                .get(at)
                .and_then(|arg| task.open(*call.args.get(*arg)?))
        };
        if let Some(first) = open(0) {
            (about.directory, about.opened, about.real) =
                (first.directory, Some(first.opened), first.real);
            names = [Some(first.name), open(1).map(|other| other.name)];
        }
    }
    [about.name, about.other] = names;
    about
}

/// What one path argument leads to.
#[derive(Default)]
struct Found {
    name: Option<Name>,
    by_name: bool,
    directory: bool,
    base: Option<u64>,
    opened: Option<u64>,
    real: u32,
    may_be_link: bool,
}

impl Found {
    fn by_name(joined: Option<Joined>, base: Option<u64>) -> Found {
        let Some(Joined {
            name,
            real,
            may_be_link,
        }) = joined
        else {
            return Found {
                by_name: true,
                ..Found::default()
            };
        };
        Found {
            name: Some(name),
            by_name: true,
            base,
            real,
            may_be_link,
            ..Found::default()
        }
    }
}

/// `None` for an argument that is not looked up.
fn found(
    task: &Task,
    syscall: &Syscall,
    at: At,
    given: Option<&[u8]>,
    call: &Call<'_>,
) -> Option<Found> {
    let (base, dirfd) = match at {
        At::Nowhere => return None,
        At::Here => (None, None),
        At::Fd(arg) => {
            let fd = *call.args.get(arg)?;
            if fd as i32 == AT_FDCWD {
                (None, None)
            } else {
                (task.open(fd), Some(fd))
            }
        }
    };
    let place = task.place.borrow();
    match given {
        // The descriptor itself, with AT_EMPTY_PATH; or where there may be no name at all.
        Some(b"") | None if dirfd.is_some() && call.errno() != Some(ENOENT) => {
            let base = base?;
            let (name, real, directory, opened) = (
                Some(base.name),
                base.real,
                base.directory,
                Some(base.opened),
            );
            Some(Found {
                name,
                real,
                directory,
                opened,
                ..Found::default()
            })
        }
        Some(b"") | None => Some(Found::by_name(None, None)),
        // With RESOLVE_IN_ROOT, which is in memory that is not ours, it begins somewhere else.
        Some(name) if name.first() == Some(&b'/') => {
            let known = place.rooted && syscall.name != "openat2";
            Some(Found::by_name(
                known.then(|| join(b"", 0, name)).flatten(),
                None,
            ))
        }
        Some(name) => match base {
            Some(open) => Some(Found::by_name(
                join(&open.name, open.real, name),
                Some(open.opened),
            )),
            None => {
                let cwd = place.cwd.as_deref().filter(|_| dirfd.is_none());
                Some(Found::by_name(
                    cwd.and_then(|cwd| join(cwd, place.real, name)),
                    None,
                ))
            }
        },
    }
}

/// A name, and what is known of its last components; see [`Subject`].
struct Joined {
    name: Name,
    real: u32,
    may_be_link: bool,
}

/// `dir/name` without empty components and `.`; without `..` at the root and behind one of the last
/// `real` components of `dir`, which are directories. `None` if that is too long.
fn join(dir: &[u8], real: u32, name: &[u8]) -> Option<Joined> {
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    if dir != b"/" {
        path.extend_from_slice(dir);
    }
    let (mut real, mut may_be_link) = (real, false);
    for part in name.split(|&b| b == b'/') {
        match part {
            // A link before a slash is followed in any case.
            b"" | b"." if may_be_link => {
                (real, may_be_link) = (0, false);
                continue;
            }
            b"" | b"." => continue,
            b".." if path.is_empty() => continue,
            // What the component before was is known no longer.
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
    (path.len() <= LONGEST_NAME).then(|| Joined {
        name: Name::from(path),
        real,
        may_be_link,
    })
}

/// As many components as an absolute name without links has.
fn all_real(name: &[u8]) -> u32 {
    u32::try_from(components(name)).unwrap_or(0)
}

#[cfg(test)]
mod tests;
