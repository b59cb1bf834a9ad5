//! What `fathom pathwalk` did: the lines of LLNL's program, and what there is to say beyond them.

use std::fmt::Write;
use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::plot::Figure;
use show::name::entry;
use show::stats::Stats;
use show::table::{Align, Table, TableStyle, Tone};

/// `pathwalk: Created 160001 objects in 2.381s`
pub fn created_line(objects: u64, took: Duration) -> String {
    format!("pathwalk: Created {objects} objects in {}\n", seconds(took))
}

/// `pathwalk: Found 10000/10000 files in 16 directories in 0.161s`
pub fn found_line(found: u64, files: u64, directories: u64, took: Duration) -> String {
    format!(
        "pathwalk: Found {found}/{files} files in {directories} directories in {}\n",
        seconds(took)
    )
}

/// `pathwalk: Removed 160001 objects in 1.469s`
pub fn removed_line(objects: u64, took: Duration) -> String {
    format!("pathwalk: Removed {objects} objects in {}\n", seconds(took))
}

/// Seconds with three digits behind the point; more are cut off, as LLNL's program does.
fn seconds(took: Duration) -> String {
    format!("{}.{:03}s", took.as_secs(), took.subsec_millis())
}

/// How many there are of something a second; 0 where it took no time.
fn rate(n: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        n as f64 / seconds
    } else {
        0.0
    }
}

/// The result of `fathom pathwalk`.
#[derive(Clone, Debug)]
pub struct Pathwalk<'a> {
    /// Where the tree is or was.
    pub root: &'a [u8],
    /// Its directories.
    pub directories: u64,
    /// Files in each of them.
    pub files: u64,
    /// The tree was made.
    pub created: Option<Created>,
    /// It was searched.
    pub test: Option<Test>,
    /// It was removed.
    pub removed: Option<Removed>,
}

impl Serialize for Pathwalk<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "root", Some(self.root))?;
        map.serialize_entry("directories", &self.directories)?;
        map.serialize_entry("files", &self.files)?;
        map.serialize_entry("created", &self.created)?;
        map.serialize_entry("test", &self.test)?;
        map.serialize_entry("removed", &self.removed)?;
        map.end()
    }
}

/// A tree that was made.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Created {
    /// Files, and ROOT.
    pub objects: u64,
    /// How long it took.
    pub seconds: f64,
}

/// A tree that was removed.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Removed {
    /// Files, and ROOT.
    pub objects: u64,
    /// Entries that were left.
    pub left: u64,
    /// How long it took.
    pub seconds: f64,
}

/// Searches of a tree.
#[derive(Clone, Debug)]
pub struct Test {
    /// How names were looked up: `stat`.
    pub method: &'static str,
    /// Threads of each rank.
    pub threads: usize,
    /// Whether the names are in no directory.
    pub fails: bool,
    /// What the kernel was asked to forget before; `None` when nothing.
    pub forgot: Option<Forgot>,
    /// The search for one file that came first.
    pub primed: Option<Pass>,
    /// The searches, in turn.
    pub passes: Vec<Pass>,
}

/// What was forgotten before a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Forgot {
    /// What was; `None` when nothing could be.
    pub what: Option<&'static str>,
    /// What may still be known.
    pub kept: &'static str,
}

impl Test {
    fn median(&self, of: impl Fn(&Pass) -> f64) -> Option<f64> {
        Stats::from_values(self.passes.iter().map(of)).map(|stats| stats.median)
    }

    /// How much longer the first search took than the second: what it is worth that the kernel then
    /// knows the names, also those that are not there.
    pub fn first_to_second(&self) -> Option<f64> {
        match &self.passes[..] {
            [first, second, ..] if second.seconds > 0.0 => Some(first.seconds / second.seconds),
            _ => None,
        }
    }
}

impl Serialize for Test {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("method", self.method)?;
        map.serialize_entry("threads", &self.threads)?;
        map.serialize_entry(
            "ranks",
            &self.passes.first().map_or(1, |pass| pass.ranks.len()),
        )?;
        map.serialize_entry("fails", &self.fails)?;
        map.serialize_entry("forgot", &self.forgot)?;
        map.serialize_entry("seconds", &self.median(|pass| pass.seconds))?;
        map.serialize_entry("lookups_per_second", &self.median(Pass::rate))?;
        map.serialize_entry("miss_share", &self.median(Pass::miss_share))?;
        map.serialize_entry("first_to_second", &self.first_to_second())?;
        map.serialize_entry("primed", &self.primed)?;
        map.serialize_entry("passes", &self.passes)?;
        map.end()
    }
}

/// One search for all files.
#[derive(Clone, Debug)]
pub struct Pass {
    /// Files that were looked for, by each rank in turn.
    pub files: u64,
    /// Of them, those that were found.
    pub found: u64,
    /// Names that were looked up.
    pub lookups: u64,
    /// Names that were not there.
    pub misses: u64,
    /// Look-ups that failed otherwise.
    pub failed: u64,
    /// How long it took; on the rank that took longest.
    pub seconds: f64,
    /// How long the look-ups took: all of them, hits, misses.
    pub latency: Option<[Latency; 3]>,
    /// What each rank did.
    pub ranks: Vec<Rank>,
}

/// What one rank did.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rank {
    /// Files that it found.
    pub found: u64,
    /// Names that it looked up.
    pub lookups: u64,
    /// How long it took.
    pub seconds: f64,
}

impl Pass {
    fn rate(&self) -> f64 {
        rate(self.lookups, self.seconds)
    }

    fn miss_share(&self) -> f64 {
        if self.lookups > 0 {
            self.misses as f64 / self.lookups as f64
        } else {
            0.0
        }
    }

    /// Mean, least and greatest over the ranks: seconds, and look-ups a second.
    fn spread(&self) -> Option<[Stats; 2]> {
        let of = |value: fn(&Rank) -> f64| Stats::from_values(self.ranks.iter().map(value));
        Some([
            of(|rank| rank.seconds)?,
            of(|rank| rate(rank.lookups, rank.seconds))?,
        ])
    }
}

impl Serialize for Pass {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Latencies<'a> {
            all: &'a Latency,
            hits: &'a Latency,
            misses: &'a Latency,
        }
        #[derive(Serialize)]
        struct Each {
            rank: usize,
            found: u64,
            lookups: u64,
            seconds: f64,
            lookups_per_second: f64,
        }
        #[derive(Serialize)]
        struct Ranks {
            seconds: Stats,
            lookups_per_second: Stats,
            each: Vec<Each>,
        }
        let each = |(rank, r): (usize, &Rank)| {
            let Rank {
                found,
                lookups,
                seconds,
            } = *r;
            Each {
                rank,
                found,
                lookups,
                seconds,
                lookups_per_second: rate(lookups, seconds),
            }
        };
        let ranks =
            self.spread()
                .filter(|_| self.ranks.len() > 1)
                .map(|[seconds, lookups_per_second]| Ranks {
                    seconds,
                    lookups_per_second,
                    each: self.ranks.iter().enumerate().map(each).collect(),
                });
        let latency =
            self.latency
                .as_ref()
                .map(|[all, hits, misses]| Latencies { all, hits, misses });
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("files", &self.files)?;
        map.serialize_entry("found", &self.found)?;
        map.serialize_entry("lookups", &self.lookups)?;
        map.serialize_entry("misses", &self.misses)?;
        map.serialize_entry("failed", &self.failed)?;
        map.serialize_entry("seconds", &self.seconds)?;
        map.serialize_entry("lookups_per_second", &self.rate())?;
        map.serialize_entry("latency", &latency)?;
        map.serialize_entry("ranks", &ranks)?;
        map.end()
    }
}

/// How long look-ups took, in nanoseconds. Percentiles are up to 3 % too long; all are `None` where
/// there were no calls.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Latency {
    /// How many there were.
    pub calls: u64,
    /// The shortest.
    pub min: Option<u64>,
    /// The mean.
    pub mean: Option<f64>,
    /// What half of them do not exceed.
    pub p50: Option<u64>,
    /// What 90 % do not exceed.
    pub p90: Option<u64>,
    /// What 99 % do not exceed.
    pub p99: Option<u64>,
    /// What 99.9 % do not exceed.
    pub p999: Option<u64>,
    /// The longest.
    pub max: Option<u64>,
    /// The buckets in which there are any.
    pub histogram: Vec<Bucket>,
}

/// A bucket of a histogram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Bucket {
    /// Its least value.
    pub from: u64,
    /// Its greatest value.
    pub to: u64,
    /// How many are in it.
    pub calls: u64,
}

impl Pathwalk<'_> {
    /// What there is to say beyond LLNL's lines, for people.
    pub fn to_text(&self, style: TableStyle) -> String {
        let Some(test) = &self.test else {
            return String::new();
        };
        let mut text = passes_text(test, style);
        text.push_str(&latency_text(test, style));
        text.push_str(&ranks_text(test, style));
        if let Some(ratio) = test.first_to_second() {
            let _ = writeln!(
                text,
                "\nThe first search took {ratio:.2} times as long as the second."
            );
        }
        if let Some(Forgot {
            what: Some(what),
            kept,
        }) = test.forgot
        {
            let _ = writeln!(
                text,
                "\nForgotten before the first search: {what}. Not: {kept}."
            );
        }
        text
    }
}

fn named(test: &Test) -> impl Iterator<Item = (String, &Pass)> {
    let primed = test.primed.iter().map(|pass| ("prime".to_owned(), pass));
    primed.chain(
        test.passes
            .iter()
            .enumerate()
            .map(|(n, pass)| ((n + 1).to_string(), pass)),
    )
}

fn passes_text(test: &Test, style: TableStyle) -> String {
    use Align::{Left, Right};
    let columns = [
        ("SEARCH", Right),
        ("METHOD", Left),
        ("THREADS", Right),
        ("SECONDS", Right),
        ("LOOKUPS", Right),
        ("LOOKUPS/S", Right),
        ("MISSES", Right),
    ];
    let mut table = Table::new(&columns, test.passes.len() + 1);
    for (name, pass) in named(test) {
        let cells = [
            name,
            test.method.to_owned(),
            test.threads.to_string(),
            format!("{:.6}", pass.seconds),
            pass.lookups.to_string(),
            format!("{:.0}", pass.rate()),
            format!("{:.2} %", 100.0 * pass.miss_share()),
        ];
        table.row(cells, Tone::Plain);
    }
    format!("\n{}", table.to_text(style.width, style.color))
}

fn latency_text(test: &Test, style: TableStyle) -> String {
    use Align::{Left, Right};
    let columns = [
        ("SEARCH", Right),
        ("OF", Left),
        ("CALLS", Right),
        ("MIN ns", Right),
        ("MEAN", Right),
        ("50 %", Right),
        ("90 %", Right),
        ("99 %", Right),
        ("99.9 %", Right),
        ("MAX", Right),
    ];
    let mut table = Table::new(&columns, 3 * test.passes.len());
    let mut any = false;
    for (name, pass) in named(test) {
        let Some(latencies) = &pass.latency else {
            continue;
        };
        for (of, latency) in ["all", "hits", "misses"]
            .into_iter()
            .zip(latencies)
            .filter(|(_, of)| of.calls > 0)
        {
            let Latency {
                calls,
                min,
                mean,
                p50,
                p90,
                p99,
                p999,
                max,
                ..
            } = latency;
            let plain =
                |value: &Option<u64>| value.map_or(String::new(), |value| value.to_string());
            let cells = [
                name.clone(),
                of.to_owned(),
                calls.to_string(),
                plain(min),
                mean.map_or(String::new(), |mean| format!("{mean:.0}")),
                plain(p50),
                plain(p90),
                plain(p99),
                plain(p999),
                plain(max),
            ];
            table.row(cells, Tone::Plain);
            any = true;
        }
    }
    if any {
        format!("\n{}", table.to_text(style.width, style.color))
    } else {
        String::new()
    }
}

fn ranks_text(test: &Test, style: TableStyle) -> String {
    use Align::Right;
    let columns = [
        ("SEARCH", Right),
        ("RANKS", Right),
        ("SECONDS min", Right),
        ("mean", Right),
        ("max", Right),
        ("LOOKUPS/S min", Right),
        ("mean", Right),
        ("max", Right),
    ];
    let mut table = Table::new(&columns, test.passes.len());
    let mut any = false;
    for (name, pass) in named(test).filter(|(_, pass)| pass.ranks.len() > 1) {
        let Some([seconds, rates]) = pass.spread() else {
            continue;
        };
        let cells = [
            name,
            pass.ranks.len().to_string(),
            format!("{:.6}", seconds.min),
            format!("{:.6}", seconds.mean),
            format!("{:.6}", seconds.max),
            format!("{:.0}", rates.min),
            format!("{:.0}", rates.mean),
            format!("{:.0}", rates.max),
        ];
        table.row(cells, Tone::Plain);
        any = true;
    }
    if any {
        format!("\n{}", table.to_text(style.width, style.color))
    } else {
        String::new()
    }
}

/// The figures of a test, each with the name of its file: how long look-ups took, by percentile, in
/// the first and the last search; and how long each search took, where there are several.
pub fn figures(test: &Test) -> Vec<(String, Figure)> {
    let mut figures = Vec::new();
    let last = test.passes.len().saturating_sub(1);
    for (n, pass) in test
        .passes
        .iter()
        .enumerate()
        .filter(|(n, _)| *n == 0 || *n == last)
    {
        let Some([all, ..]) = &pass.latency else {
            continue;
        };
        let note = match (all.p50, all.p99) {
            (Some(p50), Some(p99)) => format!(
                "half within {p50} ns, 99 % within {p99} ns ({} calls)",
                all.calls
            ),
            _ => "no calls".to_owned(),
        };
        let figure = Figure {
            title: format!("TableStyle-ups by {}, search {}", test.method, n + 1),
            note,
            x: "nines: 1 is 90 % of the look-ups, 2 is 99 %, 3 is 99.9 %".to_owned(),
            y: "ns that they do not exceed".to_owned(),
            points: nines(all),
            marks: Vec::new(),
        };
        figures.push((format!("pathwalk-latency-{}", n + 1), figure));
    }
    if test.passes.len() > 1 {
        let figure = Figure {
            title: format!("Searches by {}", test.method),
            note: test.first_to_second().map_or(String::new(), |r| {
                format!("the first took {r:.2} x the second")
            }),
            x: "search".to_owned(),
            y: "seconds".to_owned(),
            points: (1..)
                .map(f64::from)
                .zip(test.passes.iter().map(|pass| pass.seconds))
                .collect(),
            marks: vec![0],
        };
        figures.push(("pathwalk-searches".to_owned(), figure));
    }
    figures
}

/// How long look-ups took, against how many nines of them did not take longer.
fn nines(latency: &Latency) -> Vec<(f64, f64)> {
    let all = latency.calls as f64;
    let mut seen = 0;
    let point = |bucket: &Bucket| {
        seen += bucket.calls;
        // The last bucket holds the longest of all: as if one more, longer still, were to come.
        let beyond = (latency.calls - seen.min(latency.calls)).max(1) as f64;
        (
            (all / beyond).log10(),
            bucket.to.min(latency.max.unwrap_or(u64::MAX)) as f64,
        )
    };
    latency.histogram.iter().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency() -> Latency {
        let histogram = vec![
            Bucket {
                from: 400,
                to: 415,
                calls: 90,
            },
            Bucket {
                from: 800,
                to: 831,
                calls: 10,
            },
        ];
        let some = |value| Some(value);
        let (min, p50, p90, p99, p999, max) = (
            some(401),
            some(415),
            some(415),
            some(820),
            some(820),
            some(820),
        );
        Latency {
            calls: 100,
            min,
            mean: Some(442.0),
            p50,
            p90,
            p99,
            p999,
            max,
            histogram,
        }
    }

    fn pass(seconds: f64, ranks: usize) -> Pass {
        let rank = |n: usize| Rank {
            found: 10,
            lookups: 160,
            seconds: seconds / (n + 1) as f64,
        };
        let (files, found) = (10 * ranks as u64, 10 * ranks as u64);
        let ranks: Vec<Rank> = (0..ranks).map(rank).collect();
        let (lookups, misses) = (16 * files, 15 * files);
        let latency = Some([latency(), Latency::default(), latency()]);
        Pass {
            files,
            found,
            lookups,
            misses,
            failed: 0,
            seconds,
            latency,
            ranks,
        }
    }

    fn test(ranks: usize) -> Test {
        let forgot = Some(Forgot {
            what: Some("names"),
            kept: "nothing",
        });
        let passes = vec![pass(0.4, ranks), pass(0.2, ranks)];
        Test {
            method: "stat",
            threads: 1,
            fails: false,
            forgot,
            primed: None,
            passes,
        }
    }

    #[test]
    fn the_lines_are_those_of_the_paper() {
        let took = Duration::from_micros(2_381_999);
        assert_eq!(
            created_line(160_001, took),
            "pathwalk: Created 160001 objects in 2.381s\n"
        );
        let took = Duration::from_millis(161);
        let line = "pathwalk: Found 10000/10000 files in 16 directories in 0.161s\n";
        assert_eq!(found_line(10_000, 10_000, 16, took), line);
        assert_eq!(
            removed_line(160_001, Duration::from_millis(1469)),
            "pathwalk: Removed 160001 objects in 1.469s\n"
        );
        assert_eq!(seconds(Duration::from_millis(12_005)), "12.005s");
    }

    #[test]
    fn what_there_is_to_say_beyond() {
        let (created, removed) = (None, None);
        let of = |ranks| Pathwalk {
            root: b"\xff",
            directories: 16,
            files: 10,
            created,
            test: Some(test(ranks)),
            removed,
        };
        let style = TableStyle {
            width: None,
            tree: false,
            color: false,
        };
        let text = of(1).to_text(style);
        for words in [
            "stat",
            "0.400000",
            "400",
            "93.75 %",
            "99.9 %",
            "820",
            "2.00 times as long",
            "Forgotten",
        ] {
            assert!(text.contains(words), "no {words}:\n{text}");
        }
        assert!(!text.contains("RANKS") && of(3).to_text(style).contains("RANKS"));
        let json = serde_json::to_value(of(3)).unwrap();
        assert_eq!(json["root_b64"], "/w==");
        assert_eq!(json["test"]["ranks"], 3);
        assert_eq!(json["test"]["first_to_second"], 2.0);
        assert_eq!(json["test"]["passes"][0]["ranks"]["each"][2]["rank"], 2);
        assert_eq!(json["test"]["passes"][0]["latency"]["misses"]["p99"], 820);
        assert!(serde_json::to_value(of(1)).unwrap()["test"]["passes"][0]["ranks"].is_null());
    }

    #[test]
    fn figures_have_a_point_for_each_bucket() {
        let figures = figures(&test(1));
        let names: Vec<&str> = figures.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(
            names,
            [
                "pathwalk-latency-1",
                "pathwalk-latency-2",
                "pathwalk-searches"
            ]
        );
        assert_eq!(figures[0].1.points, [(1.0, 415.0), (2.0, 820.0)]);
        assert_eq!(figures[2].1.points, [(1.0, 0.4), (2.0, 0.2)]);
    }
}
