//! Sums up individually reported calls by file and directory, and finds redundant patterns in them.
//! (The meter itself counts calls by system call and program, in [`meter::call::Metered::totals`].)
//!
//! Memory is bounded: `MOST_FILES` names, and `MOST_NAMES` bytes of names. Calls on further files
//! are counted together (`Detail::unheld`).

use std::collections::BTreeMap;

use base::path::parent;
use foldhash::{HashMap, HashMapExt};
use meter::call::{Call, Fork, Listener, LongCall};
use meter::names::{AttachedProcess, CallFile, InheritedFiles, Names, components};
use meter::syscalls::{self, Kind, Syscall};

use self::file::FileTable;
use self::programs::Programs;
use crate::patterns::SeenCall;
use crate::prices::PriceKind;
use crate::waits::WaitKind;

mod detail;
mod file;
mod programs;

pub use self::detail::{Detail, StackDirectory};
pub(crate) use self::detail::{Directory, UnwaitedCalls, costliest};
pub use self::file::File;
pub(crate) use self::file::LastDirectory;
#[cfg(test)]
pub(crate) use self::file::MOST_FILES;
pub use crate::sum::Sum;

/// The listener that sums up the calls of a meter.
#[derive(Debug)]
pub(crate) struct Ledger {
    names: Names,
    programs: Programs,
    /// Sums of calls that did not wait, by system call number.
    measured: Vec<UnwaitedCalls>,
    files: FileTable,
    /// The sums so far, except those in the other fields.
    detail: Detail,
}

impl Ledger {
    pub(crate) fn new(start: InheritedFiles) -> Ledger {
        Ledger::with_names(Names::asking_proc(start))
    }

    pub(crate) fn with_names(names: Names) -> Ledger {
        Ledger {
            names,
            programs: Programs::new(),
            measured: Vec::new(),
            files: FileTable::new(),
            detail: Detail::default(),
        }
    }

    /// The calls so far that did not wait, by system call number.
    pub(crate) fn measured(&self) -> impl Iterator<Item = (u16, &UnwaitedCalls)> {
        let measured = (0..).zip(&self.measured);
        measured.filter(|(_, it)| it.work.calls() > 0)
    }

    /// Nanoseconds in each directory so far. System calls in `prices` count with their price, which
    /// is given by system call number.
    pub(crate) fn directory_nanos(&self, prices: &BTreeMap<u32, f64>) -> HashMap<Vec<u8>, u64> {
        let mut sums: HashMap<&[u8], u64> = HashMap::new();
        for file in &self.files.rows {
            *sums.entry(file.dir()).or_default() += file.estimated_nanos(prices);
        }
        let sums = sums.into_iter();
        sums.map(|(dir, nanos)| (dir.to_vec(), nanos)).collect()
    }

    /// A figure of the calls that have waited so far, by program and system call number.
    pub(crate) fn waited(&self, figure: impl Fn(&Sum) -> u64) -> HashMap<(Vec<u8>, u32), u64> {
        let mut sums = HashMap::new();
        for (program, number, sum) in self.detail.waits.sums() {
            let program = self.programs.names.get(usize::from(program));
            let key = (program.cloned().unwrap_or_default(), u32::from(number));
            *sums.entry(key).or_default() += figure(sum);
        }
        sums
    }

    pub(crate) fn close(self) -> Detail {
        let mut files = self.files.rows;
        files.retain(|file| file.sum.calls > 0);
        let measured = (0..).zip(self.measured);
        let measured = measured.filter(|(_, it)| it.work.calls() > 0).collect();
        Detail {
            files,
            programs: self.programs.names,
            measured,
            forgotten: self.names.forgotten(),
            ..self.detail
        }
    }

    /// Adds a call that did not wait for other processes.
    fn measure(&mut self, syscall: &Syscall, call: &Call<'_>, sort: PriceKind, parts: u64) {
        let at = call.number as usize;
        if self.measured.len() <= at {
            self.measured.resize(at + 1, UnwaitedCalls::default());
        }
        let measured = &mut self.measured[at];
        measured.work.add(sort, 1, parts);
        measured.nanos += call.nanos;
        if matches!(
            syscall.kind,
            Kind::Read | Kind::Write | Kind::Copy | Kind::List
        ) {
            let bytes = call.result.and_then(|result| u64::try_from(result).ok());
            measured.bytes = measured.bytes.saturating_add(bytes.unwrap_or(0));
        }
    }

    /// Counts a call whose file has no row in the table.
    fn count_elsewhere(&mut self, call: &Call<'_>, program: u16, about: &CallFile) {
        let (sum, why) = match about.name {
            Some(_) => (&mut self.detail.unheld, StackDirectory::Unheld),
            None => (&mut self.detail.nameless, StackDirectory::Nameless),
        };
        sum.add(call);
        let key = (program, call.number as u16, why);
        *self.detail.elsewhere.entry(key).or_default() += 1;
    }
}

impl Listener for Ledger {
    fn attach(&mut self, process: &AttachedProcess) {
        self.names.attach(process);
        self.programs.exec(process.pid, &process.program);
    }

    fn call(&mut self, call: &Call<'_>) {
        let Some(syscall) = syscalls::by_number(call.number) else {
            return;
        };
        let about = self.names.call(call);
        if call.result.is_none() {
            return; // a call that never returned counts nowhere
        }
        let sort = PriceKind::classify(syscall, call, &about);
        let name = call.name.filter(|_| about.by_name);
        let parts = name.map_or(0, |name| components(name).saturating_sub(1));
        self.detail.work.add(sort, 1, parts);
        let file = about.name.as_ref().and_then(|name| self.files.enter(name));
        let program = self.programs.executed_by(call.pid);
        let mut call = *call;
        if let Some(kind) = WaitKind::find(syscall, &call, about.descriptor) {
            self.detail.waits.add(kind, program, &call);
            call.nanos = 0;
        } else {
            self.measure(syscall, &call, sort, parts);
        }
        let call = &call;
        match file.and_then(|file| self.files.rows.get_mut(file as usize)) {
            Some(row) => {
                row.directory |= about.directory;
                let parts = u32::try_from(parts).unwrap_or(u32::MAX);
                row.add(call, program, sort, parts);
            }
            None => self.count_elsewhere(call, program, &about),
        }
        let find = |name: Option<&[u8]>| name.and_then(|name| self.files.find(name));
        let other = find(about.other.as_deref());
        let changes = matches!(
            syscall.kind,
            Kind::Change | Kind::Copy | Kind::Mount | Kind::Open
        );
        let parent = find(about.name.as_deref().filter(|_| changes).map(parent));
        self.detail.patterns.call(&SeenCall {
            call,
            syscall,
            about: &about,
            sort,
            parts,
            file,
            other,
            parent,
        });
    }

    fn long_call(&mut self, long: &LongCall<'_>) {
        let call = &long.call;
        let descriptor = Some(self.names.descriptor_of(long));
        let syscall = syscalls::by_number(call.number);
        if let Some(kind) = syscall.and_then(|syscall| WaitKind::find(syscall, call, descriptor)) {
            let program = self.programs.enter(long.program);
            self.detail.waits.add(kind, program, call);
        }
    }

    fn fork(&mut self, fork: &Fork) {
        self.names.fork(fork);
        if fork.pid == fork.tid {
            self.programs.fork(fork.parent, fork.pid);
        }
    }

    fn exec(&mut self, pid: u32, program: &[u8]) {
        self.names.exec(pid);
        self.programs.exec(pid, program);
    }

    fn exit(&mut self, pid: u32, tid: u32) {
        self.names.exit(tid);
        if pid == tid {
            self.detail.patterns.exit(pid);
            self.programs.processes.remove(&pid);
        }
    }
}

#[cfg(test)]
mod tests;
