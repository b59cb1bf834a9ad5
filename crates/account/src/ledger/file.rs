//! Calls by file. The memory for names is bounded.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;

use base::path::parent;
use foldhash::{HashMap, HashMapExt};
use meter::call::Call;
use meter::names::Name;
use meter::syscalls;

use crate::prices::{Sort, Work};
use crate::sum::Sum;

/// Names that are held.
pub(crate) const MOST_FILES: usize = 49_152;
/// Bytes of names that are held.
pub(super) const MOST_NAMES: usize = 6 << 20;

/// Calls of one kind by one program on one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallGroup {
    pub(super) number: u16,
    program: u16,
    sort: Sort,
    pub(super) calls: u32,
    parts: u32,
    /// Time in them; at most 4.3 s are counted.
    nanos: u32,
}

/// The calls on one file.
#[derive(Clone, Debug)]
pub struct File {
    /// Its absolute name, as the process has it.
    pub(crate) name: Name,
    pub(crate) sum: Sum,
    /// It is known to be a directory.
    pub(super) directory: bool,
    /// The calls, of which those of most files are alike: one group takes no further allocation.
    first: Option<CallGroup>,
    others: Vec<CallGroup>,
}

impl File {
    fn new(name: &Name) -> File {
        File {
            name: Name::clone(name),
            sum: Sum::default(),
            directory: false,
            first: None,
            others: Vec::new(),
        }
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = &CallGroup> {
        self.first.iter().chain(&self.others)
    }

    fn groups_mut(&mut self) -> impl Iterator<Item = &mut CallGroup> {
        self.first.iter_mut().chain(&mut self.others)
    }

    /// Its calls by the kernel's names.
    pub(crate) fn gates(&self) -> BTreeMap<&'static str, u64> {
        let groups = self.groups();
        by_name(groups.map(|group| (group.number, group.calls.into())))
    }

    /// The calls by program and number, in no order; a pair may occur several times.
    pub(crate) fn by_program(&self) -> impl Iterator<Item = ((u16, u16), u64)> {
        let groups = self.groups();
        groups.map(|group| ((group.program, group.number), group.calls.into()))
    }

    /// Replaces measured times by these prices of calls, by number.
    pub(crate) fn estimate(&mut self, prices: &BTreeMap<u32, f64>) {
        let mut nanos = self.sum.nanos;
        for group in self.groups_mut() {
            if let Some(price) = prices.get(&group.number.into()).filter(|_| group.nanos > 0) {
                let before = u64::from(group.nanos);
                group.nanos = (f64::from(group.calls) * price).round() as u32;
                nanos = nanos.saturating_sub(before) + u64::from(group.nanos);
            }
        }
        self.sum.nanos = nanos;
    }

    pub(super) fn add(&mut self, call: &Call<'_>, program: u16, sort: Sort, parts: u32) {
        self.sum.add(call);
        let nanos = u32::try_from(call.nanos).unwrap_or(u32::MAX);
        let is_same = |group: &&mut CallGroup| {
            u32::from(group.number) == call.number && group.sort == sort && group.program == program
        };
        if let Some(group) = self.groups_mut().find(is_same) {
            group.calls = group.calls.saturating_add(1);
            group.parts = group.parts.saturating_add(parts);
            group.nanos = group.nanos.saturating_add(nanos);
            return;
        }
        let group = CallGroup {
            number: call.number as u16,
            program,
            sort,
            calls: 1,
            parts,
            nanos,
        };
        match self.first {
            None => self.first = Some(group),
            Some(_) => self.others.push(group),
        }
    }

    /// The calls that ask for its metadata, of a directory also its opening and closing; and the
    /// time in them, in nanoseconds.
    pub(crate) fn asking(&self) -> (Work, u64) {
        let mut work = Work::default();
        let mut nanos = 0;
        for group in self.groups() {
            let asks = match group.sort {
                Sort::Stat | Sort::OpenStat | Sort::List | Sort::Xattr | Sort::OpenXattr => true,
                Sort::Open | Sort::Close => self.directory,
                _ => false,
            };
            if asks {
                work.add(group.sort, group.calls.into(), group.parts.into());
                nanos += u64::from(group.nanos);
            }
        }
        (work, nanos)
    }

    /// The directory that its calls are counted for: itself, if it is one; else its parent.
    pub(crate) fn dir(&self) -> &[u8] {
        if self.directory {
            &self.name
        } else {
            parent(&self.name)
        }
    }
}

/// Calls by number, by the kernel's names.
pub(super) fn by_name(calls: impl Iterator<Item = (u16, u64)>) -> BTreeMap<&'static str, u64> {
    let mut gates = BTreeMap::new();
    for (number, calls) in calls {
        if let Some(syscall) = syscalls::by_number(number.into()) {
            *gates.entry(syscall.name).or_default() += calls;
        }
    }
    gates
}

/// The names that are held, and their rows.
#[derive(Debug)]
pub(super) struct Files {
    index: HashMap<Name, u32>,
    pub(super) rows: Vec<File>,
    bytes: usize,
}

impl Files {
    /// Room for all names: growth hashes and copies them again. Memory that is not used stays
    /// unallocated.
    pub(super) fn new() -> Files {
        Files {
            index: HashMap::with_capacity(MOST_FILES),
            rows: Vec::with_capacity(MOST_FILES),
            bytes: 0,
        }
    }

    pub(super) fn find(&self, name: &[u8]) -> Option<u32> {
        self.index.get(name).copied()
    }

    /// The number of a name; `None` when there is no room for it.
    pub(super) fn enter(&mut self, name: &Name) -> Option<u32> {
        let place = match self.index.entry(Name::clone(name)) {
            Entry::Occupied(known) => return Some(*known.get()),
            Entry::Vacant(place) => place,
        };
        if self.rows.len() >= MOST_FILES || self.bytes + name.len() > MOST_NAMES {
            return None;
        }
        let at = u32::try_from(self.rows.len()).ok()?;
        self.bytes += name.len();
        place.insert(at);
        self.rows.push(File::new(name));
        Some(at)
    }
}

/// What was found for the directory before: files of one directory mostly follow one another.
#[derive(Debug)]
pub(crate) struct LastDirectory<'a, T>(Option<(&'a [u8], T)>);

impl<T> Default for LastDirectory<'_, T> {
    fn default() -> Self {
        LastDirectory(None)
    }
}

impl<'a, T: Copy> LastDirectory<'a, T> {
    /// What is found for a directory; `find` is called if it is not the one before.
    pub(crate) fn get(&mut self, dir: &'a [u8], find: impl FnOnce(&'a [u8]) -> T) -> T {
        match self.0 {
            Some((last, found)) if last == dir => found,
            _ => {
                let found = find(dir);
                self.0 = Some((dir, found));
                found
            }
        }
    }
}
