//! Steps: the cost of program starts (PATH, the dynamic linker, Python).

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use gate::fs::Open;
use gate::long::open_long;
use meter::call::Command;
use mounts::check::{ANSWER_WITHIN, find_silent_mount};
use pathsearch::{
    ASSUMED_RTT, Environment, ProgramStart, RoundTrip, SearchOptions, StartupReport, is_silent,
    path_elements, search,
};

use super::context::{Activity, StepContext};
use super::walking::forward_interrupt;
use crate::found::SurveyResults;
use crate::missing::{Failure, Missing, Task};

/// Programs that are started without asking the user: they have no effects and leave nothing behind
/// (-B: no compiled modules). The report explains their purpose.
const STARTED: [(&str, &str, &[&str]); 2] = [
    ("env true", "PATH and ld.so", &["env", "true"]),
    (
        "python3 -c pass",
        "python",
        &[
            "sh",
            "-c",
            "exec python3 -B -c pass </dev/null >/dev/null 2>&1",
        ],
    ),
];

/// Number of programs to start, each in a run of its own, so that a program that hangs does not
/// prevent the others from starting.
pub(super) fn programs(_: &SurveyResults) -> usize {
    STARTED.len()
}

/// Step: starts a program; before the first one, examines the elements of PATH.
pub(super) fn start(step: &mut StepContext<'_>, found: &mut SurveyResults) -> Result<(), Missing> {
    let Some(&(command, about, words)) = STARTED.get(step.turn.nth) else {
        return Ok(());
    };
    let environment = Environment::of_this_process();
    let path = environment.path.clone().unwrap_or_default();
    if step.turn.nth == 0 {
        found.startup = Some(look_at_path(&path)?);
    }
    let Some(startup) = &mut found.startup else {
        return Err(Missing::NoPath);
    };
    // Programs read their configuration there.
    let home = std::env::var_os("HOME").unwrap_or_default();
    let look = || drop(open_long(home.as_bytes(), Open::DIRECTORY));
    if find_silent_mount(home.as_bytes(), ANSWER_WITHIN, look).is_some() {
        return Err(Missing::SilentHome);
    }
    step.report(Activity::Starting(command));
    let options = SearchOptions {
        remote: vec![b"/".to_vec()],
        rtt: RoundTrip::Assume,
        nodes: 1,
        server_rate: None,
    };
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    let report = Command::find(&words)
        .and_then(|command| search(&command, meter::auto::NAME, &environment, &options));
    match report {
        // Python is not installed, or the start was interrupted.
        Ok(report) if report.metered.ended.status() != 0 => forward_interrupt(report.metered.ended),
        Ok(report) => {
            let runs = time_starts(&words, report.metered.real, step);
            let start = ProgramStart::new(command, about, report, runs);
            startup.started.push(start);
        }
        Err(meter::Error::Command(_)) => {}
        Err(why) => {
            let failure = Failure::new(Task::TraceStart, why);
            return Err(if step.turn.nth == 0 {
                Missing::Failed(failure)
            } else {
                Missing::Skipped(failure)
            });
        }
    }
    if path.is_empty() && startup.started.is_empty() {
        found.startup = None;
        return Err(Missing::NothingToStart);
    }
    Ok(())
}

/// Times some starts without a meter, as far as time permits; `metered` is the duration of the
/// start under the meter, which has filled the caches.
fn time_starts(words: &[OsString], metered: Duration, step: &StepContext<'_>) -> Vec<f64> {
    const STARTS: usize = 5;
    let Ok(command) = Command::find(words) else {
        return Vec::new();
    };
    let mut runs = Vec::new();
    let mut longest = metered;
    while runs.len() < STARTS && 2 * longest < step.left() {
        match meter::run_unmetered(&command) {
            Ok((ended, real)) if ended.status() == 0 => {
                longest = longest.max(real);
                runs.push(real.as_secs_f64());
            }
            _ => break,
        }
    }
    runs
}

/// Examines the elements of PATH, any of which may be on a server that does not respond.
fn look_at_path(path: &[u8]) -> Result<StartupReport, Missing> {
    if is_silent(path) {
        return Err(Missing::SilentPath);
    }
    Ok(StartupReport {
        path: path_elements(path),
        started: Vec::new(),
        rtt: ASSUMED_RTT,
    })
}
