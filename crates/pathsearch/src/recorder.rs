//! Records the calls of a command that a meter reports.
//!
//! All tables are bounded. Lookups that do not fit are still counted in [`Trace::totals`], and
//! [`Trace::omitted`] has their number.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use gate::Errno;
use gate::file::Reader;
use meter::call::{Call, Fork, Listener};
use meter::names::{Inherited, Names};
use meter::syscalls;
use ondisk::elf::architecture;

use crate::classify::{Lookup, SearchPaths, Searcher};
use crate::environment::Environment;
use crate::family::Family;
use crate::group::{Process as SearchProcess, Search, assign};
use crate::kind::Count;
use crate::kind::Kind;
use crate::lookup::{self, Op, Outcome, join, split};
use crate::path::is_executable;
use crate::search_name::search_name;
use crate::trace::{
    DirectoryLookups, Execution, NameUse, Omitted, Program, ProgramUse, Shim, Totals, Trace,
};

// The maximum number of entries of each table, and of bytes of names in each.
const MOST_DIRECTORIES: usize = 40_000;
const MOST_NAMES: usize = 40_000;
const MOST_SEARCHES: usize = 10_000;
const MOST_BYTES: usize = 6 << 20;
/// Maximum number of a process's searches that may still continue.
const MOST_OPEN: usize = 16;
/// Maximum number of programs with their environments, and of shim scripts.
const MOST_EXECUTIONS: usize = 1000;
/// Maximum number of open files whose offset is tracked.
const MOST_READERS: usize = 8192;

/// The program that a process executes, with its state.
#[derive(Default)]
struct Image {
    program: Rc<[u8]>,
    environment: Rc<Environment>,
    searcher: Searcher,
    open: Vec<Search>,
}

#[derive(Default)]
struct Process {
    parent: Option<u32>,
    image: Image,
    /// The previous program: the meter may report the execve(2) that replaced it late.
    before: Option<Image>,
    /// The shim script of a version manager that the process began with.
    shim: Option<Begun>,
}

/// The state at the time when a process executed a shim script.
struct Begun {
    path: Vec<u8>,
    forks: u64,
    misses: u64,
    start: u64,
}

/// A listener that records lookups.
#[derive(Default)]
pub(crate) struct Recorder {
    names: Names,
    /// The environment of the command.
    environment: Rc<Environment>,
    paths: SearchPaths,
    processes: HashMap<u32, Process>,
    directories: HashMap<Vec<u8>, DirectoryLookups>,
    uses: Vec<NameUse>,
    by_name: HashMap<Rc<[u8]>, usize>,
    /// The offset of each open file description.
    readers: HashMap<u64, u64>,
    searches: Vec<Search>,
    search_bytes: usize,
    directory_bytes: usize,
    name_bytes: usize,
    begun: u64,
    programs: HashMap<Program, ProgramUse>,
    executions: HashSet<Execution>,
    shims: Vec<Shim>,
    /// The number of processes created.
    forks: u64,
    totals: Totals,
    recorded: u64,
    omitted: Omitted,
}

impl Recorder {
    /// Records a command that begins with this state and environment.
    pub(crate) fn new(inherited: Inherited, environment: Environment) -> Recorder {
        let [_, python, ..] = &environment.lists;
        Recorder {
            names: Names::new(inherited),
            paths: SearchPaths::new(environment.path.as_deref(), python.as_deref()),
            environment: Rc::new(environment),
            ..Recorder::default()
        }
    }

    pub(crate) fn finish(mut self) -> Trace {
        let processes = std::mem::take(&mut self.processes);
        self.close_all(processes.into_values());
        self.searches.sort_by_key(|search| search.number);
        let mut directories: Vec<_> = self.directories.into_iter().collect();
        directories.sort_by(|a, b| a.0.cmp(&b.0));
        let mut programs: Vec<_> = self.programs.into_iter().collect();
        programs.sort_by(|a, b| a.0.cmp(&b.0));
        let mut executions: Vec<_> = self.executions.into_iter().collect();
        executions.sort();
        Trace {
            executions,
            shims: self.shims,
            searches: self.searches,
            directories,
            names: self.uses,
            programs,
            totals: self.totals,
            recorded: self.recorded,
            is_complete: false, // set later, from the meter's result
            omitted: Omitted {
                untracked: self.names.forgotten(),
                ..self.omitted
            },
        }
    }

    /// Closes the searches of processes that have ended.
    fn close_all(&mut self, processes: impl IntoIterator<Item = Process>) {
        for process in processes {
            let images = process.before.into_iter().chain([process.image]);
            images.for_each(|image| self.close(image.open));
        }
    }

    /// Moves searches that cannot continue into the tables.
    fn close(&mut self, open: Vec<Search>) {
        for mut search in open {
            let found = search
                .found
                .as_deref()
                .filter(|_| search.kind == Kind::Path);
            if found.is_some_and(|found| !is_executable(found)) {
                search.retract();
            }
            if search.kind == Kind::Path && search.has_given_path {
                let program = Program {
                    name: search.name.clone(),
                    found: search.found.clone(),
                };
                if self.programs.contains_key(&program) || self.programs.len() < MOST_SEARCHES {
                    let used = self.programs.entry(program).or_default();
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
                self.omitted.searches += 1;
            }
        }
    }

    /// Closes the searches of the previous program of a process.
    fn close_before(&mut self, pid: u32) {
        let process = self.processes.get_mut(&pid);
        if let Some(before) = process.and_then(|process| process.before.take()) {
            self.close(before.open);
        }
    }

    fn count(&mut self, dir: &[u8], kind: Kind, is_hit: bool, nanos: u64) {
        if !self.directories.contains_key(dir) {
            if self.directories.len() >= MOST_DIRECTORIES
                || self.directory_bytes + dir.len() > MOST_BYTES
            {
                self.omitted.directories += 1;
                return;
            }
            self.directory_bytes += dir.len();
            self.directories
                .insert(dir.to_vec(), DirectoryLookups::default());
        }
        if let Some(directory) = self.directories.get_mut(dir) {
            directory.counts.get_mut(kind).add(is_hit);
            directory.nanos += if is_hit { 0 } else { nanos };
        }
    }

    /// Counts the lookups of a search of kind `Other` as those of a search along PATH.
    fn count_as_path(&mut self, search: &Search) {
        for tried in &search.tried {
            if let Some(directory) = self.directories.get_mut(split(&tried.path).0) {
                let other = directory.counts.get_mut(Kind::Other);
                let count = Count {
                    hits: tried.count.hits.min(other.hits),
                    misses: tried.count.misses.min(other.misses),
                };
                other.hits -= count.hits;
                other.misses -= count.misses;
                *directory.counts.get_mut(Kind::Path) += count;
            }
        }
    }

    fn name_use(&mut self, path: &[u8]) -> Option<&mut NameUse> {
        let at = match self.by_name.get(path) {
            Some(at) => *at,
            None if self.uses.len() >= MOST_NAMES || self.name_bytes + path.len() > MOST_BYTES => {
                self.omitted.names += 1;
                return None;
            }
            None => {
                self.name_bytes += path.len();
                let path: Rc<[u8]> = path.into();
                self.by_name.insert(Rc::clone(&path), self.uses.len());
                self.uses.push(NameUse {
                    path,
                    ..NameUse::default()
                });
                self.uses.len() - 1
            }
        };
        self.uses.get_mut(at)
    }

    /// Records a lookup of `path`. `file` is the file's path: `path` without a final `.`.
    fn lookup(&mut self, call: &Call<'_>, path: &[u8], file: &[u8], (op, follow): (Op, bool)) {
        let outcome = Outcome::new(op, call.errno());
        let is_hit = outcome != Outcome::Missed;
        // A successful execve(2) was made by the previous program of the process.
        let is_replaced = op == Op::Exec && call.errno().is_none();
        if !is_replaced {
            self.close_before(call.pid);
        }
        let mut process = self.processes.remove(&call.pid).unwrap_or_default();
        if is_replaced {
            self.record_shim(&mut process.shim, path, call.start);
        }
        let kind = self.record_search(call, &mut process, path, op, outcome);
        self.processes.insert(call.pid, process);

        self.totals.lookups += 1;
        if !is_hit {
            self.totals.misses += 1;
            self.totals.nanos += call.nanos;
        }
        self.count(split(path).0, kind, is_hit, call.nanos);
        if let Some(used) = self.name_use(file) {
            record_use(used, call, kind, is_hit, (op, follow));
        }
    }

    /// Adds a lookup to its search, and returns its kind.
    fn record_search(
        &mut self,
        call: &Call<'_>,
        process: &mut Process,
        path: &[u8],
        op: Op,
        outcome: Outcome,
    ) -> Kind {
        let (dir, name) = split(path);
        let is_replaced = op == Op::Exec && call.errno().is_none();
        // fathom itself, not the new program, made the first execve(2) of the command: attribute it
        // to the command.
        let begun = Rc::clone(&process.image.program);
        let image = match &mut process.before {
            Some(before) if is_replaced => before,
            _ => &mut process.image,
        };
        let lookup = Lookup {
            op,
            dir,
            name,
            is_hit: outcome != Outcome::Missed,
            times: self.paths.times(dir),
        };
        let kind = self.paths.classify(&mut image.searcher, &lookup);
        if op == Op::Exec
            && self.continue_by_exec(process.parent, &mut image.open, path, outcome, call.nanos)
        {
            return Kind::Path;
        }
        let program = match image.program.is_empty() {
            true => &begun,
            false => &image.program,
        };
        let searcher = SearchProcess {
            pid: call.pid,
            program,
            is_shell: image.searcher.family == Family::Shell,
            has_given_path: image.environment.path.is_none()
                || image.environment.path == self.environment.path,
        };
        let name = search_name(kind, dir, name);
        // The same name is looked up in a different directory, so the file found before was
        // unusable.
        let is_superseded = |search: &&mut Search| {
            let found = search.found.as_deref().filter(|found| *found != path);
            search.name == name
                && found.is_some_and(|found| match search.kind {
                    Kind::Path => !is_executable(found),
                    Kind::Other => searcher.is_shell && !is_executable(found),
                    Kind::Linker => !have_one_architecture(found, program),
                    _ => false,
                })
        };
        let superseded = image.open.iter_mut().rev().find(is_superseded);
        superseded.into_iter().for_each(Search::retract);
        let assigned = assign(&mut image.open, &lookup, path, kind, name, &searcher);
        if let Some(promoted) = assigned.promoted {
            self.count_as_path(&promoted);
        }
        if let Some(search) = image.open.get_mut(assigned.at) {
            if search.tried.is_empty() {
                search.number = self.begun;
                self.begun += 1;
            }
            search.add(path, outcome, call.nanos);
        }
        let ended = image.open.len().saturating_sub(MOST_OPEN);
        let ended: Vec<Search> = image.open.drain(..ended).collect();
        self.close(ended);
        assigned.kind
    }

    /// Records that a process executes a file. Version managers have a directory `shims` of
    /// scripts, which find and execute the program of the selected version.
    fn record_shim(&mut self, begun: &mut Option<Begun>, path: &[u8], start: u64) {
        let (dir, name) = split(path);
        let is_shim = split(dir).1 == b"shims";
        let Some(first) = begun else {
            *begun = (is_shim && self.paths.in_path(dir)).then(|| Begun {
                path: path.to_vec(),
                forks: self.forks,
                misses: self.totals.misses,
                start,
            });
            return;
        };
        if is_shim || split(&first.path).1 != name {
            return;
        }
        let found = Shim {
            path: std::mem::take(&mut first.path),
            program: path.to_vec(),
            processes: self.forks - first.forks,
            nanos: start.saturating_sub(first.start),
            misses: self.totals.misses - first.misses,
            times: 1,
        };
        *begun = None;
        let is_same = |shim: &&mut Shim| shim.path == found.path && shim.program == found.program;
        let has_room = self.shims.len() < MOST_EXECUTIONS;
        match self.shims.iter_mut().find(is_same) {
            Some(shim) => {
                shim.processes += found.processes;
                shim.nanos += found.nanos;
                shim.misses += found.misses;
                shim.times += 1;
            }
            None if has_room => self.shims.push(found),
            None => {}
        }
    }

    /// Whether an execve(2) runs, or fails to run, the result of a search along PATH, or is the
    /// next try after such a failure. A shell searches, and its child runs the result, so the
    /// parent's searches are considered as well.
    fn continue_by_exec(
        &mut self,
        parent: Option<u32>,
        open: &mut [Search],
        path: &[u8],
        outcome: Outcome,
        nanos: u64,
    ) -> bool {
        let (dir, name) = split(path);
        let is_next = self.paths.in_path(dir);
        let parent = parent.and_then(|parent| self.processes.get_mut(&parent));
        let of_parent = parent
            .into_iter()
            .flat_map(|parent| parent.image.open.iter_mut());
        let Some(search) = open
            .iter_mut()
            .chain(of_parent)
            .rev()
            .filter(|search| matches!(search.kind, Kind::Path | Kind::Other))
            .find(|search| match search.found.as_deref() {
                Some(found) => found == path,
                None => is_next && search.refused() > 0 && search.name == name,
            })
        else {
            return false;
        };
        match outcome {
            _ if search.found.is_none() => search.add(path, outcome, nanos),
            Outcome::Found => {}
            Outcome::Refused | Outcome::Missed => search.retract(),
        }
        if std::mem::replace(&mut search.kind, Kind::Path) == Kind::Other {
            let search = search.clone();
            self.count_as_path(&search);
        }
        true
    }

    /// Records a call on an open file.
    fn work(&mut self, call: &Call<'_>, name: &[u8], opened: Option<u64>) {
        let (Some(result), Some(syscall)) = (
            call.result.and_then(|result| u64::try_from(result).ok()),
            syscalls::by_number(call.number),
        ) else {
            return;
        };
        let mut offset = None;
        match syscall.kind {
            syscalls::Kind::Read => {
                let moves_offset = matches!(syscall.name, "read" | "readv");
                let [_, _, _, argument, ..] = call.args;
                let from = match moves_offset {
                    true => opened.and_then(|opened| self.readers.get(&opened).copied()),
                    false => Some(argument),
                };
                let end = from.unwrap_or_default().saturating_add(result);
                offset = moves_offset.then_some(end);
                let Some(used) = self.name_use(name) else {
                    return;
                };
                if used.reads == 0 {
                    used.first = result;
                }
                used.reads += 1;
                used.ends_with_stat = false;
                used.nanos += call.nanos;
                used.extent = used.extent.max(end);
            }
            syscalls::Kind::Seek if syscall.name == "lseek" => offset = Some(result),
            syscalls::Kind::List => {
                let names = self.uses.len();
                if let Some(used) = self.name_use(name) {
                    if used.listings == 0 {
                        used.listed_at = names;
                    }
                    used.listings += 1;
                    used.ends_with_stat = false;
                    used.nanos += call.nanos;
                }
            }
            syscalls::Kind::Stat => {
                if let Some(used) = self.name_use(name) {
                    record_stat(used);
                    used.nanos += call.nanos;
                }
            }
            syscalls::Kind::Close => {
                opened.and_then(|opened| self.readers.remove(&opened));
            }
            _ => {}
        }
        if let (Some(opened), Some(offset)) = (opened, offset)
            && (self.readers.contains_key(&opened) || self.readers.len() < MOST_READERS)
        {
            self.readers.insert(opened, offset);
        }
    }
}

/// Whether two ELF files are for the same architecture; true if neither can be read.
fn have_one_architecture(one: &[u8], other: &[u8]) -> bool {
    let architecture = |path| {
        let mut head = [0; 20];
        let n = Reader::open(path).and_then(|file| file.read_at(0, &mut head));
        n.ok().and_then(|n| architecture(head.get(..n)?))
    };
    architecture(one) == architecture(other)
}

/// Records a call of the stat family.
fn record_stat(used: &mut NameUse) {
    used.stats += 1;
    used.stats_after_read += u64::from(used.reads + used.listings + used.execs > 0);
    used.ends_with_stat = true;
}

/// Records a lookup's effects on the entry of a name.
fn record_use(
    used: &mut NameUse,
    call: &Call<'_>,
    kind: Kind,
    is_hit: bool,
    (op, follow): (Op, bool),
) {
    if used.count == Count::default() {
        used.kind = kind;
        used.opened_first = matches!(op, Op::Open | Op::Create | Op::Exec);
        used.first_at = call.start;
    }
    used.last_at = used.last_at.max(call.start);
    used.nanos += call.nanos;
    used.count.add(is_hit);
    used.follow |= follow;
    used.nofollow |= !follow;
    let succeeded = call.errno().is_none();
    match op {
        Op::Stat if succeeded => record_stat(used),
        Op::Exec if succeeded => {
            used.execs += 1;
            used.ends_with_stat = false;
        }
        Op::Open if succeeded => used.opens += 1,
        Op::Create if succeeded => {
            used.opens += 1;
            used.created = true;
        }
        Op::Readlink => used.readlinks += 1,
        _ => {}
    }
}

impl Listener for Recorder {
    fn call(&mut self, call: &Call<'_>) {
        self.recorded += u64::from(call.result.is_some());
        let about = self.names.call(call);
        let Some(lookup) = lookup::parse(call) else {
            if let Some(name) = about.name.as_deref().filter(|_| !about.by_name) {
                self.work(call, name, about.opened);
            }
            return;
        };
        if call.result.is_none() {
            return;
        }
        match (about.name.as_deref(), call.name) {
            // A final `.` is looked up in the directory before it.
            (Some(name), Some(given)) if about.by_name && split(given).1 == b"." => {
                self.lookup(call, &join(name, b"."), name, lookup);
            }
            (Some(name), Some(_)) if about.by_name => self.lookup(call, name, name, lookup),
            // A call on the descriptor itself is not a lookup.
            (Some(name), _) if !about.by_name => self.work(call, name, about.opened),
            // An empty path fails with ENOENT; count it for the directory that it is relative to.
            (_, Some(b"")) if Outcome::new(lookup.0, call.errno()) == Outcome::Missed => {
                let base = Call {
                    name: Some(b"."),
                    ..*call
                };
                let base = self.names.call(&base).name;
                let path = base.map_or_else(|| b".".to_vec(), |base| join(&base, b"."));
                self.lookup(call, &path, &path, lookup);
            }
            // The directory that the name is relative to is unknown.
            (None, Some(name)) if !name.is_empty() => self.lookup(call, name, name, lookup),
            (_, None) if about.by_name && call.errno() != Some(Errno::EFAULT.0) => {
                self.omitted.nameless += 1
            }
            _ => {}
        }
    }

    fn fork(&mut self, fork: &Fork) {
        self.names.fork(fork);
        if fork.pid == fork.parent {
            return;
        }
        self.forks += 1;
        let image = match self.processes.get(&fork.parent) {
            Some(parent) => Image {
                program: Rc::clone(&parent.image.program),
                environment: Rc::clone(&parent.image.environment),
                searcher: Searcher::forked(&parent.image.searcher),
                open: Vec::new(),
            },
            None => Image::default(),
        };
        let process = Process {
            parent: Some(fork.parent),
            image,
            before: None,
            shim: None,
        };
        let replaced = self.processes.insert(fork.pid, process);
        self.close_all(replaced);
    }

    fn exec(&mut self, pid: u32, program: &[u8]) {
        self.names.exec(pid);
        self.close_before(pid);
        let first = || Process {
            image: Image {
                environment: Rc::clone(&self.environment),
                ..Image::default()
            },
            ..Process::default()
        };
        let process = self.processes.entry(pid).or_insert_with(first);
        let mut environment = Rc::clone(&process.image.environment);
        // If the meter does not stop the process, /proc may show a later program by now.
        let own = Environment::of_process(pid, program);
        let is_known = own.is_some();
        if let Some(own) = own.filter(|own| *own != *environment) {
            environment = Rc::new(own);
            self.paths.add(&environment);
        }
        let execution = Execution {
            program: program.into(),
            environment: is_known.then(|| Rc::clone(&environment)),
        };
        let image = Image {
            program: Rc::clone(&execution.program),
            environment,
            searcher: Searcher::starting(program),
            open: Vec::new(),
        };
        process.before = Some(std::mem::replace(&mut process.image, image));
        if self.executions.len() < MOST_EXECUTIONS {
            self.executions.insert(execution);
        }
    }

    fn exit(&mut self, pid: u32, tid: u32) {
        self.names.exit(tid);
        if pid == tid {
            let process = self.processes.remove(&pid);
            self.close_all(process);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recorder of a process that starts like a shell.
    fn recorder() -> Recorder {
        let mut recorder = recorder_with_path(b"/usr/local/bin:/usr/bin");
        call(&mut recorder, 1, "execve", b"/bin/dash", 0);
        recorder
    }

    fn recorder_with_path(path: &[u8]) -> Recorder {
        let inherited = Inherited {
            cwd: Some(b"/work".to_vec()),
            ..Inherited::default()
        };
        let environment = Environment {
            path: Some(path.to_vec()),
            ..Environment::default()
        };
        let mut recorder = Recorder::new(inherited, environment);
        recorder.exec(1, b"/bin/dash");
        recorder
    }

    fn call(recorder: &mut Recorder, pid: u32, name: &str, path: &[u8], result: i64) {
        let at_fdcwd = -100_i64 as u64;
        let syscall = syscalls::by_name(name).unwrap();
        let args = if syscall.name.ends_with("at") {
            [at_fdcwd, 0, 0, 0, 0, 0]
        } else {
            [0; 6]
        };
        let call = Call {
            pid,
            tid: pid,
            number: syscall.number,
            args,
            name: Some(path),
            other: None,
            result: Some(result),
            start: 0,
            nanos: 1000,
        };
        recorder.call(&call);
    }

    fn searches(trace: &Trace) -> Vec<(Kind, String, u64, Option<String>)> {
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let each = |search: &Search| {
            (
                search.kind,
                text(&search.name),
                search.misses(),
                search.found.as_deref().map(text),
            )
        };
        trace.searches.iter().map(each).collect()
    }

    #[test]
    fn the_child_of_a_shell_ends_its_search() {
        let mut recorder = recorder();
        call(&mut recorder, 1, "newfstatat", b"/usr/local/bin/ls", -2);
        call(&mut recorder, 1, "newfstatat", b"/usr/bin/ls", 0);
        recorder.fork(&Fork {
            parent: 1,
            pid: 2,
            tid: 2,
            shares_files: false,
            shares_fs: false,
        });
        recorder.exec(2, b"/usr/bin/ls");
        call(&mut recorder, 2, "execve", b"/usr/bin/ls", 0);
        call(&mut recorder, 2, "openat", b"/etc/ld.so.cache", 3);
        recorder.exit(2, 2);
        recorder.exit(1, 1);
        let trace = recorder.finish();
        let path: Vec<_> = searches(&trace)
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
            trace.totals,
            Totals {
                lookups: 5,
                misses: 1,
                nanos: 1000
            }
        );
        let bin = &trace
            .directories
            .iter()
            .find(|(dir, _)| dir == b"/usr/bin")
            .unwrap()
            .1;
        assert_eq!(bin.counts.get(Kind::Path), Count { hits: 2, misses: 0 });
        let used = &trace.programs[..];
        assert_eq!(
            used,
            [(
                Program {
                    name: b"ls".to_vec(),
                    found: Some(b"/usr/bin/ls".to_vec())
                },
                ProgramUse {
                    times: 1,
                    misses: 1
                }
            )]
        );
    }

    #[test]
    fn a_search_continues_after_permission_is_denied() {
        let mut recorder = recorder();
        call(&mut recorder, 1, "newfstatat", b"/usr/local/bin/ls", -13);
        call(&mut recorder, 1, "newfstatat", b"/usr/bin/ls", 0);
        let trace = recorder.finish();
        let path: Vec<_> = searches(&trace)
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
        assert_eq!((trace.totals.lookups, trace.totals.misses), (3, 0));
    }

    #[test]
    fn a_path_that_the_shell_sets_itself_is_recognized_by_its_searches() {
        let mut recorder = recorder();
        for dir in ["/a", "/b", "/c"] {
            call(
                &mut recorder,
                1,
                "newfstatat",
                format!("{dir}/none").as_bytes(),
                -2,
            );
        }
        call(&mut recorder, 1, "newfstatat", b"/etc/profile", -2);
        let trace = recorder.finish();
        assert_eq!(searches(&trace), [(Kind::Path, "none".to_owned(), 3, None)]);
        let kind = |dir: &str| {
            trace
                .directories
                .iter()
                .find(|(name, _)| name == dir.as_bytes())
                .unwrap()
                .1
                .kind()
        };
        assert_eq!(
            (kind("/a"), kind("/c"), kind("/etc")),
            (Kind::Path, Kind::Path, Kind::Other)
        );
    }

    #[test]
    fn the_same_name_again_from_the_beginning_is_another_search() {
        let mut recorder = recorder();
        for _ in 0..3 {
            call(&mut recorder, 1, "newfstatat", b"/usr/local/bin/none", -2);
            call(&mut recorder, 1, "newfstatat", b"/usr/bin/none", -2);
        }
        assert_eq!(recorder.finish().searches.len(), 3);
    }

    #[test]
    fn a_duplicate_directory_in_path_does_not_begin_another_search() {
        let mut recorder = recorder_with_path(b"/a:.:/b/:/a//:");
        for _ in 0..2 {
            for dir in ["/a", ".", "/b", "/a", "."] {
                call(
                    &mut recorder,
                    1,
                    "newfstatat",
                    format!("{dir}/none").as_bytes(),
                    -2,
                );
            }
        }
        let searches = searches(&recorder.finish());
        assert_eq!(searches, vec![(Kind::Path, "none".to_owned(), 5, None); 2]);
    }

    #[test]
    fn relative_and_empty_names_count_for_the_working_directory() {
        let mut recorder = recorder();
        call(&mut recorder, 1, "newfstatat", b"sub/x", -2);
        call(&mut recorder, 1, "newfstatat", b"", -2);
        let trace = recorder.finish();
        let misses: Vec<(&[u8], u64)> = trace
            .directories
            .iter()
            .map(|(dir, directory)| (&dir[..], directory.counts.total().misses))
            .filter(|(_, misses)| *misses > 0)
            .collect();
        assert_eq!(misses, [(&b"/work"[..], 1), (b"/work/sub", 1)]);
    }
}
