//! What starting programs takes: PATH, the dynamic linker, Python.

use std::ffi::OsString;
use std::time::Duration;

use crate::cmd::survey::show::fixes as shown;
use crate::cmd::survey::show::startup::{Started, Startup, Tried};
use ::mounts::compare::{Bounds, run_in_child_within};
use meter::call::Command;
use pathsearch::count::KindCounts;
use pathsearch::directory::DirectoryReport;
use pathsearch::path::ElementState;
use pathsearch::startup::{PathElement, ProgramStart, path_elements};
use pathsearch::{ASSUMED_RTT, Fix, RoundTrip, SearchOptions, search};

use super::found::Found;
use super::run::SurveyContext;
use super::steps::Ration;
use super::walking::heard;
use crate::cmd::pathsearch::run::environment;
use crate::cmd::pathsearch::show::change_text;
use crate::out::seconds;
use ::survey::{Failure, Missing, Task};

/// What was found.
pub(super) struct Starting {
    path: Vec<PathElement>,
    started: Vec<Started>,
}

/// Programs that may be started unasked: they do nothing, nor leave anything (-B: no compiled
/// modules). What they are for is in the report.
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

/// How many programs are started: one a turn, so that one that does not end takes nothing with it.
pub(super) fn programs(_: &Found) -> usize {
    STARTED.len()
}

/// Starts a program; before the first one, looks at the elements of PATH.
pub(super) fn start(
    _: &SurveyContext<'_>,
    found: &mut Found,
    ration: &Ration,
    turn: usize,
) -> Result<(), Missing> {
    let Some(&(command, about, words)) = STARTED.get(turn) else {
        return Ok(());
    };
    let environment = environment();
    let path = environment.path.clone().unwrap_or_default();
    if turn == 0 {
        found.starting = Some(looked_at(&path)?);
    }
    let Some(starting) = &mut found.starting else {
        return Err(Missing::NoPath);
    };
    let mut progress = ration.progress();
    progress.at(|| command.to_owned());
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
        // There is no Python here, or it was interrupted.
        Ok(report) if report.metered.ended.status() != 0 => heard(report.metered.ended),
        Ok(report) => {
            let start = ProgramStart::new(command, about, report);
            starting.started.push(started(start));
        }
        Err(meter::Error::Command(_)) => {}
        Err(why) => {
            let failure = Failure::new(Task::TraceStart, why);
            return Err(if turn == 0 {
                Missing::Failed(failure)
            } else {
                Missing::Skipped(failure)
            });
        }
    }
    if path.is_empty() && starting.started.is_empty() {
        found.starting = None;
        return Err(Missing::NothingToStart);
    }
    Ok(())
}

/// The elements of PATH, any of which may lie on a server that does not answer.
fn looked_at(path: &[u8]) -> Result<Starting, Missing> {
    const PATIENCE: Duration = Duration::from_secs(2);
    let bounds = Bounds {
        grace: Duration::ZERO,
        ..Bounds::time(PATIENCE)
    };
    let look = || {
        path_elements(path);
        Some([])
    };
    if run_in_child_within(&bounds, look).is_ok_and(|ran| ran.is_err()) {
        return Err(Missing::SilentPath);
    }
    Ok(Starting {
        path: path_elements(path),
        started: Vec::new(),
    })
}

impl Starting {
    pub(super) fn shown(&self) -> Startup<'_> {
        let path = self
            .path
            .iter()
            .map(|element| crate::cmd::survey::show::startup::Element {
                dir: &element.dir,
                state: match element.state {
                    ElementState::Ok => "live",
                    ElementState::Missing => "dead",
                    ElementState::Duplicate(_) => "again",
                    ElementState::Unknown => "unknown",
                },
                fstype: element.fstype.as_deref(),
                network: element.network,
            });
        Startup {
            path: path.collect(),
            started: self.started.clone(),
            rtt: ASSUMED_RTT,
        }
    }
}

/// The start of a program as the survey prints it.
fn started(start: ProgramStart) -> Started {
    let counts = |counts: &KindCounts| -> Vec<shown::Count> {
        let each = counts.iter().map(|(kind, count)| shown::Count {
            kind: kind.name(),
            hits: count.hits,
            misses: count.misses,
        });
        each.collect()
    };
    let tried = |directory: &DirectoryReport| Tried {
        dir: directory.dir.clone(),
        hits: directory.lookups.counts.total().hits,
        misses: directory.lookups.counts.total().misses,
        seconds: seconds(directory.lookups.nanos),
        kinds: counts(&directory.lookups.counts),
    };
    let fix = |fix: &Fix| shown::Fix {
        kind: fix.change.kind().name(),
        change: change_text(&fix.change),
        saves_misses: fix.saves_misses,
        saves_requests: fix.saves_requests,
        saves_seconds: fix.saves_seconds,
        saves_seconds_here: fix.saves_seconds_here,
    };
    Started {
        command: start.command,
        about: start.about,
        totals: shown::Totals {
            lookups: start.totals.lookups,
            misses: start.totals.misses,
            seconds: seconds(start.totals.nanos),
        },
        kinds: counts(&start.kinds),
        requests: start.requests,
        seconds_far: start.remote_seconds,
        fixes: start.fixes.iter().map(fix).collect(),
        directories: start.directories.iter().map(tried).collect(),
    }
}
