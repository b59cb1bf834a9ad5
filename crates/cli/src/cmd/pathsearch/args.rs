//! The flags of `fathom pathsearch`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use crate::args::help::{EXIT_OF_COMMAND, REPORT, ending};
use crate::args::values::{choices, duration, number};
use crate::cmd::account::args::METERS;

const EXAMPLES: &str = "\
fathom pathsearch -- python3 -c 'import json'  # what it looks up, and where in vain
fathom pathsearch --rtt 500us -- ./tool  # what that takes on a network file system
fathom pathsearch --rtt auto -- /nfs/app/tool  # with the round trip of its mount
fathom pathsearch --network /opt -- /opt/app/tool  # as if /opt were on a network file system
fathom pathsearch --rtt 200us --nodes 1000 --server-rate 50000 -- ./tool  # on a cluster
fathom pathsearch --apply-path -- sh -c './build >&2'  # a better PATH
fathom pathsearch --json -o FILE -- make  # for other programs";

const LINE: &str = "The line of --apply-path goes to standard output.";

/// The flags of `fathom pathsearch`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_OF_COMMAND, after_long_help = ending(EXAMPLES, &[REPORT, LINE].join(" "), EXIT_OF_COMMAND))]
pub(crate) struct Pathsearch {
    /// The command, and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,

    /// Take a request to the server to last so long, as 500us, 2ms; auto measures it on the mount
    /// [default: 500us]
    #[arg(long, value_name = "DURATION", value_parser = rtt, help_heading = "Predicting")]
    pub(crate) rtt: Option<Rtt>,
    /// Take N nodes to start the command at once
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Predicting",
          value_parser = number(1..=1_000_000_000_u64))]
    pub(crate) nodes: u64,
    /// Take the server to answer so many requests a second [default: as many as come]
    #[arg(long, value_name = "RATE", help_heading = "Predicting", value_parser = rate)]
    pub(crate) server_rate: Option<f64>,
    /// Take what is in this directory to be on the network file system; may be given several times
    /// [default: what is on one; if nothing is, everything]
    #[arg(long, value_name = "DIR", help_heading = "Predicting")]
    pub(crate) network: Vec<OsString>,

    /// Meter by this meter; auto is ptrace, which misses no call; bpf, for root, is cheaper where
    /// there are very many
    #[arg(long, value_name = "METER", default_value = "auto", help_heading = "Metering", value_parser = choices(METERS))]
    pub(crate) meter: String,

    /// Print no report but a better PATH, as a shell takes it: PATH='...'; export PATH
    #[arg(long, help_heading = "Output", conflicts_with = "json")]
    pub(crate) apply_path: bool,
    /// Write the report into FILE, which appears when it is whole; - is standard output
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<OsString>,
}

/// The value of `--rtt`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Rtt {
    /// Measure it.
    Auto,
    /// This long.
    Given(Duration),
}

fn rtt(text: &str) -> Result<Rtt, &'static str> {
    match text {
        "auto" => Ok(Rtt::Auto),
        // `duration` refuses 0, but here it is valid: a server without latency.
        text if text
            .trim_end_matches(|c: char| c.is_ascii_alphabetic())
            .parse()
            == Ok(0.0) =>
        {
            Ok(Rtt::Given(Duration::ZERO))
        }
        text => {
            let rtt = duration(text).map(Rtt::Given);
            rtt.map_err(|_| "give a time as 500us, 2ms or 1s, or auto")
        }
    }
}

fn rate(text: &str) -> Result<f64, &'static str> {
    let rate = text.parse().ok();
    let rate = rate.filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    rate.ok_or("give a number of requests a second, over 0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_rates_are_parsed() {
        assert_eq!(rtt("500us"), Ok(Rtt::Given(Duration::from_micros(500))));
        assert_eq!(rtt("0.2ms"), Ok(Rtt::Given(Duration::from_micros(200))));
        assert_eq!(
            (rtt("auto"), rtt("0")),
            (Ok(Rtt::Auto), Ok(Rtt::Given(Duration::ZERO)))
        );
        for bad in ["", "us", "-1ms", "fast"] {
            assert!(rtt(bad).is_err(), "{bad}");
        }
        assert_eq!(rate("5e4"), Ok(50_000.0));
        for bad in ["", "0", "-1", "inf", "nan"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }
}
