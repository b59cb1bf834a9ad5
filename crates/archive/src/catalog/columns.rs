//! The columns of a catalog, each with the type of its values.

use std::marker::PhantomData;

use parquet::column::page::PageReader;
use parquet::errors::Result;
use walk::entry::Time;

use super::column::{Names, damaged, flags, numbers};
use super::output::GROUP;

/// A column, with values of type `V`: an `Option` where a row may have none.
#[derive(Debug)]
pub struct Column<V> {
    pub(super) name: &'static str,
    values: PhantomData<fn() -> V>,
}

impl<V> Clone for Column<V> {
    fn clone(&self) -> Column<V> {
        *self
    }
}

impl<V> Copy for Column<V> {}

/// Two columns that make a time: `name` has the seconds, `name_ns` the nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct TimeColumns<S, N>(pub(super) Column<S>, pub(super) Column<N>);

macro_rules! columns {
    ($($column:ident $name:literal $values:ty,)*) => {
        $(
            #[doc = concat!("The column `", $name, "`.")]
            pub const $column: Column<$values> = Column { name: $name, values: PhantomData };
        )*

        /// Their names.
        #[cfg(test)]
        pub(super) const NAMES: &[&str] = &[$($name),*];
    };
}

columns! {
    PART "part" u32,
    DIR "dir" Names,
    NAME "name" Names,
    INO "ino" u64,
    GENERATION "generation" Option<u32>,
    MODE "mode" u32,
    NLINK "nlink" u32,
    UID "uid" u32,
    GID "gid" u32,
    SIZE "size" u64,
    BLOCKS "blocks" u64,
    ATIME_SEC "atime" i64,
    ATIME_NSEC "atime_ns" u32,
    MTIME_SEC "mtime" i64,
    MTIME_NSEC "mtime_ns" u32,
    CTIME_SEC "ctime" i64,
    CTIME_NSEC "ctime_ns" u32,
    BTIME_SEC "btime" Option<i64>,
    BTIME_NSEC "btime_ns" Option<u32>,
    RDEV_MAJOR "rdev_major" u32,
    RDEV_MINOR "rdev_minor" u32,
    DEV_MAJOR "dev_major" u32,
    DEV_MINOR "dev_minor" u32,
    ATTRIBUTES "attributes" u64,
    XATTRS "xattrs" Option<bool>,
    TOP "top" u32,
    BLAKE3 "blake3" Option<[u8; 32]>,
}

/// Time of the last access.
pub const ATIME: TimeColumns<i64, u32> = TimeColumns(ATIME_SEC, ATIME_NSEC);
/// Time of the last change of the contents.
pub const MTIME: TimeColumns<i64, u32> = TimeColumns(MTIME_SEC, MTIME_NSEC);
/// Time of the last change of the inode.
pub const CTIME: TimeColumns<i64, u32> = TimeColumns(CTIME_SEC, CTIME_NSEC);
/// Time of creation, where the file system has one.
pub const BTIME: TimeColumns<Option<i64>, Option<u32>> = TimeColumns(BTIME_SEC, BTIME_NSEC);

/// The times of the rows of a row group.
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
    /// The time of a row, if it has one.
    #[inline]
    pub fn at(&self, row: usize) -> Option<Time> {
        let (sec, nsec) = (self.secs[row]?, self.nsecs[row]?);
        Some(Time { sec, nsec })
    }
}

/// The pages of a column of a row group.
pub struct Pages<'a> {
    pub(super) pages: &'a mut dyn PageReader,
    pub(super) rows: usize,
    pub(super) is_optional: bool,
}

/// What a column can have values of.
pub trait Value: Sized {
    /// The values of a row group, by row.
    type Values;

    /// Decodes them; gives how many there are, too.
    #[doc(hidden)]
    fn decode(pages: Pages<'_>) -> Result<(Self::Values, usize)>;
}

impl Value for Names {
    type Values = Names;

    fn decode(pages: Pages<'_>) -> Result<(Names, usize)> {
        let names = Names::read(pages.pages, pages.rows)?;
        let len = names.len();
        Ok((names, len))
    }
}

macro_rules! number {
    ($($type:ty)*) => {
        $(
            impl Value for $type {
                type Values = Vec<$type>;

                fn decode(pages: Pages<'_>) -> Result<(Vec<$type>, usize)> {
                    let mut all = room(pages.rows);
                    let Pages { pages, rows, is_optional } = pages;
                    let of = <$type>::from_le_bytes;
                    numbers(pages, rows, is_optional, of, |_, _| {}, &mut all)?;
                    let len = all.len();
                    Ok((all, len))
                }
            }

            impl Value for Option<$type> {
                type Values = Vec<Option<$type>>;

                fn decode(pages: Pages<'_>) -> Result<(Vec<Option<$type>>, usize)> {
                    optional(pages, |bytes| Some(<$type>::from_le_bytes(bytes)))
                }
            }
        )*
    };
}

number!(u32 u64 i64);

impl Value for Option<[u8; 32]> {
    type Values = Vec<Option<[u8; 32]>>;

    fn decode(pages: Pages<'_>) -> Result<(Vec<Option<[u8; 32]>>, usize)> {
        optional(pages, Some)
    }
}

impl Value for Option<bool> {
    type Values = Vec<Option<bool>>;

    fn decode(pages: Pages<'_>) -> Result<(Vec<Option<bool>>, usize)> {
        let (mut present, mut values) = (Vec::new(), room(pages.rows));
        flags(
            pages.pages,
            pages.rows,
            pages.is_optional,
            |is_present, rows| present.push((is_present, rows)),
            |flag| values.push(Some(flag)),
        )?;
        spread(values, present)
    }
}

/// Decodes a column in which rows may have no value.
fn optional<const N: usize, T: Copy>(
    pages: Pages<'_>,
    of: impl Fn([u8; N]) -> Option<T>,
) -> Result<(Vec<Option<T>>, usize)> {
    let (mut present, mut values) = (Vec::new(), room(pages.rows));
    numbers(
        pages.pages,
        pages.rows,
        pages.is_optional,
        of,
        |is_present, rows| present.push((is_present, rows)),
        &mut values,
    )?;
    spread(values, present)
}

/// Puts values into the rows that have one, by runs of rows that have one or none.
fn spread<T: Copy>(
    values: Vec<Option<T>>,
    present: Vec<(bool, usize)>,
) -> Result<(Vec<Option<T>>, usize)> {
    if present.iter().all(|(is_present, _)| *is_present) {
        let len = values.len();
        return Ok((values, len));
    }
    let (mut all, mut left) = (Vec::with_capacity(values.len()), &values[..]);
    for (is_present, rows) in present {
        if is_present {
            let (some, later) = left.split_at_checked(rows).ok_or_else(damaged)?;
            all.extend_from_slice(some);
            left = later;
        } else {
            all.extend(std::iter::repeat_n(None, rows));
        }
    }
    let len = all.len();
    Ok((all, len))
}

/// Room for the values of a row group. The number of rows is not to be trusted yet.
fn room<T>(rows: usize) -> Vec<T> {
    Vec::with_capacity(rows.min(GROUP))
}

#[cfg(test)]
mod tests {
    use super::super::schema::COLUMNS;
    use super::*;

    #[test]
    fn every_column_of_the_schema_has_a_type() {
        assert_eq!(NAMES, COLUMNS.each_ref().map(|column| column.name));
    }
}
