//! Tests that predicates select the entries that GNU find selects, with every engine, in every
//! format.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{AtFlags, CWD, Gid, Timespec, Timestamps, Uid, chownat, utimensat};

use super::engines::{mounted_or_still, still};
use super::right::{engines, walk};
use crate::support::build::{dir, file, odd_names};
use crate::support::disks::{BTRFS, EXT4, XFS};
use crate::support::effort::effort;
use crate::support::reference::settle;
use crate::support::run::{Ran, args};
use crate::support::trees::{Dice, grow};
use crate::support::{Need, fathom, in_namespace, require, run};

const LIMITS: [i64; 10] = [
    -2_147_483_649,
    -86_400,
    -1,
    0,
    1,
    1_000_000_000,
    2_147_483_648,
    4_294_967_296,
    4_400_000_000,
    8_000_000_000,
];

/// A random tree, with sizes, times, owners and links at the limits of their types.
pub(crate) fn odd_tree(top: &Path, seed: u64) {
    grow(top, seed, 250);
    let mut dice = Dice::new(seed);
    let edge = dir(top.join("edge"));
    for (n, seconds) in LIMITS.into_iter().enumerate() {
        for nanos in [0, 1, 999_999_999] {
            let at = file(edge.join(format!("time {n} {nanos}.Txt")), n);
            let time = Timespec {
                tv_sec: seconds,
                tv_nsec: nanos,
            };
            let times = Timestamps {
                last_access: time,
                last_modification: time,
            };
            utimensat(CWD, &at, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        }
    }
    for (n, size) in [
        511,
        512,
        513,
        1024,
        1025,
        1 << 20,
        (1 << 20) + 1,
        (1 << 40) + 1,
    ]
    .into_iter()
    .enumerate()
    {
        let sparse = File::create(edge.join(format!("size {n}.tar.gz"))).unwrap();
        sparse.set_len(size).unwrap();
    }
    for (n, id) in [1, 1000, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe]
        .into_iter()
        .enumerate()
    {
        let at = file(edge.join(format!("owner {n}")), 1);
        let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(*dice.pick(&[0, id])));
        chownat(CWD, &at, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
    for n in 0..3 {
        fs::hard_link(edge.join("size 0.tar.gz"), edge.join(format!("link {n}"))).unwrap();
        dir(edge.join(format!("empty {n}")));
    }
    fs::write(edge.join("nothing.txt"), "").unwrap();
}

/// The arguments of fathom and of find for one predicate.
type Pair = (Vec<String>, Vec<String>);

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// An option that may be repeated; an entry must match one of its values.
fn any(option: &str, test: &str, values: &[&str]) -> Pair {
    let ours = values
        .iter()
        .flat_map(|value| [format!("--{option}={value}")]);
    let mut finds = strings(&["("]);
    for (n, value) in values.iter().enumerate() {
        if n > 0 {
            finds.push("-o".to_owned());
        }
        finds.extend(strings(&[test, value]));
    }
    finds.push(")".to_owned());
    (ours.collect(), finds)
}

fn some<'a>(dice: &mut Dice, from: &[&'a str]) -> Vec<&'a str> {
    let most = 1 + dice.below(2);
    (0..most).map(|_| *dice.pick(from)).collect()
}

fn by_name(dice: &mut Dice) -> Pair {
    const GLOBS: [&str; 22] = [
        "*",
        "?*",
        "* *",
        "*[0-9]",
        "[!a-z]*",
        "*.Txt",
        "*.txt",
        "edge",
        "*\u{e9}*",
        "caf?",
        "?",
        "*\\\\*",
        "[",
        "*[*",
        "[]-[]*",
        "*[[:upper:]]*",
        "*[[:space:]]*",
        "{a,b}*",
        "time*[!0]*",
        "*n*m*",
        "d?r*",
        "*.*.*",
    ];
    let globs = some(dice, &GLOBS);
    match dice.below(3) {
        0 => any("iname", "-iname", &globs),
        1 => {
            let extension = *dice.pick(&["txt", ".TXT", "gz", "tar.gz", "x"]);
            let ours = vec![format!("--ext={extension}")];
            let glob = format!("?*.{}", extension.trim_start_matches('.'));
            (ours, strings(&["-iname", &glob]))
        }
        _ => any("name", "-name", &globs),
    }
}

fn by_path(dice: &mut Dice) -> Pair {
    let regex = *dice.pick(&[
        "file",
        "/[a-z]+ [0-9]",
        "(wide|edge)/",
        "again [0-9]",
        "\\.T?xt",
    ]);
    let whole = format!(".*({}).*", regex);
    let ours = vec![format!("--regex={regex}")];
    (
        ours,
        strings(&["-regextype", "posix-extended", "-regex", &whole]),
    )
}

fn by_type(dice: &mut Dice) -> Pair {
    let types = some(dice, &["f", "d", "l", "p", "s", "b", "c"]);
    match dice.below(3) {
        0 => (strings(&["--type", "e"]), strings(&["-empty"])),
        _ => any("type", "-type", &types),
    }
}

fn by_size(dice: &mut Dice) -> Pair {
    let sign = dice.pick(&["", "+", "-"]);
    let (unit, theirs, factor) = *dice.pick(&[
        ("", "", 1),
        ("c", "c", 1),
        ("k", "k", 1),
        ("K", "k", 1),
        ("M", "M", 1),
        ("G", "G", 1),
        ("T", "G", 1024),
    ]);
    let number: u64 = *dice.pick(&[0, 1, 2, 3, 511, 512, 1024, 4096, 1 << 40]);
    let number = if factor > 1 { number.min(2) } else { number };
    // A size is rounded up to whole T directly from bytes; G is the largest unit of find.
    let finds = match (factor, *sign) {
        (1, _) => strings(&["-size", &format!("{sign}{number}{theirs}")]),
        (_, "+") => strings(&["-size", &format!("+{}G", number * factor)]),
        (_, "-") if number == 0 => strings(&["-false"]),
        (_, "-") => strings(&["-size", &format!("-{}G", (number - 1) * factor + 1)]),
        _ if number == 0 => strings(&["-size", "0"]),
        _ => strings(&[
            "-size",
            &format!("-{}G", number * factor + 1),
            "-size",
            &format!("+{}G", (number - 1) * factor),
        ]),
    };
    (vec![format!("--size={sign}{number}{unit}")], finds)
}

fn by_time(dice: &mut Dice) -> Pair {
    let (field, letter) = *dice.pick(&[("mtime", 'm'), ("ctime", 'c')]);
    let newer = format!("-newer{letter}t");
    let (mut ours, mut finds) = (vec![format!("--time={field}")], Vec::new());
    // All limits must hold, also several of one option.
    for _ in 0..1 + usize::from(dice.one_in(3)) {
        let limit = *dice.pick(&LIMITS) + *dice.pick(&[-1, 0, 1]);
        if dice.one_in(2) {
            ours.push(format!("--changed-within=@{limit}"));
            finds.extend(strings(&[&newer, &format!("@{limit}")]));
        } else {
            ours.push(format!("--changed-before=@{limit}"));
            let just_before = match limit {
                1.. => format!("@{}.999999999", limit - 1),
                _ => format!("@-{}.000000001", limit.unsigned_abs()),
            };
            finds.extend(strings(&["!", &newer, &just_before]));
        }
    }
    (ours, finds)
}

fn by_owner(dice: &mut Dice) -> Pair {
    const IDS: [&str; 7] = [
        "root",
        "0",
        "1",
        "1000",
        "2147483648",
        "4294967294",
        "daemon",
    ];
    let (user, group) = (*dice.pick(&IDS), *dice.pick(&IDS));
    let (no_user, no_group) = (dice.one_in(2), dice.one_in(2));
    let not = |negated: bool| if negated { "!" } else { "" };
    let mut finds = Vec::new();
    let mut test = |negated: bool, test: &str, id: &str| {
        finds.extend(strings(if negated { &["!"] } else { &[] }));
        // -user and -group refuse numbers from 2^31.
        let test = match (test, id.parse::<u32>()) {
            ("-user", Ok(_)) => "-uid",
            ("-group", Ok(_)) => "-gid",
            _ => test,
        };
        finds.extend(strings(&[test, id]));
    };
    let ours = match dice.below(3) {
        0 => {
            test(no_user, "-user", user);
            format!("--owner={}{user}", not(no_user))
        }
        1 => {
            test(no_group, "-group", group);
            format!("--owner=:{}{group}", not(no_group))
        }
        _ => {
            test(no_user, "-user", user);
            test(no_group, "-group", group);
            format!("--owner={}{user}:{}{group}", not(no_user), not(no_group))
        }
    };
    (vec![ours], finds)
}

fn by_perm(dice: &mut Dice) -> Pair {
    const MODES: [&str; 18] = [
        "644",
        "755",
        "0",
        "4000",
        "7777",
        "222",
        "1000",
        "u=rwx,g=u",
        "a+X",
        "u+x,a+X",
        "g+s",
        "+t",
        "u=rw,go=r",
        "o=w",
        "u+rw-w",
        "ug=rx,o=g",
        "u+s,u=rx",
        "=r",
    ];
    let (how, mode) = (*dice.pick(&["", "-", "/"]), *dice.pick(&MODES));
    let mode = format!("{how}{mode}");
    (vec![format!("--perm={mode}")], strings(&["-perm", &mode]))
}

fn by_number(dice: &mut Dice) -> Pair {
    let n = dice.below(5);
    if dice.one_in(2) {
        let sign = dice.pick(&["", "+", "-"]);
        let value = format!("{sign}{n}");
        return (
            vec![format!("--links={value}")],
            strings(&["-links", &value]),
        );
    }
    let n = n.to_string();
    (strings(&["--min-depth", &n]), strings(&["-mindepth", &n]))
}

/// Random predicates. A regular expression is compared in the C locale, where find matches bytes;
/// then names are not tested. --time applies to both limits, so only one kind of time is limited.
fn predicates(dice: &mut Dice) -> (Vec<String>, Vec<String>, &'static str) {
    let (mut ours, mut finds) = (Vec::new(), Vec::new());
    let with_regex = dice.one_in(5);
    let first = if with_regex {
        by_path(dice)
    } else {
        by_name(dice)
    };
    let others: [fn(&mut Dice) -> Pair; 6] =
        [by_type, by_size, by_time, by_owner, by_perm, by_number];
    let mut pairs: Vec<Pair> = others.into_iter().map(|other| other(dice)).collect();
    pairs.retain(|_| dice.one_in(4));
    if pairs.is_empty() || dice.one_in(2) {
        pairs.push(first);
    }
    for (our, find) in pairs {
        ours.extend(our);
        finds.extend(find);
    }
    // find requires global options first.
    if let Some(at) = finds.iter().position(|word| word == "-mindepth") {
        let global: Vec<String> = finds.drain(at..at + 2).collect();
        finds.splice(0..0, global);
    }
    (ours, finds, if with_regex { "C" } else { "C.UTF-8" })
}

fn paths(bytes: &[u8]) -> BTreeSet<Vec<u8>> {
    let paths = bytes.split(|&b| b == 0).filter(|path| !path.is_empty());
    paths.map(<[u8]>::to_vec).collect()
}

fn find(top: &Path, tests: &[String], locale: &str) -> BTreeSet<Vec<u8>> {
    let mut find = Command::new("find");
    find.arg(top)
        .args(tests)
        .arg("-print0")
        .env("LC_ALL", locale);
    found(&mut find)
}

/// The paths that a find command prints.
pub(super) fn found(find: &mut Command) -> BTreeSet<Vec<u8>> {
    let out = find.output().unwrap();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{find:?}: {errors}");
    paths(&out.stdout)
}

/// Fails with the missing and the superfluous paths.
#[track_caller]
pub(crate) fn same_paths(given: &Ran, expected: &BTreeSet<Vec<u8>>, what: &str) {
    let given_paths = paths(&given.stdout);
    let show = |paths: Vec<&Vec<u8>>| -> Vec<String> {
        let first = paths.iter().take(5);
        first.map(|path| path.escape_ascii().to_string()).collect()
    };
    let missing = show(expected.difference(&given_paths).collect());
    let more = show(given_paths.difference(expected).collect());
    assert!(
        missing.is_empty() && more.is_empty(),
        "{what}\nmissing {missing:#?}\ntoo much {more:#?}"
    );
}

fn on_each_file_system(check: impl Fn(&Path, &str, u64) + Sync) {
    for (make, seed) in [Some(EXT4[0]), Some(XFS[0]), Some(BTRFS[0]), None]
        .into_iter()
        .zip(500..)
    {
        in_namespace(|base| {
            let at = base.join("disk");
            mounted_or_still(make, &at);
            let top = dir(at.join("odd"));
            odd_tree(&top, seed);
            settle(&at);
            check(&top, make.map_or("tmpfs", |make| make.fstype), seed);
        });
    }
}

#[test]
fn random_predicates_select_what_find_selects() {
    if !require(&[Need::Root, Need::Loop]) {
        return;
    }
    on_each_file_system(|top, fstype, seed| {
        let mut dice = Dice::new(seed);
        let catalog = top.with_extension("parquet");
        let write = args!["walk", top, "--catalog", &catalog, "-q"];
        run(&mut fathom(write)).exits(0);
        let (mut selective, total) = (0, find(top, &[], "C").len());
        let rounds = effort(8, 1250);
        for round in 0..rounds {
            let (ours, finds, locale) = predicates(&mut dice);
            let expected = find(top, &finds, locale);
            selective += usize::from(!expected.is_empty() && expected.len() < total);
            let ours: Vec<&str> = ours.iter().map(String::as_str).collect();
            for engine in engines(fstype) {
                let ran = walk(top, engine, &[&["--format", "paths0"], &ours[..]].concat());
                let what = format!("{fstype} {engine} {round}: {ours:?} {finds:?}");
                assert_eq!(ran.code(), 0, "{ran}");
                same_paths(&ran, &expected, &what);
            }
            let ran = run(fathom(args!["query", &catalog, "--print0"]).args(&ours));
            same_paths(
                &ran,
                &expected,
                &format!("{fstype} query {round}: {ours:?}"),
            );
        }
        assert!(
            selective > rounds / 4,
            "{selective} of {rounds} select some entries"
        );
    });
}

#[test]
fn all_formats_and_engines_count_the_same_entries() {
    if !require(&[Need::Root, Need::Loop]) {
        return;
    }
    let sets: [&[&str]; 4] = [
        &["--type", "f", "--size", "+1"],
        &["--name", "*[0-9]*", "--perm", "/111"],
        &["--type", "e"],
        &["--links", "+1", "--min-depth", "2"],
    ];
    on_each_file_system(|top, fstype, _| {
        for set in sets.into_iter().take(effort(2, 4)) {
            let mut digests = BTreeSet::new();
            for engine in engines(fstype) {
                let value = walk(top, engine, &[set, &["--json"]].concat())
                    .exits(0)
                    .json();
                let listed = walk(top, engine, &[set, &["--format", "paths0"]].concat()).exits(0);
                let entries = paths(&listed.stdout).len();
                assert_eq!(value["result"]["entries"], entries, "{set:?}: {value}");
                for format in ["ndjson", "csv"] {
                    let ran = walk(top, engine, &[set, &["--format", format]].concat()).exits(0);
                    let records = match format {
                        "csv" => super::formats::records(&ran.stdout).len() - 1,
                        _ => ran.stdout.iter().filter(|&&b| b == b'\n').count(),
                    };
                    assert_eq!(records, entries, "{set:?} {format}");
                }
                digests.insert(value["result"]["digest"].to_string());
            }
            assert_eq!(digests.len(), 1, "{set:?}: {digests:?}");
        }
    });
}

/// Time zones as users may set them: from the zone database, as a path, in POSIX format, and
/// unknown zones, which mean UTC.
const ZONES: [&str; 12] = [
    "",
    "UTC",
    "Europe/Berlin",
    ":America/New_York",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "/usr/share/zoneinfo/Pacific/Kiritimati",
    "EST5EDT",
    "<+0330>-3:30",
    "CET-1CEST,M3.5.0,M10.5.0/3",
    "No/Such",
    "../zoneinfo/Asia/Tokyo",
];

/// A file for every half hour around the days when clocks change, and predicates with dates among
/// these.
#[test]
fn dates_are_in_the_local_time_of_find() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|base| {
        let top = still(&base.join("top")).to_owned();
        // 2026-03-08, 2026-03-29, 2026-04-05, 2026-10-04, 2026-10-25, 2026-11-01, and 1965-01-05.
        for day in [20_520, 20_541, 20_548, 20_730, 20_751, 20_758, -1_822] {
            for half in -48..96_i64 {
                let at = day * 86_400 + half * 1800;
                let path = file(top.join(at.to_string()), 0);
                let time = Timespec {
                    tv_sec: at,
                    tv_nsec: 0,
                };
                let times = Timestamps {
                    last_access: time,
                    last_modification: time,
                };
                utimensat(CWD, &path, &times, AtFlags::empty()).unwrap();
            }
        }
        let dates = [
            "2026-03-08",
            "2026-03-29 01:30",
            "2026-03-29 03:00:00",
            "2026-03-30",
            "2026-04-05 12:00",
            "2026-10-04 01:00:01",
            "2026-10-25",
            "2026-10-25T01:30",
            "2026-10-25 04:00",
            "2026-11-01 12:00:00Z",
            "2026-11-01T12:00:00+05:30",
            "1965-01-05",
        ];
        for zone in ZONES {
            for date in dates {
                let mut find = Command::new("find");
                find.arg(&top).args(["-newermt", date, "-print0"]);
                let expected = found(find.env("TZ", zone));
                let given = args!["walk", &top, "--changed-within", date, "--format", "paths0"];
                let ran = run(fathom(given).env("TZ", zone)).exits(0);
                assert!(!expected.is_empty(), "{date}");
                same_paths(&ran, &expected, &format!("TZ={zone} {date}"));
            }
        }
    });
}

#[test]
fn named_days_begin_at_midnight() {
    let place = tempfile::tempdir().unwrap();
    file(place.path().join("new"), 0);
    let old = file(place.path().join("old"), 0);
    let now = std::time::SystemTime::now();
    let days = std::time::Duration::from_secs(3 * 86_400);
    let opened = fs::File::options().write(true).open(&old).unwrap();
    opened.set_modified(now - days).unwrap();
    for (option, name) in [
        ("--changed-within=yesterday", "new"),
        ("--changed-before=yesterday", "old"),
        ("--changed-before=today", "old"),
    ] {
        let words = args![
            "walk",
            place.path(),
            "--type",
            "f",
            option,
            "--format",
            "paths"
        ];
        let ran = run(&mut fathom(words)).exits(0);
        let expected = format!("{}\n", place.path().join(name).display());
        assert_eq!(String::from_utf8(ran.stdout).unwrap(), expected, "{option}");
    }
}

/// du with predicates counts the selected files in each directory above them.
#[test]
fn du_counts_selected_files_only() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|base| {
        let top = still(&base.join("top")).to_owned();
        file(top.join("a/b/one.txt"), 5000);
        file(top.join("a/two.log"), 9000);
        fs::hard_link(top.join("a/b/one.txt"), top.join("a/again.txt")).unwrap();
        dir(top.join("c"));
        let value = walk(
            &top,
            "threads",
            &["--ext", "txt", "--format", "du", "--json"],
        )
        .exits(0)
        .json();
        let rows = value["result"]["du"].as_array().unwrap().iter().map(|row| {
            let path = row["path"]
                .as_str()
                .unwrap()
                .strip_prefix(top.to_str().unwrap());
            (
                path.unwrap().to_owned(),
                row["apparent"].as_u64().unwrap(),
                row["inodes"].as_u64().unwrap(),
            )
        });
        let expected = [("/a", 5000, 1), ("", 5000, 1)]
            .map(|(path, bytes, inodes)| (path.to_owned(), bytes, inodes));
        assert_eq!(rows.collect::<Vec<_>>(), expected, "{value}");
    });
}

#[test]
fn catalog_has_all_entries_whatever_is_selected() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|base| {
        let top = still(&base.join("top")).to_owned();
        odd_names()
            .iter()
            .for_each(|name| drop(file(top.join(std::ffi::OsStr::from_bytes(name)), 1)));
        let catalog = base.join("c.parquet");
        let catalog = catalog.to_str().unwrap();
        let ran = walk(
            &top,
            "threads",
            &[
                "--name",
                "plain",
                "--format",
                "paths0",
                "--catalog",
                catalog,
            ],
        )
        .exits(0);
        assert_eq!(paths(&ran.stdout).len(), 1, "{ran}");
        let ran = run(&mut fathom(args![
            "changed", &top, "--since", &catalog, "--json"
        ]))
        .exits(0);
        assert_eq!(ran.json()["result"]["unchanged"], true);
    });
}
