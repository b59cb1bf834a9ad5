//! Tests of `dump SRC --state DIR`: the state directory names the archives, chooses the levels, and
//! is pruned.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::tempdir;

use crate::support::build::{bind, dir, file, tmpfs};
use crate::support::clock::{CC, Clock};
use crate::support::fuse::Manner::Hung;
use crate::support::fuse::serve;
use crate::support::run::{Ran, args};
use crate::support::schema::check;
use crate::support::snapshot::{kept, same, snapshot};
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

/// Checks that the name of the last archive has the level of the dump.
fn assert_level_in_name(nights: &Nights<'_>) {
    let (level, archives) = (
        nights.list().last().unwrap()["level"].to_string(),
        nights.archives(),
    );
    let name = archives.last().unwrap().strip_suffix(".tar.zst").unwrap();
    let (_, number) = name.rsplit_once('-').unwrap();
    assert_eq!(number.split('.').next(), Some(&level[..]), "{name}");
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
        assert_level_in_name(&nights);
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

/// Mount points of fstab that are not above the state directory are not examined: their servers may
/// not answer.
#[test]
fn other_mount_points_of_fstab_are_not_examined() {
    if !require(&[Need::Root, Need::Fuse]) {
        return;
    }
    in_namespace(|ground| {
        let nights = Nights::new(ground, None);
        file(ground.join("srv/a"), 1000);
        let hung = ground.join("hung");
        let _server = serve(Hung, &hung);
        let table = ground.join("fstab");
        fs::write(&table, format!("far {} fuse.test\n", hung.display())).unwrap();
        bind(&table, "/etc/fstab");
        nights.run(&["dump", "srv", "--state", "state"]).exits(0);
    });
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
    assert_level_in_name(&nights);
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
