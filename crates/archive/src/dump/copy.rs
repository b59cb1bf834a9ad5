//! Reads and writes what the plan says: with several threads the writer's is one of its own, and
//! the others read ahead of it.

use crate::attribution::{self, Function, with_function};
use walk::Diagnostics;
use walk::attribution::{Subject, with_subject};

use super::load::{Load, Stopped};
use super::options::{Counts, Map};
use super::output::Output;
use super::progress::Progress;
use super::read::Reader;
use super::settled::Settling;
use super::users::Users;
use super::window::Window;
use super::work::Work;
use super::write::Writer;
use crate::OnPanic;
use crate::error::Error;
use crate::plan::Plan;
use crate::rows::Rows;

/// Reads and writes everything that the plan says; with one thread, in turns.
pub(super) fn copy(
    work: (&Rows, &Plan, &Diagnostics),
    output: &mut Output,
    (progress, map): (&Progress, Option<&mut (dyn Map + 'static)>),
    settling: Option<Settling<'_>>,
    threads: Option<usize>,
) -> Result<Counts, Error> {
    attribution::set_phase(Function::Write);
    let (rows, plan, desk) = work;
    progress.begin(rows, plan);
    let users = Users::read();
    let work = Work {
        rows,
        plan,
        users: &users,
        desk,
    };
    let map = map.map(|map| map as &mut dyn Map);
    let mut writer = Writer::new(work, output, progress, map, settling);
    match threads.unwrap_or_else(gate::machine::processors) {
        1 => with_function(Function::Copy, || alone(work, &mut writer)),
        readers => together(work, &mut writer, readers),
    }?;
    writer.finish()
}

fn alone(work: Work<'_>, writer: &mut Writer<'_>) -> Result<(), Error> {
    let mut reader = Reader::new(work);
    let mut load = Load::default();
    let mut failed = None;
    for row in 0..work.rows.len() {
        let mut hand = |load| {
            let take = || writer.take(load).map(|bytes| Load::reuse(Some(bytes)));
            with_subject(Subject::All, || with_function(Function::Write, take)).map_err(|e| {
                failed = Some(e);
                Stopped
            })
        };
        if reader.put(row, &mut load, &mut hand).is_err() {
            break;
        }
    }
    match failed {
        Some(e) => Err(e),
        None => with_function(Function::Write, || writer.take(load)).map(drop),
    }
}

fn together(work: Work<'_>, writer: &mut Writer<'_>, readers: usize) -> Result<(), Error> {
    let window = Window::new(work.rows.len());
    std::thread::scope(|scope| {
        let begin = || {
            let run = || {
                with_function(Function::Copy, || read(work, &window));
                gate::meter::flush();
            };
            std::thread::Builder::new().spawn_scoped(scope, run).is_ok()
        };
        if (0..readers).take_while(|_| begin()).count() == 0 {
            return alone(work, writer);
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

/// What each thread does that reads.
fn read(work: Work<'_>, window: &Window) {
    let _watch = OnPanic(|| window.stop());
    let mut reader = Reader::new(work);
    let next = |row| work.plan.next_busy(row);
    while let Some((ticket, rows)) = window.take(next, |row| work.plan.weight(work.rows, row)) {
        let mut load = window.empty();
        for row in rows {
            if reader
                .put(row, &mut load, &mut |load| window.hand_in(ticket, load))
                .is_err()
            {
                return;
            }
        }
        window.finish(ticket, load);
    }
}
