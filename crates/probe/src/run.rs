//! All experiments, one after the other, in the process that makes them.

use std::time::Instant;

use gate::create::pwrite64;
use gate::file::fsync;
use mounts::may_hang;
use serde::{Deserialize, Serialize};

use crate::activity::{Activity, Check};
use crate::context::{Context, IoBytes};
use crate::dir::ProbeDir;
use crate::error::{Error, Result};
use crate::finding::Finding;
use crate::names::{Experiment, Quantity};
use crate::report::{Measured, ProbeOptions, ProbeReport};

/// What this process writes to the log that its parent reads.
#[derive(Serialize, Deserialize)]
pub(crate) enum Message {
    /// Checks that the file system answers at all, by this step.
    Checking(Check),
    /// Has begun this step of an experiment.
    Doing(Activity),
    /// Has found this since the message before.
    Found(Box<ProbeReport>),
    /// Has failed as a whole.
    Failed(Error),
}

/// Makes the experiments, and sends what it does and finds.
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
    let mut context = Context::new(options.limits, &mut progress);
    for experiment in Experiment::ALL {
        let wanted = options.experiments.contains(&experiment);
        if !wanted && experiment != Experiment::Timer {
            continue;
        }
        let report = run_one(experiment, &dir, &mut context, options)?;
        if wanted {
            send(Message::Found(Box::new(report)));
        }
    }
    Ok(())
}

fn run_one(
    experiment: Experiment,
    dir: &ProbeDir,
    context: &mut Context<'_>,
    options: &ProbeOptions,
) -> Result<ProbeReport> {
    let (begun, before) = (Instant::now(), context.io_bytes());
    let mut report = ProbeReport::default();
    let series = &mut report.series;
    let done = match experiment {
        Experiment::Timer => crate::timer::timer(context),
        Experiment::Block => crate::block::block(dir, context, series),
        Experiment::Readahead => crate::readahead::readahead(dir, context, series),
        Experiment::Cache => crate::cache::cache(dir, context, options.cache, series),
        Experiment::Extent => crate::extent::extent(dir, context, series),
        Experiment::Gates => {
            crate::gates::gates(dir, context, report.prices.get_or_insert_default())
        }
    };
    let found = match done {
        Ok(found) => found,
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(why) => vec![Finding::unknown(Quantity::All(experiment), why)],
    };
    let after = context.io_bytes();
    let io_bytes = IoBytes {
        read: after.read - before.read,
        written: after.written - before.written,
    };
    let seconds = begun.elapsed().as_secs_f64();
    report.measured = found
        .into_iter()
        .map(|finding| Measured {
            finding,
            seconds,
            io_bytes,
        })
        .collect();
    Ok(report)
}

/// Checks that the file system answers, where a server is behind it: a byte is written and synced.
/// What fails here fails again in an experiment, which reports it.
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
