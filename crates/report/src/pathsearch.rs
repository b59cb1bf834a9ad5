//! The path searches of a command.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use show::name::{entries, entry, printable};
use show::table::{Align, Table, TableStyle, Tone};
use show::units::{duration, plural};

/// A search: one name, tried in one directory after another.
#[derive(Clone, Debug)]
pub struct Search<'a> {
    /// `PATH`, `ld.so`, `python`, ...
    pub kind: &'static str,
    /// What was searched for.
    pub name: &'a [u8],
    /// The process.
    pub pid: u32,
    /// The file of its program.
    pub program: &'a [u8],
    /// The names that were tried, in turn.
    pub tried: Vec<&'a [u8]>,
    /// The one that was there.
    pub found: Option<&'a [u8]>,
    /// Tries that missed.
    pub misses: u64,
    /// Seconds in them.
    pub seconds: f64,
}

/// Look-ups of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// `PATH`, `ld.so`, ...
    pub kind: &'static str,
    /// The name was there, or could not be asked for.
    pub hits: u64,
    /// It was not there.
    pub misses: u64,
}

/// What was looked up in a directory.
#[derive(Clone, Debug)]
pub struct Directory<'a> {
    /// Its name.
    pub dir: &'a [u8],
    /// What it was searched for most.
    pub kind: &'static str,
    /// Type of its file system.
    pub fstype: Option<&'a [u8]>,
    /// Whether that is on a network.
    pub network: bool,
    /// Names that were there.
    pub hits: u64,
    /// Names that were not.
    pub misses: u64,
    /// Seconds in misses.
    pub seconds: f64,
    /// The same by kind.
    pub kinds: Vec<Count>,
}

/// Sums.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Totals {
    /// Look-ups.
    pub lookups: u64,
    /// Those that missed.
    pub misses: u64,
    /// Seconds in them.
    pub seconds: f64,
}

/// Requests of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Requests {
    /// `LOOKUP`, `OPEN`, ...
    pub request: &'static str,
    /// With empty caches.
    pub cold: u64,
    /// Once more, right afterwards.
    pub warm: u64,
    /// Whether somebody waits for the answer: a round trip.
    pub waited_for: bool,
    /// How long is waited for those with empty caches, one after the other.
    pub seconds: f64,
}

/// What a client of the network file system keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Manner {
    /// What names lead to.
    pub keeps_names: bool,
    /// That a name is not there.
    pub keeps_misses: bool,
    /// Where links lead.
    pub keeps_links: bool,
    /// What was read, when the file is opened again.
    pub keeps_pages: bool,
    /// It asks for attributes after each read.
    pub stats_after_read: bool,
    /// To open is a request.
    pub opens: bool,
    /// To close is a request that is waited for.
    pub flushes: bool,
    /// To read is a request.
    pub reads: bool,
    /// To open and to read a directory are requests.
    pub lists: bool,
    /// Bytes that a request for data brings at most.
    pub window: u64,
}

/// What the start would take on a network file system.
#[derive(Clone, Debug)]
pub struct Predicted<'a> {
    /// Seconds of a round trip.
    pub rtt: f64,
    /// `given`, `measured` or `assumed`.
    pub rtt_source: &'static str,
    /// `network`, `everything` or `directories`: what is taken to be on that file system.
    pub about: &'static str,
    /// Those directories.
    pub dirs: Vec<&'a [u8]>,
    /// Nodes that start at once.
    pub nodes: u64,
    /// Requests that the server answers in a second.
    pub server_rate: Option<f64>,
    /// With empty caches.
    pub seconds: f64,
    /// Once more, right afterwards.
    pub seconds_warm: f64,
    /// With empty caches it cannot take less.
    pub seconds_at_least: f64,
    /// Of them, the command's own work.
    pub seconds_own: f64,
    /// Share of the time in which the server works.
    pub server_busy: Option<f64>,
    /// The requests.
    pub requests: Vec<Requests>,
    /// What the client keeps.
    pub manner: Manner,
}

/// What would help.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fix {
    /// What it is about.
    pub kind: &'static str,
    /// What to do.
    pub change: String,
    /// Misses that the same start would not make.
    pub saves_misses: u64,
    /// Requests that it would not make on the network file system.
    pub saves_requests: u64,
    /// Seconds that these take there.
    pub saves_seconds: f64,
    /// Seconds that those misses took here.
    pub saves_seconds_here: f64,
}

/// The result of `fathom pathsearch`.
#[derive(Clone, Debug)]
pub struct Pathsearch<'a> {
    /// Searches, in the order in which they began.
    pub searches: Vec<Search<'a>>,
    /// Directories, those with the most misses first.
    pub directories: Vec<Directory<'a>>,
    /// Sums.
    pub totals: Totals,
    /// Sums by kind.
    pub kinds: Vec<Count>,
    /// What the start would take on a network file system.
    pub predicted: Predicted<'a>,
    /// What would help, most first.
    pub fixes: Vec<Fix>,
    /// A better PATH.
    pub better_path: Option<&'a [u8]>,
    /// Which meter it was.
    pub meter: &'static str,
    /// Why that one.
    pub why: String,
    /// Calls that were lost.
    pub lost: u64,
    /// The time of the command under the meter.
    pub seconds: f64,
    /// What of it is the meter's.
    pub overhead_seconds: f64,
    /// The exit status of the command.
    pub exit: i32,
}

impl Serialize for Search<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", self.kind)?;
        entry(&mut map, "name", Some(self.name))?;
        map.serialize_entry("pid", &self.pid)?;
        entry(&mut map, "program", Some(self.program))?;
        entries(&mut map, "tried", &self.tried)?;
        entry(&mut map, "found", self.found)?;
        map.serialize_entry("misses", &self.misses)?;
        map.serialize_entry("seconds", &self.seconds)?;
        map.end()
    }
}

impl Serialize for Directory<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "dir", Some(self.dir))?;
        map.serialize_entry("kind", self.kind)?;
        entry(&mut map, "fstype", self.fstype)?;
        map.serialize_entry("network", &self.network)?;
        map.serialize_entry("hits", &self.hits)?;
        map.serialize_entry("misses", &self.misses)?;
        map.serialize_entry("seconds", &self.seconds)?;
        map.serialize_entry("kinds", &self.kinds)?;
        map.end()
    }
}

impl Serialize for Predicted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("rtt", &self.rtt)?;
        map.serialize_entry("rtt_source", self.rtt_source)?;
        map.serialize_entry("about", self.about)?;
        entries(&mut map, "directories", &self.dirs)?;
        map.serialize_entry("nodes", &self.nodes)?;
        map.serialize_entry("server_rate", &self.server_rate)?;
        map.serialize_entry("seconds", &self.seconds)?;
        map.serialize_entry("seconds_warm", &self.seconds_warm)?;
        map.serialize_entry("seconds_at_least", &self.seconds_at_least)?;
        map.serialize_entry("seconds_own", &self.seconds_own)?;
        map.serialize_entry("server_busy", &self.server_busy)?;
        map.serialize_entry("requests", &self.requests)?;
        map.serialize_entry("manner", &self.manner)?;
        map.end()
    }
}

impl Serialize for Pathsearch<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("searches", &self.searches)?;
        map.serialize_entry("directories", &self.directories)?;
        map.serialize_entry("totals", &self.totals)?;
        map.serialize_entry("kinds", &self.kinds)?;
        map.serialize_entry("predicted", &self.predicted)?;
        map.serialize_entry("fixes", &self.fixes)?;
        entry(&mut map, "better_path", self.better_path)?;
        map.serialize_entry("meter", self.meter)?;
        map.serialize_entry("why", &self.why)?;
        map.serialize_entry("lost", &self.lost)?;
        map.serialize_entry("seconds", &self.seconds)?;
        map.serialize_entry("overhead_seconds", &self.overhead_seconds)?;
        map.serialize_entry("exit", &self.exit)?;
        map.end()
    }
}

/// How many directories and searches are shown, unless all are asked for.
const SHOWN: usize = 20;

impl Pathsearch<'_> {
    /// For people; with `all`, every directory and search.
    pub fn to_text(&self, style: TableStyle, all: bool) -> String {
        let mut out = self.head(style);
        out.push_str(&self.directories(style, all));
        out.push_str(&self.searches(style, all));
        out.push_str(&self.predicted.to_text(style));
        out.push_str(&fixes_text(&self.fixes, self.predicted.rtt, style));
        out
    }

    fn head(&self, style: TableStyle) -> String {
        let Totals {
            lookups,
            misses,
            seconds,
        } = self.totals;
        let share = 100.0 * misses as f64 / lookups.max(1) as f64;
        let mut text = format!(
            "{} by name, {misses} of them misses ({share:.0} %), {} in those. Metered by {}: {}.",
            plural(lookups, "look-up", "look-ups"),
            duration(seconds),
            self.meter,
            printable(self.why.as_bytes())
        );
        if self.lost > 0 {
            let lost = plural(self.lost, "call was lost", "calls were lost");
            text.push_str(&format!(" {lost}: the counts are too low."));
        }
        style.wrapped(&text) + "\n"
    }

    fn directories(&self, style: TableStyle, all: bool) -> String {
        use Align::{Left, Right};
        let mut text = style.heading("Directories");
        let columns = [
            ("MISSES", Right),
            ("HITS", Right),
            ("TIME", Right),
            ("KIND", Left),
            ("FILE SYSTEM", Left),
            ("DIRECTORY", Left),
        ];
        let shown = if all {
            self.directories.len()
        } else {
            self.directories.len().min(SHOWN)
        };
        let mut table = Table::new(&columns, shown);
        for row in self.directories.iter().take(shown) {
            let fstype = row.fstype.map_or("-".into(), printable);
            let cells = [
                row.misses.to_string(),
                row.hits.to_string(),
                duration(row.seconds),
                row.kind.to_owned(),
                if row.network {
                    format!("{fstype} (network)")
                } else {
                    fstype.into_owned()
                },
                printable(row.dir).into_owned(),
            ];
            table.row(
                cells,
                if row.misses == 0 {
                    Tone::Dim
                } else {
                    Tone::Plain
                },
            );
        }
        text.push_str(&table.to_text(style.width, style.color));
        text.push_str(&more(
            self.directories.len() - shown,
            "directory",
            "directories",
        ));
        text.push('\n');
        text
    }

    fn searches(&self, style: TableStyle, all: bool) -> String {
        use Align::{Left, Right};
        let mut text = style.heading("Searches");
        let columns = [
            ("KIND", Left),
            ("SEARCHES", Right),
            ("HITS", Right),
            ("MISSES", Right),
        ];
        let mut table = Table::new(&columns, self.kinds.len());
        for count in &self.kinds {
            let searches = self
                .searches
                .iter()
                .filter(|search| search.kind == count.kind)
                .count();
            let cells = [
                count.kind.to_owned(),
                searches.to_string(),
                count.hits.to_string(),
                count.misses.to_string(),
            ];
            table.row(cells, Tone::Plain);
        }
        text.push_str(&table.to_text(style.width, style.color));
        text.push('\n');
        let mut dearest: Vec<&Search<'_>> = self
            .searches
            .iter()
            .filter(|search| search.misses > 0)
            .collect();
        dearest.sort_by_key(|search| std::cmp::Reverse(search.misses));
        let shown = if all {
            dearest.len()
        } else {
            dearest.len().min(SHOWN)
        };
        let columns = [
            ("MISSES", Right),
            ("KIND", Left),
            ("NAME", Left),
            ("PROGRAM", Left),
            ("FOUND", Left),
        ];
        let mut table = Table::new(&columns, shown);
        for search in dearest.iter().take(shown) {
            let program = search
                .program
                .rsplit(|&b| b == b'/')
                .next()
                .unwrap_or_default();
            let cells = [
                search.misses.to_string(),
                search.kind.to_owned(),
                printable(search.name).into_owned(),
                printable(program).into_owned(),
                search.found.map_or("-".into(), printable).into_owned(),
            ];
            table.row(cells, Tone::Plain);
        }
        if shown > 0 {
            text.push_str(&table.to_text(style.width, style.color));
            text.push_str(&more(
                dearest.len() - shown,
                "search with misses",
                "searches with misses",
            ));
            text.push('\n');
        }
        text
    }
}

impl Predicted<'_> {
    /// For people.
    pub fn to_text(&self, style: TableStyle) -> String {
        use Align::{Left, Right};
        let mut text = style.heading("On a network file system");
        let what = match self.about {
            "network" => "what is on network file systems here".to_owned(),
            "everything" => "everything that it uses".to_owned(),
            _ => self
                .dirs
                .iter()
                .map(|dir| printable(dir))
                .collect::<Vec<_>>()
                .join(", "),
        };
        let rate = self.server_rate.map_or(String::new(), |rate| {
            let busy = self.server_busy.map_or(String::new(), |busy| {
                format!(" (busy {:.0} % of the time)", busy * 100.0)
            });
            format!(", a server that answers {rate:.0} requests a second{busy}")
        });
        let nodes = if self.nodes == 1 {
            "one node".to_owned()
        } else {
            format!("{} nodes at once", self.nodes)
        };
        text.push_str(&style.wrapped(&format!(
            "With {what} there, a round trip of {} ({}), {nodes}{rate}: {} with empty caches, {} once more right afterwards. \
             {} of that is the command's own work.",
            duration(self.rtt),
            self.rtt_source,
            duration(self.seconds),
            duration(self.seconds_warm),
            duration(self.seconds_own)
        )));
        let columns = [
            ("REQUEST", Left),
            ("COLD", Right),
            ("WARM", Right),
            ("TIME COLD", Right),
            ("", Left),
        ];
        let mut table = Table::new(&columns, self.requests.len());
        for row in self.requests.iter().filter(|row| row.cold + row.warm > 0) {
            let (took, waited) = if row.waited_for {
                (duration(row.seconds), "")
            } else {
                ("-".into(), "not waited for")
            };
            table.row(
                [
                    row.request,
                    &row.cold.to_string(),
                    &row.warm.to_string(),
                    &took,
                    waited,
                ],
                Tone::Plain,
            );
        }
        text.push_str(&table.to_text(style.width, style.color));
        text.push('\n');
        text
    }
}

/// What would help, for people; `rtt` is what a request takes that nothing is known of.
pub fn fixes_text(fixes: &[Fix], rtt: f64, style: TableStyle) -> String {
    let mut text = style.heading("What would help");
    if fixes.is_empty() {
        text.push_str("Nothing: no search of it misses.\n");
    }
    for fix in fixes {
        text.push_str(&style.wrapped(&format!("- {}", fix.sentence(rtt))));
    }
    text
}

impl Fix {
    /// What to do, and what it saves.
    pub fn sentence(&self, rtt: f64) -> String {
        let change = printable(self.change.as_bytes());
        let each = if self.saves_requests > 0 {
            self.saves_seconds / self.saves_requests as f64
        } else {
            rtt
        };
        format!(
            "{change}: {}, {} at {} each.",
            self.saves(),
            duration(self.saves_seconds),
            duration(each)
        )
    }

    /// What it saves.
    pub fn saves(&self) -> String {
        let requests = plural(self.saves_requests, "request", "requests");
        match self.saves_misses {
            0 => format!("saves {requests}"),
            n => format!(
                "saves {} ({} here), {requests}",
                plural(n, "miss", "misses"),
                duration(self.saves_seconds_here)
            ),
        }
    }
}

fn more(n: usize, one: &str, many: &str) -> String {
    match n {
        0 => String::new(),
        1 => format!("and one more {one}; -v shows it\n"),
        n => format!("and {n} more {many}; -v shows them\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    fn sample() -> Pathsearch<'static> {
        let manner = Manner {
            keeps_names: true,
            keeps_misses: true,
            keeps_links: true,
            keeps_pages: true,
            stats_after_read: false,
            opens: true,
            flushes: false,
            reads: true,
            lists: true,
            window: 131_072,
        };
        Pathsearch {
            searches: vec![Search {
                kind: "PATH",
                name: b"l\xffs",
                pid: 7,
                program: b"/bin/sh",
                tried: vec![b"/a/l\xffs", b"/bin/l\xffs"],
                found: Some(b"/bin/l\xffs"),
                misses: 1,
                seconds: 0.000_002,
            }],
            directories: vec![Directory {
                dir: b"/a\x1b",
                kind: "PATH",
                fstype: Some(b"nfs4"),
                network: true,
                hits: 0,
                misses: 1,
                seconds: 0.000_002,
                kinds: vec![Count {
                    kind: "PATH",
                    hits: 0,
                    misses: 1,
                }],
            }],
            totals: Totals {
                lookups: 2,
                misses: 1,
                seconds: 0.000_002,
            },
            kinds: vec![Count {
                kind: "PATH",
                hits: 1,
                misses: 1,
            }],
            predicted: Predicted {
                rtt: 0.0005,
                rtt_source: "assumed",
                about: "everything",
                dirs: vec![],
                nodes: 1,
                server_rate: None,
                seconds: 0.01,
                seconds_warm: 0.001,
                seconds_at_least: 0.01,
                seconds_own: 0.001,
                server_busy: None,
                requests: vec![Requests {
                    request: "LOOKUP",
                    cold: 4,
                    warm: 0,
                    waited_for: true,
                    seconds: 0.004,
                }],
                manner,
            },
            fixes: vec![Fix {
                kind: "PATH",
                change: "set PATH='/bin'".to_owned(),
                saves_misses: 1,
                saves_requests: 1,
                saves_seconds: 0.0005,
                saves_seconds_here: 0.000_002,
            }],
            better_path: Some(b"/bin"),
            meter: "ptrace",
            why: "so".to_owned(),
            lost: 0,
            seconds: 0.002,
            overhead_seconds: 0.001,
            exit: 0,
        }
    }

    #[test]
    fn names_that_are_no_text_are_given_exactly_beside() {
        let value = serde_json::to_value(sample()).unwrap();
        let search = &value["searches"][0];
        assert_eq!(search["name_b64"], STANDARD.encode(b"l\xffs"));
        assert_eq!(search["tried_b64"][1], STANDARD.encode(b"/bin/l\xffs"));
        assert_eq!(search["tried"].as_array().unwrap().len(), 2);
        assert_eq!(value["predicted"]["server_rate"], serde_json::Value::Null);
    }

    #[test]
    fn for_people() {
        let text = sample().to_text(TableStyle::default(), false);
        for line in [
            "2 look-ups by name, 1 of them misses (50 %), 2.0 µs in those. Metered by ptrace: so.",
            "nfs4 (network)",
            "/a\\x1b",
            "10.00 ms with empty caches",
            "- set PATH='/bin': saves 1 miss (2.0 µs here), 1 request, 500.0 µs at 500.0 µs each.",
        ] {
            assert!(text.contains(line), "no {line}:\n{text}");
        }
        assert!(!text.contains('\x1b'));
    }
}
