//! What was dumped, and its map.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::account::Account;
use show::name::{entry, printable};
use show::table::{Align, Table, TableStyle};
use show::units::{plural, sized};

/// How many of each there were.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Entries that were found.
    pub entries: u64,
    /// Members of the archive.
    pub dumped: u64,
    /// Of them, plain files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Further names of files.
    pub links: u64,
    /// All else.
    pub other: u64,
    /// Sizes of the files together, holes included.
    pub bytes: u64,
    /// What was written, compressed if it is.
    pub archive_bytes: u64,
    /// Entries of the base that are gone.
    pub removed: u64,
    /// Directories of the base that have another name.
    pub renamed: u64,
    /// Entries that are as they were in the base.
    pub unchanged: u64,
}

/// A gathering, and whether it can work for a SRC.
#[derive(Clone, Debug)]
pub struct Possible {
    /// The SRC.
    pub path: Vec<u8>,
    /// The gathering.
    pub gather: &'static str,
    /// The engine that it would be done by.
    pub engine: Option<&'static str>,
    /// Whether it can.
    pub possible: bool,
    /// Why it cannot, or why it is the one that is taken.
    pub why: String,
}

impl Serialize for Possible {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "path", Some(&self.path))?;
        map.serialize_entry("gather", self.gather)?;
        map.serialize_entry("engine", &self.engine)?;
        map.serialize_entry("possible", &self.possible)?;
        map.serialize_entry("why", &self.why)?;
        map.end()
    }
}

/// The result of `fathom dump`; what was not asked for is `None`.
#[derive(Clone, Debug, Default)]
pub struct Dump<'a> {
    /// The archive, as it was given.
    pub archive: Option<&'a [u8]>,
    /// The gathering.
    pub gather: &'a str,
    /// The engine that walked the first SRC's mount.
    pub engine: Option<&'a str>,
    /// Why these.
    pub why: &'a str,
    /// The level.
    pub level: Option<u8>,
    /// The catalog of the base.
    pub since: Option<&'a [u8]>,
    /// What was dumped.
    pub counts: Option<Counts>,
    /// What it took.
    pub seconds: Option<f64>,
    /// The account.
    pub account: Option<&'a Account>,
    /// What else is possible.
    pub explain: Option<&'a [Possible]>,
}

impl Serialize for Dump<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "archive", self.archive)?;
        map.serialize_entry("gather", self.gather)?;
        map.serialize_entry("engine", &self.engine)?;
        map.serialize_entry("why", self.why)?;
        map.serialize_entry("level", &self.level)?;
        entry(&mut map, "since", self.since)?;
        let counts = self.counts.as_ref();
        type Field = (&'static str, fn(&Counts) -> u64);
        let fields: [Field; 12] = [
            ("entries", |c| c.entries),
            ("dumped", |c| c.dumped),
            ("files", |c| c.files),
            ("directories", |c| c.directories),
            ("symlinks", |c| c.symlinks),
            ("links", |c| c.links),
            ("other", |c| c.other),
            ("bytes", |c| c.bytes),
            ("archive_bytes", |c| c.archive_bytes),
            ("removed", |c| c.removed),
            ("renamed", |c| c.renamed),
            ("unchanged", |c| c.unchanged),
        ];
        for (name, of) in fields {
            map.serialize_entry(name, &counts.map(of))?;
        }
        map.serialize_entry("seconds", &self.seconds)?;
        map.serialize_entry("account", &self.account)?;
        map.serialize_entry("explain", &self.explain)?;
        map.end()
    }
}

impl Dump<'_> {
    /// What was done, for people.
    pub fn to_text(&self) -> String {
        let Counts {
            dumped,
            bytes,
            archive_bytes,
            removed,
            renamed,
            unchanged,
            ..
        } = self.counts.unwrap_or_default();
        let to = match self.archive {
            Some(b"-") => " to standard output".to_owned(),
            Some(archive) => format!(" into '{}'", printable(archive)),
            None => " nowhere".to_owned(),
        };
        let seconds = self.seconds.unwrap_or_default();
        let rate = if seconds > 0.0 {
            format!(", {}/s", sized((bytes as f64 / seconds) as u64))
        } else {
            String::new()
        };
        let mut text = format!(
            "{} with {} of data dumped{to} in {seconds:.3} s: {}{rate}",
            plural(dumped, "entry", "entries"),
            sized(bytes),
            sized(archive_bytes)
        );
        if self.since.is_some() {
            text.push_str(&format!(
                "; {unchanged} unchanged, {removed} removed, {renamed} renamed"
            ));
        }
        let engine = self
            .engine
            .map_or(String::new(), |engine| format!(" ({engine})"));
        text.push_str(&format!(
            "; gathered by {}{engine}: {}",
            self.gather,
            printable(self.why.as_bytes())
        ));
        text
    }
}

/// The gatherings for each SRC, for people.
pub fn explain_text(explain: &[Possible], style: TableStyle) -> String {
    use Align::Left;
    let mut out = String::new();
    for rows in explain.chunk_by(|a, b| a.path == b.path) {
        let Some(first) = rows.first() else { continue };
        out.push_str(&format!("{}\n", printable(&first.path)));
        let columns = [
            ("  GATHER", Left),
            ("POSSIBLE", Left),
            ("ENGINE", Left),
            ("WHY", Left),
        ];
        let mut table = Table::new(&columns, rows.len());
        let why_from = "  combined POSSIBLE bulkstat ".len();
        for row in rows {
            let possible = if row.possible { "yes" } else { "no" };
            let cells = [
                &format!("  {}", row.gather),
                possible,
                row.engine.unwrap_or("-"),
            ];
            table.row_with_reason(cells, &printable(row.why.as_bytes()), why_from, style);
        }
        out.push_str(&table.to_text(None, style.color));
    }
    out
}

/// A line of the map.
#[derive(Clone, Copy, Debug)]
pub struct Mapped<'a> {
    /// A letter for the type, as ls(1) has them; `h` for another name of a file.
    pub kind: char,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes; of a device, its numbers.
    pub size: Size,
    /// Last change of the contents: seconds since 1970, and nanoseconds.
    pub mtime: (i64, u32),
    /// Its name in the archive.
    pub path: &'a [u8],
}

/// See [`Mapped::size`].
#[derive(Clone, Copy, Debug)]
pub enum Size {
    /// Bytes.
    Bytes(u64),
    /// Major and minor number.
    Device(u32, u32),
}

impl Mapped<'_> {
    /// Adds the line.
    pub fn line(&self, out: &mut String) {
        use std::fmt::Write;
        let Mapped {
            kind,
            mode,
            uid,
            gid,
            mtime: (sec, nsec),
            ..
        } = *self;
        let size = match self.size {
            Size::Bytes(bytes) => bytes.to_string(),
            Size::Device(major, minor) => format!("{major},{minor}"),
        };
        let _ = writeln!(
            out,
            "{kind} {mode:04o} {uid}/{gid} {size} {}.{nsec:09}Z {}",
            show::time::utc(sec),
            printable(self.path)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_map() {
        let mut out = String::new();
        let file = Mapped {
            kind: '-',
            mode: 0o644,
            uid: 0,
            gid: 5,
            size: Size::Bytes(7),
            mtime: (1_700_000_000, 5),
            path: b"a/new\nline",
        };
        file.line(&mut out);
        Mapped {
            kind: 'c',
            size: Size::Device(1, 3),
            mtime: (-1, 0),
            path: b"dev/null",
            ..file
        }
        .line(&mut out);
        let lines = [
            "- 0644 0/5 7 2023-11-14T22:13:20.000000005Z a/new\\nline\n",
            "c 0644 0/5 1,3 1969-12-31T23:59:59.000000000Z dev/null\n",
        ];
        assert_eq!(out, lines.concat());
    }
}
