//! Many nights of `dump SRC --state DIR` with a policy, with kills and a full disk in between:
//! every listed dump restores its tree, and no needed file is removed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::mount::{self, MountFlags};
use serde_json::Value;

use super::automatic::{DAY, Nights};
use super::changes::change;
use super::full::NEEDS;
use super::rounds::{grown, on};
use crate::support::build::dir;
use crate::support::clock::{CC, Clock};
use crate::support::disks::EXT4;
use crate::support::effort::effort;
use crate::support::reference::settle;
use crate::support::run::args;
use crate::support::snapshot::{Snapshot, kept, same, snapshot};
use crate::support::strace::with_fault;
use crate::support::trees::Dice;
use crate::support::{Need, fathom, require, run};

const POLICY: [&str; 8] = [
    "--keep-last",
    "2",
    "--keep-daily",
    "5",
    "--keep-weekly",
    "3",
    "--keep-monthly",
    "2",
];

/// A fault in the first attempt of a night.
enum Mishap {
    None,
    /// A kill at this call: its name and number.
    Kill(&'static str, usize),
    /// A full disk, with this number of free bytes.
    Full(u64),
}

impl Mishap {
    fn roll(dice: &mut Dice) -> Mishap {
        const CALLS: [&str; 6] = [
            "openat",
            "write",
            "fsync",
            "linkat",
            "renameat2",
            "unlinkat",
        ];
        match dice.below(4) {
            0 => Mishap::None,
            1 => Mishap::Full([0, 4096, 40_000, 120_000][dice.below(4)]),
            _ => {
                let call = CALLS[dice.below(CALLS.len())];
                let most = if matches!(call, "openat" | "write") {
                    60
                } else {
                    8
                };
                Mishap::Kill(call, 1 + dice.below(most))
            }
        }
    }
}

struct Campaign<'a> {
    nights: Nights<'a>,
    at: PathBuf,
    state: PathBuf,
    /// The tree at each dump, by its date.
    trees: BTreeMap<String, Snapshot>,
    /// Dumps that were killed, and dumps that failed on the full disk.
    killed: usize,
    refused: usize,
}

impl Campaign<'_> {
    /// Lists the dumps, and stores the present tree for new ones.
    fn list(&mut self) -> Vec<Value> {
        let dumps = self.nights.list_of(&self.state);
        let tree = kept(&self.at.join("srv"));
        for dump in &dumps {
            let date = dump["date"].as_str().unwrap().to_owned();
            self.trees.entry(date).or_insert_with(|| tree.clone());
        }
        dumps
    }

    /// Fills the disk of the archives up to some free bytes, dumps, and frees the space again.
    fn dump_on_full_disk(&mut self, words: &[&str], free: u64) {
        let filler = self.state.parent().unwrap().join("filler");
        let mut file = File::create(&filler).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
        let len = file.metadata().unwrap().len();
        file.set_len(len.saturating_sub(free)).unwrap();
        let ran = self.nights.run(words);
        assert!([0, 1, 2].contains(&ran.code()), "{ran}");
        self.refused += usize::from(ran.code() == 2);
        drop(file);
        fs::remove_file(filler).unwrap();
    }

    /// Checks that each listed dump can be restored, and that those selected by `some` give their
    /// trees.
    fn check(&mut self, what: &str, some: impl Fn(usize) -> bool) {
        let dumps = self.list();
        for (nth, dump) in dumps.iter().enumerate() {
            assert_eq!(dump["status"], "ok", "{what}: {dump}");
            let chain = dump["restore"].as_array().unwrap();
            assert!(matches!(chain.len(), 1 | 2), "{what}: {dump}");
            assert!(
                chain
                    .iter()
                    .all(|archive| Path::new(archive.as_str().unwrap()).exists()),
                "{what}: {dump}"
            );
            if !some(nth) {
                continue;
            }
            let date = dump["date"].as_str().unwrap();
            let to = dir(self.at.join("to"));
            let words = args![
                "restore",
                "--numeric-owner",
                "--state",
                &self.state,
                "--at",
                date,
                "-C",
                &to
            ];
            run(fathom(words).env("TZ", "UTC")).exits(0);
            same(
                &self.trees[date],
                &snapshot(&to.join("srv")),
                &format!("{what}: the dump of {date}"),
            );
            fs::remove_dir_all(to).unwrap();
        }
    }
}

/// The last dump of each of the last periods; dumps with equal keys are in the same period.
fn last_of<K: PartialEq>(dates: &[String], most: usize, key: impl Fn(&String) -> K) -> Vec<String> {
    let (mut keys, mut last) = (Vec::new(), Vec::new());
    for date in dates.iter().rev() {
        if keys.len() < most && !keys.contains(&key(date)) {
            keys.push(key(date));
            last.push(date.clone());
        }
    }
    last
}

/// The number of the week, beginning on Monday, of a date such as 2026-11-28T02:00:00Z.
fn week(date: &str) -> i64 {
    let part = |range: std::ops::Range<usize>| date[range].parse::<i64>().unwrap();
    let (mut year, mut month, day) = (part(0..4), part(5..7), part(8..10));
    if month <= 2 {
        (year, month) = (year - 1, month + 12);
    }
    // Days since 1 March of the year 0, which was a Wednesday.
    let days =
        365 * year + year / 4 - year / 100 + year / 400 + (153 * (month - 3) + 2) / 5 + day - 1;
    (days + 2).div_euclid(7)
}

#[test]
fn weeks_begin_on_monday() {
    for (date, is_new) in [
        ("2026-11-30", true),
        ("2026-12-01", false),
        ("2027-01-03", false),
        ("2027-01-04", true),
    ] {
        let day = |date: &str| week(&format!("{date}T00:00:00Z"));
        let before = match date {
            "2026-11-30" => "2026-11-29",
            "2026-12-01" => "2026-11-30",
            "2027-01-03" => "2027-01-02",
            _ => "2027-01-03",
        };
        assert_eq!(day(date) != day(before), is_new, "{date}");
    }
}

#[test]
fn every_kept_night_restores_to_its_tree() {
    let needs = [&NEEDS[..], &[CC, Need::Program("strace")]].concat();
    if !require(&needs) {
        return;
    }
    for seed in 61..61 + effort(1, 3) as u64 {
        on(Some(EXT4[0]), |at, ground| keep_nights(at, ground, seed));
    }
}

/// Runs the nights of a campaign.
fn keep_nights(at: &Path, ground: &Path, seed: u64) {
    let clock = Clock::of_the_day(ground);
    let backup = dir(ground.join("backup"));
    mount::mount(
        "backup",
        &backup,
        "tmpfs",
        MountFlags::empty(),
        c"mode=755,size=24m",
    )
    .unwrap();
    let state = backup.join("srv");
    let nights = Nights::new(at, Some(&clock));
    grown(&at.join("srv"), seed);
    let at = at.to_owned();
    let mut campaign = Campaign {
        nights,
        at: at.clone(),
        state,
        trees: BTreeMap::new(),
        killed: 0,
        refused: 0,
    };
    let (mut dice, mut made) = (Dice::new(seed), Vec::<String>::new());
    let nights = effort(10, 60);
    for night in 0..nights {
        change(&at.join("srv"), &mut dice, [1, 5, 20, 40][night % 4]);
        settle(&at);
        let state = campaign.state.clone();
        let words = [
            &["dump", "srv", "--state", state.to_str().unwrap()],
            &POLICY[..],
        ]
        .concat();
        match Mishap::roll(&mut dice) {
            Mishap::None => {}
            Mishap::Full(free) => campaign.dump_on_full_disk(&words, free),
            Mishap::Kill(call, nth) => {
                let command = campaign.nights.command(&words);
                let (_, is_hit) = with_fault(&command, (call, "signal=KILL"), nth);
                campaign.killed += usize::from(is_hit);
            }
        }
        if state.exists() {
            campaign.check(&format!("night {night}, before the dump"), |_| false);
        }
        campaign.nights.run(&words).exits(0);
        let what = format!("night {night}");
        let last = campaign.list().len() - 1;
        let other = dice.below(last + 1);
        campaign.check(&what, |nth| nth == last || nth == other || night % 10 == 9);
        // The dumps that the policy would keep of all recorded dumps.
        let listed: Vec<String> = campaign
            .list()
            .iter()
            .map(|dump| dump["date"].as_str().unwrap().to_owned())
            .collect();
        let unseen = listed
            .iter()
            .filter(|date| !made.contains(date))
            .cloned()
            .collect::<Vec<_>>();
        made.extend(unseen);
        let wanted = [
            last_of(&made, 5, |date| date[..10].to_owned()),
            last_of(&made, 3, |date| week(date)),
            last_of(&made, 2, |date| date[..7].to_owned()),
        ];
        for date in wanted.iter().flatten() {
            assert!(listed.contains(date), "{what}: {date} is not in {listed:?}");
        }
        assert!(listed.len() <= 2 + 5 + 3 + 2 + 1 + 8, "{what}: {listed:?}");
        // Every archive and catalog belongs to a listed dump.
        let left = fs::read_dir(&state)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let left: Vec<String> = left.filter(|name| name.starts_with("srv-")).collect();
        let archives = left
            .iter()
            .filter(|name| name.ends_with(".tar.zst"))
            .count();
        assert_eq!(archives, listed.len(), "{what}: {left:?} {listed:?}");
        assert!(
            left.len() - archives <= listed.len(),
            "{what}: {left:?} {listed:?}"
        );
        clock.advance(
            DAY + Duration::from_secs(dice.below(3600) as u64) - Duration::from_secs(1800),
        );
    }
    let against = args!["verify", "--state", &campaign.state, "--against", &at];
    run(&mut fathom(against)).exits(0);
    let Campaign {
        killed, refused, ..
    } = campaign;
    assert!(
        nights < 60 || killed >= 8 && refused >= 4,
        "{killed} kills, {refused} without room"
    );
}
