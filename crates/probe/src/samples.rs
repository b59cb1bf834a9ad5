//! Samples of an experiment, as they are written and read again: comma-separated values, after
//! lines that say what they are.
//!
//! ```text
//! # series: reads
//! # step: 256
//! run,trial1,trial2,trial3
//! 1,5210.0,4890.0,5303.0
//! 2,310.0,305.0,298.0
//! ```
//!
//! A line may begin with `RunNum`, as the paper's programs print it.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, SampleFault};
use crate::names::{Kind, SampleCount};

/// Samples of one kind, from one or several trials.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Series {
    /// The kind of samples.
    pub kind: Kind,
    /// Bytes from one run to the next; at least 1.
    pub step: u64,
    /// The number of each run, from 1. Numbers are missing if a search did not try every length.
    pub runs: Vec<u64>,
    /// The samples of each trial, in order of runs; all trials have equal length.
    pub trials: Vec<Vec<f64>>,
}

impl Series {
    pub(crate) fn count(&self) -> SampleCount {
        SampleCount {
            kind: self.kind,
            runs: self.runs.len(),
            step: self.step,
        }
    }

    pub(crate) fn from_trial(kind: Kind, step: u64, samples: Vec<f64>) -> Series {
        Series::from_trials(kind, step, vec![samples])
    }

    /// Combines trials that have a sample for every run: 1, 2, 3, and so on.
    pub(crate) fn from_trials(kind: Kind, step: u64, trials: Vec<Vec<f64>>) -> Series {
        let len = trials.iter().map(Vec::len).min().unwrap_or_default();
        Series {
            kind,
            step,
            runs: (1..=len as u64).collect(),
            trials,
        }
    }

    /// The number of bytes before the sample at this index.
    pub(crate) fn bytes_before(&self, at: usize) -> u64 {
        let before = at.checked_sub(1).and_then(|before| self.runs.get(before));
        before.map_or(0, |run| run.saturating_mul(self.step))
    }

    /// The name of the series, and of its file without the suffix.
    pub fn file_stem(&self) -> String {
        let (kind, step) = (self.kind, self.step);
        format!("{}-{}-{step}", kind.experiment().name(), kind.name())
    }

    /// Formats the samples as CSV.
    pub fn to_csv(&self) -> String {
        let is_count = matches!(self.kind, Kind::Cached | Kind::Filled);
        let unit = if is_count { "count" } else { "ns" };
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

    /// Parses the CSV form.
    ///
    /// # Errors
    /// [`Error::Samples`] if the text does not have this form.
    pub fn from_csv(text: &[u8]) -> Result<Series> {
        let wrong = |line: usize| move |fault| Error::Samples { line, fault };
        let text = std::str::from_utf8(text).map_err(|_| wrong(0)(SampleFault::NotText))?;
        let mut header = Header::default();
        let mut series = Series::from_trials(Kind::Reads, 1, Vec::new());
        for (n, line) in (1..).zip(text.lines().map(str::trim)) {
            if let Some(comment) = line.strip_prefix('#') {
                header.read(comment).map_err(wrong(n))?;
            } else if !line.is_empty() && !line.starts_with("run,") {
                series.push_line(line).map_err(wrong(n))?;
            }
        }
        series.kind = header.kind.ok_or(wrong(0)(SampleFault::NoSeries))?;
        series.step = header.step.ok_or(wrong(0)(SampleFault::NoStep))?;
        if series.trials.is_empty() {
            return Err(wrong(0)(SampleFault::Empty));
        }
        if series.runs.len() > series.kind.most_runs() {
            return Err(wrong(0)(SampleFault::TooManyRuns));
        }
        Ok(series)
    }

    fn push_line(&mut self, line: &str) -> std::result::Result<(), SampleFault> {
        // Lines of the paper's programs, with `RunNum`, count from 0.
        let counted_from_0 = line.strip_prefix("RunNum");
        let mut cells = counted_from_0.unwrap_or(line).split(',').map(str::trim);
        let run = cells.next().and_then(|run| run.parse::<u32>().ok());
        let run = u64::from(run.ok_or(SampleFault::BadLine)?) + u64::from(counted_from_0.is_some());
        let values = cells.map(|cell| cell.parse().ok().filter(|v: &f64| v.is_finite()));
        let values: Vec<f64> = values.collect::<Option<_>>().ok_or(SampleFault::BadLine)?;
        if values.is_empty() {
            return Err(SampleFault::BadLine);
        }
        if self.trials.is_empty() {
            self.trials = vec![Vec::new(); values.len()];
        }
        if self.trials.len() != values.len() {
            return Err(SampleFault::TrialCount);
        }
        if self.runs.last().is_some_and(|last| *last >= run) {
            return Err(SampleFault::Order);
        }
        self.runs.push(run);
        for (trial, value) in self.trials.iter_mut().zip(values) {
            trial.push(value);
        }
        Ok(())
    }
}

#[derive(Default)]
struct Header {
    kind: Option<Kind>,
    step: Option<u64>,
}

impl Header {
    /// Reads a line without its `#`. Lines other than `series` and `step` are comments.
    fn read(&mut self, line: &str) -> std::result::Result<(), SampleFault> {
        match line
            .split_once(':')
            .map(|(key, value)| (key.trim(), value.trim()))
        {
            Some(("series", name)) => {
                let known = Kind::ALL.iter().copied().find(|kind| kind.name() == name);
                self.kind = Some(known.ok_or(SampleFault::UnknownSeries)?);
            }
            Some(("step", bytes)) => {
                let step = bytes
                    .parse()
                    .ok()
                    .filter(|step| (1..=1 << 40).contains(step));
                self.step = Some(step.ok_or(SampleFault::BadStep)?);
            }
            _ => {}
        }
        Ok(())
    }
}
