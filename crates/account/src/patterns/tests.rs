//! Tests each pattern on calls that contain it, and on similar calls that do not.

use super::*;
use crate::ledger::Ledger;
use meter::call::{Call, Listener};
use meter::names::InheritedFiles;
use meter::syscalls;

const CWD: u64 = -100_i64 as u64;

/// A simulated process that makes calls.
struct CallingProcess {
    ledger: Ledger,
    pid: u32,
}

impl CallingProcess {
    fn new() -> CallingProcess {
        let start = InheritedFiles {
            cwd: Some(b"/d".to_vec()),
            files: vec![(0, b"/dev/pts/0".to_vec())],
            ..InheritedFiles::default()
        };
        CallingProcess {
            ledger: Ledger::new(start),
            pid: 1,
        }
    }

    fn does(&mut self, name: &str, args: [u64; 4], path: Option<&str>, result: i64) {
        let [a, b, c, d] = args;
        let call = Call {
            pid: self.pid,
            tid: self.pid,
            number: syscalls::by_name(name).unwrap().number,
            args: [a, b, c, d, 0, 0],
            name: path.map(str::as_bytes),
            other: None,
            result: Some(result),
            start: 0,
            nanos: 10,
        };
        self.ledger.call(&call);
    }

    fn stat(&mut self, path: &str, result: i64) {
        self.does("newfstatat", [CWD, 0, 0, 0], Some(path), result);
    }

    fn open(&mut self, path: &str, flags: u64, fd: i64) {
        self.does("openat", [CWD, 0, flags, 0], Some(path), fd);
    }

    fn on(&mut self, name: &str, fd: u64, rest: [u64; 3], result: i64) {
        let [b, c, d] = rest;
        self.does(name, [fd, b, c, d], None, result);
    }

    fn fstat(&mut self, fd: u64) {
        self.on("fstat", fd, [0; 3], 0);
    }

    fn close(&mut self, fd: u64) {
        self.on("close", fd, [0; 3], 0);
    }

    /// Count, redundant calls and example of a pattern; and the number of calls that a change
    /// avoids.
    fn ends(self, pattern: Pattern, spare: PatternFix) -> (u64, u64, Option<String>, u64) {
        let detail = self.ledger.close();
        let (_, found) = detail
            .patterns
            .found()
            .find(|(of, _)| *of == pattern)
            .unwrap();
        let example = found
            .example
            .clone()
            .map(|name| String::from_utf8(name).unwrap());
        if pattern != Pattern::LongNames {
            assert_eq!(found.nanos, 10 * found.calls);
        }
        (
            found.count,
            found.calls,
            example,
            detail.patterns.avoided_calls(spare).work.calls(),
        )
    }
}

fn example(name: &str) -> Option<String> {
    Some(name.to_owned())
}

#[test]
fn stat_open_fstat_of_one_file() {
    let ends = |does: &dyn Fn(&mut CallingProcess)| {
        let mut process = CallingProcess::new();
        does(&mut process);
        process.ends(Pattern::StatOpenFstat, PatternFix::CombineStat)
    };
    // One of stat and fstat is redundant.
    let read = |p: &mut CallingProcess| {
        p.stat("x", 0);
        p.open("./x", 0, 3);
        p.fstat(3);
        p.on("read", 3, [0, 8192, 0], 100);
        p.close(3);
    };
    assert_eq!(ends(&read), (1, 1, example("/d/x"), 1));
    // The descriptor was used for nothing else, so the open was redundant, too.
    let asked = |p: &mut CallingProcess| {
        p.stat("x", 0);
        p.open("x", 0, 3);
        p.fstat(3);
        p.close(3);
    };
    assert_eq!(ends(&asked), (1, 3, example("/d/x"), 3));
    let twice = |p: &mut CallingProcess| {
        read(p);
        asked(p);
    };
    assert_eq!(ends(&twice), (2, 4, example("/d/x"), 4));
    // A second open follows without a stat.
    let again = |p: &mut CallingProcess| {
        read(p);
        p.open("x", 0, 3);
        p.fstat(3);
        p.close(3);
    };
    assert_eq!(ends(&again), (1, 1, example("/d/x"), 1));
    let nearly: [&dyn Fn(&mut CallingProcess); 6] = [
        &|p: &mut CallingProcess| {
            p.stat("x", -2);
            p.open("x", 0, 3);
            p.fstat(3);
        },
        &|p: &mut CallingProcess| {
            p.stat("x", 0);
            p.open("x", 0o1001, 3); // O_TRUNC: the stat was needed for the size before
            p.fstat(3);
        },
        &|p: &mut CallingProcess| {
            p.stat("x", 0);
            p.open("y", 0, 3);
            p.fstat(3);
        },
        &|p: &mut CallingProcess| {
            p.stat("x", 0);
            p.open("x", 0, 3);
            p.close(3);
            p.fstat(3);
        },
        &|p: &mut CallingProcess| {
            p.stat("x", 0);
            p.pid = 2;
            p.open("/d/x", 0, 3);
            p.fstat(3);
        },
        &|p: &mut CallingProcess| {
            p.stat("x", 0);
            p.does("fchmodat", [CWD, 0, 0, 0], Some("x"), 0);
            p.open("x", 0, 3);
            p.fstat(3);
        },
    ];
    for nearly in nearly {
        assert_eq!(ends(nearly), (0, 0, None, 0));
    }
}

#[test]
fn a_directory_that_names_begin_in_was_not_opened_in_vain() {
    let mut p = CallingProcess::new();
    p.stat("x", 0);
    p.open("x", 0o10_000_000, 3);
    p.fstat(3);
    p.does("newfstatat", [3, 0, 0, 0], Some("in"), 0);
    p.close(3);
    assert_eq!(
        p.ends(Pattern::StatOpenFstat, PatternFix::CombineStat),
        (1, 1, example("/d/x"), 1)
    );
}

#[test]
fn repeated_stat_of_one_path() {
    let mut p = CallingProcess::new();
    p.stat("x", 0);
    p.stat("y", 0);
    p.stat("/d/x", 0);
    p.does("unlinkat", [CWD, 0, 0, 0], Some("y"), 0);
    p.stat("y", -2);
    p.stat("x", 0);
    p.open("x", 0, 3);
    p.fstat(3);
    p.fstat(3);
    p.on("write", 3, [0, 10, 0], 10);
    p.stat("x", 0);
    assert_eq!(
        p.ends(Pattern::RepeatedStat, PatternFix::KeepStat),
        (3, 3, example("/d/x"), 3)
    );
}

#[test]
fn what_one_process_asks_is_nothing_to_another() {
    let mut p = CallingProcess::new();
    for n in 0..12 {
        p.pid = 1 + n % 3;
        p.stat("/d/x", 0);
    }
    // After a change each process must stat again; one process does so twice.
    p.does("unlinkat", [CWD, 0, 0, 0], Some("/d/x"), 0);
    for pid in [2, 1, 3, 1] {
        p.pid = pid;
        p.stat("/d/x", 0);
    }
    assert_eq!(
        p.ends(Pattern::RepeatedStat, PatternFix::KeepStat),
        (10, 10, example("/d/x"), 10)
    );

    let mut p = CallingProcess::new();
    for pid in [1, 2] {
        p.pid = pid;
        p.stat("/d/x", 0);
    }
    for pid in [1, 2] {
        p.pid = pid;
        p.open("/d/x", 0, 3);
        p.fstat(3);
        p.on("read", 3, [0, 9999, 0], 9);
        p.close(3);
    }
    assert_eq!(p.ends(Pattern::StatOpenFstat, PatternFix::CombineStat).0, 2);
}

#[test]
fn a_descriptor_is_asked_again_only_if_nothing_has_changed_its_file() {
    let changes: [fn(&mut CallingProcess); 4] = [
        |p| p.on("write", 3, [0, 10, 0], 10),
        |p| p.on("ftruncate", 3, [0; 3], 0),
        |p| p.does("unlinkat", [CWD, 0, 0, 0], Some("x"), 0),
        |p| p.open("x", 0o1001, 4),
    ];
    for change in changes {
        let mut p = CallingProcess::new();
        p.open("x", 2, 3);
        for _ in 0..3 {
            p.fstat(3);
            change(&mut p);
        }
        assert_eq!(
            p.ends(Pattern::RepeatedStat, PatternFix::KeepStat),
            (0, 0, None, 0)
        );
    }
    let mut p = CallingProcess::new();
    (0..3).for_each(|_| {
        p.fstat(9);
        p.on("write", 9, [0, 10, 0], 10);
    });
    assert_eq!(
        p.ends(Pattern::RepeatedStat, PatternFix::KeepStat),
        (0, 0, None, 0),
        "of what has no name neither"
    );
}

#[test]
fn a_directory_changes_when_something_is_made_in_it() {
    let mut p = CallingProcess::new();
    p.stat(".", 0);
    p.stat("/d", 0);
    p.open("new", 0o101, 3);
    p.stat(".", 0);
    p.does("renameat2", [CWD, 0, CWD, 0], Some("new"), 0);
    p.stat(".", 0);
    assert_eq!(
        p.ends(Pattern::RepeatedStat, PatternFix::KeepStat),
        (1, 1, example("/d"), 1)
    );
}

#[test]
fn look_ups_that_miss() {
    let mut p = CallingProcess::new();
    p.stat("x", -2);
    p.open("x", 0, -2);
    p.open("x", 0, -20);
    p.does("execve", [0; 4], Some("/bin/y"), -2);
    // A failed unlinkat(2) is not a failed lookup.
    p.does("unlinkat", [CWD, 0, 0, 0], Some("x"), -2);
    p.open("x", 0, -13);
    p.open("x", 0o101, 3);
    p.stat("x", -2);
    assert_eq!(
        p.ends(Pattern::Miss, PatternFix::CacheMisses),
        (5, 5, example("/d/x"), 2)
    );
}

#[test]
fn the_example_is_the_most_frequent_file() {
    let example_of = |paths: &[&str]| {
        let mut p = CallingProcess::new();
        paths.iter().for_each(|path| p.stat(path, -2));
        p.ends(Pattern::Miss, PatternFix::CacheMisses).2
    };
    assert_eq!(example_of(&["x", "y", "y", "z", "x", "y"]), example("/d/y"));
    // Of several equally frequent files, the first one.
    assert_eq!(example_of(&["x", "y", "z"]), example("/d/x"));
}

#[test]
fn calls_for_attributes_that_find_none() {
    let mut p = CallingProcess::new();
    p.does("lgetxattr", [0; 4], Some("x"), -61);
    p.does("lgetxattr", [0; 4], Some("x"), -95);
    p.does("llistxattr", [0; 4], Some("y"), 0);
    p.does("llistxattr", [0; 4], Some("z"), 20);
    p.does("lgetxattr", [0; 4], Some("z"), 0); // an empty attribute
    p.does("lgetxattr", [0; 4], Some("z"), -2);
    assert_eq!(
        p.ends(Pattern::NoXattr, PatternFix::CombineXattr),
        (3, 3, example("/d/x"), 1)
    );
    // Opened for extended attributes only.
    let mut p = CallingProcess::new();
    p.open("x", 0, 3);
    p.on("flistxattr", 3, [0; 3], 20);
    p.close(3);
    assert_eq!(
        p.ends(Pattern::NoXattr, PatternFix::CombineXattr),
        (0, 0, None, 2)
    );
}

#[test]
fn repeated_opens_of_one_file() {
    const TIMES: u64 = 20;
    let opens = |times: u64, flags: u64, between: fn(&mut CallingProcess)| {
        let mut p = CallingProcess::new();
        for _ in 0..times {
            p.open("/d/x", flags, 3);
            p.on("write", 3, [0, 9999, 0], 9999);
            p.close(3);
            between(&mut p);
        }
        p.ends(Pattern::RepeatedOpen, PatternFix::Buffer)
    };
    let many = u64::from(MANY);
    assert_eq!(opens(many - 1, 0, |_| ()), (0, 0, None, 0));
    let found = |times: u64| (times - 1, times - 1, example("/d/x"), 0);
    assert_eq!(opens(many, 0, |_| ()), found(many));
    // O_WRONLY | O_CREAT | O_APPEND: a log that is opened for each line.
    assert_eq!(opens(TIMES, 0o2101, |_| ()), found(TIMES));
    let replace = |p: &mut CallingProcess| {
        p.does("renameat2", [CWD, 0, CWD, 0], Some("x"), 0);
    };
    assert_eq!(opens(TIMES, 0, replace), (0, 0, None, 0));
    // O_WRONLY | O_CREAT | O_TRUNC
    assert_eq!(opens(TIMES, 0o1101, |_| ()), (0, 0, None, 0));
    // Each open by a new process.
    assert_eq!(opens(TIMES, 0, |p| p.pid += 1), (0, 0, None, 0));
}

#[test]
fn tiny_directories() {
    let mut p = CallingProcess::new();
    for (listed, more) in [
        (100, &[][..]),
        (TINY, &[]),
        (TINY + 1, &[]),
        (100, &[100]),
        (0, &[]),
    ] {
        p.open("x", 0, 3);
        p.on("getdents64", 3, [0, 32768, 0], listed);
        more.iter()
            .for_each(|bytes| p.on("getdents64", 3, [0, 32768, 0], *bytes));
        p.on("getdents64", 3, [0, 32768, 0], 0);
        p.close(3);
    }
    assert_eq!(
        p.ends(Pattern::TinyDirectory, PatternFix::Buffer),
        (2, 2, example("/d/x"), 0)
    );
}

#[test]
fn small_reads_one_behind_the_other() {
    let mut p = CallingProcess::new();
    p.open("x", 0, 3);
    (0..10).for_each(|_| p.on("read", 3, [0, 1000, 0], 1000));
    p.on("read", 3, [0, 1000, 0], 0);
    // 10,000 bytes are three pages, so seven of ten reads are redundant.
    assert_eq!(
        p.ends(Pattern::SmallReads, PatternFix::Buffer),
        (10, 7, example("/d/x"), 7)
    );

    let mut p = CallingProcess::new();
    p.open("x", 0, 3);
    p.on("pread64", 3, [0, 100, 0], 100);
    p.on("pread64", 3, [0, 100, 100], 100);
    p.on("pread64", 3, [0, 100, 900], 100);
    p.on("read", 3, [0, 4096, 0], 10);
    p.on("read", 3, [0, 4096, 0], 10);
    p.on("read", 3, [0, 100, 0], 10);
    (0..9).for_each(|_| p.on("read", 0, [0, 1, 0], 1));
    (0..9).for_each(|_| p.on("read", 9, [0, 1, 0], 1));
    assert_eq!(
        p.ends(Pattern::SmallReads, PatternFix::Buffer),
        (2, 1, example("/d/x"), 1)
    );
}

#[test]
fn reads_here_and_there_are_in_no_row() {
    let reads = |to: &[i64]| {
        let mut p = CallingProcess::new();
        p.open("x", 0, 3);
        for &to in to {
            p.on("lseek", 3, [0; 3], to);
            p.on("read", 3, [0, 100, 0], 100);
        }
        p.ends(Pattern::SmallReads, PatternFix::Buffer)
    };
    assert_eq!(reads(&[0, 5000, 70, 9000]), (0, 0, None, 0));
    // A seek to the current offset changes nothing.
    assert_eq!(reads(&[0, 100, 200, 300]), (4, 3, example("/d/x"), 3));
    let mut p = CallingProcess::new();
    p.open("x", 0, 3);
    [0, 900, 300, 600]
        .into_iter()
        .for_each(|at| p.on("preadv", 3, [0, 1, at], 100));
    assert_eq!(
        p.ends(Pattern::SmallReads, PatternFix::Buffer),
        (0, 0, None, 0)
    );
    let mut p = CallingProcess::new();
    p.open("x", 0, 3);
    (0..4).for_each(|_| p.on("preadv2", 3, [0, 1, u64::MAX], 100));
    assert_eq!(
        p.ends(Pattern::SmallReads, PatternFix::Buffer),
        (4, 3, example("/d/x"), 3)
    );
}

#[test]
fn small_writes_and_an_fsync_after_each() {
    let mut p = CallingProcess::new();
    p.open("x", 0o101, 3);
    (0..4).for_each(|_| p.on("write", 3, [0, 10, 0], 10));
    assert_eq!(
        p.ends(Pattern::SmallWrites, PatternFix::Buffer),
        (4, 3, example("/d/x"), 3)
    );

    let wrote = |bytes: &[u64]| {
        let mut p = CallingProcess::new();
        p.open("x", 0o101, 3);
        for &bytes in bytes {
            p.on("write", 3, [0, bytes, 0], bytes as i64);
            p.on("fdatasync", 3, [0; 3], 0);
        }
        p
    };
    assert_eq!(
        wrote(&[10, 10, 10]).ends(Pattern::SmallWrites, PatternFix::Buffer),
        (0, 0, None, 0)
    );
    assert_eq!(
        wrote(&[10, 10, 10]).ends(Pattern::SmallSyncs, PatternFix::SyncOnce),
        (3, 2, example("/d/x"), 2)
    );
    assert_eq!(
        wrote(&[10, 5000, 5000]).ends(Pattern::SmallSyncs, PatternFix::SyncOnce),
        (0, 0, None, 0)
    );
}

#[test]
fn many_files_of_one_directory_by_long_names() {
    let looks = |times: u32, dir: &str| {
        let mut p = CallingProcess::new();
        (0..times).for_each(|n| p.stat(&format!("{dir}/{n}"), if n % 2 == 0 { 0 } else { -2 }));
        p
    };
    let long = |times, dir| looks(times, dir).ends(Pattern::LongNames, PatternFix::DirectoryFd);
    assert_eq!(long(MANY - 1, "/usr/lib/x"), (0, 0, None, 0));
    assert_eq!(
        long(MANY, "/usr/lib/x"),
        (MANY.into(), 0, example("/usr/lib/x/7"), 0)
    );
    assert_eq!(long(20, "/usr/lib/x").0, 20);
    assert_eq!(long(20, "/usr/lib").0, 0);
}
