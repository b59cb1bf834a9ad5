//! The cost of starting programs on this machine: the state of PATH, and the searches of some
//! harmless programs.

use std::collections::HashMap;

use base::path::without_slashes;
use base::runs::Stats;

use crate::fixes::Fix;
use crate::kind::{Count, Kind, KindCounts};
use crate::path::PathElement;
use crate::report::{DirectoryReport, SearchReport};
use crate::trace::Totals;

/// A program that was started, and the cost of its start.
#[derive(Clone, Debug)]
pub struct ProgramStart {
    /// The command line.
    pub command: &'static str,
    /// The kind of searches that the program is an example of.
    pub about: &'static str,
    /// Seconds from start to end: the median of the runs. Without runs, the seconds of the metered
    /// start less the known overhead of the meter.
    pub seconds: f64,
    /// Seconds of each start without a meter, with warm caches. All other fields describe one
    /// metered start.
    pub runs: Vec<f64>,
    /// Sums over all lookups.
    pub totals: Totals,
    /// Lookups by kind.
    pub kinds: KindCounts,
    /// Round trips of the start on a network file system, with cold caches.
    pub requests: u64,
    /// Seconds of the start on a network file system.
    pub remote_seconds: f64,
    /// Changes that would make the start cheaper.
    pub fixes: Vec<Fix>,
    /// Directories, in decreasing order of failed lookups.
    pub directories: Vec<DirectoryReport>,
}

impl ProgramStart {
    /// Combines the report on a program's start with the seconds of other starts.
    pub fn new(
        command: &'static str,
        about: &'static str,
        report: SearchReport,
        runs: Vec<f64>,
    ) -> ProgramStart {
        let metered = report.metered.real.saturating_sub(report.metered.overhead);
        let median = Stats::from_values(runs.iter().copied()).map(|stats| stats.median);
        ProgramStart {
            command,
            about,
            seconds: median.unwrap_or(metered.as_secs_f64()),
            runs,
            kinds: report.kinds(),
            totals: report.trace.totals,
            requests: report.prediction.requests.cold.waited(),
            remote_seconds: report.prediction.cold.seconds,
            fixes: report.fixes,
            directories: report.directories,
        }
    }

    /// Statistics of the starts without a meter; `None` if there were none.
    pub fn elapsed(&self) -> Option<Stats> {
        Stats::from_values(self.runs.iter().copied())
    }
}

/// The cost of starting programs.
#[derive(Clone, Debug)]
pub struct StartupReport {
    /// The elements of PATH.
    pub path: Vec<PathElement>,
    /// The programs that were started.
    pub started: Vec<ProgramStart>,
    /// Seconds of a round trip to the network file system of the prediction.
    pub rtt: f64,
}

impl StartupReport {
    /// For each element of PATH, the lookups of programs in it by the first started program; `None`
    /// if no program was started. Lookups in a duplicate count for its first occurrence.
    pub fn path_lookups(&self) -> Option<Vec<Count>> {
        let mut counts: HashMap<&[u8], Count> = HashMap::new();
        for directory in &self.started.first()?.directories {
            let count = directory.lookups.counts.get(Kind::Path);
            *counts.entry(without_slashes(&directory.dir)).or_default() += count;
        }
        let elements = self.path.iter();
        let count = elements.map(|element| counts.remove(without_slashes(&element.dir)));
        Some(count.map(Option::unwrap_or_default).collect())
    }
}
