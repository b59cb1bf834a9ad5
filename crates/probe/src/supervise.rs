//! Supervises the child process that runs the experiments.
//!
//! A system call that waits for a dead server cannot be timed out. So a child process runs the
//! experiments, and writes its steps and results to a log. The child holds nothing that other
//! processes wait for, in particular no end of a pipe. A child that exceeds its time is killed; a
//! child that does not die, because it is blocked in the kernel, is left behind.

use std::time::{Duration, Instant};

use base::log::Log;
use gate::Tally;
use gate::fs::{AtFlags, CWD, Open, StatxMask, openat};
use gate::long::statx_long;
use gate::process::{Child, ProcessEnd, SharedWords};

use crate::activity::{Activity, Check};
use crate::error::{Error, Purpose, Result};
use crate::finding::or_unknown;
use crate::names::{Experiment, Quantity};
use crate::report::{MeasuredFinding, ProbeOptions, ProbeReport};
use crate::run::{Message, run_experiments};

/// Maximum time for one request to a working server, and for the last experiment to notice that its
/// time is over; also the time without CPU use after which a process counts as stuck.
const PATIENCE: Duration = Duration::from_secs(10);
/// The interval at which the log is read.
const POLL: Duration = Duration::from_millis(100);
/// Maximum time for the child to end after a signal: the child, or a child of its own, may have to
/// remove files.
const GRACE: Duration = Duration::from_secs(5);
/// Maximum time for a killed process to end.
const REAP: Duration = Duration::from_millis(500);
/// Size of the log in 64-bit words: five times the samples of all experiments.
const ROOM: usize = 1 << 20;

/// Runs the experiments in a child process. `progress` is called at each step.
///
/// # Errors
/// When the directory cannot be opened, when its file system does not answer, or
/// [`Error::Interrupted`]. An error in one experiment is its finding. If the file system stops
/// answering, that is the finding of this and each later experiment.
pub fn probe(options: &ProbeOptions, progress: &mut dyn FnMut(Activity)) -> Result<ProbeReport> {
    let mut report = supervised(options, progress)?;
    if let Some(why) = report.stopped.clone() {
        let measured = report.measured.iter();
        let done: Vec<Experiment> = measured
            .map(|measured| measured.finding.quantity.experiment())
            .collect();
        let is_left = |experiment: &&Experiment| {
            options.experiments.contains(experiment) && !done.contains(experiment)
        };
        let left = Experiment::ALL.iter().filter(is_left);
        let left: Vec<Quantity> = left.map(|left| Quantity::All(*left)).collect();
        let left = or_unknown(Err(why), &left)?;
        report
            .measured
            .extend(left.into_iter().map(MeasuredFinding::from));
    }
    Ok(report)
}

fn supervised(options: &ProbeOptions, progress: &mut dyn FnMut(Activity)) -> Result<ProbeReport> {
    let failed = Purpose::Fork.failed();
    let log = Log::new(ROOM).map_err(&failed)?;
    let tally = SharedWords::new(Tally::WORDS).map_err(&failed)?;
    let child = Child::fork_detached(|| {
        gate::interrupt::record_all();
        let before = gate::meter::tally();
        // Reserve fds 0-2, so that a late message to stderr cannot be written into a file that is
        // opened next.
        std::mem::forget([(); 3].map(|()| openat(CWD, c"/", Open::DIRECTORY | Open::PATH)));
        let send = |message: Message| {
            log.write(&message);
            gate::meter::tally().since(&before).publish(&tally);
        };
        if let Err(why) = run_experiments(options, &send) {
            send(Message::Failed(why));
        }
        gate::meter::tally().since(&before).publish(&tally);
    });
    let mut report = ProbeReport::default();
    let done = wait_for_child(
        &mut child.map_err(&failed)?,
        options,
        &log,
        &mut report,
        progress,
    );
    gate::meter::add(&Tally::collect(&tally));
    match done {
        Err(why) if why != Error::Interrupted && !report.measured.is_empty() => {
            report.stopped = Some(why);
        }
        done => done?,
    }
    Ok(report)
}

/// Waits for the child to end within its time, and reads its log.
fn wait_for_child(
    child: &mut Child,
    options: &ProbeOptions,
    log: &Log,
    report: &mut ProbeReport,
    progress: &mut dyn FnMut(Activity),
) -> Result<()> {
    let time = options.limits.time;
    let (mut begun, mut limit, mut was_asked) = (Instant::now(), time.min(PATIENCE), false);
    let (mut last, mut at) = (Message::Checking(Check::Open), 0);
    // A process that waits for a server uses no CPU time. One that uses CPU time is slow, not
    // stuck.
    let (mut cpu_time, mut has_worked) = (0, Instant::now());
    loop {
        let ended = child.wait(POLL.min(limit));
        let before = std::mem::replace(&mut cpu_time, child.cpu_time());
        if cpu_time != before {
            has_worked = Instant::now();
        }
        while let Some(message) = log.read(&mut at) {
            match message {
                Message::Found(more) => report.extend(*more),
                message => {
                    // The file system answers: now the time for all experiments begins.
                    if matches!((&last, &message), (Message::Checking(_), Message::Doing(_)))
                        && !was_asked
                    {
                        (begun, limit) = (Instant::now(), time + PATIENCE.min(options.lateness));
                    }
                    last = message;
                }
            }
        }
        if let Some(ended) = ended {
            return match last {
                Message::Failed(why) => Err(why),
                _ => judge_end(ended),
            };
        }
        if let Message::Doing(activity) = last {
            progress(activity);
        }
        if gate::interrupt::pending_signal().is_some() && !was_asked {
            child.ask_to_stop();
            (limit, was_asked) = (limit.min(begun.elapsed() + GRACE), true);
        }
        // A child that has used no CPU time for a while is stuck: it waits for the file system or
        // for a child of its own.
        let is_stuck = has_worked.elapsed() >= PATIENCE;
        let lateness = match is_stuck || was_asked {
            true => Duration::ZERO,
            false => options.lateness,
        };
        if begun.elapsed() >= limit.saturating_add(lateness) {
            child.kill();
            let stuck = child.wait(REAP).is_none().then(|| child.id());
            return Err(match last {
                _ if was_asked => Error::Interrupted,
                Message::Doing(activity) if !is_stuck => Error::TooSlow { activity },
                last => late(&last, begun.elapsed(), stuck, &options.dir),
            });
        }
    }
}

/// Whether a server that accepts no writes still returns the attributes of the directory.
fn answers_reads(dir: &[u8]) -> bool {
    let asked = Child::fork_detached(|| {
        let flags = AtFlags::STATX_FORCE_SYNC | AtFlags::NO_AUTOMOUNT;
        if statx_long(dir, flags, StatxMask::BASIC_STATS).is_err() {
            gate::process::leave(1);
        }
    });
    let Ok(mut asked) = asked else { return false };
    let ended = asked.wait(REAP * 4);
    asked.kill();
    ended.is_some_and(|ended| ended.status == Some(0))
}

/// The error of a child that ended without an error message.
fn judge_end(ended: ProcessEnd) -> Result<()> {
    match (ended.status, ended.signal) {
        (Some(0), _) => Ok(()),
        (_, signal) => Err(Error::ProcessEnded { signal }),
    }
}

/// The error of a child that is late. `stuck` is its PID if it cannot be killed.
fn late(last: &Message, after: Duration, stuck: Option<i32>, dir: &[u8]) -> Error {
    match *last {
        Message::Checking(check @ (Check::Create | Check::Write)) if answers_reads(dir) => {
            let seconds = after.as_secs();
            Error::NotWritable {
                check,
                seconds,
                stuck,
            }
        }
        Message::Doing(activity) => Error::StoppedAnswering { activity, stuck },
        Message::Checking(check) => Error::NoAnswer {
            check,
            seconds: after.as_secs(),
            stuck,
        },
        Message::Found(_) | Message::Failed(_) => Error::NotReleased { stuck },
    }
}
