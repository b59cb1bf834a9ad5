//! All experiments, one after the other.

use std::time::Instant;

use gate::create::pwrite64;
use gate::file::fsync;
use mounts::{Warning, may_hang};

use crate::cache::How;
use crate::desk::{Desk, Limits, Moved, Trouble};
use crate::finding::{Experiment, Finding};
use crate::gates::Price;
use crate::place::Place;
use crate::samples::Series;
use crate::watch::{Said, watched};

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

impl Measured {
    /// A finding that nothing was read or written for.
    pub fn of(finding: Finding) -> Measured {
        Measured {
            finding,
            seconds: 0.0,
            moved: Moved::default(),
        }
    }
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
    /// Why not all could be found out, where the file system stopped answering, or the process that
    /// asked it was killed.
    pub hung: Option<String>,
}

impl Answer {
    /// Adds what was found since.
    pub(crate) fn add(&mut self, more: Answer) {
        self.fstype = more.fstype.or(self.fstype.take());
        self.measured.extend(more.measured);
        self.prices = more.prices.or(self.prices.take());
        self.series.extend(more.series);
    }
}

/// Does the experiments, in a process of their own. `say` is told what is being measured, and why.
///
/// # Errors
/// When the directory cannot be opened, when its file system does not answer, or
/// [`Trouble::Interrupted`]. What stands in the way of one experiment is its finding; when the file
/// system stops answering in the middle of one, it is so for all that are left.
pub fn run(question: &Question, say: &mut dyn FnMut(&str)) -> Result<Answer, Trouble> {
    let mut answer = watched(question, say)?;
    if let Some(why) = answer.hung.clone().map(Trouble::Hindered) {
        let is_done = |experiment| {
            answer
                .measured
                .iter()
                .any(|measured| measured.finding.experiment == experiment)
        };
        let left: Vec<Measured> = Experiment::ALL
            .into_iter()
            .filter(|experiment| question.experiments.contains(experiment) && !is_done(*experiment))
            .map(|experiment| {
                Measured::of(Finding::hindered(experiment, experiment.name(), "", &why))
            })
            .collect();
        answer.measured.extend(left);
    }
    Ok(answer)
}

/// Does the experiments, and tells what it does and what it finds.
pub(crate) fn experiments(question: &Question, tell: &dyn Fn(Said)) -> Result<(), Trouble> {
    let place = if question.unasked {
        Place::unasked(&question.dir)?
    } else {
        Place::open(&question.dir)?
    };
    try_out(&place, tell);
    tell(Said::Found(Answer {
        fstype: place.fstype().map(<[u8]>::to_vec),
        ..Answer::default()
    }));
    let mut say = |what: &str| tell(Said::Does(what.to_owned()));
    let mut desk = Desk::new(question.limits, &mut say);
    for experiment in Experiment::ALL {
        let asked = question.experiments.contains(&experiment);
        if !asked && experiment != Experiment::Timer {
            continue;
        }
        let (begun, before) = (Instant::now(), desk.moved());
        let mut answer = Answer::default();
        let done = match experiment {
            Experiment::Timer => crate::timer::timer(&mut desk),
            Experiment::Block => crate::block::block(&place, &mut desk, &mut answer.series),
            Experiment::Readahead => {
                crate::readahead::readahead(&place, &mut desk, &mut answer.series)
            }
            Experiment::Cache => {
                crate::cache::cache(&place, &mut desk, question.cache, &mut answer.series)
            }
            Experiment::Extent => crate::extent::extent(&place, &mut desk, &mut answer.series),
            Experiment::Gates => {
                crate::gates::gates(&place, &mut desk, answer.prices.get_or_insert_default())
            }
        };
        let found = match done {
            Ok(found) => found,
            Err(Trouble::Interrupted) => return Err(Trouble::Interrupted),
            Err(why) => vec![Finding::hindered(experiment, experiment.name(), "", &why)],
        };
        let after = desk.moved();
        let moved = Moved {
            read: after.read - before.read,
            written: after.written - before.written,
        };
        let seconds = begun.elapsed().as_secs_f64();
        if asked {
            answer
                .measured
                .extend(found.into_iter().map(|finding| Measured {
                    finding,
                    seconds,
                    moved,
                }));
            tell(Said::Found(answer));
        }
    }
    Ok(())
}

/// Whether the file system answers: a byte is brought to the disk, where that may take for ever.
/// What fails here fails again where it is said why.
fn try_out(place: &Place, tell: &dyn Fn(Said)) {
    if !place.fstype().is_none_or(may_hang) {
        return;
    }
    let asks = |what: &str| tell(Said::Asks(what.to_owned()));
    asks("make a file in it");
    let Ok(scratch) = place.scratch() else { return };
    asks("write to a file in it");
    if pwrite64(&scratch.file, b"x", 0).is_ok() {
        asks("bring a file in it to the disk");
        let _ = fsync(&scratch.file);
    }
}

/// What in an answer is not as it should be: what could not be done since a call failed, what was
/// found otherwise than the kernel says, and that the file system no longer answers.
pub fn warnings(dir: &[u8], answer: &Answer) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = answer
        .hung
        .iter()
        .map(|why| Warning::about(dir, why.clone()))
        .collect();
    for finding in answer.measured.iter().map(|measured| &measured.finding) {
        let experiment = finding.experiment.name();
        let warning = match (finding.refused, finding.agrees) {
            (Some((gate, errno)), _) => Warning::failed(
                dir,
                gate,
                errno,
                format!("{experiment}: {}", finding.method),
            ),
            // What rests on times alone is marked as such, and may be wrong.
            (None, Some(false)) if !finding.by_time => {
                let message = format!(
                    "{experiment}: {} is not what the kernel says: {}",
                    finding.name, finding.method
                );
                Warning::about(dir, message)
            }
            _ => continue,
        };
        // One reason often stands in the way of several findings.
        if warnings
            .iter()
            .all(|other| other.message() != warning.message())
        {
            warnings.push(warning);
        }
    }
    warnings
}
