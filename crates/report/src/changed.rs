//! What has changed since a catalog: for people, for programs, and in the forms that backup tools
//! take.

use std::collections::HashSet;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use show::name::{entry, printable};

/// What became of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It is new.
    Added,
    /// It is not as it was.
    Changed,
    /// It is gone.
    Removed,
    /// It has another name.
    Renamed,
}

impl Change {
    /// Its name in what programs read.
    pub fn name(self) -> &'static str {
        match self {
            Change::Added => "added",
            Change::Changed => "changed",
            Change::Removed => "removed",
            Change::Renamed => "renamed",
        }
    }

    fn sign(self) -> char {
        match self {
            Change::Added => '+',
            Change::Changed => '*',
            Change::Removed => '-',
            Change::Renamed => '>',
        }
    }
}

/// An entry that is not as it was.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Its name below DIR; `.` for DIR itself.
    pub path: &'a [u8],
    /// What became of it.
    pub change: Change,
    /// Its name as it was, if it was renamed.
    pub from: Option<&'a [u8]>,
    /// Whether it is a directory.
    pub is_dir: bool,
}

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "path", Some(self.path))?;
        map.serialize_entry("change", self.change.name())?;
        if self.from.is_some() {
            entry(&mut map, "from", self.from)?;
        }
        map.end()
    }
}

/// The result, as in the JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Changes<'a> {
    /// The engine.
    pub engine: &'a str,
    /// How it was found.
    pub why: &'a str,
    /// Whether everything is as it was.
    pub unchanged: bool,
    /// How many entries are new.
    pub added: usize,
    /// How many are not as they were.
    pub changed: usize,
    /// How many are gone.
    pub removed: usize,
    /// How many have another name.
    pub renamed: usize,
    /// Each of them.
    pub entries: &'a [Entry<'a>],
    /// What it took.
    pub seconds: f64,
}

impl<'a> Changes<'a> {
    /// Of some entries.
    pub fn of(
        engine: &'a str,
        why: &'a str,
        entries: &'a [Entry<'a>],
        seconds: f64,
    ) -> Changes<'a> {
        let count = |change| {
            entries
                .iter()
                .filter(|entry| entry.change == change)
                .count()
        };
        Changes {
            engine,
            why,
            unchanged: entries.is_empty(),
            added: count(Change::Added),
            changed: count(Change::Changed),
            removed: count(Change::Removed),
            renamed: count(Change::Renamed),
            entries,
            seconds,
        }
    }
}

/// What is printed, and for whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// For people: a sign and a name a line.
    Text,
    /// A JSON object a line.
    Ndjson,
    /// Names of what is there, a line each.
    Paths,
    /// Names of what is there, ended by NUL.
    Paths0,
    /// `restic backup --files-from-raw`
    Restic,
    /// `borg create --paths-from-stdin --paths-delimiter '\0'`
    Borg,
    /// `rsync --from0 --files-from`
    Rsync,
    /// `tar --no-recursion --null -T`
    Tar,
}

/// Entries in one of the forms. `carried` is what lies in renamed directories and is otherwise as
/// it was, with whether it is a directory: tools that know of no renames are told of that as well.
pub fn to_bytes(form: Form, entries: &[Entry<'_>], carried: &[(&[u8], bool)]) -> Vec<u8> {
    let mut out = Vec::new();
    let there = || {
        entries
            .iter()
            .filter(|entry| entry.change != Change::Removed)
    };
    let all = || {
        there()
            .map(|entry| (entry.path, entry.is_dir))
            .chain(carried.iter().copied())
    };
    let mut name = |parts: &[&[u8]]| parts.iter().for_each(|part| out.extend_from_slice(part));
    match form {
        Form::Text => {
            for Entry {
                path, change, from, ..
            } in entries
            {
                let was = from.map_or(String::new(), |from| format!(" (was {})", printable(from)));
                name(&[format!("{} {}{was}\n", change.sign(), printable(path)).as_bytes()]);
            }
        }
        Form::Ndjson => {
            for entry in entries {
                name(&[
                    serde_json::to_string(entry).unwrap_or_default().as_bytes(),
                    b"\n",
                ]);
            }
        }
        Form::Paths => there().for_each(|entry| name(&[entry.path, b"\n"])),
        Form::Paths0 => there().for_each(|entry| name(&[entry.path, b"\0"])),
        // borg keeps only directories that it is told of: without those above, their modes would be
        // lost.
        Form::Borg => {
            let mut names: Vec<&[u8]> = all()
                .flat_map(|(path, _)| parents(path).chain([path]))
                .collect();
            names.sort_unstable();
            names.dedup();
            names.iter().for_each(|path| name(&[path, b"\0"]));
        }
        Form::Rsync => all().for_each(|(path, _)| name(&[path, b"\0"])),
        // restic goes into directories: it is told of one only where it would not hear of it by
        // what is in it.
        Form::Restic => {
            let known: HashSet<&[u8]> = all().flat_map(|(path, _)| parents(path)).collect();
            let was_there = |path: &[u8]| {
                entries
                    .iter()
                    .any(|e| e.change == Change::Changed && e.is_dir && e.path == path)
            };
            for (path, is_dir) in all() {
                if !is_dir || !(known.contains(path) || path == b"." || was_there(path)) {
                    name(&[path, b"\0"]);
                }
            }
        }
        // Some versions of tar take a name that begins with a dash for an option.
        Form::Tar => all().for_each(|(path, _)| {
            name(&[
                if path.starts_with(b"-") { b"./" } else { b"" },
                path,
                b"\0",
            ])
        }),
    }
    out
}

/// Every directory above a name.
fn parents(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'/')
        .map(|(at, _)| &path[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(path: &'a str, change: Change, is_dir: bool) -> Entry<'a> {
        let from = (change == Change::Renamed).then_some(&b"o\xffd"[..]);
        Entry {
            path: path.as_bytes(),
            change,
            from,
            is_dir,
        }
    }

    fn entries() -> [Entry<'static>; 7] {
        [
            of(".", Change::Changed, true),
            of("-x", Change::Changed, false),
            of("a", Change::Added, true),
            of("a/b", Change::Added, false),
            of("e", Change::Added, true),
            of("gone\n", Change::Removed, false),
            of("n", Change::Renamed, true),
        ]
    }

    #[test]
    fn for_people_and_programs() {
        let text = String::from_utf8(to_bytes(Form::Text, &entries(), &[])).unwrap();
        assert_eq!(
            text,
            "* .\n* -x\n+ a\n+ a/b\n+ e\n- gone\\n\n> n (was o\\xffd)\n"
        );
        let lines = String::from_utf8(to_bytes(Form::Ndjson, &entries(), &[])).unwrap();
        assert_eq!(lines.lines().count(), 7);
        let last: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        assert_eq!(
            (last["change"].as_str(), last["from_b64"].as_str()),
            (Some("renamed"), Some("b/9k"))
        );
        let all = entries();
        let changes = Changes::of("stat", "", &all, 0.0);
        let counts = (
            changes.added,
            changes.changed,
            changes.removed,
            changes.renamed,
        );
        assert_eq!((changes.unchanged, counts), (false, (3, 2, 1, 1)));
    }

    #[test]
    fn for_tools() {
        let carried: [(&[u8], bool); 2] = [(b"n/f", false), (b"n/d", true)];
        let names = |form| {
            String::from_utf8(to_bytes(form, &entries(), &carried))
                .unwrap()
                .replace('\0', "|")
        };
        assert_eq!(names(Form::Paths0), ".|-x|a|a/b|e|n|");
        assert_eq!(names(Form::Rsync), ".|-x|a|a/b|e|n|n/f|n/d|");
        let deep = to_bytes(Form::Borg, &[of("d/e/f", Change::Changed, false)], &carried);
        assert_eq!(
            String::from_utf8(deep).unwrap().replace('\0', "|"),
            "d|d/e|d/e/f|n|n/d|n/f|"
        );
        assert_eq!(names(Form::Tar), ".|./-x|a|a/b|e|n|n/f|n/d|");
        assert_eq!(names(Form::Restic), "-x|a/b|e|n/f|n/d|");
    }
}
