//! What a walk found, and what each way of walking cost.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::compare::{Times, median_ms};
use crate::du::Line;
use show::json::Gates;
use show::name::{entry, printable};
use show::stats::Stats;
use show::table::{Align, Table, TableStyle, Tone};
use show::units::{plural, size};

/// What was found, added up.
#[derive(Clone, Debug)]
pub struct Totals {
    /// Entries, every DIR included.
    pub entries: u64,
    /// Plain files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// All else.
    pub other: u64,
    /// Sum of the sizes of all entries, in bytes.
    pub bytes: u64,
    /// Sum of what is allocated to all entries, in units of 512 bytes.
    pub blocks: u64,
    /// Depth of the deepest entry, DIR being at 0.
    pub max_depth: u32,
    /// The hash over all of it.
    pub digest: String,
    /// What the walk took.
    pub seconds: f64,
}

/// A mount that was walked.
#[derive(Clone, Debug)]
pub struct Part {
    /// Where it was entered, beginning with DIR as it was given.
    pub path: Vec<u8>,
    /// Type of the file system.
    pub fstype: Option<Vec<u8>>,
    /// The engine.
    pub engine: &'static str,
    /// Why that one.
    pub why: String,
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "path", Some(&self.path))?;
        entry(&mut map, "fstype", self.fstype.as_deref())?;
        map.serialize_entry("engine", self.engine)?;
        map.serialize_entry("why", &self.why)?;
        map.end()
    }
}

/// One of the largest files.
#[derive(Clone, Debug)]
pub struct Large {
    /// Its path, beginning with DIR as it was given.
    pub path: Vec<u8>,
    /// Size in bytes.
    pub bytes: u64,
    /// What is allocated, in units of 512 bytes.
    pub blocks: u64,
    /// What kind of file.
    pub kind: &'static str,
}

impl Serialize for Large {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "path", Some(&self.path))?;
        map.serialize_entry("bytes", &self.bytes)?;
        map.serialize_entry("blocks", &self.blocks)?;
        map.serialize_entry("kind", self.kind)?;
        map.end()
    }
}

/// An engine, and whether it can work in a directory.
#[derive(Clone, Debug)]
pub struct Possible {
    /// The directory.
    pub path: Vec<u8>,
    /// The engine.
    pub engine: &'static str,
    /// Whether it can.
    pub possible: bool,
    /// Why it cannot, or why it is the one that is taken.
    pub why: String,
}

impl Serialize for Possible {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "path", Some(&self.path))?;
        map.serialize_entry("engine", self.engine)?;
        map.serialize_entry("possible", &self.possible)?;
        map.serialize_entry("why", &self.why)?;
        map.end()
    }
}

/// The result of `fathom walk`; what was not asked for is `None`.
#[derive(Clone, Debug, Default)]
pub struct Walk<'a> {
    /// What was found, if anything was walked.
    pub totals: Option<Totals>,
    /// The mounts; the first is that of the first DIR.
    pub parts: &'a [Part],
    /// The largest files.
    pub top: Option<&'a [Large]>,
    /// What each directory holds.
    pub du: Option<&'a [Line]>,
    /// The engines that can work here, and why others cannot.
    pub explain: Option<&'a [Possible]>,
    /// What each engine costs.
    pub compare: Option<Comparison<'a>>,
}

impl Serialize for Walk<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let totals = self.totals.as_ref();
        let first = self.parts.first();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("engine", &first.map(|part| part.engine))?;
        map.serialize_entry("why", &first.map(|part| &part.why))?;
        map.serialize_entry("entries", &totals.map(|t| t.entries))?;
        map.serialize_entry("files", &totals.map(|t| t.files))?;
        map.serialize_entry("directories", &totals.map(|t| t.directories))?;
        map.serialize_entry("symlinks", &totals.map(|t| t.symlinks))?;
        map.serialize_entry("other", &totals.map(|t| t.other))?;
        map.serialize_entry("bytes", &totals.map(|t| t.bytes))?;
        map.serialize_entry("blocks", &totals.map(|t| t.blocks))?;
        map.serialize_entry("max_depth", &totals.map(|t| t.max_depth))?;
        map.serialize_entry("digest", &totals.map(|t| &t.digest))?;
        map.serialize_entry("seconds", &totals.map(|t| t.seconds))?;
        map.serialize_entry("parts", self.parts)?;
        map.serialize_entry("top", &self.top)?;
        map.serialize_entry("du", &self.du)?;
        map.serialize_entry("explain", &self.explain)?;
        map.serialize_entry("compare", &self.compare)?;
        map.end()
    }
}

/// The totals, for people; and by which engines.
pub fn totals_text(totals: &Totals, parts: &[Part]) -> String {
    let sized = |bytes: u64| match size(bytes) {
        human if human == bytes.to_string() => plural(bytes, "byte", "bytes"),
        human => format!("{human} ({bytes} bytes)"),
    };
    let mut engines: Vec<&str> = parts.iter().map(|part| part.engine).collect();
    engines.sort_unstable();
    engines.dedup();
    let rows = [
        ("entries", totals.entries.to_string()),
        ("  files", totals.files.to_string()),
        ("  directories", totals.directories.to_string()),
        ("  symlinks", totals.symlinks.to_string()),
        ("  other", totals.other.to_string()),
        ("size", sized(totals.bytes)),
        ("allocated", sized(totals.blocks.saturating_mul(512))),
        ("deepest", totals.max_depth.to_string()),
        ("digest", totals.digest.clone()),
        (
            if engines.len() == 1 {
                "engine"
            } else {
                "engines"
            },
            engines.join(", "),
        ),
        ("seconds", format!("{:.3}", totals.seconds)),
    ];
    rows.iter()
        .map(|(name, value)| format!("{name:<14} {value}\n"))
        .collect()
}

/// The mounts that were walked, and by which engine.
pub fn parts_text(parts: &[Part], style: TableStyle) -> String {
    use Align::Left;
    let mut table = Table::new(
        &[
            ("MOUNT", Left),
            ("FSTYPE", Left),
            ("ENGINE", Left),
            ("WHY", Left),
        ],
        parts.len(),
    );
    for part in parts {
        let fstype = part.fstype.as_deref().map_or("-".into(), printable);
        table.row(
            [
                printable(&part.path),
                fstype,
                part.engine.into(),
                printable(part.why.as_bytes()),
            ],
            Tone::Plain,
        );
    }
    table.to_text(style.width, style.color)
}

/// The largest files, for people.
pub fn top_text(top: &[Large], style: TableStyle) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(
        &[
            ("ALLOCATED", Right),
            ("SIZE", Right),
            ("BYTES", Right),
            ("FILE", Left),
        ],
        top.len(),
    );
    for file in top {
        let allocated = size(file.blocks.saturating_mul(512));
        let cells = [
            allocated.into(),
            size(file.bytes).into(),
            file.bytes.to_string().into(),
            printable(&file.path),
        ];
        table.row(cells, Tone::Plain);
    }
    table.to_text(style.width, style.color)
}

/// The engines that can work in each directory, and why others cannot.
pub fn explain_text(explain: &[Possible], parts: &[Part], style: TableStyle) -> String {
    use Align::Left;
    let mut out = String::new();
    // Each directory has as many rows as any other.
    let rows = explain.len() / parts.len().max(1);
    for (part, rows) in parts.iter().zip(explain.chunks(rows.max(1))) {
        let fstype = part
            .fstype
            .as_deref()
            .map_or(String::new(), |fstype| format!(" ({})", printable(fstype)));
        out.push_str(&format!(
            "{}{fstype}: by {}\n",
            printable(&part.path),
            part.engine
        ));
        let mut table = Table::new(
            &[("  ENGINE", Left), ("POSSIBLE", Left), ("WHY", Left)],
            rows.len(),
        );
        let why_from = "  bulkstat POSSIBLE ".len();
        for row in rows {
            let possible = if row.possible { "yes" } else { "no" };
            table.row_with_reason(
                [&format!("  {}", row.engine), possible],
                &printable(row.why.as_bytes()),
                why_from,
                style,
            );
        }
        out.push_str(&table.to_text(None, style.color));
    }
    out
}

/// An engine, and what its runs took.
#[derive(Clone, Debug)]
pub struct Engine {
    /// Its name.
    pub engine: &'static str,
    /// Entries that it found.
    pub entries: u64,
    /// The hash over them.
    pub digest: String,
    /// Whether it was run several times, and found the same each time.
    pub steady: bool,
    /// One for each trial.
    pub runs: Vec<Times>,
    /// Calls of one run.
    pub gates: Gates,
}

impl Engine {
    /// All calls of one run.
    pub fn calls(&self) -> u64 {
        self.gates.values().map(|row| row.calls).sum()
    }

    fn calls_per_entry(&self) -> f64 {
        self.calls() as f64 / self.entries.max(1) as f64
    }

    fn stats(&self, field: fn(&Times) -> f64) -> Option<Stats> {
        Stats::from_values(self.runs.iter().map(field))
    }
}

impl Serialize for Engine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("engine", self.engine)?;
        map.serialize_entry("entries", &self.entries)?;
        map.serialize_entry("digest", &self.digest)?;
        map.serialize_entry("real", &self.stats(|t| t.real))?;
        map.serialize_entry("user", &self.stats(|t| t.user))?;
        map.serialize_entry("sys", &self.stats(|t| t.sys))?;
        map.serialize_entry("calls", &self.calls())?;
        map.serialize_entry("calls_per_entry", &self.calls_per_entry())?;
        map.serialize_entry("gates", &self.gates)?;
        map.end()
    }
}

/// An engine that was not compared.
#[derive(Clone, Debug, Serialize)]
pub struct LeftOut {
    /// Its name.
    pub engine: &'static str,
    /// Why.
    pub why: String,
}

/// What each engine costs on one tree.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Comparison<'a> {
    /// Those that could work.
    pub engines: &'a [Engine],
    /// Whether all found the same.
    pub agree: bool,
    /// Those that could not, or were stopped.
    pub left_out: &'a [LeftOut],
}

impl<'a> Comparison<'a> {
    /// Compares what they found.
    pub fn of(engines: &'a [Engine], left_out: &'a [LeftOut]) -> Comparison<'a> {
        let agree = engines
            .windows(2)
            .all(|two| two[0].digest == two[1].digest && two[0].entries == two[1].entries);
        Comparison {
            engines,
            agree,
            left_out,
        }
    }

    /// The table of engines.
    pub fn table(&self) -> Table {
        use Align::{Left, Right};
        let columns = [
            ("ENGINE", Left),
            ("ENTRIES", Right),
            ("REAL ms", Right),
            ("USER ms", Right),
            ("SYS ms", Right),
            ("CALLS", Right),
            ("PER ENTRY", Right),
            ("x STAT", Right),
        ];
        let real = |engine: &Engine| median_ms(&engine.runs, |t| t.real);
        let plain = self
            .engines
            .iter()
            .find(|engine| engine.engine == "stat")
            .and_then(real);
        let mut table = Table::new(&columns, self.engines.len());
        for engine in self.engines {
            let ms = |field| {
                median_ms(&engine.runs, field).map_or("-".to_owned(), |ms| format!("{ms:.2}"))
            };
            let ratio = plain.zip(real(engine)).map(|(plain, ms)| ms / plain);
            let cells = [
                engine.engine.to_owned(),
                engine.entries.to_string(),
                ms(|t| t.real),
                ms(|t| t.user),
                ms(|t| t.sys),
                engine.calls().to_string(),
                format!("{:.3}", engine.calls_per_entry()),
                ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
            ];
            table.row(cells, Tone::Plain);
        }
        table
    }

    /// The calls of each, what was left out, and whether they agree.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for engine in self.engines {
            let gates: Vec<String> = engine
                .gates
                .iter()
                .map(|(name, row)| format!("{name} {}", row.calls))
                .collect();
            notes.push(format!("{}: {}", engine.engine, gates.join(", ")));
        }
        for left in self.left_out {
            notes.push(format!(
                "{} left out: {}",
                left.engine,
                printable(left.why.as_bytes())
            ));
        }
        match self.engines {
            [] => {}
            [one] => notes.push(format!("digest {}", one.digest)),
            [first, ..] if self.agree => notes.push(format!("All agree: digest {}", first.digest)),
            all => {
                notes.push("They do not agree:".to_owned());
                notes.extend(
                    all.iter()
                        .map(|engine| format!("{} {}", engine.engine, engine.digest)),
                );
            }
        }
        notes
    }

    /// The table and the notes, as text.
    pub fn to_text(&self, style: TableStyle) -> String {
        let notes: String = self
            .notes()
            .iter()
            .map(|note| style.wrapped(note))
            .collect();
        self.table().to_text(style.width, style.color) + &notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use show::json::GateCounts;

    fn totals() -> Totals {
        Totals {
            entries: 4,
            files: 1,
            directories: 2,
            symlinks: 1,
            other: 0,
            bytes: 1536,
            blocks: 1,
            max_depth: 2,
            digest: "00ff".to_owned(),
            seconds: 0.5,
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
    fn what_was_not_asked_for_is_null() {
        let parts = [Part {
            path: b"a\xff".to_vec(),
            fstype: None,
            engine: "stat",
            why: "so".to_owned(),
        }];
        let value = serde_json::to_value(Walk {
            totals: Some(totals()),
            parts: &parts,
            ..Walk::default()
        })
        .unwrap();
        assert_eq!(
            (&value["engine"], &value["why"], &value["entries"]),
            (&"stat".into(), &"so".into(), &4.into())
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
    fn sizes_are_given_for_people_and_exactly() {
        let text = totals_text(&totals(), &[]);
        assert!(
            text.contains("size           1.5K (1536 bytes)\n")
                && text.contains("allocated      512 bytes\n"),
            "{text}"
        );
    }

    #[test]
    fn engines_agree_or_not() {
        let engines = [engine("threads", 0.1, "aa"), engine("stat", 0.2, "aa")];
        let left_out = [LeftOut {
            engine: "ext4",
            why: "not\x1b ext4".to_owned(),
        }];
        let comparison = Comparison::of(&engines, &left_out);
        let text = comparison.to_text(TableStyle::default());
        assert!(
            comparison.agree && text.contains("All agree: digest aa"),
            "{text}"
        );
        assert!(
            text.lines().nth(1).unwrap().ends_with("2.000   0.50"),
            "{text}"
        );
        assert!(text.contains("ext4 left out: not\\x1b ext4"), "{text}");
        let value = serde_json::to_value(comparison).unwrap();
        assert_eq!(value["engines"][0]["calls_per_entry"], 2.0);
        let engines = [engine("threads", 0.1, "aa"), engine("stat", 0.2, "ab")];
        let comparison = Comparison::of(&engines, &[]);
        assert!(
            !comparison.agree
                && comparison
                    .to_text(TableStyle::default())
                    .contains("do not agree")
        );
    }
}
