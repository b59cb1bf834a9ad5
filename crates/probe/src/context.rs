//! What every experiment works with: the clock, the limits, and the callback for progress.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::activity::Activity;
use crate::clock::Clock;
use crate::error::{Error, Result};

/// What the experiments may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes read and written by all of them.
    pub bytes: u64,
    /// Time for all of them.
    pub time: Duration,
}

/// Bytes that were read and written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct IoBytes {
    /// Requested from the file system by reads.
    pub read: u64,
    /// Given to it by writes.
    pub written: u64,
}

/// What every experiment works with.
pub struct Context<'a> {
    /// The best clock that was found.
    pub clock: Clock,
    limits: Limits,
    begun: Instant,
    io_bytes: IoBytes,
    progress: &'a mut dyn FnMut(Activity),
}

impl<'a> Context<'a> {
    /// A context in which nothing has been used yet; `progress` is called at each step.
    pub fn new(limits: Limits, progress: &'a mut dyn FnMut(Activity)) -> Context<'a> {
        Context {
            clock: Clock::default(),
            limits,
            begun: Instant::now(),
            io_bytes: IoBytes::default(),
            progress,
        }
    }

    /// Reports a step.
    ///
    /// # Errors
    /// Those of [`Context::check`].
    pub fn begin(&mut self, activity: Activity) -> Result<()> {
        (self.progress)(activity);
        self.check()
    }

    /// Checks that there is time left and that nobody has asked the program to end.
    ///
    /// # Errors
    /// [`Error::Interrupted`] or [`Error::OutOfTime`].
    pub fn check(&self) -> Result<()> {
        if gate::interrupt::asked().is_some() {
            return Err(Error::Interrupted);
        }
        if self.begun.elapsed() > self.limits.time {
            return Err(Error::OutOfTime);
        }
        Ok(())
    }

    /// Charges what is about to be read and written.
    ///
    /// # Errors
    /// [`Error::OutOfBytes`], and those of [`Context::check`].
    pub fn spend(&mut self, read: u64, written: u64) -> Result<()> {
        self.check()?;
        if read.saturating_add(written) > self.bytes_left() {
            return Err(Error::OutOfBytes);
        }
        self.charge(IoBytes { read, written });
        Ok(())
    }

    /// Charges what another process has read and written.
    pub fn charge(&mut self, more: IoBytes) {
        self.io_bytes.read = self.io_bytes.read.saturating_add(more.read);
        self.io_bytes.written = self.io_bytes.written.saturating_add(more.written);
    }

    /// Bytes that may still be read and written.
    pub fn bytes_left(&self) -> u64 {
        self.limits
            .bytes
            .saturating_sub(self.io_bytes.read)
            .saturating_sub(self.io_bytes.written)
    }

    /// Time that is left.
    pub fn time_left(&self) -> Duration {
        self.limits.time.saturating_sub(self.begun.elapsed())
    }

    /// What was read and written so far.
    pub fn io_bytes(&self) -> IoBytes {
        self.io_bytes
    }
}
