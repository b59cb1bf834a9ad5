//! The section of the survey: what starting programs costs. Where PATH leads, and where the shell,
//! the dynamic linker and Python look in vain.

use std::collections::HashMap;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::fixes::{Count, Fix, Totals, fixes_text};
use ::show::name::{entry, printable};
use ::show::table::{Align, Table, TableStyle, Tone};
use ::show::units::duration;

/// An element of PATH.
#[derive(Clone, Debug)]
pub(crate) struct Element<'a> {
    /// As it stands there.
    pub(crate) dir: &'a [u8],
    /// `live`, `dead`, `again` (the same directory stands there before) or `unknown` (relative, or
    /// not to be read).
    pub(crate) state: &'static str,
    /// Type of its file system.
    pub(crate) fstype: Option<&'a [u8]>,
    /// Whether that is on a network.
    pub(crate) network: bool,
}

impl Serialize for Element<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "dir", Some(self.dir))?;
        map.serialize_entry("state", self.state)?;
        entry(&mut map, "fstype", self.fstype)?;
        map.serialize_entry("network", &self.network)?;
        map.end()
    }
}

/// A program that was started to see what that takes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Started {
    /// As one would type it.
    pub(crate) command: &'static str,
    /// What it is started for: `PATH and ld.so`, `python`.
    pub(crate) about: &'static str,
    /// Sums.
    pub(crate) totals: Totals,
    /// Sums by kind.
    pub(crate) kinds: Vec<Count>,
    /// Requests that its start makes on a network file system and waits for, with empty caches.
    pub(crate) requests: u64,
    /// Seconds that it takes there.
    pub(crate) seconds_far: f64,
    /// What would help.
    pub(crate) fixes: Vec<Fix>,
    /// Where it looked, those with the most misses first.
    pub(crate) directories: Vec<Tried>,
}

/// What a program that was started looked up in a directory.
#[derive(Clone, Debug)]
pub(crate) struct Tried {
    /// Its name.
    pub(crate) dir: Vec<u8>,
    /// Names that were there.
    pub(crate) hits: u64,
    /// Names that were not.
    pub(crate) misses: u64,
    /// Seconds in misses.
    pub(crate) seconds: f64,
    /// The same by kind: `PATH`, `ld.so`, ...
    pub(crate) kinds: Vec<Count>,
}

impl Serialize for Tried {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "dir", Some(&self.dir))?;
        map.serialize_entry("hits", &self.hits)?;
        map.serialize_entry("misses", &self.misses)?;
        map.serialize_entry("seconds", &self.seconds)?;
        map.serialize_entry("kinds", &self.kinds)?;
        map.end()
    }
}

/// What was found of them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Startup<'a> {
    /// The elements of PATH.
    pub(crate) path: Vec<Element<'a>>,
    /// Programs that were started.
    pub(crate) started: Vec<Started>,
    /// Seconds of a round trip that the figures for a network file system are for.
    pub(crate) rtt: f64,
}

impl Startup<'_> {
    /// The elements of PATH, and what the first program that was started has found in each.
    pub(crate) fn path_table(&self) -> Table {
        use Align::{Left, Right};
        let columns = [
            ("PATH", Left),
            ("STATE", Left),
            ("FILE SYSTEM", Left),
            ("HITS", Right),
            ("MISSES", Right),
        ];
        let mut table = Table::new(&columns, self.path.len());
        let mut tried = self.tried();
        for element in &self.path {
            let fstype = element.fstype.map_or("-".into(), printable);
            let fstype = if element.network {
                format!("{fstype} (network)")
            } else {
                fstype.into_owned()
            };
            let tone = if matches!(element.state, "dead" | "again") {
                Tone::Dim
            } else {
                Tone::Plain
            };
            // What stands there twice has its count once.
            let count = tried
                .as_mut()
                .map(|tried| tried.remove(trimmed(element.dir)).unwrap_or_default());
            let count = count.map(|(hits, misses)| [hits, misses].map(|n| n.to_string()));
            let [hits, misses] = count.unwrap_or_else(|| ["-", "-"].map(str::to_owned));
            let cells = [
                printable(element.dir),
                element.state.into(),
                fstype.into(),
                hits.into(),
                misses.into(),
            ];
            table.row(cells, tone);
        }
        table
    }

    /// Hits and misses of the shell's search in each directory, as the first program was started,
    /// if one was.
    fn tried(&self) -> Option<HashMap<&[u8], (u64, u64)>> {
        let mut tried = HashMap::new();
        for row in &self.started.first()?.directories {
            let (hits, misses) = tried.entry(trimmed(&row.dir)).or_insert((0, 0));
            for count in row.kinds.iter().filter(|count| count.kind == "PATH") {
                *hits += count.hits;
                *misses += count.misses;
            }
        }
        Some(tried)
    }

    /// What starting programs takes.
    pub(crate) fn started_table(&self) -> Table {
        use Align::{Left, Right};
        let columns = [
            ("STARTING", Left),
            ("LOOK-UPS", Right),
            ("MISSES", Right),
            ("TIME IN THEM", Right),
            ("REQUESTS FAR AWAY", Right),
            ("TIME THERE", Right),
        ];
        let mut table = Table::new(&columns, self.started.len());
        for one in &self.started {
            let cells = [
                one.command.to_owned(),
                one.totals.lookups.to_string(),
                one.totals.misses.to_string(),
                duration(one.totals.seconds),
                one.requests.to_string(),
                duration(one.seconds_far),
            ];
            table.row(cells, Tone::Plain);
        }
        table
    }

    /// What far away means.
    pub(crate) fn foot(&self) -> String {
        format!(
            "Far away is a network file system with everything on it, empty caches and a round trip of {}. fathom pathsearch tells \
             the same of any command.",
            duration(self.rtt)
        )
    }

    /// For people.
    pub(crate) fn to_text(&self, style: TableStyle) -> String {
        let mut text = String::new();
        if !self.path.is_empty() {
            text.push_str(&self.path_table().to_text(style.width, style.color));
        }
        if !self.started.is_empty() {
            text.push_str(if text.is_empty() { "" } else { "\n" });
            text.push_str(&self.started_table().to_text(style.width, style.color));
            text.push_str(&style.wrapped(&self.foot()));
        }
        for one in self.started.iter().filter(|one| !one.fixes.is_empty()) {
            text.push_str(&format!("\n{}: ", one.command));
            text.push_str(&fixes_text(
                &one.fixes,
                self.rtt,
                TableStyle {
                    color: false,
                    ..style
                },
            ));
        }
        text
    }
}

/// Without slashes at its end.
fn trimmed(dir: &[u8]) -> &[u8] {
    let end = dir
        .iter()
        .rposition(|&b| b != b'/')
        .map_or(1, |last| last + 1);
    dir.get(..end).unwrap_or(dir)
}
