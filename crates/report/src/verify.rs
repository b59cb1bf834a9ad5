//! Whether an archive is whole, and a tree as it says.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use show::name::entry;
use show::units::plural;

/// The result, as in the JSON.
#[derive(Clone, Copy, Debug)]
pub struct Verified<'a> {
    /// The archive's name.
    pub archive: &'a [u8],
    /// The directory that it was compared with.
    pub against: Option<&'a [u8]>,
    /// Members.
    pub members: u64,
    /// Of them, plain files.
    pub files: u64,
    /// Files whose data is what its checksum says.
    pub right: u64,
    /// Files without a checksum.
    pub unsaid: u64,
    /// Places where it is damaged.
    pub damaged: u64,
    /// Members that the directory was compared with.
    pub compared: u64,
    /// Of them, those that are otherwise there.
    pub different: u64,
    /// What is in its directories, and not in the archive.
    pub unknown: u64,
    /// Length of the archive, uncompressed, in bytes.
    pub bytes: u64,
    /// What it took.
    pub seconds: f64,
}

impl Serialize for Verified<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "archive", Some(self.archive))?;
        map.serialize_entry("whole", &(self.damaged == 0))?;
        for (name, count) in [
            ("members", self.members),
            ("files", self.files),
            ("right", self.right),
            ("unsaid", self.unsaid),
            ("damaged", self.damaged),
            ("bytes", self.bytes),
        ] {
            map.serialize_entry(name, &count)?;
        }
        entry(&mut map, "against", self.against)?;
        map.serialize_entry("compared", &self.against.map(|_| self.compared))?;
        map.serialize_entry("different", &self.against.map(|_| self.different))?;
        map.serialize_entry("unknown", &self.against.map(|_| self.unknown))?;
        map.serialize_entry("seconds", &self.seconds)?;
        map.end()
    }
}

impl Verified<'_> {
    /// For people: a line, or two.
    pub fn text(&self) -> String {
        let some = |n: u64, what: &str| plural(n, what, &format!("{what}s"));
        let whole = match self.damaged {
            0 => "whole".to_owned(),
            n => format!("damaged in {}", some(n, "place")),
        };
        let sums = match (self.right, self.unsaid) {
            (_, 0) => format!("{} right", some(self.right, "checksum")),
            (right, unsaid) => format!(
                "{} right, {} without one",
                some(right, "checksum"),
                some(unsaid, "file")
            ),
        };
        let mut text = format!(
            "{whole}: {}, {sums}, {}\n",
            some(self.members, "member"),
            some(self.bytes, "byte")
        );
        if self.against.is_some() {
            let compared = some(self.compared, "member");
            text.push_str(&match (self.different, self.unknown) {
                (0, 0) => format!("as in the archive: {compared}\n"),
                (n, 0) => format!("not as in the archive: {n} of {compared}\n"),
                (n, more) => format!(
                    "not as in the archive: {n} of {compared}; not in it: {}\n",
                    some(more, "name")
                ),
            });
        }
        text
    }
}
