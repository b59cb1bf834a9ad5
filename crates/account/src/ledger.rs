//! Adds up calls that a meter reports one by one, by file and directory, and finds redundant
//! patterns in them. (Calls by gate and program are counted by the meter itself, in
//! [`meter::call::Metered::totals`].)
//!
//! Memory is bounded: `MOST_FILES` names, and `MOST_NAMES` bytes of them. Calls on files beyond
//! that are counted together (`Detail::unheld`).

use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt};

use crate::patterns::{Patterns, Seen};
use crate::prices::{Sort, Work};
use crate::waits::{WaitKind, Waits};

pub use crate::sum::Sum;
use meter::call::{Call, Fork, Listener};
use meter::names::{Attached, Inherited, Name, Names, components};
use meter::syscalls::{self, Kind};
use mounts::path::parent;

/// Names that are held.
pub(crate) const MOST_FILES: usize = 49_152;
/// Bytes of names that are held.
const MOST_NAMES: usize = 6 << 20;

/// Calls of one kind by one program on one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gate {
    number: u16,
    program: u16,
    sort: Sort,
    calls: u32,
    parts: u32,
    /// Time in them; at most 4.3 s are counted.
    nanos: u32,
}

/// The calls on one file.
#[derive(Clone, Debug)]
pub struct File {
    /// Its absolute name, as the process has it.
    pub(crate) name: Name,
    pub(crate) sum: Sum,
    /// It is known to be a directory.
    directory: bool,
    gates: Vec<Gate>,
}

impl File {
    fn new(name: &Name) -> File {
        File {
            name: Name::clone(name),
            sum: Sum::default(),
            directory: false,
            gates: Vec::new(),
        }
    }

    /// Its calls by the kernel's names.
    pub(crate) fn gates(&self) -> BTreeMap<&'static str, u64> {
        let gates = self.gates.iter();
        by_name(gates.map(|gate| (gate.number, gate.calls.into())))
    }

    /// The calls by program and number, in no order; a pair may occur several times.
    pub(crate) fn by_program(&self) -> impl Iterator<Item = ((u16, u16), u64)> {
        let gates = self.gates.iter();
        gates.map(|gate| ((gate.program, gate.number), gate.calls.into()))
    }

    /// Replaces measured times by these prices of calls, by number.
    pub(crate) fn estimate(&mut self, prices: &BTreeMap<u32, f64>) {
        for gate in &mut self.gates {
            if let Some(price) = prices.get(&gate.number.into()).filter(|_| gate.nanos > 0) {
                let before = u64::from(gate.nanos);
                gate.nanos = (f64::from(gate.calls) * price).round() as u32;
                self.sum.nanos = self.sum.nanos.saturating_sub(before) + u64::from(gate.nanos);
            }
        }
    }

    fn add(&mut self, call: &Call<'_>, program: u16, sort: Sort, parts: u32) {
        self.sum.add(call);
        let nanos = u32::try_from(call.nanos).unwrap_or(u32::MAX);
        let is_same = |gate: &&mut Gate| {
            u32::from(gate.number) == call.number && gate.sort == sort && gate.program == program
        };
        match self.gates.iter_mut().find(is_same) {
            Some(gate) => {
                gate.calls = gate.calls.saturating_add(1);
                gate.parts = gate.parts.saturating_add(parts);
                gate.nanos = gate.nanos.saturating_add(nanos);
            }
            None => self.gates.push(Gate {
                number: call.number as u16,
                program,
                sort,
                calls: 1,
                parts,
                nanos,
            }),
        }
    }

    /// The calls that ask for its metadata, of a directory also its opening and closing; and the
    /// time in them, in nanoseconds.
    pub(crate) fn asking(&self) -> (Work, u64) {
        let mut work = Work::default();
        let mut nanos = 0;
        for gate in &self.gates {
            let asks = match gate.sort {
                Sort::Stat | Sort::OpenStat | Sort::List | Sort::Xattr | Sort::OpenXattr => true,
                Sort::Open | Sort::Close => self.directory,
                _ => false,
            };
            if asks {
                work.add(gate.sort, gate.calls.into(), gate.parts.into());
                nanos += u64::from(gate.nanos);
            }
        }
        (work, nanos)
    }

    /// The directory that its calls are counted for: itself, if it is one; else its parent.
    pub(crate) fn dir(&self) -> &[u8] {
        if self.directory {
            &self.name
        } else {
            parent(&self.name)
        }
    }
}

/// Calls by number, by the kernel's names.
fn by_name(calls: impl Iterator<Item = (u16, u64)>) -> BTreeMap<&'static str, u64> {
    let mut gates = BTreeMap::new();
    for (number, calls) in calls {
        if let Some(syscall) = syscalls::by_number(number.into()) {
            *gates.entry(syscall.name).or_default() += calls;
        }
    }
    gates
}

/// The calls in one directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory<'a> {
    pub(crate) name: &'a [u8],
    /// Different files in it, itself included, if there were calls on it.
    pub(crate) files: u64,
    pub(crate) sum: Sum,
    /// By their numbers: only a few are shown by name.
    gates: Vec<(u16, u64)>,
}

impl Directory<'_> {
    /// Its calls by the kernel's names.
    pub(crate) fn gates(&self) -> BTreeMap<&'static str, u64> {
        by_name(self.gates.iter().copied())
    }

    fn add(&mut self, file: &File) {
        self.files += 1;
        self.sum.join(&file.sum);
        for gate in &file.gates {
            let mut known = self.gates.iter_mut();
            match known.find(|(number, _)| *number == gate.number) {
                Some((_, calls)) => *calls += u64::from(gate.calls),
                None => self.gates.push((gate.number, gate.calls.into())),
            }
        }
    }
}

/// The rows with the most time, by their time and name. The others are not sorted: of tens of
/// thousands some ten are shown.
pub(crate) fn costliest<T>(
    mut rows: Vec<T>,
    most: usize,
    cost: impl Fn(&T) -> (u64, &[u8]),
) -> Vec<T> {
    let order = |a: &T, b: &T| {
        let ((a_nanos, a_name), (b_nanos, b_name)) = (cost(a), cost(b));
        b_nanos.cmp(&a_nanos).then_with(|| a_name.cmp(b_name))
    };
    if most < rows.len() {
        rows.select_nth_unstable_by(most, order);
        rows.truncate(most);
    }
    rows.sort_unstable_by(order);
    rows
}

/// The calls that were reported one by one.
#[derive(Debug)]
pub struct Detail {
    /// The files, in the order of their first calls.
    pub(crate) files: Vec<File>,
    /// Calls on further files, for which there was no room.
    pub(crate) unheld: Sum,
    /// Calls on files without a known name, such as pipes and sockets.
    pub(crate) nameless: Sum,
    /// The names of programs, by their numbers.
    pub(crate) programs: Vec<Vec<u8>>,
    /// Calls on files without a known name, and on further files, by program and number.
    pub(crate) elsewhere: BTreeMap<(u16, u16, Elsewhere), u64>,
    /// The time that is in no other figure here: calls that waited for others.
    pub(crate) waits: Waits,
    /// By number.
    pub(crate) measured: BTreeMap<u16, Measured>,
    /// All calls, by sort.
    pub(crate) work: Work,
    pub(crate) patterns: Patterns,
    /// Descriptors and threads that could not be followed.
    pub(crate) forgotten: u64,
}

/// The calls of one number that did not wait for others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) work: Work,
    /// Bytes that were read or written; of lists, bytes of entries.
    pub(crate) bytes: u64,
    pub(crate) nanos: u64,
}

/// Why a call is in no row of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Elsewhere {
    /// Its file has no known name.
    Nameless,
    /// There was no room for its file.
    Unheld,
}

impl Detail {
    /// The directories, in no order; with a depth, their names are cut to so many components.
    pub(crate) fn directories(&self, depth: Option<usize>) -> Vec<Directory<'_>> {
        let mut directories: Vec<Directory<'_>> = Vec::new();
        let mut numbers: HashMap<&[u8], usize> = HashMap::new();
        let mut at = 0;
        for file in &self.files {
            let name = depth.map_or(file.dir(), |depth| cut(file.dir(), depth));
            // Files of one directory mostly follow one another.
            if directories.get(at).is_none_or(|last| last.name != name) {
                at = *numbers.entry(name).or_insert(directories.len());
            }
            if at == directories.len() {
                directories.push(Directory {
                    name,
                    ..Directory::default()
                });
            }
            directories[at].add(file);
        }
        directories
    }

    /// The costliest files.
    pub(crate) fn costliest(&self, most: usize) -> Vec<&File> {
        let files = self.files.iter().collect();
        costliest(files, most, |file| (file.sum.nanos, &file.name))
    }

    /// The costliest files that are no directories and not in /proc and the like, and whose calls
    /// succeeded: candidates to measure prices with.
    pub(crate) fn samples(&self, most: usize) -> Vec<&File> {
        let special = [&b"/proc/"[..], b"/sys/", b"/dev/"];
        let is_plain = |file: &&File| {
            let is_special = special.iter().any(|dir| file.name.starts_with(dir));
            !is_special && !file.directory && file.sum.errors == 0
        };
        let files = self.files.iter().filter(is_plain).collect();
        costliest(files, most, |file| (file.sum.nanos, &file.name))
    }
}

/// The first components of an absolute name.
fn cut(name: &[u8], depth: usize) -> &[u8] {
    let mut slashes = (0..name.len()).filter(|&at| name[at] == b'/');
    match slashes.nth(depth) {
        Some(0) => b"/",
        Some(at) => &name[..at],
        None => name,
    }
}

/// The names that are held, and their rows.
#[derive(Debug, Default)]
struct Files {
    index: HashMap<Name, u32>,
    rows: Vec<File>,
    bytes: usize,
}

impl Files {
    fn find(&self, name: &[u8]) -> Option<u32> {
        self.index.get(name).copied()
    }

    /// The number of a name; `None` when there is no room for it.
    fn enter(&mut self, name: &Name) -> Option<u32> {
        if let Some(at) = self.find(name) {
            return Some(at);
        }
        if self.rows.len() >= MOST_FILES || self.bytes + name.len() > MOST_NAMES {
            return None;
        }
        let at = u32::try_from(self.rows.len()).ok()?;
        self.bytes += name.len();
        self.index.insert(Name::clone(name), at);
        self.rows.push(File::new(name));
        Some(at)
    }
}

/// The programs that processes execute. Number 0 is an unknown program.
#[derive(Debug)]
struct Programs {
    names: Vec<Vec<u8>>,
    numbers: HashMap<Vec<u8>, u16>,
    processes: HashMap<u32, u16>,
}

impl Programs {
    fn new() -> Programs {
        Programs {
            names: vec![Vec::new()],
            numbers: HashMap::new(),
            processes: HashMap::new(),
        }
    }

    fn exec(&mut self, pid: u32, program: &[u8]) {
        let number = match self.numbers.get(program) {
            Some(known) => *known,
            None => {
                let number = u16::try_from(self.names.len()).unwrap_or(0);
                if number > 0 {
                    self.names.push(program.to_vec());
                    self.numbers.insert(program.to_vec(), number);
                }
                number
            }
        };
        self.processes.insert(pid, number);
    }

    fn fork(&mut self, parent: u32, pid: u32) {
        self.processes.insert(pid, self.of(parent));
    }

    fn of(&self, pid: u32) -> u16 {
        self.processes.get(&pid).copied().unwrap_or(0)
    }
}

/// Receives the calls from a meter.
#[derive(Debug)]
pub(crate) struct Ledger {
    names: Names,
    programs: Programs,
    elsewhere: BTreeMap<(u16, u16, Elsewhere), u64>,
    waits: Waits,
    measured: BTreeMap<u16, Measured>,
    files: Files,
    unheld: Sum,
    nameless: Sum,
    work: Work,
    patterns: Patterns,
}

impl Ledger {
    pub(crate) fn new(start: Inherited) -> Ledger {
        Ledger::with_names(Names::asking_proc(start))
    }

    pub(crate) fn with_names(names: Names) -> Ledger {
        Ledger {
            names,
            programs: Programs::new(),
            elsewhere: BTreeMap::new(),
            waits: Waits::default(),
            measured: BTreeMap::new(),
            files: Files::default(),
            unheld: Sum::default(),
            nameless: Sum::default(),
            work: Work::default(),
            patterns: Patterns::default(),
        }
    }

    /// Nanoseconds of each directory so far.
    pub(crate) fn directory_nanos(&self) -> HashMap<Vec<u8>, u64> {
        let mut sums: HashMap<&[u8], u64> = HashMap::new();
        for file in &self.files.rows {
            *sums.entry(file.dir()).or_default() += file.sum.nanos;
        }
        let sums = sums.into_iter();
        sums.map(|(dir, nanos)| (dir.to_vec(), nanos)).collect()
    }

    /// Nanoseconds that the calls of each program and number have waited so far.
    pub(crate) fn wait_nanos(&self) -> HashMap<(Vec<u8>, u32), u64> {
        let mut sums = HashMap::new();
        for (program, number, nanos) in self.waits.nanos() {
            let program = self.programs.names.get(usize::from(program));
            let key = (program.cloned().unwrap_or_default(), u32::from(number));
            *sums.entry(key).or_default() += nanos;
        }
        sums
    }

    pub(crate) fn close(self) -> Detail {
        let mut files = self.files.rows;
        files.retain(|file| file.sum.calls > 0);
        Detail {
            files,
            unheld: self.unheld,
            nameless: self.nameless,
            programs: self.programs.names,
            elsewhere: self.elsewhere,
            waits: self.waits,
            measured: self.measured,
            work: self.work,
            patterns: self.patterns,
            forgotten: self.names.forgotten(),
        }
    }
}

impl Listener for Ledger {
    fn attach(&mut self, process: &Attached) {
        self.names.attach(process);
        self.programs.exec(process.pid, &process.program);
    }

    fn call(&mut self, call: &Call<'_>) {
        let Some(syscall) = syscalls::by_number(call.number) else {
            return;
        };
        let about = self.names.call(call);
        if call.result.is_none() {
            return; // it never returned, and counts nowhere
        }
        let sort = Sort::classify(syscall, call, &about);
        let name = call.name.filter(|_| about.by_name);
        let parts = name.map_or(0, |name| components(name).saturating_sub(1));
        self.work.add(sort, 1, parts);
        let file = about.name.as_ref().and_then(|name| self.files.enter(name));
        let program = self.programs.of(call.pid);
        let mut call = *call;
        if let Some(kind) = WaitKind::of(syscall, &call, &about) {
            self.waits.add(kind, program, &call);
            call.nanos = 0;
        } else {
            let measured = self.measured.entry(call.number as u16).or_default();
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
        let call = &call;
        match file.and_then(|file| self.files.rows.get_mut(file as usize)) {
            Some(row) => {
                row.directory |= about.directory;
                let parts = u32::try_from(parts).unwrap_or(u32::MAX);
                row.add(call, program, sort, parts);
            }
            None => {
                let (sum, why) = match about.name {
                    Some(_) => (&mut self.unheld, Elsewhere::Unheld),
                    None => (&mut self.nameless, Elsewhere::Nameless),
                };
                sum.add(call);
                let key = (program, call.number as u16, why);
                *self.elsewhere.entry(key).or_default() += 1;
            }
        }
        let find = |name: Option<&[u8]>| name.and_then(|name| self.files.find(name));
        let other = find(about.other.as_deref());
        let changes = matches!(
            syscall.kind,
            Kind::Change | Kind::Copy | Kind::Mount | Kind::Open
        );
        let parent = find(about.name.as_deref().filter(|_| changes).map(parent));
        self.patterns.call(&Seen {
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
            self.patterns.exit(pid);
            self.programs.processes.remove(&pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_is_cut_to_a_number_of_components() {
        for (name, depth, kept) in [
            ("/", 0, "/"),
            ("/", 2, "/"),
            ("/a", 0, "/"),
            ("/a/b/c", 1, "/a"),
            ("/a/b/c", 2, "/a/b"),
            ("/a/b/c", 3, "/a/b/c"),
            ("/a/b/c", 9, "/a/b/c"),
        ] {
            assert_eq!(
                cut(name.as_bytes(), depth),
                kept.as_bytes(),
                "{name} {depth}"
            );
        }
    }

    fn ask<'a>(path: &'a [u8], nanos: u64, result: i64) -> Call<'a> {
        let number = syscalls::by_name("newfstatat").unwrap().number;
        let args = [-100_i64 as u64, 0, 0, 0, 0, 0];
        Call {
            pid: 1,
            tid: 1,
            number,
            args,
            name: Some(path),
            other: None,
            result: Some(result),
            start: 0,
            nanos,
        }
    }

    #[test]
    fn calls_are_counted_for_their_file_and_for_its_directory() {
        let mut ledger = Ledger::new(Inherited {
            cwd: Some(b"/d".to_vec()),
            ..Inherited::default()
        });
        for (path, nanos, result) in [
            (&b"a"[..], 5, 0),
            (b"b", 1, -2),
            (b"./a", 2, 0),
            (b"/e/x", 100, 0),
        ] {
            ledger.call(&ask(path, nanos, result));
        }
        let list = syscalls::by_name("getdents64").unwrap().number;
        let open = syscalls::by_name("openat").unwrap().number;
        ledger.call(&Call {
            number: open,
            result: Some(3),
            ..ask(b".", 7, 0)
        });
        ledger.call(&Call {
            number: list,
            args: [3, 0, 0, 0, 0, 0],
            name: None,
            ..ask(b"", 9, 40)
        });
        ledger.call(&Call {
            number: list,
            args: [9, 0, 0, 0, 0, 0],
            name: None,
            ..ask(b"", 9, 40)
        });
        let detail = ledger.close();
        let names = |most| {
            detail
                .costliest(most)
                .iter()
                .map(|file| &*file.name)
                .collect::<Vec<&[u8]>>()
        };
        assert_eq!(names(9), [&b"/e/x"[..], b"/d", b"/d/a", b"/d/b"]);
        assert_eq!((names(2), names(0)), (vec![&b"/e/x"[..], b"/d"], vec![]));
        assert_eq!(&*detail.samples(1)[0].name, b"/e/x");
        let a = detail.costliest(3)[2];
        assert_eq!(
            (a.sum, a.gates()),
            (
                Sum {
                    calls: 2,
                    errors: 0,
                    nanos: 7
                },
                BTreeMap::from([("newfstatat", 2)])
            )
        );
        assert_eq!(detail.nameless.calls, 1);
        let directories = detail.directories(None);
        assert_eq!(directories.len(), 2);
        let d = directories
            .iter()
            .find(|directory| directory.name == b"/d")
            .unwrap();
        assert_eq!(
            (d.files, d.sum),
            (
                3,
                Sum {
                    calls: 5,
                    errors: 1,
                    nanos: 24
                }
            )
        );
        assert_eq!(
            d.gates(),
            BTreeMap::from([("getdents64", 1), ("newfstatat", 3), ("openat", 1)])
        );
        assert_eq!(detail.directories(Some(0)).len(), 1);
    }

    #[test]
    fn calls_on_files_beyond_the_limit_are_counted_together() {
        let mut ledger = Ledger::new(Inherited::default());
        for n in 0..MOST_FILES + 10 {
            ledger.call(&ask(format!("/{n}").as_bytes(), 1, 0));
        }
        ledger.call(&ask(b"/5", 1, 0));
        let detail = ledger.close();
        assert_eq!((detail.files.len(), detail.unheld.calls), (MOST_FILES, 10));
        let mut long = Ledger::new(Inherited::default());
        for n in 0..4000 {
            long.call(&ask(format!("/{n:04000}").as_bytes(), 1, 0));
        }
        let detail = long.close();
        assert!(
            detail
                .files
                .iter()
                .map(|file| file.name.len())
                .sum::<usize>()
                <= MOST_NAMES
        );
        assert_eq!(detail.files.len() as u64 + detail.unheld.calls, 4000);
    }

    proptest! {
        #[test]
        fn no_call_is_left_out(
            calls in prop::collection::vec((0..480_u32, any::<[u64; 6]>(), prop::option::of("[a-c/.]{0,5}"), -50..50_i64), 0..60),
        ) {
            let mut ledger = Ledger::new(Inherited { cwd: Some(b"/".to_vec()), files: vec![(3, b"/d".to_vec())], ..Inherited::default() });
            let mut told = 0;
            for (number, args, name, result) in &calls {
                let args = args.map(|arg| if arg % 3 == 0 { arg % 5 } else { arg });
                let name = name.as_deref().map(str::as_bytes);
                told += u64::from(syscalls::by_number(*number).is_some());
                ledger.call(&Call {
                    pid: 1, tid: 1, number: *number, args, name, other: name, result: Some(*result), start: 0, nanos: 1,
                });
            }
            let detail = ledger.close();
            let held: u64 = detail.files.iter().map(|file| file.sum.calls).sum();
            prop_assert_eq!(held + detail.unheld.calls + detail.nameless.calls, told);
            prop_assert_eq!(detail.work.calls(), told);
            let by_gate: u64 = detail.files.iter().flat_map(|file| file.gates().into_values()).sum();
            prop_assert_eq!(by_gate, held);
            let directories = detail.directories(None);
            prop_assert_eq!(directories.iter().map(|row| row.sum.calls).sum::<u64>(), held);
            let names: HashSet<&[u8]> = directories.iter().map(|row| row.name).collect();
            prop_assert_eq!(names.len(), directories.len());
        }
    }
}
