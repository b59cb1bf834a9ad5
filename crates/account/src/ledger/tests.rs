use std::collections::HashSet;

use super::detail::cut;
use super::file::MOST_NAMES;
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

/// Calls by four names, and by two descriptors, of which one is unknown.
fn calls_in_two_directories() -> Detail {
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
