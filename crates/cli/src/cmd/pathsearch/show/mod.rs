//! The output of `fathom pathsearch`.

use std::cmp::Reverse;
use std::collections::HashMap;

use ::show::name::printable;
use ::show::table::{RowColour, Table, TableStyle};
use ::show::units::{count, duration, plural};
use ::show::{columns, json_object};
use account::figures::Figure;
use pathsearch::{
    ClientBehavior, Count, DirectoryReport, ElementState, Fix, Kind, KindCounts, PathElement,
    Prediction, RemoteScope, Request, Search, SearchReport, Totals,
};

use crate::json::Json;
use crate::out::seconds;

mod fixes;

use fixes::change_text;
pub(crate) use fixes::{fix_sentence, fixes};

pub(crate) struct Report<'a>(pub(crate) &'a SearchReport);

pub(crate) struct KindCount(Kind, Count);

struct RequestRow<'a>(Request, &'a Prediction);

json_object!(Report<'_>, |report| {
    "searches": Json(&report.0.trace.searches[..]),
    "directories": Json(&report.0.directories[..]),
    "totals": Json(&report.0.trace.totals),
    "kinds": kind_counts(&report.0.kinds()),
    "predicted": Json(&report.0.prediction),
    "fixes": Json(&report.0.fixes[..]),
    "path": Json(&report.0.path[..]),
    name "better_path": report.0.better_path.as_ref().map(|better| &better.path[..]),
    "meter": report.0.metered.meter,
    "times": if report.0.is_estimate() { "estimated" } else { "measured" },
    "why": report.0.metered.choice.to_string(),
    "lost": report.0.metered.lost,
    "seconds": report.0.metered.real.as_secs_f64(),
    "overhead_seconds": report.0.metered.overhead.as_secs_f64(),
    "exit": report.0.metered.ended.status(),
});

/// The figures that `fathom compare` compares. `calls` is the number of lookups.
pub(crate) fn figures(report: &SearchReport) -> Vec<Figure> {
    let (totals, prediction) = (&report.trace.totals, &report.prediction);
    let calls = |name, calls: u64| Figure::single(name, calls as f64, "calls");
    vec![
        Figure::single("real", report.metered.real.as_secs_f64(), "s"),
        calls("calls", totals.lookups),
        calls("failed lookups", totals.misses),
        Figure::single("seconds in lookups", seconds(totals.nanos), "s"),
        Figure::single("predicted remote seconds", prediction.cold.seconds, "s"),
        Figure::single(
            "predicted remote seconds, cached",
            prediction.warm.seconds,
            "s",
        ),
    ]
}

json_object!(Json<'_, Search>, |search| {
    "kind": search.kind.name(),
    name "name": Some(&search.name),
    "pid": search.pid,
    name "program": Some(&search.program),
    names "tried": Some(&search.tried.iter().map(|tried| &tried.path[..]).collect::<Vec<_>>()),
    name "found": search.found.as_deref(),
    "misses": search.misses(),
    "refused": search.refused(),
    "seconds": seconds(search.nanos),
});

json_object!(Json<'_, DirectoryReport>, |directory| {
    name "dir": Some(&directory.dir),
    "kind": directory.lookups.kind().name(),
    name "fstype": directory.fstype.as_deref(),
    "network": directory.network,
    "hits": directory.lookups.counts.total().hits,
    "misses": directory.lookups.counts.total().misses,
    "seconds": seconds(directory.lookups.nanos),
    "kinds": kind_counts(&directory.lookups.counts),
});

json_object!(KindCount, |count| {
    "kind": count.0.name(),
    "hits": count.1.hits,
    "misses": count.1.misses,
});

json_object!(Json<'_, Totals>, |totals| {
    "lookups": totals.lookups,
    "misses": totals.misses,
    "seconds": seconds(totals.nanos),
});

json_object!(Json<'_, Prediction>, |prediction| {
    "rtt": prediction.rtt(),
    "rtt_source": prediction.rtt_source.name(),
    "about": match prediction.scope {
        RemoteScope::Network => "network",
        RemoteScope::Everything => "everything",
        RemoteScope::Directories(_) => "directories",
    },
    names "directories": Some(&remote_directories(prediction)),
    "nodes": prediction.model.nodes,
    "server_rate": prediction.model.server_rate,
    "seconds": prediction.cold.seconds,
    "seconds_warm": prediction.warm.seconds,
    "seconds_at_least": prediction.cold.at_least,
    "seconds_own": prediction.model.compute,
    "server_busy": prediction.cold.utilization,
    "requests": Request::ALL.map(|request| RequestRow(request, prediction)),
    "manner": Json(&prediction.model.behavior),
});

json_object!(RequestRow<'_>, |row| {
    "request": row.0.name(),
    "cold": row.1.requests.cold.get(row.0),
    "warm": row.1.requests.warm.get(row.0),
    "waited_for": row.0.is_waited_for(),
    "seconds": cold_seconds(row.1, row.0),
});

json_object!(Json<'_, ClientBehavior>, |behavior| {
    "keeps_names": behavior.keeps_names,
    "keeps_misses": behavior.keeps_misses,
    "keeps_links": behavior.keeps_links,
    "keeps_pages": behavior.keeps_pages,
    "keeps_lists": behavior.keeps_lists,
    "keeps_attributes": behavior.keeps_attributes.map(|kept| kept.as_secs_f64()),
    "checks_access": behavior.checks_access,
    "stats_after_read": behavior.stats_after_read,
    "opens": behavior.opens,
    "atomic_open": behavior.atomic_open,
    "delegations": behavior.delegations,
    "closes": behavior.closes,
    "flushes": behavior.flushes,
    "reads": behavior.reads,
    "lists": behavior.lists,
    "window": behavior.window,
    "read_size": behavior.read_size,
});

json_object!(Json<'_, Fix>, |fix| {
    "kind": fix.change.kind().name(),
    "change": change_text(&fix.change),
    "saves_misses": fix.saves_misses,
    "saves_requests": fix.saves_requests,
    "saves_seconds": fix.saves_seconds,
    "saves_seconds_here": fix.saves_seconds_here,
});

pub(crate) fn kind_counts(counts: &KindCounts) -> Vec<KindCount> {
    let counts = counts.iter();
    counts.map(|(kind, count)| KindCount(kind, count)).collect()
}

fn remote_directories(prediction: &Prediction) -> Vec<&[u8]> {
    match &prediction.scope {
        RemoteScope::Directories(dirs) => dirs.iter().map(Vec::as_slice).collect(),
        RemoteScope::Network | RemoteScope::Everything => Vec::new(),
    }
}

/// The extent of the printed report.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ReportExtent {
    /// The conclusions, on one screen.
    Brief,
    /// The conclusions, and the tables with their first rows.
    Full,
    /// The conclusions, and the tables with all directories and searches.
    All,
}

impl ReportExtent {
    /// Maximum number of directories and of searches in the tables.
    fn rows(self) -> usize {
        match self {
            ReportExtent::Brief => 6,
            ReportExtent::Full => 20,
            ReportExtent::All => usize::MAX,
        }
    }
}

/// The report, with the conclusions first.
pub(crate) fn report(report: &SearchReport, style: TableStyle, extent: ReportExtent) -> String {
    let most = extent.rows();
    let mut text = summary(report, style, extent == ReportExtent::All);
    if let Some(useless) = useless_elements(&report.path) {
        text += &format!("{}\n", style.wrapped(&useless));
    }
    text += &fixes(report.worthwhile_fixes(), style);
    let smaller = report.fixes.len() - report.worthwhile_fixes().count();
    if smaller > 0 {
        let smaller = plural(smaller as u64, "smaller proposal", "smaller proposals");
        text += &style.wrapped(&format!("{smaller} (--json lists all)"));
    }
    text += "\n";
    text += &prediction(&report.prediction, style, extent > ReportExtent::Brief);
    text += &style.heading("Directories");
    text += &match extent {
        ReportExtent::All => directories(&report.directories, style, most),
        _ => directories(&report.directories_by_element(), style, most),
    };
    text += &style.heading("Searches");
    text += &kinds(report, style);
    if extent > ReportExtent::Brief {
        text += "\n";
        text += &searches(&report.trace.searches, style, most);
    }
    text
}

/// A sentence about the missing and the duplicate directories of PATH; `None` if there are none.
fn useless_elements(path: &[PathElement]) -> Option<String> {
    let fault = |element: &PathElement| {
        let dir = printable(&element.dir);
        match element.state {
            ElementState::Missing => Some(format!("{dir} does not exist")),
            ElementState::Duplicate(first) => match path.get(first) {
                Some(first) if first.dir != element.dir => {
                    let first = printable(&first.dir);
                    Some(format!("{dir} is the same directory as {first}"))
                }
                _ => Some(format!("{dir} is listed again")),
            },
            ElementState::Ok | ElementState::Unknown => None,
        }
    };
    let faults: Vec<String> = path.iter().filter_map(fault).collect();
    (!faults.is_empty()).then(|| format!("In PATH, {}.", faults.join("; ")))
}

fn summary(report: &SearchReport, style: TableStyle, all: bool) -> String {
    let (totals, metered) = (&report.trace.totals, &report.metered);
    let (lookups, misses) = (totals.lookups, totals.misses);
    let share = 100.0 * misses as f64 / lookups.max(1) as f64;
    let mut text = format!(
        "{} lookups by name, of which {} failed ({share:.0} %){}. Metered with {}.",
        count(lookups),
        count(misses),
        match (misses, totals.nanos) {
            // bpf subtracts the time of an empty call from each call, so the sum of the times can be
            // 0.
            (0, _) | (_, 0) => String::new(),
            (_, nanos) => {
                let estimated = if report.is_estimate() {
                    "an estimated "
                } else {
                    ""
                };
                format!(" and took {estimated}{}", duration(seconds(nanos)))
            }
        },
        metered.meter,
    );
    if all {
        text.pop();
        text += &format!(": {}.", printable(metered.choice.to_string().as_bytes()));
    }
    if metered.lost > 0 {
        let lost = count(metered.lost);
        text += &format!(" {lost} calls were lost: the counts are too low.");
    }
    if metered.overhead > metered.real / 2 {
        let [meter, real] =
            [metered.overhead, metered.real].map(|time| duration(time.as_secs_f64()));
        text += &format!(
            " The meter took {meter} of the {real} that were measured, so the time of the command's \
             own work is unreliable{}.",
            match report.is_estimate() {
                false => "",
                true => ": --meter bpf, which needs root, has less overhead",
            }
        );
    }
    style.wrapped(&text) + "\n"
}

/// The time of failed lookups in a table cell: `-` if there were none, or if the time is within the
/// meter's overhead.
pub(crate) fn lookup_time(nanos: u64) -> String {
    match nanos {
        0 => "-".to_owned(),
        nanos => duration(seconds(nanos)),
    }
}

fn directories(directories: &[DirectoryReport], style: TableStyle, most: usize) -> String {
    let columns = columns![
        >"FAILED", >"FOUND", >"FAILED TIME", <"DIRECTORY", <"KIND", <"FILE SYSTEM"
    ];
    let shown = directories.len().min(most);
    let mut table = Table::new(&columns, shown);
    for directory in &directories[..shown] {
        let Count { hits, misses } = directory.lookups.counts.total();
        let cells = [
            count(misses),
            count(hits),
            lookup_time(directory.lookups.nanos),
            printable(&directory.dir).into_owned(),
            directory.lookups.kind().name().to_owned(),
            file_system(directory.fstype.as_deref(), directory.network),
        ];
        let tone = if misses == 0 {
            RowColour::Dim
        } else {
            RowColour::Plain
        };
        table.row(cells, tone);
    }
    let rest = more(directories.len() - shown, "directory", "directories");
    table.to_text(style.width, style.color) + &rest + "\n"
}

/// The type of a file system, and whether it is a network file system.
pub(crate) fn file_system(fstype: Option<&[u8]>, network: bool) -> String {
    let fstype = fstype.map_or("-".into(), printable);
    match network {
        true => format!("{fstype} (network)"),
        false => fstype.into_owned(),
    }
}

fn kinds(report: &SearchReport, style: TableStyle) -> String {
    let columns = columns![<"KIND", >"SEARCHES", >"FAILED", >"FOUND"];
    let kinds = report.kinds();
    let rows = kinds.iter().map(|(kind, Count { hits, misses })| {
        let searches = report.trace.searches.iter();
        let searches = searches.filter(|search| search.kind == kind).count();
        [
            kind.name().to_owned(),
            count(searches as u64),
            count(misses),
            count(hits),
        ]
    });
    Table::from_rows(&columns, rows).to_text(style.width, style.color)
}

/// Searches with failed lookups, summed by name and program, in descending order of failed lookups.
fn searches(searches: &[Search], style: TableStyle, most: usize) -> String {
    let missed = searches
        .iter()
        .filter(|search| search.misses() + search.refused() > 0);
    let mut sums: HashMap<_, (u64, u64, &Search)> = HashMap::new();
    for search in missed {
        let key = (
            &search.name,
            program_name(search),
            search.kind.name(),
            &search.found,
        );
        let sum = sums.entry(key).or_insert((0, 0, search));
        sum.0 += search.misses();
        sum.1 += 1;
    }
    if sums.is_empty() {
        return String::new();
    }
    let mut sums: Vec<_> = sums.into_values().collect();
    sums.sort_by_key(|(misses, _, search)| (Reverse(*misses), search.number));
    let columns = columns![
        >"FAILED", >"SEARCHES", <"NAME", <"PROGRAM", <"KIND", <"FOUND AT"
    ];
    let rows = sums.iter().take(most).map(|(misses, times, search)| {
        let found = search.found.as_deref().map_or("-".into(), printable);
        [
            count(*misses),
            count(*times),
            printable(&search.name).into_owned(),
            printable(program_name(search)).into_owned(),
            search.kind.name().to_owned(),
            found.into_owned(),
        ]
    });
    let table = Table::from_rows(&columns, rows).to_text(style.width, style.color);
    let omitted = sums.len().saturating_sub(most);
    table + &more(omitted, "search", "searches")
}

/// The name of the searching program, without its directory.
fn program_name(search: &Search) -> &[u8] {
    base::path::split(&search.program).1
}

fn prediction(prediction: &Prediction, style: TableStyle, with_requests: bool) -> String {
    let remote = match &prediction.scope {
        RemoteScope::Network => "files on network file systems are remote".to_owned(),
        RemoteScope::Everything => "all files are remote".to_owned(),
        RemoteScope::Directories(dirs) => {
            let dirs: Vec<_> = dirs.iter().map(|dir| printable(dir)).collect();
            format!("files below {} are remote", dirs.join(", "))
        }
    };
    let busy = |busy: f64| format!(" ({:.0} % busy)", busy * 100.0);
    let busy = prediction.cold.utilization.map_or(String::new(), busy);
    let rate = prediction.model.server_rate.map_or(String::new(), |rate| {
        format!(
            ", a server of {} requests per second{busy}",
            count(rate as u64)
        )
    });
    let nodes = match prediction.model.nodes {
        1 => "one node".to_owned(),
        nodes => {
            let nodes = count(nodes);
            match prediction.model.server_rate {
                Some(_) => format!("{nodes} nodes at once"),
                None => format!(
                    "{nodes} nodes at once, and a server that answers all of them as fast as one (--server-rate)"
                ),
            }
        }
    };
    let own = match prediction.model.compute {
        0.0 => String::new(),
        own => format!(", including {} of the command's own work", duration(own)),
    };
    let sentence = format!(
        "Start time: {} with cold caches, {} with warm caches{own}. Assumptions: {remote}, round \
         trip {} ({}), {nodes}{rate}.",
        duration(prediction.cold.seconds),
        duration(prediction.warm.seconds),
        duration(prediction.rtt()),
        prediction.rtt_source.name(),
    );
    let heading = style.heading("Prediction for a network file system");
    let requests = match with_requests {
        true => requests_table(prediction, style),
        false => String::new(),
    };
    heading + &style.wrapped(&sentence) + &requests + "\n"
}

fn requests_table(prediction: &Prediction, style: TableStyle) -> String {
    let columns = columns![<"REQUEST", >"COLD", >"WARM", >"TIME COLD"];
    let row = |request: Request| {
        let cold = prediction.requests.cold.get(request);
        let warm = prediction.requests.warm.get(request);
        let time = match request.is_waited_for() {
            true => duration(cold_seconds(prediction, request)),
            false => "async".to_owned(),
        };
        let cells = [request.name().to_owned(), count(cold), count(warm), time];
        (cold + warm > 0).then_some(cells)
    };
    let rows = Request::ALL.into_iter().filter_map(row);
    Table::from_rows(&columns, rows).to_text(style.width, style.color)
}

/// The time that the process waits for requests of this kind, with cold caches.
fn cold_seconds(prediction: &Prediction, request: Request) -> f64 {
    let cold = &prediction.requests.cold;
    prediction.model.prices.seconds_for(request, cold)
}

fn more(n: usize, one: &str, many: &str) -> String {
    match n {
        0 => String::new(),
        1 => format!("1 more {one} (-v lists all)\n"),
        n => format!("{} more {many} (-v lists all)\n", count(n as u64)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use meter::call::{CommandEnd, MeterReason, Metered};
    use pathsearch::{
        Change, DirectoryLookups, PathProposal, Prices, RttSource, StartModel, StartRequests,
        StartTime, Trace, TriedPath,
    };

    use super::fixes::fix_savings;
    use super::*;

    const MISS: Count = Count { hits: 0, misses: 1 };

    fn sample() -> SearchReport {
        let tried = |path: &[u8], hits| TriedPath {
            path: path.to_vec(),
            count: Count {
                hits,
                misses: 1 - hits,
            },
            is_refused: false,
        };
        let search = Search {
            kind: Kind::Path,
            name: b"l\xffs".to_vec(),
            pid: 7,
            program: b"/bin/sh"[..].into(),
            tried: vec![tried(b"/a/l\xffs", 0), tried(b"/bin/l\xffs", 1)],
            found: Some(b"/bin/l\xffs".to_vec()),
            has_given_path: true,
            nanos: 2000,
            number: 0,
        };
        let mut lookups = DirectoryLookups {
            nanos: 2000,
            ..DirectoryLookups::default()
        };
        *lookups.counts.get_mut(Kind::Path) = MISS;
        SearchReport {
            metered: metered(),
            trace: Trace {
                searches: vec![search],
                totals: Totals {
                    lookups: 2,
                    misses: 1,
                    nanos: 2000,
                },
                ..Trace::default()
            },
            directories: vec![DirectoryReport {
                dir: b"/a\x1b".to_vec(),
                lookups,
                fstype: Some(b"nfs4".to_vec()),
                network: true,
            }],
            prediction: sample_prediction(),
            fixes: vec![Fix {
                change: Change::SetPath(PathProposal {
                    path: b"/bin".to_vec(),
                    removed: Vec::new(),
                    is_reordered: false,
                    saves: 1,
                    names: Vec::new(),
                    searches: 1,
                }),
                saves_misses: 1,
                saves_requests: 1,
                saves_seconds: 0.05,
                saves_seconds_here: 0.000_002,
            }],
            path: Vec::new(),
            better_path: None,
            warnings: Vec::new(),
        }
    }

    #[test]
    fn missing_and_duplicate_directories_of_path_are_named() {
        let element = |dir: &str, state| PathElement {
            dir: dir.as_bytes().to_vec(),
            state,
            fstype: None,
            network: false,
        };
        let mut sample = sample();
        sample.path = vec![
            element("/usr/bin", ElementState::Ok),
            element("/none", ElementState::Missing),
            element("/bin", ElementState::Duplicate(0)),
            element("/usr/bin", ElementState::Duplicate(0)),
        ];
        let text = report(&sample, TableStyle::default(), ReportExtent::Brief);
        let says = "In PATH, /none does not exist; /bin is the same directory as /usr/bin; /usr/bin is \
                    listed again.\n\nProposed changes";
        assert!(text.contains(says), "{text}");
    }

    fn metered() -> Metered {
        Metered {
            meter: "ptrace",
            choice: MeterReason::Exact,
            warnings: Vec::new(),
            totals: Vec::new(),
            unfinished: 0,
            lost: 0,
            overhead: Duration::ZERO,
            ended: CommandEnd::Exited(0),
            real: Duration::from_millis(2),
            user: Duration::ZERO,
            sys: Duration::ZERO,
        }
    }

    #[test]
    fn a_meter_that_takes_most_of_the_time_is_a_warning() {
        let style = TableStyle {
            width: None,
            tree: false,
            color: false,
        };
        let mut report = sample();
        assert!(!summary(&report, style, false).contains("unreliable"));
        report.metered.overhead = Duration::from_micros(1500);
        let text = summary(&report, style, false);
        let says = "The meter took 1.50 ms of the 2.00 ms that were measured";
        assert!(
            text.contains(says) && text.contains("--meter bpf"),
            "{text}"
        );
    }

    fn sample_prediction() -> Prediction {
        let time = |seconds| StartTime {
            seconds,
            at_least: seconds,
            utilization: None,
        };
        let mut requests = StartRequests::default();
        requests.cold.add(Request::Lookup, 4);
        Prediction {
            model: StartModel {
                prices: Prices::uniform(0.0005),
                behavior: ClientBehavior::default(),
                compute: 0.1,
                nodes: 1,
                server_rate: None,
            },
            rtt_source: RttSource::Assumed,
            scope: RemoteScope::Everything,
            requests,
            cold: time(0.102),
            warm: time(0.1),
        }
    }

    #[test]
    fn names_that_are_not_utf8_are_given_exactly_as_well() {
        let value = serde_json::to_value(Report(&sample())).unwrap();
        let search = &value["searches"][0];
        assert_eq!(search["name_b64"], STANDARD.encode(b"l\xffs"));
        assert_eq!(search["tried_b64"][1], STANDARD.encode(b"/bin/l\xffs"));
        assert_eq!(search["tried"].as_array().unwrap().len(), 2);
        assert_eq!(value["predicted"]["server_rate"], serde_json::Value::Null);
    }

    #[test]
    fn the_text_has_every_part_and_no_control_characters() {
        let text = report(&sample(), TableStyle::default(), ReportExtent::Full);
        for line in [
            "2 lookups by name, of which 1 failed (50 %) and took an estimated 2.00 µs. Metered with ptrace.",
            "nfs4 (network)",
            "/a\\x1b",
            "102 ms with cold caches",
            "- set PATH='/bin': saves 1 failed lookup, 2.00 µs here and 50.0 ms on a network file \
             system (1 request).",
        ] {
            assert!(text.contains(line), "no {line}:\n{text}");
        }
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn time_below_the_cost_of_the_meter_is_not_a_zero() {
        let mut sample = sample();
        sample.trace.totals.nanos = 0;
        for directory in &mut sample.directories {
            directory.lookups.nanos = 0;
        }
        let text = report(&sample, TableStyle::default(), ReportExtent::Full);
        assert!(
            text.contains("1 failed (50 %). Metered") && !text.contains("0 ns"),
            "{text}"
        );
        let value = serde_json::to_value(Report(&sample)).unwrap();
        assert_eq!(value["directories"][0]["seconds"], 0.0);
        sample.trace.totals.misses = 0;
        let text = report(&sample, TableStyle::default(), ReportExtent::Full);
        assert!(text.contains("0 failed (0 %). Metered"), "{text}");
    }

    #[test]
    fn smaller_proposals_are_counted() {
        let mut sample = sample();
        let shown =
            |sample: &SearchReport| report(sample, TableStyle::default(), ReportExtent::Brief);
        assert!(!shown(&sample).contains("smaller"));
        let small = Fix {
            saves_seconds: 0.001,
            ..sample.fixes[0].clone()
        };
        sample.fixes.push(small.clone());
        let text = shown(&sample);
        let says = "(1 request).\n1 smaller proposal (--json lists all)\n\n";
        assert!(text.contains(says), "{text}");
        sample.fixes = vec![small.clone(), small];
        let text = shown(&sample);
        assert!(
            text.contains("\n2 smaller proposals (--json lists all)\n\n"),
            "{text}"
        );
    }

    #[test]
    fn time_of_compiling_is_named_as_not_measured() {
        let mut fix = sample().fixes.remove(0);
        assert!(!fix_sentence(&fix).contains("compiling"));
        fix.change = Change::CompileModules {
            python: b"python3".to_vec(),
            option: "",
            modules: 1,
            dirs: vec![b"/srv".to_vec()],
        };
        let text = fix_sentence(&fix);
        let end = "(1 request), plus the time of compiling at each start, which is not measured.";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn a_single_file_is_singular() {
        let copied = |files, links| {
            change_text(&Change::CopyToLocalDisk {
                files,
                links,
                bytes: 83,
            })
        };
        for (text, expected) in [
            (
                copied(1, 0),
                "copy the file that it reads (83 bytes; --files0 prints its name) to",
            ),
            (
                copied(1, 1),
                "copy the 1 file and 1 symbolic link that it reads (83 bytes; --files0 prints their",
            ),
            (
                copied(2, 0),
                "copy the 2 files that it reads (83 bytes; --files0 prints their names) to",
            ),
        ] {
            assert!(text.starts_with(expected), "{text}");
        }
    }

    #[test]
    fn a_proposal_is_indented() {
        let style = TableStyle {
            width: Some(40),
            ..TableStyle::default()
        };
        let text = fixes(&sample().fixes, style);
        let (_, item) = text.split_once('\n').unwrap();
        let mut lines = item.lines();
        assert!(lines.next().unwrap().starts_with("- "), "{text}");
        assert!(lines.all(|line| line.starts_with("  ")), "{text}");
        assert!(
            item.lines().count() > 1 && item.lines().all(|line| line.chars().count() <= 40),
            "{text}"
        );
    }

    #[test]
    fn searches_of_one_name_by_one_program_are_a_row() {
        let mut all = sample().trace.searches;
        all.extend(all.clone());
        let text = searches(&all, TableStyle::default(), 20);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("\n     2        2 l\\xffs "), "{text}");
    }

    #[test]
    fn a_saving_is_not_given_for_a_network_where_it_is_smaller() {
        let mut fix = sample().fixes.remove(0);
        (fix.saves_seconds_here, fix.saves_seconds) = (0.0126, 0.0005);
        assert_eq!(fix_savings(&fix), "saves 1 failed lookup, 12.6 ms here");
        fix.saves_seconds_here = 0.0;
        let remote = "500 µs on a network file system (1 request)";
        assert_eq!(
            fix_savings(&fix),
            format!("saves 1 failed lookup and {remote}")
        );
    }
}
