//! Tests of the page of a survey that is constructed by hand: its HTML is valid for all names, and
//! it contains the figures.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use ::show::table::TableStyle;
use base::child::NoRun;
use mounts::check::Verdict;
use mounts::{Point as Mount, PointKind};
use ondisk::Content;
use pathsearch::Change;
use probe::finding::{CacheBound, Outcome, Source};
use probe::{Error, Experiment, MeasuredFinding, Quantity};
use survey::{Failure, Missing, Section, Survey, Task};
use walk::{Digest, EngineKind};

use self::example::{Owned, finding, measured, point};
use super::show;
use super::show::json::JsonSurvey;
use super::show::page::html;
use super::show::points::Point;

#[path = "../../../../../survey/tests/example/mod.rs"]
pub(in crate::cmd::survey) mod example;
mod machines;
mod summary;

#[path = "../../../../../../tests/support/of_units.rs"]
#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    dead_code,
    reason = "the end-to-end tests use the rest of it"
)]
mod shared;

fn finding_in(survey: &Survey<'_>, section: Section) -> Point {
    let mut findings = Point::findings(survey).into_iter();
    let found = findings.find(|point| point.section == section);
    found.expect("a finding in the section")
}

fn missing(why: &str) -> Missing {
    Missing::Failed(Failure::new(
        Task::Other,
        std::io::Error::other(why.to_owned()),
    ))
}

fn json(survey: &Survey<'_>) -> serde_json::Value {
    serde_json::to_value(JsonSurvey(survey)).unwrap()
}

/// The HTML tags of a page: name, attributes, and whether it is an end tag.
fn tags(page: &str) -> Vec<(&str, &str, bool)> {
    // Skip the style sheet, which contains no tags.
    let page = &page[page.find("</style>").expect("a style") + "</style>".len()..];
    let mut tags = Vec::new();
    for piece in page.split('<').skip(1) {
        let (tag, _) = piece.split_once('>').expect("a tag has an end");
        let (tag, ends) = tag
            .strip_prefix('/')
            .map_or((tag, false), |tag| (tag, true));
        let (name, rest) = tag.split_once([' ', '\n']).unwrap_or((tag, ""));
        tags.push((name, rest, ends));
    }
    tags
}

fn attributes<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let from = format!(" {name}=\"");
    page.split(&from[..])
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap_or_default())
        .collect()
}

/// Checks that all tags of a page are closed in order.
fn is_whole(page: &str) {
    assert!(
        page.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"),
        "{page}"
    );
    let mut open = Vec::new();
    for (name, rest, ends) in tags(page) {
        if ends {
            assert_eq!(
                open.pop(),
                Some(name),
                "{name} is closed, but not opened there"
            );
        } else if !rest.ends_with('/') && name != "meta" {
            open.push(name);
        }
    }
    // `html` and `head` are opened before the style sheet, and so not in `open`.
    assert_eq!(open, [] as [&str; 0]);
}

/// Checks that the page is valid HTML, including the order of headings and the uniqueness of ids.
fn is_sound(page: &str) {
    let body = page.split_once("</style>\n</head>").expect("a head").1;
    let whole = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"></style>{}",
        body.replace("</html>", "")
    );
    is_whole(&whole);
    let levels: Vec<u8> = tags(page)
        .into_iter()
        .filter(|(name, _, ends)| {
            !ends && name.len() == 2 && name.starts_with('h') && *name != "hr"
        })
        .map(|(name, ..)| name.as_bytes()[1] - b'0')
        .collect();
    assert_eq!(
        levels.iter().filter(|level| **level == 1).count(),
        1,
        "{levels:?}"
    );
    assert_eq!(levels.first(), Some(&1));
    assert!(
        levels.windows(2).all(|two| two[1] <= two[0] + 1),
        "{levels:?}"
    );
    let ids = attributes(page, "id");
    let different: HashSet<_> = ids.iter().collect();
    assert_eq!(different.len(), ids.len(), "{ids:?}");
    for href in attributes(page, "href") {
        assert!(
            href.strip_prefix('#').is_some_and(|id| ids.contains(&id)),
            "{href}"
        );
    }
    for list in attributes(page, "aria-labelledby") {
        assert!(list.split(' ').all(|id| ids.contains(&id)), "{list}");
    }
    let labels = attributes(page, "aria-label");
    assert_eq!(
        labels.iter().collect::<HashSet<_>>().len(),
        labels.len(),
        "{labels:?}"
    );
    for word in [
        "http:", "https:", "<script", "<link", "<img", "<iframe", "url(", "@import", " src=",
        " onclick", " onload",
    ] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(!page.contains(|c: char| c.is_control() && c != '\n'));
    for svg in page.split("<svg role").skip(1) {
        assert!(
            svg.contains("<title id=") && svg.contains("<desc id="),
            "{svg}"
        );
    }
    // Wide tables must be in a container that scrolls, also by keyboard.
    assert_eq!(
        page.matches("<table>").count(),
        page.matches("class=\"scroll\" role=\"region\" aria-label=")
            .count()
    );
    assert_eq!(
        page.matches("<table>").count(),
        page.matches("<caption>").count()
    );
    assert_eq!(
        page.matches("<details>\n<summary>").count(),
        page.matches("<details>").count()
    );
}

#[test]
fn the_page_is_sound_and_has_the_figures() {
    let owned = Owned::new();
    let survey = owned.survey();
    let page = html(&survey);
    is_sound(&page);
    for text in [
        "<title>Survey of / on anvil</title>",
        "<h2>Findings</h2>",
        "<h2>Advice</h2>",
        // Number of mounts, and of unusual ones.
        "5 mounts, 2 unusual",
        "5 mounts at or under /, 2 of them unusual: 1 hidden (/mnt); 1 on a file (/etc/hosts).",
        "310 µs, 12 calls",
        "Mounts that store files, by path",
        "getmnt1 skipped: stopped after 5.00 s.",
        // The problems, at the top of the page.
        "<h2>1 warning, 1 note</h2>",
        "<span class=\"badge warning\">Warning</span> <span>1 mount hidden: /mnt (<a href=\"#mounts\">Mounts</a>)",
        // Section on the file system.
        "block 4 KiB, readahead 128 KiB, cache 256 MiB",
        "cluster: the byte limit was reached; raise --max-bytes",
        "<p class=\"title\">Pages of the file in the page cache after each read</p>",
        "read number",
        "<summary>1 plot of the samples</summary>",
        // Section on the walk.
        "500 ms for 12,345 entries",
        "takes 2.00 s and 24,690 calls (4.0 times as long)",
        "reading the device requires root",
        // Section on the dump.
        "<td>26,000</td>",
        "19.1 MiB, not 1.86 GiB",
        // Section on the calls of a walk.
        "<td>972 ns</td><th scope=\"row\" class=\"left\">statx</th>",
        "raw-tables: on ext4, as root, read the inode tables from the device (fathom walk DIR --engine ext4)",
        // Section on program starts: PATH.
        "9 of 23 lookups fail",
        "env true starts in 1.20 ms with 23 lookups by name, of which 9 fail",
        // Section on the prices of system calls.
        "warm 812 ns, cold 41.2 µs",
        // Description of the machine.
        "Linux 6.12.8-amd64 (x86_64) · 2 processors · 8 GiB of memory · 2023-11-14 22:13:20 UTC, 34.1 s, not as root",
        "walking by threads",
        "/x\\xff: cannot be (EIO)",
        "the meter bpf, which has the lowest overhead",
        // Recommended commands.
        "<code>fathom walk / -x --compare</code>",
        "<code>fathom pathsearch --network / env true</code>",
    ] {
        assert!(page.contains(&text.replace('\'', "&#39;")), "no {text}");
    }
    let path = page
        .split_once("Directories of PATH")
        .expect("the table of PATH")
        .1;
    let path = path
        .split_once("Directories of PATH")
        .expect("its caption")
        .1;
    let row = |dir: &str, state: &str, hits: u32, misses: u32| {
        let left = |text: &str| format!("<td class=\"left\">{text}</td>");
        format!(
            "{dir}</th>{}{}<td>{hits}</td><td>{misses}</td></tr>",
            left(state),
            left("ext4")
        )
    };
    assert!(path.contains(&row("/gone", "missing", 0, 1)), "{path}");
    assert!(path.contains(&row("/usr/bin/", "ok", 1, 0)), "{path}");
}

#[test]
fn findings_and_advice_have_a_figure_and_a_command() {
    let owned = Owned::new();
    let survey = owned.survey();
    assert_eq!(
        (survey.findings.len(), survey.advice.len()),
        (5, 5),
        "{:#?}\n{:#?}",
        Point::findings(&survey),
        Point::advice(&survey)
    );
    let (findings, advice) = (Point::findings(&survey), Point::advice(&survey));
    let sections: Vec<_> = findings.iter().map(|point| point.section.name()).collect();
    assert_eq!(sections, ["mounts", "walk", "probe", "startup", "dump"]);
    for point in findings.iter().chain(&advice) {
        assert!(
            !point.figure.is_empty() && !point.text.is_empty() && point.text.ends_with('.'),
            "{point:?}"
        );
        assert!(
            point.command.starts_with("fathom ") || point.command.starts_with("sudo fathom "),
            "{point:?}"
        );
    }
    let advice: Vec<_> = advice.iter().map(|point| &point.figure[..]).collect();
    assert_eq!(
        advice,
        [
            "4.0 times as fast",
            "1 hidden mount",
            "saves 39.6 ms of CPU time",
            "1 network mount",
            "1 thing not seen"
        ]
    );
    let value = json(&survey);
    assert_eq!(value["findings"][0]["figure"], "5 mounts, 2 unusual");
    assert_eq!(value["skipped"], serde_json::json!({}));
    assert_eq!(value["machine"]["host"], "anvil");
    assert_eq!(value["probe"][0]["dir"], "/");
    assert_eq!(value["gates"]["prices"][1]["gate"], "statx");
}

#[test]
fn page_proposes_only_worthwhile_changes_of_program_start() {
    let mut owned = Owned::new();
    let changes = "Changes that help env true";
    assert!(!html(&owned.survey()).contains(changes));
    let start = &mut owned.found.startup.as_mut().unwrap().started[0];
    (start.seconds, start.totals.nanos) = (0.5, 50_000_000);
    start.runs = vec![0.5, 0.501, 0.499];
    start.fixes[0].saves_seconds_here = 0.02;
    // Failed lookups take 40 % of the call time, but only 4 % of the start: not worth a change.
    assert!(!html(&owned.survey()).contains(changes));
    owned.found.startup.as_mut().unwrap().started[0].seconds = 0.1;
    let page = html(&owned.survey());
    is_sound(&page);
    for part in [
        changes,
        "saves 2 failed lookups, 20.0 ms here",
        "possible, with the best change",
    ] {
        assert!(page.contains(part), "no {part}");
    }
}

#[test]
fn full_text_has_each_command_on_a_line_of_its_own() {
    let mut owned = Owned::new();
    owned.found.gates.as_mut().unwrap().dir = b"/home/ada".to_vec();
    for section in [Section::Startup, Section::Dump, Section::Probe] {
        owned.lose(section, missing("so"));
    }
    let text = show::text(&owned.survey(), TableStyle::default());
    for lines in [
        "\n- Walk / with fathom instead of find: 500 ms instead of 2.00 s (4.0 times as fast)\n  fathom walk / -x\n",
        // The prices were measured in a directory where this user may write.
        "\n- A statx costs 812 ns cached, and 41.2 µs uncached. An empty call costs 55 ns.\n  fathom probe /home/ada gates\n",
        "\n34.1 s (limit: 60.0 s); 120 MiB read from disks, 64 MiB written to temporary files (limit: 256 MiB).\n",
    ] {
        assert!(text.contains(lines), "no {lines}: {text}");
    }
    assert!(html(&owned.survey()).contains("<code>fathom probe /home/ada gates</code>"));
}

#[test]
fn change_of_calls_is_advised_in_a_sentence_of_its_own() {
    let mut owned = Owned::new();
    owned.walking().engines.explained[0].plan.engines = vec![(EngineKind::Ext4, Ok(()))];
    let advice = Point::advice(&owned.survey());
    let text = "To walk with fewer calls than find, on ext4, as root, read the inode tables from the device \
                (fathom walk DIR --engine ext4); for whole file systems.";
    let of_calls = advice.iter().find(|point| point.text == text);
    let point = of_calls.unwrap_or_else(|| panic!("{advice:#?}"));
    assert_eq!(point.figure, "saves 43.2 % of CPU time, 10.0 ms");
    assert_eq!(
        point.command,
        "fathom account fathom walk / -x --engine stat"
    );
}

#[test]
fn unknown_figures_are_stated_as_unknown() {
    let mut owned = Owned::new();
    let seconds = Duration::from_millis(1250);
    owned.stop_engines(NoRun::Moved(67_213_722, seconds), Some(5600));
    let of_cache = |one: &MeasuredFinding| one.finding.quantity.experiment() == Experiment::Cache;
    owned.results().retain(|one| !of_cache(one));
    owned.results()[2].finding.outcome = Outcome::Unknown(Error::OutOfTime);
    let survey = owned.survey();
    let said = |section| finding_in(&survey, section);
    assert_eq!(
        said(Section::Probe).figure,
        "block 4 KiB, readahead 128 KiB (from the kernel), cache up to 8 GiB"
    );
    assert!(
        said(Section::Probe)
            .text
            .contains("the readahead could not be measured (the kernel reports 128 KiB)")
    );
    assert_eq!(
        said(Section::Walk).figure,
        "stopped after 64.1 MiB of disk reads and writes"
    );
    assert!(said(Section::Walk).text.contains(
        "threads was stopped after 64.1 MiB of disk reads and writes, at 100 entries (80 a second); all 5,600 files of its file \
         system take an estimated 70.0 s."
    ));
    assert!(
        Point::advice(&survey)
            .iter()
            .any(|point| point.command == "fathom walk / -x --catalog walk.parquet")
    );
    let page = html(&survey);
    is_sound(&page);
    assert!(
        page.contains("<td>128 KiB (from the kernel)</td>")
            && page.contains("At most the memory, 8 GiB"),
        "{page}"
    );
}

#[test]
fn stopped_walk_estimates_the_whole_and_compares_engines_on_a_part() {
    let mut owned = Owned::new();
    owned.bound_walk(Some(2_000_000), Some(3));
    let survey = owned.survey();
    let said = finding_in(&survey, Section::Walk);
    assert_eq!(
        (&said.figure[..], &said.command[..]),
        ("estimated 25.0 s for 2,000,000 files", "fathom walk / -x")
    );
    for part in [
        "threads read 400,000 entries in 5.00 s and 96 MiB of disk reads (80,000 a second), and was stopped",
        "all 2,000,000 files of the file system take 25.0 s",
        "threads walks the upper 3 levels (12,345 entries) in 500 ms; one call after the other, as find does, takes 2.00 s (4.0 times as long).",
    ] {
        assert!(said.text.contains(part), "no {part}: {}", said.text);
    }
    let advice = Point::advice(&survey);
    let advice: Vec<_> = advice
        .iter()
        .map(|point| (&point.figure[..], &point.command[..]))
        .collect();
    for advised in [
        (
            "estimated 25.0 s without root",
            "sudo fathom walk / -x --max-depth 3 --compare",
        ),
        (
            "estimated 25.0 s a scan",
            "fathom walk / -x --catalog walk.parquet",
        ),
        (
            "4.0 times as fast",
            "fathom walk / -x --max-depth 3 --compare",
        ),
    ] {
        assert!(advice.contains(&advised), "no {advised:?}: {advice:?}");
    }
    let page = html(&survey);
    is_sound(&page);
    for part in [
        "<dd>estimated 25.0 s</dd>",
        "<code>fathom walk / -x --max-depth 3 --compare</code>",
        "400,000",
        "2,000,000",
    ] {
        assert!(page.contains(part), "no {part}");
    }
    assert!(
        show::text(&survey, TableStyle::default())
            .contains("The engines are compared on the upper 3 levels")
    );
    let walk = &json(&survey)["walk"];
    assert_eq!(
        (
            &walk["bounded"]["whole_seconds"],
            &walk["bounded"]["levels"]
        ),
        (&25.0.into(), &3.into())
    );

    // The walk was stopped, no part of the tree was compared, and the number of inodes is unknown.
    owned.bound_walk(None, None);
    owned.stop_engines(NoRun::Stopped(Duration::ZERO), None);
    let survey = owned.survey();
    let said = finding_in(&survey, Section::Walk);
    assert_eq!(said.figure, "80,000 entries a second");
    assert!(said.text.ends_with("and was stopped."), "{}", said.text);
    is_sound(&html(&survey));
}

#[test]
fn engines_that_disagree_on_an_unchanged_tree_are_reported() {
    let mut owned = Owned::new();
    owned.walking().engines.engines[0].totals.digest = Digest::from_halves([0x11; 2]);
    let first = Point::findings(&owned.survey()).remove(0);
    assert_eq!(
        (&first.figure[..], first.section.name()),
        ("The engines disagree", "walk")
    );
    // If the tree changed between the walks, a disagreement of the engines is expected, and not
    // reported.
    owned.walking().engines.engines[1].is_steady = Some(false);
    let survey = owned.survey();
    assert_eq!(survey.findings[0].section, Section::Mounts);
    assert!(
        !Point::findings(&survey)
            .iter()
            .any(|point| point.text.contains("wrong")),
        "{:?}",
        Point::findings(&survey)
    );
}

#[test]
fn cache_size_is_the_limit_unless_it_was_measured() {
    let mut owned = Owned::new();
    let mut limit = |truth: f64, source| {
        let results = owned.results();
        results.retain(|one| one.finding.quantity != Quantity::CacheLimit);
        let outcome = Outcome::LookedUp(CacheBound::Cgroup);
        let limit = finding(Quantity::CacheLimit, outcome, Some((truth, source)));
        results.push(measured(limit));
        let survey = owned.survey();
        let found = finding_in(&survey, Section::Probe);
        (found.figure, found.text, html(&survey))
    };
    let cgroup = || Source::File("/sys/fs/cgroup/memory.max".to_owned());
    const MIB: f64 = 1_048_576.0;
    // A limit measured in a temporary cgroup says nothing about the page cache of other processes.
    let (figure, text, page) = limit(24_000.0 * MIB, Source::Sysinfo);
    assert_eq!(
        figure,
        "block 4 KiB, readahead 128 KiB, cache up to 23.4 GiB"
    );
    assert!(
        text.contains("the page cache can use up to 23.4 GiB (all memory; no cgroup limits it"),
        "{text}"
    );
    assert!(
        page.contains("<td>up to 23.4 GiB</td>")
            && page.contains("up to 23.4 GiB, all memory; no cgroup limits it"),
        "{page}"
    );
    let (figure, text, page) = limit(512.0 * MIB, cgroup());
    assert_eq!(
        figure,
        "block 4 KiB, readahead 128 KiB, cache up to 512 MiB"
    );
    assert!(
        text.contains("the limit of the cgroup, /sys/fs/cgroup/memory.max"),
        "{text}"
    );
    is_sound(&page);
    // A cgroup that existed before limits the real page cache.
    let (figure, _, page) = limit(256.0 * MIB, cgroup());
    assert_eq!(figure, "block 4 KiB, readahead 128 KiB, cache 256 MiB");
    assert!(
        page.contains("<td>256 MiB</td>") && !page.contains("fills a cache to see"),
        "{page}"
    );
}

#[test]
fn no_mounts() {
    let mut owned = Owned::new();
    owned.points().clear();
    let survey = owned.survey();
    let findings = Point::findings(&survey);
    assert_eq!(findings[0].text, "Nothing is mounted at or under /.");
    is_sound(&html(&survey));
}

#[test]
fn hung_mount_comes_first() {
    let mut owned = Owned::new();
    owned.points().push(Mount {
        verdict: Some(Verdict::Hung),
        ..point(b"/nfs")
    });
    let survey = owned.survey();
    let findings = Point::findings(&survey);
    assert!(
        findings[0].text.contains("1 not answering (/nfs)"),
        "{:?}",
        findings[0]
    );
    assert_eq!(
        Point::advice(&survey)[0].command,
        "fathom mounts / --check --format exclude"
    );
}

#[test]
fn missing_sections_name_the_reason_and_the_command() {
    let mut owned = Owned::new();
    for section in [
        Section::Mounts,
        Section::Probe,
        Section::Walk,
        Section::Dump,
        Section::Account,
        Section::Startup,
        Section::Gates,
    ] {
        owned.lose(section, missing(&format!("why not <{}>", section.name())));
    }
    owned.found.steps.clear();
    owned.warnings.clear();
    owned.is_interrupted = true;
    let survey = owned.survey();
    let page = html(&survey);
    is_sound(&page);
    for (what, command) in [
        ("mounts", "mounts / --compare"),
        ("probe", "probe / block readahead cache"),
        ("walk", "walk / -x --compare"),
        ("dump", "dump / -x --no-output --account"),
        ("account", "account fathom walk / -x --engine stat"),
        ("startup", "pathsearch --network / env true"),
        ("gates", "probe / gates"),
    ] {
        assert!(
            page.contains(&format!("why not &#60;{what}&#62;.</p>")),
            "{what}: {page}"
        );
        assert!(
            page.contains(&format!("Run: <code>fathom {command}</code>")),
            "{what}: {page}"
        );
    }
    assert!(
        page.contains("Interrupted: the page has what was measured until then.")
            && survey.findings.is_empty()
    );
    assert_eq!(
        survey.advice.len(),
        5,
        "there is always something to do: {:?}",
        Point::advice(&survey)
    );
    let value = json(&survey);
    assert_eq!(value["skipped"]["dump"]["why"], "why not <dump>");
    assert_eq!(value["account_skipped"], "why not <account>");
    assert!(
        value["walk"].is_null()
            && value["mounts"].is_null()
            && value["probe"].as_array().unwrap().is_empty()
    );
}

#[test]
fn network_mounts_are_advised_to_be_checked() {
    let mut owned = Owned::new();
    for section in [Section::Walk, Section::Dump, Section::Startup] {
        owned.lose(section, missing("so"));
    }
    owned.account = None;
    let commands = |owned: &Owned| {
        let advice = Point::advice(&owned.survey()).into_iter();
        advice.map(|point| point.command).collect::<Vec<_>>()
    };
    let check = "fathom mounts / --check --servers".to_owned();
    assert!(commands(&owned).contains(&check));
    owned.points().retain(|point| point.server.is_none());
    assert!(!commands(&owned).contains(&check));
}

#[test]
fn hostile_names_are_escaped_on_the_page() {
    const NAME: &[u8] =
        b"/<b>&\"'\x1b[31m\xff\n</table></section><script>alert(1)</script>{{ 7 }}\xe2\x80\xae\\";
    let mut owned = Owned::new();
    let content = Content {
        fsroot: NAME.to_vec(),
        fstype: NAME.to_vec(),
        source: Some(NAME.to_vec()),
        options: NAME.to_vec(),
        ..Content::default()
    };
    owned.points().push(Mount {
        content: Some(Arc::new(content)),
        server: Some("<server>".to_owned()),
        hidden: true,
        verdict: Some(Verdict::Stale),
        ..point(NAME)
    });
    owned.root = NAME.to_vec();
    owned.machine.host = Some(NAME.to_vec());
    let probed = &mut owned.found.file_systems[0];
    probed.dir = NAME.to_vec();
    probed.report.fstype = Some(NAME.to_vec());
    let odd = Source::File("\x1b<odd>".to_owned());
    let outcome = Outcome::Unknown(Error::OutOfTime);
    let limit = finding(Quantity::CacheLimit, outcome, Some((1.0, odd)));
    probed.report.measured[3] = measured(limit);
    let startup = owned.found.startup.as_mut().unwrap();
    startup.path[0].dir = NAME.to_vec();
    let started = &mut startup.started[0];
    started.directories[0].dir = NAME.to_vec();
    if let Change::SetPath(path) = &mut started.fixes[0].change {
        path.path = NAME.to_vec();
        path.removed = vec![NAME.to_vec()];
    }
    let page = html(&owned.survey());
    is_sound(&page);
    assert!(
        !page.contains("<b>") && !page.contains("alert(1)</script>") && page.contains("\\xff"),
        "{page}"
    );
    assert!(!page.contains('\u{202e}'), "{page}");
}

#[test]
fn page_with_ten_thousand_mounts_is_small() {
    let mut owned = Owned::new();
    let mount = |n| Mount {
        kind: Some(PointKind::File),
        ..point(format!("/mnt/{n:05}/{}", "x".repeat(200)).as_bytes())
    };
    *owned.points() = (0..10_000).map(mount).collect();
    let page = html(&owned.survey());
    is_sound(&page);
    assert!(page.len() < 400_000, "{}", page.len());
    assert!(page.contains("And 9,800 more mounts: fathom mounts / shows all."));
    assert!(page.contains("And 9,960 more unusual mounts: fathom mounts / shows all."));
    assert!(page.contains("10,000 mounts, 10000 unusual"));
}

#[test]
fn full_text_quotes_commands_and_omits_empty_tables() {
    let mut owned = Owned::new();
    owned.root = b"/a\\b\xff".to_vec();
    owned.found.methods = None;
    owned.found.missing.insert(Section::Mounts, missing("so"));
    owned.found.startup.as_mut().unwrap().started.clear();
    owned.lose(Section::Dump, missing("so"));
    let survey = owned.survey();
    let page = html(&survey);
    is_sound(&page);
    assert!(
        page.contains("Run: <code>fathom mounts $&#39;/a\\\\b\\377&#39; --compare</code>"),
        "{page}"
    );
    let text = show::text(
        &survey,
        TableStyle {
            width: Some(200),
            ..TableStyle::default()
        },
    );
    assert!(
        text.contains(r"Not measured: so. To measure it: fathom mounts $'/a\\b\377' --compare"),
        "{text}"
    );
    assert!(
        text.contains(r"To measure it: fathom dump $'/a\\b\377' -x --no-output --account"),
        "{text}"
    );
    assert!(
        !text.contains("naive") && !text.contains("REMOTE") && text.contains("FAILED"),
        "{text}"
    );
}
