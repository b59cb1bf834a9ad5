//! A whole tree in memory, small: 72 bytes an entry beside its name.
//!
//! ```text
//! worker ─ batch ─┐
//! worker ─ batch ─┼─► heap ─► each directory's entries side by side, by name ─► archive order
//! worker ─ batch ─┘
//! ```
//!
//! Entries come from several threads, in any order, and those of one directory in pieces. A piece says which directory it is of
//! by a hash of that one's path, and directories are found by it when all is there. What many entries have alike (mode, owner,
//! device, ...) is kept once.
//!
//! Archive order is depth first, a directory before what is in it, and the names in a directory sorted by their bytes: the row
//! after a directory is the first that is in it, and [`Rows::end`] is the row after the last one.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use mounts::Warning;
use ondisk::Dev;
use walk::entry::{Time, append};
use walk::{By, Desk, Dir, Entry, Ground, Meta, Moment, Sink, Totals, Type, Worker, digest};

use crate::catalog::about::{TICK, after_a_tick};
use crate::gather::Answer;
use crate::part::{Last, Part, Parts};

/// A tree, in archive order: for each SRC in turn, depth first, a directory before what is in it, names sorted by their bytes.
#[derive(Debug)]
pub struct Rows {
    sources: Vec<Source>,
    rows: Vec<Packed>,
    names: Names,
    common: Common,
    /// For each directory that has something in it, its row and the row after all of that; by row.
    ends: Vec<(u32, u32)>,
    parts: Vec<Part>,
    begun: Moment,
    /// Whether the time of a tick went by before anything was read.
    has_waited: bool,
}

/// A SRC.
#[derive(Clone, Debug)]
pub struct Source {
    /// As it was given.
    pub path: Vec<u8>,
    /// Its absolute name, if it is a directory and has one.
    pub absolute: Option<Vec<u8>>,
    /// The rows that are of it: first itself, then what is in it.
    pub rows: Range<usize>,
}

/// A row.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Number of the SRC that it is under.
    pub top: usize,
    /// The row of the directory that it is in; `None` for a SRC.
    pub parent: Option<usize>,
    /// Its name in that directory; empty for a SRC.
    pub name: &'a [u8],
    /// What is known of it.
    pub meta: Meta,
}

impl Rows {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Each SRC, in the order in which they were given.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The file systems that the tree is made of, with the tokens that were taken before anything was read.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// When it was begun to read them, as [`About::started`](crate::catalog::About::started) has it.
    pub fn started(&self) -> Time {
        let begun = self.begun.time();
        if self.has_waited { after_a_tick(begun) } else { begun }
    }

    /// A row.
    ///
    /// # Panics
    /// When there is none of that number; as all that takes one.
    pub fn row(&self, row: usize) -> Row<'_> {
        Row { top: self.top(row), parent: self.parent(row), name: self.name(row), meta: self.meta(row) }
    }

    /// What is known of a row.
    pub fn meta(&self, row: usize) -> Meta {
        self.common.meta(&self.rows[row])
    }

    /// Type and permission bits of a row, as `st_mode`: with less ado than [`Rows::meta`].
    pub fn mode(&self, row: usize) -> u32 {
        self.class(row).mode
    }

    /// What kind of file a row is.
    pub fn kind(&self, row: usize) -> Type {
        Type::of_mode(self.mode(row))
    }

    /// Whether a row is a directory.
    pub fn is_dir(&self, row: usize) -> bool {
        self.kind(row) == Type::Directory
    }

    /// Number of the part that a row is in: an index into [`Rows::parts`].
    pub fn part(&self, row: usize) -> usize {
        self.class(row).part as usize
    }

    /// The name of a row in the directory that it is in; empty for a SRC.
    pub fn name(&self, row: usize) -> &[u8] {
        self.names.get(self.rows[row].name)
    }

    /// The row of the directory that a row is in; `None` for a SRC.
    pub fn parent(&self, row: usize) -> Option<usize> {
        Some(self.rows[row].parent).filter(|&parent| parent != NONE).map(|parent| parent as usize)
    }

    /// Number of the SRC that a row is under.
    pub fn top(&self, row: usize) -> usize {
        self.sources.partition_point(|source| source.rows.end <= row)
    }

    /// The row after everything that is below a row: for what is no directory, and for an empty one, the next row.
    pub fn end(&self, row: usize) -> usize {
        let known = self.ends.binary_search_by_key(&row, |&(dir, _)| dir as usize);
        known.map_or(row + 1, |at| self.ends[at].1 as usize)
    }

    /// The rows that are in a directory, by name.
    pub fn children(&self, row: usize) -> impl Iterator<Item = usize> {
        let (mut next, end) = (row + 1, self.end(row));
        std::iter::from_fn(move || {
            let child = next;
            (child < end).then(|| {
                next = self.end(child);
                child
            })
        })
    }

    /// Puts the name of a row into `path`, in the place of what is there: it begins with SRC as that was given.
    pub fn path(&self, row: usize, path: &mut Vec<u8>) {
        path.clear();
        if let Some(source) = self.sources.get(self.top(row)) {
            path.extend_from_slice(&source.path);
        }
        self.add_names(row, path);
    }

    /// Puts the name of a row below its SRC into `path`, in the place of what is there: nothing for a SRC.
    pub fn relative(&self, row: usize, path: &mut Vec<u8>) {
        path.clear();
        self.add_names(row, path);
    }

    fn add_names(&self, row: usize, path: &mut Vec<u8>) {
        let up = |&row: &usize| self.parent(row);
        let on_the_way: Vec<usize> = std::iter::successors(Some(row), up).collect();
        on_the_way
            .iter()
            .rev()
            .map(|&row| self.name(row))
            .filter(|name| !name.is_empty())
            .for_each(|name| append(path, name));
    }

    /// Enters what has been seen of a row since.
    pub fn set_meta(&mut self, row: usize, meta: &Meta) {
        let Packed { name, parent, .. } = self.rows[row];
        let class = self.common.class(Class::of(meta, self.class(row).part));
        self.rows[row] = Packed { name, parent, ..Packed::of(meta, class, |wide| self.common.keep(wide)) };
    }

    fn class(&self, row: usize) -> &Class {
        &self.common.classes[self.rows[row].class as usize]
    }
}

/// No row.
const NONE: u32 = u32::MAX;

/// A row, packed. What does not fit is kept in [`Common`], and its place there here.
#[derive(Clone, Copy, Debug)]
struct Packed {
    ino: u64,
    size: u64,
    /// Last read, change of contents, change at all, birth: [`pack`].
    times: [u64; 4],
    name: u64,
    blocks: u32,
    class: u32,
    generation: u32,
    /// The row of its directory, or [`NONE`]; until all is there, the piece that it came in.
    parent: u32,
}

/// What many rows have alike.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Class {
    mode: u32,
    nlink: u32,
    uid: u32,
    gid: u32,
    rdev: Dev,
    dev: Dev,
    mount: u64,
    attributes: u64,
    xattrs: Option<bool>,
    has_btime: bool,
    has_generation: bool,
    part: u32,
}

impl Class {
    fn of(meta: &Meta, part: u32) -> Class {
        let &Meta { mode, nlink, uid, gid, rdev, dev, mount, attributes, xattrs, btime, generation, .. } = meta;
        let (has_btime, has_generation) = (btime.is_some(), generation.is_some());
        Class { mode, nlink, uid, gid, rdev, dev, mount, attributes, xattrs, has_btime, has_generation, part }
    }
}

/// What does not fit into a row.
enum Wide {
    Time(Time),
    Blocks(u64),
}

/// What rows have in common, and what does not fit into them.
#[derive(Debug, Default)]
struct Common {
    classes: Vec<Class>,
    numbers: HashMap<Class, u32>,
    times: Vec<Time>,
    blocks: Vec<u64>,
}

/// 34 bits of seconds from 1901 on, which last until 2446, as on ext4; and 30 bits of nanoseconds, which are none if they are
/// [`WIDE_TIME`]: what the seconds would be is then a place in [`Common::times`].
const EARLIEST: i64 = -(1 << 31);
const WIDE_TIME: u64 = (1 << 30) - 1;
/// Set in blocks that are a place in [`Common::blocks`].
const WIDE_BLOCKS: u32 = 1 << 31;

fn pack(time: Time, mut wide: impl FnMut(Wide) -> u64) -> u64 {
    let seconds = time.sec.checked_sub(EARLIEST).and_then(|sec| u64::try_from(sec).ok());
    match seconds {
        Some(seconds) if seconds < 1 << 34 && time.nsec < 1_000_000_000 => seconds << 30 | u64::from(time.nsec),
        _ => wide(Wide::Time(time)) << 30 | WIDE_TIME,
    }
}

impl Packed {
    fn of(meta: &Meta, class: u32, mut wide: impl FnMut(Wide) -> u64) -> Packed {
        let blocks = u32::try_from(meta.blocks).ok().filter(|blocks| blocks & WIDE_BLOCKS == 0);
        Packed {
            ino: meta.ino,
            size: meta.size,
            times: [meta.atime, meta.mtime, meta.ctime, meta.btime.unwrap_or_default()].map(|t| pack(t, &mut wide)),
            name: 0,
            blocks: blocks.unwrap_or_else(|| wide(Wide::Blocks(meta.blocks)) as u32 | WIDE_BLOCKS),
            class,
            generation: meta.generation.unwrap_or(0),
            parent: NONE,
        }
    }
}

impl Common {
    fn class(&mut self, class: Class) -> u32 {
        *self.numbers.entry(class).or_insert_with(|| {
            self.classes.push(class);
            self.classes.len() as u32 - 1
        })
    }

    fn keep(&mut self, wide: Wide) -> u64 {
        let place = match wide {
            Wide::Time(time) => {
                self.times.push(time);
                self.times.len()
            }
            Wide::Blocks(blocks) => {
                self.blocks.push(blocks);
                self.blocks.len()
            }
        };
        place as u64 - 1
    }

    fn time(&self, packed: u64) -> Time {
        let (upper, nsec) = (packed >> 30, packed & WIDE_TIME);
        match nsec {
            WIDE_TIME => self.times[upper as usize],
            _ => Time { sec: upper.cast_signed() + EARLIEST, nsec: nsec as u32 },
        }
    }

    fn meta(&self, row: &Packed) -> Meta {
        let class = &self.classes[row.class as usize];
        let [atime, mtime, ctime, btime] = row.times.map(|packed| self.time(packed));
        let blocks = match row.blocks & WIDE_BLOCKS {
            0 => row.blocks.into(),
            _ => self.blocks[(row.blocks & !WIDE_BLOCKS) as usize],
        };
        let &Class { mode, nlink, uid, gid, rdev, dev, mount, attributes, xattrs, has_btime, has_generation, .. } =
            class;
        Meta {
            ino: row.ino,
            mode,
            nlink,
            uid,
            gid,
            size: row.size,
            blocks,
            atime,
            mtime,
            ctime,
            btime: has_btime.then_some(btime),
            rdev,
            dev,
            mount,
            attributes,
            generation: has_generation.then_some(row.generation),
            xattrs,
        }
    }
}

/// Names, one after the other, each after its length: a byte, or if that is 255, two more.
#[derive(Debug, Default)]
struct Names(Vec<u8>);

impl Names {
    /// Adds one, and gives its place.
    fn add(&mut self, name: &[u8]) -> u64 {
        let place = self.0.len() as u64;
        if name.len() < usize::from(u8::MAX) {
            self.0.push(name.len() as u8);
        } else {
            self.0.push(u8::MAX);
            self.0.extend_from_slice(&(name.len() as u16).to_le_bytes());
        }
        self.0.extend_from_slice(name);
        place
    }

    fn get(&self, place: u64) -> &[u8] {
        match &self.0[place as usize..] {
            [u8::MAX, a, b, rest @ ..] => &rest[..usize::from(u16::from_le_bytes([*a, *b]))],
            [len, rest @ ..] => &rest[..usize::from(*len)],
            [] => b"",
        }
    }
}

/// What stands for a directory: what stands for its path in digests, and a hash of it with a seed that nobody knows, so that
/// nobody can make up two paths for which both are the same.
type Key = (u64, u64);

/// Rows as they came.
#[derive(Debug, Default)]
struct Heap {
    rows: Vec<Packed>,
    names: Names,
    /// For each piece of a directory that has come, the directory.
    pieces: Vec<Key>,
    /// The rows that are directories.
    dirs: Vec<(Key, u32)>,
    /// The rows that are a SRC, and its number.
    sources: Vec<(u32, u32)>,
}

impl Heap {
    /// More rows than this have no numbers.
    const MOST: usize = NONE as usize;

    /// Takes over what is in another one, which is empty then. False when there is no room for it.
    fn append(&mut self, other: &mut Heap) -> bool {
        if self.rows.len() + other.rows.len() > Heap::MOST || self.pieces.len() + other.pieces.len() > Heap::MOST {
            return false;
        }
        let (rows, names, pieces) = (self.rows.len() as u32, self.names.0.len() as u64, self.pieces.len() as u32);
        self.rows.extend(other.rows.drain(..).map(|row| Packed {
            name: row.name + names,
            parent: if row.parent == NONE { NONE } else { row.parent + pieces },
            ..row
        }));
        self.names.0.append(&mut other.names.0);
        self.pieces.append(&mut other.pieces);
        self.dirs.extend(other.dirs.drain(..).map(|(key, row)| (key, row + rows)));
        self.sources.extend(other.sources.drain(..).map(|(source, row)| (source, row + rows)));
        true
    }
}

/// The sink that rows are gathered in.
#[derive(Debug)]
pub(crate) struct Gathering<'a> {
    sources: Vec<Source>,
    /// The number of the SRC for each DIR of the walk.
    dirs: Vec<u32>,
    /// Whether tokens are taken.
    with_tokens: bool,
    desk: &'a Desk,
    parts: Parts,
    begun: Moment,
    seed: RandomState,
    common: Mutex<Common>,
    heap: Mutex<Heap>,
    /// All of it, added up, if that is wanted.
    sum: Option<Mutex<Totals>>,
    is_full: AtomicBool,
}

/// What has been gathered, as a whole.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Each SRC.
    pub(crate) sources: Vec<Source>,
    /// The file systems.
    pub(crate) parts: Vec<Part>,
    /// All entries, added up as the catalog of them would.
    pub(crate) totals: Totals,
}

impl<'a> Gathering<'a> {
    /// Of each SRC, and of which of them are walked, by their numbers. With `with_tokens`, each file system is asked for its
    /// token, and what is changed from now on can be told. With `with_sum`, entries are added up.
    pub(crate) fn new(
        sources: Vec<Source>,
        dirs: Vec<u32>,
        with_tokens: bool,
        with_sum: bool,
        desk: &'a Desk,
    ) -> Gathering<'a> {
        let begun = Moment::now();
        if with_tokens {
            // What was changed before is at rest for certain: it is older than a tick of any file system's clock.
            std::thread::sleep(TICK);
        }
        Gathering {
            parts: Parts::new(sources.iter().map(|source| source.path.clone()).collect()),
            sources,
            dirs,
            with_tokens,
            desk,
            begun,
            seed: RandomState::new(),
            common: Mutex::default(),
            heap: Mutex::default(),
            sum: with_sum.then(Mutex::default),
            is_full: AtomicBool::new(false),
        }
    }

    /// A SRC that is no directory.
    pub(crate) fn add(&self, source: u32, meta: &Meta) {
        self.parts.turn_to(source as usize);
        let path = &self.sources[source as usize].path;
        let mut hand = Hand::new(self);
        let still = if meta.is_stub() { at_rest(meta) } else { *meta };
        let row = hand.pack(&still, path, b"");
        hand.batch.sources.push((source, hand.batch.rows.len() as u32));
        hand.batch.rows.push(row);
    }

    fn common(&self) -> MutexGuard<'_, Common> {
        self.common.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn key(&self, hash: u64, path: &[u8]) -> Key {
        (hash, self.seed.hash_one(path))
    }

    /// All of it, as a whole; `None` if that is not known, or not as a catalog would have it.
    pub(crate) fn seen(&self, answer: &Answer) -> Option<Seen> {
        // The walk numbers those that are directories.
        let is_each_walked = self.dirs.len() == self.sources.len();
        let totals = *self.sum.as_ref().filter(|_| is_each_walked)?.lock().unwrap_or_else(|e| e.into_inner());
        Some(Seen { sources: self.sources.clone(), parts: self.parts_of(answer), totals })
    }

    fn parts_of(&self, answer: &Answer) -> Vec<Part> {
        self.parts.all(answer.parts.iter().map(|part| part.engine))
    }

    /// All of it, in order.
    pub(crate) fn finish(self, answer: &Answer) -> Rows {
        let parts = self.parts_of(answer);
        let heap = self.heap.into_inner().unwrap_or_else(|e| e.into_inner());
        let common = self.common.into_inner().unwrap_or_else(|e| e.into_inner());
        let mut sources = self.sources;
        let Ordered { mut rows, mut names, ends, firsts, lost } = order(heap, &common);
        rows.shrink_to_fit();
        names.0.shrink_to_fit();
        if lost > 0 {
            let what = format!(
                "{lost} entries are left out: the directories that they are in were moved meanwhile; dump again"
            );
            self.desk.warn(Warning::general(what));
        }
        // Each SRC has its rows up to where the next one begins.
        let mut end = rows.len();
        for (number, source) in sources.iter_mut().enumerate().rev() {
            let first = firsts.binary_search_by_key(&(number as u32), |&(source, _)| source);
            let first = first.map_or(end, |at| firsts[at].1 as usize);
            source.rows = first..end;
            end = first;
        }
        Rows { sources, rows, names, common, ends, parts, begun: self.begun, has_waited: self.with_tokens }
    }
}

impl Sink for Gathering<'_> {
    fn begin(&self, ground: &Ground<'_>, by: By) {
        if ground.top.depth == 0
            && let Some(&source) = self.dirs.get(ground.top.hash as usize)
        {
            self.parts.turn_to(source as usize);
        }
        self.parts.begin(ground, by, self.with_tokens);
    }

    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(Hand::new(self))
    }

    fn is_closed(&self) -> bool {
        self.is_full.load(Relaxed)
    }
}

/// One thread's part of it.
struct Hand<'a> {
    to: &'a Gathering<'a>,
    batch: Heap,
    sum: Totals,
    last: Option<Last>,
    /// The class that came last, and all that this thread has had.
    class: Option<(Class, u32)>,
    classes: HashMap<Class, u32>,
    path: Vec<u8>,
}

impl<'a> Hand<'a> {
    /// Rows that are handed in at a time.
    const BATCH: usize = 1 << 10;

    fn new(to: &'a Gathering<'a>) -> Hand<'a> {
        Hand {
            to,
            batch: Heap::default(),
            sum: Totals::default(),
            last: None,
            class: None,
            classes: HashMap::new(),
            path: Vec::new(),
        }
    }

    fn pack(&mut self, meta: &Meta, dir: &[u8], name: &[u8]) -> Packed {
        let part = self.to.parts.of(&mut self.last, meta, dir, name);
        let class = Class::of(meta, part);
        let number = match self.class {
            Some((last, number)) if last == class => number,
            _ => *self.classes.entry(class).or_insert_with(|| self.to.common().class(class)),
        };
        self.class = Some((class, number));
        Packed { name: self.batch.names.add(name), ..Packed::of(meta, number, |wide| self.to.common().keep(wide)) }
    }

    fn hand_in(&mut self) {
        let fits = self.to.heap.lock().unwrap_or_else(|e| e.into_inner()).append(&mut self.batch);
        if !fits {
            self.batch = Heap::default();
            if !self.to.is_full.swap(true, Relaxed) {
                let what = format!("more than {} entries cannot be dumped at once; the rest is left out", Heap::MOST);
                self.to.desk.warn(Warning::general(what));
            }
        }
    }
}

impl Worker for Hand<'_> {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        let to = self.to;
        let mut piece = NONE;
        for entry in entries {
            let number = self.batch.rows.len() as u32;
            let still;
            let entry = match entry.meta.is_stub() {
                true => {
                    still = Entry { meta: at_rest(&entry.meta), ..*entry };
                    &still
                }
                false => entry,
            };
            if to.sum.is_some() {
                self.sum.add(dir, entry);
            }
            let mut row = self.pack(&entry.meta, dir.path, entry.name);
            let hash = if entry.name.is_empty() {
                if let Some(&source) = to.dirs.get(dir.hash as usize) {
                    self.batch.sources.push((source, number));
                }
                dir.hash
            } else {
                if piece == NONE {
                    let key = to.key(dir.hash, dir.path);
                    if self.batch.pieces.last() != Some(&key) {
                        self.batch.pieces.push(key);
                    }
                    piece = self.batch.pieces.len() as u32 - 1;
                }
                row.parent = piece;
                digest::below(dir.hash, entry.name)
            };
            if entry.meta.is_dir() {
                entry.path(dir, &mut self.path);
                self.batch.dirs.push((to.key(hash, &self.path), number));
            }
            self.batch.rows.push(row);
        }
        if self.batch.rows.len() >= Hand::BATCH {
            self.hand_in();
        }
    }
}

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        self.hand_in();
        if let Some(sum) = &self.to.sum {
            sum.lock().unwrap_or_else(|e| e.into_inner()).merge(&self.sum);
        }
    }
}

/// Of what is made anew whenever it is looked at, the times are those of the look: none.
fn at_rest(meta: &Meta) -> Meta {
    let none = Time::default();
    Meta { atime: none, mtime: none, ctime: none, ..*meta }
}

/// A heap in archive order.
struct Ordered {
    rows: Vec<Packed>,
    names: Names,
    ends: Vec<(u32, u32)>,
    /// For each SRC, by number, its row.
    firsts: Vec<(u32, u32)>,
    /// How many rows were in directories that have not come.
    lost: usize,
}

fn order(heap: Heap, common: &Common) -> Ordered {
    let Heap { mut rows, names, pieces, dirs, mut sources } = heap;
    let mut known: HashMap<Key, u32> = HashMap::with_capacity(dirs.len());
    for (key, row) in dirs {
        known.entry(key).or_insert(row);
    }
    let pieces: Vec<u32> = pieces.iter().map(|key| known.get(key).copied().unwrap_or(NONE)).collect();
    drop(known);

    // What is in each directory, side by side: first how much it is, then each into its place.
    let mut ends_inside = vec![0u32; rows.len() + 1];
    for row in rows.iter_mut().filter(|row| row.parent != NONE) {
        row.parent = pieces[row.parent as usize];
        if row.parent != NONE {
            ends_inside[row.parent as usize + 1] += 1;
        }
    }
    drop(pieces);
    for dir in 1..ends_inside.len() {
        ends_inside[dir] += ends_inside[dir - 1];
    }
    let mut inside = vec![0u32; ends_inside[rows.len()] as usize];
    for (number, row) in rows.iter().enumerate().filter(|(_, row)| row.parent != NONE) {
        let place = &mut ends_inside[row.parent as usize];
        inside[*place as usize] = number as u32;
        *place += 1;
    }
    // Where one began, it now ends: each begins where the one before it ends.
    let range = |dir: u32| {
        let begin = dir.checked_sub(1).map_or(0, |before| ends_inside[before as usize]);
        begin as usize..ends_inside[dir as usize] as usize
    };

    let mut sorted: Vec<u32> = Vec::with_capacity(rows.len());
    let (mut ends, mut firsts, mut twice) = (Vec::new(), Vec::new(), 0);
    let (mut open, mut scratch) = (Vec::<(u32, Range<usize>)>::new(), Vec::new());
    sources.sort_unstable();
    sources.dedup_by_key(|&mut (source, _)| source);
    for (source, first) in sources {
        firsts.push((source, sorted.len() as u32));
        let mut next = Some((first, NONE));
        while let Some((row, parent)) = next {
            let number = sorted.len() as u32;
            rows[row as usize].parent = parent;
            sorted.push(row);
            let all = range(row);
            if !all.is_empty() {
                let name = |row: u32| names.get(rows[row as usize].name);
                // What was moved onto another name while that was read may have come twice. What is in it has come to one.
                let worth = |row: u32| {
                    let packed = &rows[row as usize];
                    let is_dir = Type::of_mode(common.classes[packed.class as usize].mode) == Type::Directory;
                    (is_dir, !range(row).is_empty(), common.time(packed.times[2]))
                };
                let kept = by_name(&mut inside[all.clone()], &mut scratch, name, worth);
                twice += all.len() - kept;
                open.push((number, all.start..all.start + kept));
            }
            next = None;
            while let Some((dir, left)) = open.last_mut() {
                if let Some(place) = left.next() {
                    next = Some((inside[place], *dir));
                    break;
                }
                ends.push((*dir, sorted.len() as u32));
                open.pop();
            }
        }
    }
    drop((inside, ends_inside));
    ends.sort_unstable();
    let kept = sorted.len();
    let lost = rows.len() - kept - twice;
    rearrange(&mut rows, sorted);
    rows.truncate(kept);
    Ordered { rows, names, ends, firsts, lost }
}

/// Sorts what is in a directory by name, and of those with the same name keeps what is worth most. Gives how many are left.
fn by_name<'a, W: Ord>(
    inside: &mut [u32],
    scratch: &mut Vec<(u64, u32)>,
    name: impl Fn(u32) -> &'a [u8],
    worth: impl Fn(u32) -> W,
) -> usize {
    let head = |name: &[u8]| {
        let mut head = [0; 8];
        let len = name.len().min(8);
        head[..len].copy_from_slice(&name[..len]);
        u64::from_be_bytes(head)
    };
    scratch.clear();
    scratch.extend(inside.iter().map(|&row| (head(name(row)), row)));
    scratch.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| name(a.1).cmp(name(b.1))).then(a.1.cmp(&b.1)));
    scratch.dedup_by(|next, kept| {
        let is_same = next.0 == kept.0 && name(next.1) == name(kept.1);
        if is_same && worth(next.1) > worth(kept.1) {
            *kept = *next;
        }
        is_same
    });
    inside.iter_mut().zip(scratch.iter()).for_each(|(to, &(_, row))| *to = row);
    scratch.len()
}

/// Brings rows into an order: the numbers of those that come first. The others follow.
fn rearrange(rows: &mut [Packed], mut order: Vec<u32>) {
    if order.len() < rows.len() {
        let mut is_there = vec![false; rows.len()];
        order.iter().for_each(|&row| is_there[row as usize] = true);
        order.extend((0..rows.len() as u32).filter(|&row| !is_there[row as usize]));
    }
    // In place: each chain of rows that take one another's places, as far as it leads. Who has his place is where he is from.
    for first in 0..rows.len() {
        let (mut at, held) = (first, rows[first]);
        while order[at] as usize != first {
            let from = std::mem::replace(&mut order[at], at as u32) as usize;
            rows[at] = rows[from];
            at = from;
        }
        order[at] = at as u32;
        rows[at] = held;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn gathering(desk: &Desk) -> Gathering<'_> {
        let source = Source { path: b"top".to_vec(), absolute: None, rows: 0..0 };
        Gathering::new(vec![source], vec![0], false, false, desk)
    }

    fn meta(ino: u64, is_dir: bool) -> Meta {
        Meta { ino, mode: if is_dir { 0o040_755 } else { 0o100_644 }, nlink: 1, ..Meta::default() }
    }

    /// Hands over entries of a directory, by its path: `top`, or `top/a/b`.
    fn give(to: &Gathering<'_>, dir: &str, entries: &[(&str, Meta)]) {
        let names: Vec<&str> = dir.split('/').skip(1).collect();
        let hash = names.iter().fold(digest::top(0), |hash, name| digest::below(hash, name.as_bytes()));
        let dir = Dir { path: dir.as_bytes(), hash, depth: names.len() as u32 };
        let entries: Vec<_> = entries.iter().map(|&(name, meta)| Entry { name: name.as_bytes(), meta }).collect();
        to.worker().take(&dir, &entries);
    }

    fn list(rows: &Rows) -> Vec<(String, u64)> {
        let mut path = Vec::new();
        let each = |row| {
            rows.path(row, &mut path);
            (String::from_utf8(path.clone()).unwrap(), rows.meta(row).ino)
        };
        (0..rows.len()).map(each).collect()
    }

    fn of(list: &[(&str, u64)]) -> Vec<(String, u64)> {
        list.iter().map(|&(path, ino)| (path.to_owned(), ino)).collect()
    }

    #[test]
    fn pieces_in_any_order() {
        let desk = Desk::default();
        let to = gathering(&desk);
        give(&to, "top/b", &[("z", meta(5, false)), ("c", meta(6, true))]);
        give(&to, "top/b/c", &[("deep", meta(9, false))]);
        give(&to, "top", &[("b.", meta(3, false)), ("b", meta(2, true))]);
        give(&to, "top/b", &[("a", meta(4, false))]);
        give(
            &to,
            "top",
            &[("", meta(1, true)), ("b-", meta(7, true)), ("a name of more than eight bytes", meta(8, false))],
        );
        give(&to, "top", &[("a name of more than eight", meta(10, false))]);
        let mut rows = to.finish(&Answer::default());
        let all = [
            ("top", 1),
            ("top/a name of more than eight", 10),
            ("top/a name of more than eight bytes", 8),
            ("top/b", 2),
            ("top/b/a", 4),
            ("top/b/c", 6),
            ("top/b/c/deep", 9),
            ("top/b/z", 5),
            ("top/b-", 7),
            ("top/b.", 3),
        ];
        assert_eq!(list(&rows), of(&all));
        assert_eq!(rows.children(0).collect::<Vec<_>>(), [1, 2, 3, 8, 9]);
        assert_eq!((rows.end(3), rows.end(8), rows.end(9), rows.parent(6)), (8, 9, 10, Some(5)));
        assert_eq!(rows.sources()[0].rows, 0..10);
        let other = Meta { uid: 7, size: 8, btime: Some(Time { sec: 9, nsec: 1 }), ..meta(11, false) };
        rows.set_meta(9, &other);
        assert_eq!((rows.meta(9), rows.parent(9), rows.name(9)), (other, Some(0), &b"b."[..]));
        assert!(desk.take_warnings().is_empty());
    }

    #[test]
    fn what_comes_twice_or_from_nowhere() {
        let desk = Desk::default();
        let to = gathering(&desk);
        let later = |meta: Meta| Meta { ctime: Time { sec: 5, nsec: 0 }, ..meta };
        give(
            &to,
            "top",
            &[("", meta(1, true)), ("a", later(meta(2, false))), ("a", meta(3, false)), ("d", meta(4, true))],
        );
        give(&to, "top", &[("d", later(meta(5, false))), ("a", meta(6, false))]);
        give(&to, "top/d", &[("x", meta(7, false))]);
        give(&to, "top/gone", &[("x", meta(8, true)), ("y", meta(9, false))]);
        give(&to, "top/gone/x", &[("z", meta(10, false))]);
        let rows = to.finish(&Answer::default());
        assert_eq!(list(&rows), of(&[("top", 1), ("top/a", 2), ("top/d", 4), ("top/d/x", 7)]));
        let [warning] = &desk.take_warnings()[..] else { panic!("one warning") };
        assert!(warning.message.starts_with("3 entries are left out"), "{}", warning.message);
    }

    #[test]
    fn names_of_any_length() {
        let mut names = Names::default();
        let all: Vec<Vec<u8>> = [0, 1, 254, 255, 256, 1024, 4000].map(|len| vec![b'n'; len]).to_vec();
        let places: Vec<u64> = all.iter().map(|name| names.add(name)).collect();
        assert!(places.iter().map(|&place| names.get(place)).eq(all.iter().map(|name| &name[..])));
    }

    /// 72 bytes for each entry, and for each directory 8 more; beside its name, and the byte that says how long that is.
    #[test]
    fn small() {
        assert_eq!(size_of::<Packed>(), 72);
        let desk = Desk::default();
        let to = gathering(&desk);
        give(&to, "top", &[("", meta(1, true))]);
        for dir in 0..100 {
            let name = format!("{dir:03}");
            give(&to, "top", &[(&name, meta(dir, true))]);
            let files: Vec<String> = (0..100).map(|file| format!("{file:05}")).collect();
            let files: Vec<_> = files.iter().map(|name| (&name[..], meta(7, false))).collect();
            give(&to, &format!("top/{name}"), &files);
        }
        let rows = to.finish(&Answer::default());
        assert_eq!(rows.len(), 10_101);
        assert_eq!((rows.rows.capacity(), rows.names.0.capacity()), (10_101, 1 + 100 * 4 + 10_000 * 6));
        assert_eq!((rows.ends.len(), rows.common.classes.len(), rows.common.times.len()), (101, 2, 0));
    }

    fn any_time() -> impl Strategy<Value = Time> {
        let sec =
            prop_oneof![any::<i64>(), -5_000_000_000..20_000_000_000i64, Just(EARLIEST), Just((1 << 34) + EARLIEST)];
        (sec, prop_oneof![any::<u32>(), 0..1_000_000_000u32, Just(WIDE_TIME as u32)])
            .prop_map(|(sec, nsec)| Time { sec, nsec })
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(
            (ino, size, blocks, mode) in (any::<u64>(), any::<u64>(), prop_oneof![any::<u64>(), 0..5_000_000_000u64], any::<u32>()),
            (nlink, uid, gid, major) in any::<(u32, u32, u32, u32)>(),
            (atime, mtime, ctime, btime) in (any_time(), any_time(), any_time(), proptest::option::of(any_time())),
            (generation, xattrs, mount, attributes) in any::<(Option<u32>, Option<bool>, u64, u64)>(),
        ) {
            let dev = Dev { major, minor: nlink };
            let meta = Meta {
                ino, mode, nlink, uid, gid, size, blocks, atime, mtime, ctime, btime, rdev: dev, dev, mount, attributes,
                generation, xattrs,
            };
            let mut common = Common::default();
            let class = common.class(Class::of(&meta, 3));
            let first = Packed::of(&meta, class, |wide| common.keep(wide));
            let again = Packed::of(&meta, class, |wide| common.keep(wide));
            prop_assert_eq!((common.meta(&first), common.meta(&again)), (meta, meta));
        }

        #[test]
        fn in_place(seed in any::<u64>(), all in 1usize..50, kept in 0usize..50) {
            let mut rows: Vec<Packed> = (0..all as u64).map(|ino| Packed::of(&meta(ino, false), 0, |_| 0)).collect();
            let mut order: Vec<u32> = (0..all as u32).collect();
            order.sort_by_key(|&row| digest::below(seed, &row.to_le_bytes()));
            order.truncate(kept);
            rearrange(&mut rows, order.clone());
            let inos: Vec<u64> = rows.iter().map(|row| row.ino).collect();
            prop_assert!(inos.iter().zip(&order).all(|(&ino, &row)| ino == u64::from(row)));
            let mut sorted = inos;
            sorted.sort_unstable();
            prop_assert!(sorted.into_iter().eq(0..all as u64));
        }
    }
}
