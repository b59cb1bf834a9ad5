//! Results of a dump that a new catalog records beside the collected metadata: checksums, changes,
//! failures.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use catalog::RowUpdates;
use catalog::rows::Rows;
use gate::sync::Mutex;
use walk::{FileType, Meta};

use super::results::RowGroupResults;
use crate::increment::Base;
use crate::plan::{Plan, PlanStep};

/// Completes the rows of a new catalog with checksums, changes and failures.
pub(super) struct CatalogUpdates<'a> {
    pub(super) rows: &'a Rows,
    pub(super) plan: &'a Plan,
    pub(super) base: Option<&'a Base>,
    /// Set if the checksum of a file is unknown.
    pub(super) misses_checksums: AtomicBool,
    /// Why the base could not be read.
    pub(super) error: Mutex<Option<catalog::Error>>,
}

impl CatalogUpdates<'_> {
    /// Converts the results of some rows to updates of the catalog.
    ///
    /// # Errors
    /// The base cannot be read.
    pub(super) fn for_rows(
        &self,
        rows: Range<usize>,
        group: RowGroupResults,
    ) -> Result<RowUpdates, catalog::Error> {
        let hashes = self.hashes(rows.clone(), &group);
        if let Err(error) = &hashes {
            self.error.lock().get_or_insert(error.clone());
        }
        let mut amended: HashMap<usize, Meta> = group.amended.into_iter().collect();
        // The archive's directory lists name a row that failed, and a restore may keep an older
        // copy of the file. So the catalog has an entry for the row, with an identity that no file
        // matches.
        for row in group.missing.into_iter().chain(self.plan.blind_of(rows)) {
            let meta = amended.entry(row).or_insert_with(|| self.rows.meta(row));
            *meta = Meta {
                ino: 0,
                generation: None,
                btime: None,
                ..*meta
            };
        }
        Ok(RowUpdates {
            hashes: hashes?,
            amended,
        })
    }

    /// Checksums of dumped files, and of unchanged ones from the base.
    fn hashes(
        &self,
        rows: Range<usize>,
        group: &RowGroupResults,
    ) -> Result<Vec<Option<[u8; 32]>>, catalog::Error> {
        let mut hashes = vec![None; rows.len()];
        for (row, hash) in &group.hashes {
            hashes[row - rows.start] = Some(*hash);
        }
        if let Some(base) = self.base {
            let mut wanted = Vec::new();
            for (nth, row) in rows.clone().enumerate() {
                let target = self.plan.target(row);
                if hashes[nth].is_none() && self.plan.step(target) == PlanStep::Unchanged {
                    let old = self.plan.kept_as.get(target);
                    let old = old.and_then(|old| old.checked_sub(1));
                    wanted.extend(old.map(|old| (old, nth)));
                }
            }
            base.hashes(wanted, |nth, hash| hashes[nth] = Some(hash))?;
        }
        let misses_checksums = |(row, hash): (usize, &Option<_>)| {
            let is_unchanged = self.plan.step(row) == PlanStep::Unchanged;
            hash.is_none() && is_unchanged && self.rows.kind(row) == FileType::Regular
        };
        if rows.zip(&hashes).any(misses_checksums) {
            self.misses_checksums.store(true, Relaxed);
        }
        Ok(hashes)
    }
}
