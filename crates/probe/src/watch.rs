//! The process that does the experiments, and the one that watches it.
//!
//! A call that waits for a dead server has no time limit. So whatever is done on a file system is
//! done by a process of its own, which says in a log what it is at and what it has found. It holds
//! nothing that anybody waits for, above all no end of a pipe: when it does not come through in its
//! time it is killed, and where that does not help left to itself.

use std::time::{Duration, Instant};

use gate::fs::{CWD, Open, openat};
use gate::process::{Child, Ended, Shared};
use gate::{Gate, Tally};

use crate::desk::Trouble;
use crate::log::{Carried, Log};
use crate::run::{Answer, Question, experiments};

/// No server that works takes longer for one thing; and how late the last experiment may be to see
/// that its time is over.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often to look what it says, and whether somebody wants the program to end.
const LOOK: Duration = Duration::from_millis(100);
/// How long it may still take when somebody wants the program to end: it may have a file to put
/// away, and so may a process that it waits for.
const GRACE: Duration = Duration::from_secs(5);
/// How long a process may take to die.
const REAP: Duration = Duration::from_millis(500);
/// Words for all that is said: five times the samples of all experiments.
const ROOM: usize = 1 << 20;

/// What it says.
pub(crate) enum Said {
    /// Whether the file system answers at all is being found out: it is asked to do this.
    Asks(String),
    /// An experiment has come to this.
    Does(String),
    /// What it has found, since it said so last.
    Found(Answer),
    /// Why it has found nothing.
    Failed(Trouble),
}

impl Carried for Said {
    fn put(&self, into: &mut Vec<u8>) {
        match self {
            Said::Asks(what) => (0_u8, what.clone()).put(into),
            Said::Does(what) => (1_u8, what.clone()).put(into),
            Said::Found(answer) => {
                2_u8.put(into);
                answer.put(into);
            }
            Said::Failed(why) => {
                3_u8.put(into);
                why.put(into);
            }
        }
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        match u8::take(from)? {
            0 => String::take(from).map(Said::Asks),
            1 => String::take(from).map(Said::Does),
            2 => Answer::take(from).map(Said::Found),
            3 => Trouble::take(from).map(Said::Failed),
            _ => None,
        }
    }
}

/// Has the experiments done, and waits no longer for them than they may take.
pub(crate) fn watched(question: &Question, say: &mut dyn FnMut(&str)) -> Result<Answer, Trouble> {
    let refused = Trouble::refused("cannot make a process for it", Gate::Unshare);
    let log = Log::new(ROOM).map_err(&refused)?;
    let tally = Shared::new(Tally::WORDS).map_err(&refused)?;
    let child = Child::fork_detached(|| {
        gate::interrupt::note();
        let before = gate::meter::tally();
        // What is open next must not be taken for a standard stream: a message of the last moment
        // would go into it.
        std::mem::forget([(); 3].map(|()| openat(CWD, c"/", Open::DIRECTORY | Open::PATH)));
        let tell = |said: Said| {
            log.add(&said);
            gate::meter::tally().since(&before).publish(&tally);
        };
        if let Err(why) = experiments(question, &tell) {
            tell(Said::Failed(why));
        }
        gate::meter::tally().since(&before).publish(&tally);
    });
    let mut answer = Answer::default();
    let done = attend(
        &mut child.map_err(&refused)?,
        question.limits.time,
        &log,
        &mut answer,
        say,
    );
    gate::meter::add(&Tally::collect(&tally));
    match done {
        Err(Trouble::Hindered(why)) if !answer.measured.is_empty() => answer.hung = Some(why),
        done => done?,
    }
    Ok(answer)
}

/// Waits for the end of the process that does the experiments within `time`, and hears what it says
/// meanwhile.
fn attend(
    child: &mut Child,
    time: Duration,
    log: &Log,
    answer: &mut Answer,
    say: &mut dyn FnMut(&str),
) -> Result<(), Trouble> {
    let (mut begun, mut limit, mut was_asked) = (Instant::now(), time.min(PATIENCE), false);
    let (mut at, mut read) = (Said::Asks("open it".to_owned()), 0);
    loop {
        let ended = child.wait(LOOK.min(limit));
        while let Some(said) = log.read(&mut read) {
            match said {
                Said::Found(more) => answer.add(more),
                said => {
                    if matches!((&at, &said), (Said::Asks(_), Said::Does(_))) && !was_asked {
                        (begun, limit) = (Instant::now(), time.saturating_add(PATIENCE));
                    }
                    at = said;
                }
            }
        }
        if let Some(ended) = ended {
            return match at {
                Said::Failed(why) => Err(why),
                _ => went(ended),
            };
        }
        if let Said::Does(what) = &at {
            say(what);
        }
        if gate::interrupt::asked().is_some() && !was_asked {
            child.ask_to_stop();
            (limit, was_asked) = (limit.min(begun.elapsed() + GRACE), true);
        }
        if begun.elapsed() >= limit {
            child.kill();
            let is_dead = child.wait(REAP).is_some();
            return Err(if was_asked {
                Trouble::Interrupted
            } else {
                silent(&at, limit, child.id(), is_dead)
            });
        }
    }
}

/// What it means that it has ended so, and not said why.
fn went(ended: Ended) -> Result<(), Trouble> {
    let how = match (ended.status, ended.signal) {
        (Some(0), _) => return Ok(()),
        (_, Some(signal)) => format!("was ended by signal {signal}"),
        _ => "has failed".to_owned(),
    };
    Err(Trouble::Hindered(format!(
        "the process that does the experiments {how}"
    )))
}

/// What it means that it has not come through in its time.
fn silent(at: &Said, limit: Duration, process: i32, is_dead: bool) -> Trouble {
    let what = match at {
        Said::Does(what) => format!("stopped answering in the middle of '{what}'"),
        Said::Asks(what) => {
            format!(
                "did not answer within {:.0} s when asked to {what}",
                limit.as_secs_f64().ceil()
            )
        }
        Said::Found(_) | Said::Failed(_) => {
            "does not let go of the process that has asked it".to_owned()
        }
    };
    let stays = match is_dead {
        true => String::new(),
        false => format!(
            "; process {process} waits for it in the kernel, and ends when its server answers or ends"
        ),
    };
    Trouble::Hindered(format!(
        "its file system {what}{stays}; fathom mounts --check says which mounts hang"
    ))
}
