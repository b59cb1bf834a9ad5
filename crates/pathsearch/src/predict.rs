//! What the start of a command would take on a network file system.

use gate::Gate;
use meter::call::Metered;
use mounts::Warning;

use crate::calibrate::{Calibration, calibrate};
use crate::directory::DirectoryReport;
use crate::load::{NodeStart, StartTime, start_time};
use crate::lookup::split;
use crate::model::{Samples, StartRequests, predict_requests, samples};
use crate::request::{ASSUMED_RTT, ClientBehavior, Prices, Request, Requests};
use crate::trace::Trace;
use crate::tree::{LocalTree, MountPoints, RemoteScope};
use crate::warning::WarningKind;

/// How long a request takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RoundTrip {
    /// This many seconds.
    Given(f64),
    /// It is measured on the mount.
    Measure,
    /// [`ASSUMED_RTT`].
    Assume,
}

/// Where a round trip comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RttSource {
    /// The user gave it.
    Given,
    /// It was measured on the mount.
    Measured,
    /// It is [`ASSUMED_RTT`].
    Assumed,
}

impl RttSource {
    /// Its name in the text and in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            RttSource::Given => "given",
            RttSource::Measured => "measured",
            RttSource::Assumed => "assumed",
        }
    }
}

/// What to predict.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// The directories that are taken to be on a network file system. Without any, those that are
    /// on one; if none is, all.
    pub remote: Vec<Vec<u8>>,
    /// How long a request takes there.
    pub rtt: RoundTrip,
    /// Nodes that start at once.
    pub nodes: u64,
    /// Requests that the server answers in a second; any number if `None`.
    pub server_rate: Option<f64>,
}

/// What the start would take on a network file system.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// Seconds of each request.
    pub prices: Prices,
    /// Where the round trip comes from.
    pub rtt_source: RttSource,
    /// What is taken to be remote.
    pub scope: RemoteScope,
    /// What the client caches.
    pub behavior: ClientBehavior,
    /// The requests.
    pub requests: StartRequests,
    /// Seconds of the command's own computing.
    pub compute: f64,
    /// Nodes that start at once.
    pub nodes: u64,
    /// Requests that the server answers in a second.
    pub server_rate: Option<f64>,
    /// The time with cold caches.
    pub cold: StartTime,
    /// The time with the caches that the first start has filled.
    pub warm: StartTime,
}

impl Prediction {
    /// Seconds of a look-up.
    pub fn rtt(&self) -> f64 {
        self.prices.get(Request::Lookup)
    }
}

/// The part of the file tree that is taken to be remote.
pub(crate) fn remote_scope(
    options: &SearchOptions,
    directories: &[DirectoryReport],
) -> RemoteScope {
    if !options.remote.is_empty() {
        RemoteScope::Directories(options.remote.clone())
    } else if directories.iter().any(|directory| directory.network) {
        RemoteScope::Network
    } else {
        RemoteScope::Everything
    }
}

/// Predicts the start of a command.
pub(crate) fn predict(
    trace: &Trace,
    metered: &Metered,
    directories: &[DirectoryReport],
    options: &SearchOptions,
    mounts: &MountPoints,
    tree: &mut LocalTree<'_>,
    warnings: &mut Vec<Warning>,
) -> Prediction {
    let scope = remote_scope(options, directories);
    let client = match remote_dirs(options.rtt, &scope, directories, mounts) {
        Some(dirs) => {
            let samples = samples(&trace.names, tree);
            measured_client(options.rtt, &dirs, &samples, warnings)
        }
        None => default_client(options.rtt, warnings),
    };
    let (prices, rtt_source, behavior) = client;
    let requests = predict_requests(&trace.names, tree, &behavior);
    let compute = compute_time(trace, metered, mounts, &scope);
    let time = |requests: &Requests| {
        let waited = requests.waited() as f64;
        let start = NodeStart {
            compute,
            waited,
            requests: requests.total() as f64,
            rtt: prices.seconds(requests) / waited.max(1.0),
        };
        start_time(&start, options.nodes, options.server_rate)
    };
    Prediction {
        prices,
        rtt_source,
        behavior,
        requests,
        compute,
        nodes: options.nodes,
        server_rate: options.server_rate,
        cold: time(&requests.cold),
        warm: time(&requests.warm),
        scope,
    }
}

/// The directories on which the client can be measured; `None` if it is not to be measured.
fn remote_dirs<'a>(
    rtt: RoundTrip,
    scope: &'a RemoteScope,
    directories: &'a [DirectoryReport],
    mounts: &MountPoints,
) -> Option<Vec<&'a [u8]>> {
    match scope {
        RemoteScope::Everything => None,
        RemoteScope::Directories(dirs) => {
            let dirs = dirs.iter().map(Vec::as_slice).collect();
            (rtt == RoundTrip::Measure).then_some(dirs)
        }
        RemoteScope::Network => {
            let dirs = directories.iter().map(|directory| &directory.dir[..]);
            Some(dirs.filter(|dir| scope.contains(mounts, dir)).collect())
        }
    }
}

/// The round trip that is used unless it is measured.
fn default_rtt(rtt: RoundTrip) -> (Prices, RttSource) {
    match rtt {
        RoundTrip::Given(seconds) => (Prices::uniform(seconds), RttSource::Given),
        RoundTrip::Measure | RoundTrip::Assume => {
            (Prices::uniform(ASSUMED_RTT), RttSource::Assumed)
        }
    }
}

fn default_client(
    rtt: RoundTrip,
    warnings: &mut Vec<Warning>,
) -> (Prices, RttSource, ClientBehavior) {
    if rtt == RoundTrip::Measure {
        warnings.push(Warning::general(WarningKind::NothingRemote));
    }
    let (prices, source) = default_rtt(rtt);
    (prices, source, ClientBehavior::default())
}

/// Measures the client on the first of `dirs` on which that is possible.
fn measured_client(
    rtt: RoundTrip,
    dirs: &[&[u8]],
    samples: &Samples,
    warnings: &mut Vec<Warning>,
) -> (Prices, RttSource, ClientBehavior) {
    let (prices, source) = default_rtt(rtt);
    let mut failed = None;
    for dir in dirs {
        match calibrate(dir, samples) {
            Ok(Calibration { prices, behavior }) if rtt == RoundTrip::Measure => {
                return (prices, RttSource::Measured, behavior);
            }
            Ok(Calibration { behavior, .. }) => return (prices, source, behavior),
            Err(e) => failed = failed.or(Some((dir, e))),
        }
    }
    if let Some((dir, e)) = failed.filter(|_| rtt == RoundTrip::Measure) {
        let kind = WarningKind::RttNotMeasured;
        warnings.push(Warning::failed(dir, Gate::Statx, e, kind));
    }
    (prices, source, ClientBehavior::default())
}

/// Seconds of the command's own computing: its time without that of the meter, and without the time
/// that it waited for the file system that is modelled.
fn compute_time(
    trace: &Trace,
    metered: &Metered,
    mounts: &MountPoints,
    scope: &RemoteScope,
) -> f64 {
    let real = metered.real.saturating_sub(metered.overhead).as_secs_f64();
    if *scope == RemoteScope::Everything {
        return real;
    }
    let remote = trace
        .names
        .iter()
        .filter(|used| scope.contains(mounts, split(&used.path).0));
    let waited = remote.map(|used| used.nanos).sum::<u64>() as f64 / 1e9;
    // Waiting for a page fault is in no call; but then the process uses no CPU time.
    let busy = (metered.user + metered.sys).as_secs_f64();
    (real - waited).max(0.0).min(busy.max(0.0))
}
