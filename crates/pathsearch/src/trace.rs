//! Listens to the calls of a command, and keeps what is to be known of them: what each directory
//! was asked for, the searches, and each name with what was done with it.
//!
//! All tables are bounded. What they have no room for is counted in [`Traced::totals`] all the
//! same, and [`Traced::left_out`] says how much that was.

use std::collections::HashMap;
use std::rc::Rc;

use gate::Errno;
use meter::call::{Call, Fork, Listener};
use meter::names::{Inherited, Names};
use meter::syscalls::{self, Kind as Does};

use crate::classify::{Family, Known, Lookup, Searcher, key};
use crate::group::{Search, place};
use crate::kind::Kind;
use crate::lookup::{self, Op, Outcome, join, outcome, split};

/// Directories that are kept one by one.
const MOST_DIRECTORIES: usize = 40_000;
/// Names that are kept one by one.
const MOST_TOUCHED: usize = 40_000;
/// Searches that are kept one by one.
const MOST_SEARCHES: usize = 10_000;
/// Bytes of the names of directories, of names, and of what searches have tried: each.
const MOST_BYTES: usize = 6 << 20;
/// Searches of a process that may still go on.
const MOST_OPEN: usize = 16;
/// Open files whose place is followed.
const MOST_READERS: usize = 8192;

/// Look-ups of one kind in a directory.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Count {
    /// The name was there, or could not be asked for.
    pub hits: u64,
    /// It was not.
    pub misses: u64,
}

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, other: Count) {
        self.hits += other.hits;
        self.misses += other.misses;
    }
}

/// What a directory was asked for.
#[derive(Clone, Default, Debug)]
pub struct Directory {
    /// By kind, in the order of [`Kind::ALL`].
    pub counts: [Count; Kind::ALL.len()],
    /// Nanoseconds in misses.
    pub nanos: u64,
}

impl Directory {
    /// All kinds together.
    pub fn total(&self) -> Count {
        let mut total = Count::default();
        self.counts.iter().for_each(|count| total += *count);
        total
    }

    /// What it was searched for most: the kind with the most misses, then hits.
    pub fn kind(&self) -> Kind {
        let most = Kind::ALL
            .iter()
            .zip(&self.counts)
            .rev()
            .max_by_key(|(_, count)| (count.misses, count.hits));
        most.map_or(Kind::Other, |(kind, _)| *kind)
    }
}

/// What was done with a name.
#[derive(Clone, Debug)]
pub struct Touch {
    /// The name, absolute.
    pub path: Rc<[u8]>,
    /// The kind of its first look-up.
    pub kind: Kind,
    /// Look-ups that found it, and such that did not.
    pub count: Count,
    /// Nanoseconds in all calls with this name.
    pub nanos: u64,
    /// It was looked up so that a symbolic link is followed.
    pub follow: bool,
    /// It was looked up so that a symbolic link is not followed.
    pub nofollow: bool,
    /// It was asked where it leads.
    pub readlinks: u64,
    /// It was opened.
    pub opens: u64,
    /// It was run.
    pub execs: u64,
    /// It was opened to be made, or to be written to.
    pub made: bool,
    /// Calls that read it.
    pub reads: u64,
    /// Bytes that the first call read.
    pub first: u64,
    /// How far into it the reads went.
    pub extent: u64,
    /// Calls that listed it.
    pub listings: u64,
    /// fstat(2) of it after it was read.
    pub stats_after_read: u64,
}

impl Touch {
    /// A name that nothing has been done with yet.
    pub fn new(path: Rc<[u8]>) -> Touch {
        Touch {
            path,
            kind: Kind::Other,
            count: Count::default(),
            nanos: 0,
            follow: false,
            nofollow: false,
            readlinks: 0,
            opens: 0,
            execs: 0,
            made: false,
            reads: 0,
            first: 0,
            extent: 0,
            listings: 0,
            stats_after_read: 0,
        }
    }
}

/// Sums over everything.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Look-ups.
    pub lookups: u64,
    /// Those that missed.
    pub misses: u64,
    /// Nanoseconds in those.
    pub nanos: u64,
}

/// What there was no room for.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Searches.
    pub searches: u64,
    /// Look-ups in directories that are not kept.
    pub directories: u64,
    /// Look-ups of names that are not kept.
    pub names: u64,
    /// Look-ups whose names the meter could not read: they are nowhere.
    pub nameless: u64,
}

/// How often a program was searched for, and found there.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Use {
    /// Searches.
    pub times: u64,
    /// Misses in them.
    pub misses: u64,
}

/// A program and where it was found.
pub type Found = (Vec<u8>, Option<Vec<u8>>);

/// What a process runs.
#[derive(Debug, Default)]
struct Image {
    program: Rc<[u8]>,
    searcher: Searcher,
    open: Vec<Search>,
}

#[derive(Debug, Default)]
struct Process {
    parent: Option<u32>,
    image: Image,
    /// What it ran until just now: the execve that ended it may be told after the end.
    before: Option<Image>,
}

/// A listener that keeps what is to be known of look-ups.
#[derive(Debug)]
pub struct Trace {
    names: Names,
    known: Known,
    processes: HashMap<u32, Process>,
    directories: HashMap<Vec<u8>, Directory>,
    touched: Vec<Touch>,
    by_name: HashMap<Rc<[u8]>, usize>,
    readers: HashMap<u64, u64>,
    searches: Vec<Search>,
    search_bytes: usize,
    directory_bytes: usize,
    name_bytes: usize,
    begun: u64,
    programs: HashMap<Found, Use>,
    totals: Totals,
    told: u64,
    left_out: LeftOut,
}

/// What a trace comes to.
#[derive(Debug)]
pub struct Traced {
    /// Searches, in the order in which they began.
    pub searches: Vec<Search>,
    /// Directories, by name.
    pub directories: Vec<(Vec<u8>, Directory)>,
    /// Names, in the order in which they were first looked up.
    pub touched: Vec<Touch>,
    /// Programs that were searched for along PATH.
    pub programs: Vec<(Found, Use)>,
    /// Sums over everything.
    pub totals: Totals,
    /// Calls that were told of and have returned, look-ups or not.
    pub told: u64,
    /// What there was no room for.
    pub left_out: LeftOut,
    /// Descriptors and threads that could not be followed.
    pub forgotten: u64,
}

impl Trace {
    /// A trace of a command that begins so, with these directories in its environment.
    pub fn new(start: Inherited, known: Known) -> Trace {
        Trace {
            names: Names::new(start),
            known,
            processes: HashMap::new(),
            directories: HashMap::new(),
            touched: Vec::new(),
            by_name: HashMap::new(),
            readers: HashMap::new(),
            searches: Vec::new(),
            search_bytes: 0,
            directory_bytes: 0,
            name_bytes: 0,
            begun: 0,
            programs: HashMap::new(),
            totals: Totals::default(),
            told: 0,
            left_out: LeftOut::default(),
        }
    }

    /// Ends it.
    pub fn end(mut self) -> Traced {
        let open: Vec<Process> = self.processes.drain().map(|(_, process)| process).collect();
        for process in open {
            process
                .before
                .into_iter()
                .chain([process.image])
                .for_each(|image| self.close(image.open));
        }
        self.searches.sort_by_key(|search| search.number);
        let mut directories: Vec<_> = self.directories.into_iter().collect();
        directories.sort_by(|a, b| a.0.cmp(&b.0));
        let mut programs: Vec<_> = self.programs.into_iter().collect();
        programs.sort_by(|a, b| a.0.cmp(&b.0));
        Traced {
            searches: self.searches,
            directories,
            touched: self.touched,
            programs,
            totals: self.totals,
            told: self.told,
            left_out: self.left_out,
            forgotten: self.names.forgotten(),
        }
    }

    fn close(&mut self, open: Vec<Search>) {
        for search in open {
            if search.kind == Kind::Path {
                let found = search.found.clone();
                let key = (search.name.clone(), found);
                if self.programs.contains_key(&key) || self.programs.len() < MOST_SEARCHES {
                    let used = self.programs.entry(key).or_default();
                    used.times += 1;
                    used.misses += search.misses();
                }
            }
            if search.kind == Kind::Other && search.directories() < 2 {
                continue;
            }
            let bytes = self.search_bytes + search.bytes();
            if self.searches.len() < MOST_SEARCHES && bytes <= MOST_BYTES {
                self.search_bytes = bytes;
                self.searches.push(search);
            } else {
                self.left_out.searches += 1;
            }
        }
    }

    /// Ends what a process ran before.
    fn settle(&mut self, pid: u32) {
        if let Some(before) = self
            .processes
            .get_mut(&pid)
            .and_then(|process| process.before.take())
        {
            self.close(before.open);
        }
    }

    fn count(&mut self, dir: &[u8], kind: Kind, found: bool, nanos: u64) {
        if !self.directories.contains_key(dir) {
            if self.directories.len() >= MOST_DIRECTORIES
                || self.directory_bytes + dir.len() > MOST_BYTES
            {
                self.left_out.directories += 1;
                return;
            }
            self.directory_bytes += dir.len();
            self.directories.insert(dir.to_vec(), Directory::default());
        }
        let Some(directory) = self.directories.get_mut(dir) else {
            return;
        };
        let count = &mut directory.counts[kind as usize];
        if found {
            count.hits += 1;
        } else {
            count.misses += 1;
            directory.nanos += nanos;
        }
    }

    /// What was taken for something else belongs to a search along PATH.
    fn promote(&mut self, search: &Search) {
        for tried in &search.tried {
            if let Some(directory) = self.directories.get_mut(split(&tried.path).0) {
                let from = &mut directory.counts[Kind::Other as usize];
                let moved = Count {
                    hits: tried.hits.min(from.hits),
                    misses: tried.misses.min(from.misses),
                };
                from.hits -= moved.hits;
                from.misses -= moved.misses;
                directory.counts[Kind::Path as usize] += moved;
            }
        }
    }

    fn touch(&mut self, path: &[u8]) -> Option<&mut Touch> {
        let at = match self.by_name.get(path) {
            Some(at) => *at,
            None if self.touched.len() >= MOST_TOUCHED
                || self.name_bytes + path.len() > MOST_BYTES =>
            {
                self.left_out.names += 1;
                return None;
            }
            None => {
                self.name_bytes += path.len();
                let path: Rc<[u8]> = path.into();
                self.by_name.insert(Rc::clone(&path), self.touched.len());
                self.touched.push(Touch::new(path));
                self.touched.len() - 1
            }
        };
        self.touched.get_mut(at)
    }

    /// A name was looked up; `file` is what it is the name of, without a dot at its end.
    fn lookup(&mut self, call: &Call<'_>, path: &[u8], file: &[u8], (op, follow): (Op, bool)) {
        let ended = outcome(call.errno());
        let found = ended != Outcome::Missed;
        let (dir, name) = split(path);
        // An execve that succeeds was made by what ran before.
        let replaced = op == Op::Exec && call.errno().is_none();
        if !replaced {
            self.settle(call.pid);
        }
        let mut process = self.processes.remove(&call.pid).unwrap_or_default();
        // Of the command itself, what ran before was not it: its first execve is taken for its own.
        let begun = Rc::clone(&process.image.program);
        let image = if replaced {
            process.before.as_mut().unwrap_or(&mut process.image)
        } else {
            &mut process.image
        };
        let it = Lookup {
            op,
            dir,
            name,
            found,
            times: self.known.times(dir),
        };
        let mut kind = self.known.kind(&mut image.searcher, &it);
        let shell = image.searcher.family == Family::Shell;

        // What a shell has found it runs in a child.
        let of = |search: &Search| search.found.as_deref() == Some(path);
        let mut absorbed = false;
        if replaced {
            let parent = process
                .parent
                .and_then(|parent| self.processes.get_mut(&parent));
            let theirs = parent
                .into_iter()
                .flat_map(|parent| parent.image.open.iter_mut());
            let known = image
                .open
                .iter_mut()
                .chain(theirs)
                .rev()
                .find(|search| of(search));
            if let Some(search) = known
                && matches!(search.kind, Kind::Path | Kind::Other)
            {
                absorbed = true;
                kind = Kind::Path;
                if std::mem::replace(&mut search.kind, Kind::Path) == Kind::Other {
                    let search = search.clone();
                    self.promote(&search);
                }
            }
        }
        if !absorbed {
            let wanted = key(kind, dir, name);
            let program = if image.program.is_empty() {
                &begun
            } else {
                &image.program
            };
            let placed = place(
                &mut image.open,
                &it,
                path,
                kind,
                wanted,
                shell,
                (call.pid, program),
            );
            kind = placed.kind;
            if let Some(promoted) = placed.promoted {
                self.promote(&promoted);
            }
            if let Some(search) = image.open.get_mut(placed.at) {
                if search.tried.is_empty() {
                    search.number = self.begun;
                    self.begun += 1;
                }
                search.add(path, ended, call.nanos);
            }
            let ended = image.open.len().saturating_sub(MOST_OPEN);
            let ended: Vec<Search> = image.open.drain(..ended).collect();
            self.close(ended);
        }
        self.processes.insert(call.pid, process);

        self.totals.lookups += 1;
        if !found {
            self.totals.misses += 1;
            self.totals.nanos += call.nanos;
        }
        self.count(dir, kind, found, call.nanos);
        let opened = call.errno().is_none();
        let Some(touch) = self.touch(file) else {
            return;
        };
        if touch.count == Count::default() {
            touch.kind = kind;
        }
        touch.nanos += call.nanos;
        if !found {
            touch.count.misses += 1;
        } else {
            touch.count.hits += 1;
        }
        touch.follow |= follow;
        touch.nofollow |= !follow;
        match op {
            Op::Exec if opened => touch.execs += 1,
            Op::Open if opened => touch.opens += 1,
            Op::Create if opened => {
                touch.opens += 1;
                touch.made = true;
            }
            Op::Readlink => touch.readlinks += 1,
            _ => {}
        }
    }

    /// An open file was read, or more.
    fn work(&mut self, call: &Call<'_>, does: Does, name: &[u8], opened: Option<u64>) {
        let Some(result) = call
            .result
            .filter(|result| *result >= 0)
            .map(|result| result as u64)
        else {
            return;
        };
        let place = opened
            .and_then(|opened| self.readers.get(&opened).copied())
            .unwrap_or_default();
        let mut to = None;
        match does {
            Does::Read => {
                let here = syscalls::by_number(call.number)
                    .is_some_and(|known| matches!(known.name, "read" | "readv"));
                let [_, _, _, offset, ..] = call.args;
                let end = if here { place } else { offset }.saturating_add(result);
                to = here.then_some(end);
                let Some(touch) = self.touch(name) else {
                    return;
                };
                if touch.reads == 0 {
                    touch.first = result;
                }
                touch.reads += 1;
                touch.nanos += call.nanos;
                touch.extent = touch.extent.max(end);
            }
            Does::Seek
                if syscalls::by_number(call.number).is_some_and(|known| known.name == "lseek") =>
            {
                to = Some(result)
            }
            Does::List => {
                let Some(touch) = self.touch(name) else {
                    return;
                };
                touch.listings += 1;
                touch.nanos += call.nanos;
            }
            Does::Stat => {
                let Some(touch) = self.touch(name) else {
                    return;
                };
                touch.stats_after_read += u64::from(touch.reads > 0);
                touch.nanos += call.nanos;
            }
            Does::Close => {
                if let Some(opened) = opened {
                    self.readers.remove(&opened);
                }
            }
            _ => {}
        }
        if let (Some(opened), Some(to)) = (opened, to)
            && (self.readers.contains_key(&opened) || self.readers.len() < MOST_READERS)
        {
            self.readers.insert(opened, to);
        }
    }
}

impl Listener for Trace {
    fn call(&mut self, call: &Call<'_>) {
        self.told += u64::from(call.result.is_some());
        let about = self.names.call(call);
        let Some(known) = syscalls::by_number(call.number) else {
            return;
        };
        let Some((op, follow)) = lookup::of(call) else {
            if let Some(name) = about.name.as_deref().filter(|_| !about.by_name) {
                self.work(call, known.kind, name, about.opened);
            }
            return;
        };
        if call.result.is_none() {
            return;
        }
        match (about.name.as_deref(), call.name) {
            // A dot at the end is looked up in what stands before it.
            (Some(name), Some(given)) if about.by_name && split(given).1 == b"." => {
                self.lookup(call, &join(name, b"."), name, (op, follow));
            }
            (Some(name), Some(_)) if about.by_name => self.lookup(call, name, name, (op, follow)),
            // The descriptor itself is no look-up.
            (Some(name), _) if !about.by_name => self.work(call, known.kind, name, about.opened),
            // Nothing is no name; it is looked up where it begins.
            (_, Some(b"")) if outcome(call.errno()) == Outcome::Missed => {
                let there = self
                    .names
                    .call(&Call {
                        name: Some(b"."),
                        ..*call
                    })
                    .name;
                let path = there.map_or_else(|| b".".to_vec(), |there| join(&there, b"."));
                self.lookup(call, &path, &path, (op, follow));
            }
            // Where the name begins is not known: it counts for its directory part as it was given.
            (None, Some(name)) if !name.is_empty() => self.lookup(call, name, name, (op, follow)),
            (_, None) if about.by_name && call.errno() != Some(Errno::EFAULT.0) => {
                self.left_out.nameless += 1
            }
            _ => {}
        }
    }

    fn fork(&mut self, fork: &Fork) {
        self.names.fork(fork);
        if fork.pid != fork.parent {
            let (program, family) = match self.processes.get(&fork.parent) {
                Some(parent) => (
                    Rc::clone(&parent.image.program),
                    parent.image.searcher.family,
                ),
                None => (Rc::default(), Family::default()),
            };
            let searcher = Searcher::copied(family);
            let image = Image {
                program,
                searcher,
                open: Vec::new(),
            };
            let parent = Some(fork.parent);
            if let Some(old) = self.processes.insert(
                fork.pid,
                Process {
                    parent,
                    image,
                    before: None,
                },
            ) {
                old.before
                    .into_iter()
                    .chain([old.image])
                    .for_each(|image| self.close(image.open));
            }
        }
    }

    fn exec(&mut self, pid: u32, program: &[u8]) {
        self.names.exec(pid);
        self.settle(pid);
        let process = self.processes.entry(pid).or_default();
        let image = Image {
            program: program.into(),
            searcher: Searcher::of(program),
            open: Vec::new(),
        };
        process.before = Some(std::mem::replace(&mut process.image, image));
    }

    fn exit(&mut self, pid: u32, tid: u32) {
        self.names.exit(tid);
        if pid == tid
            && let Some(process) = self.processes.remove(&pid)
        {
            process
                .before
                .into_iter()
                .chain([process.image])
                .for_each(|image| self.close(image.open));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trace of a process that began as a shell does.
    fn trace() -> Trace {
        let known = Known::new(Some(b"/usr/local/bin:/usr/bin"), None);
        let mut trace = Trace::new(
            Inherited {
                cwd: Some(b"/work".to_vec()),
                files: Vec::new(),
            },
            known,
        );
        trace.exec(1, b"/bin/dash");
        call(&mut trace, 1, "execve", b"/bin/dash", 0);
        trace
    }

    fn call(trace: &mut Trace, pid: u32, name: &str, path: &[u8], result: i64) {
        let here = -100_i64 as u64;
        let known = syscalls::by_name(name).unwrap();
        let args = if known.name.ends_with("at") {
            [here, 0, 0, 0, 0, 0]
        } else {
            [0; 6]
        };
        let call = Call {
            pid,
            tid: pid,
            number: known.number,
            args,
            name: Some(path),
            other: None,
            result: Some(result),
            start: 0,
            nanos: 1000,
        };
        trace.call(&call);
    }

    fn searches(traced: &Traced) -> Vec<(Kind, String, u64, Option<String>)> {
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let each = |search: &Search| {
            (
                search.kind,
                text(&search.name),
                search.misses(),
                search.found.as_deref().map(text),
            )
        };
        traced.searches.iter().map(each).collect()
    }

    #[test]
    fn a_shell_finds_and_its_child_runs() {
        let mut trace = trace();
        call(&mut trace, 1, "newfstatat", b"/usr/local/bin/ls", -2);
        call(&mut trace, 1, "newfstatat", b"/usr/bin/ls", 0);
        trace.fork(&Fork {
            parent: 1,
            pid: 2,
            tid: 2,
            shares_files: false,
            shares_fs: false,
        });
        trace.exec(2, b"/usr/bin/ls");
        call(&mut trace, 2, "execve", b"/usr/bin/ls", 0);
        call(&mut trace, 2, "openat", b"/etc/ld.so.cache", 3);
        trace.exit(2, 2);
        trace.exit(1, 1);
        let traced = trace.end();
        let path: Vec<_> = searches(&traced)
            .into_iter()
            .filter(|search| search.0 == Kind::Path)
            .collect();
        assert_eq!(
            path,
            [(
                Kind::Path,
                "ls".to_owned(),
                1,
                Some("/usr/bin/ls".to_owned())
            )]
        );
        assert_eq!(
            traced.totals,
            Totals {
                lookups: 5,
                misses: 1,
                nanos: 1000
            }
        );
        let bin = &traced
            .directories
            .iter()
            .find(|(dir, _)| dir == b"/usr/bin")
            .unwrap()
            .1;
        assert_eq!(
            bin.counts[Kind::Path as usize],
            Count { hits: 2, misses: 0 }
        );
        let used = &traced.programs[..];
        assert_eq!(
            used,
            [(
                (b"ls".to_vec(), Some(b"/usr/bin/ls".to_vec())),
                Use {
                    times: 1,
                    misses: 1
                }
            )]
        );
    }

    #[test]
    fn a_search_goes_on_behind_a_directory_that_is_closed() {
        let mut trace = trace();
        call(&mut trace, 1, "newfstatat", b"/usr/local/bin/ls", -13);
        call(&mut trace, 1, "newfstatat", b"/usr/bin/ls", 0);
        let traced = trace.end();
        let path: Vec<_> = searches(&traced)
            .into_iter()
            .filter(|search| search.0 == Kind::Path)
            .collect();
        assert_eq!(
            path,
            [(
                Kind::Path,
                "ls".to_owned(),
                0,
                Some("/usr/bin/ls".to_owned())
            )]
        );
        assert_eq!((traced.totals.lookups, traced.totals.misses), (3, 0));
    }

    #[test]
    fn a_path_that_the_shell_has_set_itself_is_known_by_its_searches() {
        let mut trace = trace();
        for dir in ["/a", "/b", "/c"] {
            call(
                &mut trace,
                1,
                "newfstatat",
                format!("{dir}/none").as_bytes(),
                -2,
            );
        }
        call(&mut trace, 1, "newfstatat", b"/etc/profile", -2);
        let traced = trace.end();
        assert_eq!(
            searches(&traced),
            [(Kind::Path, "none".to_owned(), 3, None)]
        );
        let of = |dir: &str| {
            traced
                .directories
                .iter()
                .find(|(name, _)| name == dir.as_bytes())
                .unwrap()
                .1
                .kind()
        };
        assert_eq!(
            (of("/a"), of("/c"), of("/etc")),
            (Kind::Path, Kind::Path, Kind::Other)
        );
    }

    #[test]
    fn the_same_name_once_more_from_the_beginning_is_another_search() {
        let mut trace = trace();
        for _ in 0..3 {
            call(&mut trace, 1, "newfstatat", b"/usr/local/bin/none", -2);
            call(&mut trace, 1, "newfstatat", b"/usr/bin/none", -2);
        }
        assert_eq!(trace.end().searches.len(), 3);
    }

    #[test]
    fn a_directory_that_stands_in_path_twice_does_not_begin_another_search() {
        let known = Known::new(Some(b"/a:.:/b/:/a//:"), None);
        let mut trace = Trace::new(
            Inherited {
                cwd: Some(b"/work".to_vec()),
                files: Vec::new(),
            },
            known,
        );
        trace.exec(1, b"/bin/dash");
        for _ in 0..2 {
            for dir in ["/a", ".", "/b", "/a", "."] {
                call(
                    &mut trace,
                    1,
                    "newfstatat",
                    format!("{dir}/none").as_bytes(),
                    -2,
                );
            }
        }
        let searches = searches(&trace.end());
        assert_eq!(searches, vec![(Kind::Path, "none".to_owned(), 5, None); 2]);
    }

    #[test]
    fn names_begin_where_the_process_is_and_nothing_is_looked_up_there() {
        let mut trace = trace();
        call(&mut trace, 1, "newfstatat", b"sub/x", -2);
        call(&mut trace, 1, "newfstatat", b"", -2);
        let traced = trace.end();
        let misses: Vec<(&[u8], u64)> = traced
            .directories
            .iter()
            .map(|(dir, directory)| (&dir[..], directory.total().misses))
            .filter(|(_, misses)| *misses > 0)
            .collect();
        assert_eq!(misses, [(&b"/work"[..], 1), (b"/work/sub", 1)]);
    }
}
