//! Tests of `dump --account`: the memo's tables.

use std::path::Path;

use serde_json::Value;

use crate::support::build::{dir, file, tmpfs};
use crate::support::disks::{BTRFS, EXT4, XFS, mounted};
use crate::support::run::args;
use crate::support::{Need, fathom, in_namespace, require, run};

const DIRECTORIES: u64 = 21;
const FILES: u64 = 400;

fn tree(at: &Path) -> std::path::PathBuf {
    for number in 0..FILES {
        file(
            at.join(format!("tree/d{}/f{number}", number % (DIRECTORIES - 1))),
            100,
        );
    }
    at.join("tree")
}

fn account(tree: &Path, archive: &Path) -> Value {
    let map = archive.with_extension("txt");
    let arguments = args![
        "dump",
        tree,
        "-o",
        archive,
        "--account",
        "--gather",
        "combined",
        "--map",
        map,
        "--json"
    ];
    run(&mut fathom(arguments)).exits(0).json()["result"]["account"].clone()
}

fn named<'a>(rows: &'a Value, field: &str, name: &str) -> Vec<&'a Value> {
    rows.as_array()
        .unwrap()
        .iter()
        .filter(|row| row[field] == name)
        .collect()
}

#[test]
fn account_tables_add_up_and_compare_the_ways() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|ground| {
            for (make, below) in [
                (Some(EXT4[0]), "raw"),
                (Some(XFS[0]), "batched"),
                (Some(BTRFS[0]), "batched"),
                (None, ""),
            ] {
                let at = ground.join(make.map_or("tmpfs", |make| make.fstype));
                match make {
                    Some(make) => assert!(mounted(make, &at)),
                    None => drop(tmpfs(&at)),
                }
                let account = account(&tree(&at), &ground.join("archive.tar"));
                assert_eq!(
                    (&account["directories"], &account["files"]),
                    (&DIRECTORIES.into(), &FILES.into()),
                    "{account}"
                );

                let percents = account["functions"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|row| row["percent"].as_f64().unwrap());
                assert!((percents.sum::<f64>() - 100.0).abs() < 1e-9, "{account}");
                for name in [
                    "copy files",
                    "write archive",
                    "write map",
                    "gate calls for information",
                ] {
                    assert!(
                        named(&account["functions"], "name", name)[0]["seconds"]
                            .as_f64()
                            .unwrap()
                            > 0.0,
                        "{name}: {account}"
                    );
                }

                let row = |gate: &str, function: &str| {
                    let rows = named(&account["gates"], "gate", gate)
                        .into_iter()
                        .find(|row| row["function"] == function);
                    rows.unwrap_or_else(|| panic!("no {gate} for {function}: {account}"))
                };
                // For each file: openat, read, and a second statx after reading.
                for (gate, function) in
                    [("openat", "gate calls for effect"), ("read", "copy files")]
                {
                    let row = row(gate, function);
                    let calls = row["calls_per_file"].as_f64().unwrap();
                    assert!(
                        (1.0..1.1).contains(&calls) && row["for_effect"] == (gate == "openat"),
                        "{row}"
                    );
                }
                let listed = row("getdents64", "gate calls for information");
                assert_eq!(
                    (&listed["calls_per_dir"], &listed["calls_per_file"]),
                    (&2.0.into(), &0.0.into()),
                    "{listed}"
                );

                for option in account["options"].as_array().unwrap() {
                    let name = option["name"].as_str().unwrap();
                    let is_there = ["percall", "combined", below].contains(&name);
                    assert_eq!(
                        option["measured"].is_object(),
                        is_there,
                        "{name}: {account}"
                    );
                    assert_eq!(option["why"].is_string(), !is_there, "{name}: {account}");
                    if name == "percall" {
                        // Thirteen attributes of statx(2), the list of extended attributes, and two
                        // of their values.
                        let of_a_file = option["measured"]["file"]["calls"].as_f64().unwrap();
                        assert!((16.0..16.2).contains(&of_a_file), "{option}");
                        let predicted = option["predicted"]["file"]["calls"].as_f64().unwrap();
                        assert!((predicted - 16.0).abs() < 1e-6, "{option}");
                    }
                }
            }
        });
    }
}

#[test]
fn account_does_not_change_the_archive_or_write_into_it() {
    let ground = tempfile::tempdir().unwrap();
    let tree = tree(ground.path());
    let plain = run(&mut fathom(args!["dump", &tree, "-o", "-"])).exits(0);
    let account = run(&mut fathom(args!["dump", &tree, "-o", "-", "--account"])).exits(0);
    assert!(plain.stdout == account.stdout, "the archives differ");
    let text = run(&mut fathom(args![
        "dump",
        &tree,
        "--no-output",
        "--account",
        "-q"
    ]))
    .exits(0);
    for shown in [
        &account.stderr,
        &String::from_utf8_lossy(&text.stdout).into_owned(),
    ] {
        for words in [
            "CPU time by function",
            "copy files",
            "TIME/CALL",
            "*openat",
            "Methods to read metadata",
            "percall",
        ] {
            assert!(shown.contains(words), "no {words}: {shown}");
        }
    }
    let of_a_file = run(&mut fathom(args![
        "dump",
        tree.join("d0/f0"),
        "--no-output",
        "--account",
        "--json"
    ]))
    .exits(0)
    .json();
    for option in of_a_file["result"]["account"]["options"]
        .as_array()
        .unwrap()
    {
        assert_eq!(
            (&option["measured"], &option["why"]),
            (&Value::Null, &"no SRC is a directory".into()),
            "{option}"
        );
    }
    run(&mut fathom(args![
        "dump",
        dir(&tree),
        "--no-output",
        "--account",
        "-j",
        "2"
    ]))
    .refused();
    run(&mut fathom(args!["dump", &tree, "--explain", "--account"])).refused();
}
