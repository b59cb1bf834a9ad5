//! The output of `fathom dump`, and the lines of its map.

use std::fmt::Write;

use account::dump::DumpAccount;
use archive::dump::{Counts, DumpSummary, Estimates, Line, Note};
use archive::gather::{Gather, Gathered};
use archive::increment::automatic::Automatic;
use ondisk::utc;
use show::json_object;
use show::name::printable;
use show::table::{Align, Table, TableStyle};
use show::units::{duration, plural, sized};
use walk::{EngineKind, ExplainedPlan, FileType};

pub(crate) use self::retention::{PruneResult, pruned};
use crate::json::Json;
use crate::ranks::show::RankEntries;

pub(super) mod costs;
pub(super) mod estimates;
pub(super) mod retention;
#[cfg(feature = "restic")]
pub(super) mod snapshot;

/// The result of a dump, or of `--explain` or `--dry-run`.
#[derive(Default)]
pub(crate) struct DumpReport<'a> {
    pub(crate) archive: Option<&'a [u8]>,
    pub(crate) level: Option<u8>,
    /// With `--explain`, the requested method of reading metadata.
    pub(crate) wanted: Option<Gather>,
    /// The method of reading metadata on the mount of the first source, with its reason; `None` if
    /// no source is a directory.
    pub(crate) method: Option<&'a Gathered>,
    /// The summary of the dump; `None` with `--explain` and `--dry-run`.
    pub(crate) summary: Option<&'a DumpSummary>,
    pub(crate) seconds: Option<f64>,
    pub(crate) account: Option<&'a DumpAccount>,
    /// With `--explain`, all methods of reading metadata for each source.
    pub(crate) explain: Option<&'a [GatherChoice<'a>]>,
    /// The estimated sizes of the dumps, with `--dry-run`.
    pub(crate) estimates: Option<&'a Estimates>,
    /// The dumps that the retention policy removed after this dump; with `--dry-run`, those that it
    /// would remove.
    pub(crate) pruned: Option<&'a PruneResult<'a>>,
    /// The number of entries of each rank of an MPI job.
    pub(crate) ranks: Option<&'a [RankEntries]>,
    /// Number of parts that `--resume` kept from earlier attempts.
    pub(crate) kept: Option<usize>,
}

impl DumpReport<'_> {
    fn gather(&self) -> &'static str {
        let used = || self.method.map_or(Gather::Combined, Gathered::method);
        self.wanted.unwrap_or_else(used).name()
    }

    fn why(&self) -> String {
        let no_directory = || "no SRC is a directory".to_owned();
        self.method
            .map_or_else(no_directory, |method| method.why.to_string())
    }

    fn count(&self, of: impl Fn(&DumpSummary) -> u64) -> Option<u64> {
        self.summary.map(of)
    }
}

/// A note that the state directory did not exist and was created: perhaps its file system is not
/// mounted.
pub(crate) fn created(state: &[u8]) -> String {
    format!("state directory '{}' created", printable(state))
}

/// A note about the next dump's name and level.
pub(crate) fn foreseen(automatic: &Automatic) -> String {
    let archive = printable(&automatic.archive);
    format!(
        "the next dump would be '{archive}', {}",
        retention::choice(automatic)
    )
}

json_object!(DumpReport<'_>, |report| {
    name "archive": report.archive,
    "gather": report.gather(),
    "engine": report.method.map(|method| method.engine.name()),
    "why": report.why(),
    "level": report.level,
    name "since": report.summary.and_then(|summary| summary.since.as_deref()),
    "entries": report.estimates.map(|all| all.entries).or(report.count(|summary| summary.entries)),
    "dumped": report.count(|summary| summary.counts.dumped),
    "files": report.count(|summary| summary.counts.files),
    "directories": report.count(|summary| summary.counts.directories),
    "symlinks": report.count(|summary| summary.counts.symlinks),
    "links": report.count(|summary| summary.counts.links),
    "other": report.count(|summary| summary.counts.other),
    "bytes": report.count(|summary| summary.counts.bytes),
    "archive_bytes": report.count(|summary| summary.archive_bytes),
    "removed": report.count(|summary| summary.removed),
    "renamed": report.count(|summary| summary.renamed),
    "unchanged": report.count(|summary| summary.unchanged),
    "seconds": report.seconds,
    "account": report.account.map(Json),
    "explain": report.explain,
    "estimates": report.estimates.map(|all| Json(&all.dumps[..])),
    "ranks": report.ranks,
    some "kept": report.kept,
    some "pruned": report.pruned,
});

pub(crate) fn summary(report: &DumpReport<'_>, summary: &DumpSummary) -> String {
    let Counts { dumped, bytes, .. } = summary.counts;
    // `dumped` counts a directory once for each part that has entries below it.
    let entries = match report.ranks {
        Some(_) => summary.entries,
        None => dumped,
    };
    let size = sized(summary.archive_bytes);
    let to = match report.archive {
        Some(b"-") => format!("dumped to standard output ({size})"),
        Some(archive) => format!("dumped to '{}' ({size})", printable(archive)),
        None => format!("read (an archive of {size} is not written)"),
    };
    let seconds = report.seconds.unwrap_or_default();
    if dumped == 0 && report.kept.is_some_and(|kept| kept > 0) {
        let found = plural(entries, "entry is", "entries are");
        let time = duration(seconds);
        return format!(
            "nothing to dump: {found} as an earlier attempt has dumped them, found in {time}"
        );
    }
    // Print no rate for a small dump: most of its time is for starting and ending.
    let rate = match bytes >= 1 << 20 && seconds > 0.0 {
        true => format!(", {}/s", sized((bytes as f64 / seconds) as u64)),
        false => String::new(),
    };
    let mut text = format!(
        "{}, {}, {to} in {}{rate}",
        plural(entries, "entry", "entries"),
        sized(bytes),
        duration(seconds)
    );
    if summary.since.is_some() {
        text += &format!(
            "; {} unchanged, {} removed, {} renamed",
            summary.unchanged, summary.removed, summary.renamed
        );
    }
    text
}

/// The method of reading metadata, and its reason.
pub(crate) fn method(report: &DumpReport<'_>) -> String {
    let engine = report.method.map(|method| method.engine.name());
    let engine = engine.map_or(String::new(), |engine| format!(" ({engine})"));
    let why = report.why();
    let why = printable(why.as_bytes());
    format!("metadata read by {}{engine}: {why}", report.gather())
}

pub(crate) fn note(note: &Note) -> String {
    let quoted = |name: &[u8]| format!("'{}'", printable(name));
    match note {
        Note::PrefixLeftOut(prefix) => quoted(prefix) + " is removed from member names",
        Note::NoLowerLevel(level) => {
            format!("no catalog of a level below {level} exists: everything is dumped, as level 0")
        }
        Note::OtherFileSystem { source_path } => {
            let now = quoted(source_path) + " is now on another file system";
            now + ": everything is dumped, and counts as level 0"
        }
        Note::StateLeftOut(path) => quoted(path) + " is the state directory, and is skipped",
        Note::SocketsLeftOut { path, more: 0 } => quoted(path) + " is a socket, and is skipped",
        Note::SocketsLeftOut { path, more } => {
            let sockets = plural(*more, "other socket", "other sockets");
            format!("{} and {sockets} are skipped", quoted(path))
        }
        Note::OwnFileLeftOut(path) => quoted(path) + " is an output of this dump, and is skipped",
        Note::ChecksumsMissing => {
            "the base catalog has no checksums, so the new one has none of unchanged files"
                .to_owned()
        }
    }
}

/// A method of reading metadata, and whether it is possible for a source.
pub(crate) struct GatherChoice<'a> {
    path: &'a [u8],
    gather: Gather,
    /// The engine that would read the metadata.
    engine: Option<EngineKind>,
    why: String,
}

json_object!(GatherChoice<'_>, |possible| {
    name "path": Some(possible.path),
    "gather": possible.gather.name(),
    "engine": possible.engine.map(EngineKind::name),
    "possible": possible.engine.is_some(),
    "why": possible.why,
});

/// All methods of reading metadata for a source. `wanted` is the method of `--gather`.
pub(crate) fn possible(explained: &ExplainedPlan, wanted: Option<Gather>) -> Vec<GatherChoice<'_>> {
    let ExplainedPlan { path, plan, .. } = explained;
    let can = |by: EngineKind| Gather::from_engine(by).engine_of(&plan.engines).ok() == Some(by);
    // If the mount does not support the requested method, the next best one is used.
    let fallback = |gather: Gather| gather.engines().iter().copied().find(|by| can(*by));
    let chosen = wanted.map_or(Some(plan.engine), fallback);
    let possible = |gather: Gather| {
        let engine = gather.engine_of(&plan.engines);
        let why = match &engine {
            Ok(by) if Some(*by) != chosen => "possible".to_owned(),
            Ok(_) if wanted.is_none() => plan.reason.to_string(),
            Ok(_) => "requested, or the fallback of the requested method".to_owned(),
            Err(refused) => refused.to_string(),
        };
        GatherChoice {
            path,
            gather,
            engine: engine.ok(),
            why,
        }
    };
    Gather::ALL.into_iter().map(possible).collect()
}

pub(crate) fn explain(possible: &[GatherChoice], style: TableStyle) -> String {
    use Align::Left;
    let mut out = String::new();
    for rows in possible.chunk_by(|a, b| a.path == b.path) {
        out.extend(rows.first().map(|row| format!("{}\n", printable(row.path))));
        let columns = ["  METHOD", "POSSIBLE", "ENGINE", "WHY"].map(|head| (head, Left));
        let mut table = Table::new(&columns, rows.len());
        let why_from = "  combined POSSIBLE bulkstat ".len();
        for row in rows {
            let engine = row.engine.map(EngineKind::name);
            let gather = format!("  {}", row.gather.name());
            let cells = [
                &gather[..],
                if engine.is_some() { "yes" } else { "no" },
                engine.unwrap_or("-"),
            ];
            table.row_with_reason(cells, &printable(row.why.as_bytes()), why_from, style);
        }
        out.push_str(&table.to_text(None, style.color));
    }
    out
}

/// Appends a line of the map: the letter of the type as in ls(1) (`h` for a further hard link),
/// mode, owner, size, time and name.
pub(crate) fn map_line(line: &Line<'_>, out: &mut String) {
    let meta = line.meta;
    let kind = match meta.kind() {
        _ if line.is_link => 'h',
        FileType::Regular => '-',
        FileType::Directory => 'd',
        FileType::Symlink => 'l',
        FileType::Fifo => 'p',
        FileType::Block => 'b',
        FileType::Char => 'c',
        FileType::Socket => 's',
        FileType::Unknown => '?',
    };
    let size = match kind {
        'b' | 'c' => format!("{},{}", meta.rdev.major, meta.rdev.minor),
        _ => meta.size.to_string(),
    };
    let _ = writeln!(
        out,
        "{kind} {:04o} {}/{} {size} {}.{:09}Z {}",
        meta.mode & 0o7777,
        meta.uid,
        meta.gid,
        utc(meta.mtime.sec),
        meta.mtime.nsec,
        printable(line.path)
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use walk::Meta;
    use walk::entry::Time;

    #[test]
    fn lines_of_the_map() {
        let mut out = String::new();
        let (sec, nsec) = (1_700_000_000, 5);
        let file = Meta {
            mode: 0o100_644,
            gid: 5,
            size: 7,
            mtime: Time { sec, nsec },
            ..Meta::default()
        };
        let mut device = Meta {
            mode: 0o020_644,
            mtime: Time::new(-1, 0),
            ..file
        };
        (device.rdev.major, device.rdev.minor) = (1, 3);
        for (meta, path) in [(&file, &b"a/new\nline"[..]), (&device, b"dev/null")] {
            let is_link = false;
            map_line(
                &Line {
                    meta,
                    is_link,
                    path,
                },
                &mut out,
            );
        }
        let lines = [
            "- 0644 0/5 7 2023-11-14T22:13:20.000000005Z a/new\\nline\n",
            "c 0644 0/5 1,3 1969-12-31T23:59:59.000000000Z dev/null\n",
        ];
        assert_eq!(out, lines.concat());
    }
}
