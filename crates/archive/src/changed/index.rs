//! What the catalog says of each entry, small enough for all of them: 41 bytes for each, names left in the file.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use gate::heap::large_room;
use walk::entry::{Time, Type};
use walk::moment::may_be_since;
use walk::{Meta, digest};
use xxhash_rust::xxh3::xxh3_64;

use crate::catalog::{Fault, Reader};

/// Who a file is, whatever its names: an inode number means one file as long as its generation, or the time at which it was
/// made, is the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    /// Number of the part, by the catalog; `NO_PART` for what the catalog does not have.
    pub(crate) part: u32,
    pub(crate) ino: u64,
    /// 0 where it is not known.
    pub(crate) generation: u32,
    /// Of the time at which it was made.
    pub(crate) birth: u32,
}

/// The part of what is in no part of the catalog.
pub(crate) const NO_PART: u32 = u32::MAX >> 2;

impl Identity {
    pub(crate) fn of(part: u32, meta: &Meta) -> Identity {
        Identity { part, ino: meta.ino, generation: meta.generation.unwrap_or(0), birth: birth(meta.btime) }
    }

    /// What is the same for the same file, and nearly always another for another.
    pub(crate) fn key(&self) -> (u32, u64) {
        (self.part, self.ino)
    }

    /// Whether both are the same file. A generation counts where both are known.
    pub(crate) fn is(&self, other: &Identity) -> bool {
        let is_generation = self.generation == other.generation || self.generation == 0 || other.generation == 0;
        self.may_be(other) && is_generation
    }

    /// Whether both are the same file, as far as every way of gathering can tell: none but those below the file API know generations.
    pub(crate) fn may_be(&self, other: &Identity) -> bool {
        (self.part, self.ino, self.birth) == (other.part, other.ino, other.birth)
    }
}

fn birth(btime: Option<Time>) -> u32 {
    let bytes = |t: Time| u128::from(t.sec.cast_unsigned()) | u128::from(t.nsec) << u64::BITS;
    btime.map_or(0, |t| xxh3_64(&bytes(t).to_le_bytes()) as u32 | 1)
}

/// What must be the same for an entry to be unchanged, besides its identity. The times are compared, never put in order.
pub(crate) fn print(meta: &Meta) -> u64 {
    let mut bytes = [0; 40];
    let words = [
        u64::from(meta.mode) << 32 | u64::from(meta.mtime.nsec),
        u64::from(meta.ctime.nsec),
        meta.mtime.sec.cast_unsigned(),
        meta.ctime.sec.cast_unsigned(),
        meta.size,
    ];
    for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
    xxh3_64(&bytes)
}

/// A row of the catalog.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Old {
    /// What stands for its path.
    pub(crate) path: u64,
    print: u64,
    ino: u64,
    generation: u32,
    birth: u32,
    /// The part's number, and two bits.
    part: u32,
}

const DIRECTORY: u32 = 1 << 31;
const RACY: u32 = 1 << 30;

impl Old {
    pub(crate) fn new(path: u64, identity: &Identity, print: u64, is_dir: bool, may_be_since: bool) -> Old {
        let bit = |is: bool, bit: u32| if is { bit } else { 0 };
        let part = identity.part.min(NO_PART) | bit(is_dir, DIRECTORY) | bit(may_be_since, RACY);
        let &Identity { ino, generation, birth, .. } = identity;
        Old { path, print, ino, generation, birth, part }
    }

    pub(crate) fn identity(&self) -> Identity {
        let &Old { ino, generation, birth, .. } = self;
        Identity { part: self.part & !(DIRECTORY | RACY), ino, generation, birth }
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.part & DIRECTORY != 0
    }

    /// Whether a file that is the same, and looks so, is unchanged for certain.
    pub(crate) fn is_unchanged(&self, print: u64) -> bool {
        self.print == print && self.part & RACY == 0
    }
}

/// What has been found of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Fate {
    /// Nothing.
    Missing = 0,
    /// There is something else at its path, or it is there and has changed.
    Doubtful = 1,
    /// It is there, or has moved.
    Found = 2,
}

/// Every row of a catalog, by path.
pub(crate) struct Index {
    rows: Vec<Old>,
    fates: Vec<AtomicU8>,
    /// Places in `rows`, one more than they are; 0 is free.
    slots: Vec<u32>,
    /// Places in the catalog, if not all of it was loaded; else empty.
    places: Vec<u32>,
    /// How many of them are in a directory, by what stands for its path.
    children: HashMap<u64, u32>,
}

impl Index {
    /// Of rows, and of how many are in each directory.
    pub(crate) fn new(rows: Vec<Old>, children: HashMap<u64, u32>) -> Index {
        let many = (rows.len() * 2).next_power_of_two().max(2);
        let mut slots = large_room(many).unwrap_or_default();
        slots.resize(many, 0u32);
        let mask = slots.len() - 1;
        for (at, row) in rows.iter().enumerate() {
            let mut slot = row.path as usize & mask;
            while slots[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            slots[slot] = at as u32 + 1;
        }
        let fates = rows.iter().map(|_| AtomicU8::new(Fate::Missing as u8)).collect();
        Index { rows, fates, slots, places: Vec::new(), children }
    }

    /// Loads a catalog.
    pub(crate) fn load(reader: &Reader) -> Result<Index, Fault> {
        let firsts: Vec<usize> = (0..reader.groups())
            .scan(0, |next, group| Some(std::mem::replace(next, *next + reader.rows(group))))
            .collect();
        let entries = reader.about().entries as usize;
        let mut rows = large_room(entries).unwrap_or_default();
        rows.resize(entries, Old::default());
        let mut children: HashMap<u64, u32> = HashMap::new();
        let read = |group: usize| {
            let (mut rows, mut children) = (Vec::new(), HashMap::new());
            load(reader, group, 0..reader.rows(group), &mut rows, &mut children)?;
            Ok((rows, children))
        };
        each_group(reader, read, |group, (some, inside)| {
            if let Some(to) = rows.get_mut(firsts[group]..).and_then(|rest| rest.get_mut(..some.len())) {
                to.copy_from_slice(&some);
            }
            inside.into_iter().for_each(|(dir, n)| *children.entry(dir).or_default() += n);
        })?;
        Ok(Index::new(rows, children))
    }

    /// Loads some rows of a catalog, by their places, which rise. Row groups that none of them is in are not read.
    pub(crate) fn load_some(reader: &Reader, places: Vec<u32>) -> Result<Index, Fault> {
        let (mut rows, mut children) = (Vec::new(), HashMap::new());
        for (group, first, here) in by_group(reader, &places) {
            let here = here.iter().map(|&place| (u64::from(place) - first) as usize);
            load(reader, group, here, &mut rows, &mut children)?;
        }
        Ok(Index { places, ..Index::new(rows, children) })
    }

    /// The place of a row in the catalog.
    pub(crate) fn place(&self, row: u32) -> u32 {
        self.places.get(row as usize).copied().unwrap_or(row)
    }

    /// Every row, by its number: its place in the catalog, if all of it was loaded.
    pub(crate) fn rows(&self) -> &[Old] {
        &self.rows
    }

    /// How many rows are in the directory that had a path.
    pub(crate) fn children(&self, path: u64) -> u32 {
        self.children.get(&path).copied().unwrap_or(0)
    }

    /// The row with a path, which is most likely this one.
    pub(crate) fn find_near(&self, path: u64, likely: u32) -> Option<u32> {
        match self.rows.get(likely as usize) {
            Some(row) if row.path == path => Some(likely),
            _ => self.find(path),
        }
    }

    /// The row with a path.
    pub(crate) fn find(&self, path: u64) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut slot = path as usize & mask;
        loop {
            let row = self.slots[slot].checked_sub(1)?;
            if self.rows[row as usize].path == path {
                return Some(row);
            }
            slot = (slot + 1) & mask;
        }
    }

    pub(crate) fn fate(&self, row: u32) -> Fate {
        match self.fates[row as usize].load(Ordering::Relaxed) {
            0 => Fate::Missing,
            1 => Fate::Doubtful,
            _ => Fate::Found,
        }
    }

    /// Something has been found of a row; what is better than that stays.
    pub(crate) fn settle(&self, row: u32, fate: Fate) {
        self.fates[row as usize].fetch_max(fate as u8, Ordering::Relaxed);
    }
}

/// Loads rows of a row group, by their places in it.
fn load(
    reader: &Reader,
    group: usize,
    wanted: impl ExactSizeIterator<Item = usize>,
    into: &mut Vec<Old>,
    children: &mut HashMap<u64, u32>,
) -> Result<(), Fault> {
    let at_rest_before = reader.about().at_rest_before();
    let (dirs, names) = (reader.names(group, "dir")?, reader.names(group, "name")?);
    let (parts, inos) = (reader.numbers32(group, "part")?, reader.numbers64(group, "ino")?);
    let (modes, sizes) = (reader.numbers32(group, "mode")?, reader.numbers64(group, "size")?);
    let generations = reader.maybe32(group, "generation")?;
    let (mtimes, mtimes_ns) = (reader.numbers64(group, "mtime")?, reader.numbers32(group, "mtime_ns")?);
    let (ctimes, ctimes_ns) = (reader.numbers64(group, "ctime")?, reader.numbers32(group, "ctime_ns")?);
    let (btimes, btimes_ns) = (reader.maybe64(group, "btime")?, reader.maybe32(group, "btime_ns")?);
    let tops = reader.numbers32(group, "top")?;
    let time = |sec: u64, nsec: u32| Time { sec: sec.cast_signed(), nsec };
    let mut dir: (u32, &[u8], u64) = (0, b"", digest::top(0));
    let mut inside = 0;
    into.reserve(wanted.len());
    for row in wanted {
        if (dir.0, dir.1) != (tops[row], &dirs[row]) {
            *children.entry(dir.2).or_default() += std::mem::take(&mut inside);
            dir = (tops[row], &dirs[row], hash(tops[row], &dirs[row]));
        }
        let name = &names[row];
        let meta = Meta {
            ino: inos[row],
            mode: modes[row],
            size: sizes[row],
            mtime: time(mtimes[row], mtimes_ns[row]),
            ctime: time(ctimes[row], ctimes_ns[row]),
            btime: btimes[row].zip(btimes_ns[row]).map(|(sec, nsec)| time(sec, nsec)),
            generation: generations[row],
            ..Meta::default()
        };
        let path = if name.is_empty() {
            dir.2
        } else {
            inside += 1;
            digest::below(dir.2, name)
        };
        let is_dir = Type::of_mode(meta.mode) == Type::Directory;
        let identity = Identity::of(parts[row], &meta);
        into.push(Old::new(path, &identity, print(&meta), is_dir, may_be_since(meta.ctime, at_rest_before)));
    }
    *children.entry(dir.2).or_default() += inside;
    Ok(())
}

/// Reads something of each row group, several of them at once, and takes one after the other, in any order.
///
/// # Errors
/// Those of `read`: after one, nothing more is read.
pub(crate) fn each_group<T>(
    reader: &Reader,
    read: impl Fn(usize) -> Result<T, Fault> + Sync,
    take: impl FnMut(usize, T) + Send,
) -> Result<(), Fault> {
    /// So many threads are of use: what they read is in memory already, or the disk is what they wait for.
    const MOST: usize = 4;
    let (groups, next, taken) = (reader.groups(), AtomicUsize::new(0), Mutex::new((take, None)));
    let work = || {
        loop {
            let group = next.fetch_add(1, Ordering::Relaxed);
            if group >= groups {
                return;
            }
            let read = read(group);
            let (take, failed) = &mut *taken.lock().unwrap_or_else(|e| e.into_inner());
            match read {
                Ok(read) => take(group, read),
                Err(fault) => {
                    next.store(groups, Ordering::Relaxed);
                    failed.get_or_insert(fault);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..gate::machine::processors().min(MOST).min(groups) {
            scope.spawn(|| {
                work();
                gate::meter::hand_in();
            });
        }
        work();
    });
    let (_, failed) = taken.into_inner().unwrap_or_else(|e| e.into_inner());
    failed.map_or(Ok(()), Err)
}

/// Places in a catalog, which rise, by the row groups that they are in: the group, the place of its first row, and those in
/// it. Groups without any are left out.
pub(crate) fn by_group<'a>(reader: &Reader, places: &'a [u32]) -> impl Iterator<Item = (usize, u64, &'a [u32])> {
    let (mut left, mut first) = (places, 0u64);
    let groups = (0..reader.groups()).map(move |group| {
        let begin = first;
        first += reader.rows(group) as u64;
        let (here, later) = left.split_at(left.partition_point(|&place| u64::from(place) < first));
        left = later;
        (group, begin, here)
    });
    groups.filter(|(.., here)| !here.is_empty())
}

/// What stands for a name below a DIR.
pub(crate) fn hash(top: u32, path: &[u8]) -> u64 {
    let parts = path.split(|&b| b == b'/').filter(|part| !part.is_empty());
    parts.fold(digest::top(top as usize), digest::below)
}
