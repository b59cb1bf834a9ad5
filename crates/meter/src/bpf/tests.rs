//! Loads and runs the BPF programs.

use std::collections::BTreeMap;

use super::kit::{PROGRAMS, needed};
use super::types::Types;
use super::*;
use crate::call::{Call, CommandEnd, Total};
use crate::skip::skip;
use crate::tests::busy;

#[test]
fn the_kernel_loads_the_programs_with_and_without_btf() {
    if let Err(why) = Bpf.check() {
        return skip(why);
    }
    for find in [probe::find, probe::probe] {
        for calls in [0, u64::MAX] {
            BpfObjects::with(&PROGRAMS, find, MapCapacity::new(), calls, None)
                .map(drop)
                .unwrap();
        }
    }
}

#[test]
fn the_kernel_loads_the_programs_that_attach() {
    if let Err(why) = Bpf.check() {
        return skip(why);
    }
    if Types::read().is_none() {
        return skip("a kernel with BTF is needed");
    }
    for joins in [Joins::All, Joins::Cgroup] {
        let kit =
            BpfObjects::with(&PROGRAMS, probe::find, MapCapacity::new(), 0, Some(joins)).unwrap();
        for name in ["fathom_adopt", "fathom_join"] {
            kit.code.load(name).map(drop).unwrap();
        }
    }
}

#[test]
fn without_btf_the_same_calls_are_counted() {
    if let Err(why) = Bpf.check() {
        return skip(why);
    }
    let script = "for i in 1 2 3; do cat /etc/passwd >/dev/null; done; (exec true) & wait";
    let words = ["sh", "-c", script].map(std::ffi::OsString::from);
    let command = Command::find(&words).unwrap();
    let counted = |find: fn() -> Result<Types, Unavailable>| {
        let kit = BpfObjects::new(find, MapCapacity::new(), u64::MAX, None).unwrap();
        let metered = Bpf.run_with(kit, 0, &command, u64::MAX, &mut ()).unwrap();
        assert_eq!((metered.ended, metered.lost), (CommandEnd::Exited(0), 0));
        let named = |total: &Total| total.program.contains(&b'/') || !find().unwrap().are_complete;
        assert!(metered.totals.iter().all(named), "{:?}", metered.totals);
        by_number(&metered)
    };
    let expected = counted(probe::find);
    assert_eq!(counted(probe::probe), expected);
}

/// Meters a command with threads, processes and failing calls, with the chosen programs attached.
fn metered_by(is_attached: impl Fn(&str) -> bool) -> Metered {
    let script = "for i in 1 2 3; do (ls / /no/such; cat /etc/passwd) >/dev/null 2>&1; done; true";
    let words = ["sh", "-c", script].map(std::ffi::OsString::from);
    let command = Command::find(&words).unwrap();
    let programs = PROGRAMS.iter().filter(|(name, ..)| is_attached(name));
    let programs: Vec<_> = programs.copied().collect();
    let kit = BpfObjects::with(&programs, probe::find, MapCapacity::new(), u64::MAX, None).unwrap();
    Bpf.run_with(kit, 0, &command, u64::MAX, &mut ()).unwrap()
}

#[test]
fn the_second_program_does_what_a_skipped_one_has_not_done() {
    if let Err(why) = Bpf.check() {
        return skip(why);
    }
    let expected = metered_by(|_| true);
    assert_eq!((expected.lost, &expected.warnings[..]), (0, &[][..]));
    for skipped in ["fathom_exit", "fathom_exec", "fathom_fork", "fathom_return"] {
        let metered = metered_by(|name| name != skipped);
        assert_eq!(metered.lost, 0, "{skipped}");
        assert_eq!(by_number(&metered), by_number(&expected), "{skipped}");
        let programs = |metered: &Metered| {
            let all = metered.totals.iter();
            all.map(|total| total.program.clone())
                .collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(programs(&metered), programs(&expected), "{skipped}");
    }
}

#[test]
fn only_kernels_that_preempt_programs_get_the_second_ones() {
    let count = |release| needed(release).len();
    assert_eq!(["4.18.0-553", "6.18.44"].map(count), [5, 5]);
    assert_eq!(["7.0.1", "7.3.4+deb13", "10.0", ""].map(count), [9; 4]);
}

#[test]
fn calls_whose_return_is_skipped_are_lost() {
    if let Err(why) = Bpf.check() {
        return skip(why);
    }
    let all: u64 = by_number(&metered_by(|_| true))
        .values()
        .map(|(n, _)| n)
        .sum();
    let metered = metered_by(|name| !name.starts_with("fathom_return"));
    assert!(metered.totals.is_empty(), "{:?}", metered.totals);
    assert_eq!(metered.warnings, [WarningKind::Lost(metered.lost)]);
    // The difference is at most two calls for each of the 7 processes: the last call of a process
    // is counted nevertheless, and its exit_group(2) is lost in addition.
    assert!(
        metered.lost.abs_diff(all) <= 14,
        "{} of {all}",
        metered.lost
    );
}

/// Counts processes that execute programs, processes that end, and long calls.
#[derive(Default)]
struct LifecycleCounter {
    executing: std::collections::BTreeSet<u32>,
    executed: usize,
    long: u64,
}

impl Listener for LifecycleCounter {
    fn call(&mut self, _: &crate::call::Call<'_>) {
        panic!("no call is to be reported");
    }

    fn long_call(&mut self, _: &crate::call::LongCall<'_>) {
        self.long += 1;
    }

    fn exec(&mut self, pid: u32, _: &[u8]) {
        self.executed += 1;
        self.executing.insert(pid);
    }

    fn exit(&mut self, pid: u32, tid: u32) {
        assert_eq!(pid, tid);
        self.executing.remove(&pid);
    }
}

#[test]
fn processes_end_and_long_calls_are_told_beyond_the_limit_of_calls() {
    if let Err(why) = Bpf.check() {
        return skip(why);
    }
    let script = "for i in 1 2 3; do cat /etc/passwd >/dev/null; done; \"$0\" wait 1";
    let words = ["sh".into(), "-c".into(), script.into(), busy()];
    let command = Command::find(&words).unwrap();
    let mut lives = LifecycleCounter::default();
    let kit = BpfObjects::new(probe::find, MapCapacity::new(), 0, None).unwrap();
    let metered = Bpf.run_with(kit, 0, &command, 0, &mut lives).unwrap();
    assert_eq!((metered.lost, &metered.warnings[..]), (0, &[][..]));
    assert_eq!((lives.executed, lives.executing.len()), (5, 0));
    assert!(lives.long >= 1);
}

#[test]
fn long_calls_that_the_ring_has_no_room_for_are_lost() {
    if let Err(why) = Bpf.check() {
        return skip(why);
    }
    // The script first fills the ring buffer with records of programs with long names. Then `busy`
    // makes this number of read(2) calls that wait.
    const LONG: u64 = 30;
    let script = "p=$(printf %0450d 0 | tr 0 /)bin/true; i=0; while [ $i -lt 600 ]; do $p; i=$((i + 1)); done; \
         \"$0\" wait 30";
    let words = ["sh".into(), "-c".into(), script.into(), busy()];
    let command = Command::find(&words).unwrap();
    let mut kit = BpfObjects::new(probe::find, MapCapacity::new(), 0, None).unwrap();
    let unread = std::mem::replace(&mut kit.ring, Ring::new("fathom_other", 1 << 16).unwrap());
    let mut lives = LifecycleCounter::default();
    let metered = Bpf.run_with(kit, 0, &command, 0, &mut lives).unwrap();
    drop(unread);
    // On a busy machine, more calls than these take long enough to be reported as long calls.
    let calls: u64 = by_number(&metered).values().map(|(n, _)| n).sum();
    assert!(
        (LONG..calls).contains(&metered.lost),
        "{} of {calls}",
        metered.lost
    );
    assert_eq!(lives.long, 0);
    assert_eq!(metered.warnings, [WarningKind::LostLongCalls(metered.lost)]);
}

/// Calls and errors by number.
fn by_number(metered: &Metered) -> BTreeMap<u32, (u64, u64)> {
    let mut calls = BTreeMap::<_, (u64, u64)>::new();
    for total in &metered.totals {
        let sum = calls.entry(total.number).or_default();
        *sum = (
            sum.0 + total.calls,
            sum.1 + total.errors.iter().map(|(_, times)| times).sum::<u64>(),
        );
    }
    calls
}

/// Counts individually reported calls.
struct CallCounter(u64);

impl Listener for CallCounter {
    fn call(&mut self, _: &Call<'_>) {
        self.0 += 1;
    }
}

#[test]
fn full_maps_lose_no_call_but_those_of_unfollowed_threads() {
    if let Err(why) = Bpf.check() {
        return skip(why);
    }
    let script =
        "for i in 1 2 3 4 5 6 7 8; do (ls / /no/such; cat /etc/passwd) >/dev/null 2>&1; done; true";
    let words = ["sh", "-c", script].map(std::ffi::OsString::from);
    let command = Command::find(&words).unwrap();
    let metered = |room| {
        let kit = BpfObjects::new(probe::find, room, 40, None).unwrap();
        let mut reported = CallCounter(0);
        let metered = Bpf.run_with(kit, 0, &command, 40, &mut reported);
        (metered.unwrap(), reported.0)
    };
    let (ample, reported) = metered(MapCapacity::new());
    assert_eq!(
        (reported, ample.lost, &ample.warnings[..]),
        (40, 0, &[][..])
    );
    let (tight, reported) = metered(MapCapacity {
        slots: 2,
        cells: 4,
        ..MapCapacity::new()
    });
    assert_eq!(
        (by_number(&tight), reported, tight.lost),
        (by_number(&ample), 40, 0)
    );
    assert!(
        tight
            .warnings
            .iter()
            .any(|warning| matches!(warning, WarningKind::Unattributed(_))),
        "{:?}",
        tight.warnings
    );
    // Threads beyond the capacity are not metered, and a warning says so.
    let (alone, _) = metered(MapCapacity {
        tasks: 1,
        ..MapCapacity::new()
    });
    assert!(
        alone.lost > 0
            && alone
                .warnings
                .iter()
                .any(|warning| matches!(warning, WarningKind::UnfollowedThreads(_)))
    );
}
