//! The columns of a row group, each of which is read on first use.

use std::cell::OnceCell;

use ondisk::Dev;
use walk::{Fields, Meta};

use super::column::Names;
use super::columns::{
    ATIME, ATTRIBUTES, BLOCKS, BTIME, CTIME, DEV_MAJOR, DEV_MINOR, DIR, GENERATION, GID, INO, MODE,
    MTIME, NAME, NLINK, RDEV_MAJOR, RDEV_MINOR, SIZE, TOP, Times, UID, XATTRS,
};
use super::read::Reader;
use crate::error::Error;

/// A row group, with a cache of its columns.
pub struct RowColumns<'a> {
    reader: &'a Reader,
    group: usize,
    cells: ColumnCells,
}

/// Defines accessors that read a column on first use.
macro_rules! lazy {
    ($($name:ident $column:ident $values:ty;)*) => {
        #[derive(Default)]
        struct ColumnCells {
            $($name: OnceCell<$values>,)*
        }

        impl RowColumns<'_> {
            $(
                pub(crate) fn $name(&self) -> Result<&$values, Error> {
                    let cell = &self.cells.$name;
                    if cell.get().is_none() {
                        let values = self.reader.read($column, self.group)?;
                        let _ = cell.set(values); // cannot fail on an empty cell
                    }
                    Ok(cell.get_or_init(|| unreachable!("it was set")))
                }
            )*
        }
    };
}

lazy! {
    inos INO Vec<u64>;
    modes MODE Vec<u32>;
    nlinks NLINK Vec<u32>;
    uids UID Vec<u32>;
    gids GID Vec<u32>;
    sizes SIZE Vec<u64>;
    blocks BLOCKS Vec<u64>;
    atimes ATIME Times<i64, u32>;
    mtimes MTIME Times<i64, u32>;
    ctimes CTIME Times<i64, u32>;
    btimes BTIME Times<Option<i64>, Option<u32>>;
    rdev_majors RDEV_MAJOR Vec<u32>;
    rdev_minors RDEV_MINOR Vec<u32>;
    dev_majors DEV_MAJOR Vec<u32>;
    dev_minors DEV_MINOR Vec<u32>;
    attributes ATTRIBUTES Vec<u64>;
    generations GENERATION Vec<Option<u32>>;
    xattrs XATTRS Vec<Option<bool>>;
    dirs DIR Names;
    names NAME Names;
    tops TOP Vec<u32>;
}

impl<'a> RowColumns<'a> {
    /// No column is read before it is used.
    pub fn new(reader: &'a Reader, group: usize) -> RowColumns<'a> {
        RowColumns {
            reader,
            group,
            cells: ColumnCells::default(),
        }
    }

    /// Returns a function for the metadata of rows, with only the requested fields, and without
    /// mount id and device number: a catalog has no mount ids, and device numbers may have been
    /// reassigned since the walk.
    ///
    /// # Errors
    /// A column cannot be read, or is damaged.
    pub fn metas(&self, fields: Fields) -> Result<impl Fn(usize) -> Meta + use<'_>, Error> {
        macro_rules! wanted {
            ($fields:expr, $column:ident) => {
                fields
                    .intersects($fields)
                    .then(|| self.$column())
                    .transpose()?
            };
        }
        let modes = wanted!(Fields::MODE | Fields::TYPE, modes);
        let nlinks = wanted!(Fields::NLINK, nlinks);
        let (uids, gids) = (wanted!(Fields::UID, uids), wanted!(Fields::GID, gids));
        let atimes = wanted!(Fields::ATIME, atimes);
        let mtimes = wanted!(Fields::MTIME, mtimes);
        let ctimes = wanted!(Fields::CTIME, ctimes);
        let btimes = wanted!(Fields::BTIME, btimes);
        let sizes = wanted!(Fields::SIZE, sizes);
        let blocks = wanted!(Fields::BLOCKS, blocks);
        let inos = wanted!(Fields::INODE, inos);
        let rdev_majors = wanted!(Fields::REST, rdev_majors);
        let rdev_minors = wanted!(Fields::REST, rdev_minors);
        let attributes = wanted!(Fields::REST, attributes);
        let generations = wanted!(Fields::REST, generations);
        let xattrs = wanted!(Fields::REST, xattrs);
        fn at<T: Copy + Default>(column: Option<&Vec<T>>, row: usize) -> T {
            column.map_or(T::default(), |column| column[row])
        }
        Ok(move |row: usize| Meta {
            ino: at(inos, row),
            mode: at(modes, row),
            nlink: at(nlinks, row),
            uid: at(uids, row),
            gid: at(gids, row),
            size: at(sizes, row),
            blocks: at(blocks, row),
            atime: atimes.map_or(Default::default(), |times| times.at(row)),
            mtime: mtimes.map_or(Default::default(), |times| times.at(row)),
            ctime: ctimes.map_or(Default::default(), |times| times.at(row)),
            btime: btimes.and_then(|times| times.at(row)),
            rdev: Dev::new(at(rdev_majors, row), at(rdev_minors, row)),
            dev: Dev::default(),
            mount: 0,
            attributes: at(attributes, row),
            generation: at(generations, row),
            xattrs: at(xattrs, row),
        })
    }
}
