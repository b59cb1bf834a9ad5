//! Steps: properties of each file system, by experiments, and the price of each call.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use gate::scratch::open_unnamed;
use mounts::check::{ANSWER_WITHIN, find_silent_mount};
use probe::dir::ProbeDir;
use probe::{CacheOptions, Experiment, Limits, ProbeOptions};

use super::context::{Activity, StepContext};
use crate::found::{ProbedFileSystem, SurveyResults};
use crate::missing::{Failure, Missing, PrivilegedResult, Task};

/// Maximum bytes that the experiments on one file system read and write, with any options.
const MOST: u64 = 1 << 30;

/// Step: measures the price of each call on the file system of DIR.
pub(super) fn gates(step: &mut StepContext<'_>, found: &mut SurveyResults) -> Result<(), Missing> {
    step.options.local(found)?;
    // write(2) and fsync(2) cannot be measured in a directory without write permission, so use a
    // writable directory on the same file system, if there is one.
    let root = &step.options.root.path;
    let dir = workplace(root).unwrap_or_else(|| root.clone());
    let probed = experiment(step, found, &dir, vec![Experiment::Gates])?;
    found.gates = Some(probed);
    Ok(())
}

/// Step: probes one file system.
pub(super) fn probe(step: &mut StepContext<'_>, found: &mut SurveyResults) -> Result<(), Missing> {
    let Some(at) = found.to_probe.get(step.turn.nth).cloned() else {
        return Ok(());
    };
    let dir = workplace(&at).unwrap_or_else(|| {
        if !gate::process::is_root() {
            found.unseen.push(PrivilegedResult::Experiments(at.clone()));
        }
        at.clone()
    });
    // Without --deep, the cache experiment only looks up the limit of the page cache, and does not
    // fill it.
    let mut experiments = vec![Experiment::Block, Experiment::Readahead, Experiment::Cache];
    if step.options.deep {
        experiments.push(Experiment::Extent);
    }
    let probed = experiment(step, found, &dir, experiments)?;
    found.file_systems.push(probed);
    Ok(())
}

fn experiment(
    step: &mut StepContext<'_>,
    found: &mut SurveyResults,
    dir: &[u8],
    experiments: Vec<Experiment>,
) -> Result<ProbedFileSystem, Missing> {
    /// The share of the time that is kept for late stops, cleaning up and reporting.
    const END: f64 = 0.1;
    let left = step.left();
    let options = ProbeOptions {
        dir: dir.to_vec(),
        experiments,
        limits: Limits {
            bytes: step.bytes.min(MOST),
            time: left.saturating_sub(left.mul_f64(END)),
        },
        lateness: left.mul_f64(END / 4.0),
        cache: CacheOptions::default(),
        unnamed_only: !step.options.deep,
    };
    let done = probe::probe(&options, &mut |activity| {
        step.report(Activity::Probing(dir, activity));
    });
    let report = done.map_err(|why| match why {
        probe::Error::Interrupted => Missing::InterruptedMidway,
        // A file system that this user cannot open is skipped, and not reported as a failure.
        why => Missing::Skipped(Failure::new(Task::Probe(dir.to_vec()), why)),
    })?;
    let mut io_bytes: Vec<_> = report
        .measured
        .iter()
        .map(|one| (one.finding.quantity.experiment(), one.io_bytes))
        .collect();
    io_bytes.dedup();
    found.charged += io_bytes
        .iter()
        .map(|(_, bytes)| bytes.read.saturating_add(bytes.written))
        .sum::<u64>();
    Ok(ProbedFileSystem {
        dir: dir.to_vec(),
        report,
    })
}

/// A directory on the file system of `at` in which this user can create an unnamed temporary file
/// (O_TMPFILE): `at`, or else the home directory, the working directory, or a directory for
/// temporary files. The test leaves no file behind.
fn workplace(at: &[u8]) -> Option<Vec<u8>> {
    let place = ProbeDir::open_unnamed_only(at).ok()?;
    let is_writable = |place: &ProbeDir| open_unnamed(&place.dir).is_ok();
    if is_writable(&place) {
        return Some(at.to_vec());
    }
    let variable = |name| std::env::var_os(name).map(OsString::into_vec);
    let usual = [
        variable("HOME"),
        variable("TMPDIR"),
        gate::fs::getcwd().ok(),
        Some(b"/var/tmp".to_vec()),
        Some(b"/tmp".to_vec()),
    ];
    usual
        .into_iter()
        .flatten()
        .filter(|dir| dir.starts_with(b"/"))
        .filter(|dir| {
            let look = || drop(ProbeDir::open_unnamed_only(dir));
            find_silent_mount(dir, ANSWER_WITHIN, look).is_none()
        })
        .find(|dir| {
            ProbeDir::open_unnamed_only(dir)
                .is_ok_and(|other| other.device() == place.device() && is_writable(&other))
        })
}
