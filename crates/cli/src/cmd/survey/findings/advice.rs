//! The advice: what to do about each section.

use super::{Engines, Weighed, beginning, names, of_kind, took, unfinished};
use crate::cmd::survey::commands::Commands;
use crate::cmd::survey::known::{BLOCK, Known, READAHEAD, best_price};
use crate::cmd::survey::odd::{Kind, odd};
use crate::cmd::survey::page::named;
use crate::cmd::survey::survey::Survey;
use report::mounts::all;
use report::probe::plain;
use report::walk::{Bounded, Engine};
use show::name::printable;
use show::stats::Stats;
use show::units::{duration, plural, sized};

pub(crate) fn mounts(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(part) = survey.mounts.gathered() else {
        return;
    };
    let odd = odd(part.mounts.mounts);
    let count = |kind| of_kind(&odd, kind).count() as u64;
    let which = |kind| names(of_kind(&odd, kind));
    let (bad, hidden, twice) = (
        count(Kind::Unanswering),
        count(Kind::Hidden),
        count(Kind::Twice),
    );
    if bad > 0 {
        let text = format!(
            "Leave {} out of scans and backups until it is mended: whatever walks into it may wait for ever. The command \
             lists what to exclude.",
            which(Kind::Unanswering)
        );
        let command = format!("{} --check --format exclude", commands.mounts);
        found.add(
            100,
            "mounts",
            plural(bad, "mount does not answer", "mounts do not answer"),
            text,
            &command,
        );
    }
    if hidden > 0 {
        let text = format!(
            "See whether anybody still needs what is hidden ({}), and unmount it or what lies over it: no path reaches it, \
             no backup sees it, and it keeps its device busy.",
            which(Kind::Hidden)
        );
        found.add(
            70,
            "mounts",
            plural(hidden, "hidden mount", "hidden mounts"),
            text,
            &commands.mounts,
        );
    }
    if twice > 0 {
        let text = format!(
            "Leave one of the names out of backups and scans (--exclude): {} the same as another mount, and would be gone \
             through once more; -x does not help where both are of one device.",
            if twice == 1 {
                format!("{} shows", which(Kind::Twice))
            } else {
                format!("{} show", which(Kind::Twice))
            }
        );
        let figure = plural(twice, "mount is there twice", "mounts are there twice");
        found.add(52, "mounts", figure, text, &commands.mounts);
    }
    let read_only = count(Kind::ReadOnly);
    if read_only > 0 {
        let text = format!(
            "Look into the kernel's log (dmesg) for {}: it is read-only, and its options say that an error makes it so.",
            which(Kind::ReadOnly)
        );
        found.add(
            68,
            "mounts",
            plural(read_only, "mount is read-only", "mounts are read-only"),
            text,
            &commands.mounts,
        );
    }
}

pub(crate) fn walk(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(walk) = survey.walking.gathered() else {
        return;
    };
    let root = &commands.root;
    // What it costs each time, where that is too much.
    let dear = match walk.bounded {
        Some(bounded) => Some(took(bounded)),
        None if Engines::of(walk).is_none() => {
            unfinished(walk, walk.part.engine).map(|why| beginning(&why))
        }
        None => None,
    };
    if let Some(figure) = dear {
        let text = format!(
            "Go through {} once, by {}, and then ask only for what has changed: fathom walk writes a catalog, and fathom \
             changed holds the tree against it.",
            printable(survey.root),
            walk.part.engine
        );
        let command = format!("fathom walk {root} -x --catalog walk.parquet");
        found.add(81, "walk", figure, text, &command);
    }
    let Some(Engines {
        chosen,
        plain,
        fastest,
    }) = Engines::of(walk)
    else {
        return;
    };
    let spread = |engine: &Engine| Stats::from_values(engine.runs.iter().map(|t| t.real));
    // One run of each tells nothing.
    let several = [chosen.0, fastest.0]
        .iter()
        .all(|engine| engine.runs.len() > 1);
    let apart = spread(chosen.0)
        .zip(spread(fastest.0))
        .is_some_and(|(chosen, fastest)| fastest.max < chosen.min);
    // On a few levels an engine that goes through all tables is at a loss, and on all of them it
    // may not be.
    if fastest.1 * 1.1 < chosen.1 && apart && several && walk.bounded.is_none() {
        let text = format!(
            "Walk {} with --engine {}: it has taken {:.2} ms here, where {}, which is taken by default, took {:.2} ms.",
            printable(survey.root),
            fastest.0.engine,
            fastest.1,
            chosen.0.engine,
            chosen.1
        );
        let figure = format!("{:.1} times as fast", chosen.1 / fastest.1);
        found.add(
            82,
            "walk",
            figure,
            text,
            &format!("fathom walk {root} -x --engine {}", fastest.0.engine),
        );
    } else if let Some(plain) = plain
        && plain.0.engine != chosen.0.engine
        && chosen.1 * 1.1 < plain.1
    {
        let per = |engine: &Engine| {
            format!(
                "{:.3}",
                engine.calls() as f64 / engine.entries.max(1) as f64
            )
        };
        let (fewer, many) = (per(chosen.0), per(plain.0));
        let calls = if fewer == many {
            String::new()
        } else {
            format!("{fewer} calls an entry instead of {many}, and ")
        };
        let part = walk
            .bounded
            .and_then(Bounded::part)
            .map_or(String::new(), |part| format!(" (for {part}, in memory)"));
        let text = format!(
            "Where find, du or a backup goes through {}, let fathom walk, changed or dump do it by {}: {calls}{:.2} ms \
             instead of {:.2} ms{part}.",
            printable(survey.root),
            chosen.0.engine,
            chosen.1,
            plain.1
        );
        let figure = format!("{:.1} times as fast", plain.1 / chosen.1);
        let command = if walk.bounded.is_some() {
            &commands.walk
        } else {
            &commands.tread
        };
        found.add(80, "walk", figure, text, command);
    } else if walk.bounded.is_none() {
        let text = format!(
            "Go through {} once, and then ask only for what has changed: fathom walk writes a catalog, and fathom changed \
             holds the tree against it.",
            printable(survey.root)
        );
        let command = format!("fathom walk {root} -x --catalog walk.parquet");
        found.add(
            55,
            "walk",
            format!("{:.2} ms each time", chosen.1),
            text,
            &command,
        );
    }
    let barred = walk
        .explain
        .iter()
        .find(|row| !row.possible && row.why.contains("run as root"));
    if let Some(barred) = barred.filter(|_| !survey.about.root) {
        let text = format!(
            "Walk as root: then {} can be tried, which goes below the file API. It was left out: {}.",
            barred.engine,
            printable(barred.why.as_bytes())
        );
        let took = walk
            .bounded
            .map_or_else(|| format!("{:.2} ms", chosen.1), took);
        let figure = format!("{took} without root");
        found.add(83, "walk", figure, text, &format!("sudo {}", commands.walk));
    }
}

pub(crate) fn path(survey: &Survey<'_>, found: &mut Weighed) {
    let Some(startup) = survey.starting.gathered() else {
        return;
    };
    let network = startup.path.iter().any(|element| element.network);
    let mut best: Vec<_> = startup
        .started
        .iter()
        .flat_map(|one| one.fixes.iter().map(move |fix| (one, fix)))
        .collect();
    best.sort_by_key(|(_, fix)| (fix.kind != "PATH", std::cmp::Reverse(fix.saves_misses)));
    let mut said: Vec<bool> = Vec::new();
    for (one, fix) in best {
        // To copy everything only helps where it is far away. One of PATH and one of anything else
        // will do.
        let is_path = fix.kind == "PATH";
        if (fix.saves_misses == 0 && !network) || said.contains(&is_path) {
            continue;
        }
        said.push(is_path);
        let change = printable(fix.change.as_bytes());
        let mut letters = change.chars();
        let change = letters.next().map_or(String::new(), |first| {
            first.to_uppercase().chain(letters).collect()
        });
        let text = format!("{change}. For {} it {}.", one.command, fix.saves());
        let figure = match fix.saves_misses {
            0 => format!(
                "{} fewer",
                plural(fix.saves_requests, "request", "requests")
            ),
            misses => format!("{} of {} misses fewer", misses, one.totals.misses),
        };
        // What saves next to nothing is still the best that there is of its kind.
        let much = 20 * fix.saves_misses >= one.totals.misses;
        let weight = match (is_path, much) {
            (true, true) => 75,
            (false, true) => 54,
            (_, false) => 34,
        };
        found.add(
            weight,
            "startup",
            figure,
            text,
            &Commands::start(one.command, ""),
        );
    }
}

pub(crate) fn dump(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(dump) = survey.dumping.gathered() else {
        return;
    };
    let (first, changed) = (dump.first, dump.changed);
    if changed.bytes < first.bytes {
        let text = format!(
            "Dump increments: when one file in a hundred has changed, one reads {} with {} calls, where everything is {} \
             with {} calls. Keep a catalog with the first dump, and give it to the next with --since.",
            sized(changed.bytes),
            changed.calls,
            sized(first.bytes),
            first.calls
        );
        let figure = format!("{} instead of {}", sized(changed.bytes), sized(first.bytes));
        // Of little, all may well be dumped.
        let weight = if first.bytes >= 1 << 20 { 65 } else { 32 };
        let command = format!(
            "fathom dump {} -x -o full.tar --catalog full.parquet",
            commands.root
        );
        found.add(weight, "dump", figure, text, &command);
    }
}

pub(crate) fn calls(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(account) = survey.calls.gathered() else {
        return;
    };
    if let Some(change) = account
        .changes()
        .into_iter()
        .find(|change| change.advised && change.saves_seconds > 0.0)
    {
        let text = format!(
            "Where a program of yours walks as plainly as that: {} ({}). It would make {} calls fewer.",
            change.change,
            printable(change.how.as_bytes()),
            change.saves_calls
        );
        let figure = format!("{:.1} % of the CPU time", change.saves_percent);
        let weight = if change.saves_percent >= 5.0 { 60 } else { 33 };
        // Less than one in a hundred is nothing to change a program for.
        if change.saves_percent >= 1.0 {
            found.add(weight, "account", figure, text, &commands.account);
        }
    }
}

pub(crate) fn file_systems(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(all) = survey.file_systems.gathered() else {
        return;
    };
    let Some(probe) = all.first().map(|one| &one.probe) else {
        return;
    };
    let dir = probe.dir.unwrap_or(survey.root);
    if let Known::Found(block) = Known::of(probe, BLOCK) {
        let ahead = match Known::of(probe, READAHEAD) {
            Known::Found(ahead) => {
                format!(
                    " Who reads from front to back gets {ahead} at a time, however little is asked for."
                )
            }
            _ => String::new(),
        };
        let text = format!(
            "Keep many small things in one file on {}: a byte in a file of its own takes {block} on the disk.{ahead}",
            printable(dir)
        );
        found.add(
            48,
            "probe",
            format!("{block} for one byte"),
            text,
            &commands.probe(dir, "block readahead"),
        );
    }
}

pub(crate) fn prices(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(prices) = survey
        .gates
        .gathered()
        .and_then(|gates| gates.prices.as_deref())
    else {
        return;
    };
    let statx = |state| best_price(prices, "statx", state).map(|price| price.ns);
    if let (Some(warm), Some(cold)) = (statx("warm"), statx("cold"))
        && cold > 3.0 * warm
    {
        let text = format!(
            "Let scans run one after the other rather than hours apart, and leave names and inodes in memory \
             (vm.vfs_cache_pressure below 100): a statx costs {} ns when the file system has to look, and {} ns when \
              not.",
            plain(cold),
            plain(warm)
        );
        found.add(
            46,
            "gates",
            format!("{:.1} times as dear", cold / warm),
            text,
            &commands.gates,
        );
    }
    if let (Some(sync), Some(warm)) = (best_price(prices, "fsync", "warm"), statx("warm"))
        && sync.ns > 10.0 * warm
    {
        let text = format!(
            "Write much before each fsync: one takes {}, as long as {:.0} statx.",
            duration(sync.ns / 1e9),
            sync.ns / warm
        );
        found.add(
            44,
            "gates",
            format!("{} ns an fsync", plain(sync.ns)),
            text,
            &commands.gates,
        );
    }
}

/// What is not known, and how to know it.
pub(crate) fn more(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    if let Some(first) = survey.about.lacking.first().filter(|_| !survey.about.root) {
        let text = format!("Run the survey once as root: {first}.");
        let lacking = survey.about.lacking.len() as u64;
        let figure = plural(lacking, "thing not seen", "things not seen");
        found.add(
            58,
            "steps",
            figure,
            text,
            &format!("sudo fathom survey {}", commands.root),
        );
    }
    for (section, skipped) in survey.skipped() {
        let what = named(section).0.to_lowercase();
        let text = format!(
            "There is nothing on {what} here: {}. The command has it, and takes its time.",
            skipped.why
        );
        found.add(20, section, "not measured".to_owned(), text, skipped.how);
    }
    let text = "Keep a survey as JSON, and take another after the next change of kernel or storage: fathom survey --diff says \
                what has become slower.";
    let command = format!("fathom survey {} --json >before.json", commands.root);
    found.add(
        10,
        "steps",
        format!("{:.1} s each", survey.about.seconds),
        text.to_owned(),
        &command,
    );
    let Some(rows) = survey.mounts.gathered().map(|part| part.mounts.mounts) else {
        return;
    };
    let servers = all(rows).filter(|row| row.server.is_some()).count() as u64;
    if servers > 0 {
        let text = format!(
            "See that {} before a scan goes there: a server that is gone stops whatever waits for it.",
            if servers == 1 {
                "the network mount answers"
            } else {
                "the network mounts answer"
            }
        );
        let figure = plural(servers, "network mount", "network mounts");
        found.add(
            42,
            "mounts",
            figure,
            text,
            &format!("{} --check --servers", commands.mounts),
        );
    }
}
