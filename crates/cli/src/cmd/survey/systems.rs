//! What each file system is, found by experiment, and what each call costs.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use gate::scratch::open_unnamed;
use probe::cache::How;
use probe::place::Place;
use probe::{Answer, Experiment, Limits, Question, Trouble};
use show::name::printable;

use super::found::{Found, Not, Probed};
use super::run::Ground;
use super::steps::Ration;

/// What the experiments on one file system may read and write in any case.
const MOST: u64 = 1 << 30;

/// The price of each call on the file system of DIR.
pub(super) fn gates(
    ground: &Ground<'_>,
    found: &mut Found,
    ration: &Ration,
    _: usize,
) -> Result<(), Not> {
    found.nearby(ground)?;
    let answer = experiment(
        ground,
        found,
        ration,
        &ground.root.path,
        vec![Experiment::Gates],
    )?;
    found.gates = Some(Probed {
        dir: ground.root.path.clone(),
        answer,
    });
    Ok(())
}

/// What one of the file systems is.
pub(super) fn probe(
    ground: &Ground<'_>,
    found: &mut Found,
    ration: &Ration,
    turn: usize,
) -> Result<(), Not> {
    let Some(at) = found.to_probe.get(turn).cloned() else {
        return Ok(());
    };
    let dir = workplace(&at).unwrap_or_else(|| {
        if !gate::process::is_root() {
            let name = printable(&at);
            found.lacking.push(format!(
                "experiments on the file system at '{name}', where this user can make no files"
            ));
        }
        at.clone()
    });
    // Of the cache it is looked up what bounds it; only with --deep one is filled.
    let mut experiments = vec![Experiment::Block, Experiment::Readahead, Experiment::Cache];
    if ground.args.deep {
        experiments.push(Experiment::Extent);
    }
    let answer = experiment(ground, found, ration, &dir, experiments)?;
    found.probed.push(Probed { dir, answer });
    Ok(())
}

fn experiment(
    ground: &Ground<'_>,
    found: &mut Found,
    ration: &Ration,
    dir: &[u8],
    experiments: Vec<Experiment>,
) -> Result<Answer, Not> {
    /// To put away what was made, and to say what was found.
    const END: f64 = 0.1;
    let deep = ground.args.deep;
    let left = ration.left();
    let question = Question {
        dir: dir.to_vec(),
        experiments,
        limits: Limits {
            bytes: ration.bytes.min(MOST),
            time: left.saturating_sub(left.mul_f64(END)),
        },
        cache: How::default(),
        unasked: !deep,
    };
    let mut progress = ration.progress();
    let done = probe::run(&question, &mut |what| {
        progress.at(|| format!("{}: {what}", printable(dir)))
    });
    let answer = done.map_err(|why| match why {
        Trouble::Interrupted => Not::chosen("the survey was interrupted in the middle of it"),
        // What cannot even be opened is no file system for this user.
        why => Not::chosen(format!("'{}': {why}", printable(dir))),
    })?;
    let mut moved: Vec<_> = answer
        .measured
        .iter()
        .map(|one| (one.finding.experiment, one.moved))
        .collect();
    moved.dedup();
    found.charged += moved
        .iter()
        .map(|(_, moved)| moved.read.saturating_add(moved.written))
        .sum::<u64>();
    Ok(answer)
}

/// A directory on the same file system in which a file without a name can be made: where it is
/// mounted, or else one of those that users have. Nothing comes of asking: the file is gone at
/// once.
fn workplace(at: &[u8]) -> Option<Vec<u8>> {
    let place = Place::unasked(at).ok()?;
    let is_writable = |place: &Place| open_unnamed(&place.dir).is_ok();
    if is_writable(&place) {
        return Some(at.to_vec());
    }
    let home = std::env::var_os("HOME").map(OsString::into_vec);
    let usual = [home, Some(b"/var/tmp".to_vec()), Some(b"/tmp".to_vec())];
    usual
        .into_iter()
        .flatten()
        .filter(|dir| dir.starts_with(b"/"))
        .find(|dir| {
            Place::unasked(dir)
                .is_ok_and(|other| other.device() == place.device() && is_writable(&other))
        })
}
