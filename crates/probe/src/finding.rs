//! What an experiment has found.

use gate::{Errno, Gate};

use crate::desk::Trouble;

/// The experiments, in the order in which they are done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Experiment {
    /// Which clock to go by.
    Timer,
    /// Block, cluster, page, alignment.
    Block,
    /// What is fetched before it is asked for.
    Readahead,
    /// How much the page cache holds.
    Cache,
    /// How a file lies on the device.
    Extent,
    /// What each call costs.
    Gates,
}

impl Experiment {
    /// All of them.
    pub const ALL: [Experiment; 6] = [
        Experiment::Timer,
        Experiment::Block,
        Experiment::Readahead,
        Experiment::Cache,
        Experiment::Extent,
        Experiment::Gates,
    ];

    /// Its name on the command line and in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Experiment::Timer => "timer",
            Experiment::Block => "block",
            Experiment::Readahead => "readahead",
            Experiment::Cache => "cache",
            Experiment::Extent => "extent",
            Experiment::Gates => "gates",
        }
    }
}

/// A value that was found, or that the kernel gives.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A number.
    Number(f64),
    /// Between these two.
    Range(f64, f64),
    /// Several, in order.
    List(Vec<u64>),
    /// A word.
    Word(String),
}

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Number(value as f64)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Value {
        Value::Number(f64::from(value))
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Number(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Word(value.to_owned())
    }
}

/// One thing that was found, or could not be.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// The experiment that it comes from.
    pub experiment: Experiment,
    /// What it is, in a word: `allocation-block`.
    pub name: &'static str,
    /// What was found; `None` where the experiment cannot tell.
    pub inferred: Option<Value>,
    /// What it is counted in.
    pub unit: &'static str,
    /// What the kernel says; `None` where it says nothing.
    pub truth: Option<Value>,
    /// Who says so.
    pub truth_source: Option<String>,
    /// Whether the two agree; `None` where one is missing.
    pub agrees: Option<bool>,
    /// How sure the value is, between 0 and 1: for what was seen directly the share of the trials
    /// that agree, for what was inferred from times 1 less the chance that noise does as well. 0
    /// where there is none.
    pub confidence: f64,
    /// How it was found, or why it was not.
    pub method: String,
    /// Whether it rests on times alone.
    pub by_time: bool,
    /// How often it was tried.
    pub trials: u32,
    /// The call that stood in the way, if one did, and how it failed.
    pub refused: Option<(Gate, Errno)>,
}

impl Finding {
    /// Something that cannot be told, and why.
    pub fn unknown(
        experiment: Experiment,
        name: &'static str,
        unit: &'static str,
        why: impl Into<String>,
    ) -> Finding {
        Finding {
            experiment,
            name,
            inferred: None,
            unit,
            truth: None,
            truth_source: None,
            agrees: None,
            confidence: 0.0,
            method: why.into(),
            by_time: false,
            trials: 0,
            refused: None,
        }
    }

    /// Something that cannot be told, since the experiment could not be done.
    pub fn hindered(
        experiment: Experiment,
        name: &'static str,
        unit: &'static str,
        why: &Trouble,
    ) -> Finding {
        Finding {
            refused: why.refusal(),
            ..Finding::unknown(experiment, name, unit, why.to_string())
        }
    }

    /// Something that was found.
    pub fn known(
        experiment: Experiment,
        name: &'static str,
        unit: &'static str,
        value: impl Into<Value>,
        confidence: f64,
        method: impl Into<String>,
    ) -> Finding {
        let confidence = confidence.clamp(0.0, 1.0);
        Finding {
            inferred: Some(value.into()),
            confidence,
            trials: 1,
            ..Finding::unknown(experiment, name, unit, method)
        }
    }

    /// The same, by times alone.
    pub fn by_time(self) -> Finding {
        Finding {
            by_time: true,
            ..self
        }
    }

    /// The same, tried so often.
    pub fn tried(self, trials: usize) -> Finding {
        Finding {
            trials: u32::try_from(trials).unwrap_or(u32::MAX),
            ..self
        }
    }

    /// Beside what the kernel says, if it does; numbers agree within `within` of it.
    pub fn beside(mut self, truth: Option<(Value, String)>, within: f64) -> Finding {
        let near = |a: f64, b: f64| (a - b).abs() <= within * b.abs();
        self.agrees = match (&self.inferred, &truth) {
            (Some(Value::Number(a)), Some((Value::Number(b), _))) => Some(near(*a, *b)),
            (Some(Value::Range(low, high)), Some((Value::Number(b), _))) => {
                Some((*low <= *b && *b <= *high) || near(*low, *b) || near(*high, *b))
            }
            (Some(a), Some((b, _))) => Some(a == b),
            _ => None,
        };
        (self.truth, self.truth_source) = truth.unzip();
        self
    }
}
