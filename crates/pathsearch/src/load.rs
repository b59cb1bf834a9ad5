//! How long a start takes when many nodes start at once and one server answers them all.
//!
//! Each node is a customer of a closed queueing network, the machine-repairman's: it works for a
//! while and its request travels (a delay that it has for itself), then it waits for the server,
//! which answers one request after the other. Exact mean value analysis gives how long a node takes
//! from one request to the next. What that supposes, and where it fails, is in docs/pathsearch.md.

/// What one node does in a start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start {
    /// Seconds of work of its own.
    pub own: f64,
    /// Requests that it waits for, one after the other.
    pub waited: f64,
    /// All requests, also those that nobody waits for.
    pub requests: f64,
    /// Seconds that a request takes, as measured by a single client.
    pub rtt: f64,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Seconds until a node has started.
    pub seconds: f64,
    /// It cannot take less than this: alone, or what the server needs for all.
    pub at_least: f64,
    /// The share of the time in which the server works; `None` where it is taken to be as fast as
    /// one likes.
    pub busy: Option<f64>,
}

/// The most nodes that are added up one by one; beyond, the server is the bound.
const MOST_NODES: u64 = 1_000_000;

/// So many nodes start at once; the server answers `rate` requests a second, or as many as there
/// are.
pub fn outcome(start: &Start, nodes: u64, rate: Option<f64>) -> Outcome {
    let alone = start.own + start.waited * start.rtt;
    let Some(rate) = rate.filter(|rate| *rate > 0.0) else {
        return Outcome {
            seconds: alone,
            at_least: alone,
            busy: None,
        };
    };
    if start.waited <= 0.0 {
        return Outcome {
            seconds: alone,
            at_least: alone,
            busy: Some(0.0),
        };
    }
    // What the server does for each request that is waited for, those that are not waited for
    // included.
    let service = start.requests.max(start.waited) / start.waited / rate;
    let travel = (start.rtt - service).max(0.0);
    let think = start.own / start.waited + travel;
    let all = nodes as f64 * start.waited * service;
    let at_least = (start.waited * (think + service)).max(all);
    let mut queue = 0.0;
    let mut response = service;
    for n in 1..=nodes.min(MOST_NODES) {
        response = service * (1.0 + queue);
        queue = n as f64 * response / (think + response);
    }
    if nodes > MOST_NODES {
        response = (nodes as f64 * service - think).max(service);
    }
    let seconds = start.waited * (think + response);
    Outcome {
        seconds,
        at_least,
        busy: Some((all / seconds).min(1.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Start = Start {
        own: 0.1,
        waited: 1000.0,
        requests: 1000.0,
        rtt: 0.001,
    };

    #[test]
    fn alone_it_takes_its_work_and_its_round_trips() {
        assert!((outcome(&START, 1, None).seconds - 1.1).abs() < 1e-9);
        assert!((outcome(&START, 1, Some(1e6)).seconds - 1.1).abs() < 1e-9);
        assert!((outcome(&START, 500, None).seconds - 1.1).abs() < 1e-9);
    }

    #[test]
    fn with_many_nodes_the_server_is_the_bound() {
        let many = outcome(&START, 1000, Some(20_000.0));
        assert!((many.seconds - 50.0).abs() < 0.1, "{many:?}");
        assert!(many.busy.unwrap() > 0.99);
        let more = outcome(&START, 2_000_000, Some(20_000.0));
        assert!((more.seconds - 100_000.0).abs() < 1.0, "{more:?}");
    }

    #[test]
    fn requests_that_nobody_waits_for_keep_the_server_busy() {
        let more = Start {
            requests: 2000.0,
            ..START
        };
        assert!(
            outcome(&more, 1000, Some(20_000.0)).seconds
                > 1.9 * outcome(&START, 1000, Some(20_000.0)).seconds
        );
    }

    #[test]
    fn between_the_bounds_and_never_below_them() {
        for nodes in [1, 2, 5, 10, 20, 50, 100, 1000] {
            let found = outcome(&START, nodes, Some(20_000.0));
            assert!(found.seconds >= found.at_least - 1e-9, "{nodes}: {found:?}");
            assert!(found.seconds <= found.at_least * 1.4, "{nodes}: {found:?}");
        }
    }

    /// The same by simulation: requests one after the other, exponential times of service.
    #[test]
    fn a_simulation_agrees() {
        let (nodes, rate) = (20_usize, 20_000.0);
        let mut seed = 42_u64;
        let mut random = || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (((seed >> 11) as f64) / (1_u64 << 53) as f64).max(1e-12)
        };
        let think = START.own / START.waited + START.rtt - 1.0 / rate;
        let mut arrives: Vec<(f64, u32)> = (0..nodes).map(|_| (think, 0)).collect();
        let mut free = 0.0_f64;
        let mut ends = vec![0.0; nodes];
        while let Some(node) = (0..nodes)
            .filter(|&n| arrives[n].1 < 1000)
            .min_by(|&a, &b| arrives[a].0.total_cmp(&arrives[b].0))
        {
            let (at, done) = arrives[node];
            free = free.max(at) - random().ln() / rate;
            ends[node] = free;
            arrives[node] = (free + think, done + 1);
        }
        let mean = ends.iter().sum::<f64>() / nodes as f64;
        let expected = outcome(&START, nodes as u64, Some(rate)).seconds;
        assert!(
            (mean / expected - 1.0).abs() < 0.05,
            "simulated {mean}, expected {expected}"
        );
    }
}
