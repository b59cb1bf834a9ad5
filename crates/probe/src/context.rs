//! The context of an experiment: directory, clock, limits, samples, and a callback for progress.

use std::time::{Duration, Instant};

use crate::activity::Activity;
use crate::clock::Clock;
use crate::dir::ProbeDir;
use crate::error::{Error, Result};
use crate::finding::Finding;
use crate::infer::series::evaluate;
use crate::report::{IoBytes, Limits, Price};
use crate::samples::Series;

pub(crate) struct Context<'a> {
    pub(crate) dir: &'a ProbeDir,
    /// The best clock found.
    pub(crate) clock: Clock,
    /// The samples and prices of the current experiment.
    pub(crate) series: Vec<Series>,
    pub(crate) prices: Vec<Price>,
    pub(crate) io_bytes: IoBytes,
    limits: Limits,
    begun: Instant,
    /// The end of the current experiment's time, as a duration since `begun`.
    deadline: Duration,
    progress: &'a mut dyn FnMut(Activity),
}

impl<'a> Context<'a> {
    /// Creates a context in which no time and no bytes are used yet; `progress` is called at each
    /// step.
    pub(crate) fn new(
        dir: &'a ProbeDir,
        limits: Limits,
        progress: &'a mut dyn FnMut(Activity),
    ) -> Context<'a> {
        Context {
            dir,
            clock: Clock::default(),
            series: Vec::new(),
            prices: Vec::new(),
            io_bytes: IoBytes::default(),
            limits,
            begun: Instant::now(),
            deadline: limits.time,
            progress,
        }
    }

    /// Begins one of the `left` remaining experiments. Each gets an equal share of the remaining
    /// time, so that a slow one does not shorten the others.
    pub(crate) fn begin_experiment(&mut self, left: u32) {
        let used = self.begun.elapsed();
        self.deadline = used + self.limits.time.saturating_sub(used) / left.max(1);
    }

    /// Reports a step, and checks that there is time for it.
    pub(crate) fn begin(&mut self, activity: Activity) -> Result<()> {
        (self.progress)(activity);
        self.check()
    }

    /// Checks that the experiment has time left, and that no signal asks fathom to end.
    pub(crate) fn check(&self) -> Result<()> {
        if gate::interrupt::pending_signal().is_some() {
            return Err(Error::Interrupted);
        }
        if self.begun.elapsed() > self.deadline {
            return Err(Error::OutOfTime);
        }
        Ok(())
    }

    /// Counts bytes to be read and written against the limits, and fails if they exceed them.
    pub(crate) fn spend(&mut self, read: u64, written: u64) -> Result<()> {
        self.check()?;
        if read.saturating_add(written) > self.bytes_left() {
            return Err(Error::OutOfBytes);
        }
        self.charge(IoBytes { read, written });
        Ok(())
    }

    /// Counts bytes that a different process has read and written.
    pub(crate) fn charge(&mut self, more: IoBytes) {
        self.io_bytes.read = self.io_bytes.read.saturating_add(more.read);
        self.io_bytes.written = self.io_bytes.written.saturating_add(more.written);
    }

    pub(crate) fn bytes_left(&self) -> u64 {
        let IoBytes { read, written } = self.io_bytes;
        self.limits
            .bytes
            .saturating_sub(read.saturating_add(written))
    }

    pub(crate) fn time_left(&self) -> Duration {
        self.deadline.saturating_sub(self.begun.elapsed())
    }

    /// Evaluates samples, and keeps them for the report.
    pub(crate) fn evaluate(&mut self, samples: Series) -> Vec<Finding> {
        let found = evaluate(&samples);
        self.series.push(samples);
        found
    }

    /// Evaluates samples that give one finding, and keeps them.
    pub(crate) fn judge_one(&mut self, samples: Series) -> Result<Finding> {
        let found = self.evaluate(samples).into_iter().next();
        found.ok_or(Error::NoSamples)
    }
}
