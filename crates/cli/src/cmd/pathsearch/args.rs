//! The flags of `fathom pathsearch`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use crate::args::help::{EXIT_OF_COMMAND, REPORT, ending, first};
use crate::args::values::{choices, duration, number};

const EXAMPLES: &str = "\
fathom pathsearch python3 -c 'import json'  # list the failed lookups of Python
fathom pathsearch --rtt 2ms ./tool  # predict its start on a network file system
fathom pathsearch --rtt auto /nfs/app/tool  # with the round trip measured on its mount
fathom pathsearch --network /opt /opt/app/tool  # as if /opt were on a network file system
fathom pathsearch --rtt 200us --nodes 1000 --server-rate 50000 ./tool  # on 1000 nodes at once
fathom pathsearch --apply-path sh -c './build >&2'  # print a better PATH
fathom pathsearch --files0 sh -c './tool >&2' | tar --null -T - -cf FILE  # archive the files that it reads
fathom pathsearch --json -o FILE make  # write JSON for other programs";

const METERS: &str = "\
auto    ptrace, or bpf where ptrace is not permitted
bpf     BPF programs on tracepoints; needs root, lowest overhead, times lookups
ptrace  ptrace(2) with a seccomp filter; loses no call and no environment";

const OPTIONS_FIRST: &str = "\
Options of fathom come before COMMAND; COMMAND and everything after it belong to the command.";

/// The flags of `fathom pathsearch`.
#[derive(Args, Debug)]
#[command(before_help = first(EXAMPLES), after_help = EXIT_OF_COMMAND, after_long_help = ending(EXAMPLES, &[OPTIONS_FIRST, REPORT].join("\n\n"), EXIT_OF_COMMAND),
          override_usage = "fathom pathsearch [OPTIONS] COMMAND [ARGUMENT]...")]
pub(crate) struct Pathsearch {
    /// The command to run, with its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,

    /// Assume this round trip to the server (500us, 2ms) [default: 500us]
    ///
    /// With `auto` it is measured on the network file system that the command uses.
    #[arg(long, value_name = "DURATION", value_parser = rtt, help_heading = "Prediction")]
    pub(crate) rtt: Option<Rtt>,
    /// Assume that N nodes start the command at once
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Prediction",
          value_parser = number(1..=1_000_000_000_u64))]
    pub(crate) nodes: u64,
    /// Assume a server of RATE requests per second [default: unlimited]
    #[arg(long, value_name = "RATE", help_heading = "Prediction", value_parser = rate)]
    pub(crate) server_rate: Option<f64>,
    /// Assume that DIR is on a network file system; may be repeated
    ///
    /// By default, this applies to all directories that are on a network file system or, if there
    /// are none, to all directories.
    #[arg(long, value_name = "DIR", help_heading = "Prediction")]
    pub(crate) network: Vec<OsString>,

    /// Meter system calls with METER
    ///
    /// ptrace stops each process until its calls and its environment are recorded; it takes about
    /// 10 us per call, so the times of lookups are estimated from prices. bpf measures these times,
    /// and has less overhead for commands that make very many calls. If it loses calls, a warning
    /// gives their number.
    #[arg(long, value_name = "METER", default_value = "auto", help_heading = "Metering", value_parser = choices(METERS))]
    pub(crate) meter: String,

    /// Print the searches, the requests of the prediction, and longer lists
    ///
    /// With -v, and in a file (-o), all directories and searches are listed.
    #[arg(long, help_heading = "Output", conflicts_with_all = ["json", "apply_path", "files0"])]
    pub(crate) full: bool,
    /// Print only a better PATH, as a shell command
    ///
    /// The line PATH='...'; export PATH is printed to standard output, after the output of the
    /// command.
    #[arg(long, help_heading = "Output", conflicts_with = "json")]
    pub(crate) apply_path: bool,
    /// Print only the names of the files that are read, NUL-terminated
    ///
    /// For `tar --null -T -` and `rsync --from0 --files-from=-`. The list has the files that would
    /// be remote (see --network), and the symbolic links in their paths. It is printed to standard
    /// output, after the output of the command.
    #[arg(long, help_heading = "Output", conflicts_with_all = ["json", "apply_path"])]
    pub(crate) files0: bool,
    /// Write the report to FILE (- for stdout)
    ///
    /// FILE is written atomically, when the command has ended.
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<OsString>,
}

/// The value of `--rtt`: the round-trip time to assume.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Rtt {
    /// Measure the round-trip time.
    Auto,
    /// Assume this round-trip time.
    Given(Duration),
}

fn rtt(text: &str) -> Result<Rtt, &'static str> {
    match text {
        "auto" => Ok(Rtt::Auto),
        // Accept 0, also without a unit, for a server without latency; `duration` refuses it.
        text if text
            .trim_end_matches(|c: char| c.is_ascii_alphabetic())
            .parse()
            == Ok(0.0) =>
        {
            Ok(Rtt::Given(Duration::ZERO))
        }
        text => {
            // Report a number without a unit by `duration`'s error.
            duration(text)
                .map(Rtt::Given)
                .map_err(|e| match text.parse::<f64>() {
                    Ok(_) => e,
                    Err(_) => "use a duration such as 500us or 2ms, or auto",
                })
        }
    }
}

fn rate(text: &str) -> Result<f64, &'static str> {
    let (number, factor) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1e3),
        None => (
            text.strip_suffix('M').unwrap_or(text),
            if text.ends_with('M') { 1e6 } else { 1.0 },
        ),
    };
    let rate = number.parse().ok().map(|rate: f64| rate * factor);
    let rate = rate.filter(|rate| rate.is_finite() && *rate > 0.0);
    rate.ok_or("use a number of requests per second, such as 50000 or 50k")
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
        for bad in ["", "us", "-1ms", "fast", "5"] {
            assert!(rtt(bad).is_err(), "{bad}");
        }
        let rates = ["5e4", "50k", "0.05M"].map(rate);
        assert_eq!(rates, [Ok(50_000.0); 3]);
        for bad in ["", "0", "-1", "inf", "nan"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }
}
