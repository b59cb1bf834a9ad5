//! What is to be written, row by row: everything for a full dump; for an increment, what it finds
//! ([`crate::increment`]).

use std::collections::{HashMap, HashSet};

use gate::heap::large_room;
use ondisk::Dev;
use ondisk::pax::dumpdir::{self, Code};
use walk::Type;

use crate::rows::Rows;

/// What becomes of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A member of its own, with all that it holds. A directory's has a dumpdir, where [`Plan::dumpdir`] gives one.
    Whole,
    /// Another name of the file of this row, which comes earlier as a member of its own, or else is unchanged since the base
    /// and so is there when this archive is restored.
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
    /// The checksums of what is unchanged, as far as they are known; those of what is dumped are added to them.
    pub hashes: Hashes,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Code8 {
    Whole,
    Link,
    Unchanged,
    LeftOut,
}

impl Plan {
    /// Everything: of a file that has several names, the first in the order of the archive is the file, the others are links
    /// to it.
    pub fn full(rows: &Rows) -> Plan {
        let mut plan = Plan { steps: vec![Code8::Whole; rows.len()], ..Plan::default() };
        let mut first: HashMap<(Dev, u64), usize> = HashMap::new();
        for row in 0..rows.len() {
            if rows.is_linked(row) {
                let meta = rows.meta(row);
                // A number is a file's own in its part of the tree only; the device tells parts apart while they are mounted.
                match first.entry((meta.dev, meta.ino)) {
                    std::collections::hash_map::Entry::Vacant(free) => drop(free.insert(row)),
                    std::collections::hash_map::Entry::Occupied(known) => plan.set(row, Step::Link(*known.get())),
                }
            }
        }
        plan
    }

    /// An increment, in which everything is unchanged until [`Plan::set`] says otherwise.
    pub fn increment(rows: usize) -> Plan {
        Plan { steps: vec![Code8::Unchanged; rows], is_increment: true, ..Plan::default() }
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

    /// Directories that are renamed before anything else is restored, in this order: old member names and new ones, without
    /// the slash at the end. They are told in the dumpdir of `carrier`, the first directory of the archive.
    pub fn set_renames(&mut self, carrier: usize, pairs: Vec<Rename>) {
        self.renames = Some((carrier, pairs));
    }

    /// A directory that is dumped has another one in its place, which is to be removed first.
    pub fn set_replacing(&mut self, row: usize) {
        self.replacing.insert(row);
    }

    /// It is not known what is in a directory: nothing may be removed in it, and the catalog must have it as something unknown, so
    /// that the next increment dumps all of it.
    pub fn set_blind(&mut self, row: usize) {
        self.blind.insert(row);
    }

    /// Whether [`Plan::set_blind`] was said of a row.
    pub fn is_blind(&self, row: usize) -> bool {
        self.blind.contains(&row)
    }

    /// There is something in a directory that could not be looked at: what is restored of it may not be removed.
    pub fn add_unseen(&mut self, row: usize, name: &[u8]) {
        self.unseen.entry(row).or_default().push(name.to_vec());
    }

    /// What becomes of a row.
    #[inline]
    pub fn step(&self, row: usize) -> Step {
        match self.steps.get(row) {
            Some(Code8::Whole) => Step::Whole,
            Some(Code8::Link) => self.links.get(&row).map_or(Step::Whole, |to| Step::Link(*to)),
            Some(Code8::Unchanged) => Step::Unchanged,
            Some(Code8::LeftOut) | None => Step::LeftOut,
        }
    }

    /// Rows that are in the base already.
    pub fn unchanged(&self) -> u64 {
        self.steps.iter().filter(|step| **step == Code8::Unchanged).count() as u64
    }

    /// Whether it goes on from a base.
    pub fn is_increment(&self) -> bool {
        self.is_increment
    }

    /// The names that are in a directory now, for a member that is restored over what the base left there: whatever is there
    /// and not named is removed. `None` in a full dump.
    ///
    /// It precedes what is in the directory, so that a file that then cannot be read has been told of as dumped. That does no
    /// harm: an older copy stays, as it does for a name that is told of as unchanged, and the catalog has it as something unknown,
    /// so that the next increment tries again. A socket is not named: nothing that was there in its place may stay.
    pub fn dumpdir(&self, rows: &Rows, row: usize) -> Option<Vec<u8>> {
        if !self.is_increment || self.is_blind(row) {
            return None;
        }
        let mut entries: Vec<(Code, &[u8])> = Vec::new();
        let renames = self.renames.iter().filter(|(carrier, _)| *carrier == row).flat_map(|(_, pairs)| pairs);
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

/// A checksum for each row, where there is one.
#[derive(Clone, Debug, Default)]
pub struct Hashes {
    all: Vec<[u8; 32]>,
    known: Vec<u64>,
}

impl Hashes {
    /// Room for so many rows, none known.
    pub fn new(rows: usize) -> Hashes {
        let mut all = large_room(rows).unwrap_or_default();
        all.resize(rows, [0; 32]);
        Hashes { all, known: vec![0; rows.div_ceil(64)] }
    }

    /// Whether there is no room for any.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Keeps one. Where there is no room, nobody wants them.
    pub fn set(&mut self, row: usize, hash: [u8; 32]) {
        if let (Some(at), Some(known)) = (self.all.get_mut(row), self.known.get_mut(row / 64)) {
            *at = hash;
            *known |= 1 << (row % 64);
        }
    }

    /// The one of a row.
    pub fn get(&self, row: usize) -> Option<[u8; 32]> {
        let is_known = self.known.get(row / 64)? >> (row % 64) & 1 == 1;
        is_known.then(|| self.all.get(row).copied()).flatten()
    }
}
