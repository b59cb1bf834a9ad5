//! Tests of the commands that read the dumps of a state directory: their files are found, restored
//! and verified, and runs are reported for monitoring.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::tempdir;

use super::automatic::{DAY, Nights};
use crate::support::build::{chmod, dir, file};
use crate::support::clock::{CC, Clock};
use crate::support::schema::check;
use crate::support::trees::Dice;
use crate::support::{require, run};

/// Replaces the contents of a file, and keeps its modification time.
fn put(path: &Path, bytes: &[u8]) {
    let time = fs::metadata(path).unwrap().modified().unwrap();
    fs::write(path, bytes).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(time).unwrap();
}

/// Files are found in all dumps, and restored by their paths on the machine.
#[test]
fn versions_are_found_and_restored() {
    if !require(&[CC]) {
        return;
    }
    let (place, clocks) = (tempdir().unwrap(), tempdir().unwrap());
    let clock = Clock::of_the_day(clocks.path());
    let at = place.path().canonicalize().unwrap();
    let nights = Nights::new(&at, Some(&clock));
    file(at.join("srv/same"), 5);
    file(at.join("srv/holes/a"), 5);
    std::os::unix::fs::symlink("same", at.join("srv/link")).unwrap();
    for night in 0..4 {
        fs::write(at.join("srv/note"), format!("night {night}")).unwrap();
        match night {
            1 => fs::rename(at.join("srv/holes"), at.join("srv/moved")).unwrap(),
            2 => fs::hard_link(at.join("srv/same"), at.join("srv/again")).unwrap(),
            3 => fs::remove_file(at.join("srv/same")).unwrap(),
            _ => {}
        }
        nights.dump(&[]);
        clock.advance(DAY);
    }
    let find = |paths: &[&str]| {
        let value = nights
            .run(&[&["list", "--state", "state", "--json", "--"], paths].concat())
            .json();
        check(&value);
        let versions = value["result"]["versions"].as_array().unwrap().clone();
        let one = |it: &Value| {
            (
                it["path"].as_str().unwrap().to_owned(),
                it["dumps"].as_array().unwrap().len(),
            )
        };
        versions.iter().map(one).collect::<Vec<_>>()
    };
    let path = |name: &str| at.join("srv").join(name).to_str().unwrap().to_owned();
    assert_eq!(find(&["*note"]).len(), 4);
    assert_eq!(find(&["note"]), find(&[&path("note")]));
    assert_eq!(find(&["srv/note"]), find(&["note"]));
    assert_eq!(find(&["same"]), [(path("same"), 3)]);
    assert_eq!(find(&["*/a"]), [(path("holes/a"), 1), (path("moved/a"), 3)]);
    let text = nights
        .run(&["list", "--state", "state", "--", "same"])
        .exits(0);
    assert!(
        String::from_utf8_lossy(&text.stdout).contains(&path("same"))
            && text
                .stderr
                .contains("to restore one: fathom restore --state state"),
        "{text}"
    );
    let missing = nights
        .run(&["list", "--state", "state", "--", "nothing"])
        .exits(1);
    assert!(
        missing.stderr.contains("no dump has a file of this name"),
        "{missing}"
    );
    // Without catalogs, nothing is known about the files of the dumps.
    let moved = dir(at.join("archives"));
    for entry in fs::read_dir(at.join("state")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|it| it != "parquet") && path.is_file() {
            fs::copy(&path, moved.join(path.file_name().unwrap())).unwrap();
        }
    }
    let ran = nights.run(&["list", "--state", "archives", "--json", "--", "note"]);
    let ran = ran.exits(1);
    assert_eq!(ran.json()["warnings"].as_array().unwrap().len(), 2, "{ran}");
    for part in [
        "the catalogs of 4 of 4 dumps do not exist",
        "'note': not found in the dumps whose catalogs can be read",
        "fathom list ARCHIVE... -- '*NAME'",
    ] {
        assert!(ran.stderr.contains(part), "{part}: {ran}");
    }
    // Restore to standard output, also files that were renamed, linked or unchanged since.
    let one = |time: &str, name: &str| {
        let ran = nights.run(&[
            "restore", "--state", "state", "--at", time, "--to", "-", name,
        ]);
        (ran.status.code(), ran.stdout.clone())
    };
    let contents = |name: &str| fs::read(at.join("srv").join(name)).unwrap();
    assert_eq!(one("latest", "note"), (Some(0), b"night 3".to_vec()));
    assert_eq!(
        one("yesterday", &path("note")),
        (Some(0), b"night 3".to_vec())
    );
    assert_eq!(one("36h", "srv/note"), (Some(0), b"night 2".to_vec()));
    assert_eq!(one("latest", "moved/a"), (Some(0), contents("moved/a")));
    assert_eq!(one("latest", "again"), (Some(0), contents("again")));
    assert_eq!(one("36h", "same"), (Some(0), contents("again")));
    for gone in ["same", "holes/a", "link", "moved", "nothing", "/elsewhere"] {
        assert_eq!(one("latest", gone), (Some(2), Vec::new()), "{gone}");
    }
    assert_eq!(one("1w", "note"), (Some(2), Vec::new()));
    // Restore to a directory.
    let to = dir(at.join("to"));
    let words = [
        "restore",
        "--state",
        "state",
        "--at",
        "36h",
        "-C",
        "to",
        &path("note"),
        "moved",
    ];
    nights.run(&words).exits(0);
    assert_eq!(fs::read_to_string(to.join("srv/note")).unwrap(), "night 2");
    assert!(to.join("srv/moved/a").exists() && !to.join("srv/same").exists());
    // A file that was deleted before the dump is not restored, though an earlier archive has it.
    dir(at.join("none"));
    for more in ["-n", "-q"] {
        let words = ["restore", "--state", "state", "-C", "none", "--json", more];
        let ran = nights.run(&[&words[..], &["same"]].concat()).exits(1);
        let value = ran.json();
        check(&value);
        for count in ["files", "bytes", "links"] {
            assert_eq!(value["result"][count], 0, "{ran}");
        }
        let known = format!("-C DIR -- {}", path("same"));
        assert!(
            ran.stderr
                .contains("'same': the dump has no file of this name")
                && ran.stderr.contains("restore --state state --at")
                && ran.stderr.contains(&known),
            "{ran}"
        );
    }
    assert!(!at.join("none/srv/same").exists());
    // A directory does not have its later name yet.
    let early = ["restore", "--state", "state", "--at", "80h", "-C", "none"];
    let ran = nights.run(&[&early[..], &["moved"]].concat()).exits(1);
    assert!(
        ran.stderr.contains("the dump has no file of this name")
            && ran.stderr.contains("other dumps have it"),
        "{ran}"
    );
}

/// Dumps that began in the same second have a fraction in their dates, which `--at` accepts.
#[test]
fn dumps_of_one_second_are_told_apart() {
    let place = tempdir().unwrap();
    let nights = Nights::new(place.path(), None);
    for night in 0..3 {
        fs::write(place.path().join("srv/note"), format!("night {night}")).unwrap();
        nights.dump(&[]);
    }
    let records = place.path().join("state/dumps.ndjson");
    let text = fs::read_to_string(&records).unwrap();
    let dated = text.lines().enumerate().map(|(nth, line)| {
        let mut record: Value = serde_json::from_str(line).unwrap();
        let (sec, nsec) = [
            (1_795_831_200, 7),
            (1_795_831_200, 500_000_000),
            (1_795_831_201, 0),
        ][nth];
        record["date"] = serde_json::json!({"sec": sec, "nsec": nsec});
        record.to_string() + "\n"
    });
    let dated: String = dated.collect();
    fs::write(&records, dated).unwrap();
    let dates = nights.list();
    let dates: Vec<&str> = dates
        .iter()
        .map(|dump| dump["date"].as_str().unwrap())
        .collect();
    let expected = [
        "2026-11-28T02:00:00.000000007Z",
        "2026-11-28T02:00:00.500000000Z",
        "2026-11-28T02:00:01Z",
    ];
    assert_eq!(dates, expected);
    let one = |at: &str, zone: &str| {
        let words = [
            "restore", "--state", "state", "--at", at, "--to", "-", "note",
        ];
        let ran = run(nights.command(&words).env("TZ", zone)).exits(0);
        String::from_utf8(ran.stdout).unwrap()
    };
    // The dates of --json are absolute, whatever the time zone of the reader.
    for (night, date) in dates.iter().enumerate() {
        assert_eq!(one(date, "XXX-14"), format!("night {night}"));
    }
    for (at, night) in [
        ("2026-11-28 02:00:00.000000007", 0),
        ("2026-11-28 02:00:00.4", 0),
        ("2026-11-28 02:00:00", 1),
        ("2026-11-28 02:00", 2),
        ("@1795831200.5", 1),
        ("@1795831200", 1),
    ] {
        assert_eq!(one(at, "UTC"), format!("night {night}"), "{at}");
    }
    let found = nights
        .run(&["list", "--state", "state", "--", "note"])
        .exits(0);
    let found = String::from_utf8(found.stdout).unwrap();
    assert!(found.contains(" 2026-11-28 02:00:00.000000007 "), "{found}");
    assert!(found.contains(" 2026-11-28 02:00:01           "), "{found}");
}

#[test]
fn versions_that_differ_in_permissions_look_different() {
    let place = tempdir().unwrap();
    let nights = Nights::new(place.path(), None);
    let note = file(place.path().join("srv/note"), 5);
    for mode in [0o640, 0o4755] {
        chmod(&note, mode);
        nights.dump(&[]);
    }
    let words = ["list", "--state", "state", "--", "note"];
    let text = String::from_utf8(nights.run(&words).exits(0).stdout).unwrap();
    let modes = text
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    assert_eq!(
        modes.collect::<Vec<_>>(),
        ["MODE", "4755", "0640"],
        "{text}"
    );
}

/// Every archive is read, every chain checked, and the newest dump compared with the tree.
#[test]
fn chains_are_verified() {
    let place = tempdir().unwrap();
    let at = place.path().canonicalize().unwrap();
    let nights = Nights::new(&at, None);
    for number in 0..5 {
        file(at.join(format!("srv/{number}")), 5000);
        nights.dump(&["--full-every", "3"]);
    }
    let verify = |more: &[&str], status: i32| {
        let ran = nights
            .run(&[&["verify", "--state", "state", "--json"], more].concat())
            .exits(status);
        let value = ran.json();
        check(&value);
        let dumps = value["result"]["dumps"].as_array().unwrap().iter();
        let restorable = dumps
            .map(|dump| dump["restorable"].as_bool().unwrap())
            .collect::<Vec<_>>();
        (restorable, value["result"].clone())
    };
    let (restorable, result) = verify(&["--against", "."], 0);
    assert_eq!(
        (restorable, &result["different"], &result["unknown"]),
        (vec![true; 5], &0.into(), &0.into()),
        "{result}"
    );
    // A change of contents without a change of the times, an attribute, a new file, and a removed
    // file.
    let path = at.join("srv/1");
    let mut bytes = fs::read(&path).unwrap();
    bytes[4000] ^= 1;
    put(&path, &bytes);
    std::os::unix::fs::chown(at.join("srv/2"), Some(7), None).unwrap();
    fs::remove_file(at.join("srv/3")).unwrap();
    file(at.join("srv/new"), 1);
    let (_, result) = verify(&["--against", "."], 1);
    // The modification time of the directory differs, too.
    assert_eq!(
        (&result["different"], &result["unknown"]),
        (&4.into(), &1.into()),
        "{result}"
    );
    let text = nights
        .run(&["verify", "--state", "state", "--against", "."])
        .exits(1);
    assert!(
        text.stderr
            .contains("their checksum is not that of the dump"),
        "{text}"
    );
    let deep = nights.run(&["verify", "--state", "state", "--against", "srv"]);
    let deep = deep.exits(2).stderr;
    assert!(
        deep.contains("it has no member of the archive, such as 'srv")
            && deep.contains("hint: use --against"),
        "{deep}"
    );
    let archives = nights.archives();
    let archive = |nth: usize| at.join("state").join(&archives[nth]);
    let whole = fs::read(archive(1)).unwrap();
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0xff;
    put(&archive(1), &damaged);
    assert_eq!(verify(&[], 1).0, [true, false, true, true, true]);
    fs::rename(archive(3), at.join("tape")).unwrap();
    assert_eq!(verify(&[], 1).0, [true, false, true, false, false]);
    let ran = nights.run(&["verify", "--state", "state"]).exits(1);
    for expected in [
        "the archive does not exist",
        "cannot be restored: an archive that it is based on",
        "damaged",
    ] {
        assert!(ran.stderr.contains(expected), "{expected}: {ran}");
    }
    nights.run(&["verify", "--state", "none"]).refused();
    nights
        .run(&["verify", "--state", "state", "x.tar"])
        .refused();
}

/// A verification records damage: pruning keeps an intact dump, no later dump is based on the
/// damaged archive, and a later verification finds that it was mended.
#[test]
fn damage_that_verify_finds_is_recorded() {
    let place = tempdir().unwrap();
    let at = place.path();
    let nights = Nights::new(at, None);
    // Data that does not compress, so that a quarter of an archive is within the data of a file.
    let mut dice = Dice::new(3);
    for (number, full_every) in ["1", "1", "7"].into_iter().enumerate() {
        let data: Vec<u8> = (0..700).flat_map(|_| dice.roll().to_le_bytes()).collect();
        fs::write(at.join(format!("srv/{number}")), data).unwrap();
        nights.dump(&["--full-every", full_every]);
    }
    let statuses = || {
        let dumps = nights.list();
        let status = |dump: &Value| dump["status"].as_str().unwrap().to_owned();
        dumps.iter().map(status).collect::<Vec<_>>()
    };
    let archive = at.join("state").join(&nights.archives()[1]);
    let whole = fs::read(&archive).unwrap();
    let mut damaged = whole.clone();
    let within = damaged.len() / 4;
    damaged[within] ^= 0xff;
    let verify = |status| nights.run(&["verify", "--state", "state"]).exits(status);
    put(&archive, &damaged);
    verify(1);
    assert_eq!(statuses(), ["ok", "damaged", "no base"]);
    // The last dump that can be restored is the only one that counts.
    for words in [["--keep-last", "1"], ["--keep-full", "1"]] {
        let words = [
            &["dump", "--state", "state", "--prune", "--yes"],
            &words[..],
        ]
        .concat();
        nights.run(&words).exits(0);
        assert_eq!(statuses(), ["ok", "damaged", "no base"]);
    }
    // A verification that finds the same does not write the records again.
    let records = at.join("state/dumps.ndjson");
    let before = fs::metadata(&records).unwrap().modified().unwrap();
    verify(1);
    assert_eq!(fs::metadata(&records).unwrap().modified().unwrap(), before);
    put(&archive, &whole);
    assert_eq!(statuses(), ["ok", "damaged", "no base"]);
    verify(0);
    assert_eq!(statuses(), ["ok", "ok", "ok"]);
    put(&archive, &damaged);
    verify(1);
    let ran = nights.run(&["dump", "srv", "--state", "state", "--keep-last", "1"]);
    let ran = ran.exits(0);
    let expected = "full dump: '";
    assert!(
        ran.stderr.contains(expected) && ran.stderr.contains("is damaged, as fathom verify found"),
        "{ran}"
    );
    assert_eq!(statuses(), ["ok"]);
    assert!(!archive.exists());
    verify(0);
    // The metric of the last complete dump ignores a damaged one.
    let complete = || {
        let words = ["verify", "--state", "state", "--metrics", "fathom.prom"];
        nights.run(&words);
        let text = fs::read_to_string(at.join("fathom.prom")).unwrap();
        samples(&text)
            .keys()
            .any(|name| name.contains("_last_complete_dump_"))
    };
    assert!(complete());
    let last = at.join("state").join(&nights.archives()[0]);
    let mut bytes = fs::read(&last).unwrap();
    let within = bytes.len() / 4;
    bytes[within] ^= 0xff;
    put(&last, &bytes);
    assert!(!complete());
}

/// A state directory without --state, and a restic repository, are recognized.
#[test]
fn directories_that_are_no_archives_are_named() {
    let place = tempdir().unwrap();
    let nights = Nights::new(place.path(), None);
    nights.dump(&[]);
    for name in ["keys", "snapshots"] {
        dir(place.path().join("repository").join(name));
    }
    file(place.path().join("repository/config"), 1);
    for command in ["list", "verify", "restore"] {
        let ran = nights.run(&[command, "state"]).refused();
        assert!(ran.stderr.contains("give --state 'state'"), "{ran}");
        let ran = nights.run(&[command, "repository"]).refused();
        assert!(
            ran.stderr.contains("restic -r 'repository' snapshots"),
            "{ran}"
        );
    }
    // The state directory of fathom dump --restic has a catalog, and no records.
    let of_restic = place.path().join("of_restic");
    file(of_restic.join("restic-0123456789abcdef.parquet"), 1);
    let ran = nights.run(&["list", "--state", "of_restic"]).exits(0);
    assert!(ran.stderr.contains("restic snapshots"), "{ran}");
    let ran = nights.run(&["restore", "--state", "of_restic"]).refused();
    assert!(ran.stderr.contains("restic snapshots"), "{ran}");
    // A name that no dump has.
    let out = dir(place.path().join("out"));
    let out = out.to_str().unwrap();
    let ran = nights.run(&["restore", "--state", "state", "-C", out, "--", "none"]);
    let ran = ran.exits(1);
    assert!(
        ran.stderr.contains("fathom list --state DIR -- '*NAME*'"),
        "{ran}"
    );
}

/// The samples of OpenMetrics text: strict about the order of lines, names, units, labels, and the end.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let is_name = |name: &str| {
        name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.is_empty()
    };
    let body = text.strip_suffix("# EOF\n").expect("no end");
    let (mut samples, mut families, mut family) = (BTreeMap::new(), Vec::new(), String::new());
    for line in body.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "TYPE", name, "gauge"] => {
                assert!(
                    is_name(name) && !families.contains(&name.to_owned()),
                    "{line}"
                );
                assert!(
                    !name.ends_with("_total") && !name.ends_with("_info"),
                    "{line}"
                );
                name.clone_into(&mut family);
                families.push(family.clone());
            }
            ["#", "UNIT", name, unit] => assert!(
                name == family && name.ends_with(&format!("_{unit}")),
                "{line}"
            ),
            ["#", "HELP", name, help] => assert!(name == family && help.ends_with('.'), "{line}"),
            _ => {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let value: f64 = value.parse().unwrap();
                let (name, labels) = series
                    .split_once('{')
                    .map_or((series, ""), |(name, labels)| (name, labels));
                assert!(name == family, "{line}");
                if !labels.is_empty() {
                    let mut rest = labels.strip_suffix('}').unwrap();
                    while !rest.is_empty() {
                        let (label, after) = rest.split_once("=\"").unwrap();
                        assert!(is_name(label), "{line}");
                        let mut is_escaped = false;
                        let end = after.char_indices().find(|(_, c)| {
                            let is_end = *c == '"' && !is_escaped;
                            is_escaped = *c == '\\' && !is_escaped;
                            is_end
                        });
                        rest = &after[end.unwrap().0 + 1..];
                        rest = rest.strip_prefix(',').unwrap_or(rest);
                    }
                }
                assert!(samples.insert(series.to_owned(), value).is_none(), "{line}");
            }
        }
    }
    samples
}

/// Each run writes a line and metrics, even a run that fails.
#[test]
fn runs_are_reported_for_monitoring() {
    let place = tempdir().unwrap();
    let at = place.path().canonicalize().unwrap();
    let nights = Nights::new(&at, None);
    file(at.join("srv/a\"b"), 5000);
    let monitored = |words: &[&str], status: i32| {
        let more = ["--report", "report.ndjson", "--metrics", "fathom.prom"];
        let ran = nights.run(&[words, &more].concat()).exits(status);
        let text = fs::read_to_string(at.join("fathom.prom")).unwrap();
        let lines = fs::read_to_string(at.join("report.ndjson")).unwrap();
        let line: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        assert_eq!(line["values"]["exit_status"], status, "{ran}");
        promtool(&at.join("fathom.prom"));
        (samples(&text), line)
    };
    let labels = r#"{source="srv",state="state"}"#;
    let (first, line) = monitored(&["dump", "srv", "--state", "state", "--keep-last", "1"], 0);
    for (name, expected) in [
        ("exit_status", 0.0),
        ("level", 0.0),
        ("dumped_bytes", 5000.0),
        ("state_dumps", 1.0),
        ("removed_dumps", 0.0),
    ] {
        assert_eq!(
            first[&format!("fathom_dump_{name}{labels}")],
            expected,
            "{name}"
        );
    }
    let last = format!("fathom_dump_last_complete_dump_timestamp_seconds{labels}");
    assert!(first[&last] > 1.7e9);
    assert_eq!(
        (&line["command"], &line["error"]),
        (&"dump".into(), &Value::Null)
    );
    assert_eq!(
        line["about"],
        serde_json::json!({"source": "srv", "state": "state"})
    );
    // The metrics of a failed run contain the time of the last success.
    fs::rename(at.join("srv"), at.join("gone")).unwrap();
    let (failed, line) = monitored(&["dump", "srv", "--state", "state"], 2);
    assert_eq!(
        (
            failed[&format!("fathom_dump_exit_status{labels}")],
            failed[&last]
        ),
        (2.0, first[&last])
    );
    assert!(line["error"].as_str().unwrap().contains("srv"), "{line}");
    let (verified, _) = monitored(&["verify", "--state", "state"], 0);
    assert_eq!(
        verified[r#"fathom_verify_unrestorable_dumps{state="state"}"#],
        0.0
    );
    let (mounts, _) = monitored(&["mounts", "--check", "/proc"], 0);
    for series in [
        r#"fathom_mounts_mount_ok{mount="/proc"}"#,
        r#"fathom_mounts_mount_verdict{mount="/proc",verdict="ok"}"#,
    ] {
        assert_eq!(mounts.get(series), Some(&1.0), "{series}: {mounts:?}");
    }
    assert_eq!(
        fs::read_to_string(at.join("report.ndjson"))
            .unwrap()
            .lines()
            .count(),
        4
    );
    use std::os::unix::fs::PermissionsExt;
    let mode = |name: &str| fs::metadata(at.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("report.ndjson"), mode("fathom.prom")), (0o600, 0o644));
    // If the metrics or the report cannot be written, the dump is made nevertheless.
    fs::rename(at.join("gone"), at.join("srv")).unwrap();
    let ran = nights
        .run(&[
            "dump",
            "srv",
            "--state",
            "state",
            "--metrics",
            "none/x",
            "--report",
            "state",
        ])
        .exits(1);
    assert!(
        ran.stderr.contains("cannot write metrics")
            && ran.stderr.contains("cannot append to the report"),
        "{ran}"
    );
    // Another user may have planted a hard link to a file of this user.
    fs::write(at.join("other"), "own").unwrap();
    fs::hard_link(at.join("other"), at.join("planted")).unwrap();
    let ran = nights.run(&["dump", "srv", "-o", "x.tar", "--report", "planted"]);
    assert!(ran.exits(1).stderr.contains("cannot append to the report"));
    assert_eq!(fs::read_to_string(at.join("other")).unwrap(), "own");
}

/// Checks the metrics with Prometheus' promtool, where it is installed.
fn promtool(metrics: &Path) {
    let text = fs::File::open(metrics).unwrap();
    if let Ok(ran) = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(text)
        .output()
    {
        assert!(ran.status.success(), "{ran:?}");
    }
}
