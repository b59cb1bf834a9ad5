//! The time of a start when many nodes start at the same time and share one server.
//!
//! Each node is a customer of a closed queueing network (the machine repairman model): it computes
//! and its request travels, independently of other nodes, and then it queues at the server, which
//! serves one request at a time. Exact mean value analysis gives the time from one request to the
//! next. The assumptions, and where they fail, are in docs/pathsearch.md.

/// The load of one node that starts the command.
#[derive(Clone, Copy)]
pub(crate) struct NodeStart {
    /// Seconds of computing.
    pub(crate) compute: f64,
    /// The number of requests that the node waits for, one at a time.
    pub(crate) waited: f64,
    /// The number of all requests, including those that the node does not wait for.
    pub(crate) requests: f64,
    /// Seconds of a request to an idle server.
    pub(crate) rtt: f64,
}

/// The predicted time of a start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StartTime {
    /// Seconds until a node has started the command.
    pub seconds: f64,
    /// A lower bound in seconds: the time of a single node, or of the server for all nodes.
    pub at_least: f64,
    /// The utilization of the server, 0 to 1; `None` if its rate is unlimited.
    pub utilization: Option<f64>,
}

/// The maximum number of nodes for exact analysis; with more, the server is the bottleneck.
const MOST_NODES: u64 = 1_000_000;

/// The time for `nodes` nodes that start together, with a server that serves `rate` requests a
/// second; `None` for an unlimited rate.
pub(crate) fn start_time(start: &NodeStart, nodes: u64, rate: Option<f64>) -> StartTime {
    let alone = start.compute + start.waited * start.rtt;
    let rate = rate.filter(|rate| *rate > 0.0);
    let Some(rate) = rate.filter(|_| start.waited > 0.0) else {
        return StartTime {
            seconds: alone,
            at_least: alone,
            utilization: rate.map(|_| 0.0),
        };
    };
    // The service time of a waited-for request includes a share of the requests not waited for.
    let service = start.requests.max(start.waited) / start.waited / rate;
    let travel = (start.rtt - service).max(0.0);
    let think = start.compute / start.waited + travel;
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
    StartTime {
        seconds,
        at_least,
        utilization: Some((all / seconds).min(1.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: NodeStart = NodeStart {
        compute: 0.1,
        waited: 1000.0,
        requests: 1000.0,
        rtt: 0.001,
    };

    #[test]
    fn a_single_node_takes_its_computing_and_its_round_trips() {
        assert!((start_time(&START, 1, None).seconds - 1.1).abs() < 1e-9);
        assert!((start_time(&START, 1, Some(1e6)).seconds - 1.1).abs() < 1e-9);
        assert!((start_time(&START, 500, None).seconds - 1.1).abs() < 1e-9);
    }

    #[test]
    fn with_many_nodes_the_server_is_the_bottleneck() {
        let many = start_time(&START, 1000, Some(20_000.0));
        assert!((many.seconds - 50.0).abs() < 0.1, "{many:?}");
        assert!(many.utilization.unwrap() > 0.99);
        let more = start_time(&START, 2_000_000, Some(20_000.0));
        assert!((more.seconds - 100_000.0).abs() < 1.0, "{more:?}");
    }

    #[test]
    fn requests_that_are_not_waited_for_occupy_the_server() {
        let more = NodeStart {
            requests: 2000.0,
            ..START
        };
        assert!(
            start_time(&more, 1000, Some(20_000.0)).seconds
                > 1.9 * start_time(&START, 1000, Some(20_000.0)).seconds
        );
    }

    #[test]
    fn the_time_is_never_below_its_bounds() {
        for nodes in [1, 2, 5, 10, 20, 50, 100, 1000] {
            let found = start_time(&START, nodes, Some(20_000.0));
            assert!(found.seconds >= found.at_least - 1e-9, "{nodes}: {found:?}");
            assert!(found.seconds <= found.at_least * 1.4, "{nodes}: {found:?}");
        }
    }

    /// Compares with a simulation of the queue with exponential service times.
    #[test]
    fn the_analysis_agrees_with_a_simulation() {
        let (nodes, rate) = (20_usize, 20_000.0);
        let mut seed = 42_u64;
        let mut random = || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (((seed >> 11) as f64) / (1_u64 << 53) as f64).max(1e-12)
        };
        let think = START.compute / START.waited + START.rtt - 1.0 / rate;
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
        let expected = start_time(&START, nodes as u64, Some(rate)).seconds;
        assert!(
            (mean / expected - 1.0).abs() < 0.05,
            "simulated {mean}, expected {expected}"
        );
    }
}
