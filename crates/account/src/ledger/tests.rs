use std::collections::HashSet;

use super::detail::cut;
use super::file::MOST_NAMES;
use super::*;
use meter::call::Total;
use meter::names::DescriptorKind;
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

/// Calls with four names, and on two descriptors, one of which is unknown.
fn calls_in_two_directories() -> Detail {
    let mut ledger = Ledger::new(InheritedFiles {
        cwd: Some(b"/d".to_vec()),
        ..InheritedFiles::default()
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
    ledger.close()
}

#[test]
fn calls_are_counted_for_their_file() {
    let detail = calls_in_two_directories();
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
}

#[test]
fn calls_are_counted_for_their_directory() {
    let detail = calls_in_two_directories();
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
    let mut ledger = Ledger::new(InheritedFiles::default());
    for n in 0..MOST_FILES + 10 {
        ledger.call(&ask(format!("/{n}").as_bytes(), 1, 0));
    }
    ledger.call(&ask(b"/5", 1, 0));
    let detail = ledger.close();
    assert_eq!((detail.files.len(), detail.unheld.calls), (MOST_FILES, 10));
    let mut long = Ledger::new(InheritedFiles::default());
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
        let mut ledger = Ledger::new(InheritedFiles { cwd: Some(b"/".to_vec()), files: vec![(3, b"/d".to_vec())], ..InheritedFiles::default() });
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

#[test]
fn last_directory_is_found_once_while_it_stays() {
    let mut last = LastDirectory::default();
    let mut found = Vec::new();
    for dir in [&b""[..], b"", b"/a", b"/a", b"/b", b"/a"] {
        let value = last.get(dir, |dir| {
            found.push(dir);
            dir.len()
        });
        assert_eq!(value, dir.len());
    }
    assert_eq!(found, [&b""[..], b"/a", b"/b", b"/a"]);
}

/// A call on a descriptor.
fn on(fd: u64, name: &str, nanos: u64) -> Call<'static> {
    Call {
        number: syscalls::by_name(name).unwrap().number,
        args: [fd, 2, 0, 0, 0, 0],
        name: None,
        ..ask(b"", nanos, 0)
    }
}

/// A meter's totals for these calls of `/bin/cat`, by system call number.
fn totals_of(calls: &[Call<'_>]) -> Vec<Total> {
    let mut by_number = BTreeMap::<u32, Vec<u64>>::new();
    for call in calls {
        by_number.entry(call.number).or_default().push(call.nanos);
    }
    let total = |(number, nanos): (u32, Vec<u64>)| Total {
        program: b"/bin/cat".to_vec(),
        pid: 1,
        number,
        calls: nanos.len() as u64,
        nanos: nanos.iter().sum(),
        errors: Vec::new(),
    };
    by_number.into_iter().map(total).collect()
}

const WAIT: u64 = 400_000_000;

/// Calls that read a file for 5 ns, wait for a pipe, and wait for a lock on the file: descriptor,
/// call, nanoseconds.
const WAITING: [(u64, &str, u64); 3] = [(3, "read", 5), (0, "read", WAIT), (3, "flock", WAIT)];

/// The nanoseconds of waits by kind of wait, and by system call the totals that remain without
/// waits.
fn waits_and_rest(
    detail: &Detail,
    mut totals: Vec<Total>,
) -> (Vec<(WaitKind, u64)>, BTreeMap<&'static str, u64>) {
    let rows = detail.waits.rows();
    let mut waits: Vec<_> = rows.iter().map(|row| (row.kind, row.sum.nanos)).collect();
    waits.sort();
    detail.waits.take_from(&mut totals, &detail.programs);
    let name = |total: &Total| syscalls::by_number(total.number).unwrap().name;
    let rest = totals.iter().map(|total| (name(total), total.nanos));
    (waits, rest.collect())
}

#[test]
fn time_of_waits_is_in_no_row_of_files() {
    let start = InheritedFiles {
        files: vec![(3, b"/d/f".to_vec())],
        unnamed: vec![(0, DescriptorKind::Pipe)],
        ..InheritedFiles::default()
    };
    let mut ledger = Ledger::with_names(Names::new(start));
    ledger.exec(1, b"/bin/cat");
    let calls = WAITING.map(|(fd, name, nanos)| on(fd, name, nanos));
    calls.iter().for_each(|call| ledger.call(call));
    let detail = ledger.close();
    let expected = vec![
        (WaitKind::On(DescriptorKind::Pipe), WAIT),
        (WaitKind::Lock, WAIT),
    ];
    let found = waits_and_rest(&detail, totals_of(&calls));
    assert_eq!(
        found,
        (expected, BTreeMap::from([("read", 5), ("flock", 0)]))
    );
    let [file] = &detail.costliest(9)[..] else {
        panic!("one file: {detail:?}");
    };
    assert_eq!((&*file.name, file.sum.calls), (&b"/d/f"[..], 2));
    let directories = detail.directories(None);
    assert_eq!(directories.len(), 1);
    let nanos = [
        file.sum.nanos,
        directories[0].sum.nanos,
        detail.nameless.nanos,
    ];
    assert_eq!(nanos, [5, 5, 0]);
}

#[test]
fn time_of_long_waits_beyond_the_limit_of_calls_is_taken_from_the_totals() {
    use DescriptorKind::{File, Pipe};
    let mut ledger = Ledger::with_names(Names::new(InheritedFiles::default()));
    ledger.exec(1, b"/bin/cat");
    let calls = WAITING.map(|(fd, name, nanos)| on(fd, name, nanos));
    for (call, kind) in calls.iter().zip([File, Pipe, File]) {
        ledger.long_call(&LongCall {
            call: *call,
            program: b"/bin/cat",
            descriptor: Some(kind),
        });
    }
    let detail = ledger.close();
    let expected = vec![(WaitKind::On(Pipe), WAIT), (WaitKind::Lock, WAIT)];
    let found = waits_and_rest(&detail, totals_of(&calls));
    assert_eq!(
        found,
        (expected, BTreeMap::from([("read", 5), ("flock", 0)]))
    );
}
