//! The output of `fathom walk`.

use ::show::name::printable;
use ::show::table::{Align, RowColour, Table, TableStyle};
use ::show::units::{count, duration, plural, ratio, size};
use ::show::{columns, json_object};
use account::figures::{Figure, figures_of_runs};
use base::child::NoRun;
use base::runs::{Stats, median};
use serde::{Serialize, Serializer};
use walk::compare::{Agreement, EngineRuns};
use walk::group::{GroupBy, GroupSums};
use walk::{
    DirectoryUsage, EngineChoice, EngineKind, ExplainedPlan, LargeFile, LargestFiles, Totals,
    WalkedMount,
};

use crate::cmd::groups::{NamedGroups, at_most_64_bits, write_rows};
use crate::json::{Json, list_of};
use crate::out::{gates, own_calls};
use crate::ranks::show::RankEntries;
use crate::stats::{JsonStats, median_cell};

pub(super) const SCHEMA: &str = "fathom.walk/1";

json_object!(Json<'_, WalkedMount>, |part| {
    name "path": Some(&part.path),
    name "fstype": part.fstype.as_deref(),
    "engine": part.engine.name(),
    "why": part.reason.to_string(),
});

impl Serialize for Json<'_, LargestFiles> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        list_of::<_, LargeFile>(serializer, self.iter())
    }
}

json_object!(Json<'_, LargeFile>, |file| {
    name "path": Some(&file.path),
    "bytes": file.bytes,
    "blocks": file.blocks,
    "kind": walk::FileType::Regular.name(),
});

json_object!(Json<'_, DirectoryUsage>, |usage| {
    name "path": Some(&usage.path),
    "allocated": usage.sums.blocks.saturating_mul(512),
    "apparent": usage.sums.bytes,
    "inodes": usage.sums.inodes,
    "exclusive": usage.exclusive,
});

/// The directories of `--format du`, generated one by one, each time that they are printed: the
/// paths of a deep tree take much memory.
pub(crate) struct Directories<'a>(pub(crate) &'a dyn Fn() -> DirectoryIterator<'a>);

pub(crate) type DirectoryIterator<'a> = Box<dyn Iterator<Item = DirectoryUsage> + 'a>;

impl Serialize for Directories<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        list_of::<_, DirectoryUsage>(serializer, (self.0)())
    }
}

json_object!(Json<'_, EngineChoice<'_>>, |choice| {
    name "path": Some(choice.path),
    "engine": choice.engine.name(),
    "possible": choice.is_possible(),
    "why": why(choice),
});

/// The reason why an engine was chosen, or why it is impossible.
pub(crate) fn why(choice: &EngineChoice<'_>) -> String {
    match (choice.refusal, choice.reason) {
        (Some(refusal), _) => refusal.to_string(),
        (None, Some(reason)) => reason.to_string(),
        (None, None) => "works here".to_owned(),
    }
}

/// The possible engines of each directory, for the JSON.
pub(crate) struct EngineChoices<'a>(pub(crate) &'a [ExplainedPlan]);

impl Serialize for EngineChoices<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let choices: Vec<_> = self.0.iter().flat_map(ExplainedPlan::choices).collect();
        Json(&choices[..]).serialize(serializer)
    }
}

/// The result of `fathom walk`; what was not requested is `None`.
#[derive(Default)]
pub(crate) struct Walk<'a> {
    /// The totals, and the seconds of the walk; `None` if nothing was walked.
    pub(crate) totals: Option<(&'a Totals, f64)>,
    /// The mounts; the first one is that of the first DIR.
    pub(crate) parts: &'a [WalkedMount],
    pub(crate) top: Option<&'a LargestFiles>,
    pub(crate) usage: Option<Directories<'a>>,
    pub(crate) groups: Option<NamedGroups<'a, GroupSums>>,
    pub(crate) explain: Option<&'a [ExplainedPlan]>,
    pub(crate) compare: Option<&'a ComparisonText<'a>>,
    /// The entries of each rank of an MPI job.
    pub(crate) ranks: Option<&'a [RankEntries]>,
    /// Number of parts that `--resume` kept from earlier attempts.
    pub(crate) kept: Option<usize>,
}

impl Walk<'_> {
    fn total<T>(&self, field: impl Fn(&Totals) -> T) -> Option<T> {
        self.totals.map(|(totals, _)| field(totals))
    }

    /// The figures of each compared engine, or else of the walk; `None` if nothing was walked.
    pub(crate) fn figures(&self) -> Option<Vec<Figure>> {
        if let Some(compare) = self.compare {
            let figures =
                |it: &EngineRuns| figures_of_runs(it.engine.name(), &it.runs, it.tally.calls());
            return Some(compare.engines.iter().flat_map(figures).collect());
        }
        let (totals, seconds) = self.totals?;
        let calls = own_calls();
        Some(vec![
            Figure::single("real", seconds, "s"),
            Figure::single("calls", calls as f64, "calls"),
            Figure::exact("entries", totals.entries as f64, "entries"),
            Figure::exact("bytes", totals.bytes as f64, "bytes"),
        ])
    }
}

json_object!(Walk<'_>, |result| {
    "engine": result.parts.first().map(|part| part.engine.name()),
    "why": result.parts.first().map(|part| part.reason.to_string()),
    "entries": result.total(|t| t.entries),
    "files": result.total(|t| t.files),
    "directories": result.total(|t| t.directories),
    "symlinks": result.total(|t| t.symlinks),
    "other": result.total(|t| t.other),
    "bytes": result.total(|t| t.bytes),
    "blocks": result.total(|t| t.blocks),
    "max_depth": result.total(|t| t.max_depth),
    "digest": result.total(|t| t.digest.to_string()),
    "seconds": result.totals.map(|(_, seconds)| seconds),
    "parts": Json(result.parts),
    "top": result.top.map(Json),
    "du": result.usage,
    "groups": result.groups,
    "explain": result.explain.map(EngineChoices),
    "compare": result.compare,
    "ranks": result.ranks,
    some "kept": result.kept,
});

/// Writes the table of `--format du`.
pub(crate) fn write_usage(
    directories: &Directories<'_>,
    is_exclusive: bool,
    style: TableStyle,
    put: &mut dyn FnMut(&str),
) {
    use Align::Right;
    let mut columns = columns![>"ALLOCATED", >"SIZE", >"INODES", <"PATH"].to_vec();
    if is_exclusive {
        columns.insert(0, ("EXCLUSIVE", Right));
    }
    let cells = |usage: DirectoryUsage| {
        let sums = usage.sums;
        let cells = [
            size(sums.blocks.saturating_mul(512)),
            size(sums.bytes),
            count(sums.inodes),
            printable(&usage.path).into_owned(),
        ];
        usage.exclusive.map(size).into_iter().chain(cells)
    };
    write_rows(&columns, || (directories.0)().map(cells), style, put);
}

/// Number of largest files in the summary.
pub(crate) const LARGEST_FILES: usize = 5;
/// The groupings in the summary, and the number of groups of each.
pub(crate) const GROUPS: [(GroupBy, usize); 2] = [(GroupBy::Dir(1), 10), (GroupBy::Ext, 5)];

/// The totals and the engines, as text.
pub(crate) fn totals_text(totals: &Totals, seconds: f64, parts: &[WalkedMount]) -> String {
    sizes_text(totals, None) + &means_text(totals, seconds, parts)
}

/// The numbers of entries and their sizes, as text. `once` has the sizes with each file counted
/// once; without it, the sizes are those of all names.
pub(crate) fn sizes_text(totals: &Totals, once: Option<GroupSums>) -> String {
    let (bytes, allocated, note) = match once.map(|sums| [sums.bytes, sums.allocated]) {
        Some(sums) => {
            let [bytes, allocated] = sums.map(at_most_64_bits);
            (bytes, allocated, "")
        }
        None => (
            totals.bytes,
            totals.blocks.saturating_mul(512),
            ", per name",
        ),
    };
    let sized = |bytes: u64| match bytes {
        0..1024 => plural(bytes, "byte", "bytes") + note,
        _ => format!("{} ({} bytes){note}", size(bytes), count(bytes)),
    };
    lines(&[
        ("entries", count(totals.entries)),
        ("  files", count(totals.files)),
        ("  directories", count(totals.directories)),
        ("  symlinks", count(totals.symlinks)),
        ("  other", count(totals.other)),
        ("size", sized(bytes)),
        ("allocated", sized(allocated)),
    ])
}

/// Depth, digest, engines and time of the walk, as text.
pub(crate) fn means_text(totals: &Totals, seconds: f64, parts: &[WalkedMount]) -> String {
    let mut engines: Vec<&str> = parts.iter().map(|part| part.engine.name()).collect();
    engines.sort_unstable();
    engines.dedup();
    let mut rows = vec![
        ("maximum depth", count(totals.max_depth.into())),
        ("digest", totals.digest.to_string()),
    ];
    match &engines[..] {
        [] => {}
        [engine] => rows.push(("engine", (*engine).to_owned())),
        engines => rows.push(("engines", engines.join(", "))),
    }
    rows.push(("time", duration(seconds)));
    lines(&rows)
}

fn lines(rows: &[(&str, String)]) -> String {
    let rows = rows.iter();
    rows.map(|(name, value)| format!("{name:<14} {value}\n"))
        .collect()
}

/// The engine of each mount; with `with_reasons`, also the reason.
pub(crate) fn parts_text(parts: &[WalkedMount], with_reasons: bool, style: TableStyle) -> String {
    use Align::Left;
    let columns = ["MOUNT", "FSTYPE", "ENGINE", "REASON"].map(|head| (head, Left));
    let columns = &columns[..if with_reasons { 4 } else { 3 }];
    let mut table = Table::new(columns, parts.len());
    for part in parts {
        let reason = part.reason.to_string();
        let cells = [
            printable(&part.path),
            part.fstype.as_deref().map_or("-".into(), printable),
            part.engine.name().into(),
            printable(reason.as_bytes()),
        ];
        table.row(cells.into_iter().take(columns.len()), RowColour::Plain);
    }
    table.to_text(style.width, style.color)
}

/// Writes the table of the largest files.
pub(crate) fn write_top(top: &LargestFiles, style: TableStyle, put: &mut dyn FnMut(&str)) {
    let columns = columns![>"ALLOCATED", >"SIZE", <"PATH"];
    let rows = || {
        top.iter().map(|file| {
            let names = match file.links {
                0 | 1 => String::new(),
                links => format!(" ({} names)", count(links.into())),
            };
            let cells = [
                size(file.blocks.saturating_mul(512)),
                size(file.bytes),
                printable(&file.path).into_owned() + &names,
            ];
            cells.into_iter()
        })
    };
    write_rows(&columns, rows, style, put);
}

/// The engines of each directory, possible or not, with the reasons.
pub(crate) fn explain_text(explained: &[ExplainedPlan], style: TableStyle) -> String {
    use Align::Left;
    let mut out = String::new();
    for one in explained {
        let fstype = one.fstype.as_deref().map(printable);
        let fstype = fstype.map_or(String::new(), |fstype| format!(" ({fstype})"));
        let (path, engine) = (printable(&one.path), one.plan.engine.name());
        out.push_str(&format!("{path}{fstype}: engine {engine}\n"));
        let columns = ["  ENGINE", "POSSIBLE", "REASON"].map(|head| (head, Left));
        let mut table = Table::new(&columns, one.plan.engines.len());
        let why_from = "  bulkstat POSSIBLE ".len();
        for choice in one.choices() {
            let possible = if choice.is_possible() { "yes" } else { "no" };
            let (engine, why) = (format!("  {}", choice.engine.name()), why(&choice));
            let why = printable(why.as_bytes());
            table.row_with_reason([&engine, possible], &why, why_from, style);
        }
        out.push_str(&table.to_text(None, style.color));
    }
    out
}

json_object!(Json<'_, EngineRuns>, |it| {
    "engine": it.engine.name(),
    "entries": it.totals.entries,
    "digest": it.totals.digest.to_string(),
    "real": Stats::from_runs(&it.runs, |t| t.real).map(JsonStats),
    "user": Stats::from_runs(&it.runs, |t| t.user).map(JsonStats),
    "sys": Stats::from_runs(&it.runs, |t| t.sys).map(JsonStats),
    "calls": it.tally.calls(),
    "calls_per_entry": calls_per_entry(it),
    "gates": gates(&it.tally),
});

pub(crate) fn calls_per_entry(engine: &EngineRuns) -> f64 {
    engine.tally.calls() as f64 / engine.totals.entries.max(1) as f64
}

/// An engine that was not compared.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LeftOut {
    pub(crate) engine: &'static str,
    pub(crate) why: String,
}

impl LeftOut {
    pub(crate) fn new((engine, why): &(EngineKind, walk::compare::LeftOut)) -> LeftOut {
        use walk::compare::LeftOut::{Impossible, Not};
        let engine = engine.name();
        let why = match why {
            Impossible(refusal) => refusal.to_string(),
            Not(NoRun::Refused, _) => format!("it failed; --engine {engine} prints the reason"),
            Not(why, entries) => format!("{why}, after {entries} entries"),
        };
        LeftOut { engine, why }
    }
}

/// A sentence: whether the engines report the same tree, and if not, why.
pub(crate) fn agreement_text(agreement: Agreement) -> &'static str {
    match agreement {
        Agreement::Same => "All engines report the same tree",
        Agreement::TreeChanged => {
            "The tree changed during the comparison, so the engines report different trees"
        }
        Agreement::Disagree => {
            "The engines report different trees, and the tree did not change: one of them is wrong"
        }
        Agreement::Unconfirmed => {
            "The engines report different trees; there was no time to check whether the tree changed"
        }
    }
}

/// The comparison of the engines, for text and JSON.
pub(crate) struct ComparisonText<'a> {
    pub(crate) engines: &'a [EngineRuns],
    pub(crate) agreement: Agreement,
    pub(crate) tree_changed: Option<bool>,
    pub(crate) left_out: Vec<LeftOut>,
}

json_object!(ComparisonText<'_>, |it| {
    "engines": Json(it.engines),
    "agree": it.agreement == Agreement::Same,
    "tree_changed": it.tree_changed,
    "left_out": it.left_out,
});

impl<'a> ComparisonText<'a> {
    pub(crate) fn new(compared: &'a walk::compare::Comparison) -> ComparisonText<'a> {
        ComparisonText {
            engines: &compared.engines,
            agreement: compared.agreement(),
            tree_changed: compared.tree_changed(),
            left_out: compared.left_out.iter().map(LeftOut::new).collect(),
        }
    }

    pub(crate) fn table(&self) -> Table {
        let columns = columns![
            <"ENGINE", >"ENTRIES", >"REAL", >"USER", >"SYS", >"CALLS", >"CALLS/ENTRY", >"TIME/STAT"
        ];
        let real = |engine: &EngineRuns| median(&engine.runs, |t| t.real);
        let mut engines = self.engines.iter();
        let stat = engines.find(|engine| engine.engine == EngineKind::Stat);
        let stat = stat.and_then(real);
        let rows = self.engines.iter().map(|engine| {
            let relative = stat.zip(real(engine)).map(|(stat, time)| time / stat);
            [
                engine.engine.name().to_owned(),
                count(engine.totals.entries),
                median_cell(&engine.runs, |t| t.real),
                median_cell(&engine.runs, |t| t.user),
                median_cell(&engine.runs, |t| t.sys),
                count(engine.tally.calls()),
                ratio(calls_per_entry(engine)),
                relative.map_or("-".to_owned(), ratio),
            ]
        });
        Table::from_rows(&columns, rows)
    }

    /// Notes: the calls of each engine, the engines that were omitted, and whether the results
    /// agree.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for engine in self.engines {
            let gates = gates(&engine.tally);
            let gates = gates.iter();
            let gates = gates.map(|(name, row)| format!("{name} {}", count(row.calls)));
            let gates: Vec<String> = gates.collect();
            notes.push(format!("{}: {}", engine.engine.name(), gates.join(", ")));
        }
        for LeftOut { engine, why } in &self.left_out {
            notes.push(format!("{engine} skipped: {}", printable(why.as_bytes())));
        }
        let text = agreement_text(self.agreement);
        match (self.engines, self.agreement) {
            ([], _) => {}
            ([one], _) => notes.push(format!("digest {}", one.totals.digest)),
            ([first, ..], Agreement::Same) => {
                notes.push(format!("{text}: digest {}", first.totals.digest))
            }
            (_, Agreement::TreeChanged | Agreement::Unconfirmed) => notes.push(text.to_owned()),
            (all, Agreement::Disagree) => {
                notes.push(format!("{text}:"));
                let digest = |one: &EngineRuns| {
                    let digest = one.totals.digest;
                    format!("{} {digest}", one.engine.name())
                };
                notes.extend(all.iter().map(digest));
            }
        }
        notes
    }

    pub(crate) fn to_text(&self, style: TableStyle) -> String {
        let notes = self.notes();
        let notes: String = notes.iter().map(|note| style.wrapped(note)).collect();
        self.table().to_text(style.width, style.color) + &notes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use base::runs::Times;
    use gate::{Gate, Tally};
    use walk::{Digest, EngineRefusal, PlanReason};

    fn totals() -> Totals {
        Totals {
            entries: 4,
            files: 1,
            directories: 2,
            symlinks: 1,
            bytes: 1536,
            blocks: 1,
            max_depth: 2,
            ..Totals::default()
        }
    }

    /// A `Tally` that has counted `calls` calls of statx(2).
    fn tally(calls: u64) -> Tally {
        let words = (0..Tally::WORDS).map(|_| AtomicU64::new(0));
        let mut words: Vec<AtomicU64> = words.collect();
        let words_per_gate = Tally::WORDS / Gate::ALL.len();
        words[Gate::Statx as usize * words_per_gate] = calls.into();
        Tally::collect(&words)
    }

    fn engine(engine: EngineKind, real: f64, digest: u64) -> EngineRuns {
        let runs = vec![Times {
            real,
            user: 0.0,
            sys: 0.0,
        }];
        let digest = Digest::from_halves([digest, 0]);
        EngineRuns {
            engine,
            totals: Totals { digest, ..totals() },
            warnings: 0,
            is_steady: Some(true),
            runs,
            tally: tally(8),
        }
    }

    #[test]
    fn unrequested_fields_are_null() {
        let parts = [WalkedMount {
            path: b"a\xff".to_vec(),
            fstype: None,
            engine: EngineKind::Stat,
            reason: PlanReason::Requested,
        }];
        let value = serde_json::to_value(Walk {
            totals: Some((&totals(), 0.5)),
            parts: &parts,
            ..Walk::default()
        })
        .unwrap();
        assert_eq!(
            (&value["engine"], &value["why"], &value["entries"]),
            (&"stat".into(), &"as requested".into(), &4.into())
        );
        assert_eq!(value["parts"][0]["path_b64"], "Yf8=");
        for field in ["top", "du", "groups", "explain", "compare"] {
            assert!(
                value[field].is_null() && value.as_object().unwrap().contains_key(field),
                "{field}"
            );
        }
        let value = serde_json::to_value(Walk::default()).unwrap();
        assert!(
            value["entries"].is_null() && value["engine"].is_null() && value["seconds"].is_null()
        );
    }

    #[test]
    fn sizes_have_a_unit_and_the_exact_number() {
        let text = totals_text(&totals(), 0.5, &[]);
        assert!(
            text.contains("size           1.50 KiB (1,536 bytes), per name\n")
                && text.contains("allocated      512 bytes, per name\n"),
            "{text}"
        );
        let text = sizes_text(&totals(), Some(GroupSums::from_entry(1000, 2)));
        assert!(
            text.contains("size           1,000 bytes\n")
                && text.contains("allocated      1 KiB (1,024 bytes)\n"),
            "{text}"
        );
    }

    #[test]
    fn comparison_finds_whether_engines_agree() {
        use walk::compare::{Comparison as Compared, LeftOut as Why};
        let engines = |digests: [u64; 2]| {
            let of_stat = engine(EngineKind::Stat, 0.2, digests[1]);
            vec![engine(EngineKind::Threads, 0.1, digests[0]), of_stat]
        };
        let refusal = EngineRefusal::NotRoot(EngineKind::Ext4);
        let why = refusal.to_string();
        let compared = Compared {
            engines: engines([0xaa, 0xaa]),
            left_out: vec![(EngineKind::Ext4, Why::Impossible(refusal))],
            ..Compared::default()
        };
        let comparison = ComparisonText::new(&compared);
        let text = comparison.to_text(TableStyle::default());
        let agree = format!("All engines report the same tree: digest {:032x}", 0xaa);
        assert!(text.contains(&agree), "{text}");
        assert!(
            text.lines().nth(1).unwrap().ends_with("2.00      0.50"),
            "{text}"
        );
        assert!(text.contains(&format!("ext4 skipped: {why}")), "{text}");
        let value = serde_json::to_value(&comparison).unwrap();
        assert_eq!(value["engines"][0]["calls_per_entry"], 2.0);
        assert_eq!(
            (&value["agree"], &value["tree_changed"]),
            (&true.into(), &false.into())
        );
        let mut compared = Compared {
            engines: engines([0xaa, 0xab]),
            ..Compared::default()
        };
        for (is_steady, says) in [
            (Some(true), "one of them is wrong:\nthreads 0000"),
            (Some(false), "The tree changed during the comparison"),
            (None, "no time to check whether the tree changed"),
        ] {
            compared.engines[0].is_steady = is_steady;
            let comparison = ComparisonText::new(&compared);
            let text = comparison.to_text(TableStyle::default());
            assert!(text.contains(says), "{is_steady:?}: {text}");
            let value = serde_json::to_value(&comparison).unwrap();
            let tree_changed = is_steady.map(|is_steady| !is_steady);
            assert_eq!(value["agree"], false);
            assert_eq!(value["tree_changed"], serde_json::json!(tree_changed));
        }
    }

    #[test]
    fn usage_in_json_is_in_bytes() {
        let usage = DirectoryUsage {
            path: b"\xff".to_vec(),
            sums: walk::Sums {
                blocks: 3,
                bytes: 7,
                inodes: 2,
                exclusive: 0,
            },
            exclusive: None,
        };
        let expected = serde_json::json!({"path": "\u{fffd}", "path_b64": "/w==", "allocated": 1536, "apparent": 7, "inodes": 2, "exclusive": null});
        assert_eq!(serde_json::to_value(Json(&usage)).unwrap(), expected);
    }
}
