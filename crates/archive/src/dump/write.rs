//! Writes what was read, in order; settles what becomes of links; and keeps account of what came of
//! each row.

use std::collections::HashMap;

use crate::attribution::{Function, with_function};
use walk::Type;

use super::load::{Done, Load, Stopped, What};
use super::member::Names;
use super::options::{Counts, Line, Map};
use super::output::Output;
use super::progress::Progress;
use super::read::Reader;
use super::settled::Settling;
use super::work::Work;
use crate::error::Error;
use crate::plan::Step;

/// The ordered end of the pipeline.
pub(crate) struct Writer<'a> {
    work: Work<'a>,
    output: &'a mut Output,
    progress: &'a Progress,
    map: Option<&'a mut dyn Map>,
    names: Names<'a>,
    /// For links, once there is one.
    reader: Option<Reader<'a>>,
    /// Rows that others link to, and that did not come into the archive as what they were; and the
    /// one that has taken the place of each since.
    lost: HashMap<usize, Option<usize>>,
    /// The checksums of files that may have other names.
    linked: HashMap<usize, [u8; 32]>,
    /// For the catalog, if there is to be one.
    settling: Option<Settling<'a>>,
    pub(crate) counts: Counts,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(
        work: Work<'a>,
        output: &'a mut Output,
        progress: &'a Progress,
        map: Option<&'a mut dyn Map>,
        settling: Option<Settling<'a>>,
    ) -> Writer<'a> {
        Writer {
            work,
            output,
            progress,
            map,
            names: Names::new(work.rows),
            reader: None,
            lost: HashMap::new(),
            linked: HashMap::new(),
            settling,
            counts: Counts::default(),
        }
    }

    /// Writes what is in a load, and the link that follows it. Gives back its memory.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn take(&mut self, load: Load) -> Result<Vec<u8>, Error> {
        self.output.write(&load.bytes)?;
        self.progress.add_bytes(load.bytes.len() as u64);
        for done in load.done {
            self.enter(done)?;
        }
        if let Some(row) = load.link {
            self.link(row)?;
        }
        Ok(load.bytes)
    }

    /// All rows have been written, as far as they are to be.
    ///
    /// # Errors
    /// The map cannot be written.
    pub(crate) fn finish(self) -> Result<Counts, Error> {
        if let Some(settling) = self.settling {
            settling.finish();
        }
        self.map
            .map_or(Ok(()), |map| with_function(Function::Map, || map.end()))?;
        Ok(self.counts)
    }

    /// A row that is another name of an earlier one, or else becomes a file of its own.
    fn link(&mut self, row: usize) -> Result<(), Error> {
        let Step::Link(to) = self.work.plan.step(row) else {
            return Ok(());
        };
        let to = match self.lost.get(&to) {
            None => Some(to),
            Some(instead) => *instead,
        };
        let mut reader = self.reader.take().unwrap_or_else(|| Reader::new(self.work));
        let mut load = Load::default();
        let mut failed = None;
        let done = match to {
            Some(to) => {
                reader.link(row, to, &mut load);
                if let (Some(settling), Some(hash)) = (&mut self.settling, self.linked.get(&to)) {
                    settling.at(row).hashes.push((row, *hash));
                }
                Ok(())
            }
            // It may be large: it is written as it comes.
            None => reader.whole(row, &mut load, &mut |load| match self.take(load) {
                Ok(bytes) => Ok(Load::reuse(Some(bytes))),
                Err(e) => {
                    failed = Some(e);
                    Err(Stopped)
                }
            }),
        };
        self.reader = Some(reader);
        match (done, failed) {
            (_, Some(e)) => Err(e),
            _ => self.take(load).map(drop),
        }
    }

    /// Keeps what came of a row.
    fn enter(&mut self, done: Done) -> Result<(), Error> {
        let Done { row, what, meta } = done;
        let planned = self.work.rows.meta(row);
        let is_itself = meta
            .as_ref()
            .is_none_or(|meta| (meta.dev, meta.ino) == (planned.dev, planned.ino));
        let (is_there, hash) = match what {
            What::Member(bytes, hash) => {
                self.counts.bytes += bytes;
                (true, hash)
            }
            What::Spoiled(bytes) => {
                self.counts.bytes += bytes;
                (true, None)
            }
            What::Link => (true, None),
            What::NoMember | What::Missing => (false, None),
        };
        if planned.nlink > 1 && !planned.is_dir() {
            self.settle(row, is_there && is_itself);
            self.linked.extend(hash.map(|hash| (row, hash)));
        }
        if is_there {
            let counts = &mut self.counts;
            counts.dumped += 1;
            *match planned.kind() {
                _ if what == What::Link => &mut counts.links,
                Type::File => &mut counts.files,
                Type::Directory => &mut counts.directories,
                Type::Symlink => &mut counts.symlinks,
                _ => &mut counts.other,
            } += 1;
            if let Some(map) = &mut self.map {
                let meta = meta.as_deref().unwrap_or(&planned);
                let line = Line {
                    meta,
                    is_link: what == What::Link,
                    path: &self.names.name(row),
                };
                with_function(Function::Map, || map.add(&line))?;
            }
        }
        self.progress.add_entry();
        if let Some(settling) = &mut self.settling {
            let portion = settling.at(row);
            portion.hashes.extend(hash.map(|hash| (row, hash)));
            portion.amended.extend(meta.map(|meta| (row, *meta)));
            portion
                .missing
                .extend(matches!(what, What::Spoiled(_) | What::Missing).then_some(row));
        }
        Ok(())
    }

    /// What came of a file with several names, under one of them.
    fn settle(&mut self, row: usize, is_itself: bool) {
        match self.work.plan.step(row) {
            Step::Whole if !is_itself => drop(self.lost.insert(row, None)),
            Step::Link(to) if is_itself => {
                if let Some(instead) = self.lost.get_mut(&to) {
                    instead.get_or_insert(row);
                }
            }
            _ => {}
        }
    }
}
