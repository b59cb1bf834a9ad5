//! What starting programs takes: PATH, the dynamic linker, Python.

use std::ffi::OsString;
use std::time::Duration;

use ::mounts::compare::{Bounds, alone_within};
use meter::call::Command;
use pathsearch::path::{Element, Here, elements};
use pathsearch::trace::Trace;
use pathsearch::tree::Places;
use pathsearch::{ASSUMED_RTT, Question, Rtt, search};
use report::startup::{Started, Startup};

use super::found::{Found, Not};
use super::run::Ground;
use super::steps::Ration;
use super::walking::heard;
use crate::cmd::pathsearch::run::{result, surroundings};

/// What was found.
pub(super) struct Starting {
    elements: Vec<(Vec<u8>, Element)>,
    places: Places,
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
    _: &Ground<'_>,
    found: &mut Found,
    ration: &Ration,
    turn: usize,
) -> Result<(), Not> {
    let Some(&(command, about, words)) = STARTED.get(turn) else {
        return Ok(());
    };
    let around = surroundings();
    let path = around.path.clone().unwrap_or_default();
    if turn == 0 {
        found.starting = Some(looked_at(&path)?);
    }
    let Some(starting) = &mut found.starting else {
        return Err(Not::chosen("PATH was not looked at either"));
    };
    let mut progress = ration.progress();
    progress.at(|| command.to_owned());
    let question = Question {
        far: vec![b"/".to_vec()],
        rtt: Rtt::Assumed,
        nodes: 1,
        rate: None,
    };
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    let mut meter =
        |command: &Command, trace: &mut Trace| meter::run_exact(meter::auto::NAME, command, trace);
    match Command::find(&words).and_then(|command| search(&command, &around, &question, &mut meter))
    {
        // There is no Python here, or it was interrupted.
        Ok((metered, _)) if metered.ended.status() != 0 => heard(metered.ended),
        Ok((metered, judged)) => {
            let shown = result(&judged, &metered, &question);
            starting.started.push(Started {
                command,
                about,
                totals: shown.totals,
                directories: shown.directories.iter().map(Into::into).collect(),
                kinds: shown.kinds,
                requests: judged.predicted.requests.cold.waited(),
                seconds_far: shown.predicted.seconds,
                fixes: shown.fixes,
            });
        }
        Err(meter::Error::Command(_)) => {}
        Err(why) => {
            let why = format!("cannot watch programs start: {why}");
            return Err(if turn == 0 {
                Not::wrong(why.to_string())
            } else {
                Not::chosen(why)
            });
        }
    }
    if path.is_empty() && starting.started.is_empty() {
        found.starting = None;
        return Err(Not::chosen(
            "there is no PATH, and nothing could be started",
        ));
    }
    Ok(())
}

/// The elements of PATH, any of which may lie on a server that does not answer.
fn looked_at(path: &[u8]) -> Result<Starting, Not> {
    const PATIENCE: Duration = Duration::from_secs(2);
    let bounds = Bounds {
        grace: Duration::ZERO,
        ..Bounds::time(PATIENCE)
    };
    let look = || {
        elements(path, &mut Here);
        Some([])
    };
    if alone_within(&bounds, look).is_ok_and(|ran| ran.is_err()) {
        return Err(Not::wrong(
            "a directory of PATH does not answer; see fathom mounts --check",
        ));
    }
    Ok(Starting {
        elements: elements(path, &mut Here),
        places: Places::read(),
        started: Vec::new(),
    })
}

impl Starting {
    pub(super) fn shown(&self) -> Startup<'_> {
        let path = self.elements.iter().map(|(dir, element)| {
            let place = self.places.of_name(dir).filter(|_| dir.starts_with(b"/"));
            report::startup::Element {
                dir,
                state: match element {
                    Element::Live => "live",
                    Element::Dead => "dead",
                    Element::Again(_) => "again",
                    Element::Fixed => "unknown",
                },
                fstype: place.map(|mount| mount.fstype.as_slice()),
                network: place.is_some_and(|mount| mount.network),
            }
        });
        Startup {
            path: path.collect(),
            started: self.started.clone(),
            rtt: ASSUMED_RTT,
        }
    }
}
