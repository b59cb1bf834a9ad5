//! The path searches of a command: what it looked for where, what that would cost on a network file
//! system, and what would make it cheaper.
//!
//! | module | what is in it |
//! |---|---|
//! | [`kind`] | what a search is for |
//! | [`lookup`] | which calls are look-ups, and the directory that a name is looked up in |
//! | [`classify`] | which search a look-up belongs to |
//! | [`group`] | look-ups that make one search |
//! | [`trace`] | listens to a meter, and keeps what is to be known |
//! | [`tree`] | the file tree and its file systems, as the model must know them |
//! | [`model`] | the requests of a start on a network file system |
//! | [`load`] | many nodes that start at once |
//! | [`calibrate`](mod@calibrate) | what a mount is like |
//! | [`order`] | the best order of directories |
//! | [`path`] | a better PATH |
//! | [`fixes`](mod@fixes) | what would help, and how much |
#![forbid(unsafe_code)]

pub mod calibrate;
pub mod classify;
pub mod fixes;
pub mod group;
pub mod kind;
pub mod load;
pub mod lookup;
pub mod model;
pub mod order;
pub mod path;
pub mod trace;
pub mod tree;

use gate::Gate;
use meter::call::{Command, Metered};
use meter::names::Inherited;
use mounts::Warning;

use calibrate::calibrate;
use classify::Known;
use fixes::{Ask, Fix, Surroundings, fixes};
use kind::Kind;
use load::{Outcome, Start, outcome};
use model::{Manner, Prediction, Prices, Request, examples, predict};
use path::{Better, better};
use trace::{Directory, Trace, Traced};
use tree::{Far, Here, Places};

/// How long a request takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rtt {
    /// So many seconds.
    Given(f64),
    /// As many as it takes on the mount.
    Auto,
    /// Nobody said: half a millisecond.
    Assumed,
}

/// Seconds of a round trip that nobody said anything about: a server in the same building.
pub const ASSUMED_RTT: f64 = 0.0005;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// The directories that are to be thought of as on a network file system; none for those that
    /// are, or else for all.
    pub far: Vec<Vec<u8>>,
    /// How long a request takes there.
    pub rtt: Rtt,
    /// Nodes that start at once.
    pub nodes: u64,
    /// Requests that the server answers in a second.
    pub rate: Option<f64>,
}

/// What the start would take on a network file system.
#[derive(Clone, Debug)]
pub struct Predicted {
    /// Seconds of a look-up.
    pub rtt: f64,
    /// Seconds of each request.
    pub prices: Prices,
    /// Where that comes from: `given`, `measured`, `assumed`.
    pub rtt_source: &'static str,
    /// What is taken to be on the network file system.
    pub far: Far,
    /// What its client keeps.
    pub manner: Manner,
    /// The requests.
    pub requests: Prediction,
    /// Seconds of work of the command's own.
    pub own: f64,
    /// With empty caches.
    pub cold: Outcome,
    /// Once more, right afterwards.
    pub warm: Outcome,
}

/// A directory, and what was looked up in it.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name, absolute.
    pub dir: Vec<u8>,
    /// What was looked up.
    pub directory: Directory,
    /// Its file system's type, where the mount table says.
    pub fstype: Option<Vec<u8>>,
    /// Whether that is on a network.
    pub network: bool,
}

/// What a trace comes to.
#[derive(Debug)]
pub struct Judged {
    /// The trace.
    pub traced: Traced,
    /// Directories, those with the most misses first.
    pub rows: Vec<Row>,
    /// What the start would take on a network file system.
    pub predicted: Predicted,
    /// What would help, most first.
    pub fixes: Vec<Fix>,
    /// A better PATH.
    pub better: Option<Better>,
    /// What could not be seen.
    pub warnings: Vec<Warning>,
}

/// How to run a command under a meter: which of them, and with what to listen.
pub type Run<'a> = dyn FnMut(&Command, &mut Trace) -> Result<Metered, meter::Error> + 'a;

/// Runs a command and judges its searches.
///
/// # Errors
/// Those of the meter.
pub fn search(
    command: &Command,
    around: &Surroundings,
    question: &Question,
    run: &mut Run<'_>,
) -> Result<(Metered, Judged), meter::Error> {
    let known = Known::new(around.path.as_deref(), around.python_path.as_deref());
    let mut trace = Trace::new(Inherited::from_this_process(), known);
    let metered = run(command, &mut trace)?;
    let judged = judge(trace.end(), &metered, around, question);
    Ok((metered, judged))
}

/// Judges a trace.
pub fn judge(
    traced: Traced,
    metered: &Metered,
    around: &Surroundings,
    question: &Question,
) -> Judged {
    let places = Places::read();
    let mut warnings = Vec::new();
    let rows = rows(&traced, &places);
    let far = if !question.far.is_empty() {
        Far::Dirs(question.far.clone())
    } else if rows.iter().any(|row| row.network) {
        Far::Network
    } else {
        Far::Everything
    };
    let mut here = Here::new(&places, &far);
    let (prices, rtt_source, manner) = price(
        &traced,
        &rows,
        &far,
        &places,
        question,
        &mut here,
        &mut warnings,
    );
    let requests = predict(&traced.touched, &mut here, &manner);
    let own = own(&traced, metered, &places, &far);
    let start = |requests: &model::Requests| {
        let waited = requests.waited() as f64;
        Start {
            own,
            waited,
            requests: requests.all() as f64,
            rtt: prices.seconds(requests) / waited.max(1.0),
        }
    };
    let cold = outcome(&start(&requests.cold), question.nodes, question.rate);
    let warm = outcome(&start(&requests.warm), question.nodes, question.rate);
    let better = around
        .path
        .as_deref()
        .and_then(|path| better(path, &traced.programs, &mut path::Here));
    let ask = &mut Ask {
        look: &mut here,
        manner: &manner,
        prices: &prices,
    };
    let fixes = fixes(&traced, around, better.as_ref(), &requests, ask);
    let left = traced.left_out;
    const ROOM: &str = "there is no room for so many";
    // What never returned is not in the totals.
    let returned: u64 = metered.totals.iter().map(|total| total.calls).sum();
    let untold = returned.saturating_sub(traced.told);
    for (n, what, why) in [
        (left.searches, "searches are not listed one by one", ROOM),
        (
            left.directories,
            "look-ups are in the totals and in no directory",
            ROOM,
        ),
        (left.names, "look-ups are not in the prediction", ROOM),
        (
            traced.forgotten,
            "descriptors and threads were not followed, and names may lack their beginning",
            ROOM,
        ),
        (
            left.nameless,
            "look-ups are not counted",
            "the meter could not read their names; --meter ptrace can",
        ),
        (
            untold,
            "calls are not counted",
            "the meter did not tell of them; --meter ptrace tells of all",
        ),
    ] {
        if n > 0 {
            warnings.push(Warning::general(format!("{n} {what}: {why}")));
        }
    }
    let rtt = prices.of(Request::Lookup);
    let predicted = Predicted {
        rtt,
        prices,
        rtt_source,
        far,
        manner,
        requests,
        own,
        cold,
        warm,
    };
    Judged {
        traced,
        rows,
        predicted,
        fixes,
        better,
        warnings,
    }
}

fn rows(traced: &Traced, places: &Places) -> Vec<Row> {
    let mut rows: Vec<Row> = traced
        .directories
        .iter()
        .map(|(dir, directory)| {
            let place = places.of_name(dir);
            Row {
                dir: dir.clone(),
                directory: directory.clone(),
                fstype: place.map(|mount| mount.fstype.clone()),
                network: place.is_some_and(|mount| mount.network),
            }
        })
        .collect();
    rows.sort_by(|a, b| {
        let order = |row: &Row| (row.directory.total().misses, row.directory.total().hits);
        order(b).cmp(&order(a)).then_with(|| a.dir.cmp(&b.dir))
    });
    rows
}

/// What requests cost, and what is kept.
fn price(
    traced: &Traced,
    rows: &[Row],
    far: &Far,
    places: &Places,
    question: &Question,
    here: &mut Here<'_>,
    warnings: &mut Vec<Warning>,
) -> (Prices, &'static str, Manner) {
    let (known, source) = match question.rtt {
        Rtt::Given(seconds) => (seconds, "given"),
        Rtt::Auto | Rtt::Assumed => (ASSUMED_RTT, "assumed"),
    };
    let known = Prices::alike(known);
    if *far == Far::Everything || question.rtt != Rtt::Auto && matches!(far, Far::Dirs(_)) {
        if question.rtt == Rtt::Auto {
            warnings.push(Warning::general(
                "nothing that the command looked up is on a network file system: a round trip of 0.5 ms is assumed; give --rtt, \
                 or --network DIR",
            ));
        }
        return (known, source, Manner::default());
    }
    let dirs: Vec<&[u8]> = match far {
        Far::Dirs(dirs) => dirs.iter().map(Vec::as_slice).collect(),
        _ => rows
            .iter()
            .filter(|row| far.holds(places, &row.dir))
            .map(|row| row.dir.as_slice())
            .collect(),
    };
    let examples = examples(&traced.touched, here);
    let mut failed = None;
    for dir in dirs {
        match calibrate(dir, &examples) {
            Ok(found) if question.rtt == Rtt::Auto => {
                return (found.prices, "measured", found.manner);
            }
            Ok(found) => return (known, source, found.manner),
            Err(e) => failed = failed.or(Some((dir, e))),
        }
    }
    if let Some((dir, e)) = failed.filter(|_| question.rtt == Rtt::Auto) {
        warnings.push(Warning::failed(
            dir,
            Gate::Statx,
            e,
            "cannot measure a round trip here: 0.5 ms is assumed; give --rtt, or --network DIR",
        ));
    }
    (known, source, Manner::default())
}

/// What the command does when nobody keeps it waiting: its time less the meter's, and less what it
/// waited for the file system that the model is about.
fn own(traced: &Traced, metered: &Metered, places: &Places, far: &Far) -> f64 {
    let real = metered.real.saturating_sub(metered.overhead).as_secs_f64();
    if *far == Far::Everything {
        return real;
    }
    let there = traced
        .touched
        .iter()
        .filter(|touch| far.holds(places, lookup::split(&touch.path).0));
    let waited = there.map(|touch| touch.nanos).sum::<u64>() as f64 / 1e9;
    // Pages that are faulted in are waited for outside of any call; no CPU time passes then.
    let busy = (metered.user + metered.sys).as_secs_f64();
    (real - waited).max(0.0).min(busy.max(0.0))
}

/// Misses and time by kind, of all directories together.
pub fn by_kind(rows: &[Row]) -> Vec<(Kind, trace::Count)> {
    let mut sums = [trace::Count::default(); Kind::ALL.len()];
    for row in rows {
        for (sum, count) in sums.iter_mut().zip(&row.directory.counts) {
            *sum += *count;
        }
    }
    Kind::ALL
        .into_iter()
        .zip(sums)
        .filter(|(_, count)| *count != trace::Count::default())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use meter::call::{Call, Choice, Ended, Listener, Total};
    use meter::syscalls::by_name;

    use super::*;

    #[test]
    fn calls_that_never_returned_do_not_hide_those_that_were_not_told() {
        let mut trace = Trace::new(Inherited::default(), Known::default());
        let number = by_name("read").unwrap().number;
        // Five were told, two of them were never to return; of three more it is known only that
        // they did not.
        for result in [Some(1), Some(1), None, Some(1), None] {
            let call = Call {
                pid: 1,
                tid: 1,
                number,
                args: [0; 6],
                name: None,
                other: None,
                result,
                start: 0,
                nanos: 1,
            };
            trace.call(&call);
        }
        let total = Total {
            program: b"/bin/x".to_vec(),
            pid: 1,
            number,
            calls: 7,
            nanos: 7,
            errors: Vec::new(),
        };
        let metered = Metered {
            meter: "bpf",
            sees_names: true,
            choice: Choice::Requested,
            warnings: Vec::new(),
            totals: vec![total],
            reported: 5,
            unfinished: 5,
            lost: 0,
            overhead: Duration::ZERO,
            ended: Ended::Exited(0),
            real: Duration::ZERO,
            user: Duration::ZERO,
            sys: Duration::ZERO,
        };
        let question = Question {
            far: Vec::new(),
            rtt: Rtt::Assumed,
            nodes: 1,
            rate: None,
        };
        let judged = judge(trace.end(), &metered, &Surroundings::default(), &question);
        let said: Vec<String> = judged.warnings.iter().map(Warning::message).collect();
        assert_eq!(
            said,
            [
                "4 calls are not counted: the meter did not tell of them; --meter ptrace tells of all"
            ]
        );
    }
}
