//! What `fathom walk` prints.

use ::show::json::Gates;
use ::show::json_object;
use ::show::name::printable;
use ::show::stats::Stats;
use ::show::table::{Align, Table, TableStyle, Tone};
use ::show::times::{Times, median_ms};
use ::show::units::{count, duration, plural, size};
use serde::Serialize;
use walk::{
    DirectoryUsage, EngineKind, EngineRefusal, Explained, LargeFile, Part, PlanReason, Totals,
};

use crate::json::Json;

pub(super) const SCHEMA: &str = "fathom.walk/1";

json_object!(Json<'_, Part>, |part| {
    name "path": Some(&part.path),
    name "fstype": part.fstype.as_deref(),
    "engine": part.engine.name(),
    "why": part.reason.to_string(),
});

json_object!(Json<'_, LargeFile>, |file| {
    name "path": Some(&file.path),
    "bytes": file.bytes,
    "blocks": file.blocks,
    "kind": walk::Type::File.name(),
});

json_object!(Json<'_, DirectoryUsage>, |usage| {
    name "path": Some(&usage.path),
    "allocated": usage.sums.blocks.saturating_mul(512),
    "apparent": usage.sums.bytes,
    "inodes": usage.sums.inodes,
});

/// An engine, and whether it can work in a directory.
#[derive(Clone, Copy)]
pub(crate) struct Possible<'a> {
    path: &'a [u8],
    pub(crate) engine: EngineKind,
    /// Why it cannot.
    pub(crate) refusal: Option<&'a EngineRefusal>,
    /// Why it is the one that was chosen.
    chosen: Option<&'a PlanReason>,
}

impl Possible<'_> {
    pub(crate) fn is_possible(&self) -> bool {
        self.refusal.is_none()
    }

    pub(crate) fn why(&self) -> String {
        match (self.refusal, self.chosen) {
            (Some(refusal), _) => refusal.to_string(),
            (None, Some(reason)) => reason.to_string(),
            (None, None) => "works here".to_owned(),
        }
    }
}

json_object!(Possible<'_>, |possible| {
    name "path": Some(possible.path),
    "engine": possible.engine.name(),
    "possible": possible.is_possible(),
    "why": possible.why(),
});

pub(crate) fn possible_engines(explained: &[Explained]) -> impl Iterator<Item = Possible<'_>> {
    explained.iter().flat_map(|Explained { path, plan, .. }| {
        plan.engines.iter().map(move |(engine, possible)| Possible {
            path,
            engine: *engine,
            refusal: possible.as_ref().err(),
            chosen: (*engine == plan.engine).then_some(&plan.reason),
        })
    })
}

/// The result of `fathom walk`; what was not requested is `None`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Walk<'a> {
    /// What was found, if anything was walked, and the seconds that it took.
    pub(crate) totals: Option<(&'a Totals, f64)>,
    /// The mounts; the first is that of the first DIR.
    pub(crate) parts: &'a [Part],
    pub(crate) top: Option<&'a [LargeFile]>,
    pub(crate) usage: Option<&'a [DirectoryUsage]>,
    pub(crate) explain: Option<&'a [Explained]>,
    pub(crate) compare: Option<Comparison<'a>>,
}

impl Walk<'_> {
    fn total<T>(&self, field: impl Fn(&Totals) -> T) -> Option<T> {
        self.totals.map(|(totals, _)| field(totals))
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
    "du": result.usage.map(Json),
    "explain": result.explain.map(|explained| possible_engines(explained).collect::<Vec<_>>()),
    "compare": result.compare,
});

/// The table of `--format du`.
pub(crate) fn usage_table(directories: impl Iterator<Item = DirectoryUsage>) -> Table {
    use Align::{Left, Right};
    let columns = [
        ("ALLOCATED", Right),
        ("SIZE", Right),
        ("INODES", Right),
        ("PATH", Left),
    ];
    let mut table = Table::new(&columns, 0);
    for DirectoryUsage { path, sums } in directories {
        let cells = [
            size(sums.blocks.saturating_mul(512)).into(),
            size(sums.bytes).into(),
            count(sums.inodes).into(),
            printable(&path),
        ];
        table.row(cells, Tone::Plain);
    }
    table
}

pub(crate) fn totals_text(totals: &Totals, seconds: f64, parts: &[Part]) -> String {
    let sized = |bytes: u64| match bytes {
        0..1024 => plural(bytes, "byte", "bytes"),
        _ => format!("{} ({} bytes)", size(bytes), count(bytes)),
    };
    let mut engines: Vec<&str> = parts.iter().map(|part| part.engine.name()).collect();
    engines.sort_unstable();
    engines.dedup();
    let engine_head = match &engines[..] {
        [_] => "engine",
        _ => "engines",
    };
    let rows = [
        ("entries", count(totals.entries)),
        ("  files", count(totals.files)),
        ("  directories", count(totals.directories)),
        ("  symlinks", count(totals.symlinks)),
        ("  other", count(totals.other)),
        ("size", sized(totals.bytes)),
        ("allocated", sized(totals.blocks.saturating_mul(512))),
        ("maximum depth", count(totals.max_depth.into())),
        ("digest", totals.digest.to_string()),
        (engine_head, engines.join(", ")),
        ("time", duration(seconds)),
    ];
    let lines = rows
        .iter()
        .map(|(name, value)| format!("{name:<14} {value}\n"));
    lines.collect()
}

/// The engine of each mount, and with `with_reasons` why it was chosen.
pub(crate) fn parts_text(parts: &[Part], with_reasons: bool, style: TableStyle) -> String {
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
        table.row(cells.into_iter().take(columns.len()), Tone::Plain);
    }
    table.to_text(style.width, style.color)
}

pub(crate) fn top_text(top: &[LargeFile], style: TableStyle) -> String {
    use Align::{Left, Right};
    let columns = [("ALLOCATED", Right), ("SIZE", Right), ("PATH", Left)];
    let mut table = Table::new(&columns, top.len());
    for file in top {
        let cells = [
            size(file.blocks.saturating_mul(512)).into(),
            size(file.bytes).into(),
            printable(&file.path),
        ];
        table.row(cells, Tone::Plain);
    }
    table.to_text(style.width, style.color)
}

/// The engines that can work in each directory, and why others cannot.
pub(crate) fn explain_text(explained: &[Explained], style: TableStyle) -> String {
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
        for row in possible_engines(std::slice::from_ref(one)) {
            let possible = if row.is_possible() { "yes" } else { "no" };
            let (engine, why) = (format!("  {}", row.engine.name()), row.why());
            let why = printable(why.as_bytes());
            table.row_with_reason([&engine, possible], &why, why_from, style);
        }
        out.push_str(&table.to_text(None, style.color));
    }
    out
}

/// An engine, and what its runs took.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    pub(crate) engine: &'static str,
    pub(crate) entries: u64,
    pub(crate) digest: String,
    /// Whether it was run several times, and found the same each time.
    pub(crate) steady: bool,
    /// One for each trial.
    pub(crate) runs: Vec<Times>,
    /// Calls of one run.
    pub(crate) gates: Gates,
}

impl Engine {
    /// All calls of one run.
    pub(crate) fn calls(&self) -> u64 {
        self.gates.values().map(|row| row.calls).sum()
    }

    fn calls_per_entry(&self) -> f64 {
        self.calls() as f64 / self.entries.max(1) as f64
    }

    fn stats(&self, field: fn(&Times) -> f64) -> Option<Stats> {
        Stats::from_values(self.runs.iter().map(field))
    }
}

json_object!(Engine, |engine| {
    "engine": engine.engine,
    "entries": engine.entries,
    "digest": engine.digest,
    "real": engine.stats(|t| t.real),
    "user": engine.stats(|t| t.user),
    "sys": engine.stats(|t| t.sys),
    "calls": engine.calls(),
    "calls_per_entry": engine.calls_per_entry(),
    "gates": engine.gates,
});

/// An engine that was not compared.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LeftOut {
    pub(crate) engine: &'static str,
    pub(crate) why: String,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Comparison<'a> {
    pub(crate) engines: &'a [Engine],
    pub(crate) agree: bool,
    pub(crate) left_out: &'a [LeftOut],
}

impl<'a> Comparison<'a> {
    pub(crate) fn new(engines: &'a [Engine], left_out: &'a [LeftOut]) -> Comparison<'a> {
        let is_same = |a: &Engine, b: &Engine| a.digest == b.digest && a.entries == b.entries;
        let agree = engines.windows(2).all(|two| is_same(&two[0], &two[1]));
        Comparison {
            engines,
            agree,
            left_out,
        }
    }

    pub(crate) fn table(&self) -> Table {
        use Align::{Left, Right};
        let columns = [
            ("ENGINE", Left),
            ("ENTRIES", Right),
            ("REAL ms", Right),
            ("USER ms", Right),
            ("SYS ms", Right),
            ("CALLS", Right),
            ("CALLS/ENTRY", Right),
            ("TIME/STAT", Right),
        ];
        let real = |engine: &Engine| median_ms(&engine.runs, |t| t.real);
        let stat = self.engines.iter().find(|engine| engine.engine == "stat");
        let stat = stat.and_then(real);
        let mut table = Table::new(&columns, self.engines.len());
        for engine in self.engines {
            let ms = |field| {
                median_ms(&engine.runs, field).map_or("-".to_owned(), |ms| format!("{ms:.2}"))
            };
            let ratio = stat.zip(real(engine)).map(|(stat, ms)| ms / stat);
            let cells = [
                engine.engine.to_owned(),
                count(engine.entries),
                ms(|t| t.real),
                ms(|t| t.user),
                ms(|t| t.sys),
                count(engine.calls()),
                format!("{:.3}", engine.calls_per_entry()),
                ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
            ];
            table.row(cells, Tone::Plain);
        }
        table
    }

    /// The calls of each, what was left out, and whether they agree.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for Engine { engine, gates, .. } in self.engines {
            let gates = gates
                .iter()
                .map(|(name, row)| format!("{name} {}", count(row.calls)));
            let gates: Vec<String> = gates.collect();
            notes.push(format!("{engine}: {}", gates.join(", ")));
        }
        for LeftOut { engine, why } in self.left_out {
            notes.push(format!("{engine} skipped: {}", printable(why.as_bytes())));
        }
        match self.engines {
            [] => {}
            [one] => notes.push(format!("digest {}", one.digest)),
            [first, ..] if self.agree => {
                notes.push(format!("all engines agree: digest {}", first.digest))
            }
            all => {
                notes.push("the engines disagree:".to_owned());
                let digests = all
                    .iter()
                    .map(|one| format!("{} {}", one.engine, one.digest));
                notes.extend(digests);
            }
        }
        notes
    }

    pub(crate) fn to_text(self, style: TableStyle) -> String {
        let notes = self.notes();
        let notes: String = notes.iter().map(|note| style.wrapped(note)).collect();
        self.table().to_text(style.width, style.color) + &notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::show::json::GateCounts;

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

    fn engine(name: &'static str, real: f64, digest: &str) -> Engine {
        let row = GateCounts {
            calls: 8,
            errors: 0,
            seconds: None,
        };
        let runs = vec![Times {
            real,
            user: 0.0,
            sys: 0.0,
        }];
        let digest = digest.to_owned();
        Engine {
            engine: name,
            entries: 4,
            digest,
            steady: true,
            runs,
            gates: [("statx", row)].into(),
        }
    }

    #[test]
    fn unrequested_fields_are_null() {
        let parts = [Part {
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
        for field in ["top", "du", "explain", "compare"] {
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
            text.contains("size           1.50 KiB (1,536 bytes)\n")
                && text.contains("allocated      512 bytes\n"),
            "{text}"
        );
    }

    #[test]
    fn comparison_finds_whether_engines_agree() {
        let engines = [engine("threads", 0.1, "aa"), engine("stat", 0.2, "aa")];
        let left_out = [LeftOut {
            engine: "ext4",
            why: "not\x1b ext4".to_owned(),
        }];
        let comparison = Comparison::new(&engines, &left_out);
        let text = comparison.to_text(TableStyle::default());
        assert!(
            comparison.agree && text.contains("all engines agree: digest aa"),
            "{text}"
        );
        assert!(
            text.lines().nth(1).unwrap().ends_with("2.000      0.50"),
            "{text}"
        );
        assert!(text.contains("ext4 skipped: not\\x1b ext4"), "{text}");
        let value = serde_json::to_value(comparison).unwrap();
        assert_eq!(value["engines"][0]["calls_per_entry"], 2.0);
        let engines = [engine("threads", 0.1, "aa"), engine("stat", 0.2, "ab")];
        let comparison = Comparison::new(&engines, &[]);
        assert!(
            !comparison.agree
                && comparison
                    .to_text(TableStyle::default())
                    .contains("engines disagree")
        );
    }

    #[test]
    fn usage_in_json_is_in_bytes() {
        let usage = DirectoryUsage {
            path: b"\xff".to_vec(),
            sums: walk::Sums {
                blocks: 3,
                bytes: 7,
                inodes: 2,
            },
        };
        let expected = serde_json::json!({"path": "\u{fffd}", "path_b64": "/w==", "allocated": 1536, "apparent": 7, "inodes": 2});
        assert_eq!(serde_json::to_value(Json(&usage)).unwrap(), expected);
    }
}
