//! All experiments, one after the other.

use std::time::Instant;

use mounts::Warning;

use crate::answers::answers;
use crate::cache::How;
use crate::desk::{Desk, Limits, Moved, Trouble};
use crate::finding::{Experiment, Finding};
use crate::gates::Price;
use crate::place::Place;
use crate::samples::Series;

/// What is to be found out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// The directory.
    pub dir: Vec<u8>,
    /// Which experiments; the timer is done in any case.
    pub experiments: Vec<Experiment>,
    /// What may be used up.
    pub limits: Limits,
    /// How the cache is filled.
    pub cache: How,
    /// Nobody has asked for it by name: nothing is made that has a name, and nothing is taken away.
    pub unasked: bool,
}

/// A finding, and what its experiment took.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// What was found.
    pub finding: Finding,
    /// How long the whole experiment took.
    pub seconds: f64,
    /// What it read and wrote.
    pub moved: Moved,
}

/// What was found out.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Answer {
    /// Type of the file system.
    pub fstype: Option<Vec<u8>>,
    /// What was found, experiment by experiment.
    pub measured: Vec<Measured>,
    /// What each call costs, if that was asked.
    pub prices: Option<Vec<Price>>,
    /// The samples.
    pub series: Vec<Series>,
}

/// Does the experiments. `say` is told what is being measured, and why.
///
/// # Errors
/// When the directory cannot be opened, when its file system does not answer, or [`Trouble::Interrupted`]. What stands in the way of one experiment is its finding.
pub fn run(question: &Question, say: &mut dyn FnMut(&str)) -> Result<Answer, Trouble> {
    answers(&question.dir, question.limits.time)?;
    let place = if question.unasked { Place::unasked(&question.dir)? } else { Place::open(&question.dir)? };
    let mut answer = Answer { fstype: place.fstype().map(<[u8]>::to_vec), ..Answer::default() };
    let mut desk = Desk::new(question.limits, say);
    for experiment in Experiment::ALL {
        let asked = question.experiments.contains(&experiment);
        if !asked && experiment != Experiment::Timer {
            continue;
        }
        let (begun, before) = (Instant::now(), desk.moved());
        let done = match experiment {
            Experiment::Timer => crate::timer::timer(&mut desk),
            Experiment::Block => crate::block::block(&place, &mut desk, &mut answer.series),
            Experiment::Readahead => crate::readahead::readahead(&place, &mut desk, &mut answer.series),
            Experiment::Cache => crate::cache::cache(&place, &mut desk, question.cache, &mut answer.series),
            Experiment::Extent => crate::extent::extent(&place, &mut desk, &mut answer.series),
            Experiment::Gates => crate::gates::gates(&place, &mut desk, answer.prices.get_or_insert_default()),
        };
        let found = match done {
            Ok(found) => found,
            Err(Trouble::Interrupted) => return Err(Trouble::Interrupted),
            Err(why) => vec![Finding::hindered(experiment, experiment.name(), "", &why)],
        };
        let after = desk.moved();
        let moved = Moved { read: after.read - before.read, written: after.written - before.written };
        let seconds = begun.elapsed().as_secs_f64();
        if asked {
            answer.measured.extend(found.into_iter().map(|finding| Measured { finding, seconds, moved }));
        }
    }
    Ok(answer)
}

/// What in an answer is not as it should be: what could not be done since a call failed, and what was found otherwise than the
/// kernel says.
pub fn warnings(dir: &[u8], measured: &[Measured]) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = Vec::new();
    for finding in measured.iter().map(|measured| &measured.finding) {
        let experiment = finding.experiment.name();
        let warning = match (finding.refused, finding.agrees) {
            (Some((gate, errno)), _) => Warning::failed(dir, gate, errno, format!("{experiment}: {}", finding.method)),
            // What rests on times alone is marked as such, and may be wrong.
            (None, Some(false)) if !finding.by_time => {
                let message = format!("{experiment}: {} is not what the kernel says: {}", finding.name, finding.method);
                Warning::about(dir, message)
            }
            _ => continue,
        };
        // One reason often stands in the way of several findings.
        if warnings.iter().all(|other| other.message != warning.message) {
            warnings.push(warning);
        }
    }
    warnings
}
