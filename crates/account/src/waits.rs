//! The time that a command waits for other processes: on pipes, sockets and terminals, and for
//! locks. This is no cost of the file system, so it is listed separately and ranked nowhere.
//!
//! The kind of a descriptor ([`DescriptorKind`]) tells the kind of wait, not the name of the call:
//! the same read(2) serves files and pipes.

use std::collections::{BTreeMap, HashMap};

use meter::call::{Call, Total};
use meter::names::DescriptorKind;
use meter::syscalls::{self, Syscall};

use crate::sum::Sum;

/// The kind of thing that a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitKind {
    /// The other end of a descriptor that is no file, such as a pipe.
    On(DescriptorKind),
    /// A lock that another process holds: flock(2), fcntl(2).
    Lock,
}

impl WaitKind {
    /// The name of the kind in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            WaitKind::On(kind) => kind.name(),
            WaitKind::Lock => "lock",
        }
    }

    pub(crate) fn find(
        syscall: &Syscall,
        call: &Call<'_>,
        descriptor: Option<DescriptorKind>,
    ) -> Option<WaitKind> {
        if is_lock(syscall, call) {
            return Some(WaitKind::Lock);
        }
        if only_waits(syscall, call) {
            return Some(WaitKind::On(DescriptorKind::Other));
        }
        let kind = descriptor.filter(|kind| *kind != DescriptorKind::File);
        kind.map(WaitKind::On)
    }
}

/// Whether the call blocks until it gets a file lock.
fn is_lock(syscall: &Syscall, call: &Call<'_>) -> bool {
    // These constants are the same on every supported architecture.
    const LOCK_NB: u64 = 4;
    const LOCK_UN: u64 = 8;
    const F_SETLKW: u32 = 7;
    const F_OFD_SETLKW: u32 = 38;
    match syscall.name {
        "flock" => call.args[1] & (LOCK_NB | LOCK_UN) == 0,
        "fcntl" => matches!(call.args[1] as u32, F_SETLKW | F_OFD_SETLKW),
        _ => false,
    }
}

/// Whether an io_uring_enter(2) submits nothing, and waits for earlier requests.
fn only_waits(syscall: &Syscall, call: &Call<'_>) -> bool {
    const IORING_ENTER_GETEVENTS: u64 = 1;
    let [_, to_submit, _, flags, ..] = call.args;
    syscall.name == "io_uring_enter" && to_submit == 0 && flags & IORING_ENTER_GETEVENTS != 0
}

/// Waits of calls, by program, process and system call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    sums: BTreeMap<WaitKey, Sum>,
    /// Errors by system call number and errno.
    errors: BTreeMap<(WaitKind, u16, i32), u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WaitKey {
    kind: WaitKind,
    number: u16,
    program: u16,
    /// The process id; 0 for all processes that did not fit into the table.
    pid: u32,
}

/// The maximum number of distinct (process, program, call) rows.
const MOST: usize = 16_384;

impl Waits {
    pub(crate) fn add(&mut self, kind: WaitKind, program: u16, call: &Call<'_>) {
        if let Some(errno) = call.errno() {
            let key = (kind, call.number as u16, errno);
            *self.errors.entry(key).or_default() += 1;
        }
        let mut waiter = WaitKey {
            kind,
            number: call.number as u16,
            program,
            pid: call.pid,
        };
        if self.sums.len() >= MOST && !self.sums.contains_key(&waiter) {
            waiter.pid = 0;
        }
        self.sums.entry(waiter).or_default().add(call);
    }

    /// The waits by kind and system call, the longest first.
    pub(crate) fn rows(&self) -> Vec<Wait> {
        let mut rows: Vec<Wait> = Vec::new();
        for (waiter, sum) in &self.sums {
            let Some(call) = syscalls::by_number(waiter.number.into()) else {
                continue;
            };
            let known = rows.iter().position(|row| row.kind == waiter.kind);
            let at = known.unwrap_or_else(|| {
                rows.push(Wait {
                    kind: waiter.kind,
                    sum: Sum::default(),
                    gates: BTreeMap::new(),
                    errors: BTreeMap::new(),
                });
                rows.len() - 1
            });
            if let Some(row) = rows.get_mut(at) {
                row.sum.join(sum);
                row.gates.entry(call.name).or_default().join(sum);
            }
        }
        for (&(kind, number, errno), times) in &self.errors {
            let row = rows.iter_mut().find(|row| row.kind == kind);
            if let Some((row, call)) = row.zip(syscalls::by_number(number.into())) {
                *row.errors.entry((call.name, errno)).or_default() += times;
            }
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.sum.nanos));
        rows
    }

    /// Program, system call number and sum of each row.
    pub(crate) fn sums(&self) -> impl Iterator<Item = (u16, u16, &Sum)> {
        let sums = self.sums.iter();
        sums.map(|(waiter, sum)| (waiter.program, waiter.number, sum))
    }

    /// The number of calls that waited, by system call number, process and program.
    pub(crate) fn calls<'p>(&self, programs: &'p [Vec<u8>]) -> HashMap<(u32, u32, &'p [u8]), u64> {
        let mut calls = HashMap::new();
        for (waiter, sum) in &self.sums {
            if let Some(program) = programs.get(usize::from(waiter.program)) {
                let key = (waiter.number.into(), waiter.pid, &program[..]);
                *calls.entry(key).or_default() += sum.calls;
            }
        }
        calls
    }

    /// Subtracts the time of the waits from the totals; the numbers of calls stay.
    pub(crate) fn take_from(&self, totals: &mut [Total], programs: &[Vec<u8>]) {
        let mut by_call: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
        for (at, total) in totals.iter().enumerate() {
            by_call
                .entry((total.number, total.pid))
                .or_default()
                .push(at);
        }
        for (waiter, sum) in &self.sums {
            let number = u32::from(waiter.number);
            let mut left = sum.nanos;
            let name = programs.get(usize::from(waiter.program));
            let is_unknown = name.is_none_or(Vec::is_empty);
            // Subtract from the rows of the process first, then from the rows that stand for
            // several processes.
            for pid in [waiter.pid, 0] {
                for &at in by_call.get(&(number, pid)).into_iter().flatten() {
                    let total = &mut totals[at];
                    if pid == 0 || is_unknown || Some(&total.program) == name {
                        let taken = left.min(total.nanos);
                        total.nanos -= taken;
                        left -= taken;
                    }
                }
            }
        }
    }
}

/// The calls that waited for one kind of thing.
#[derive(Clone, Debug)]
pub struct Wait {
    /// The kind of thing waited for.
    pub kind: WaitKind,
    /// The total of the calls.
    pub sum: Sum,
    /// Calls by system call.
    pub gates: BTreeMap<&'static str, Sum>,
    /// Errors by system call and errno.
    pub errors: BTreeMap<(&'static str, i32), u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(pid: u32, name: &str, args: [u64; 6], nanos: u64) -> Call<'static> {
        Call {
            pid,
            tid: pid,
            number: syscalls::by_name(name).unwrap().number,
            args,
            name: None,
            other: None,
            result: Some(0),
            start: 0,
            nanos,
        }
    }

    #[test]
    fn only_calls_that_block_wait_for_locks() {
        for (name, command, is_wait) in [
            ("flock", 2, true),
            ("flock", 1, true),
            ("flock", 2 | 4, false),
            ("flock", 8, false),
            ("fcntl", 7, true),
            ("fcntl", 38, true),
            ("fcntl", 6, false),
            ("fcntl", 3, false),
        ] {
            let call = call(1, name, [3, command, 0, 0, 0, 0], 5);
            let syscall = syscalls::by_number(call.number).unwrap();
            let kind = WaitKind::find(syscall, &call, None);
            assert_eq!(kind, is_wait.then_some(WaitKind::Lock), "{name} {command}");
        }
        for (to_submit, flags, is_wait) in [(0, 1, true), (1, 1, false), (0, 0, false)] {
            let call = call(1, "io_uring_enter", [3, to_submit, 1, flags, 0, 0], 5);
            let syscall = syscalls::by_number(call.number).unwrap();
            let kind = WaitKind::find(syscall, &call, Some(DescriptorKind::File));
            let other = WaitKind::On(DescriptorKind::Other);
            assert_eq!(kind, is_wait.then_some(other), "{to_submit} {flags}");
        }
    }

    #[test]
    fn errors_are_counted_by_kind_call_and_number() {
        let mut waits = Waits::default();
        let failed = |result| Call {
            result: Some(result),
            ..call(7, "read", [0; 6], 1)
        };
        for (kind, result) in [
            (DescriptorKind::Pipe, -11),
            (DescriptorKind::Pipe, -11),
            (DescriptorKind::Pipe, 5),
            (DescriptorKind::Socket, -4),
        ] {
            waits.add(WaitKind::On(kind), 1, &failed(result));
        }
        let rows = waits.rows();
        let errors = |kind| {
            let row = rows.iter().find(|row| row.kind == WaitKind::On(kind));
            row.unwrap().errors.clone()
        };
        let pipes = BTreeMap::from([(("read", 11), 2)]);
        assert_eq!(errors(DescriptorKind::Pipe), pipes);
        let sockets = BTreeMap::from([(("read", 4), 1)]);
        assert_eq!(errors(DescriptorKind::Socket), sockets);
    }

    #[test]
    fn time_of_waits_is_taken_from_the_totals_of_their_process() {
        let mut waits = Waits::default();
        waits.add(
            WaitKind::On(DescriptorKind::Pipe),
            1,
            &call(7, "read", [0; 6], 30),
        );
        waits.add(
            WaitKind::On(DescriptorKind::Socket),
            1,
            &call(7, "read", [0; 6], 5),
        );
        waits.add(
            WaitKind::On(DescriptorKind::Pipe),
            1,
            &call(9, "read", [0; 6], 100),
        );
        let number = syscalls::by_name("read").unwrap().number;
        let total = |program: &str, pid, nanos| Total {
            program: program.into(),
            pid,
            number,
            calls: 3,
            nanos,
            errors: vec![],
        };
        let mut totals = [total("/a", 7, 50), total("/b", 7, 50), total("", 0, 60)];
        waits.take_from(&mut totals, &[vec![], b"/a".to_vec()]);
        let nanos: Vec<u64> = totals.iter().map(|total| total.nanos).collect();
        assert_eq!(nanos, [15, 50, 0]);
        let rows = waits.rows();
        assert_eq!(
            (rows[0].kind, rows[0].sum.nanos, rows[1].sum.calls),
            (WaitKind::On(DescriptorKind::Pipe), 130, 1)
        );
    }
}
