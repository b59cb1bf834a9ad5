//! What is to be written of each row: everything in a full dump; in an increment what
//! `crate::increment` finds.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use catalog::compare::Rename;
use catalog::rows::Rows;
use catalog::since::GoneMount;
use ondisk::Dev;
use ondisk::pax::dumpdir::{self, Code};
use walk::FileType;

/// The name in an archive of a path as it was given: without leading slashes, and without
/// everything up to the last `..`, which would lead out of the directory that it is restored into.
/// GNU tar does the same. Empty for a path that is nothing else.
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

/// A path without slashes at its end.
pub(crate) fn trim_slashes(path: &[u8]) -> &[u8] {
    &path[..path.iter().rposition(|&b| b != b'/').map_or(0, |at| at + 1)]
}

/// The prefix of the names of a SRC in an archive.
pub(crate) fn in_archive(path: &[u8]) -> &[u8] {
    trim_slashes(member_name(path))
}

/// What becomes of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A member with everything that it holds. A directory has a dumpdir if `Plan::dumpdir` gives
    /// one.
    Whole,
    /// Another name of the file of another row (`Plan::target`), which comes earlier as a member,
    /// or is unchanged since the base and so exists when this archive is restored.
    Link,
    /// Unchanged since the base: not in the archive.
    Unchanged,
    /// Neither in the archive nor in the catalog: the archive itself, for example.
    LeftOut,
}

/// A name in the list of a directory, with its code.
pub(crate) type ListedName = (Code, Vec<u8>);

/// What is to be written, in the order of the rows.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    steps: Vec<Step>,
    links: HashMap<usize, usize>,
    /// Directories have dumpdirs.
    is_increment: bool,
    /// Directories that a restore renames before all else, in this order, as member names without a
    /// slash at the end; and the row of the first directory of the archive, whose dumpdir lists
    /// them.
    pub(crate) renames: Option<(usize, Vec<Rename>)>,
    /// Directories that replace another directory, which a restore removes first.
    pub(crate) replacing: HashSet<usize>,
    /// Directories whose entries are unknown: a restore may remove nothing in them, and the catalog
    /// must record them as unknown, so that the next increment dumps them.
    pub(crate) blind: HashSet<usize>,
    /// By directory, what its list has besides its rows: names that could not be read, which a
    /// restore may not remove; or the entries of a SRC, if nothing has changed.
    pub(crate) unread: HashMap<usize, Vec<ListedName>>,
    /// The mounts that are no longer there since the last dump. The tree is complete without them.
    pub(crate) gone: Vec<GoneMount>,
    /// Entries of the base that are gone.
    pub(crate) removed: u64,
    /// Directories that are renamed with everything in them.
    pub(crate) renamed: u64,
    /// The tree is as it was at the base. Every increment has the sources all the same.
    pub(crate) is_unchanged: bool,
    /// For each row, the row of the base that it is kept as, plus one; 0 for none. Empty in a full
    /// dump.
    pub(crate) kept_as: Vec<u32>,
}

impl Plan {
    /// Everything. Of the names of a file in the order of the archive, the first is the file, and
    /// the others are links to it.
    pub fn full(rows: &Rows) -> Plan {
        let mut plan = Plan {
            steps: vec![Step::Whole; rows.len()],
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

    /// An increment in which everything is unchanged until [`Plan::set`] says otherwise.
    pub(crate) fn increment(rows: usize) -> Plan {
        Plan {
            steps: vec![Step::Unchanged; rows],
            is_increment: true,
            ..Plan::default()
        }
    }

    pub(crate) fn set(&mut self, row: usize, step: Step) {
        self.steps[row] = step;
    }

    pub(crate) fn set_link(&mut self, row: usize, target: usize) {
        self.steps[row] = Step::Link;
        self.links.insert(row, target);
    }

    /// What becomes of a row.
    #[inline]
    pub fn step(&self, row: usize) -> Step {
        self.steps[row]
    }

    /// The row that a link leads to; the row itself if it is no link.
    pub(crate) fn target(&self, row: usize) -> usize {
        match self.steps[row] {
            Step::Link => self.links[&row],
            _ => row,
        }
    }

    /// Those of some rows that are in [`Plan::blind`].
    pub(crate) fn blind_of(&self, rows: Range<usize>) -> impl Iterator<Item = usize> {
        let blind = self.blind.iter().copied();
        blind.filter(move |row| rows.contains(row))
    }

    /// The first row from `from` on that is written.
    #[inline]
    pub(crate) fn next_written(&self, from: usize) -> Option<usize> {
        let is_written = |step: &Step| matches!(step, Step::Whole | Step::Link);
        Some(from + self.steps.get(from..)?.iter().position(is_written)?)
    }

    /// The approximate bytes of data of a row.
    pub(crate) fn bytes(&self, rows: &Rows, row: usize) -> u64 {
        let has_data = self.step(row) == Step::Whole && rows.kind(row) == FileType::Regular;
        if has_data { rows.size(row) } else { 0 }
    }

    /// The number of rows that are unchanged since the base.
    pub(crate) fn unchanged(&self) -> u64 {
        let steps = self.steps.iter();
        steps.filter(|step| **step == Step::Unchanged).count() as u64
    }

    /// The names in a directory, for a restore over the base: it removes what is there and not
    /// named.
    /// `None` in a full dump.
    ///
    /// The list precedes the members of the directory, so it names a file that then cannot be read.
    /// That does no harm: an older copy stays, and the catalog records the file as unknown, so that
    /// the next increment tries again. A socket is not named, because no archive has one.
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
                (FileType::Socket, _) | (_, Step::LeftOut) => continue,
                // GNU tar removes a directory whose name is listed as a dumped file.
                (FileType::Directory, _) if self.replacing.contains(&child) => Code::Y,
                (FileType::Directory, _) => Code::D,
                (_, Step::Unchanged) => Code::N,
                (_, Step::Whole | Step::Link) => Code::Y,
            };
            entries.push((code, rows.name(child)));
        }
        if let Some(unread) = self.unread.get(&row) {
            entries.extend(unread.iter().map(|(code, name)| (*code, &name[..])));
            // GNU tar searches the list by bisection.
            entries[from..].sort_unstable_by_key(|&(_, name)| name);
        }
        Some(dumpdir::encode(entries))
    }
}

/// Files with several names, by device and inode number: inode numbers are unique in a file system
/// only, and devices tell the mounted ones apart.
#[derive(Default)]
pub(crate) struct LinkedFiles(HashMap<(Dev, u64), usize>);

impl LinkedFiles {
    /// The first name of the file of a row, if it is another row.
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
