//! What `fathom changed` prints: for people, for programs, and for backup tools.

use std::collections::HashSet;

use archive::changed::{Change, ChangedEntry, ChangedReport, Changes};
use show::json_object;
use show::name::printable;
use show::units::{duration, plural};

use super::args::ChangedFormat;
use crate::json::Json;

pub(crate) struct Output<'a> {
    pub(crate) report: &'a ChangedReport,
    pub(crate) seconds: f64,
}

json_object!(Output<'_>, |output| {
    "engine": output.report.engine.name(),
    "why": output.report.reason.to_string(),
    "unchanged": output.report.changes.entries.is_empty(),
    "added": output.count(Change::Added),
    "changed": output.count(Change::Changed),
    "removed": output.count(Change::Removed),
    "renamed": output.count(Change::Renamed),
    "entries": Json(&output.report.changes.entries[..]),
    "seconds": output.seconds,
});

json_object!(Json<'_, ChangedEntry>, |entry| {
    name "path": Some(&entry.path),
    "change": name_and_sign(entry.change).0,
    name? "from": entry.from.as_deref(),
});

impl Output<'_> {
    fn count(&self, change: Change) -> usize {
        self.report.changes.count(change)
    }

    pub(crate) fn summary(&self) -> String {
        let (engine, took) = (self.report.engine.name(), duration(self.seconds));
        format!(
            "{}; found with {engine} in {took}",
            counts(&self.report.changes)
        )
    }
}

/// The number of changes of each kind, for people.
pub(crate) fn counts(changes: &Changes) -> String {
    match changes.entries.is_empty() {
        true => "no changes".to_owned(),
        false => format!(
            "{} added, {} changed, {} removed, {} renamed",
            changes.count(Change::Added),
            changes.count(Change::Changed),
            changes.count(Change::Removed),
            changes.count(Change::Renamed)
        ),
    }
}

/// The name of a change in the JSON, and its sign in the table.
fn name_and_sign(change: Change) -> (&'static str, char) {
    match change {
        Change::Added => ("added", '+'),
        Change::Changed => ("changed", '*'),
        Change::Removed => ("removed", '-'),
        Change::Renamed => ("renamed", '>'),
    }
}

/// What is there now, and whether it is a directory: what a renamed directory contains, too, since other tools know of
/// no renames.
fn present(changes: &Changes) -> impl Iterator<Item = (&[u8], bool)> {
    let carried = changes.carried.iter();
    let carried = carried.map(|(path, is_dir)| (&path[..], *is_dir));
    let entries = changes.entries.iter();
    let present = entries.filter(|entry| entry.change != Change::Removed);
    let present = present.map(|entry| (&entry.path[..], entry.is_dir));
    present.chain(carried)
}

/// The directories that restic must be given if they are empty: no path below them is. Of others it is not given any, since
/// it would read all that is in them.
pub(crate) fn restic_directories(format: ChangedFormat, changes: &Changes) -> Vec<&[u8]> {
    if format != ChangedFormat::Restic {
        return Vec::new();
    }
    let above: HashSet<&[u8]> = present(changes)
        .flat_map(|(path, _)| parents(path))
        .collect();
    let directories = present(changes).filter(|(path, is_dir)| *is_dir && !above.contains(path));
    directories.map(|(path, _)| path).collect()
}

/// What a user of a list for a backup tool should know.
pub(crate) fn notes(format: ChangedFormat, changes: &Changes) -> Vec<String> {
    let mut notes = Vec::new();
    match format {
        ChangedFormat::Restic => notes.push(
            "the snapshot will contain only what has changed, not the rest of the tree; fathom dump DIR --restic REPO \
             makes complete ones"
                .to_owned(),
        ),
        ChangedFormat::Borg => {
            notes.push(
                "the archive will contain only what has changed, not the rest of the tree; borg create REPO::NAME DIR \
                 makes complete ones"
                    .to_owned(),
            );
            let lost = present(changes).filter(|(path, _)| path.contains(&b'\r'));
            let lost = lost.count() as u64;
            if lost > 0 {
                let lost = plural(lost, "name", "names");
                notes.push(format!(
                    "borg will not find {lost} with a carriage return, which it reads as a newline in a list"
                ));
            }
        }
        _ => {}
    }
    notes
}

/// The changes in a format. The formats for other tools also name what a renamed directory contains. `empty` are
/// those of [`restic_directories`] that are empty.
pub(crate) fn to_bytes(
    format: ChangedFormat,
    changes: &Changes,
    empty: &HashSet<Vec<u8>>,
) -> Vec<u8> {
    let entries = &changes.entries;
    let present_paths = || {
        let present = entries.iter().filter(|it| it.change != Change::Removed);
        present.map(|entry| &entry.path[..])
    };
    let all_paths = || present(changes).map(|(path, _)| path);
    match format {
        ChangedFormat::Table => entries.iter().flat_map(table_line).collect(),
        ChangedFormat::Ndjson => entries.iter().flat_map(json_line).collect(),
        ChangedFormat::Paths => terminated(present_paths(), b'\n'),
        ChangedFormat::Paths0 => terminated(present_paths(), b'\0'),
        // rsync skips a name that begins with `#` or `;`.
        ChangedFormat::Rsync => {
            prefixed(all_paths(), |path| !path.starts_with(b"/") && path != b".")
        }
        // GNU tar before 1.30 takes a name in `-T` that begins with a dash for an option.
        ChangedFormat::Tar => prefixed(all_paths(), |path| path.starts_with(b"-")),
        // borg stores the modes only of directories that it is given.
        ChangedFormat::Borg => {
            let with_parents = |path| parents(path).chain([path]);
            let mut paths: Vec<&[u8]> = all_paths().flat_map(with_parents).collect();
            paths.sort_unstable();
            paths.dedup();
            terminated(paths, b'\0')
        }
        ChangedFormat::Restic => {
            let is_needed = |(path, is_dir): &(&[u8], bool)| !is_dir || empty.contains(*path);
            let needed = present(changes).filter(is_needed);
            let mut paths = needed.map(|(path, _)| path).peekable();
            // restic refuses an empty list.
            let nothing = paths.peek().is_none().then_some(&b"/dev/null"[..]);
            terminated(paths.chain(nothing), b'\0')
        }
    }
}

fn table_line(entry: &ChangedEntry) -> Vec<u8> {
    let from = entry.from.as_deref();
    let was = from.map_or(String::new(), |from| format!(" (was {})", printable(from)));
    let ((_, sign), path) = (name_and_sign(entry.change), printable(&entry.path));
    format!("{sign} {path}{was}\n").into_bytes()
}

fn json_line(entry: &ChangedEntry) -> Vec<u8> {
    let mut line = serde_json::to_vec(&Json(entry)).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Paths ended by NUL, with `./` before some.
fn prefixed<'a>(paths: impl Iterator<Item = &'a [u8]>, needs: fn(&[u8]) -> bool) -> Vec<u8> {
    let mut out = Vec::new();
    for path in paths {
        out.extend_from_slice(if needs(path) { b"./" } else { b"" });
        out.extend_from_slice(path);
        out.push(0);
    }
    out
}

fn terminated<'a>(paths: impl IntoIterator<Item = &'a [u8]>, end: u8) -> Vec<u8> {
    let mut out = Vec::new();
    for path in paths {
        out.extend_from_slice(path);
        out.push(end);
    }
    out
}

/// Every directory above a path.
fn parents(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = (0..path.len()).filter(|&at| path[at] == b'/');
    slashes.map(|at| &path[..at])
}

#[cfg(test)]
mod tests {
    use archive::since::Evidence;
    use walk::EngineKind;

    use super::*;

    fn entry(path: &str, change: Change, is_dir: bool) -> ChangedEntry {
        ChangedEntry {
            path: path.into(),
            change,
            from: (change == Change::Renamed).then(|| b"o\xffd".to_vec()),
            is_dir,
        }
    }

    fn changes(entries: Vec<ChangedEntry>) -> Changes {
        Changes {
            entries,
            carried: vec![(b"n/f".to_vec(), false), (b"n/d".to_vec(), true)],
        }
    }

    fn mixed() -> Changes {
        changes(vec![
            entry(".", Change::Changed, true),
            entry("-x", Change::Changed, false),
            entry("a", Change::Added, true),
            entry("a/b", Change::Added, false),
            entry("e", Change::Added, true),
            entry("gone\n", Change::Removed, false),
            entry("n", Change::Renamed, true),
        ])
    }

    fn text(format: ChangedFormat, changes: &Changes) -> String {
        let empty = HashSet::from([b"e".to_vec(), b"n/d".to_vec()]);
        let text = String::from_utf8(to_bytes(format, changes, &empty)).unwrap();
        text.replace('\0', "|")
    }

    #[test]
    fn table_and_ndjson_formats() {
        let changes = mixed();
        assert_eq!(
            text(ChangedFormat::Table, &changes),
            "* .\n* -x\n+ a\n+ a/b\n+ e\n- gone\\n\n> n (was o\\xffd)\n"
        );
        let lines = text(ChangedFormat::Ndjson, &changes);
        assert_eq!(lines.lines().count(), 7);
        let last: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        assert_eq!(
            (last["change"].as_str(), last["from_b64"].as_str()),
            (Some("renamed"), Some("b/9k"))
        );
        let first: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
        assert!(first.get("from").is_none());
        let seconds = 0.5;
        let report = ChangedReport {
            changes,
            ..ChangedReport::new(EngineKind::Stat, Evidence::Compared.into())
        };
        let result = Output {
            report: &report,
            seconds,
        };
        assert_eq!(
            result.summary(),
            "3 added, 2 changed, 1 removed, 1 renamed; found with stat in 500 ms"
        );
        let json = serde_json::to_value(&result).unwrap();
        assert_eq!(
            (&json["unchanged"], &json["added"]),
            (&false.into(), &3.into())
        );
    }

    #[test]
    fn formats_for_backup_tools() {
        let changes = mixed();
        assert_eq!(text(ChangedFormat::Paths0, &changes), ".|-x|a|a/b|e|n|");
        assert_eq!(
            text(ChangedFormat::Rsync, &changes),
            ".|./-x|./a|./a/b|./e|./n|./n/f|./n/d|"
        );
        assert_eq!(
            text(ChangedFormat::Tar, &changes),
            ".|./-x|a|a/b|e|n|n/f|n/d|"
        );
        assert_eq!(text(ChangedFormat::Restic, &changes), "-x|a/b|e|n/f|n/d|");
        let nothing = text(ChangedFormat::Restic, &Changes::default());
        assert_eq!(nothing, "/dev/null|");
        let directories = restic_directories(ChangedFormat::Restic, &changes);
        assert_eq!(directories, [b".", &b"e"[..], b"n/d"]);
        let deep = self::changes(vec![entry("d/e/f", Change::Changed, false)]);
        assert_eq!(text(ChangedFormat::Borg, &deep), "d|d/e|d/e/f|n|n/d|n/f|");
    }
}
