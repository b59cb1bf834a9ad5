//! The flags of `fathom account`.

use std::ffi::OsString;
use std::time::Duration;

use account::report::Grouping;
use clap::Args;

use crate::args::help::{EXIT_OF_COMMAND, REPORT, ending, first};
use crate::args::values::{choices, duration, mix, number, percent};

const EXAMPLES: &str = "\
fathom account ls -l /usr  # calls of ls, by system call, file and directory
fathom account make -j4  # where the file-system time of a build goes
fathom account --full git status  # all tables: files, programs, redundant calls, savings
fathom account --by directory:2 ls -lR /usr  # sum by the first two path components
fathom account --folded -o calls.txt make  # stacks for flamegraph.pl or inferno-flamegraph
fathom account --by process -o report.txt ./configure  # by process, into a file
fathom account -p 1234 --duration 10s  # what a running process does in 10 s
fathom account --cgroup /sys/fs/cgroup/system.slice/nginx.service  # what a service does, until Ctrl-C
fathom account --system --duration 1m --by process  # what all processes do in a minute
fathom account -n 1 --system  # a line per second, until Ctrl-C
fathom account --json python3 -c 1  # JSON for other programs
fathom probe /srv gates --json >prices.json  # measure the call prices of /srv
fathom account --prices prices.json tar -cf /dev/null /srv  # use these prices
fathom account --model  # the model of 1974 with the memo's own table
fathom account --model calls.csv  # the model with a table of your own";

const OPTIONS_FIRST: &str = "\
Options of fathom come before COMMAND; COMMAND and everything after it belong to the command.";

const ATTACHING: &str = "\
With -p, --cgroup and --system the exit status is 0 if there is a report, and 2 if there is none. Attaching needs root and a kernel with BTF. -p also works without root, with the meter ptrace.";

const GATES: &str = "\
In the JSON, .result.gates has the system calls of the command, and .gates those of fathom itself.";

const TABLE: &str = "\
The table of --model is CSV with the columns gate, ms_per_call, calls_per_dir, calls_per_file (or calls_per_seg) and for_effect (yes or no).";

const METERS: &str = "\
auto    The available meter with the lowest overhead
bpf     BPF programs on tracepoints; needs root, lowest overhead
ptrace  ptrace(2) with a seccomp filter; no root needed, about 10 us per call";

#[derive(Args, Debug)]
#[command(before_help = first(EXAMPLES), after_help = EXIT_OF_COMMAND, after_long_help = ending(EXAMPLES, &[OPTIONS_FIRST, ATTACHING, REPORT, GATES, TABLE].join("\n\n"), EXIT_OF_COMMAND),
          override_usage = "fathom account [OPTIONS] COMMAND [ARGUMENT]...\n       fathom account -p PID[,PID]... [OPTIONS]\n       fathom account --cgroup PATH | --system [OPTIONS]\n       fathom account --model [FILE] [OPTIONS]")]
pub(crate) struct Account {
    /// The command to run, with its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    #[arg(required_unless_present_any = ["model", "pid", "cgroup", "system"])]
    #[arg(conflicts_with_all = ["model", "pid", "cgroup", "system"])]
    pub(crate) command: Vec<OsString>,

    /// Meter these running processes and those that they start, until Ctrl-C
    ///
    /// PID is the id of a process, as ps prints it; several are separated by commas. Metering also
    /// ends when the last of the processes has ended. The processes continue.
    #[arg(short, long, value_name = "PID", value_delimiter = ',', help_heading = "Metering", value_parser = number(1..=u32::MAX))]
    #[arg(conflicts_with = "model")]
    pub(crate) pid: Vec<u32>,
    /// Meter the processes of a cgroup, until Ctrl-C
    ///
    /// PATH is a directory of a cgroup file system, of version 2 or 1. Processes of cgroups below
    /// it, and processes that start later, are also metered.
    #[arg(long, value_name = "PATH", help_heading = "Metering")]
    #[arg(conflicts_with_all = ["model", "pid"])]
    pub(crate) cgroup: Option<OsString>,
    /// Meter all processes except fathom itself, until Ctrl-C
    #[arg(long, help_heading = "Metering")]
    #[arg(conflicts_with_all = ["model", "pid", "cgroup"])]
    pub(crate) system: bool,
    /// With -p, --cgroup or --system, stop after DURATION, such as 10s
    #[arg(long, value_name = "DURATION", help_heading = "Metering", value_parser = duration)]
    #[arg(conflicts_with = "model")]
    pub(crate) duration: Option<Duration>,
    /// Print a line to stderr every SECONDS, in addition to the report
    ///
    /// The line has the calls of the interval, the errors, the time, and the system call, the
    /// program and the directory that took most of the time.
    #[arg(short = 'n', long, value_name = "SECONDS", help_heading = "Metering", value_parser = number(1..=86_400_u64))]
    #[arg(conflicts_with = "model")]
    pub(crate) interval: Option<u64>,
    /// Meter system calls with METER
    #[arg(long, value_name = "METER", default_value = "auto")]
    #[arg(help_heading = "Metering", value_parser = choices(METERS))]
    pub(crate) meter: String,
    /// Examine the first N calls for files, directories and patterns
    ///
    /// All calls are counted. Files, directories and patterns are those of the first N calls, and
    /// savings are extrapolated from these to all calls.
    #[arg(long, value_name = "N", default_value_t = 65_536, help_heading = "Metering", value_parser = number(0..=u64::MAX))]
    pub(crate) calls: u64,

    /// Sum calls by program, process, directory or directory:DEPTH
    ///
    /// directory:DEPTH sums them by the first DEPTH components of the path.
    #[arg(long, value_name = "WHAT", default_value = "program", value_parser = by, help_heading = "Output")]
    pub(crate) by: Grouping,
    /// Print the full report instead of its first screen
    ///
    /// It has all system calls with their errors, and tables of programs, files, directories,
    /// redundant calls and all savings.
    #[arg(long, help_heading = "Output")]
    #[arg(conflicts_with_all = ["csv", "folded", "model"])]
    pub(crate) full: bool,
    /// Print the table of system calls as CSV
    #[arg(long, help_heading = "Output")]
    #[arg(conflicts_with_all = ["folded", "model", "by"])]
    pub(crate) csv: bool,
    /// Print stacks for flame graphs: program;directory;...;call count
    ///
    /// Each line has the program, the components of the directory, the system call, and the number of
    /// calls. flamegraph.pl and inferno-flamegraph read it.
    #[arg(long, help_heading = "Output")]
    #[arg(conflicts_with_all = ["model", "by", "top"])]
    pub(crate) folded: bool,
    /// Print at most N rows per table [default: 10, 5 directories]
    ///
    /// With --full the default is 10 and all system calls; with --json it is 10000, and the system
    /// calls are always complete.
    #[arg(long, value_name = "N", help_heading = "Output", value_parser = number(1..=u32::MAX as usize))]
    pub(crate) top: Option<usize>,
    /// Read call prices from the output of `fathom probe DIR gates --json`
    ///
    /// By default the prices are measured after the command has ended, in a few milliseconds.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    #[arg(conflicts_with = "model")]
    pub(crate) prices: Option<OsString>,
    /// Write the report to FILE (- for stdout)
    ///
    /// FILE is written atomically, when the command has ended.
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    #[arg(conflicts_with = "model")]
    pub(crate) output: Option<OsString>,

    /// Apply the cost model of 1974 to the calls in FILE; run no command
    ///
    /// The model of the Multics memo predicts the savings of cheaper calls. FILE is a table of
    /// calls; without it, the memo's own table is used.
    #[arg(long, value_name = "FILE", num_args = 0..=1, help_heading = "Model of 1974")]
    pub(crate) model: Option<Option<OsString>>,
    /// Assume this ratio of directories to files [default: 40:60]
    #[arg(long, value_name = "DIRS:FILES", value_parser = mix, help_heading = "Model of 1974")]
    pub(crate) mix: Option<(f64, f64)>,
    /// Assume calls for information take PERCENT of the program's CPU time [default: 51]
    #[arg(long, value_name = "PERCENT", value_parser = percent,
          help_heading = "Model of 1974")]
    pub(crate) share: Option<f64>,
    /// Assume the program takes PERCENT of the system's CPU time [default: 20]
    #[arg(long, value_name = "PERCENT", value_parser = percent,
          help_heading = "Model of 1974")]
    pub(crate) system_share: Option<f64>,
}

fn by(text: &str) -> Result<Grouping, &'static str> {
    match text.split_once(':') {
        None if text == "program" => Ok(Grouping::Program),
        None if text == "process" => Ok(Grouping::Process),
        None if text == "directory" => Ok(Grouping::Directory(None)),
        Some(("directory", depth)) => {
            let depth = depth.parse().ok().filter(|depth| *depth > 0);
            let depth = depth.ok_or("give a depth of at least 1, such as directory:2")?;
            Ok(Grouping::Directory(Some(depth)))
        }
        None if text == "file" => {
            Err("the table Files has them; give program, process, directory or directory:DEPTH")
        }
        _ => Err("give program, process, directory or directory:DEPTH"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groupings_are_parsed() {
        assert_eq!(by("program"), Ok(Grouping::Program));
        assert_eq!(by("process"), Ok(Grouping::Process));
        assert_eq!(by("directory"), Ok(Grouping::Directory(None)));
        assert_eq!(by("directory:2"), Ok(Grouping::Directory(Some(2))));
        for bad in [
            "",
            "file",
            "directory:",
            "directory:-1",
            "directory:0",
            "process:2",
        ] {
            assert!(by(bad).is_err(), "{bad}");
        }
    }
}
