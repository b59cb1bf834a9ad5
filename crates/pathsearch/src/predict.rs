//! Predicts the time of a command's start on a network file system.

use base::Warning;
use gate::Gate;
use meter::call::Metered;

use crate::calibrate::calibrate;
use crate::load::{NodeStart, StartTime, start_time};
use crate::lookup::split;
use crate::model::{StartRequests, predict_cold, predict_requests, samples};
use crate::request::{ASSUMED_RTT, ClientBehavior, Prices, Request, Requests};
use crate::trace::{NameUse, Trace};
use crate::tree::{FileTree, LocalTree, RemoteScope};
use crate::warning::WarningKind;

/// The source of the round-trip time for the prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RoundTrip {
    /// The user gives the round-trip time in seconds.
    Given(f64),
    /// Measure it on the mount.
    Measure,
    /// Assume [`ASSUMED_RTT`].
    Assume,
}

base::named! {
    /// The actual source of the round-trip time.
    RttSource {
        /// The user gave the round-trip time.
        Given "given",
        /// The round-trip time was measured on the mount.
        Measured "measured",
        /// The round-trip time is [`ASSUMED_RTT`].
        Assumed "assumed",
    }
}

/// Options of the prediction.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// The directories that are assumed to be on a network file system. If empty: the directories
    /// that are on a network file system, or all directories if there are none.
    pub remote: Vec<Vec<u8>>,
    /// The round-trip time of a request.
    pub rtt: RoundTrip,
    /// The number of nodes that start at the same time.
    pub nodes: u64,
    /// Requests per second that the server answers; `None` for no limit.
    pub server_rate: Option<f64>,
}

/// The predicted start on a network file system.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// The model of the prediction, which also predicts the start after a change.
    pub model: StartModel,
    /// The source of the round-trip time.
    pub rtt_source: RttSource,
    /// The part of the file tree that is assumed to be remote.
    pub scope: RemoteScope,
    /// The predicted requests.
    pub requests: StartRequests,
    /// The time with cold caches.
    pub cold: StartTime,
    /// The time with the caches that the first start has filled.
    pub warm: StartTime,
}

impl Prediction {
    /// Seconds of a LOOKUP request.
    pub fn rtt(&self) -> f64 {
        self.model.prices.get(Request::Lookup)
    }
}

/// The model of a start: the client, the command's own work, and the load of the server.
#[derive(Clone, Copy, Debug)]
pub struct StartModel {
    /// Seconds of each kind of request.
    pub prices: Prices,
    /// The caching behavior of the client.
    pub behavior: ClientBehavior,
    /// Seconds of the command's own computing.
    pub compute: f64,
    /// The number of nodes that start at the same time.
    pub nodes: u64,
    /// Requests per second that the server answers.
    pub server_rate: Option<f64>,
}

impl StartModel {
    /// The requests of a start that uses these names, and of a second start right after it.
    pub(crate) fn requests(&self, names: &[NameUse], tree: &mut dyn FileTree) -> StartRequests {
        let alone = |requests: &Requests| self.compute + self.prices.seconds(requests);
        predict_requests(names, tree, &self.behavior, alone)
    }

    /// The requests of a start that uses these names, with cold caches.
    pub(crate) fn cold_requests(&self, names: &[NameUse], tree: &mut dyn FileTree) -> Requests {
        predict_cold(names, tree, &self.behavior)
    }

    /// The time of a start with these requests.
    pub(crate) fn time(&self, requests: &Requests) -> StartTime {
        let waited = requests.waited() as f64;
        let start = NodeStart {
            compute: self.compute,
            waited,
            requests: requests.total() as f64,
            rtt: self.prices.seconds(requests) / waited.max(1.0),
        };
        start_time(&start, self.nodes, self.server_rate)
    }
}

/// Predicts the start of a command. `network` has the directories of its lookups that are on a
/// network file system.
pub(crate) fn predict(
    trace: &Trace,
    metered: &Metered,
    network: &[&[u8]],
    options: &SearchOptions,
    tree: &mut LocalTree<'_>,
    warnings: &mut Vec<Warning>,
) -> Prediction {
    let KnownClient {
        prices,
        rtt_source,
        behavior,
        busy_part,
    } = find_client(trace, network, options, tree, warnings);
    let compute = compute_time(trace, metered, tree, busy_part);
    let model = StartModel {
        prices,
        behavior,
        compute,
        nodes: options.nodes,
        server_rate: options.server_rate,
    };
    let requests = model.requests(&trace.names, tree);
    Prediction {
        model,
        rtt_source,
        scope: tree.scope.clone(),
        cold: model.time(&requests.cold),
        warm: model.time(&requests.warm),
        requests,
    }
}

/// The known or assumed properties of the client.
struct KnownClient {
    prices: Prices,
    rtt_source: RttSource,
    behavior: ClientBehavior,
    /// The share of a round trip in which the processor works; 0 if not measured.
    busy_part: f64,
}

/// The prices and the behavior of the client: measured on the first directory where measuring
/// succeeds, or else assumed.
fn find_client(
    trace: &Trace,
    network: &[&[u8]],
    options: &SearchOptions,
    tree: &mut LocalTree<'_>,
    warnings: &mut Vec<Warning>,
) -> KnownClient {
    let is_wanted = options.rtt == RoundTrip::Measure;
    let (rtt, source) = match options.rtt {
        RoundTrip::Given(seconds) => (seconds, RttSource::Given),
        RoundTrip::Measure | RoundTrip::Assume => (ASSUMED_RTT, RttSource::Assumed),
    };
    let assumed = KnownClient {
        prices: Prices::uniform(rtt),
        rtt_source: source,
        behavior: ClientBehavior::default(),
        busy_part: 0.0,
    };
    let remote: Vec<&[u8]> = match tree.scope {
        RemoteScope::Directories(dirs) if is_wanted => dirs.iter().map(Vec::as_slice).collect(),
        RemoteScope::Network => network.to_vec(),
        RemoteScope::Directories(_) | RemoteScope::Everything => Vec::new(),
    };
    if remote.is_empty() {
        let warning = is_wanted.then(|| Warning::general(WarningKind::NothingRemote));
        warnings.extend(warning);
        return assumed;
    }
    let samples = samples(&trace.names, tree);
    let mut failed = None;
    for dir in remote {
        match calibrate(dir, tree.behavior(dir), &samples) {
            Ok(found) => {
                let mut client = KnownClient {
                    behavior: found.behavior,
                    busy_part: found.busy_part,
                    ..assumed
                };
                if is_wanted {
                    (client.prices, client.rtt_source) = (found.prices, RttSource::Measured);
                }
                return client;
            }
            Err(e) => failed = failed.or(Some((dir, e))),
        }
    }
    if let Some((dir, e)) = failed.filter(|_| is_wanted) {
        let kind = WarningKind::RttNotMeasured;
        warnings.push(Warning::failed(dir, Gate::Statx, e, kind));
    }
    assumed
}

/// Seconds of the command's own computing: its elapsed time less the meter's overhead, the waits
/// for the modelled file system, and the CPU time of requests to it.
fn compute_time(trace: &Trace, metered: &Metered, tree: &mut LocalTree<'_>, busy_part: f64) -> f64 {
    let real = metered.real.saturating_sub(metered.overhead).as_secs_f64();
    if *tree.scope == RemoteScope::Everything {
        return real;
    }
    let names = trace.names.iter();
    let remote = names.filter(|used| tree.is_remote(split(&used.path).0));
    let waited = remote.map(|used| used.nanos).sum::<u64>() as f64 / 1e9;
    // Waits for page faults are in no call, but use no CPU time, so the CPU time limits the result.
    // The kernel's CPU time for requests is in their prices already, so it is subtracted. It is
    // estimated as idle time × the ratio of CPU time to idle time in a round trip.
    let user = metered.user.as_secs_f64();
    let busy = user + metered.sys.as_secs_f64();
    let idle = (real - busy).max(0.0);
    let for_requests = idle * busy_part / (1.0 - busy_part).max(f64::EPSILON);
    let own = (busy - for_requests).max(user);
    (real - waited).max(0.0).min(own)
}
