//! Clocks for a program under test. A monotonic clock stands still until the test sets it forward,
//! so that deadlines and latencies are exact under any load. The time of day can be set forward,
//! too, as if the machine had been suspended, or back.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Need;
use super::tool::tool;

/// The requirement of [`Clock::new`].
pub(crate) const CC: Need = Need::Program("cc");

/// A clock for the commands that it is given to, and for the processes that they start.
pub(crate) struct Clock {
    library: PathBuf,
    file: PathBuf,
    nanoseconds: AtomicU64,
    /// The offset of the time in the file.
    at: u64,
}

impl Clock {
    /// A monotonic clock whose files are in `dir`.
    pub(crate) fn new(dir: &Path) -> Clock {
        let clock = Clock::in_file(dir, 0);
        clock.advance(Duration::from_secs(1000));
        clock
    }

    /// The clocks of the machine, except that the time of day and the time since the boot can be
    /// set forward.
    pub(crate) fn of_the_day(dir: &Path) -> Clock {
        Clock::in_file(dir, 8)
    }

    fn in_file(dir: &Path, at: u64) -> Clock {
        let (source, library) = (dir.join("clock.c"), dir.join("clock.so"));
        fs::write(&source, include_str!("clock.c")).unwrap();
        tool(
            Command::new("cc")
                .args(["-shared", "-fPIC", "-O1", "-Wall", "-o"])
                .args([&library, &source]),
        );
        let clock = Clock {
            library,
            file: dir.join("clock"),
            nanoseconds: AtomicU64::new(0),
            at,
        };
        fs::write(&clock.file, [0; 16]).unwrap();
        clock
    }

    /// Makes `command`, a dynamically linked program, use this clock.
    pub(crate) fn given_to<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("LD_PRELOAD", &self.library)
            .env("TEST_CLOCK", &self.file)
    }

    /// Sets the clock forward.
    pub(crate) fn advance(&self, by: Duration) {
        self.shift(u64::try_from(by.as_nanos()).unwrap());
    }

    /// Sets the time of day back.
    pub(crate) fn set_back(&self, by: Duration) {
        self.shift(u64::try_from(by.as_nanos()).unwrap().wrapping_neg());
    }

    /// Adds nanoseconds, in two's complement.
    fn shift(&self, by: u64) {
        let before = self.nanoseconds.fetch_add(by, Ordering::SeqCst);
        let now = before.wrapping_add(by);
        let file = File::options().write(true).open(&self.file).unwrap();
        file.write_all_at(&now.to_ne_bytes(), self.at).unwrap();
    }
}
