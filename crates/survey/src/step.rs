//! The steps of a survey, and the machine that it was taken on.

use crate::missing::Unseen;
use crate::section::Section;

/// How a step of the survey ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepState {
    /// It finished.
    Done,
    /// It was out of time or I/O, or was interrupted.
    Stopped,
    /// It was not taken.
    Skipped,
}

impl StepState {
    /// Its name in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            StepState::Done => "done",
            StepState::Stopped => "stopped",
            StepState::Skipped => "skipped",
        }
    }
}

/// A step of the survey.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct StepTaken {
    /// Its name, as the progress line has it: `walk with each engine`.
    pub name: &'static str,
    pub section: Section,
    pub state: StepState,
    pub seconds: f64,
    /// Bytes that it read from disks.
    pub bytes_read: u64,
    /// Bytes that it wrote to temporary files.
    pub bytes_written: u64,
}

/// The machine, and what the survey of it took.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Machine {
    /// The host name, if it has one.
    pub host: Option<Vec<u8>>,
    pub kernel: String,
    pub arch: String,
    /// Processors that this process may use.
    pub cpus: usize,
    pub memory: Option<u64>,
    pub root: bool,
    /// The program that runs a command as root, if there is one: `sudo` or `doas`.
    pub sudo: Option<&'static str>,
    /// Where this user can write files, and the bytes that are available there: the working directory, whose
    /// name is empty, and those for temporary files.
    pub places: Vec<(Vec<u8>, u64)>,
    /// Whether this user may write in the directory of the survey.
    pub is_writable: bool,
    /// What more privilege would have shown.
    pub unseen: Vec<Unseen>,
    pub version: &'static str,
    /// When the survey began, in seconds since 1970.
    pub when: i64,
    pub seconds: f64,
    /// Bytes that it read from disks.
    pub bytes_read: u64,
    /// Bytes that it wrote to temporary files.
    pub bytes_written: u64,
    /// Seconds that it was allowed.
    pub limit_seconds: f64,
    /// Bytes that it was allowed to read and write together.
    pub limit_bytes: u64,
    pub deep: bool,
}
