//! What every experiment works with: the clock, what it may use up, and whom it tells how far it
//! is.

use std::time::{Duration, Instant};

use gate::{Errno, Gate};

use crate::timer::Clock;

/// What an experiment may use up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes read and written in all.
    pub bytes: u64,
    /// Time for all.
    pub time: Duration,
}

/// What it means that there is no time left.
pub const NO_TIME: &str = "there was no time left; --max-seconds gives more";

/// Bytes that were read and written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moved {
    /// Asked of the file system by reads.
    pub read: u64,
    /// Given to it by writes.
    pub written: u64,
}

/// Why an experiment ended before it had an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// A call failed.
    Refused {
        /// What was being done: `cannot write the file to be read`.
        doing: &'static str,
        /// The call.
        gate: Gate,
        /// How it failed.
        errno: Errno,
    },
    /// A call failed, and this is said of it, here or in another process.
    Told {
        /// What was being done, how it failed, what may be done about it.
        why: String,
        /// The call.
        gate: Gate,
        /// How it failed.
        errno: Errno,
    },
    /// It does not work here, and this is why.
    Hindered(String),
    /// What it may use up is used up.
    Spent(&'static str),
    /// Somebody wants the program to end.
    Interrupted,
}

impl Trouble {
    /// What a call that failed means for whoever was `doing` something.
    pub fn refused(doing: &'static str, gate: Gate) -> impl Fn(Errno) -> Trouble {
        move |errno| match errno {
            Errno::EINTR if gate::interrupt::asked().is_some() => Trouble::Interrupted,
            errno => Trouble::Refused { doing, gate, errno },
        }
    }

    /// The call that failed, if one did, and how.
    pub fn refusal(&self) -> Option<(Gate, Errno)> {
        match self {
            Trouble::Refused { gate, errno, .. } | Trouble::Told { gate, errno, .. } => {
                Some((*gate, *errno))
            }
            _ => None,
        }
    }

    /// What may be done about it.
    fn next(&self) -> &'static str {
        match self {
            Trouble::Refused {
                errno: Errno::ENOSPC,
                ..
            } => "; make room, or let it use less with --max-bytes",
            Trouble::Refused {
                errno: Errno::EDQUOT,
                ..
            } => "; the quota is used up: let it use less with --max-bytes",
            Trouble::Refused {
                errno: Errno::EROFS,
                ..
            } => "; nothing can be written here: it is read-only",
            Trouble::Refused {
                errno: Errno::EACCES | Errno::EPERM,
                ..
            } => "; give a directory that you may enter and write in",
            Trouble::Refused {
                errno: Errno::ENOENT | Errno::ESTALE,
                ..
            } => "; is the directory still there?",
            Trouble::Refused {
                errno: Errno::ENOTDIR,
                ..
            } => "; give a directory",
            _ => "",
        }
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::Refused { doing, errno, .. } => write!(f, "{doing}: {errno}{}", self.next()),
            Trouble::Hindered(why) | Trouble::Told { why, .. } => f.write_str(why),
            Trouble::Spent(what) => f.write_str(what),
            Trouble::Interrupted => f.write_str("interrupted"),
        }
    }
}

/// What every experiment works with.
pub struct Desk<'a> {
    /// The clock found best.
    pub clock: Clock,
    limits: Limits,
    begun: Instant,
    moved: Moved,
    say: &'a mut dyn FnMut(&str),
}

impl<'a> Desk<'a> {
    /// A desk at which nothing has been used up yet; `say` is told what is being measured, and why.
    pub fn new(limits: Limits, say: &'a mut dyn FnMut(&str)) -> Desk<'a> {
        Desk {
            clock: Clock::default(),
            limits,
            begun: Instant::now(),
            moved: Moved::default(),
            say,
        }
    }

    /// Says what is being measured, and goes on only if there is time and nobody minds.
    pub fn go_on(&mut self, what: &str) -> Result<(), Trouble> {
        (self.say)(what);
        self.still()
    }

    /// Goes on only if there is time and nobody minds.
    pub fn still(&self) -> Result<(), Trouble> {
        if gate::interrupt::asked().is_some() {
            return Err(Trouble::Interrupted);
        }
        if self.begun.elapsed() > self.limits.time {
            return Err(Trouble::Spent(NO_TIME));
        }
        Ok(())
    }

    /// Enters what is about to be read and written, if there is so much left to use up.
    pub fn spend(&mut self, read: u64, written: u64) -> Result<(), Trouble> {
        self.still()?;
        if read.saturating_add(written) > self.bytes_left() {
            return Err(Trouble::Spent(
                "it had read and written as much as it may; --max-bytes gives more",
            ));
        }
        self.enter(Moved { read, written });
        Ok(())
    }

    /// Enters what another process has read and written already.
    pub fn enter(&mut self, moved: Moved) {
        self.moved.read = self.moved.read.saturating_add(moved.read);
        self.moved.written = self.moved.written.saturating_add(moved.written);
    }

    /// Bytes that may still be read and written.
    pub fn bytes_left(&self) -> u64 {
        self.limits
            .bytes
            .saturating_sub(self.moved.read)
            .saturating_sub(self.moved.written)
    }

    /// Time that is left.
    pub fn time_left(&self) -> Duration {
        self.limits.time.saturating_sub(self.begun.elapsed())
    }

    /// What was read and written so far.
    pub fn moved(&self) -> Moved {
        self.moved
    }
}
