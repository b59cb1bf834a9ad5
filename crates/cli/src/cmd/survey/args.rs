//! The flags of `fathom survey`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use ::survey::CallByCallWalk;
use clap::{ArgAction, Args};

use crate::args::help::{EXIT, ending, first};
use crate::args::values::duration;

const EXAMPLES: &str = "\
fathom survey  # survey this machine: a summary here, a page in fathom-survey.html
fathom survey --full  # print every section
fathom survey /srv -o /tmp/srv.html  # survey the file systems at /srv; write the page elsewhere
fathom survey --json --no-page >before.json  # save a survey to compare with later
fathom compare before.json after.json  # what has changed between two surveys
fathom survey --deep  # measure longer, and write more";

const MORE: &str = "\
Effects on the machine:
  It reads, and writes only to temporary files without a name. It takes less
  than a minute, and at most 256 MiB of disk reads and writes. It does not enter
  network mounts, and runs at low CPU and disk priority. Ctrl-C stops measuring
  and writes the page; a second Ctrl-C exits at once.

  --deep allows ten minutes and 4 GiB. It creates temporary files and a cgroup,
  and removes them at the end.";

/// The flags of `fathom survey`.
#[derive(Args, Debug)]
#[command(before_help = first(EXAMPLES), after_help = EXIT, after_long_help = ending(EXAMPLES, MORE, EXIT))]
pub(crate) struct Survey {
    /// The directory to survey, with all mounts below it [default: /]
    #[arg(value_name = "DIR")]
    dir: Option<OsString>,

    /// Write the page to FILE (- for stdout) [default: fathom-survey.html]
    ///
    /// The page is written with --json, too, unless --no-page is given.
    #[arg(short, long, value_name = "FILE", conflicts_with = "no_page")]
    #[arg(help_heading = "Output")]
    pub(crate) output: Option<OsString>,
    /// Print all sections, not only the summary
    #[arg(long, help_heading = "Output")]
    pub(crate) full: bool,
    /// Write no page
    #[arg(long, help_heading = "Output")]
    pub(crate) no_page: bool,
    /// Write plots of the experiments as SVG to DIR, an existing directory
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) plot: Option<OsString>,
    /// Refuse, and name fathom compare, which replaced it
    #[arg(long, num_args = 2, action = ArgAction::Set, value_names = ["OLD", "NEW"], hide = true)]
    diff: Option<Vec<OsString>>,

    /// Stop a run of a method or engine after DURATION [default: 5s]
    ///
    /// All steps together take at most twelve times that. With --deep the default is 50s.
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Limits")]
    limit: Option<Duration>,
    /// Measure for up to ten minutes and 4 GiB, and every local file system
    ///
    /// Also measures the page cache, extents, and calls on metadata that is not cached.
    #[arg(long, help_heading = "Limits")]
    pub(crate) deep: bool,
    /// Also survey network mounts that answer within a second
    #[arg(long, help_heading = "Limits")]
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
    /// The directory to walk
    pub(crate) dir: OsString,
    /// Skip entries whose name matches GLOB
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    /// Stop after TIME
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) limit: Duration,
}

impl SurveyWalk {
    /// The command line that runs this walk in a child process of the same program.
    pub(crate) fn command_line(asked: &CallByCallWalk<'_>) -> Vec<OsString> {
        let limit = format!("{}ms", asked.limit.as_millis().max(1));
        let words = ["/proc/self/exe", "survey-walk", "--limit", &limit].map(OsString::from);
        let excludes = asked.excludes.iter();
        let excludes = excludes.map(|pattern| format!("--exclude={pattern}").into());
        let dir = ["--".into(), OsStr::from_bytes(asked.dir).to_owned()];
        words.into_iter().chain(excludes).chain(dir).collect()
    }

    /// The walk that the flags request.
    pub(crate) fn requested_walk(&self) -> CallByCallWalk<'_> {
        CallByCallWalk {
            dir: self.dir.as_bytes(),
            excludes: &self.exclude,
            limit: self.limit,
        }
    }
}
