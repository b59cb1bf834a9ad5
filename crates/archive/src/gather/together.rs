//! Collects a tree by all ranks of an MPI job: each rank gets the entries that it dumps.
//!
//! ```text
//! walk of all ranks ──► entries that this rank has found ─┬─► rows
//!                   └─► names of files with several names ─► the rank that dumps the file ─┘
//! ```
//!
//! A file with several hard links is dumped with all its names by one rank, chosen by inode number,
//! so no archive links to a file in a different one. Each rank also has the directories above its
//! entries, because an archive that creates an entry also sets the attributes of its directory.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use base::Warning;
use base::path::or_dot;
use catalog::part::relative;
use catalog::rows::{Collector, Rows, Source};
use gate::attribution::{self, Function};
use gate::fs::{Open, Resolve, fstat};
use gate::long::{lstat_long, open_long, openat2_long};
use gate::sync::Mutex;
use gate::{Errno, Gate};
use mounts::ErrorKind;
use serde::{Deserialize, Serialize};
use team::{Team, share};
use walk::entry::joined;
use walk::{
    Diagnostics, Dir, DirKey, EngineKind, Entry, Error, Meta, MountContext, Shard, Sink,
    WalkOptions, Worker, digest, walk_together,
};

use super::{CollectOptions, Gather, Gathered, engines, gathered, source, walk_options};
use crate::warning::WarningKind;

/// The rows that a rank dumps.
pub(crate) struct RankRows {
    pub(crate) rows: Rows,
    pub(crate) parts: Vec<Gathered>,
    /// The piece of each row; [`OF_OTHERS`] for a directory that another rank has found: the
    /// directory goes into the archive, but not into the catalog.
    pub(crate) piece_of: Vec<u32>,
}

/// The piece number of rows that belong to other ranks.
pub(crate) const OF_OTHERS: u32 = u32::MAX;

/// Collects a tree together with all ranks, and divides its rows into pieces. Each SRC must be a
/// directory on all ranks.
///
/// # Errors
/// Those of [`walk_together`]; a rank does not see the same mounts as the others.
pub(crate) fn collect_together(
    options: &CollectOptions,
    pieces: u32,
    team: &dyn Team,
    diagnostics: &Diagnostics,
) -> Result<RankRows, Error> {
    attribution::set_phase(Function::Information);
    let roots = &options.sources;
    let walk_options = WalkOptions {
        dirs: roots.clone(),
        // Other methods would give all entries to one rank, so that the other ranks would dump
        // nothing.
        preferred: options.gather.unwrap_or(Gather::Combined).engines(),
        sink_syncs_first: options.for_catalog.is_some(),
        ..walk_options(options)
    };
    let sources = roots.iter().map(|path| source(path, true)).collect();
    let numbers = (0..roots.len() as u32).collect();
    let collector = Collector::new(sources, numbers, options.for_catalog, diagnostics);
    let sorter = Sorter {
        to: &collector,
        rank: team.rank(),
        ranks: team.size(),
        root: AtomicUsize::new(0),
        found: Mutex::default(),
    };
    let report = walk_together(&walk_options, &sorter, diagnostics, team)?;
    let mounts: Vec<Vec<u8>> = report.parts.iter().map(|part| part.path.clone()).collect();
    let all = share(team, mounts.clone());
    if let Some(other) = all.iter().find(|other| **other != all[0]) {
        let is_other = mounts != all[0];
        let missed = all[0].iter().find(|path| !other.contains(path));
        return Err(match missed.filter(|_| is_other) {
            Some(path) => Error::OtherDirectory(path.clone()),
            None => Error::OtherRank,
        });
    }
    let found = sorter.found.into_inner();
    let mut adder = Adder {
        worker: collector.worker(),
        diagnostics,
        sources: collector.sources(),
        roots,
        known: found.known,
        places: found.places,
        borrowed: HashSet::new(),
    };
    exchange(found.linked, team, &mut adder);
    let borrowed = adder.add_directories();
    let parts: Vec<Gathered> = gathered(report, options.gather).collect();
    let rows = collector.finish(engines(&parts));
    attribution::set_phase(Function::Other);
    Ok(RankRows {
        piece_of: deal_out(&rows, &borrowed, team.size(), pieces),
        rows,
        parts,
    })
}

/// One name of a file with several hard links.
#[derive(Serialize, Deserialize)]
struct LinkedName {
    ino: u64,
    place: SourceDirectory,
    name: Vec<u8>,
}

/// A directory, by the index of its SRC and its path.
#[derive(Clone, Serialize, Deserialize)]
struct SourceDirectory {
    root: usize,
    path: Vec<u8>,
}

/// The entries that a rank has found.
#[derive(Default)]
struct FoundByRank {
    /// Names of hard-linked files that other ranks dump.
    linked: Vec<LinkedName>,
    /// Directories that this rank itself has found.
    known: HashSet<DirKey>,
    /// The directories in which this rank has entries.
    places: HashMap<DirKey, SourceDirectory>,
}

impl FoundByRank {
    fn add(&mut self, other: FoundByRank) {
        self.linked.extend(other.linked);
        self.known.extend(other.known);
        self.places.extend(other.places);
    }
}

/// The rank that dumps a hard-linked file, and the hash that selects its piece. Uses the inode
/// number alone, because device numbers differ between hosts.
fn deal_linked(ino: u64, ranks: usize) -> (usize, u64) {
    let hash = digest::below(ino, b"");
    ((hash % ranks as u64) as usize, hash / ranks as u64)
}

fn dumped_by(ino: u64, ranks: usize) -> usize {
    deal_linked(ino, ranks).0
}

/// A sink that passes on the entries that this rank dumps, and keeps the names of hard-linked files
/// that other ranks dump.
struct Sorter<'a> {
    to: &'a Collector<'a>,
    rank: usize,
    ranks: usize,
    /// Index of the SRC being walked.
    root: AtomicUsize,
    found: Mutex<FoundByRank>,
}

impl Sink for Sorter<'_> {
    fn begin(&self, mount: &MountContext<'_>, by: EngineKind) {
        if mount.top.key.depth == 0 {
            self.root.store(mount.top.key.hash as usize, Relaxed);
        }
        self.to.begin(mount, by);
    }

    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(SorterWorker {
            to: self,
            worker: self.to.worker(),
            found: FoundByRank::default(),
        })
    }

    fn is_closed(&self) -> bool {
        self.to.is_closed()
    }
}

struct SorterWorker<'a> {
    to: &'a Sorter<'a>,
    worker: Box<dyn Worker + 'a>,
    found: FoundByRank,
}

impl Worker for SorterWorker<'_> {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        let place = || SourceDirectory {
            root: self.to.root.load(Relaxed),
            path: dir.path.to_vec(),
        };
        let mut own = Vec::with_capacity(entries.len());
        for entry in entries {
            let Meta { ino, nlink, .. } = entry.meta;
            let is_dir = entry.meta.is_dir();
            if nlink > 1 && !is_dir && dumped_by(ino, self.to.ranks) != self.to.rank {
                self.found.linked.push(LinkedName {
                    ino,
                    place: place(),
                    name: entry.name.to_vec(),
                });
                continue;
            }
            if is_dir {
                self.found.known.insert(dir.key.at(entry.name));
            }
            own.push(*entry);
        }
        if own.iter().any(|entry| !entry.name.is_empty()) {
            self.found.places.entry(dir.key).or_insert_with(place);
        }
        if !own.is_empty() {
            self.worker.take(dir, &own);
        }
    }
}

impl Drop for SorterWorker<'_> {
    fn drop(&mut self) {
        self.to.found.lock().add(std::mem::take(&mut self.found));
    }
}

/// Sends the names of hard-linked files to all ranks, in rounds. Each rank adds the names of the
/// files that it dumps.
fn exchange(linked: Vec<LinkedName>, team: &dyn Team, adder: &mut Adder<'_>) {
    /// Approximate bytes per round, over all ranks.
    const ROUND: usize = 16 << 20;
    let most = (ROUND / team.size()).max(4 << 10);
    let mut left = linked.into_iter().peekable();
    loop {
        let (mut piece, mut bytes) = (Vec::new(), 0);
        while bytes < most
            && let Some(name) = left.next()
        {
            bytes += name.place.path.len() + name.name.len() + 32;
            piece.push(name);
        }
        let all = share(team, piece);
        if all.iter().all(Vec::is_empty) {
            return;
        }
        for name in all.iter().flatten() {
            if dumped_by(name.ino, team.size()) == team.rank() {
                adder.add_linked(name);
            }
        }
    }
}

/// Adds entries found by other ranks.
struct Adder<'a> {
    worker: Box<dyn Worker + 'a>,
    diagnostics: &'a Diagnostics,
    sources: &'a [Source],
    roots: &'a [Vec<u8>],
    known: HashSet<DirKey>,
    places: HashMap<DirKey, SourceDirectory>,
    /// Directories that other ranks dump, added here only because they are above an entry, or are a
    /// SRC.
    borrowed: HashSet<DirKey>,
}

impl Adder<'_> {
    fn add_linked(&mut self, linked: &LinkedName) {
        let LinkedName { place, name, .. } = linked;
        let below = relative(&self.roots[place.root], &place.path);
        let key = DirKey::top(place.root).at(below);
        self.add(place.root, &place.path, key, name);
        self.places.entry(key).or_insert_with(|| place.clone());
    }

    /// Adds the directories above all entries, and each SRC, so that no archive is empty. Returns
    /// the directories added.
    fn add_directories(mut self) -> HashSet<DirKey> {
        for (nth, root) in self.roots.iter().enumerate() {
            let key = DirKey::top(nth);
            if self.known.insert(key) {
                self.borrowed.insert(key);
                self.add(nth, root, key, b"");
            }
        }
        for place in std::mem::take(&mut self.places).into_values() {
            let root = &self.roots[place.root];
            let (mut path, mut key) = (root.clone(), DirKey::top(place.root));
            let names = relative(root, &place.path).split(|&byte| byte == b'/');
            for name in names.filter(|name| !name.is_empty()) {
                let below = key.below(name);
                if self.known.insert(below) {
                    self.borrowed.insert(below);
                    self.add(place.root, &path, key, name);
                }
                (path, key) = (joined(&path, name), below);
            }
        }
        self.borrowed
    }

    /// Adds an entry of a directory, with its metadata on this host. No symlink below the SRC is
    /// followed.
    fn add(&mut self, root: usize, path: &[u8], key: DirKey, name: &[u8]) {
        let whole = joined(path, name);
        let meta = match stat_in(&self.sources[root], relative(&self.roots[root], &whole)) {
            Ok(meta) => meta,
            Err(errno) => {
                let path = whole;
                let kind = WarningKind::not_opened(errno, &path, walk::FileType::Regular);
                let warning = Warning::failed(&path, Gate::Statx, errno, kind);
                return self.diagnostics.warn(warning);
            }
        };
        let dir = Dir { path, key };
        self.worker.take(&dir, &[Entry { name, meta }]);
    }
}

/// The metadata of an entry of a SRC, which is still open from the walk, or of the SRC itself.
fn stat_in(source: &Source, below: &[u8]) -> std::result::Result<Meta, Errno> {
    let reopened;
    let top = match source.open.get() {
        Some(open) => &**open,
        None => {
            reopened = open_long(or_dot(&source.path), Open::PATH | Open::DIRECTORY)?;
            &reopened
        }
    };
    let how = Open::PATH | Open::NOFOLLOW;
    let file;
    let found = match below {
        b"" => top,
        below => {
            file = openat2_long(top.as_fd(), below, how, Resolve::NO_SYMLINKS)?;
            &file
        }
    };
    fstat(found, Meta::WANT).map(|seen| Meta::from_statx(&seen))
}

/// The piece of each row: for a hard-linked file by inode number, for any other entry as in a
/// [`Shard`]. So it depends only on the tree.
fn deal_out(rows: &Rows, borrowed: &HashSet<DirKey>, ranks: usize, pieces: u32) -> Vec<u32> {
    /// A directory above a row.
    struct PieceAncestor {
        /// End of the row range of the directory's subtree.
        end: usize,
        key: DirKey,
        /// The piece of the files in this directory is this hash modulo the number of pieces.
        chooses: u64,
    }
    let mut above: Vec<PieceAncestor> = Vec::new();
    let piece = |row| {
        while above.last().is_some_and(|dir| dir.end <= row) {
            above.pop();
        }
        let is_dir = rows.is_dir(row);
        let (key, chooses) = match above.last() {
            None => {
                let top = DirKey::top(rows.top(row));
                (top, top.hash)
            }
            Some(dir) if is_dir || dir.key.depth < Shard::DEPTH => {
                let key = dir.key.below(rows.name(row));
                let is_dealt = dir.key.depth < Shard::DEPTH;
                (key, if is_dealt { key.hash } else { dir.chooses })
            }
            Some(dir) => (dir.key, dir.chooses),
        };
        if is_dir {
            let end = rows.end(row);
            above.push(PieceAncestor { end, key, chooses });
            if borrowed.contains(&key) {
                return OF_OTHERS;
            }
        }
        let chooses = match rows.is_linked(row) {
            true => deal_linked(rows.ino(row), ranks).1,
            false => chooses,
        };
        (chooses % u64::from(pieces)) as u32
    };
    (0..rows.len()).map(piece).collect()
}

pub(crate) fn check_directories(sources: &[Vec<u8>]) -> Result<(), Error> {
    for path in sources {
        let seen = lstat_long(path, Meta::WANT);
        let seen = seen.and_then(|seen| match Meta::from_statx(&seen).is_dir() {
            true => Ok(()),
            false => Err(Errno::ENOTDIR),
        });
        seen.map_err(|e| mounts::Error::at(ErrorKind::OpenDirectory, path, Gate::Openat, e))?;
    }
    Ok(())
}
