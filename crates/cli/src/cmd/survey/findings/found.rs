//! The findings: what stands out in each section.

use super::{Engines, Weighed, beginning, names, of_kind, took, unfinished};
use crate::cmd::survey::commands::Commands;
use crate::cmd::survey::known::{BLOCK, Known, READAHEAD, best_price, bounded_by};
use crate::cmd::survey::odd::{Kind, odd};
use crate::cmd::survey::survey::Survey;
use report::compare::{Method, median_ms};
use report::probe::{Probe, plain};
use report::walk::{Bounded, Section};
use show::name::printable;
use show::units::{duration, plural, size, sized};

pub(crate) fn mounts(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(part) = survey.mounts.gathered() else {
        return;
    };
    let rows = part.mounts.mounts;
    let odd = odd(rows);
    let count = plural(rows.len() as u64, "mount", "mounts");
    let kinds: Vec<String> = Kind::ALL
        .into_iter()
        .map(|kind| (kind, of_kind(&odd, kind)))
        .filter(|(_, targets)| targets.clone().next().is_some())
        .map(|(kind, targets)| {
            format!(
                "{} {} ({})",
                targets.clone().count(),
                kind.are(),
                names(targets)
            )
        })
        .collect();
    let root = printable(survey.root);
    let text = match (rows.len(), kinds.is_empty()) {
        (0, _) => format!("Nothing is mounted at or under {root}."),
        (1, true) => format!("{count} at or under {root}, and nothing is odd about it."),
        (_, true) => format!("{count} at or under {root}, and nothing is odd about them."),
        (_, false) => format!(
            "{count} at or under {root}, {} of them odd: {}.",
            odd.len(),
            kinds.join("; ")
        ),
    };
    let bad = of_kind(&odd, Kind::Unanswering).next().is_some();
    let figure = format!("{count}, {} odd", odd.len());
    let command = if bad {
        format!("{} --check", commands.mounts)
    } else {
        commands.mounts.clone()
    };
    found.add(if bad { 100 } else { 90 }, "mounts", figure, text, &command);

    let real = |method: &&Method| median_ms(&method.runs, |t| t.real);
    let by = part
        .methods()
        .iter()
        .find(|method| method.by == part.mounts.by);
    let dearest = part
        .methods()
        .iter()
        .max_by(|a, b| real(a).unwrap_or(0.0).total_cmp(&real(b).unwrap_or(0.0)));
    if let (Some(by), Some(dearest)) = (by, dearest)
        && let (Some(ms), Some(dear)) = (real(&by), real(&dearest))
        && dearest.by != by.by
    {
        let text = format!(
            "The mounts are found by {} in {ms:.2} ms and {} calls. The dearest way that was tried, {}, takes \
             {dear:.2} ms and {} calls.",
            by.by,
            by.calls(),
            dearest.by,
            dearest.calls()
        );
        found.add(
            30,
            "mounts",
            format!("{ms:.2} ms to find the mounts"),
            text,
            &commands.compare,
        );
    }
}

pub(crate) fn file_systems(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(all) = survey.file_systems.gathered() else {
        return;
    };
    let Some(first) = all.first().map(|one| &one.probe) else {
        return;
    };
    let dir = first.dir.unwrap_or(survey.root);
    let shown = printable(dir);
    let ([block, ahead], cache) = (
        [BLOCK, READAHEAD].map(|names| Known::of(first, names)),
        Known::cache(first),
    );
    let mut parts: Vec<String> = [("block", &block), ("readahead", &ahead), ("cache", &cache)]
        .into_iter()
        .filter(|(_, known)| **known != Known::NotAsked)
        .map(|(what, known)| format!("{what} {known}"))
        .collect();
    if let (Some(memory), true) = (survey.about.memory, cache == Known::NotAsked) {
        parts.push(format!("cache up to {}", size(memory)));
    }
    if !parts.is_empty() {
        let fstype = first
            .fstype
            .map_or(String::new(), |fstype| format!(" ({})", printable(fstype)));
        let told = |known: &Known, found: &str, what: &str| match known {
            Known::Found(value) => Some(found.replace('%', value)),
            Known::KernelsWord(value) => {
                Some(format!("{what} cannot be told (the kernel says {value})"))
            }
            Known::UpTo(value) => Some(format!("{what} is at most {value}")),
            Known::CannotTell => Some(format!("{what} cannot be told")),
            Known::NotAsked => None,
        };
        let memory = match (&cache, survey.about.memory) {
            (Known::NotAsked, Some(memory)) => Some(format!(
                "how much of it stays in memory was not measured, and is at most the {} of memory that there are ({})",
                size(memory),
                commands.probe(dir, "cache")
            )),
            (Known::UpTo(most), _) => Some(format!(
                "what was read stays in memory as long as there is room, up to {most} ({})",
                bounded_by(first)
            )),
            _ => told(
                &cache,
                "% of it stay in memory",
                "how much of it stays in memory",
            ),
        };
        let block = told(
            &block,
            "a file grows by % at a time",
            "by how much a file grows",
        );
        let ahead = told(
            &ahead,
            "reading on, % come at a time",
            "how far is read ahead",
        );
        let told: Vec<String> = [block, ahead, memory].into_iter().flatten().collect();
        let others = match all.len() {
            1 => String::new(),
            n => format!(
                " {} more below.",
                plural(n as u64 - 1, "file system", "file systems")
            ),
        };
        let text = format!("On {shown}{fstype}, {}.{others}", told.join("; "));
        found.add(
            80,
            "probe",
            parts.join(", "),
            text,
            &commands.probe(dir, experiments(first)),
        );
    }
    for probe in all.iter().map(|one| &one.probe) {
        let against = probe
            .experiments
            .iter()
            .find(|found| found.agrees == Some(false) && !found.by_time);
        if let Some(one) = against
            && let (Some(inferred), Some(truth)) = (&one.inferred, &one.truth)
        {
            let dir = probe.dir.unwrap_or(survey.root);
            let (is, says) = (inferred.text(one.unit), truth.text(one.unit));
            let text = format!(
                "On {}, what was seen is not what the kernel says: the {} is {is}, where the kernel says {says}.",
                printable(dir),
                one.name
            );
            found.add(
                70,
                "probe",
                format!("{is}, not {says}"),
                text,
                &commands.probe(dir, one.experiment),
            );
            break;
        }
    }
}

/// What to ask for to have this again.
fn experiments(probe: &Probe<'_>) -> &'static str {
    let has = |name: &str| {
        probe
            .experiments
            .iter()
            .any(|found| found.experiment == name)
    };
    match (has("cache"), has("extent")) {
        (false, false) => "block readahead",
        (true, false) => "block readahead cache",
        (false, true) => "block readahead extent",
        (true, true) => "block readahead cache extent",
    }
}

/// A walk that needs more than a survey may use: how far it came, what all of it would take, and
/// how the engines compare on a part.
fn bounded_walk(
    survey: &Survey<'_>,
    walk: &Section<'_>,
    bounded: &Bounded,
    commands: &Commands,
    found: &mut Weighed,
) {
    let root = printable(survey.root);
    let mut text = format!(
        "A walk of {root} needs more than a survey may use: {}.",
        bounded.stopped()
    );
    text.extend(
        bounded
            .estimate()
            .map(|estimate| format!(" At a guess {estimate}.")),
    );
    if let (
        Some(part),
        Some(Engines {
            chosen: (engine, ms),
            plain,
            ..
        }),
    ) = (bounded.part(), Engines::of(walk))
    {
        let entries = plural(engine.entries, "entry", "entries");
        text.push_str(&format!(
            " In memory, {} goes through {part} ({entries}) in {ms:.2} ms",
            engine.engine
        ));
        if let Some((_, slow)) = plain.filter(|(plain, _)| plain.engine != engine.engine) {
            text.push_str(&format!(
                "; one call after the other, as find does it, takes {slow:.2} ms"
            ));
            if slow > ms {
                text.push_str(&format!(" ({:.1} times as long)", slow / ms));
            }
        }
        text.push('.');
    }
    let figure = match bounded.inodes.filter(|_| bounded.whole_seconds.is_some()) {
        Some(inodes) => format!("{} for {inodes} files", took(bounded)),
        None => took(bounded),
    };
    found.add(85, "walk", figure, text, &commands.tread);
}

pub(crate) fn walk(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(walk) = survey.walking.gathered() else {
        return;
    };
    if let Some(bounded) = walk.bounded {
        bounded_walk(survey, walk, bounded, commands, found);
        return disagreement(walk, commands, found);
    }
    let Some(Engines {
        chosen: (engine, ms),
        plain,
        ..
    }) = Engines::of(walk)
    else {
        if let Some(why) = unfinished(walk, walk.part.engine) {
            let plain = unfinished(walk, "stat").filter(|_| walk.part.engine != "stat");
            let plain = plain.map_or(String::new(), |why| {
                format!(" One call after the other, as find does it, was {why}.")
            });
            let text = format!(
                "A walk of {} needs more than a survey may use. By {}, the engine for it, it was {why}.{plain} The command goes \
                 on to its end.",
                printable(survey.root),
                walk.part.engine
            );
            found.add(85, "walk", beginning(&why), text, &commands.walk);
        }
        return;
    };
    let entries = plural(engine.entries, "entry", "entries");
    let beside = match plain {
        Some((plain, _)) if plain.engine == engine.engine => {
            ", one call after the other, as find does it".to_owned()
        }
        Some((plain, slow)) => format!(
            "; one call after the other, as find does it, takes {slow:.2} ms and {} calls ({:.1} times as long)",
            plain.calls(),
            slow / ms
        ),
        None => String::new(),
    };
    let text = format!(
        "A walk of {} goes through {entries} in {ms:.2} ms and {} calls by {}{beside}.",
        printable(survey.root),
        engine.calls(),
        engine.engine
    );
    found.add(
        85,
        "walk",
        format!("{ms:.2} ms for {entries}"),
        text,
        &commands.walk,
    );
    disagreement(walk, commands, found);
}

fn disagreement(walk: &Section<'_>, commands: &Commands, found: &mut Weighed) {
    if walk.compare.agree {
        return;
    }
    // Of a tree at rest each engine finds the same again; of one in use none does, and nothing is
    // wrong.
    let at_rest = walk.compare.engines.iter().all(|engine| engine.steady);
    let (weight, figure, text) = if at_rest {
        let text = "The engines have not all found the same, and each has found the same every time: one of them is wrong.";
        (95, "The engines differ", text)
    } else {
        let text = "The engines have not all found the same: something was changed while they walked, which is no fault where the \
                    tree is in use.";
        (35, "The tree changes", text)
    };
    found.add(
        weight,
        "walk",
        figure.to_owned(),
        text.to_owned(),
        &commands.walk,
    );
}

pub(crate) fn path(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(startup) = survey.starting.gathered() else {
        return;
    };
    let count = |state: &str| {
        startup
            .path
            .iter()
            .filter(|element| element.state == state)
            .count() as u64
    };
    let (dead, again) = (count("dead"), count("again"));
    let mut text = plural(
        startup.path.len() as u64,
        "directory stands in PATH",
        "directories stand in PATH",
    );
    let useless: Vec<String> = [(dead, "not there"), (again, "in it twice")]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} {what}"))
        .collect();
    if !useless.is_empty() {
        text.push_str(&format!(" ({})", useless.join(", ")));
    }
    text.push('.');
    let mut figure = format!(
        "{} in PATH",
        plural(startup.path.len() as u64, "directory", "directories")
    );
    if let Some(first) = startup.started.first() {
        figure = format!(
            "{} of {} look-ups miss",
            first.totals.misses, first.totals.lookups
        );
    }
    for one in &startup.started {
        text.push_str(&format!(
            " To start {}, {} names are looked up, {} of them in vain ({}); with everything on a network file system \
             that would take {}.",
            one.command,
            one.totals.lookups,
            one.totals.misses,
            duration(one.totals.seconds),
            duration(one.seconds_far)
        ));
    }
    found.add(75, "startup", figure, text, &commands.pathsearch);
}

pub(crate) fn dump(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(dump) = survey.dumping.gathered() else {
        return;
    };
    let (none, first) = (dump.unchanged, dump.first);
    let ms = format!("{:.2} ms", 1000.0 * none.cpu_seconds);
    let text = format!(
        "A nightly dump in which nothing has changed costs {} calls and {ms} of CPU time. The first one reads {} in {}.",
        none.calls,
        sized(first.bytes),
        plural(first.files, "file", "files")
    );
    found.add(
        50,
        "dump",
        format!("{ms} of CPU time a night"),
        text,
        &commands.dump,
    );
}

pub(crate) fn calls(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(account) = survey.calls.gathered() else {
        return;
    };
    let dearest = account
        .gates
        .iter()
        .max_by(|a, b| a.1.seconds.total_cmp(&b.1.seconds));
    if let Some((name, gate)) = dearest {
        let text = format!(
            "Of the time that a plain walk spends in calls, {:.1} % goes to {name}: {} calls of {:.6} ms.",
            gate.percent, gate.calls, gate.ms_per_call
        );
        found.add(
            40,
            "account",
            format!("{:.1} % in {name}", gate.percent),
            text,
            &commands.account,
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
    let Some(warm) = best_price(prices, "statx", "warm") else {
        return;
    };
    let warm = format!("{} ns", plain(warm.ns));
    let (figure, cold) = match best_price(prices, "statx", "cold") {
        Some(cold) => (
            format!("{warm} warm, {} ns cold", plain(cold.ns)),
            format!(
                ", and {} ns when the file system has to look",
                plain(cold.ns)
            ),
        ),
        None => (format!("{warm} a statx"), String::new()),
    };
    let empty = best_price(prices, "getppid", "warm");
    let empty = empty.map_or(String::new(), |empty| {
        format!(" A call that does nothing costs {} ns.", plain(empty.ns))
    });
    let text = format!(
        "To ask for a file's metadata (statx) costs {warm} when it is in memory{cold}.{empty}"
    );
    found.add(45, "gates", figure, text, &commands.gates);
}
