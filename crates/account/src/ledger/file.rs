//! Calls by file. The memory for file names is bounded.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;

use base::path::parent;
use foldhash::{HashMap, HashMapExt};
use meter::call::Call;
use meter::names::Name;
use meter::syscalls::{self, Kind};

use crate::prices::{PriceKind, PricedCalls};
use crate::sum::Sum;

/// The maximum number of file names.
pub(crate) const MOST_FILES: usize = 49_152;
/// The maximum total size of file names in bytes.
pub(super) const MOST_NAMES: usize = 6 << 20;

/// The calls with one system call number, by one program, on one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallGroup {
    pub(super) number: u16,
    program: u16,
    sort: PriceKind,
    pub(super) calls: u32,
    parts: u32,
    /// Nanoseconds in the calls; saturates at 4.3 s.
    nanos: u32,
}

impl CallGroup {
    /// The nanoseconds of the calls at their price, or as measured if they have no price. Prices
    /// are given by system call number.
    fn estimated_nanos(&self, prices: &BTreeMap<u32, f64>) -> u32 {
        match prices.get(&self.number.into()) {
            Some(price) if self.nanos > 0 => (f64::from(self.calls) * price).round() as u32,
            _ => self.nanos,
        }
    }
}

/// The calls on one file.
#[derive(Clone, Debug)]
pub struct File {
    /// The absolute name of the file, as seen by the process.
    pub(crate) name: Name,
    pub(crate) sum: Sum,
    /// The file is known to be a directory.
    pub(super) directory: bool,
    /// The first group of calls. Most files have only one group, which needs no allocation here.
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

    /// The number of calls by the kernel's name of the system call.
    pub(crate) fn gates(&self) -> BTreeMap<&'static str, u64> {
        let groups = self.groups();
        by_name(groups.map(|group| (group.number, group.calls.into())))
    }

    /// Whether the file is a directory that was listed.
    pub(crate) fn is_listed(&self) -> bool {
        let mut calls = self.groups().map(|group| group.number.into());
        calls.any(|number| syscalls::by_number(number).is_some_and(|it| it.kind == Kind::List))
    }

    /// The calls by program and system call number, unordered; a pair may occur several times.
    pub(crate) fn by_program(&self) -> impl Iterator<Item = ((u16, u16), u64)> {
        let groups = self.groups();
        groups.map(|group| ((group.program, group.number), group.calls.into()))
    }

    /// The nanoseconds of all calls, with prices as in [`File::estimate`].
    pub(super) fn estimated_nanos(&self, prices: &BTreeMap<u32, f64>) -> u64 {
        self.groups().fold(self.sum.nanos, |nanos, group| {
            let estimated = group.estimated_nanos(prices);
            nanos.saturating_sub(group.nanos.into()) + u64::from(estimated)
        })
    }

    /// Replaces measured times by prices, which are given by system call number.
    pub(crate) fn estimate(&mut self, prices: &BTreeMap<u32, f64>) {
        self.sum.nanos = self.estimated_nanos(prices);
        for group in self.groups_mut() {
            group.nanos = group.estimated_nanos(prices);
        }
    }

    pub(super) fn add(&mut self, call: &Call<'_>, program: u16, sort: PriceKind, parts: u32) {
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

    /// The calls for the file's metadata, and their time in nanoseconds. For a directory, open and
    /// close are included.
    pub(crate) fn metadata_work(&self) -> (PricedCalls, u64) {
        let mut work = PricedCalls::default();
        let mut nanos = 0;
        for group in self.groups() {
            let asks = match group.sort {
                PriceKind::Stat
                | PriceKind::OpenStat
                | PriceKind::List
                | PriceKind::Xattr
                | PriceKind::OpenXattr => true,
                PriceKind::Open | PriceKind::Close => self.directory,
                _ => false,
            };
            if asks {
                work.add(group.sort, group.calls.into(), group.parts.into());
                nanos += u64::from(group.nanos);
            }
        }
        (work, nanos)
    }

    /// The directory for which the file's calls count: the file itself if it is a directory, else
    /// its parent.
    pub(crate) fn dir(&self) -> &[u8] {
        if self.directory {
            &self.name
        } else {
            parent(&self.name)
        }
    }
}

/// Converts counts by system call number to counts by name.
pub(super) fn by_name(calls: impl Iterator<Item = (u16, u64)>) -> BTreeMap<&'static str, u64> {
    let mut gates = BTreeMap::new();
    for (number, calls) in calls {
        if let Some(syscall) = syscalls::by_number(number.into()) {
            *gates.entry(syscall.name).or_default() += calls;
        }
    }
    gates
}

/// The file names, and their rows.
#[derive(Debug)]
pub(super) struct FileTable {
    index: HashMap<Name, u32>,
    pub(super) rows: Vec<File>,
    bytes: usize,
}

impl FileTable {
    /// Reserves room for all names, since growing would rehash and copy them. Untouched memory
    /// takes no pages.
    pub(super) fn new() -> FileTable {
        FileTable {
            index: HashMap::with_capacity(MOST_FILES),
            rows: Vec::with_capacity(MOST_FILES),
            bytes: 0,
        }
    }

    pub(super) fn find(&self, name: &[u8]) -> Option<u32> {
        self.index.get(name).copied()
    }

    /// The index of a file name, which is added if it is new; `None` if there is no room for it.
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

/// Caches the value for the last directory: files of one directory mostly come consecutively.
#[derive(Debug)]
pub(crate) struct LastDirectory<'a, T>(Option<(&'a [u8], T)>);

impl<T> Default for LastDirectory<'_, T> {
    fn default() -> Self {
        LastDirectory(None)
    }
}

impl<'a, T: Copy> LastDirectory<'a, T> {
    /// The value for a directory; calls `find` if `dir` is not the last one.
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
