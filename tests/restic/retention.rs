//! Tests of the policy that prunes a state directory, compared with `restic forget`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::tempdir;

use crate::restic::{init, restic_command};
use crate::support::build::file;
use crate::support::clock::{CC, Clock};
use crate::support::effort::effort;
use crate::support::trees::Dice;
use crate::support::{Need, fathom, require, run};

/// The options of the policies: fathom and restic share their names.
const POLICIES: [&[&str]; 16] = [
    &["--keep-last", "3"],
    &["--keep-hourly", "4"],
    &["--keep-daily", "3"],
    &["--keep-weekly", "2"],
    &["--keep-monthly", "2"],
    &["--keep-yearly", "1"],
    &["--keep-yearly", "3"],
    &["--keep-daily", "2", "--keep-weekly", "2"],
    &["--keep-daily", "3", "--keep-monthly", "3"],
    &[
        "--keep-last",
        "2",
        "--keep-hourly",
        "3",
        "--keep-daily",
        "4",
    ],
    &["--keep-weekly", "50"],
    &["--keep-last", "1", "--keep-monthly", "50"],
    &["--keep-within", "30d"],
    &["--keep-within", "5h"],
    &["--keep-within", "2y5m7d2h"],
    &["--keep-within", "3m", "--keep-yearly", "2"],
];

/// Time zones without summer time, where no local time has two meanings.
const ZONES: [&str; 3] = ["Asia/Kathmandu", "Pacific/Marquesas", "UTC"];

/// Converts a date in UTC to local time, as restic expects it; TZ is that of fathom.
fn local(zone: &str, date: &str) -> String {
    let mut command = Command::new("date");
    let command = command.env("TZ", zone).arg("-d").arg(format!("{date}Z"));
    let printed = command.arg("+%Y-%m-%d %H:%M:%S").output().unwrap();
    String::from_utf8(printed.stdout).unwrap().trim().to_owned()
}

/// The times of snapshots in the JSON of restic, converted to fathom's format: UTC without a zone.
fn times(snapshots: &Value) -> BTreeSet<String> {
    let snapshots = snapshots.as_array().into_iter().flatten();
    let time = |one: &Value| {
        let mut command = Command::new("date");
        let command = command
            .env("TZ", "UTC")
            .arg("-d")
            .arg(one["time"].as_str().unwrap());
        let printed = command.arg("+%Y-%m-%dT%H:%M:%S").output().unwrap();
        String::from_utf8(printed.stdout).unwrap().trim().to_owned()
    };
    snapshots.map(time).collect()
}

fn dates(dumps: &Value) -> BTreeSet<String> {
    let dumps = dumps.as_array().into_iter().flatten();
    dumps
        .map(|dump| {
            dump["date"]
                .as_str()
                .unwrap()
                .trim_end_matches('Z')
                .to_owned()
        })
        .collect()
}

/// Whether restic keeps the oldest snapshot while fewer periods than wanted have one. The manual of 0.17 says so; 0.14
/// removes that snapshot.
fn restic_keeps_oldest() -> bool {
    let printed = Command::new("restic").arg("version").output().unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    let version = printed.split(' ').nth(1).unwrap();
    let minor: u32 = version.split('.').nth(1).unwrap().parse().unwrap();
    !version.starts_with("0.") || minor >= 17
}

#[test]
fn policies_keep_the_snapshots_that_restic_keeps() {
    if !require(&[CC, Need::Program("restic")]) {
        return;
    }
    for seed in 0..effort(1, 12) as u64 {
        compare(seed);
    }
}

/// Makes full dumps at random times, and snapshots at the same times, and compares the policies.
fn compare(seed: u64) {
    let zone = ZONES[seed as usize % ZONES.len()];
    let (place, clocks) = (tempdir().unwrap(), tempdir().unwrap());
    let at: &Path = place.path();
    let clock = Clock::of_the_day(clocks.path());
    // restic has no test clock, and --keep-within ignores snapshots of the future.
    clock.set_back(Duration::from_secs(20 * 365 * 86_400));
    let mut dice = Dice::new(seed);
    let fathom_json = |words: &[&str]| {
        let head = ["dump", "--state", "state", "--json"];
        let mut command = fathom(head.iter().chain(words).copied());
        clock.given_to(command.current_dir(at).env("TZ", zone));
        run(&mut command).exits(0).json()["result"].clone()
    };
    let restic = |words: &[&str]| {
        let words = ["--json"].iter().chain(words).map(OsString::from);
        run(restic_command(at, words).env("TZ", zone)).exits(0)
    };
    init(at);
    let keeps_oldest = restic_keeps_oldest();
    file(at.join("srv/f"), 10);
    let mut known = BTreeSet::new();
    for _ in 0..effort(16, 40) {
        const HOUR: u64 = 3600;
        let steps = [
            HOUR / 4,
            HOUR,
            5 * HOUR,
            24 * HOUR,
            70 * HOUR,
            24 * 9 * HOUR,
            24 * 45 * HOUR,
            24 * 300 * HOUR,
        ];
        let step = steps[dice.below(steps.len())];
        clock.advance(Duration::from_secs(step + dice.below(step as usize) as u64));
        fathom_json(&["srv", "--full-every", "1"]);
        let listed = fathom_json(&["--prune", "--keep-last", "1"]);
        let all: BTreeSet<String> = &dates(&listed["dumps"]) | &dates(&listed["kept_dumps"]);
        let new: Vec<String> = all.difference(&known).cloned().collect();
        assert_eq!(new.len(), 1, "{listed}");
        restic(&["backup", "srv", "--time", &local(zone, &new[0])]);
        known = all;
    }
    for policy in POLICIES {
        let ours = fathom_json(&[&["--prune"], policy].concat());
        let words = [&["forget", "--dry-run", "--group-by", ""], policy].concat();
        let theirs = String::from_utf8(restic(&words).stdout).unwrap();
        let theirs: Value = serde_json::from_str(theirs.trim()).unwrap();
        let kept = dates(&ours["kept_dumps"]);
        let (mut keep, mut remove) = (times(&theirs[0]["keep"]), times(&theirs[0]["remove"]));
        if !keeps_oldest {
            // The only permitted difference from an old restic is the oldest dump.
            let oldest = known.first().filter(|oldest| kept.contains(*oldest));
            keep.extend(oldest.and_then(|oldest| remove.take(oldest)));
        }
        assert_eq!(
            (kept, dates(&ours["dumps"])),
            (keep, remove),
            "{policy:?}, seed {seed}"
        );
    }
}
