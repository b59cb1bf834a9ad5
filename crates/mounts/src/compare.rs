//! Runs every method on one tree, each in a process of its own, as the papers did with timex(1).

use std::time::Instant;

use base::child::{Bounds, ChildRun, NoRun, run_in_child};
use base::runs::Times;
use gate::{Result, Tally};

use crate::locate::{LocateOptions, Method, locate};
use crate::root::Root;

/// Runs one method once, which gives the number of mount points, and 1 if it is complete. The system
/// calls of the child are added to the counts of this process.
///
/// # Errors
/// No child process can be created.
fn run(
    root: &Root,
    method: Method,
    options: &LocateOptions,
    bounds: &Bounds,
) -> Result<std::result::Result<ChildRun<[u64; 2]>, NoRun>> {
    let options = LocateOptions {
        method: Some(method),
        ..options.clone()
    };
    run_in_child(bounds, || {
        let report = locate(root, &options, &mut |_, _| {}).ok()?;
        Some([report.points.len() as u64, u64::from(report.is_complete())])
    })
}

/// A method, with the results of its runs.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct MethodRuns {
    pub method: Method,
    /// Number of mount points found.
    pub found: u64,
    pub complete: bool,
    /// Elapsed and CPU times of each trial.
    pub runs: Vec<Times>,
    /// System calls of an additional run in which each call was timed.
    pub profile: Tally,
}

/// The results of all methods.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Results, in the order of [`Method::ALL`].
    pub methods: Vec<MethodRuns>,
    /// Methods that were stopped or failed, and why.
    pub left_out: Vec<(Method, NoRun)>,
}

/// Compares methods, in this order, after one run of each that warms the caches and one that is
/// profiled. Each trial runs all methods, so that other load on the machine affects all alike. If
/// time is short, there are fewer trials; if it does not suffice for one, the profiled runs are the
/// only trial.
///
/// # Errors
/// No child process can be created.
pub fn compare(
    root: &Root,
    options: &LocateOptions,
    methods: &[Method],
    trials: usize,
    bounds: &Bounds,
    mut tick: impl FnMut(&str, usize),
) -> Result<Comparison> {
    let (mut profiles, mut trial_runs) = (Vec::new(), Vec::new());
    let mut left_out = Vec::new();
    let was_profiling = gate::meter::profiling();
    gate::meter::set_profiling(true);
    for &method in methods {
        tick(method.name(), 0);
        let mut profile = run(root, method, options, bounds)?;
        if profile.is_ok() {
            profile = run(root, method, options, bounds)?; // the first run has warmed the caches
        }
        match profile {
            Ok(profile) => profiles.push((method, profile)),
            Err(why) => left_out.push((method, why)),
        }
    }
    gate::meter::set_profiling(was_profiling);
    let mut round = profiles.iter().map(|(_, run)| run.real).sum();
    for trial in 1..=trials {
        if !bounds.fits(round) {
            break;
        }
        let begun = Instant::now();
        let mut runs = Vec::with_capacity(profiles.len());
        for &(method, _) in &profiles {
            tick(method.name(), trial);
            match run(root, method, options, bounds)? {
                Ok(run) => runs.push(run.times()),
                Err(why) => {
                    left_out.push((method, why));
                    break;
                }
            }
        }
        // If a method was stopped in this trial, further trials would be stopped as well.
        if runs.len() < profiles.len() {
            break;
        }
        trial_runs.push(runs);
        round = begun.elapsed();
    }
    if trial_runs.is_empty() && trials > 0 {
        trial_runs.push(profiles.iter().map(|(_, run)| run.times()).collect());
    }
    let methods = by_method(profiles, &trial_runs);
    Ok(Comparison { methods, left_out })
}

/// The methods that were profiled, in the order of [`Method::ALL`], each with its time in each trial.
fn by_method(
    profiles: Vec<(Method, ChildRun<[u64; 2]>)>,
    trials: &[Vec<Times>],
) -> Vec<MethodRuns> {
    let method_runs = profiles.into_iter().enumerate();
    let method_runs = method_runs.map(|(nth, (method, profile))| {
        let [found, complete] = profile.result;
        MethodRuns {
            method,
            found,
            complete: complete == 1,
            runs: trials.iter().map(|times| times[nth]).collect(),
            profile: profile.tally,
        }
    });
    let mut method_runs: Vec<MethodRuns> = method_runs.collect();
    method_runs.sort_by_key(|runs| Method::ALL.iter().position(|one| *one == runs.method));
    method_runs
}
