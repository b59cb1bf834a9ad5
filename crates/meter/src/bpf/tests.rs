//! The programs, loaded and run.

use std::collections::BTreeMap;

use super::asm::disassembler::listing;
use super::draft::Resources;
use super::kit::{PROGRAMS, needed};
use super::offsets::{Ends, Ids, Offsets, OpenFile, Running};
use super::*;
use crate::call::{Call, Ended, Total};
use crate::skip::skip;
use crate::tests::busy;

#[test]
fn every_program_can_be_assembled_and_read() {
    let offsets = Offsets {
        pid: 2400,
        tgid: 2404,
        stack: 32,
        files: Some(3000),
        fs: Some(2992),
        ids: Some(Ids {
            thread_pid: 2600,
            level: 4,
            numbers: 96,
            size: 16,
            namespace: 104,
            leader: 2500,
        }),
        program: Some(Running {
            interp: 104,
            file: 64,
            inode: 32,
            ino: 64,
        }),
        ends: Some(Ends {
            pending: 3100,
            signal: 3050,
            group_exit_code: 100,
        }),
        open: Some(OpenFile {
            files: 3000,
            table: 32,
            descriptors: 8,
            inode: 32,
            mode: 0,
            device: 76,
            superblock: 40,
            magic: 96,
        }),
    };
    let without_btf = Offsets {
        files: None,
        fs: None,
        ids: None,
        program: None,
        ends: None,
        open: None,
        ..offsets
    };
    for offsets in [offsets, without_btf] {
        let resources = Resources {
            offsets,
            ..Resources::default()
        };
        for (name, _, write) in PROGRAMS {
            let code = write(&resources).unwrap();
            let listing = listing(&code);
            assert!(
                listing.ends_with(": exit\n") && !listing.contains('?'),
                "{name}: {listing}"
            );
            assert!(code.len() < 700, "{name}: {}", code.len());
        }
    }
}

#[test]
fn a_call_of_an_unmetered_process_takes_17_instructions() {
    let resources = Resources {
        buckets: 1 << 15,
        ..Resources::default()
    };
    let listing = listing(&program::enter(&resources).unwrap());
    let unmetered = unmetered(&listing);
    let way: Vec<&str> = listing.lines().take(17).collect();
    assert_eq!(
        way,
        [
            "0: r6 = r1",
            "1: r9 = *(u64 *)(r6 +0)",
            "2: r8 = *(u64 *)(r6 +8)",
            "3: r1 = r9",
            "4: r1 >>= 12",
            "5: r1 *= 1640531527",
            "6: r1 >>= 14",
            "7: r1 &= 32767",
            "8: *(u32 *)(r10 -8) = r1",
            "9: r1 = map",
            "11: r2 = r10",
            "12: r2 += -8",
            "13: call 1", // a lookup in an array map, which the kernel inlines
            &format!("14: if r0 == 0 goto {unmetered}"),
            "15: r1 = *(u64 *)(r0 +0)",
            "16: if r1 == r9 goto 124",
            &format!("17: if r1 == 0 goto {unmetered}"),
        ]
    );
}

/// The instruction that compares the number of the call with that of prctl(2).
fn unmetered(listing: &str) -> &str {
    let number = if cfg!(target_arch = "x86_64") {
        "!= 157"
    } else {
        "!= 167"
    };
    let line = listing.lines().find(|line| line.contains(number)).unwrap();
    line.split(':').next().unwrap()
}

#[test]
fn the_kernel_loads_the_programs_with_and_without_btf() {
    if let Err(why) = Bpf.check() {
        return skip(why);
    }
    for find in [probe::find, probe::probe] {
        for calls in [0, u64::MAX] {
            Kit::with(&PROGRAMS, find, Room::new(), calls, None)
                .map(drop)
                .unwrap();
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
    let counted = |find: fn() -> Result<Offsets, Unavailable>| {
        let kit = Kit::new(find, Room::new(), u64::MAX, None).unwrap();
        let metered = Bpf.run_with(kit, 0, &command, u64::MAX, &mut ()).unwrap();
        assert_eq!((metered.ended, metered.lost), (Ended::Exited(0), 0));
        let named =
            |total: &Total| total.program.contains(&b'/') || find().unwrap().program.is_none();
        assert!(metered.totals.iter().all(named), "{:?}", metered.totals);
        by_number(&metered)
    };
    let expected = counted(probe::find);
    assert_eq!(counted(probe::probe), expected);
}

/// Meters a command with threads, processes and failing calls by these of the programs.
fn metered_by(is_attached: impl Fn(&str) -> bool) -> Metered {
    let script = "for i in 1 2 3; do (ls / /no/such; cat /etc/passwd) >/dev/null 2>&1; done; true";
    let words = ["sh", "-c", script].map(std::ffi::OsString::from);
    let command = Command::find(&words).unwrap();
    let programs = PROGRAMS.iter().filter(|(name, ..)| is_attached(name));
    let programs: Vec<_> = programs.copied().collect();
    let kit = Kit::with(&programs, probe::find, Room::new(), u64::MAX, None).unwrap();
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
    // Without the last call of each of the 7 processes, and with exit_group(2).
    assert!(
        metered.lost.abs_diff(all) <= 14,
        "{} of {all}",
        metered.lost
    );
}

/// Counts processes that execute programs, those that end, and long calls.
#[derive(Default)]
struct Lives {
    executing: std::collections::BTreeSet<u32>,
    executed: usize,
    long: u64,
}

impl Listener for Lives {
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
    let mut lives = Lives::default();
    let kit = Kit::new(probe::find, Room::new(), 0, None).unwrap();
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
    // The records of programs with long names fill the ring. Then 30 reads wait.
    const LONG: u64 = 30;
    let script = "p=$(printf %0450d 0 | tr 0 /)bin/true; i=0; while [ $i -lt 600 ]; do $p; i=$((i + 1)); done; \
         \"$0\" wait 30";
    let words = ["sh".into(), "-c".into(), script.into(), busy()];
    let command = Command::find(&words).unwrap();
    let mut kit = Kit::new(probe::find, Room::new(), 0, None).unwrap();
    let unread = std::mem::replace(&mut kit.ring, Ring::new("fathom_other", 1 << 16).unwrap());
    let mut lives = Lives::default();
    let metered = Bpf.run_with(kit, 0, &command, 0, &mut lives).unwrap();
    drop(unread);
    // On a busy machine other calls are long, too.
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

/// Counts the calls that are reported one by one.
struct Reported(u64);

impl Listener for Reported {
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
        let kit = Kit::new(probe::find, room, 40, None).unwrap();
        let mut reported = Reported(0);
        let metered = Bpf.run_with(kit, 0, &command, 40, &mut reported);
        (metered.unwrap(), reported.0)
    };
    let (ample, reported) = metered(Room::new());
    assert_eq!(
        (reported, ample.lost, &ample.warnings[..]),
        (40, 0, &[][..])
    );
    let (tight, reported) = metered(Room {
        slots: 2,
        cells: 4,
        ..Room::new()
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
    // Threads that there is no room for are not metered, and there is a warning.
    let (alone, _) = metered(Room {
        tasks: 1,
        ..Room::new()
    });
    assert!(
        alone.lost > 0
            && alone
                .warnings
                .iter()
                .any(|warning| matches!(warning, WarningKind::UnfollowedThreads(_)))
    );
}
