//! What a catalog is to say of rows besides what was gathered.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use gate::sync::Mutex;
use walk::{Meta, Type};

use super::plan::{Plan, Step};
use super::settled::{Portion, Settled};
use crate::catalog::{Fault, Later};
use crate::increment::Base;
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
    fault: Mutex<Option<Fault>>,
}

impl<'a> Known<'a> {
    pub(super) fn new(rows: &'a Rows, plan: &'a Plan, base: Option<&'a Base>) -> Known<'a> {
        let (settled, lacks, fault) = (
            Settled::of(rows.len()),
            AtomicBool::new(false),
            Mutex::default(),
        );
        Known {
            rows,
            plan,
            base,
            settled,
            lacks,
            fault,
        }
    }

    pub(super) fn fault(&self) -> Option<Fault> {
        self.fault.lock().clone()
    }

    /// Of the rows of a row group, when what becomes of them is settled.
    ///
    /// # Errors
    /// The base cannot be read, or nothing more will be settled.
    pub(super) fn of(&self, rows: Range<usize>) -> Result<Later, Fault> {
        let Some(portion) = self.settled.take(rows.start) else {
            // Why, the other one tells.
            return Err(Fault {
                doing: "cannot write catalog",
                path: Vec::new(),
                error: String::new(),
                next: "",
            });
        };
        let hashes = self.hashes(rows.clone(), &portion);
        if let Err(fault) = &hashes {
            self.fault.lock().get_or_insert(fault.clone());
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
    ) -> Result<Vec<Option<[u8; 32]>>, Fault> {
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
