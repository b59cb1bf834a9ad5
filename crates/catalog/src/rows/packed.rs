//! A row in 72 bytes, and values shared by many rows.

use std::collections::HashMap;

use ondisk::Dev;
use walk::entry::Time;
use walk::{FileType, Meta};

/// A row number that means: no row.
pub(super) const NONE: u32 = u32::MAX;

/// A packed row. A value that does not fit is replaced by its index in [`SharedValues`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Packed {
    pub(super) ino: u64,
    pub(super) size: u64,
    /// atime, mtime, ctime and btime, packed by [`pack`].
    pub(super) times: [u64; 4],
    pub(super) name: u64,
    pub(super) blocks: u32,
    pub(super) class: u32,
    pub(super) generation: u32,
    /// Row of the parent directory in archive order, or [`NONE`].
    pub(super) parent: u32,
}

/// Values that many rows share, so that each combination is stored once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct RowClass {
    pub(super) mode: u32,
    pub(super) nlink: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) rdev: Dev,
    pub(super) dev: Dev,
    pub(super) mount: u64,
    pub(super) attributes: u64,
    pub(super) xattrs: Option<bool>,
    pub(super) has_btime: bool,
    pub(super) has_generation: bool,
    pub(super) part: u32,
}

impl RowClass {
    pub(super) fn new(meta: &Meta, part: u32) -> RowClass {
        RowClass {
            mode: meta.mode,
            nlink: meta.nlink,
            uid: meta.uid,
            gid: meta.gid,
            rdev: meta.rdev,
            dev: meta.dev,
            mount: meta.mount,
            attributes: meta.attributes,
            xattrs: meta.xattrs,
            has_btime: meta.btime.is_some(),
            has_generation: meta.generation.is_some(),
            part,
        }
    }
}

/// A value that does not fit into a packed row.
pub(super) enum OversizeValue {
    Time(Time),
    Blocks(u64),
}

/// Values shared by rows, and values that do not fit into a packed row.
#[derive(Debug, Default)]
pub(super) struct SharedValues {
    pub(super) classes: Vec<RowClass>,
    pub(super) numbers: HashMap<RowClass, u32>,
    pub(super) times: Vec<Time>,
    pub(super) blocks: Vec<u64>,
}

/// The earliest second that can be packed, in 1901.
pub(super) const EARLIEST: i64 = -(1 << 31);
/// Marks a packed time whose seconds are an index into [`SharedValues::times`].
pub(super) const WIDE_TIME: u64 = (1 << 30) - 1;
/// Flag of a block count that is an index into [`SharedValues::blocks`].
const WIDE_BLOCKS: u32 = 1 << 31;

/// Packs a time: 34 bits of seconds since [`EARLIEST`], which last until 2446 like those of ext4,
/// and 30 bits of nanoseconds.
fn pack(time: Time, mut wide: impl FnMut(OversizeValue) -> u64) -> u64 {
    let seconds = time
        .sec
        .checked_sub(EARLIEST)
        .and_then(|sec| u64::try_from(sec).ok());
    match seconds {
        Some(seconds) if seconds < 1 << 34 && time.nsec < 1_000_000_000 => {
            seconds << 30 | u64::from(time.nsec)
        }
        _ => wide(OversizeValue::Time(time)) << 30 | WIDE_TIME,
    }
}

impl Packed {
    pub(super) fn new(
        meta: &Meta,
        class: u32,
        mut wide: impl FnMut(OversizeValue) -> u64,
    ) -> Packed {
        let btime = meta.btime.unwrap_or_default();
        let blocks = u32::try_from(meta.blocks);
        let blocks = blocks.ok().filter(|blocks| blocks & WIDE_BLOCKS == 0);
        Packed {
            ino: meta.ino,
            size: meta.size,
            times: [meta.atime, meta.mtime, meta.ctime, btime].map(|t| pack(t, &mut wide)),
            name: 0,
            blocks: blocks
                .unwrap_or_else(|| wide(OversizeValue::Blocks(meta.blocks)) as u32 | WIDE_BLOCKS),
            class,
            generation: meta.generation.unwrap_or(0),
            parent: NONE,
        }
    }
}

impl SharedValues {
    pub(super) fn class(&mut self, class: RowClass) -> u32 {
        *self.numbers.entry(class).or_insert_with(|| {
            self.classes.push(class);
            self.classes.len() as u32 - 1
        })
    }

    pub(super) fn keep(&mut self, wide: OversizeValue) -> u64 {
        match wide {
            OversizeValue::Time(time) => {
                self.times.push(time);
                self.times.len() as u64 - 1
            }
            OversizeValue::Blocks(blocks) => {
                self.blocks.push(blocks);
                self.blocks.len() as u64 - 1
            }
        }
    }

    pub(super) fn is_dir(&self, row: &Packed) -> bool {
        FileType::from_mode(self.classes[row.class as usize].mode) == FileType::Directory
    }

    pub(super) fn time(&self, packed: u64) -> Time {
        let (upper, nsec) = (packed >> 30, packed & WIDE_TIME);
        match nsec {
            WIDE_TIME => self.times[upper as usize],
            _ => Time::new(upper.cast_signed() + EARLIEST, nsec as u32),
        }
    }

    pub(super) fn meta(&self, row: &Packed) -> Meta {
        let class = &self.classes[row.class as usize];
        let [atime, mtime, ctime, btime] = row.times.map(|packed| self.time(packed));
        let blocks = match row.blocks & WIDE_BLOCKS {
            0 => row.blocks.into(),
            _ => self.blocks[(row.blocks & !WIDE_BLOCKS) as usize],
        };
        Meta {
            ino: row.ino,
            mode: class.mode,
            nlink: class.nlink,
            uid: class.uid,
            gid: class.gid,
            size: row.size,
            blocks,
            atime,
            mtime,
            ctime,
            btime: class.has_btime.then_some(btime),
            rdev: class.rdev,
            dev: class.dev,
            mount: class.mount,
            attributes: class.attributes,
            generation: class.has_generation.then_some(row.generation),
            xattrs: class.xattrs,
        }
    }
}

/// Names, each after its length: one byte, or the byte 255 and a length of two bytes.
#[derive(Debug, Default)]
pub(super) struct PackedNames(pub(super) Vec<u8>);

impl PackedNames {
    /// Adds a name, and returns its position.
    pub(super) fn add(&mut self, name: &[u8]) -> u64 {
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

    pub(super) fn get(&self, place: u64) -> &[u8] {
        match &self.0[place as usize..] {
            [u8::MAX, a, b, rest @ ..] => &rest[..usize::from(u16::from_le_bytes([*a, *b]))],
            [len, rest @ ..] => &rest[..usize::from(*len)],
            [] => b"",
        }
    }
}
