//! The plan of a dump: which rows are written. A full dump writes all; for an increment,
//! `crate::increment` decides.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use base::path::trim_slashes;
use catalog::compare::Rename;
use catalog::rows::Rows;
use catalog::since::GoneMount;
use ondisk::Dev;
use ondisk::pax::dumpdir::{self, Code};
use walk::FileType;

/// The member name of a path as given: without leading slashes, and without everything up to the
/// last `..`, which would lead out of the restore directory. GNU tar does the same. Empty if
/// nothing remains.
pub(crate) fn member_name(path: &[u8]) -> &[u8] {
    let mut rest = path;
    let mut at = 0;
    for part in path.split(|&b| b == b'/') {
        let end = at + part.len();
        if part == b".." {
            rest = path.get(end..).unwrap_or_default();
        }
        at = end + 1;
    }
    let from = rest.iter().position(|&b| b != b'/').unwrap_or(rest.len());
    rest.get(from..).unwrap_or_default()
}

/// The common prefix of the member names of a SRC.
pub(crate) fn in_archive(path: &[u8]) -> &[u8] {
    trim_slashes(member_name(path))
}

/// How a row is dumped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlanStep {
    /// A member with its contents. A directory has a dumpdir if `Plan::dumpdir` returns one.
    Whole,
    /// A hard link to another row (`Plan::target`), which is an earlier member, or is unchanged
    /// since the base and so exists when this archive is restored.
    Link,
    /// Unchanged since the base, so not in the archive.
    Unchanged,
    /// Excluded from archive and catalog, like the archive file itself.
    LeftOut,
}

/// A name in a dumpdir, with its code.
pub(crate) type ListedName = (Code, Vec<u8>);

/// How each row is dumped, in row order.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    steps: Vec<PlanStep>,
    links: HashMap<usize, usize>,
    /// Whether directories have dumpdirs.
    is_increment: bool,
    /// The row of the archive's first directory, whose dumpdir lists the renames, and the
    /// directories to rename before anything else is restored, in this order, as member names
    /// without a final slash.
    pub(crate) renames: Option<(usize, Vec<Rename>)>,
    /// Directories that replace a different directory, which a restore removes first.
    pub(crate) replacing: HashSet<usize>,
    /// Unreadable directories: a restore must not remove anything in them, and the catalog records
    /// their entries as unknown, so that the next increment dumps them.
    pub(crate) blind: HashSet<usize>,
    /// By directory, extra names in its dumpdir: names that could not be read, which a restore must
    /// not remove; or the entries of a SRC, if nothing has changed.
    pub(crate) unread: HashMap<usize, Vec<ListedName>>,
    /// Mounts that have disappeared since the last dump. The tree counts as complete without them.
    pub(crate) gone: Vec<GoneMount>,
    /// Number of entries of the base that no longer exist.
    pub(crate) removed: u64,
    /// Number of directories renamed with everything in them.
    pub(crate) renamed: u64,
    /// The tree is unchanged since the base; the increment still contains the sources.
    pub(crate) is_unchanged: bool,
    /// For each row, the unchanged row of the base plus one; 0 for none. Empty in a full dump.
    pub(crate) kept_as: Vec<u32>,
}

impl Plan {
    /// A plan of a full dump. The first name of a hard-linked file gets the data, and the others
    /// are links to it.
    pub fn full(rows: &Rows) -> Plan {
        let mut plan = Plan {
            steps: vec![PlanStep::Whole; rows.len()],
            ..Plan::default()
        };
        let mut files = LinkedFiles::default();
        for row in (0..rows.len()).filter(|&row| rows.is_linked(row)) {
            if let Some(first) = files.first_name(rows, row) {
                plan.set_link(row, first);
            }
        }
        plan
    }

    /// A plan of an increment in which every row is unchanged, until [`Plan::set`].
    pub(crate) fn increment(rows: usize) -> Plan {
        Plan {
            steps: vec![PlanStep::Unchanged; rows],
            is_increment: true,
            ..Plan::default()
        }
    }

    pub(crate) fn set(&mut self, row: usize, step: PlanStep) {
        self.steps[row] = step;
    }

    pub(crate) fn set_link(&mut self, row: usize, target: usize) {
        self.steps[row] = PlanStep::Link;
        self.links.insert(row, target);
    }

    /// How a row is dumped.
    #[inline]
    pub fn step(&self, row: usize) -> PlanStep {
        self.steps[row]
    }

    /// The row that a hard link refers to; the row itself if it is no link.
    pub(crate) fn target(&self, row: usize) -> usize {
        match self.steps[row] {
            PlanStep::Link => self.links[&row],
            _ => row,
        }
    }

    /// The rows of a range that are in [`Plan::blind`].
    pub(crate) fn blind_of(&self, rows: Range<usize>) -> impl Iterator<Item = usize> {
        let blind = self.blind.iter().copied();
        blind.filter(move |row| rows.contains(row))
    }

    /// The first row at or after `from` that is written.
    #[inline]
    pub(crate) fn next_written(&self, from: usize) -> Option<usize> {
        let is_written = |step: &PlanStep| matches!(step, PlanStep::Whole | PlanStep::Link);
        Some(from + self.steps.get(from..)?.iter().position(is_written)?)
    }

    /// Approximate size of a row's data in the archive.
    pub(crate) fn bytes(&self, rows: &Rows, row: usize) -> u64 {
        let has_data = self.step(row) == PlanStep::Whole && rows.kind(row) == FileType::Regular;
        if has_data { rows.size(row) } else { 0 }
    }

    pub(crate) fn unchanged(&self) -> u64 {
        let steps = self.steps.iter();
        steps.filter(|step| **step == PlanStep::Unchanged).count() as u64
    }

    /// The dumpdir of a directory: the names in it, so that a restore over the base can remove all
    /// others. `None` in a full dump.
    ///
    /// The dumpdir precedes the members of the directory, so it may list a file that then cannot be
    /// read. In that case a restore keeps an older copy, and the catalog records the file as
    /// unknown, so that the next increment tries again. Sockets are not listed, because tar cannot
    /// store them.
    pub(crate) fn dumpdir(&self, rows: &Rows, row: usize) -> Option<Vec<u8>> {
        if !self.is_increment || self.blind.contains(&row) {
            return None;
        }
        let mut entries: Vec<(Code, &[u8])> = Vec::new();
        let renames = self.renames.iter().filter(|(carrier, _)| *carrier == row);
        let renames = renames.flat_map(|(_, pairs)| pairs);
        entries.extend(renames.flat_map(|(old, new)| [(Code::R, &old[..]), (Code::T, &new[..])]));
        let from = entries.len();
        for child in rows.children(row) {
            let code = match (rows.kind(child), self.step(child)) {
                (FileType::Socket, _) | (_, PlanStep::LeftOut) => continue,
                // Code Y makes GNU tar remove the old directory of this name before extracting.
                (FileType::Directory, _) if self.replacing.contains(&child) => Code::Y,
                (FileType::Directory, _) => Code::D,
                (_, PlanStep::Unchanged) => Code::N,
                (_, PlanStep::Whole | PlanStep::Link) => Code::Y,
            };
            entries.push((code, rows.name(child)));
        }
        if let Some(unread) = self.unread.get(&row) {
            entries.extend(unread.iter().map(|(code, name)| (*code, &name[..])));
            // GNU tar uses binary search in a dumpdir.
            entries[from..].sort_unstable_by_key(|&(_, name)| name);
        }
        Some(dumpdir::encode(entries))
    }
}

/// Hard-linked files by device and inode number: inode numbers are unique only within a file
/// system.
#[derive(Default)]
pub(crate) struct LinkedFiles(HashMap<(Dev, u64), usize>);

impl LinkedFiles {
    /// The row with the first name of the file, if that is a different row.
    pub(crate) fn first_name(&mut self, rows: &Rows, row: usize) -> Option<usize> {
        let meta = rows.meta(row);
        let first = *self.0.entry((meta.dev, meta.ino)).or_insert(row);
        Some(first).filter(|first| *first != row)
    }
}

#[cfg(test)]
mod tests {
    use super::{member_name, trim_slashes};

    #[test]
    fn member_names_stay_below_the_restore_directory() {
        for (path, name) in [
            ("/", ""),
            ("/a/b", "a/b"),
            ("//a", "a"),
            ("../a", "a"),
            ("..", ""),
            ("a/../b", "b"),
            ("a/..", ""),
            ("a/...", "a/..."),
            ("..a/b", "..a/b"),
            ("./a", "./a"),
            ("../../a/../../b/c", "b/c"),
        ] {
            assert_eq!(member_name(path.as_bytes()), name.as_bytes(), "{path}");
        }
        assert_eq!(trim_slashes(b"a//"), b"a");
        assert_eq!(trim_slashes(b"/"), b"");
    }
}
