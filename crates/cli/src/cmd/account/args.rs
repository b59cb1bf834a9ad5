//! The flags of `fathom account`.

use std::ffi::OsString;

use account::report::Grouping;
use clap::Args;

use crate::args::help::{EXIT_OF_COMMAND, REPORT, ending};
use crate::args::values::{choices, mix, number, percent};

const EXAMPLES: &str = "\
fathom account -- make -j4  # where the file-system time of a build goes
fathom account --by directory:2 -- ls -lR /usr  # by directory, of the first two levels
fathom account --by process -o FILE -- ./configure  # by process, into FILE
fathom account --json -- python3 -c 1  # for other programs
fathom probe /srv gates --json >prices.json  # the prices of the file system at hand
fathom account --prices prices.json -- tar -cf /dev/null /srv  # with these
fathom account --model  # the memo's own table, and what it prints
fathom account --model gates.csv  # another table";

const TABLE: &str = "\
A table of gates has the columns gate, ms_per_call, calls_per_dir, calls_per_file (or calls_per_seg) and for_effect (yes or no).";

pub(crate) const METERS: &str = "\
auto    The cheapest that works here
bpf     A program of our own in the kernel, for root: a call costs least
perf    The kernel's tracepoints, through a ring of memory, for root
ptrace  ptrace(2) with a seccomp filter, for everybody: a call costs some 10 us more";

#[derive(Args, Debug)]
#[command(after_help = EXIT_OF_COMMAND, after_long_help = ending(EXAMPLES, &[REPORT, TABLE].join("\n\n"), EXIT_OF_COMMAND),
          override_usage = "fathom account [OPTIONS] -- COMMAND [ARGUMENT]...\n       fathom account --model [FILE] [OPTIONS]")]
pub(crate) struct Account {
    /// The command, and its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "model")]
    #[arg(conflicts_with = "model")]
    pub(crate) command: Vec<OsString>,

    /// Meter by this meter
    #[arg(long, value_name = "METER", default_value = "auto")]
    #[arg(help_heading = "Metering", value_parser = choices(METERS))]
    pub(crate) meter: String,
    /// Look at so many calls one by one, for files, directories, patterns and changes; all are
    /// counted in any case
    #[arg(long, value_name = "N", default_value_t = 65_536, help_heading = "Metering", value_parser = number(0..=u64::MAX))]
    pub(crate) calls: u64,

    /// Add up by program, process or directory; or by directory:DEPTH, the first DEPTH components
    /// of its name
    #[arg(long, value_name = "WHAT", default_value = "program", value_parser = by, help_heading = "Output")]
    pub(crate) by: Grouping,
    /// Print N rows of each table at most [default: 10; with --json 10000]
    #[arg(long, value_name = "N", help_heading = "Output", value_parser = number(1..=u32::MAX as usize))]
    pub(crate) top: Option<usize>,
    /// Take the prices of calls from the output of fathom probe DIR gates --json, and measure none
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    #[arg(conflicts_with = "model")]
    pub(crate) prices: Option<OsString>,
    /// Write the report into FILE, which appears when it is whole; - is standard output
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    #[arg(conflicts_with = "model")]
    pub(crate) output: Option<OsString>,

    /// Meter nothing, and say what other gates would save by the model of the memo, on the table of
    /// gates in FILE [default: the memo's own]
    #[arg(long, value_name = "FILE", num_args = 0..=1, help_heading = "The memo's model")]
    pub(crate) model: Option<Option<OsString>>,
    /// Take this to be the ratio of directories to files among what is asked about
    #[arg(long, value_name = "DIRS:FILES", default_value = "40:60", value_parser = mix, help_heading = "The memo's model")]
    pub(crate) mix: (f64, f64),
    /// Take this percentage of the program's CPU time to go into calls for information
    #[arg(long, value_name = "PERCENT", default_value_t = account::memo::SHARE, value_parser = percent,
          help_heading = "The memo's model")]
    pub(crate) share: f64,
    /// Take the program to use this percentage of the system's CPU time
    #[arg(long, value_name = "PERCENT", default_value_t = account::memo::SYSTEM, value_parser = percent,
          help_heading = "The memo's model")]
    pub(crate) system: f64,
}

fn by(text: &str) -> Result<Grouping, &'static str> {
    match text.split_once(':') {
        None if text == "program" => Ok(Grouping::Program),
        None if text == "process" => Ok(Grouping::Process),
        None if text == "directory" => Ok(Grouping::Directory(None)),
        Some(("directory", depth)) => {
            let depth = depth.parse().map_err(|_| "give a depth as directory:2")?;
            Ok(Grouping::Directory(Some(depth)))
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
        for bad in ["", "file", "directory:", "directory:-1", "process:2"] {
            assert!(by(bad).is_err(), "{bad}");
        }
    }
}
