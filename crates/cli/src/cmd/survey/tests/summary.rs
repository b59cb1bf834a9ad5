//! Tests of the summary: it fits on a screen, and lists problems first.

use mounts::check::Verdict;
use mounts::{Point as Mount, PointKind};
use proptest::prelude::*;
use show::table::TableStyle;
use survey::capacity::Capacity;

use super::example::random::{machine, survey_of};
use super::example::{Owned, point_of};
use super::show::summary::text;
use survey::{Missing, Section, Survey};

pub(super) fn fits(survey: &Survey<'_>) -> String {
    let text = text(survey, TableStyle::default(), Some(b"fathom-survey.html"));
    assert!(text.lines().count() <= 30, "{text}");
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "{text}");
    text
}

fn capacity(percent: u64) -> Capacity {
    Capacity {
        size: 100 << 30,
        used: percent << 30,
        available: (100 - percent) << 30,
        inodes: 1_000_000,
        inodes_used: 10_000,
    }
}

#[test]
fn small_container_fits() {
    let mut owned = Owned::new();
    let file = |target: &[u8]| Mount {
        kind: Some(PointKind::File),
        ..point_of(target, 3, b"ext4")
    };
    *owned.points() = vec![
        point_of(b"/", 1, b"overlay"),
        point_of(b"/proc", 2, b"proc"),
        point_of(b"/dev", 4, b"tmpfs"),
        point_of(b"/dev/pts", 5, b"devpts"),
        point_of(b"/sys", 6, b"sysfs"),
        file(b"/etc/hosts"),
        file(b"/etc/resolv.conf"),
    ];
    for point in owned.points().clone() {
        owned.found.capacities.insert(point.dev, capacity(40));
    }
    let text = fits(&owned.survey());
    assert!(text.contains("4 pseudo file systems: all ok"), "{text}");
    assert_eq!(text.matches(" ext4").count(), 1, "{text}");
    assert!(!text.contains("resolv.conf"), "{text}");
    for row in [
        "/           ok    100 GiB 40 GiB     40        1 overlay",
        "1.86 GiB estimated 19.1 MiB fathom dump --since, 1 % of files changed",
        "2. Dump increments: 19.1 MiB, not 1.86 GiB, if 1 % of the files changed (saves 39.6 ms of CPU time)\n",
        "program start (env) 1.20 ms ",
        "Page: fathom-survey.html; 1 warning; --full prints everything",
    ] {
        assert!(text.contains(row), "no {row}: {text}");
    }
}

#[test]
fn server_with_200_mounts_fits_and_names_the_hung_one_first() {
    let mut owned = Owned::new();
    let mount = |n: u32| point_of(format!("/srv/{n:03}").as_bytes(), 100 + n, b"xfs");
    *owned.points() = (0..200).map(mount).collect();
    for (n, point) in (0..).zip(owned.points().clone()) {
        let percent = if n == 77 { 97 } else { n % 80 };
        owned.found.capacities.insert(point.dev, capacity(percent));
    }
    owned.points().push(Mount {
        verdict: Some(Verdict::Hung),
        server: Some("filer".to_owned()),
        ..point_of(b"/mnt/far", 77, b"nfs4")
    });
    owned.points().push(point_of(b"/mnt/other", 78, b"nfs4"));
    owned.warnings = vec![owned.warnings[0].clone(); 20];
    let text = fits(&owned.survey());
    let line = |n: usize| text.lines().nth(n).unwrap();
    assert!(
        line(3).starts_with("/mnt/far ") && line(3).contains(" hung "),
        "{text}"
    );
    assert!(
        line(4).starts_with("/srv/077 ") && line(4).contains(" nearly full "),
        "{text}"
    );
    assert!(
        line(5).starts_with("/mnt/other") && line(5).contains("not checked"),
        "{text}"
    );
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let scope = "below it; stat and fsync were measured in / (ext4).";
    assert!(words.contains(scope), "{text}");
    assert!(text.contains(" more, all ok (--full)"), "{text}");
    assert!(text.contains("and 18 more warnings (--full)"), "{text}");
    assert!(
        text.ends_with("; 20 warnings; --full prints everything\n"),
        "{text}"
    );
    assert!(
        text.contains("1. Exclude /mnt/far from scans and backups until it answers"),
        "{text}"
    );
}

#[test]
fn summary_of_nothing_names_the_commands_that_would_tell() {
    let mut owned = Owned::new();
    owned.found = Default::default();
    owned.account = None;
    let text = fits(&owned.survey());
    assert_eq!(text.matches("cannot tell").count(), 5, "{text}");
    assert!(text.contains("fathom walk / -x --compare"), "{text}");
}

#[test]
fn backup_of_a_large_tree_is_at_most_the_space_in_use() {
    let mut owned = Owned::new();
    let root = owned.points()[0].dev;
    owned.found.capacities.insert(root, capacity(40));
    owned.lose(
        Section::Dump,
        Missing::TooLong(std::time::Duration::from_secs(5)),
    );
    let row = "nightly backup up to 40 GiB - ";
    let row_of = |owned: &Owned| {
        let text = fits(&owned.survey());
        let mut lines = text.lines();
        let line = lines.find(|line| line.starts_with("nightly backup"));
        let words: Vec<_> = line.unwrap().split_whitespace().collect();
        words.join(" ")
    };
    let line = row_of(&owned);
    assert!(line.starts_with(row), "{line}");
    assert!(line.ends_with("fathom dump / -x --no-output --account"));
    // A backup costs the same for a directory below the mount point.
    let own = owned.points().remove(0);
    owned.found.mounts.as_mut().unwrap().own = Some(own);
    owned.root = b"/home/ada".to_vec();
    let line = row_of(&owned);
    assert!(line.starts_with(row), "{line}");
    // Files on btrfs can share extents, so the size of a dump is unknown.
    owned.found.mounts.as_mut().unwrap().own = Some(Mount {
        dev: root,
        ..point_of(b"/", 1, b"btrfs")
    });
    let line = row_of(&owned);
    assert!(line.starts_with("nightly backup cannot tell"), "{line}");
}

#[test]
fn directory_that_is_no_mount_point_has_its_file_system() {
    let mut owned = Owned::new();
    owned.root = b"/srv/data".to_vec();
    let own = point_of(b"/srv", 1, b"xfs");
    owned.found.capacities.insert(own.dev, capacity(40));
    *owned.points() = Vec::new();
    owned.found.mounts.as_mut().unwrap().own = Some(own);
    let text = fits(&owned.survey());
    let mut lines = text.lines();
    let row = lines.find(|line| line.starts_with("/srv ")).unwrap();
    let words: Vec<_> = row.split_whitespace().collect();
    assert_eq!(words.join(" "), "/srv ok 100 GiB 40 GiB 40 1 xfs");
}

#[test]
fn long_advice_is_broken_and_not_cut() {
    let mut owned = Owned::new();
    owned.root = b"/a/directory/with/a/long/name/on/a/narrow/terminal".to_vec();
    let style = TableStyle {
        width: Some(80),
        ..TableStyle::default()
    };
    let text = text(&owned.survey(), style, None);
    let mut lines = text.lines().skip_while(|line| !line.starts_with("1. "));
    let advice: Vec<_> = lines.by_ref().take(3).map(str::trim_start).collect();
    assert_eq!(
        advice.join(" "),
        "1. Walk /a/directory/with/a/long/name/on/a/narrow/terminal with fathom instead of find: 500 ms instead of 2.00 s \
         (4.0 times as fast) fathom walk /a/directory/with/a/long/name/on/a/narrow/terminal -x"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn summary_of_any_machine_fits(machine in machine()) {
        let text = fits(&survey_of(&machine).survey());
        prop_assert!(!text.contains("unmount"), "{}", text);
    }
}
