//! What `fathom restore` did, or would do.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use show::name::{entry, printable};
use show::units::plural;

/// One thing that would be done.
#[derive(Clone, Debug)]
pub struct Step {
    /// What, in a word.
    pub what: &'static str,
    /// The name that it is done to; empty for the directory that is restored into.
    pub path: Vec<u8>,
    /// The target of a symlink, the other name of a link, the new name of a directory.
    pub other: Option<Vec<u8>>,
}

impl Step {
    fn path(&self) -> &[u8] {
        if self.path.is_empty() {
            b"."
        } else {
            &self.path
        }
    }

    /// As a line, names escaped.
    pub fn to_line(&self) -> String {
        let other = self
            .other
            .as_deref()
            .map_or(String::new(), |other| format!(" -> {}", printable(other)));
        format!("{} {}{other}\n", self.what, printable(self.path()))
    }
}

impl Serialize for Step {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("what", self.what)?;
        entry(&mut map, "path", Some(self.path()))?;
        entry(&mut map, "other", self.other.as_deref())?;
        map.end()
    }
}

/// The result of a restore.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Restored {
    /// Plain files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symlinks.
    pub symlinks: u64,
    /// Further names of files.
    pub links: u64,
    /// Fifos and devices.
    pub other: u64,
    /// Bytes of data written.
    pub bytes: u64,
    /// Entries taken away.
    pub removed: u64,
    /// Directories renamed.
    pub renamed: u64,
    /// Members left out, each with a warning.
    pub skipped: u64,
    /// What would be done; `None` when it was done.
    pub steps: Option<Vec<Step>>,
    /// How long it took.
    pub seconds: f64,
}

impl Restored {
    /// In words, on one line.
    pub fn to_words(&self) -> String {
        let is_dry = self.steps.is_some();
        let kinds = [
            (self.files, "file", "files"),
            (self.directories, "directory", "directories"),
            (self.symlinks, "symlink", "symlinks"),
            (self.links, "link", "links"),
            (self.other, "fifo or device", "fifos and devices"),
        ];
        let kinds = kinds.into_iter().filter(|(n, ..)| *n > 0);
        let parts: Vec<String> = kinds.map(|(n, one, many)| plural(n, one, many)).collect();
        let what = if parts.is_empty() {
            "nothing".to_owned()
        } else {
            parts.join(", ")
        };
        let tail: String = [
            (self.renamed, "renamed"),
            (self.removed, "removed"),
            (self.skipped, "left out"),
        ]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, how)| format!("; {n} {how}"))
        .collect();
        let how = if is_dry {
            "would be restored"
        } else {
            "restored"
        };
        let bytes = plural(self.bytes, "byte", "bytes");
        format!("{what} {how} in {:.3} s: {bytes}{tail}", self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_words_and_lines() {
        let restored = Restored {
            files: 1,
            links: 2,
            bytes: 7,
            removed: 3,
            seconds: 0.5,
            ..Restored::default()
        };
        assert_eq!(
            restored.to_words(),
            "1 file, 2 links restored in 0.500 s: 7 bytes; 3 removed"
        );
        let none = Restored {
            steps: Some(Vec::new()),
            ..Restored::default()
        };
        assert_eq!(
            none.to_words(),
            "nothing would be restored in 0.000 s: 0 bytes"
        );
        let step = Step {
            what: "symlink",
            path: b"a\nb".to_vec(),
            other: Some(b"\xff".to_vec()),
        };
        assert_eq!(step.to_line(), "symlink a\\nb -> \\xff\n");
        let json = serde_json::to_value(&step).unwrap();
        assert_eq!(
            (json["path"].as_str(), json["other_b64"].as_str()),
            (Some("a\nb"), Some("/w=="))
        );
    }
}
