//! Adds the rows of a row group to the sums of groups, column by column.

use std::borrow::Cow;

use walk::FileType;
use walk::entry::append;
use walk::group::{
    Adder, GroupBy, GroupSums, LinkedFile, ancestor, bucket, extension, size_bucket,
};
use walk::predicate::test::TimeField;
use walk::predicate::{Predicates, base_name};

use super::group::{InodeColumns, RowGroup, depth, is_linked};
use crate::error::Error;

/// Selected rows of a row group, with the columns that every grouping needs.
struct SelectedRows<'a> {
    rows: &'a [usize],
    sizes: &'a [u64],
    blocks: &'a [u64],
    modes: &'a [u32],
    nlinks: &'a [u32],
    /// Device and inode numbers, read only if some row is a hard link.
    files: Option<InodeColumns<'a>>,
}

impl SelectedRows<'_> {
    #[inline]
    fn at(&self, row: usize) -> GroupSums {
        GroupSums::from_entry(self.sizes[row], self.blocks[row])
    }

    #[inline]
    fn file(&self, row: usize) -> Option<LinkedFile> {
        let files = self.files.as_ref()?;
        is_linked(self.modes[row], self.nlinks[row]).then(|| files.at(row))
    }

    fn add_by(&self, adder: &mut Adder<'_>, number: impl Fn(usize) -> u64) {
        let rows = self.rows.iter();
        adder.add_numbers(rows.map(|&row| (number(row), self.file(row), self.at(row))));
    }
}

impl RowGroup<'_> {
    /// Adds the selected rows to the sums of their groups.
    pub(super) fn add_up(
        &self,
        predicates: &Predicates,
        by: GroupBy,
        adder: &mut Adder<'_>,
    ) -> Result<(), Error> {
        let rows = self.select(predicates)?;
        if rows.is_empty() {
            return Ok(());
        }
        let (modes, nlinks) = (self.columns.modes()?, self.columns.nlinks()?);
        let has_links = rows.iter().any(|&row| is_linked(modes[row], nlinks[row]));
        let sums = SelectedRows {
            rows: &rows,
            sizes: self.columns.sizes()?,
            blocks: self.columns.blocks()?,
            modes,
            nlinks,
            files: has_links.then(|| self.files()).transpose()?,
        };
        match by {
            GroupBy::Owner => {
                let uids = self.columns.uids()?;
                sums.add_by(adder, |row| uids[row].into());
            }
            GroupBy::Group => {
                let gids = self.columns.gids()?;
                sums.add_by(adder, |row| gids[row].into());
            }
            GroupBy::Type => sums.add_by(adder, |row| FileType::from_mode(modes[row]) as u64),
            GroupBy::Size => sums.add_by(adder, |row| size_bucket(sums.sizes[row])),
            GroupBy::Links => sums.add_by(adder, |row| nlinks[row].into()),
            GroupBy::Age(TimeField::Btime, now) => {
                let times = self.columns.btimes()?;
                sums.add_by(adder, |row| bucket(times.at(row), now));
            }
            GroupBy::Age(field, now) => {
                let times = self.times(field)?;
                sums.add_by(adder, |row| bucket(Some(times.at(row)), now));
            }
            GroupBy::Ext => self.add_by_extension(&sums, adder)?,
            GroupBy::Dir(most) => self.add_by_directory(most, &sums, adder)?,
        }
        Ok(())
    }

    fn add_by_extension(
        &self,
        sums: &SelectedRows<'_>,
        adder: &mut Adder<'_>,
    ) -> Result<(), Error> {
        let names = self.columns.names()?;
        // Consecutive entries mostly have the same extension, so add them up before the lookup.
        let (mut last, mut pending) = (Cow::Borrowed(&b""[..]), GroupSums::default());
        for &row in sums.rows {
            let name = match &names[row] {
                b"" => base_name(self.root_of(row)?),
                name => name,
            };
            let key = extension(name);
            if let Some(file) = sums.file(row) {
                adder.add_link(&key, file, sums.at(row));
                continue;
            }
            if key != last {
                adder.add_name(&last, std::mem::take(&mut pending));
                last = key;
            }
            pending.add(sums.at(row));
        }
        adder.add_name(&last, pending);
        Ok(())
    }

    /// Groups entries by directory path, cut to a depth of `most`. A directory counts for its own
    /// path, any other entry for its parent's.
    fn add_by_directory(
        &self,
        most: u32,
        sums: &SelectedRows<'_>,
        adder: &mut Adder<'_>,
    ) -> Result<(), Error> {
        let dirs = self.columns.dirs()?;
        let (mut path, mut last, mut pending) = (Vec::new(), Vec::new(), GroupSums::default());
        let mut left = sums.rows;
        while let Some(&first) = left.first() {
            let (top, depth) = (self.top(first)?, depth(&dirs[first]));
            let mut len = 0;
            while let Some(&row) = left.get(len)
                && dirs.are_same(first, row)
                && self.top(row)? == top
            {
                len += 1;
            }
            let some = left.split_off(..len).unwrap_or_default();
            self.directory(first, &mut path)?;
            let above = ancestor(&path, depth.saturating_sub(most));
            if above != last {
                adder.add_name(&last, std::mem::take(&mut pending));
                last.clear();
                last.extend_from_slice(above);
            }
            let mut own = Vec::new();
            for &row in some {
                let is_directory = FileType::from_mode(sums.modes[row]) == FileType::Directory;
                if is_directory && depth < most && !self.columns.names()?[row].is_empty() {
                    own.clear();
                    own.extend_from_slice(&path);
                    append(&mut own, &self.columns.names()?[row]);
                    adder.add_name(&own, sums.at(row));
                } else if let Some(file) = sums.file(row) {
                    adder.add_link(&last, file, sums.at(row));
                } else {
                    pending.add(sums.at(row));
                }
            }
        }
        adder.add_name(&last, pending);
        Ok(())
    }
}
