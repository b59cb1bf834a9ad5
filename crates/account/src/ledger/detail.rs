//! Individually reported calls, by file and by directory.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt};

use super::file::{File, LastDirectory, by_name};
use crate::patterns::Patterns;
use crate::prices::PricedCalls;
use crate::sum::Sum;
use crate::waits::Waits;

/// The calls on a directory and on the files in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory<'a> {
    pub(crate) name: &'a [u8],
    /// The number of different files with calls, including the directory itself.
    pub(crate) files: u64,
    pub(crate) sum: Sum,
    /// Number of calls by system call number. The names of system calls are looked up later, only
    /// for the few directories that are shown.
    gates: Vec<(u16, u64)>,
}

impl Directory<'_> {
    /// The number of calls by the kernel's name of the system call.
    pub(crate) fn gates(&self) -> BTreeMap<&'static str, u64> {
        by_name(self.gates.iter().copied())
    }

    fn add(&mut self, file: &File) {
        self.files += 1;
        self.sum.join(&file.sum);
        for group in file.groups() {
            let mut known = self.gates.iter_mut();
            match known.find(|(number, _)| *number == group.number) {
                Some((_, calls)) => *calls += u64::from(group.calls),
                None => self.gates.push((group.number, group.calls.into())),
            }
        }
    }
}

/// The `most` costliest rows, sorted by time and name. All other rows are dropped before sorting:
/// of tens of thousands of rows, about ten are shown.
pub(crate) fn costliest<T>(
    mut rows: Vec<T>,
    most: usize,
    cost: impl Fn(&T) -> (u64, &[u8]),
) -> Vec<T> {
    let order = |a: &T, b: &T| {
        let ((a_nanos, a_name), (b_nanos, b_name)) = (cost(a), cost(b));
        b_nanos.cmp(&a_nanos).then_with(|| a_name.cmp(b_name))
    };
    if most < rows.len() {
        rows.select_nth_unstable_by(most, order);
        rows.truncate(most);
    }
    rows.sort_unstable_by(order);
    rows
}

/// Sums of the individually reported calls.
#[derive(Debug, Default)]
pub struct Detail {
    /// The files, in the order of their first calls.
    pub(crate) files: Vec<File>,
    /// Calls on further files, for which the table of files had no room.
    pub(crate) unheld: Sum,
    /// Calls on files without a known name, such as pipes and sockets.
    pub(crate) nameless: Sum,
    /// The names of programs, by index.
    pub(crate) programs: Vec<Vec<u8>>,
    /// Calls on files without a name or a row, by program and system call number.
    pub(crate) elsewhere: BTreeMap<(u16, u16, StackDirectory<'static>), u64>,
    /// Waits for other processes. The time of waits is in no other field.
    pub(crate) waits: Waits,
    /// Sums by system call number.
    pub(crate) measured: BTreeMap<u16, UnwaitedCalls>,
    /// All calls, by `PriceKind`, which determines the price of a call.
    pub(crate) work: PricedCalls,
    pub(crate) patterns: Patterns,
    /// Descriptors and threads that could not be tracked.
    pub(crate) forgotten: u64,
}

/// The calls with one system call number that did not wait for other processes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UnwaitedCalls {
    pub(crate) work: PricedCalls,
    /// Bytes read or written, or bytes of directory entries.
    pub(crate) bytes: u64,
    pub(crate) nanos: u64,
}

/// The directory frame of a stack in a flame graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StackDirectory<'a> {
    /// Calls on files in this directory, or on the directory itself.
    Directory(&'a [u8]),
    /// Calls on descriptors without a known name.
    Nameless,
    /// Calls on files for which the table of files had no room.
    Unheld,
    /// Calls that were only counted, not reported individually.
    Unexamined,
}

impl Detail {
    /// The directories, unordered. With a depth, paths are cut to this number of components.
    pub(crate) fn directories(&self, depth: Option<usize>) -> Vec<Directory<'_>> {
        let mut directories: Vec<Directory<'_>> = Vec::new();
        let mut numbers: HashMap<&[u8], usize> = HashMap::new();
        let mut last = LastDirectory::default();
        for file in &self.files {
            let name = depth.map_or(file.dir(), |depth| cut(file.dir(), depth));
            let at = last.get(name, |name| {
                *numbers.entry(name).or_insert_with(|| {
                    directories.push(Directory {
                        name,
                        ..Directory::default()
                    });
                    directories.len() - 1
                })
            });
            directories[at].add(file);
        }
        directories
    }

    /// The `most` costliest files.
    pub(crate) fn costliest(&self, most: usize) -> Vec<&File> {
        let files = self.files.iter().collect();
        costliest(files, most, |file| (file.sum.nanos, &file.name))
    }

    /// The costliest files whose calls succeeded, except directories and files of /proc and the
    /// like: candidates to measure prices with.
    pub(crate) fn samples(&self, most: usize) -> Vec<&File> {
        let special = [&b"/proc/"[..], b"/sys/", b"/dev/"];
        let is_special = |file: &File| special.iter().any(|dir| file.name.starts_with(dir));
        let files = self.files.iter();
        let files: Vec<&File> = files
            .filter(|file| !file.directory && file.sum.errors == 0)
            .collect();
        // The names of files are no longer in the processor's caches, so checking all of them is
        // slow: check the costliest few files first.
        for candidates in [4 * most, files.len()] {
            let found = costliest(files.clone(), candidates, |file| {
                (file.sum.nanos, &file.name)
            });
            let found = found.into_iter().filter(|file| !is_special(file));
            let found: Vec<&File> = found.take(most).collect();
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }
}

/// The first `depth` components of an absolute path.
pub(super) fn cut(name: &[u8], depth: usize) -> &[u8] {
    let mut slashes = (0..name.len()).filter(|&at| name[at] == b'/');
    match slashes.nth(depth) {
        Some(0) => b"/",
        Some(at) => &name[..at],
        None => name,
    }
}
