//! What is to be written, row by row: everything for a full dump; for an increment, what it finds
//! (`crate::increment`).

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use ondisk::Dev;
use ondisk::pax::dumpdir::{self, Code};
use walk::Type;

use crate::rows::Rows;

/// What a name in an archive is, for a path as it was given: no leading slashes, and nothing up to
/// the last `..`, which would lead out of where it is restored. As GNU tar has it; empty for a path
/// that is nothing else.
pub fn member_name(path: &[u8]) -> &[u8] {
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

/// What becomes of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A member of its own, with all that it holds. A directory's has a dumpdir, where
    /// [`Plan::dumpdir`] gives one.
    Whole,
    /// Another name of the file of this row, which comes earlier as a member of its own, or else is
    /// unchanged since the base and so is there when this archive is restored.
    Link(usize),
    /// As it was in the base: not in the archive.
    Unchanged,
    /// Neither in the archive nor in the catalog: the archive itself, say.
    LeftOut,
}

/// The old name of a directory, and the new one.
pub type Rename = (Vec<u8>, Vec<u8>);

/// What is to be written, in the order of the rows.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// A byte a row: there may be many millions.
    steps: Vec<Code8>,
    links: HashMap<usize, usize>,
    /// Whether directories have dumpdirs.
    is_increment: bool,
    /// The row whose dumpdir tells of them, and they: old names and new ones.
    renames: Option<(usize, Vec<Rename>)>,
    replacing: HashSet<usize>,
    blind: HashSet<usize>,
    unseen: HashMap<usize, Vec<Vec<u8>>>,
    /// Entries of the base that are gone.
    pub removed: u64,
    /// Directories that are renamed in place, with all that is in them.
    pub renamed: u64,
    /// The row of the base that each row is kept as, one more than it is; 0 for none. Empty in a
    /// full dump.
    pub kept_as: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Code8 {
    Whole,
    Link,
    Unchanged,
    LeftOut,
}

impl Plan {
    /// About how many bytes of data a row comes to.
    pub(crate) fn weight(&self, rows: &Rows, row: usize) -> u64 {
        if self.step(row) == Step::Whole && rows.kind(row) == Type::File {
            rows.size(row)
        } else {
            0
        }
    }

    /// Everything: of a file that has several names, the first in the order of the archive is the
    /// file, the others are links to it.
    pub fn full(rows: &Rows) -> Plan {
        let mut plan = Plan {
            steps: vec![Code8::Whole; rows.len()],
            ..Plan::default()
        };
        let mut first: HashMap<(Dev, u64), usize> = HashMap::new();
        for row in 0..rows.len() {
            if rows.is_linked(row) {
                let meta = rows.meta(row);
                // A number is a file's own in its part of the tree only; the device tells parts
                // apart while they are mounted.
                match first.entry((meta.dev, meta.ino)) {
                    std::collections::hash_map::Entry::Vacant(free) => drop(free.insert(row)),
                    std::collections::hash_map::Entry::Occupied(known) => {
                        plan.set(row, Step::Link(*known.get()))
                    }
                }
            }
        }
        plan
    }

    /// An increment, in which everything is unchanged until [`Plan::set`] says otherwise.
    pub fn increment(rows: usize) -> Plan {
        Plan {
            steps: vec![Code8::Unchanged; rows],
            is_increment: true,
            ..Plan::default()
        }
    }

    /// Decides on a row.
    pub fn set(&mut self, row: usize, step: Step) {
        let code = match step {
            Step::Whole => Code8::Whole,
            Step::Link(to) => {
                self.links.insert(row, to);
                Code8::Link
            }
            Step::Unchanged => Code8::Unchanged,
            Step::LeftOut => Code8::LeftOut,
        };
        if let Some(at) = self.steps.get_mut(row) {
            *at = code;
        }
    }

    /// Directories that are renamed before anything else is restored, in this order: old member
    /// names and new ones, without the slash at the end. They are told in the dumpdir of `carrier`,
    /// the first directory of the archive.
    pub fn set_renames(&mut self, carrier: usize, pairs: Vec<Rename>) {
        self.renames = Some((carrier, pairs));
    }

    /// A directory that is dumped has another one in its place, which is to be removed first.
    pub fn set_replacing(&mut self, row: usize) {
        self.replacing.insert(row);
    }

    /// It is not known what is in a directory: nothing may be removed in it, and the catalog must
    /// have it as something unknown, so that the next increment dumps all of it.
    pub fn set_blind(&mut self, row: usize) {
        self.blind.insert(row);
    }

    /// Those of some rows of which [`Plan::set_blind`] was said.
    pub fn blind(&self, rows: Range<usize>) -> impl Iterator<Item = usize> {
        self.blind
            .iter()
            .copied()
            .filter(move |row| rows.contains(row))
    }

    /// There is something in a directory that could not be looked at: what is restored of it may
    /// not be removed.
    pub fn add_unseen(&mut self, row: usize, name: &[u8]) {
        self.unseen.entry(row).or_default().push(name.to_vec());
    }

    /// What becomes of a row.
    #[inline]
    pub fn step(&self, row: usize) -> Step {
        match self.steps.get(row) {
            Some(Code8::Whole) => Step::Whole,
            Some(Code8::Link) => self
                .links
                .get(&row)
                .map_or(Step::Whole, |to| Step::Link(*to)),
            Some(Code8::Unchanged) => Step::Unchanged,
            Some(Code8::LeftOut) | None => Step::LeftOut,
        }
    }

    /// The first row from `from` on that something is to be done for.
    #[inline]
    pub fn next_busy(&self, from: usize) -> Option<usize> {
        let is_busy = |step: &Code8| matches!(step, Code8::Whole | Code8::Link);
        Some(from + self.steps.get(from..)?.iter().position(is_busy)?)
    }

    /// The rows that something is to be done for.
    pub fn busy(&self) -> impl Iterator<Item = usize> {
        std::iter::successors(self.next_busy(0), |row| self.next_busy(row + 1))
    }

    /// Rows that are in the base already.
    pub fn unchanged(&self) -> u64 {
        self.steps
            .iter()
            .filter(|step| **step == Code8::Unchanged)
            .count() as u64
    }

    /// Whether it goes on from a base.
    pub fn is_increment(&self) -> bool {
        self.is_increment
    }

    /// The names that are in a directory now, for a member that is restored over what the base left
    /// there: whatever is there and not named is removed. `None` in a full dump.
    ///
    /// It precedes what is in the directory, so that a file that then cannot be read has been told
    /// of as dumped. That does no harm: an older copy stays, as it does for a name that is told of
    /// as unchanged, and the catalog has it as something unknown, so that the next increment tries
    /// again. A socket is not named: nothing that was there in its place may stay.
    pub fn dumpdir(&self, rows: &Rows, row: usize) -> Option<Vec<u8>> {
        if !self.is_increment || self.blind.contains(&row) {
            return None;
        }
        let mut entries: Vec<(Code, &[u8])> = Vec::new();
        let renames = self
            .renames
            .iter()
            .filter(|(carrier, _)| *carrier == row)
            .flat_map(|(_, pairs)| pairs);
        entries.extend(renames.flat_map(|(old, new)| [(Code::R, &old[..]), (Code::T, &new[..])]));
        let from = entries.len();
        for child in rows.children(row) {
            let code = match (rows.kind(child), self.step(child)) {
                // What no archive has is not to be there.
                (Type::Socket, _) | (_, Step::LeftOut) => continue,
                // GNU tar removes a directory that has the name of what is dumped as a file.
                (Type::Directory, _) if self.replacing.contains(&child) => Code::Y,
                (Type::Directory, _) => Code::D,
                (_, Step::Unchanged) => Code::N,
                (_, Step::Whole | Step::Link(_)) => Code::Y,
            };
            entries.push((code, rows.name(child)));
        }
        if let Some(unseen) = self.unseen.get(&row) {
            entries.extend(unseen.iter().map(|name| (Code::N, &name[..])));
            // GNU tar looks names up in here as in an index.
            entries[from..].sort_unstable_by_key(|&(_, name)| name);
        }
        Some(dumpdir::encode(entries))
    }
}
