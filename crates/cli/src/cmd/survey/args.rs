//! The flags of `fathom survey`.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap::Args;

use crate::args::help::ending;
use crate::args::values::duration;

const EXAMPLES: &str = "\
fathom survey  # this machine, on a page and on the terminal
fathom survey /srv -o /tmp/srv.html  # the file system at /srv, and the page elsewhere
fathom survey --json >before.json  # for programs, and to compare with later
fathom survey --diff before.json after.json  # what an upgrade of kernel or storage has changed
fathom survey --deep  # longer, and with what writes more";

const MORE: &str = "\
What it does to the machine:
  It reads, and writes only to files without a name, which are gone when it is
  killed. All of it takes under a minute, and 256 MiB of disk reads and writes.
  It goes into no network mount, waits for nobody, and lets others go first.
  Ctrl-C gives the page of what is done so far, a second one ends it at once.

  --deep allows ten minutes and 4 GiB: it experiments on every local file
  system, also for cache and extents, and prices calls whose answers are not in
  memory. For that it makes files and a cgroup, and takes them away again.

  With --diff, what got worse beyond the noise of its trials makes status 1.";

const EXIT: &str = "\
Exit status:
  0  done; with --diff: nothing got worse
  1  done, but something was skipped or found wrong; each is named in a warning;
     with --diff: something got worse
  2  not done, or the command line was wrong";

/// The flags of `fathom survey`.
#[derive(Args, Debug)]
#[command(after_help = EXIT, after_long_help = ending(EXAMPLES, MORE, EXIT))]
pub(crate) struct Survey {
    /// The directory to begin at [default: /]
    #[arg(value_name = "DIR", conflicts_with = "diff")]
    dir: Option<OsString>,

    /// Write the page into FILE; - is standard output [default: fathom-survey.html]
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["no_page", "diff"], help_heading = "Output")]
    pub(crate) output: Option<OsString>,
    /// Write no page
    #[arg(long, conflicts_with = "diff", help_heading = "Output")]
    pub(crate) no_page: bool,
    /// Draw what the experiments on each file system measured into a directory, as SVG
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with = "diff",
        help_heading = "Output"
    )]
    pub(crate) plot: Option<OsString>,
    /// Measure nothing, and say what has changed from one survey (--json) to another
    #[arg(long, num_args = 2, value_names = ["OLD", "NEW"], help_heading = "Output")]
    diff: Option<Vec<OsString>>,

    /// Give one run of one method or engine so long, and all steps together twelve times that
    /// [default: 5s; with --deep 50s]
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "diff", help_heading = "Bounds")]
    limit: Option<Duration>,
    /// Do more: longer limits, 4 GiB, every local file system, cache and extents, cold prices
    #[arg(long, conflicts_with = "diff", help_heading = "Bounds")]
    pub(crate) deep: bool,
    /// Go into network mounts, too, if they answer within a second
    #[arg(long, conflicts_with = "diff", help_heading = "Bounds")]
    pub(crate) network: bool,
}

impl Survey {
    pub(crate) fn dir(&self) -> &OsStr {
        self.dir.as_deref().unwrap_or(OsStr::new("/"))
    }

    pub(crate) fn limit(&self) -> Duration {
        const USUAL: Duration = Duration::from_secs(5);
        const DEEP: Duration = Duration::from_secs(50);
        self.limit.unwrap_or(if self.deep { DEEP } else { USUAL })
    }

    pub(crate) fn diff(&self) -> Option<[&OsStr; 2]> {
        let [old, new] = self.diff.as_deref()? else {
            return None;
        };
        Some([old, new])
    }
}

/// The walk that a survey accounts for: of one directory, one call after the other, without output.
#[derive(Args, Debug)]
pub(crate) struct SurveyWalk {
    /// Where to walk
    pub(crate) dir: OsString,
    /// What to leave out
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    /// When to be ended
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) limit: Duration,
}
