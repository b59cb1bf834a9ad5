//! Records the calls of a command that a meter reports.
//!
//! All tables are bounded. Lookups that do not fit are still counted in [`Trace::totals`], and
//! [`Trace::omitted`] has their number.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use gate::Errno;
use meter::call::{Call, Fork, Listener};
use meter::names::{InheritedFiles, Names};
use meter::syscalls;

use crate::classify::{SearchPaths, Searcher};
use crate::environment::Environment;
use crate::group::Search;
use crate::kind::Count;
use crate::kind::Kind;
use crate::lookup::{self, LookupPurpose, Outcome, join, split};
use crate::path::is_executable;
use crate::trace::{
    DirectoryLookups, Execution, NameUse, OmittedLookups, Program, ProgramUse, Shim, Totals, Trace,
};

mod searches;

// The maximum number of entries of each table, and of bytes of names in each table.
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
struct ProcessImage {
    program: Rc<[u8]>,
    environment: Rc<Environment>,
    searcher: Searcher,
    open: Vec<Search>,
}

#[derive(Default)]
struct Process {
    parent: Option<u32>,
    image: ProcessImage,
    /// The previous program: the meter may report the execve(2) that replaced it late.
    before: Option<ProcessImage>,
    /// The shim script of a version manager that the process began with.
    shim: Option<ShimStart>,
}

/// The state at the time when a process executed a shim script.
struct ShimStart {
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
    omitted: OmittedLookups,
}

impl Recorder {
    /// Records a command that begins with this state and environment.
    pub(crate) fn new(inherited: InheritedFiles, environment: Environment) -> Recorder {
        let [_, python, ..] = &environment.lists;
        let (path, cwd) = (environment.path.as_deref(), inherited.cwd.as_deref());
        Recorder {
            paths: SearchPaths::new(path, python.as_deref(), cwd),
            names: Names::new(inherited),
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
            omitted: OmittedLookups {
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
    fn lookup(
        &mut self,
        call: &Call<'_>,
        path: &[u8],
        file: &[u8],
        (op, follow): (LookupPurpose, bool),
    ) {
        let outcome = Outcome::new(op, call.errno());
        let is_hit = outcome != Outcome::Missed;
        // A successful execve(2) was made by the previous program of the process.
        let is_replaced = op == LookupPurpose::Exec && call.errno().is_none();
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
    (op, follow): (LookupPurpose, bool),
) {
    if used.count == Count::default() {
        used.kind = kind;
        used.opened_first = matches!(
            op,
            LookupPurpose::Open | LookupPurpose::Create | LookupPurpose::Exec
        );
        used.first_at = call.start;
    }
    used.last_at = used.last_at.max(call.start);
    used.nanos += call.nanos;
    used.count.add(is_hit);
    used.follow |= follow;
    used.nofollow |= !follow;
    let succeeded = call.errno().is_none();
    match op {
        LookupPurpose::Stat if succeeded => record_stat(used),
        LookupPurpose::Exec if succeeded => {
            used.execs += 1;
            used.ends_with_stat = false;
        }
        LookupPurpose::Open if succeeded => used.opens += 1,
        LookupPurpose::Create if succeeded => {
            used.opens += 1;
            used.created = true;
        }
        LookupPurpose::Readlink => used.readlinks += 1,
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
            // The directory that the name is relative to is unknown, so record the name as given.
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
            Some(parent) => ProcessImage {
                program: Rc::clone(&parent.image.program),
                environment: Rc::clone(&parent.image.environment),
                searcher: Searcher::forked(&parent.image.searcher),
                open: Vec::new(),
            },
            None => ProcessImage::default(),
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
            image: ProcessImage {
                environment: Rc::clone(&self.environment),
                ..ProcessImage::default()
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
        let image = ProcessImage {
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
mod tests;
