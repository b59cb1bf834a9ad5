//! Runs all experiments in sequence, in the child process.

use std::mem::take;
use std::time::Instant;

use gate::create::pwrite64;
use gate::file::fsync;
use mounts::may_hang;
use serde::{Deserialize, Serialize};

use crate::activity::{Activity, Check};
use crate::context::Context;
use crate::dir::ProbeDir;
use crate::error::{Error, Result};
use crate::finding::or_unknown;
use crate::names::{Experiment, Quantity};
use crate::report::{IoBytes, MeasuredFinding, ProbeOptions, ProbeReport};

/// A message from the child process to its parent, through the log.
#[derive(Serialize, Deserialize)]
pub(crate) enum Message {
    /// The child performs this step, to check whether the file system answers.
    Checking(Check),
    /// The child has begun this step of an experiment.
    Doing(Activity),
    /// Results since the previous message.
    Found(Box<ProbeReport>),
    Failed(Error),
}

/// Runs the experiments, and sends steps and results.
pub(crate) fn run_experiments(options: &ProbeOptions, send: &dyn Fn(Message)) -> Result<()> {
    let dir = if options.unnamed_only {
        ProbeDir::open_unnamed_only(&options.dir)?
    } else {
        ProbeDir::open(&options.dir)?
    };
    check_answers(&dir, send);
    send(Message::Found(Box::new(ProbeReport {
        fstype: dir.fstype().map(<[u8]>::to_vec),
        ..ProbeReport::default()
    })));
    let mut progress = |activity| send(Message::Doing(activity));
    let mut context = Context::new(&dir, options.limits, &mut progress);
    let is_wanted = |experiment: &Experiment| options.experiments.contains(experiment);
    let is_done = |experiment: &&Experiment| {
        // the other experiments use the timer's clock
        is_wanted(experiment) || **experiment == Experiment::Timer
    };
    let all: Vec<Experiment> = Experiment::ALL.iter().filter(is_done).copied().collect();
    for (&experiment, left) in all.iter().zip((1..=all.len() as u32).rev()) {
        let wanted = is_wanted(&experiment);
        context.begin_experiment(left);
        let report = run_one(experiment, &mut context, options)?;
        if wanted {
            send(Message::Found(Box::new(report)));
        }
    }
    Ok(())
}

fn run_one(
    experiment: Experiment,
    context: &mut Context<'_>,
    options: &ProbeOptions,
) -> Result<ProbeReport> {
    let (begun, before) = (Instant::now(), context.io_bytes);
    let found = match experiment {
        Experiment::Timer => crate::timer::timer(context),
        Experiment::Block => crate::block::block(context),
        Experiment::Readahead => crate::readahead::readahead(context),
        Experiment::Cache => crate::cache::cache(context, options.cache),
        Experiment::Extent => crate::extent::extent(context),
        Experiment::Gates => crate::gates::gates(context),
    };
    let found = or_unknown(found, &[Quantity::All(experiment)])?;
    let io_bytes = IoBytes {
        read: context.io_bytes.read - before.read,
        written: context.io_bytes.written - before.written,
    };
    let seconds = begun.elapsed().as_secs_f64();
    let measured = found.into_iter().map(|finding| MeasuredFinding {
        finding,
        seconds,
        io_bytes,
    });
    let prices = take(&mut context.prices);
    Ok(ProbeReport {
        measured: measured.collect(),
        prices: (experiment == Experiment::Gates).then_some(prices),
        series: take(&mut context.series),
        ..ProbeReport::default()
    })
}

/// Checks that a server answers, by writing and syncing a byte. An error in this check recurs in an
/// experiment, which reports the error.
fn check_answers(dir: &ProbeDir, send: &dyn Fn(Message)) {
    if !dir.fstype().is_none_or(may_hang) {
        return;
    }
    send(Message::Checking(Check::Create));
    let Ok(scratch) = dir.scratch() else { return };
    send(Message::Checking(Check::Write));
    if pwrite64(&scratch.file, b"x", 0).is_ok() {
        send(Message::Checking(Check::Sync));
        let _ = fsync(&scratch.file);
    }
}
