//! The progress line on a terminal.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use gate::meter::spawn_scoped;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use show::name::printable;
use show::units::size;

use crate::out::{Messages, write_stderr};

/// A progress line on stderr. It appears after one second, and only on a terminal.
pub(crate) struct Progress {
    wanted: bool,
    start: Instant,
    /// The name of a survey's step, shown as soon as the step starts.
    stage: Option<String>,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn new(wanted: bool) -> Progress {
        Progress {
            wanted,
            start: Instant::now(),
            stage: None,
            bar: None,
        }
    }

    /// The progress line of a survey's step, shown at once: `3 of 8, walk with each engine`.
    pub(crate) fn stage(wanted: bool, stage: String) -> Progress {
        let mut progress = Progress::new(wanted);
        progress.stage = Some(stage);
        progress.at(String::new);
        progress
    }

    pub(crate) fn at(&mut self, what: impl FnOnce() -> String) {
        if !self.wanted || self.stage.is_none() && self.start.elapsed() < Duration::from_secs(1) {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{spinner} {wide_msg}");
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10))
                .with_style(style.unwrap_or(ProgressStyle::default_spinner()))
        });
        bar.set_message(match (&self.stage, what()) {
            (None, what) => what,
            (Some(stage), what) if what.is_empty() => stage.clone(),
            (Some(stage), what) => format!("{stage}: {what}"),
        });
        bar.tick();
    }

    /// Shows a trial of a method or an engine. Trial 0 is a preparatory run, described by `first`.
    pub(crate) fn trial(&mut self, name: &str, (trial, of): (usize, usize), first: &str) {
        self.at(|| match trial {
            0 => format!("{name}, {first}"),
            _ => format!("{name}, trial {trial} of {of}"),
        });
    }

    /// Prints a message above the progress line.
    fn print(&self, text: &str) {
        let print = || write_stderr(&format!("{text}\n"));
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    pub(crate) fn search(&mut self, far: &mounts::method::SearchProgress, path: &[u8]) {
        let (directories, entries) = (far.directories, far.entries);
        let rate = entries as f64 / self.start.elapsed().as_secs_f64();
        self.at(|| {
            let path = printable(path);
            format!("{directories} directories, {entries} entries, {rate:.0} entries/s: {path}")
        });
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Detects that work is blocked at a file.
struct StallDetector {
    done: u64,
    since: Instant,
    /// The blocked file that the last message named.
    named: Vec<u8>,
}

impl StallDetector {
    /// The time without progress after which a thread counts as blocked; a busy disk answers
    /// sooner.
    const LONG: Duration = Duration::from_secs(3);

    fn new() -> StallDetector {
        StallDetector {
            done: 0,
            since: Instant::now(),
            named: Vec::new(),
        }
    }

    /// Returns a message if no work was done for `LONG`, and a thread is blocked at a file other
    /// than the one in the last message.
    fn message(&mut self, done: u64) -> Option<String> {
        if done != self.done {
            (self.done, self.since) = (done, Instant::now());
        }
        if self.since.elapsed() < StallDetector::LONG {
            return None;
        }
        self.since = Instant::now();
        let path = walk::blocked_paths().into_iter().next()?;
        if path == self.named {
            return None;
        }
        let text = format!(
            "waiting for '{}'; fathom mounts --check lists the mounts that do not answer",
            printable(&path)
        );
        self.named = path;
        Some(text)
    }
}

/// Runs `work`, and shows the progress of a walk.
pub(crate) fn watch_walk<T>(
    wanted: Messages,
    diagnostics: &walk::Diagnostics,
    work: impl FnOnce() -> T,
) -> T {
    let message = |seconds: f64| walk_message(diagnostics, seconds);
    watch_all(wanted, message, || diagnostics.progress().0, work)
}

/// Runs `work`, and shows the progress of a dump.
pub(crate) fn watch_dump<T>(
    wanted: Messages,
    diagnostics: &walk::Diagnostics,
    progress: &archive::dump::Progress,
    work: impl FnOnce() -> T,
) -> T {
    // The time until the first file was read, in seconds since the start.
    let began = std::cell::Cell::new(None);
    let message = move |seconds: f64| {
        let Some(((entries, all_entries), (bytes, all_bytes))) = progress.done() else {
            return format!("gathering: {}", walk_message(diagnostics, seconds));
        };
        let from = began.get().unwrap_or(seconds);
        began.set(Some(from));
        let rate = bytes as f64 / (seconds - from).max(0.1);
        let left = match all_bytes.saturating_sub(bytes) as f64 / rate {
            left if left.is_finite() => format!(", about {} left", remaining(left)),
            _ => String::new(),
        };
        let [bytes, all_bytes, rate] = [bytes, all_bytes.max(bytes), rate as u64].map(size);
        format!("{entries} of {all_entries} entries, {bytes} of about {all_bytes}, {rate}/s{left}")
    };
    let done = || {
        let files = progress.done();
        let files = files.map_or(0, |((entries, _), (bytes, _))| entries + bytes);
        diagnostics.progress().0 + files
    };
    watch_all(wanted, message, done, work)
}

fn walk_message(diagnostics: &walk::Diagnostics, seconds: f64) -> String {
    let (entries, path) = diagnostics.progress();
    let rate = entries as f64 / seconds;
    let place = match &path[..] {
        b"" => String::new(),
        path => format!(": {}", printable(path)),
    };
    format!("{entries} entries, {rate:.0} entries/s{place}")
}

/// A remaining time, rounded to whole seconds or minutes.
fn remaining(seconds: f64) -> String {
    match seconds as u64 {
        s @ 0..100 => format!("{s} s"),
        s @ 100..6000 => format!("{} min", s.div_ceil(60)),
        s => format!("{} h {} min", s / 3600, s / 60 % 60),
    }
}

/// Runs `work` while a separate thread shows `message(seconds since the start)`, so that `work`
/// never waits for the terminal.
pub(crate) fn watch<T>(
    wanted: bool,
    message: impl Fn(f64) -> String + Send,
    work: impl FnOnce() -> T,
) -> T {
    let wanted = Messages {
        progress: wanted,
        waits: false,
    };
    watch_all(wanted, message, || 0, work)
}

/// Runs `work` with a progress line. If the number that `done` returns stops growing, prints a
/// message with the file at which a thread is blocked.
fn watch_all<T>(
    wanted: Messages,
    message: impl Fn(f64) -> String + Send,
    done: impl Fn() -> u64 + Send,
    work: impl FnOnce() -> T,
) -> T {
    const EVERY: Duration = Duration::from_millis(100);
    if !wanted.progress && !wanted.waits {
        return work();
    }
    std::thread::scope(|scope| {
        let (ended, end) = channel::<()>();
        // Without this thread, `work` runs without a progress line.
        let _ = spawn_scoped(scope, Builder::new(), move || {
            let (mut progress, mut stall) = (Progress::new(wanted.progress), StallDetector::new());
            while end.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let seconds = progress.start.elapsed().as_secs_f64();
                progress.at(|| message(seconds));
                let stalled = wanted.waits.then(|| stall.message(done()));
                if let Some(text) = stalled.flatten() {
                    progress.print(&text);
                }
            }
        });
        let done = work();
        drop(ended);
        done
    })
}
