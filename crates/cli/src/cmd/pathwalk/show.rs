//! The output of `fathom pathwalk`: the lines of LLNL's program, and additional tables and JSON.

use std::time::Duration;

use ::show::table::{Align, Table, TableStyle};
use ::show::units::{count, duration};
use ::show::{columns, json_object};
use account::figures::Figure;
use base::runs::Stats;
use gate::Errno;
use pathwalk::{
    Bucket, DroppedCaches, Event, Histogram, Latency, Operation, PathwalkOptions, PathwalkReport,
    RankPass, Reason, RemovalReport, SearchOptions, SearchPass, SearchReport, Shape,
    StateAfterFailure,
};
use show::figure::Plot;

use crate::error::Error;
use crate::json::Json;
use crate::stats::JsonStats;

pub(crate) struct Report<'a> {
    pub(crate) options: &'a PathwalkOptions,
    pub(crate) report: &'a PathwalkReport,
}

pub(crate) struct Searches<'a> {
    options: &'a SearchOptions,
    report: &'a SearchReport,
}

impl<'a> Report<'a> {
    pub(crate) fn searches(&self) -> Option<Searches<'a>> {
        Some(Searches {
            options: self.options.search.as_ref()?,
            report: self.report.searched.as_ref()?,
        })
    }
}

impl Searches<'_> {
    fn median(&self, value: impl Fn(&SearchPass) -> f64) -> Option<f64> {
        Stats::from_values(self.report.passes.iter().map(value)).map(|stats| stats.median)
    }

    /// All passes of the benchmark with their names.
    fn passes(&self) -> impl Iterator<Item = (String, &SearchPass)> {
        let primed = self.report.primed.iter();
        let numbered = (1..).zip(&self.report.passes);
        let primed = primed.map(|pass| ("prime".to_owned(), pass));
        primed.chain(numbered.map(|(n, pass): (u32, _)| (n.to_string(), pass)))
    }
}

/// Statistics over the ranks of a pass, if there are several: seconds, and lookups per second.
fn spread(pass: &SearchPass) -> Option<[Stats; 2]> {
    if pass.ranks.len() < 2 {
        return None;
    }
    let seconds = pass.ranks.iter().map(|rank| rank.elapsed.as_secs_f64());
    let rates = pass.ranks.iter().map(RankPass::lookups_per_second);
    Some([Stats::from_values(seconds)?, Stats::from_values(rates)?])
}

struct Created(u64, Duration);

struct Ranks<'a>([Stats; 2], &'a [RankPass]);

struct Rank<'a>(usize, &'a RankPass);

json_object!(Report<'_>, |document| {
    name "root": Some(&document.options.root),
    "directories": document.options.shape.length,
    "files": document.options.shape.files,
    "created": document.report.created.map(|elapsed| {
        Created(document.options.shape.objects().unwrap_or(u64::MAX), elapsed)
    }),
    "test": document.searches(),
    "removed": Json(&document.report.removed),
});

/// The figures that `fathom compare` compares. `real` and `calls` are the time and the lookups of a
/// search.
pub(crate) fn figures(document: &Report<'_>) -> Vec<Figure> {
    let passes = document.report.searched.as_ref().map(|it| &it.passes[..]);
    let trials = |name: &str, unit, value: fn(&SearchPass) -> f64| {
        Figure::from_trials(name, passes?.iter().map(value), unit)
    };
    let single = |name: &str, elapsed: Duration| Figure::single(name, elapsed.as_secs_f64(), "s");
    let created = document.report.created;
    let removed = document.report.removed.as_ref();
    let figures = [
        trials("real", "s", |pass| pass.elapsed.as_secs_f64()),
        trials("calls", "calls", |pass| pass.lookups as f64),
        trials("failed lookups", "calls", |pass| pass.misses() as f64),
        created.map(|elapsed| single("creation seconds", elapsed)),
        removed.map(|removed| single("removal seconds", removed.elapsed)),
    ];
    figures.into_iter().flatten().collect()
}

json_object!(Created, |created| {
    "objects": created.0,
    "seconds": created.1.as_secs_f64(),
});

json_object!(Json<'_, RemovalReport>, |removed| {
    "objects": removed.objects,
    "left": removed.left,
    "seconds": removed.elapsed.as_secs_f64(),
});

json_object!(Searches<'_>, |searches| {
    "method": searches.options.method.name(),
    "threads": searches.options.threads,
    "ranks": searches.report.passes.first().map_or(1, |pass| pass.ranks.len()),
    "fails": searches.options.absent,
    "forgot": Json(&searches.report.dropped),
    "seconds": searches.median(|pass| pass.elapsed.as_secs_f64()),
    "lookups_per_second": searches.median(SearchPass::lookups_per_second),
    "miss_share": searches.median(SearchPass::miss_share),
    "first_to_second": searches.report.first_to_second(),
    "primed": Json(&searches.report.primed),
    "passes": Json(&searches.report.passes[..]),
});

json_object!(Json<'_, DroppedCaches>, |dropped| {
    "what": words_for_dropped(**dropped).0,
    "kept": words_for_dropped(**dropped).1,
});

json_object!(Json<'_, SearchPass>, |pass| {
    "files": pass.files,
    "found": pass.found,
    "lookups": pass.lookups,
    "misses": pass.misses(),
    "failed": pass.failed,
    "seconds": pass.elapsed.as_secs_f64(),
    "lookups_per_second": pass.lookups_per_second(),
    "latency": Json(&pass.latency),
    "ranks": spread(pass).map(|spread| Ranks(spread, &pass.ranks)),
});

json_object!(Json<'_, Latency>, |latency| {
    "all": Json(&latency.all()),
    "hits": Json(&latency.hits),
    "misses": Json(&latency.misses),
});

json_object!(Json<'_, Histogram>, |histogram| {
    "calls": histogram.calls(),
    "min": histogram.min(),
    "mean": histogram.mean(),
    "p50": histogram.percentile(0.5),
    "p90": histogram.percentile(0.9),
    "p99": histogram.percentile(0.99),
    "p999": histogram.percentile(0.999),
    "max": histogram.max(),
    "histogram": Json(&histogram.buckets().collect::<Vec<_>>()[..]),
});

json_object!(Json<'_, Bucket>, |bucket| {
    "from": bucket.from,
    "to": bucket.to,
    "calls": bucket.calls,
});

json_object!(Ranks<'_>, |ranks| {
    "seconds": JsonStats(ranks.0[0]),
    "lookups_per_second": JsonStats(ranks.0[1]),
    "each": ranks.1.iter().enumerate().map(|(rank, pass)| Rank(rank, pass)).collect::<Vec<_>>(),
});

json_object!(Rank<'_>, |rank| {
    "rank": rank.0,
    "found": rank.1.found,
    "lookups": rank.1.lookups,
    "seconds": rank.1.elapsed.as_secs_f64(),
    "lookups_per_second": rank.1.lookups_per_second(),
});

/// The dropped caches, if any, and the caches that can still be filled.
fn words_for_dropped(dropped: DroppedCaches) -> (Option<&'static str>, &'static str) {
    match dropped {
        DroppedCaches::Nothing => (None, "everything"),
        DroppedCaches::Cgroup => (
            Some("cached names, inodes and pages of this process's memory cgroup"),
            "those in use, those of other cgroups, and the caches of servers and disks",
        ),
        DroppedCaches::Host => (
            Some("cached names, inodes and pages of the host"),
            "those in use, and the caches of servers and disks",
        ),
    }
}

/// The line that LLNL's program prints after a step.
pub(crate) fn event_line(event: Event<'_>, shape: Shape) -> String {
    let (what, elapsed) = match event {
        Event::Created(elapsed) => {
            let objects = shape.objects().unwrap_or(u64::MAX);
            (format!("Created {objects} objects"), elapsed)
        }
        Event::Searched(pass) => {
            let (found, files, directories) = (pass.found, pass.files, shape.length);
            let what = format!("Found {found}/{files} files in {directories} directories");
            (what, pass.elapsed)
        }
        Event::Removed(RemovalReport {
            objects, elapsed, ..
        }) => (format!("Removed {objects} objects"), elapsed),
    };
    format!("pathwalk: {what} in {}\n", seconds(elapsed))
}

/// Seconds with three decimal places, truncated as LLNL's program does.
fn seconds(elapsed: Duration) -> String {
    format!("{}.{:03}s", elapsed.as_secs(), elapsed.subsec_millis())
}

pub(crate) fn tables(searches: &Searches<'_>, style: TableStyle) -> String {
    let mut text = passes_table(searches, style);
    text += &latency_table(searches, style);
    text += &ranks_table(searches, style);
    if let Some(ratio) = searches.report.first_to_second() {
        text += &style.wrapped(&format!(
            "\nThe first search took {ratio:.2} times as long as the second."
        ));
    }
    if let Some((Some(what), kept)) = searches.report.dropped.map(words_for_dropped) {
        text += &style.wrapped(&format!(
            "\nDropped before the first search: {what}. Not dropped: {kept}."
        ));
    }
    text
}

fn passes_table(searches: &Searches<'_>, style: TableStyle) -> String {
    let columns = columns![
        <"SEARCH", >"TIME", >"LOOKUPS", >"LOOKUPS/S", >"FAILED", <"METHOD", >"THREADS"
    ];
    let rows = searches.passes().map(|(name, pass)| {
        [
            name,
            duration(pass.elapsed.as_secs_f64()),
            count(pass.lookups),
            count(pass.lookups_per_second() as u64),
            format!("{:.1} %", 100.0 * pass.miss_share()),
            searches.options.method.name().to_owned(),
            searches.options.threads.to_string(),
        ]
    });
    table(&columns, rows, style)
}

fn latency_table(searches: &Searches<'_>, style: TableStyle) -> String {
    let columns = columns![
        <"SEARCH", <"RESULT", >"CALLS", >"P50", >"P90", >"P99", >"P99.9", >"MAX", >"MEAN", >"MIN"
    ];
    let row = |name: String, kind: &str, histogram: &Histogram| {
        let time = |nanos: f64| duration(nanos / 1e9);
        let cell = |value: Option<u64>| value.map_or(String::new(), |nanos| time(nanos as f64));
        [
            name,
            kind.to_owned(),
            count(histogram.calls()),
            cell(histogram.percentile(0.5)),
            cell(histogram.percentile(0.9)),
            cell(histogram.percentile(0.99)),
            cell(histogram.percentile(0.999)),
            cell(histogram.max()),
            histogram.mean().map_or(String::new(), time),
            cell(histogram.min()),
        ]
    };
    let mut rows = Vec::new();
    for (name, pass) in searches.passes() {
        let Some(latency) = &pass.latency else {
            continue;
        };
        let (all, hits, misses) = (&latency.all(), &latency.hits, &latency.misses);
        let kinds = [("all", all), ("found", hits), ("failed", misses)];
        let called = kinds.into_iter().filter(|(_, kind)| kind.calls() > 0);
        rows.extend(called.map(|(kind, histogram)| row(name.clone(), kind, histogram)));
    }
    table(&columns, rows, style)
}

fn ranks_table(searches: &Searches<'_>, style: TableStyle) -> String {
    let columns = columns![
        <"SEARCH", >"RANKS", >"TIME MIN", >"MEAN", >"MAX", >"LOOKUPS/S MIN", >"MEAN", >"MAX"
    ];
    let rows = searches.passes().filter_map(|(name, pass)| {
        let [seconds, rates] = spread(pass)?;
        Some([
            name,
            pass.ranks.len().to_string(),
            duration(seconds.min),
            duration(seconds.mean),
            duration(seconds.max),
            count(rates.min as u64),
            count(rates.mean as u64),
            count(rates.max as u64),
        ])
    });
    table(&columns, rows, style)
}

/// A table after an empty line; the empty string without rows.
fn table<const N: usize>(
    columns: &[(&str, Align); N],
    rows: impl IntoIterator<Item = [String; N]>,
    style: TableStyle,
) -> String {
    let table = Table::from_rows(columns, rows);
    if table.is_empty() {
        return String::new();
    }
    format!("\n{}", table.to_text(style.width, style.color))
}

/// The plots, each with its file name: latency by percentile in the first and the last pass; and,
/// for several passes, the time of each.
pub(crate) fn plots(searches: &Searches<'_>) -> Vec<(String, Plot)> {
    let SearchReport { passes, .. } = searches.report;
    let method = searches.options.method.name();
    let ends = [1, passes.len()];
    let mut plots = Vec::new();
    for (n, pass) in (1..).zip(passes).filter(|(n, _)| ends.contains(n)) {
        let Some(latency) = &pass.latency else {
            continue;
        };
        let all = latency.all();
        let calls = all.calls();
        let note = match (all.percentile(0.5), all.percentile(0.99)) {
            (Some(p50), Some(p99)) => {
                format!("median {p50} ns, 99th percentile {p99} ns, {calls} calls")
            }
            _ => "no calls".to_owned(),
        };
        let plot = Plot {
            title: format!("Lookups by {method}, search {n}"),
            note,
            x: "percentile, as number of nines: 1 is 90 %, 2 is 99 %, 3 is 99.9 %".to_owned(),
            y: "latency in ns".to_owned(),
            points: nines(&all),
            marks: Vec::new(),
        };
        plots.push((format!("pathwalk-latency-{n}"), plot));
    }
    if passes.len() > 1 {
        let ratio = searches.report.first_to_second();
        let seconds = passes.iter().map(|pass| pass.elapsed.as_secs_f64());
        let plot = Plot {
            title: format!("Searches by {method}"),
            note: ratio.map_or(String::new(), |ratio| {
                format!("the first took {ratio:.2} times as long as the second")
            }),
            x: "search".to_owned(),
            y: "seconds".to_owned(),
            points: (1..).map(f64::from).zip(seconds).collect(),
            marks: vec![0],
        };
        plots.push(("pathwalk-searches".to_owned(), plot));
    }
    plots
}

/// Points of latency over nines: -log10 of the share of calls that are slower.
fn nines(histogram: &Histogram) -> Vec<(f64, f64)> {
    let calls = histogram.calls();
    let max = histogram.max().unwrap_or(u64::MAX);
    let mut seen = 0;
    let point = |bucket: Bucket| {
        seen += bucket.calls;
        // No call is slower than those in the last bucket, which would mean infinitely many nines,
        // so assume one slower call.
        let exceeding = calls.saturating_sub(seen).max(1) as f64;
        let nines = (calls as f64 / exceeding).log10();
        (nines, bucket.to.min(max) as f64)
    };
    histogram.buckets().map(point).collect()
}

/// The error of the benchmark on a tree of this shape, with the files it left behind, and a hint.
pub(crate) fn error(error: &pathwalk::Error, shape: Shape) -> Error {
    let mut hint = hint(error, shape).unwrap_or_default();
    let aftermath = match error.aftermath {
        None => None,
        Some(StateAfterFailure::NothingLeft) => Some("the tree was removed again".to_owned()),
        Some(StateAfterFailure::PartlyLeft) => {
            hint = "remove the rest with fathom pathwalk -r and the same -l and -f".to_owned();
            Some("part of the tree is left".to_owned())
        }
        Some(StateAfterFailure::FilesRemoved(files)) => Some(format!("{files} files were removed")),
    };
    let operation = error.operation.to_string();
    match (error.reason, aftermath) {
        (Reason::Errno(errno), None) => Error::read(&operation, &error.path, errno, &hint),
        (reason, None) => Error::read(&operation, &error.path, reason.to_string(), &hint),
        (reason, Some(aftermath)) => {
            let cause = format!("{reason}; {aftermath}");
            Error::read(&operation, &error.path, cause, &hint)
        }
    }
}

fn hint(error: &pathwalk::Error, Shape { length, files }: Shape) -> Option<String> {
    let hint = match (error.operation, error.reason) {
        (Operation::Find | Operation::SearchPast, _) => {
            return Some(format!(
                "use the -l and -f with which the tree was created, not -l {length} -f {files}"
            ));
        }
        (_, Reason::TooFewInodes { .. }) => "use a smaller -l or -f",
        (_, Reason::PathsTooLarge { .. }) => "use a smaller -l",
        (_, Reason::OutOfMemory) => "use a smaller -l",
        (Operation::StartThread, _) => "use fewer --threads",
        (Operation::OpenAll, Reason::Errno(Errno::EMFILE | Errno::ENFILE)) => {
            "use a smaller -l, or another --method"
        }
        (Operation::OpenAll, Reason::Errno(_)) => {
            return Some(format!(
                "use the -l with which the tree was created, not {length}"
            ));
        }
        (operation, Reason::Errno(errno)) => hint_by_errno(operation, errno)?,
        _ => return None,
    };
    Some(hint.to_owned())
}

fn hint_by_errno(operation: Operation, errno: Errno) -> Option<&'static str> {
    Some(match (operation, errno) {
        (Operation::CreateRoot, Errno::EEXIST) => {
            "give a name that does not exist; if it is a tree of pathwalk, remove it with -r first"
        }
        (Operation::CreateRoot, Errno::ENOENT) => "create its parent directory first",
        (Operation::CreateRoot, Errno::EACCES | Errno::EROFS) => {
            "use a directory that you may write to"
        }
        (Operation::Create, Errno::ENOSPC) => {
            "use a smaller -l or -f, or free space and inodes (df, df -i)"
        }
        (Operation::Create, Errno::EDQUOT) => "use a smaller -l or -f, or get a larger quota",
        (Operation::Search, Errno::ENOENT) => "create the tree with -c",
        (Operation::Remove, Errno::ENOENT) => "check the path of the tree",
        (Operation::Remove, Errno::ELOOP | Errno::ENOTDIR) => {
            "use the path of the directory that -c created, not a symlink"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency() -> Latency {
        let mut latency = Latency::default();
        (0..90).for_each(|_| latency.misses.record(410));
        (0..9).for_each(|_| latency.misses.record(810));
        latency.hits.record(820);
        latency
    }

    fn pass(elapsed: Duration, ranks: u32) -> SearchPass {
        let files = 10 * u64::from(ranks);
        let rank = |n| RankPass {
            found: 10,
            lookups: 160,
            elapsed: elapsed / n,
        };
        SearchPass {
            files,
            found: files,
            lookups: 16 * files,
            failed: 0,
            elapsed,
            latency: Some(latency()),
            ranks: (1..=ranks).map(rank).collect(),
        }
    }

    fn options() -> PathwalkOptions {
        PathwalkOptions {
            root: b"\xff".to_vec(),
            shape: Shape {
                length: 16,
                files: 10,
            },
            create: false,
            search: Some(SearchOptions {
                absent: false,
                prime: false,
                method: pathwalk::Method::Stat,
                threads: 1,
                passes: 2,
                latency: true,
                drop_caches: None,
            }),
            remove: false,
        }
    }

    fn report(ranks: u32) -> PathwalkReport {
        let [first, second] = [400, 200].map(|ms| pass(Duration::from_millis(ms), ranks));
        PathwalkReport {
            searched: Some(SearchReport {
                primed: None,
                passes: vec![first, second],
                dropped: Some(DroppedCaches::Host),
            }),
            ..PathwalkReport::default()
        }
    }

    #[test]
    fn output_lines_equal_those_of_llnl() {
        let shape = Shape::default();
        let created = Event::Created(Duration::from_micros(2_381_999));
        assert_eq!(
            event_line(created, shape),
            "pathwalk: Created 160001 objects in 2.381s\n"
        );
        let pass = SearchPass {
            found: 10_000,
            files: 10_000,
            elapsed: Duration::from_millis(161),
            ..SearchPass::default()
        };
        assert_eq!(
            event_line(Event::Searched(&pass), shape),
            "pathwalk: Found 10000/10000 files in 16 directories in 0.161s\n"
        );
        let removed = RemovalReport {
            objects: 160_001,
            left: 0,
            elapsed: Duration::from_millis(1469),
        };
        assert_eq!(
            event_line(Event::Removed(removed), shape),
            "pathwalk: Removed 160001 objects in 1.469s\n"
        );
        assert_eq!(seconds(Duration::from_millis(12_005)), "12.005s");
    }

    #[test]
    fn tables_and_json_have_what_the_lines_do_not() {
        let options = options();
        let (alone, three) = (report(1), report(3));
        let [alone, three] = [&alone, &three].map(|report| Report {
            options: &options,
            report,
        });
        let style = TableStyle {
            width: None,
            tree: false,
            color: false,
        };
        let text = tables(&alone.searches().unwrap(), style);
        for words in [
            "stat",
            "400 ms",
            "410 ns",
            "93.8 %",
            "P99.9",
            "820 ns",
            "2.00 times as long",
            "Dropped",
        ] {
            assert!(text.contains(words), "no {words}:\n{text}");
        }
        assert!(!text.contains("RANKS"));
        assert!(tables(&three.searches().unwrap(), style).contains("RANKS"));
        let json = serde_json::to_value(&three).unwrap();
        assert_eq!(json["root_b64"], "/w==");
        assert_eq!(json["test"]["ranks"], 3);
        assert_eq!(json["test"]["first_to_second"], 2.0);
        assert_eq!(json["test"]["passes"][0]["ranks"]["each"][2]["rank"], 2);
        assert_eq!(json["test"]["passes"][0]["latency"]["all"]["p999"], 820);
        assert!(serde_json::to_value(&alone).unwrap()["test"]["passes"][0]["ranks"].is_null());
    }

    #[test]
    fn a_plot_has_a_point_for_each_bucket() {
        let (options, report) = (options(), report(1));
        let report = Report {
            options: &options,
            report: &report,
        };
        let plots = plots(&report.searches().unwrap());
        let names: Vec<&str> = plots.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(
            names,
            [
                "pathwalk-latency-1",
                "pathwalk-latency-2",
                "pathwalk-searches"
            ]
        );
        assert_eq!(
            plots[0].1.points,
            [(1.0, 411.0), (2.0, 811.0), (2.0, 820.0)]
        );
        assert_eq!(plots[2].1.points, [(1.0, 0.4), (2.0, 0.2)]);
    }
}
