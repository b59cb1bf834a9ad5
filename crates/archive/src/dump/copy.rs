//! Reads and writes the planned entries: one thread writes the archive, and the others read ahead
//! of it.

use std::thread::Builder;

use base::pool::OnPanic;
use catalog::rows::Rows;
use gate::attribution::{self, CallSubject, Function, with_function, with_subject};
use gate::machine::processors;
use gate::meter::spawn_scoped;
use gate::process::spare_open_files;
use walk::Diagnostics;

use super::load::{ArchiveChunk, DumpInput, WriterStopped};
use super::options::{Counts, Map};
use super::output::Output;
use super::places::MOST;
use super::progress::Progress;
use super::read::MemberReader;
use super::results::ResultSender;
use super::users::Users;
use super::window::Window;
use super::write::ArchiveWriter;
use crate::error::Error;
use crate::plan::Plan;

/// The input of a copy: the rows, the plan of an archive, and options.
pub(super) struct Copy<'a> {
    pub(super) rows: &'a Rows,
    pub(super) plan: &'a Plan,
    pub(super) diagnostics: &'a Diagnostics,
    pub(super) progress: &'a Progress,
    /// Number of threads; `None` for one per processor.
    pub(super) threads: Option<usize>,
}

impl Copy<'_> {
    /// Copies all planned entries into the archive. A single thread reads and writes in turns.
    pub(super) fn write(
        &self,
        output: &mut Output,
        map: Option<&mut (dyn Map + 'static)>,
        results: Option<ResultSender>,
    ) -> Result<Counts, Error> {
        attribution::set_phase(Function::Write);
        // For a dump in several slices (pieces), `DumpShare::begin` has already set the progress
        // totals of all slices.
        if self.progress.done().is_none() {
            self.progress.begin(self.rows, self.plan, |_| true);
        }
        let (readers, open_directories) = share_open_files(self.threads.unwrap_or_else(processors));
        let work = DumpInput {
            rows: self.rows,
            plan: self.plan,
            users: &Users::read(),
            diagnostics: self.diagnostics,
            open_directories,
        };
        let map = map.map(|map| map as &mut dyn Map);
        let mut writer = ArchiveWriter::new(work, output, self.progress, map, results);
        match readers {
            1 => with_function(Function::Copy, || copy_alone(work, &mut writer)),
            readers => copy_together(work, &mut writer, readers),
        }?;
        writer.finish()
    }
}

/// Number of reader threads, and of directories that each keeps open, within RLIMIT_NOFILE. Opening
/// a file takes up to two more descriptors, and the writer may read, too.
fn share_open_files(readers: usize) -> (usize, usize) {
    const FEWEST: usize = 4;
    let spare = spare_open_files();
    let readers = readers.min((spare / FEWEST).saturating_sub(1)).max(1);
    (readers, (spare / (readers + 1)).saturating_sub(2).min(MOST))
}

fn copy_alone(work: DumpInput<'_>, writer: &mut ArchiveWriter<'_>) -> Result<(), Error> {
    let mut reader = MemberReader::new(work);
    let mut load = ArchiveChunk::default();
    let mut failed = None;
    for row in 0..work.rows.len() {
        let mut emit = |load| {
            let take = || writer.take(load).map(ArchiveChunk::reuse);
            with_subject(CallSubject::All, || with_function(Function::Write, take)).map_err(|e| {
                failed = Some(e);
                WriterStopped
            })
        };
        if reader.put(row, &mut load, &mut emit).is_err() {
            break;
        }
    }
    match failed {
        Some(e) => Err(e),
        None => with_function(Function::Write, || writer.take(load)).map(drop),
    }
}

fn copy_together(
    work: DumpInput<'_>,
    writer: &mut ArchiveWriter<'_>,
    readers: usize,
) -> Result<(), Error> {
    let window = Window::new(work.rows.len());
    std::thread::scope(|scope| {
        let spawn = || {
            let run = || with_function(Function::Copy, || read(work, &window));
            spawn_scoped(scope, Builder::new(), run).is_ok()
        };
        if (0..readers).take_while(|_| spawn()).count() == 0 {
            return copy_alone(work, writer);
        }
        while let Some(load) = window.next() {
            match writer.take(load) {
                Ok(bytes) => window.give_back(bytes),
                Err(e) => {
                    window.stop();
                    return Err(e);
                }
            }
        }
        Ok(())
    })
}

fn read(work: DumpInput<'_>, window: &Window) {
    let _on_panic = OnPanic(|| window.stop());
    let mut reader = MemberReader::new(work);
    while let Some((ticket, rows)) = window.take(work) {
        let mut load = window.empty();
        for row in rows {
            let mut emit = |load| window.add(ticket, load);
            if reader.put(row, &mut load, &mut emit).is_err() {
                return;
            }
        }
        window.finish(ticket, load);
    }
}
