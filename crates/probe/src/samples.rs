//! Samples of an experiment, as they are kept and read again: comma-separated values, with what
//! they are in lines before them.
//!
//! ```text
//! # series: reads
//! # step: 256
//! run,trial1,trial2,trial3
//! 1,5210.0,4890.0,5303.0
//! 2,310.0,305.0,298.0
//! ```
//!
//! A line that begins with `RunNum`, as the paper's programs print it, is taken as well.

use std::fmt::Write;

use crate::finding::Experiment;

/// What was measured. Times are in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Small reads, one after the other, without readahead: the time of each.
    Reads,
    /// The same with readahead.
    ReadsAhead,
    /// Small writes, one after the other, into a hole: the time of each.
    Writes,
    /// Reads of a block, one after the other, with readahead: the time of each.
    Blocks,
    /// The same: how many pages of the file are in memory after each.
    Cached,
    /// Twice reading a file, one step longer each time: the average time of a step, the second
    /// time.
    Passes,
    /// Reading holes, a step at a time: how many bytes of the file are in memory after each.
    Filled,
    /// Writing a step and waiting until it is on the disk: the time of each wait.
    Syncs,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 8] = [
        Kind::Reads,
        Kind::ReadsAhead,
        Kind::Writes,
        Kind::Blocks,
        Kind::Cached,
        Kind::Passes,
        Kind::Filled,
        Kind::Syncs,
    ];

    /// Its name in a file.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Reads => "reads",
            Kind::ReadsAhead => "reads-ahead",
            Kind::Writes => "writes",
            Kind::Blocks => "blocks",
            Kind::Cached => "cached",
            Kind::Passes => "passes",
            Kind::Filled => "filled",
            Kind::Syncs => "syncs",
        }
    }

    /// The experiment that it belongs to.
    pub fn experiment(self) -> Experiment {
        match self {
            Kind::Reads | Kind::ReadsAhead | Kind::Writes => Experiment::Block,
            Kind::Blocks | Kind::Cached => Experiment::Readahead,
            Kind::Passes | Kind::Filled => Experiment::Cache,
            Kind::Syncs => Experiment::Extent,
        }
    }

    /// More runs than these have not been made by anybody: it would take minutes to judge them.
    fn most_runs(self) -> usize {
        if self == Kind::Passes { 4096 } else { 1 << 16 }
    }

    /// Whether the samples are times.
    pub fn is_time(self) -> bool {
        !matches!(self, Kind::Cached | Kind::Filled)
    }
}

/// Samples of one kind, of one or several trials.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// What was measured.
    pub kind: Kind,
    /// Bytes from one run to the next; at least 1.
    pub step: u64,
    /// The number of each run, from 1: not all lengths need be tried.
    pub runs: Vec<u64>,
    /// The runs of each trial, in order; all trials are equally long.
    pub trials: Vec<Vec<f64>>,
}

/// What is wrong with a file of samples: the line, from 1, and what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// Its number, from 1; 0 for the file as a whole.
    pub line: usize,
    /// What is wrong with it, and what should be there.
    pub what: &'static str,
}

impl Series {
    /// Samples of one trial.
    pub fn one(kind: Kind, step: u64, samples: Vec<f64>) -> Series {
        Series::of(kind, step, vec![samples])
    }

    /// Samples of several trials, with no run left out.
    pub fn of(kind: Kind, step: u64, trials: Vec<Vec<f64>>) -> Series {
        let len = trials.iter().map(Vec::len).min().unwrap_or_default();
        Series {
            kind,
            step,
            runs: (1..=len as u64).collect(),
            trials,
        }
    }

    /// How many bytes lie before the sample at a place, counted from 0.
    pub fn bytes_before(&self, at: usize) -> u64 {
        let runs = at
            .checked_sub(1)
            .and_then(|before| self.runs.get(before))
            .copied()
            .unwrap_or(0);
        runs.saturating_mul(self.step)
    }

    /// What the file is called in which it is kept.
    pub fn file_name(&self) -> String {
        format!(
            "{}-{}-{}.csv",
            self.kind.experiment().name(),
            self.kind.name(),
            self.step
        )
    }

    /// As a file.
    pub fn to_csv(&self) -> String {
        let unit = if self.kind.is_time() { "ns" } else { "count" };
        let mut text = format!(
            "# series: {}\n# step: {}\n# unit: {unit}\nrun",
            self.kind.name(),
            self.step
        );
        for trial in 1..=self.trials.len() {
            let _ = write!(text, ",trial{trial}");
        }
        text.push('\n');
        for (at, run) in self.runs.iter().enumerate() {
            let _ = write!(text, "{run}");
            for value in self.trials.iter().filter_map(|trial| trial.get(at)) {
                let _ = write!(text, ",{value}");
            }
            text.push('\n');
        }
        text
    }

    /// From a file.
    ///
    /// # Errors
    /// [`Malformed`] for what is no such file.
    pub fn from_csv(text: &[u8]) -> Result<Series, Malformed> {
        let wrong = |line: usize, what: &'static str| Malformed { line, what };
        let text = std::str::from_utf8(text).map_err(|_| wrong(0, "it is not text"))?;
        let (mut kind, mut step, mut runs, mut trials) =
            (None, None, Vec::new(), Vec::<Vec<f64>>::new());
        for (n, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if let Some(said) = line.strip_prefix('#') {
                match said
                    .split_once(':')
                    .map(|(key, value)| (key.trim(), value.trim()))
                {
                    Some(("series", name)) => {
                        let known = Kind::ALL.into_iter().find(|kind| kind.name() == name);
                        kind = Some(known.ok_or(wrong(n, "no such series; see docs/probe.md"))?);
                    }
                    Some(("step", bytes)) => {
                        let bytes: Option<u64> = bytes
                            .parse()
                            .ok()
                            .filter(|step| (1..=1 << 40).contains(step));
                        step = Some(bytes.ok_or(wrong(n, "the step is no number of bytes"))?);
                    }
                    _ => {}
                }
                continue;
            }
            if line.is_empty() || line.starts_with("run,") {
                continue;
            }
            let (line, first) = line
                .strip_prefix("RunNum")
                .map_or((line, 0), |rest| (rest, 1)); // the paper's count from 0
            let mut cells = line.split(',').map(str::trim);
            let run = cells
                .next()
                .and_then(|run| run.parse::<u32>().ok())
                .map(|run| u64::from(run) + first);
            let values: Option<Vec<f64>> = cells
                .map(|cell| cell.parse().ok().filter(|v: &f64| v.is_finite()))
                .collect();
            let (Some(run), Some(values)) = (run, values.filter(|values| !values.is_empty()))
            else {
                return Err(wrong(
                    n,
                    "a line is the number of the run and a time for each trial",
                ));
            };
            if trials.is_empty() {
                trials = vec![Vec::new(); values.len()];
            }
            if trials.len() != values.len() {
                return Err(wrong(n, "it has not as many trials as the line before it"));
            }
            if runs.last().is_some_and(|last| *last >= run) {
                return Err(wrong(n, "the runs are not in order"));
            }
            runs.push(run);
            trials
                .iter_mut()
                .zip(values)
                .for_each(|(trial, value)| trial.push(value));
        }
        let kind = kind.ok_or(wrong(
            0,
            "a line '# series: NAME' must say what was measured; see docs/probe.md",
        ))?;
        let step = step.ok_or(wrong(
            0,
            "a line '# step: BYTES' must say how far apart the runs are",
        ))?;
        if trials.is_empty() {
            return Err(wrong(0, "there are no samples in it"));
        }
        if runs.len() > kind.most_runs() {
            return Err(wrong(
                0,
                "there are more runs in it than any experiment makes",
            ));
        }
        Ok(Series {
            kind,
            step,
            runs,
            trials,
        })
    }
}
