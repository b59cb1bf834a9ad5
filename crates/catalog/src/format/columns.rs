//! The columns of a catalog, with their encodings and value types.

use std::marker::PhantomData;

use parquet::errors::Result;
use walk::entry::Time;

use super::column::{
    Chunk, ColumnEncoding, ForeignColumn, Names, PageCompressor, Pages, damaged, flags, numbers,
    required,
};
use super::schema::{GROUP, Record};

/// A column with values of type `V`, which is an `Option` for an optional column.
#[derive(Debug)]
pub struct Column<V> {
    pub(super) name: &'static str,
    values: PhantomData<fn() -> V>,
}

/// How a column is encoded.
pub(super) struct Layout {
    pub(super) name: &'static str,
    pub(super) how: ColumnEncoding,
    /// Function that adds the column's values of some rows to a column chunk.
    pub(super) put: fn(&mut Chunk, &[Record<'_>], &mut PageCompressor) -> Result<()>,
}

macro_rules! columns {
    (@put names |$row:ident| $value:expr) => {
        |to, rows, zstd| to.names(rows.iter().map(|$row| $value), zstd)
    };
    (@put $kind:ident |$row:ident| $value:expr) => {
        |to, rows, _| {
            to.$kind(rows.iter().map(|$row| $value));
            Ok(())
        }
    };
    ($($column:ident $name:literal $values:ty, $how:ident $kind:ident |$row:ident| $value:expr;)*) => {
        $(
            #[doc = concat!("The column `", $name, "`.")]
            pub const $column: Column<$values> = Column { name: $name, values: PhantomData };
        )*

        /// All columns, in schema order.
        pub(super) const COLUMNS: [Layout; 27] = [$(Layout {
            name: $name,
            how: ColumnEncoding::$how,
            put: columns!(@put $kind |$row| $value),
        }),*];
    };
}

columns! {
    PART "part" u32, Plain numbers |r| r.part.to_le_bytes();
    DIR "dir" Names, Dictionary names |r| r.dir;
    NAME "name" Names, Plain names |r| r.name;
    INO "ino" u64, Plain numbers |r| r.meta.ino.to_le_bytes();
    GENERATION "generation" Option<u32>, Raw maybe |r| r.meta.generation.map(u32::to_le_bytes);
    MODE "mode" u32, Plain numbers |r| r.meta.mode.to_le_bytes();
    NLINK "nlink" u32, Plain numbers |r| r.meta.nlink.to_le_bytes();
    UID "uid" u32, Plain numbers |r| r.meta.uid.to_le_bytes();
    GID "gid" u32, Plain numbers |r| r.meta.gid.to_le_bytes();
    SIZE "size" u64, Plain numbers |r| r.meta.size.to_le_bytes();
    BLOCKS "blocks" u64, Plain numbers |r| r.meta.blocks.to_le_bytes();
    ATIME_SEC "atime" i64, Plain numbers |r| r.meta.atime.sec.to_le_bytes();
    ATIME_NSEC "atime_ns" u32, Plain numbers |r| r.meta.atime.nsec.to_le_bytes();
    MTIME_SEC "mtime" i64, Plain numbers |r| r.meta.mtime.sec.to_le_bytes();
    MTIME_NSEC "mtime_ns" u32, Plain numbers |r| r.meta.mtime.nsec.to_le_bytes();
    CTIME_SEC "ctime" i64, Plain numbers |r| r.meta.ctime.sec.to_le_bytes();
    CTIME_NSEC "ctime_ns" u32, Plain numbers |r| r.meta.ctime.nsec.to_le_bytes();
    BTIME_SEC "btime" Option<i64>, Plain maybe |r| r.meta.btime.map(|t| t.sec.to_le_bytes());
    BTIME_NSEC "btime_ns" Option<u32>, Plain maybe |r| r.meta.btime.map(|t| t.nsec.to_le_bytes());
    RDEV_MAJOR "rdev_major" u32, Plain numbers |r| r.meta.rdev.major.to_le_bytes();
    RDEV_MINOR "rdev_minor" u32, Plain numbers |r| r.meta.rdev.minor.to_le_bytes();
    DEV_MAJOR "dev_major" u32, Plain numbers |r| r.meta.dev.major.to_le_bytes();
    DEV_MINOR "dev_minor" u32, Plain numbers |r| r.meta.dev.minor.to_le_bytes();
    ATTRIBUTES "attributes" u64, Plain numbers |r| r.meta.attributes.to_le_bytes();
    XATTRS "xattrs" Option<bool>, Plain maybe |r| r.meta.xattrs.map(|has| [has.into()]);
    TOP "top" u32, Plain numbers |r| r.top.to_le_bytes();
    BLAKE3 "blake3" Option<[u8; 32]>, Raw maybe |r| r.blake3;
}

/// Two columns that form a time: seconds and nanoseconds.
#[derive(Debug)]
pub struct TimeColumns<S, N>(pub(super) Column<S>, pub(super) Column<N>);

/// Time of last access.
pub const ATIME: TimeColumns<i64, u32> = TimeColumns(ATIME_SEC, ATIME_NSEC);
/// Time of last modification of the contents.
pub const MTIME: TimeColumns<i64, u32> = TimeColumns(MTIME_SEC, MTIME_NSEC);
/// Time of last change of the inode.
pub const CTIME: TimeColumns<i64, u32> = TimeColumns(CTIME_SEC, CTIME_NSEC);
/// Time of creation, if the file system records it.
pub const BTIME: TimeColumns<Option<i64>, Option<u32>> = TimeColumns(BTIME_SEC, BTIME_NSEC);

/// The times of all rows of a row group.
#[derive(Debug)]
pub struct Times<S, N> {
    pub(super) secs: Vec<S>,
    pub(super) nsecs: Vec<N>,
}

impl Times<i64, u32> {
    /// The time of a row.
    #[inline]
    pub fn at(&self, row: usize) -> Time {
        let (sec, nsec) = (self.secs[row], self.nsecs[row]);
        Time { sec, nsec }
    }
}

impl Times<Option<i64>, Option<u32>> {
    /// The time of a row; `None` if the row has no time.
    #[inline]
    pub fn at(&self, row: usize) -> Option<Time> {
        let (sec, nsec) = (self.secs[row]?, self.nsecs[row]?);
        Some(Time { sec, nsec })
    }
}

/// The type of a column's values.
pub trait Value: Sized {
    /// The values of all rows of a row group.
    type Values;

    #[doc(hidden)]
    fn decode(pages: Pages<'_>) -> Result<Self::Values>;

    /// Like [`Value::decode`], for a catalog rewritten by another program.
    #[doc(hidden)]
    fn decode_foreign(column: ForeignColumn) -> Result<Self::Values>;

    /// Replaces part numbers of one catalog by those in the joined catalog of several parts.
    #[doc(hidden)]
    fn renumber(_values: &mut Self::Values, _numbers: &[u32]) {}
}

impl Value for Names {
    type Values = Names;

    fn decode(pages: Pages<'_>) -> Result<Names> {
        Names::read(pages)
    }

    fn decode_foreign(column: ForeignColumn) -> Result<Names> {
        column.names()
    }
}

macro_rules! number {
    ($($type:ty, $narrow:expr, $wide:expr, { $($more:item)* })*) => {
        $(
            impl Value for $type {
                type Values = Vec<$type>;

                fn decode(pages: Pages<'_>) -> Result<Vec<$type>> {
                    let mut all = with_room(&pages);
                    numbers(pages, <$type>::from_le_bytes, |_, _| {}, &mut all)?;
                    Ok(all)
                }

                fn decode_foreign(column: ForeignColumn) -> Result<Vec<$type>> {
                    required(column.integers($narrow, $wide)?)
                }

                $($more)*
            }

            impl Value for Option<$type> {
                type Values = Vec<Option<$type>>;

                fn decode(pages: Pages<'_>) -> Result<Vec<Option<$type>>> {
                    optional(pages, |bytes| Some(<$type>::from_le_bytes(bytes)))
                }

                fn decode_foreign(column: ForeignColumn) -> Result<Vec<Option<$type>>> {
                    column.integers($narrow, $wide)
                }
            }
        )*
    };
}

number! {
    u32, |narrow| Some(narrow.cast_unsigned()), |wide| u32::try_from(wide).ok(), {
        fn renumber(values: &mut Vec<u32>, numbers: &[u32]) {
            for value in values {
                *value = numbers.get(*value as usize).copied().unwrap_or(u32::MAX);
            }
        }
    }
    u64, |narrow| Some(narrow.cast_unsigned().into()), |wide| Some(wide.cast_unsigned()), {}
    i64, |narrow| Some(narrow.into()), Some, {}
}

impl Value for Option<[u8; 32]> {
    type Values = Vec<Option<[u8; 32]>>;

    fn decode(pages: Pages<'_>) -> Result<Vec<Option<[u8; 32]>>> {
        optional(pages, Some)
    }

    fn decode_foreign(column: ForeignColumn) -> Result<Vec<Option<[u8; 32]>>> {
        column.bytes(|hash| hash.try_into().ok())
    }
}

impl Value for Option<bool> {
    type Values = Vec<Option<bool>>;

    fn decode(pages: Pages<'_>) -> Result<Vec<Option<bool>>> {
        let (mut runs, mut values) = (Vec::new(), with_room(&pages));
        let are = |is_present, rows| runs.push((is_present, rows));
        flags(pages, are, |flag| values.push(Some(flag)))?;
        spread(values, runs)
    }

    fn decode_foreign(column: ForeignColumn) -> Result<Vec<Option<bool>>> {
        column.flags()
    }
}

/// Decodes an optional column.
fn optional<const N: usize, T: Copy>(
    pages: Pages<'_>,
    decode: impl Fn([u8; N]) -> Option<T>,
) -> Result<Vec<Option<T>>> {
    let (mut runs, mut values) = (Vec::new(), with_room(&pages));
    let are = |is_present, rows| runs.push((is_present, rows));
    numbers(pages, decode, are, &mut values)?;
    spread(values, runs)
}

/// Assigns values to the rows that have a value. `runs` has the lengths of runs of rows with and
/// without a value.
fn spread<T: Copy>(values: Vec<Option<T>>, runs: Vec<(bool, usize)>) -> Result<Vec<Option<T>>> {
    if runs.iter().all(|(is_present, _)| *is_present) {
        return Ok(values);
    }
    let (mut all, mut left) = (Vec::with_capacity(values.len()), &values[..]);
    for (is_present, rows) in runs {
        if is_present {
            let some = left.split_off(..rows).ok_or_else(damaged)?;
            all.extend_from_slice(some);
        } else {
            all.extend(std::iter::repeat_n(None, rows));
        }
    }
    Ok(all)
}

/// Creates an empty vector with capacity for all rows. The capacity is limited, because a damaged
/// file may claim any number of rows.
fn with_room<T>(pages: &Pages<'_>) -> Vec<T> {
    Vec::with_capacity(pages.rows.min(GROUP))
}

#[cfg(test)]
mod tests {
    use super::super::schema::descriptor;
    use super::COLUMNS;

    #[test]
    fn columns_are_those_of_the_schema() {
        let descriptor = descriptor().unwrap();
        let names: Vec<_> = descriptor
            .columns()
            .iter()
            .map(|column| column.name().to_owned())
            .collect();
        assert_eq!(names, COLUMNS.each_ref().map(|column| column.name));
    }
}
