//! The output of `fathom changed`: for people, for programs, and for backup tools.

use std::collections::HashSet;
use std::io::{self, Write};

use catalog::changed::{
    Change, ChangedEntry, ChangedReport, Changes, MetadataChange, MetadataField, MetadataValues,
};
use serde::{Serialize, Serializer};
use show::json_object;
use show::name::printable;
use show::units::{duration, plural};
use walk::KeptPath;

use crate::args::output::Format;
use crate::cmd::list::show::permissions;
use crate::json::{Json, list_of};

pub(crate) struct Output<'a> {
    pub(crate) report: &'a ChangedReport,
    pub(crate) seconds: f64,
}

json_object!(Output<'_>, |output| {
    "engine": output.report.engine.name(),
    "why": output.report.reason.to_string(),
    "unchanged": output.report.changes.is_empty(),
    "added": output.count(Change::Added),
    "changed": output.count(Change::Changed),
    "removed": output.count(Change::Removed),
    "renamed": output.count(Change::Renamed),
    "entries": Json(&output.report.changes),
    "seconds": output.seconds,
});

impl Serialize for Json<'_, Changes> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        list_of::<_, ChangedEntry>(serializer, self.entries())
    }
}

json_object!(Json<'_, ChangedEntry>, |entry| {
    name "path": Some(&entry.path),
    "change": name_and_sign(entry.change).0,
    name? "from": entry.from.as_deref(),
    some "size": entry.size,
    some "fields": entry.metadata.as_ref().map(field_names),
    some "old": entry.metadata.map(|it| ValuesJson(it.old)),
    some "new": entry.metadata.map(|it| ValuesJson(it.new)),
});

/// Values of an entry, with the names and in the form of `fathom walk --format ndjson`.
struct ValuesJson(MetadataValues);

json_object!(ValuesJson, |values| {
    "mode": permissions(values.0.mode),
    "uid": values.0.uid,
    "gid": values.0.gid,
    "size": values.0.size,
});

fn field_names(metadata: &MetadataChange) -> Vec<&'static str> {
    metadata.fields().map(MetadataField::name).collect()
}

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

/// A sentence with the number of changes of each kind.
pub(crate) fn counts(changes: &Changes) -> String {
    match changes.is_empty() {
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

/// Directories without changes below. If such a directory is empty, the list for restic must name
/// it, because no other path in the list implies it. The list must not name a directory that is not
/// empty, because restic would read all of its contents.
pub(crate) fn restic_directories(format: Format, changes: &Changes) -> Vec<KeptPath> {
    if format != Format::Restic {
        return Vec::new();
    }
    let above = changes.above();
    let present = changes.present();
    let directories = present.filter(|(path, is_dir)| *is_dir && !above.contains(path));
    directories.map(|(path, _)| path).collect()
}

/// Notes about limits of the backup tool for which a list is made.
pub(crate) fn notes(format: Format, changes: &Changes) -> Vec<String> {
    let mut notes = Vec::new();
    match format {
        Format::Restic => notes.push(
            "the snapshot will contain only what has changed, not the rest of the tree; fathom dump DIR --restic REPO \
             makes complete ones"
                .to_owned(),
        ),
        Format::Borg => {
            notes.push(
                "the archive will contain only what has changed, not the rest of the tree; borg create REPO::NAME DIR \
                 makes complete ones"
                    .to_owned(),
            );
            let present = changes.present();
            let lost = present.filter(|(path, _)| changes.path(*path).contains(&b'\r'));
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

/// Writes the changes in a format. The formats for backup tools also list the contents of renamed
/// directories. `empty` has the empty directories among [`restic_directories`]. With `verbose`, the
/// table has the changed fields.
pub(crate) fn write(
    format: Format,
    changes: &Changes,
    empty: &HashSet<KeptPath>,
    verbose: bool,
    to: &mut dyn Write,
) -> io::Result<()> {
    let all_paths = || changes.present().map(|(path, _)| changes.path(path));
    let mut put = |prefix: &[u8], path: &[u8], end: u8| {
        to.write_all(prefix)?;
        to.write_all(path)?;
        to.write_all(&[end])
    };
    // Writes paths ended by NUL. A path for which `needs` is true gets the prefix `./`.
    let mut prefixed = |needs: fn(&[u8]) -> bool| {
        all_paths().try_for_each(|path| put(if needs(&path) { b"./" } else { b"" }, &path, 0))
    };
    match format {
        Format::Paths | Format::Paths0 => {
            let end = if format == Format::Paths { b'\n' } else { 0 };
            let entries = changes.entries();
            let mut present = entries.filter(|entry| entry.change != Change::Removed);
            present.try_for_each(|entry| put(b"", &entry.path, end))
        }
        // rsync takes a name in a list that begins with `#` or `;` for a comment.
        Format::Rsync => prefixed(|path| !path.starts_with(b"/") && path != b"."),
        // Before version 1.30, GNU tar takes a name in `-T` that begins with a dash for an option.
        Format::Tar => prefixed(|path| path.starts_with(b"-")),
        // borg stores the metadata of a directory only if its list names the directory.
        Format::Borg => {
            let mut paths = changes.present_with_parents().into_iter();
            paths.try_for_each(|path| put(b"", &changes.path(path), 0))
        }
        Format::Restic => {
            let is_needed = |(path, is_dir): &(KeptPath, bool)| !is_dir || empty.contains(path);
            let mut needed = changes.present().filter(is_needed).peekable();
            // restic refuses an empty list of files.
            if needed.peek().is_none() {
                put(b"", b"/dev/null", 0)?;
            }
            needed.try_for_each(|(path, _)| put(b"", &changes.path(path), 0))
        }
        _ => {
            let line: fn(&ChangedEntry) -> Vec<u8> = match format {
                Format::Ndjson => json_line,
                _ if verbose => verbose_line,
                _ => table_line,
            };
            let mut entries = changes.entries();
            entries.try_for_each(|entry| put(b"", &line(&entry), b'\n'))
        }
    }
}

fn table_line(entry: &ChangedEntry) -> Vec<u8> {
    let from = entry.from.as_deref();
    let was = from.map_or(String::new(), |from| format!(" (was {})", printable(from)));
    let ((_, sign), path) = (name_and_sign(entry.change), printable(&entry.path));
    format!("{sign} {path}{was}").into_bytes()
}

/// A line of the table with the changed fields. The time of the inode's change is printed only if
/// nothing else differs, because it changes with every other field.
fn verbose_line(entry: &ChangedEntry) -> Vec<u8> {
    let mut line = table_line(entry);
    let Some(metadata) = &entry.metadata else {
        return line;
    };
    let (old, new) = (&metadata.old, &metadata.new);
    let mut fields: Vec<MetadataField> = metadata.fields().collect();
    if fields.len() > 1 {
        fields.retain(|field| *field != MetadataField::ChangeTime);
    }
    let text = |field: MetadataField| {
        let name = field.name();
        let values = match field {
            MetadataField::Mode => [permissions(old.mode), permissions(new.mode)],
            MetadataField::Owner => [old.uid.to_string(), new.uid.to_string()],
            MetadataField::Group => [old.gid.to_string(), new.gid.to_string()],
            MetadataField::Size => [old.size.to_string(), new.size.to_string()],
            _ => return name.to_owned(),
        };
        format!("{name} {}", values.join(" -> "))
    };
    let fields: Vec<String> = fields.into_iter().map(text).collect();
    if !fields.is_empty() {
        line.extend(format!(" ({})", fields.join(", ")).into_bytes());
    }
    line
}

fn json_line(entry: &ChangedEntry) -> Vec<u8> {
    serde_json::to_vec(&Json(entry)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use catalog::since::Evidence;
    use walk::EngineKind;

    use super::*;

    fn entry(path: &str, change: Change, is_dir: bool) -> ChangedEntry {
        ChangedEntry {
            path: path.into(),
            change,
            from: (change == Change::Renamed).then(|| b"o\xffd".to_vec()),
            is_dir,
            size: None,
            metadata: None,
        }
    }

    fn changes(entries: Vec<ChangedEntry>) -> Changes {
        let mut changes = Changes::default();
        entries.iter().for_each(|entry| changes.add(entry));
        changes.add_carried(b"n/f", false);
        changes.add_carried(b"n/d", true);
        changes
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

    fn text(format: Format, changes: &Changes) -> String {
        let present = changes.present().map(|(path, _)| path);
        let empty = present.filter(|path| matches!(&changes.path(*path)[..], b"e" | b"n/d"));
        let mut text = Vec::new();
        write(format, changes, &empty.collect(), false, &mut text).unwrap();
        String::from_utf8(text).unwrap().replace('\0', "|")
    }

    #[test]
    fn table_and_ndjson_formats() {
        let changes = mixed();
        assert_eq!(
            text(Format::Table, &changes),
            "* .\n* -x\n+ a\n+ a/b\n+ e\n- gone\\n\n> n (was o\\xffd)\n"
        );
        let lines = text(Format::Ndjson, &changes);
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
    fn only_ndjson_and_verbose_tables_have_changed_fields() {
        let values = |mode, uid, size| MetadataValues {
            mode,
            uid,
            gid: 0,
            size,
        };
        let mut changed = entry("su", Change::Changed, false);
        changed.size = Some(5);
        changed.metadata = Some(MetadataChange {
            old: values(0o100_755, 0, 5),
            new: values(0o104_755, 7, 5),
            bits: [
                MetadataField::Mode,
                MetadataField::Owner,
                MetadataField::ChangeTime,
            ]
            .into_iter()
            .map(|field| 1_u16 << field as u16)
            .sum(),
        });
        let line: serde_json::Value = serde_json::from_slice(&json_line(&changed)).unwrap();
        assert_eq!(
            line,
            serde_json::json!({
                "path": "su", "change": "changed", "size": 5, "fields": ["mode", "uid", "ctime"],
                "old": {"mode": "0755", "uid": 0, "gid": 0, "size": 5},
                "new": {"mode": "4755", "uid": 7, "gid": 0, "size": 5},
            })
        );
        assert_eq!(table_line(&changed), b"* su");
        assert_eq!(
            verbose_line(&changed),
            b"* su (mode 0755 -> 4755, uid 0 -> 7)"
        );
    }

    #[test]
    fn formats_for_backup_tools() {
        let changes = mixed();
        assert_eq!(text(Format::Paths0, &changes), ".|-x|a|a/b|e|n|");
        assert_eq!(
            text(Format::Rsync, &changes),
            ".|./-x|./a|./a/b|./e|./n|./n/f|./n/d|"
        );
        assert_eq!(text(Format::Tar, &changes), ".|./-x|a|a/b|e|n|n/f|n/d|");
        assert_eq!(text(Format::Restic, &changes), "-x|a/b|e|n/f|n/d|");
        let nothing = text(Format::Restic, &Changes::default());
        assert_eq!(nothing, "/dev/null|");
        let directories = restic_directories(Format::Restic, &changes);
        let directories = directories.iter().map(|path| changes.path(*path));
        assert_eq!(directories.collect::<Vec<_>>(), [b".", &b"e"[..], b"n/d"]);
        let deep = self::changes(vec![entry("d/e/f", Change::Changed, false)]);
        assert_eq!(text(Format::Borg, &deep), "d|d/e|d/e/f|n|n/d|n/f|");
    }
}
