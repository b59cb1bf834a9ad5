//! What a catalog is to say of rows besides what was gathered.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use gate::sync::Mutex;
use walk::{Meta, Type};

use super::settled::{Portion, Settled};
use crate::catalog::Later;
use crate::error::{Action, Error, ErrorKind};
use crate::increment::Base;
use crate::plan::{Plan, Step};
use crate::rows::Rows;

/// What a catalog is to say of rows besides what was gathered.
pub(super) struct Known<'a> {
    rows: &'a Rows,
    plan: &'a Plan,
    base: Option<&'a Base>,
    pub(super) settled: Settled,
    /// Whether there is a file whose checksum is not known.
    pub(super) lacks: AtomicBool,
    /// What was wrong with the base.
    error: Mutex<Option<Error>>,
}

impl<'a> Known<'a> {
    pub(super) fn new(rows: &'a Rows, plan: &'a Plan, base: Option<&'a Base>) -> Known<'a> {
        let (settled, lacks, error) = (
            Settled::new(rows.len()),
            AtomicBool::new(false),
            Mutex::default(),
        );
        Known {
            rows,
            plan,
            base,
            settled,
            lacks,
            error,
        }
    }

    pub(super) fn error(&self) -> Option<Error> {
        self.error.lock().clone()
    }

    /// Of the rows of a row group, when what becomes of them is settled.
    ///
    /// # Errors
    /// The base cannot be read, or nothing more will be settled.
    pub(super) fn later(&self, rows: Range<usize>) -> Result<Later, Error> {
        let Some(portion) = self.settled.take(rows.start) else {
            // The writer of the archive reports its own error.
            return Err(Error::new(Action::WriteCatalog, b"", ErrorKind::Stopped));
        };
        let hashes = self.hashes(rows.clone(), &portion);
        if let Err(error) = &hashes {
            self.error.lock().get_or_insert(error.clone());
        }
        self.settled.use_up();
        let mut amended: HashMap<usize, Meta> = portion.amended.into_iter().collect();
        // What the archive lacks has been told of in it, and an older copy may be left where it is
        // restored: so there is something there, but no file that it could be taken for.
        for row in portion.missing.into_iter().chain(self.plan.blind(rows)) {
            let meta = amended.entry(row).or_insert_with(|| self.rows.meta(row));
            *meta = Meta {
                ino: 0,
                generation: None,
                btime: None,
                ..*meta
            };
        }
        Ok(Later {
            hashes: hashes?,
            amended,
        })
    }

    /// The checksums of what has been dumped, and of what is kept.
    fn hashes(
        &self,
        rows: Range<usize>,
        portion: &Portion,
    ) -> Result<Vec<Option<[u8; 32]>>, Error> {
        let mut hashes = vec![None; rows.len()];
        for (row, hash) in &portion.hashes {
            hashes[row - rows.start] = Some(*hash);
        }
        if let Some(base) = self.base {
            let mut wanted = Vec::new();
            for (nth, row) in rows.clone().enumerate() {
                let as_row = match self.plan.step(row) {
                    Step::Unchanged => row,
                    Step::Link(to)
                        if hashes[nth].is_none() && self.plan.step(to) == Step::Unchanged =>
                    {
                        to
                    }
                    _ => continue,
                };
                let old = self
                    .plan
                    .kept_as
                    .get(as_row)
                    .and_then(|old| old.checked_sub(1));
                wanted.extend(old.map(|old| (old, nth)));
            }
            base.hashes(wanted, |nth, hash| hashes[nth] = Some(hash))?;
        }
        let lacks = |(row, hash): (usize, &Option<_>)| {
            hash.is_none()
                && self.plan.step(row) == Step::Unchanged
                && self.rows.kind(row) == Type::File
        };
        if rows.zip(&hashes).any(lacks) {
            self.lacks.store(true, Relaxed);
        }
        Ok(hashes)
    }
}
