//! Writes what was read, in order; settles what becomes of links; and keeps account of what came of each row.

use std::collections::HashMap;

use gate::account::{Function, during};
use walk::{Meta, Type};

use super::member::Names;
use super::output::Output;
use super::plan::{Hashes, Step};
use super::read::{Done, Load, Reader, What};
use super::window::Stopped;
use super::{Counts, Line, Progress, Work};
use crate::catalog::Fault;

/// A map being written.
pub trait Map {
    /// A member more.
    ///
    /// # Errors
    /// It cannot be written.
    fn add(&mut self, line: &Line<'_>) -> Result<(), Fault>;

    /// That was the last: all is to be written now, so that what is wrong shows before the archive has its name.
    ///
    /// # Errors
    /// It cannot be written.
    fn end(&mut self) -> Result<(), Fault>;

    /// The archive has its name: the map is to get its own when it is on the disk. Then the catalog gets its.
    ///
    /// # Errors
    /// It cannot be done.
    fn publish(&mut self) -> Result<(), Fault>;
}

/// What is to be remembered when all is written.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) counts: Counts,
    pub(crate) hashes: Hashes,
    /// Rows that the catalog is to have as something unknown, so that the next increment dumps them; in order.
    pub(crate) missing: Vec<usize>,
    /// Rows that are not what they were when they were gathered.
    pub(crate) amended: Vec<(usize, Meta)>,
}

/// The ordered end of the pipeline.
pub(crate) struct Writer<'a> {
    work: Work<'a>,
    output: &'a mut Output,
    progress: &'a Progress,
    map: Option<&'a mut dyn Map>,
    names: Names<'a>,
    /// For links, once there is one.
    reader: Option<Reader<'a>>,
    /// Rows that others link to, and that did not come into the archive as what they were; and the one that has taken the
    /// place of each since.
    lost: HashMap<usize, Option<usize>>,
    pub(crate) kept: Kept,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(
        work: Work<'a>,
        output: &'a mut Output,
        progress: &'a Progress,
        map: Option<&'a mut dyn Map>,
        hashes: Hashes,
    ) -> Writer<'a> {
        Writer {
            work,
            output,
            progress,
            map,
            names: Names::new(work.rows),
            reader: None,
            lost: HashMap::new(),
            kept: Kept { hashes, ..Kept::default() },
        }
    }

    /// Writes what is in a load, and the link that follows it. Gives back its memory.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn take(&mut self, load: Load) -> Result<Vec<u8>, Fault> {
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

    /// A row that is another name of an earlier one, or else becomes a file of its own.
    fn link(&mut self, row: usize) -> Result<(), Fault> {
        let Step::Link(to) = self.work.plan.step(row) else { return Ok(()) };
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
                Ok(())
            }
            // It may be large: it is written as it comes.
            None => reader.whole(row, &mut load, &mut |load| match self.take(load) {
                Ok(bytes) => Ok(Load::of(Some(bytes))),
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
    fn enter(&mut self, done: Done) -> Result<(), Fault> {
        let Done { row, what, meta } = done;
        let planned = self.work.rows.meta(row);
        let counts = &mut self.kept.counts;
        let is_itself = meta.as_ref().is_none_or(|meta| (meta.dev, meta.ino) == (planned.dev, planned.ino));
        let is_there = match what {
            What::Member(bytes, hash) => {
                counts.bytes += bytes;
                if let Some(hash) = hash {
                    self.kept.hashes.set(row, hash);
                }
                true
            }
            What::Spoiled(bytes) => {
                counts.bytes += bytes;
                self.kept.missing.push(row);
                true
            }
            What::Link => true,
            What::NoMember => false,
            What::Missing => {
                self.kept.missing.push(row);
                false
            }
        };
        if planned.nlink > 1 && !planned.is_dir() {
            self.settle(row, is_there && is_itself);
        }
        if is_there {
            let counts = &mut self.kept.counts;
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
                let line = Line { meta, is_link: what == What::Link, path: &self.names.of(row) };
                during(Function::Map, || map.add(&line))?;
            }
        }
        self.progress.add_entry();
        if let Some(meta) = meta {
            self.kept.amended.push((row, *meta));
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
