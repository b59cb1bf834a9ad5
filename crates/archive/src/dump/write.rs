//! Writes archive chunks in order, resolves hard links, and records the outcome of each row.

use std::collections::HashMap;

use gate::attribution::{Function, with_function};

use super::load::{ArchiveChunk, DumpInput, DumpedRow, RowOutcome, WriterStopped};
use super::member::MemberNames;
use super::options::{Counts, Line, Map};
use super::output::Output;
use super::progress::Progress;
use super::read::MemberReader;
use super::results::ResultSender;
use crate::error::Error;
use crate::plan::PlanStep;

/// Writes the archive: the ordered end of the pipeline.
pub(crate) struct ArchiveWriter<'a> {
    work: DumpInput<'a>,
    output: &'a mut Output,
    progress: &'a Progress,
    map: Option<&'a mut dyn Map>,
    names: MemberNames<'a>,
    /// Reads the file of a hard link that must be dumped with its contents.
    reader: Option<MemberReader<'a>>,
    /// Targets of hard links that were not dumped as planned, each with the name that was dumped
    /// with the contents instead.
    lost: HashMap<usize, Option<usize>>,
    /// Checksums of files with several hard links.
    linked: HashMap<usize, [u8; 32]>,
    /// Results for the catalog, if one is written.
    results: Option<ResultSender>,
    counts: Counts,
}

impl<'a> ArchiveWriter<'a> {
    pub(crate) fn new(
        work: DumpInput<'a>,
        output: &'a mut Output,
        progress: &'a Progress,
        map: Option<&'a mut dyn Map>,
        results: Option<ResultSender>,
    ) -> ArchiveWriter<'a> {
        ArchiveWriter {
            work,
            output,
            progress,
            map,
            names: MemberNames::new(work.rows),
            reader: None,
            lost: HashMap::new(),
            linked: HashMap::new(),
            results,
            counts: Counts::default(),
        }
    }

    /// Writes an archive chunk and the hard link after it, and returns the chunk's buffer.
    pub(crate) fn take(&mut self, load: ArchiveChunk) -> Result<Vec<u8>, Error> {
        for &(row, after) in &load.begun {
            let is_source = self.work.rows.parent(row).is_none();
            let name = || self.names.name(row);
            self.output.note_member(after, is_source, name);
        }
        self.output.write(&load.bytes)?;
        self.progress.add_bytes(load.bytes.len() as u64);
        for done in load.done {
            self.record(done)?;
        }
        if let Some(row) = load.link {
            self.write_link(row)?;
        }
        Ok(load.bytes)
    }

    /// After the last chunk: sends the remaining results, and ends the map (the list of members).
    pub(crate) fn finish(self) -> Result<Counts, Error> {
        if let Some(results) = self.results {
            results.finish();
        }
        if let Some(map) = self.map {
            with_function(Function::Map, || map.end())?;
        }
        Ok(self.counts)
    }

    /// Writes a hard link, or the file itself if the target was not dumped.
    fn write_link(&mut self, row: usize) -> Result<(), Error> {
        let target = self.work.plan.target(row);
        let target = match self.lost.get(&target) {
            None => Some(target),
            Some(instead) => *instead,
        };
        let mut reader = self
            .reader
            .take()
            .unwrap_or_else(|| MemberReader::new(self.work));
        let mut load = ArchiveChunk::default();
        let mut failed = None;
        match target {
            Some(target) => {
                reader.put_link(row, target, &mut load);
                if let (Some(results), Some(hash)) = (&mut self.results, self.linked.get(&target)) {
                    results.at(row).hashes.push((row, *hash));
                }
            }
            None => {
                let mut emit = |load| {
                    self.take(load).map(ArchiveChunk::reuse).map_err(|e| {
                        failed = Some(e);
                        WriterStopped
                    })
                };
                // The closure keeps the error in `failed`, which is checked below.
                let _ = reader.put_whole(row, &mut load, &mut emit);
            }
        }
        self.reader = Some(reader);
        match failed {
            Some(e) => Err(e),
            None => self.take(load).map(drop),
        }
    }

    fn record(&mut self, done: DumpedRow) -> Result<(), Error> {
        let DumpedRow { row, outcome, meta } = done;
        let planned = self.work.rows.meta(row);
        let now = meta.as_deref().unwrap_or(&planned);
        let is_same_file = (now.dev, now.ino) == (planned.dev, planned.ino);
        let (bytes, is_there, hash) = match outcome {
            RowOutcome::Member(bytes, hash) => (bytes, true, hash),
            RowOutcome::Spoiled(bytes) => (bytes, true, None),
            RowOutcome::Link => (0, true, None),
            RowOutcome::NoMember | RowOutcome::Missing => (0, false, None),
        };
        if planned.nlink > 1 && !planned.is_dir() {
            self.record_name(row, is_there && is_same_file);
            self.linked.extend(hash.map(|hash| (row, hash)));
        }
        if is_there {
            let is_link = outcome == RowOutcome::Link;
            self.counts.add(planned.kind(), is_link, bytes);
            if let Some(map) = &mut self.map {
                let line = Line {
                    meta: now,
                    is_link,
                    path: &self.names.name(row),
                };
                with_function(Function::Map, || map.add(&line))?;
            }
        }
        self.progress.add_entry();
        if let Some(results) = &mut self.results {
            let is_missing = matches!(outcome, RowOutcome::Spoiled(_) | RowOutcome::Missing);
            let group = results.at(row);
            group.hashes.extend(hash.map(|hash| (row, hash)));
            group.amended.extend(meta.map(|meta| (row, *meta)));
            group.missing.extend(is_missing.then_some(row));
        }
        Ok(())
    }

    /// Records whether one name of a file with several hard links was dumped as planned.
    fn record_name(&mut self, row: usize, is_as_planned: bool) {
        match self.work.plan.step(row) {
            PlanStep::Whole if !is_as_planned => drop(self.lost.insert(row, None)),
            PlanStep::Link if is_as_planned => {
                if let Some(instead) = self.lost.get_mut(&self.work.plan.target(row)) {
                    instead.get_or_insert(row);
                }
            }
            _ => {}
        }
    }
}
