//! Tests of `dump SRC --state DIR`: the state directory names the archives, chooses the levels, and
//! is pruned.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::tempdir;

use crate::support::build::{bind, dir, file, tmpfs};
use crate::support::clock::{CC, Clock};
use crate::support::run::{Ran, args};
use crate::support::schema::check;
use crate::support::snapshot::{kept, same, snapshot};
use crate::support::trees::Dice;
use crate::support::{Need, fathom, in_namespace, require, run};

pub(super) const DAY: Duration = Duration::from_secs(86_400);

/// A tree and a state directory in `at`.
pub(super) struct Nights<'a> {
    at: PathBuf,
    clock: Option<&'a Clock>,
}

impl<'a> Nights<'a> {
    pub(super) fn new(at: &Path, clock: Option<&'a Clock>) -> Nights<'a> {
        dir(at.join("srv"));
        Nights {
            at: at.to_owned(),
            clock,
        }
    }

    pub(super) fn command(&self, words: &[&str]) -> Command {
        let mut command = fathom(words.iter().copied());
        command.current_dir(&self.at).env("TZ", "UTC");
        if let Some(clock) = self.clock {
            clock.given_to(&mut command);
        }
        command
    }

    pub(super) fn run(&self, words: &[&str]) -> Ran {
        run(&mut self.command(words))
    }

    /// Dumps, and returns the result.
    pub(super) fn dump(&self, more: &[&str]) -> Value {
        let words = [&["dump", "srv", "--state", "state", "--json"], more].concat();
        let value = self.run(&words).exits(0).json();
        check(&value);
        value["result"].clone()
    }

    pub(super) fn list(&self) -> Vec<Value> {
        self.list_of(Path::new("state"))
    }

    pub(super) fn list_of(&self, state: &Path) -> Vec<Value> {
        let value = self
            .run(&["list", "--state", state.to_str().unwrap(), "--json"])
            .exits(0)
            .json();
        check(&value);
        value["result"]["dumps"].as_array().unwrap().clone()
    }

    /// The names of the archives, oldest first.
    pub(super) fn archives(&self) -> Vec<String> {
        let name = |dump: &Value| {
            let path = PathBuf::from(dump["archive"].as_str().unwrap());
            path.file_name().unwrap().to_str().unwrap().to_owned()
        };
        self.list().iter().map(name).collect()
    }
}

/// The names in a directory.
fn names(at: &Path) -> Vec<String> {
    let name =
        |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut all: Vec<String> = fs::read_dir(at).unwrap().map(name).collect();
    all.sort();
    all
}

#[test]
fn archives_are_named_and_levels_are_chosen() {
    let place = tempdir().unwrap();
    let nights = Nights::new(place.path(), None);
    file(place.path().join("srv/a"), 1000);
    let ran = nights
        .run(&["dump", "srv", "--state", "none/state"])
        .refused();
    assert!(
        ran.stderr.contains("the directory above it does not exist"),
        "{ran}"
    );
    let ran = nights.run(&["dump", "srv", "--state", "state"]).exits(0);
    assert!(
        ran.stderr.contains("state directory 'state' created"),
        "{ran}"
    );
    for expected in [1, 1, 0, 1] {
        file(place.path().join("srv/b"), 10);
        let result = nights.dump(&["--full-every", "3"]);
        assert_eq!(result["level"], expected, "{result}");
        let archive = result["archive"].as_str().unwrap();
        assert!(
            archive.contains("/state/srv-") && archive.contains(&format!("Z-{expected}")),
            "{archive}"
        );
        assert!(archive.ends_with(".tar.zst"), "{archive}");
    }
    // Archives of the same minute have different names.
    let archives = nights.archives();
    let mut distinct = archives.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!((archives.len(), distinct.len()), (5, 5), "{archives:?}");
    let chains = nights
        .list()
        .iter()
        .map(|dump| dump["restore"].as_array().unwrap().len())
        .collect::<Vec<_>>();
    assert_eq!(chains, [1, 2, 2, 1, 2]);
    // Each has its catalog.
    let catalogs = names(&place.path().join("state"));
    let catalogs = catalogs
        .iter()
        .filter(|name| name.starts_with("srv-") && name.ends_with(".parquet"));
    assert_eq!(catalogs.count(), 5);
}

#[test]
fn full_dumps_say_why() {
    let place = tempdir().unwrap();
    let at = place.path();
    let nights = Nights::new(at, None);
    file(at.join("srv/a"), 1000);
    file(at.join("other/a"), 1000);
    let first = nights.dump(&[]);
    let says = |words: &[&str], expected: &str| {
        let ran = nights
            .run(&[&["dump", "--state", "state"], words].concat())
            .exits(0);
        assert!(ran.stderr.contains(expected), "{expected}: {ran}");
        let dumps = nights.list();
        assert_eq!(dumps.last().unwrap()["level"], 0, "{expected}");
    };
    says(&["srv", "other"], "full dump: the last one was of 'srv'");
    says(&["srv"], "full dump: the last one was of 'srv', 'other'");
    let refused = nights.run(&["dump", "other", "--state", "state"]).refused();
    assert!(
        refused.stderr.contains("a state directory of its own"),
        "{refused}"
    );
    fs::write(at.join("state/level-0.parquet"), b"PAR1").unwrap();
    says(&["srv"], "the catalog of the last one cannot be read");
    fs::remove_file(at.join("state/level-0.parquet")).unwrap();
    says(&["srv"], "the catalog of the last one is missing");
    let archives = nights.archives();
    fs::rename(
        at.join("state").join(archives.last().unwrap()),
        at.join("tape"),
    )
    .unwrap();
    says(&["srv"], "is missing or is another file");
    fs::rename(at.join("srv"), at.join("old")).unwrap();
    file(at.join("srv"), 10);
    says(&["srv"], "'srv' was replaced by another file or directory");
    assert_eq!(first["level"], 0);
}

/// The disk for the archives is not mounted: nothing must be written to the directory below the
/// mount point.
#[test]
fn file_system_of_fstab_that_is_not_mounted_is_missed() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|ground| {
        let nights = Nights::new(ground, None);
        file(ground.join("srv/a"), 1000);
        let disk = dir(ground.join("back up"));
        let line = disk.to_str().unwrap().replace(' ', "\\040");
        let table = ground.join("fstab");
        fs::write(
            &table,
            format!("# comment\n/dev/nothing / ext4\n/dev/nothing {line} ext4 noauto 0 0\n"),
        )
        .unwrap();
        bind(&table, "/etc/fstab");
        let words = ["dump", "srv", "--state", "back up/srv"];
        for state in ["back up/srv", "back up"] {
            let ran = nights.run(&["dump", "srv", "--state", state]).refused();
            assert!(ran.stderr.contains("and nothing is mounted there"), "{ran}");
            nights
                .run(&["dump", "srv", "-n", "--state", state])
                .refused();
        }
        assert_eq!(fs::read_dir(&disk).unwrap().count(), 0);
        tmpfs(&disk);
        nights.run(&words).exits(0);
        // A state directory that contains dumps is accepted, although fstab lists an unmounted file
        // system at its parent directory.
        let plain = dir(ground.join("plain"));
        nights
            .run(&["dump", "srv", "--state", "plain/srv"])
            .exits(0);
        fs::write(
            &table,
            format!("/dev/nothing {} ext4\n", plain.to_str().unwrap()),
        )
        .unwrap();
        nights
            .run(&["dump", "srv", "--state", "plain/srv"])
            .exits(0);
        nights
            .run(&["dump", "srv", "--state", "plain/other"])
            .refused();
    });
}

/// A state directory may be copied, moved and touched, and an archive may be away for a night.
#[test]
fn copied_moved_and_touched_directories_keep_their_dumps() {
    let place = tempdir().unwrap();
    let at = place.path();
    let nights = Nights::new(at, None);
    let statuses = |state: &str| {
        let dumps = nights.list_of(Path::new(state)).into_iter();
        let statuses = dumps.map(|dump| dump["status"].as_str().unwrap().to_owned());
        statuses.collect::<Vec<String>>()
    };
    for size in [100, 200, 300] {
        file(at.join("srv/a"), size);
        nights.dump(&[]);
    }
    // Pruning a copy removes nothing from the original.
    let mut copy = Command::new("cp");
    copy.args(["-a", "state", "copy"]).current_dir(at);
    assert!(copy.status().unwrap().success());
    let before = names(&at.join("state"));
    nights
        .run(&["dump", "srv", "--state", "copy", "--keep-last", "1"])
        .exits(0);
    assert_eq!(names(&at.join("state")), before);
    assert!(names(&at.join("copy")).len() < before.len() + 2);
    fs::rename(at.join("state"), at.join("moved")).unwrap();
    assert_eq!(statuses("moved"), ["ok"; 3]);
    let archives = |of: &str| {
        let all = names(&at.join("moved")).into_iter();
        all.filter(|name| name.ends_with(of))
            .collect::<Vec<String>>()
    };
    for name in archives(".tar.zst") {
        // The same contents with new times, as after restoring the directory with a tool that does
        // not keep times.
        let archive = at.join("moved").join(name);
        fs::write(&archive, fs::read(&archive).unwrap()).unwrap();
    }
    assert_eq!(statuses("moved"), ["ok"; 3]);
    nights.run(&["verify", "--state", "moved"]).exits(0);
    // The archive of the full dump is moved away, and back.
    let (full, away) = (archives("-0.tar.zst").remove(0), at.join("away"));
    fs::rename(at.join("moved").join(&full), &away).unwrap();
    assert_eq!(statuses("moved"), ["missing", "no base", "no base"]);
    nights
        .run(&["dump", "srv", "--state", "moved", "--keep-last", "7"])
        .exits(0);
    fs::rename(&away, at.join("moved").join(&full)).unwrap();
    assert_eq!(statuses("moved"), ["ok"; 4]);
    // A file is found by its name alone.
    let found = nights.run(&["list", "--state", "moved", "--json", "--", "a"]);
    let versions = found.exits(0).json()["result"]["versions"].clone();
    assert_eq!(versions.as_array().unwrap().len(), 3, "{versions}");
}

/// A damaged column of the base is found only during the comparison. Neither that nor a failed
/// removal prevents a dump.
#[test]
fn damage_and_failed_removals_prevent_no_dump() {
    let place = tempdir().unwrap();
    let at = place.path();
    let nights = Nights::new(at, None);
    (0..50).for_each(|n| drop(file(at.join(format!("srv/{n}")), 100)));
    nights.dump(&[]);
    let catalog = at.join("state/level-0.parquet");
    let mut bytes = fs::read(&catalog).unwrap();
    bytes[100..300].fill(0x5a);
    fs::write(&catalog, bytes).unwrap();
    file(at.join("srv/new"), 10);
    let ran = nights.run(&["dump", "srv", "--state", "state"]).exits(0);
    assert!(
        ran.stderr
            .contains("full dump: the catalog of the last one cannot be read"),
        "{ran}"
    );
    assert_eq!(nights.list().last().unwrap()["level"], 0);
    nights.dump(&[]);
    // A directory in place of the catalog beside an archive cannot be removed.
    let first = at.join("state").join(&nights.archives()[0]);
    let kept_catalog = PathBuf::from(first.to_str().unwrap().replace(".tar.zst", ".parquet"));
    fs::remove_file(&kept_catalog).unwrap();
    dir(kept_catalog.join("x"));
    fs::set_permissions(
        &kept_catalog,
        std::os::unix::fs::PermissionsExt::from_mode(0o777),
    )
    .unwrap();
    for expected in 3..5 {
        let ran = nights.run(&["dump", "srv", "--state", "state", "--keep-last", "5"]);
        assert!([0, 1].contains(&ran.code()), "{ran}");
        assert_eq!(nights.list().len(), expected + 1, "{ran}");
    }
    let ran = nights
        .run(&["dump", "srv", "--state", "state", "--keep-last", "1"])
        .exits(1);
    assert!(
        ran.stderr
            .contains("cannot remove dumps that are no longer needed"),
        "{ran}"
    );
    // Only the dump whose removal failed is left; it is not listed.
    let left = nights.list().len();
    assert!((2..=3).contains(&left), "{left}");
    let ran = nights.run(&["dump", "srv", "--state", "state"]).exits(1);
    assert!(
        ran.stderr
            .contains("cannot remove dumps that are no longer needed"),
        "{ran}"
    );
    fs::remove_dir_all(&kept_catalog).unwrap();
    nights.run(&["dump", "srv", "--state", "state"]).exits(0);
}

/// Archives in the tree that is dumped are not dumped again.
#[test]
fn state_directory_in_the_tree_is_skipped() {
    let place = tempdir().unwrap();
    let nights = Nights::new(place.path(), None);
    file(place.path().join("srv/a"), 1000);
    for number in 0..3 {
        file(place.path().join(format!("srv/{number}")), 10);
        let ran = nights
            .run(&["dump", "srv", "--state", "srv/state"])
            .exits(0);
        assert!(
            ran.stderr
                .contains("'srv/state' is the state directory, and is skipped"),
            "{ran}"
        );
    }
    let to = dir(place.path().join("to"));
    run(&mut fathom(args![
        "restore",
        "--state",
        place.path().join("srv/state"),
        "-C",
        &to
    ]))
    .exits(0);
    let restored = snapshot(&to.join("srv"));
    fs::remove_dir_all(place.path().join("srv/state")).unwrap();
    let mut expected = kept(&place.path().join("srv"));
    // Removing the directory has changed the time of the one above it.
    expected.retain(|name, _| !matches!(&name[..], b"" | b"."));
    let mut restored = restored;
    restored.retain(|name, _| !matches!(&name[..], b"" | b"."));
    same(&expected, &restored, "without the state directory");
}

#[test]
fn options_without_meaning_are_refused() {
    let place = tempdir().unwrap();
    let nights = Nights::new(place.path(), None);
    for words in [
        "dump srv --state state -o x.tar",
        "dump srv --state state --level 1",
        "dump srv --state state --since c",
        "dump srv --state state --catalog c",
        "dump srv --state state --no-output",
        "dump srv --state state --explain",
        "dump srv --state state --level 0 -o x.tar --keep-last 1",
        "dump srv --state state --level 0 -o x.tar --full-every 1",
        "dump srv --keep-last 1 -o x.tar",
        "dump srv --state state --keep-last 0",
        "dump srv --state state --yes",
        "dump --state state --prune",
        "dump --state state --prune --keep-last 1 --keep-full 1",
    ] {
        nights.run(&words.split(' ').collect::<Vec<_>>()).refused();
    }
    assert!(!place.path().join("state").exists() && !place.path().join("x.tar").exists());
}

#[test]
fn policy_keeps_what_restic_keeps_and_what_that_needs() {
    if !require(&[CC]) {
        return;
    }
    let (place, clocks) = (tempdir().unwrap(), tempdir().unwrap());
    let clock = Clock::of_the_day(clocks.path());
    let nights = Nights::new(place.path(), Some(&clock));
    for number in 0..10 {
        file(place.path().join(format!("srv/{number}")), 10);
        nights.dump(&["--full-every", "4"]);
        clock.advance(DAY);
    }
    let before = nights.list();
    let words = [
        "dump",
        "srv",
        "--state",
        "state",
        "-n",
        "--json",
        "--keep-last",
        "2",
        "--full-every",
        "4",
    ];
    let value = nights.run(&words).exits(0).json();
    check(&value);
    // The policy keeps two dumps. The next one counts, so the tenth is kept, and so is the ninth,
    // which the tenth is based on.
    let pruned = &value["result"]["pruned"];
    assert_eq!(
        (&pruned["kept"], &pruned["removed"]),
        (&2.into(), &false.into()),
        "{pruned}"
    );
    assert_eq!(
        pruned["kept_dumps"][0]["reasons"],
        serde_json::json!(["base of the next dump", "base of 10"])
    );
    // Nightly dumps have levels 0 and 1.
    let estimates = value["result"]["estimates"].as_array().unwrap().iter();
    let levels: Vec<&Value> = estimates.map(|row| &row["level"]).collect();
    assert_eq!(levels, [0, 1]);
    let words: Vec<&str> = words.into_iter().filter(|word| *word != "--json").collect();
    let text = nights.run(&words).exits(0);
    assert!(
        text.stderr.contains("with the next one, 3 dumps are kept"),
        "{text}"
    );
    let table = String::from_utf8_lossy(&text.stdout);
    assert!(
        table.contains(" srv-") && !table.contains("/srv-"),
        "archives without their directory: {table}"
    );
    assert_eq!(nights.list(), before);
    let result = nights.dump(&["--keep-last", "2", "--full-every", "4"]);
    assert_eq!(
        result["pruned"]["dumps"].as_array().unwrap().len(),
        8,
        "{result}"
    );
    assert_eq!(nights.list().len(), 3);
    let left = names(&place.path().join("state"));
    assert_eq!(
        left.iter()
            .filter(|name| name.ends_with(".tar.zst"))
            .count(),
        3,
        "{left:?}"
    );
    assert_eq!(
        left.iter()
            .filter(|name| name.starts_with("srv") && name.ends_with(".parquet"))
            .count(),
        3,
        "{left:?}"
    );
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
    let times = fs::metadata(&path).unwrap().modified().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[4000] ^= 1;
    fs::write(&path, bytes).unwrap();
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(times)
        .unwrap();
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
    let keep_time = |path: &Path, bytes: &[u8]| {
        let time = fs::metadata(path).unwrap().modified().unwrap();
        fs::write(path, bytes).unwrap();
        fs::File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_modified(time)
            .unwrap();
    };
    keep_time(&archive(1), &damaged);
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
    let put = |path: &Path, bytes: &[u8]| {
        let time = fs::metadata(path).unwrap().modified().unwrap();
        fs::write(path, bytes).unwrap();
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(time).unwrap();
    };
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
