//! The report on a command's searches: their cost, and changes that would make them cheaper.

use base::Warning;
use meter::call::Metered;

use crate::environment::Environment;
use crate::fixes::{Fix, Remote, choose_path, is_worthwhile, propose_fixes};
use crate::kind::{Count, KindCounts};
use crate::model::StartRequests;
use crate::path::{LocalDirectories, PathProposal};
use crate::predict::{Prediction, SearchOptions, predict};
use crate::trace::{DirectoryLookups, OmittedLookups, Trace};
use crate::tree::{LocalTree, MountPoints, RemoteScope};
use crate::warning::WarningKind;

/// The cost of a command's searches.
#[derive(Debug)]
pub struct SearchReport {
    /// How the command was metered.
    pub metered: Metered,
    /// The lookups of the command.
    pub trace: Trace,
    /// The directories, in decreasing order of failed lookups.
    pub directories: Vec<DirectoryReport>,
    /// The predicted start on a network file system.
    pub prediction: Prediction,
    /// Changes that would make the start cheaper, the best first.
    pub fixes: Vec<Fix>,
    /// A better PATH.
    pub better_path: Option<PathProposal>,
    /// Reasons why the report is incomplete.
    pub warnings: Vec<Warning>,
}

impl SearchReport {
    /// Evaluates the trace of a command.
    pub(crate) fn new(
        mut trace: Trace,
        metered: Metered,
        environment: &Environment,
        options: &SearchOptions,
    ) -> SearchReport {
        let OmittedLookups {
            names,
            nameless,
            untracked,
            ..
        } = trace.omitted;
        let unseen = names + nameless + untracked + metered.lost + unrecorded(&trace, &metered);
        trace.is_complete = unseen == 0 && metered.warnings.is_empty();
        let mounts = MountPoints::read();
        let mut warnings = Vec::new();
        let directories = report_directories(&trace, &mounts);
        let network = directories.iter().filter(|directory| directory.network);
        let network: Vec<&[u8]> = network.map(|directory| &directory.dir[..]).collect();
        let scope = match &options.remote[..] {
            [] if network.is_empty() => RemoteScope::Everything,
            [] => RemoteScope::Network,
            remote => RemoteScope::Directories(remote.to_vec()),
        };
        let mut tree = LocalTree::new(&mounts, &scope);
        let warned = &mut warnings;
        let prediction = predict(&trace, &metered, &network, options, &mut tree, warned);
        let mut remote = Remote {
            tree: &mut tree,
            behavior: &prediction.behavior,
            prices: &prediction.prices,
            start: &prediction.requests.cold,
            seconds: prediction.seconds_alone(),
        };
        let has_network = scope != RemoteScope::Everything;
        let better_path = environment.path.as_deref().and_then(|path| {
            choose_path(
                path,
                &trace,
                &mut LocalDirectories,
                has_network,
                &mut remote,
            )
        });
        let path = better_path.as_ref();
        let requests = &prediction.requests;
        let fixes = propose_fixes(&trace, path, requests, &mut LocalDirectories, &mut remote);
        warnings.extend(omissions(&trace, &metered).map(Warning::general));
        SearchReport {
            metered,
            trace,
            directories,
            prediction,
            fixes,
            better_path,
            warnings,
        }
    }

    /// The files that the command reads on the modelled file system, and the symbolic links on
    /// their paths, sorted.
    pub fn files(&self) -> Vec<&[u8]> {
        let StartRequests { files, links, .. } = &self.prediction.requests;
        let mut all: Vec<&[u8]> = files.iter().chain(links).map(Vec::as_slice).collect();
        all.sort_unstable();
        all
    }

    /// The fixes whose predicted saving is worth a change.
    pub fn worthwhile_fixes(&self) -> impl Iterator<Item = &Fix> {
        let total = self.prediction.seconds_alone();
        let fixes = self.fixes.iter();
        fixes.filter(move |fix| fix.change.saves_work() || is_worthwhile(fix.saves_seconds, total))
    }

    /// The lookups of each kind in all directories.
    pub fn kinds(&self) -> KindCounts {
        let mut sum = KindCounts::default();
        for directory in &self.directories {
            sum += directory.lookups.counts;
        }
        sum
    }
}

/// A directory, and the lookups in it.
#[derive(Clone, Debug)]
pub struct DirectoryReport {
    /// The absolute path of the directory.
    pub dir: Vec<u8>,
    /// The lookups in the directory.
    pub lookups: DirectoryLookups,
    /// The type of its file system, where the mount table has it.
    pub fstype: Option<Vec<u8>>,
    /// Whether the directory is on a network file system.
    pub network: bool,
}

/// The directories, in decreasing order of failed lookups.
pub(crate) fn report_directories(trace: &Trace, mounts: &MountPoints) -> Vec<DirectoryReport> {
    let report = |(dir, lookups): &(Vec<u8>, DirectoryLookups)| {
        let mount = mounts.find(dir);
        DirectoryReport {
            dir: dir.clone(),
            lookups: lookups.clone(),
            fstype: mount.map(|mount| mount.fstype.clone()),
            network: mount.is_some_and(|mount| mount.network),
        }
    };
    let mut directories: Vec<DirectoryReport> = trace.directories.iter().map(report).collect();
    // The directories are sorted by name already, and this sort is stable.
    directories.sort_by_key(|directory| {
        let Count { hits, misses } = directory.lookups.counts.total();
        std::cmp::Reverse((misses, hits))
    });
    directories
}

/// The number of calls that the meter did not report individually.
fn unrecorded(trace: &Trace, metered: &Metered) -> u64 {
    // A call that never returned is not in the totals.
    let returned: u64 = metered.totals.iter().map(|total| total.calls).sum();
    returned.saturating_sub(trace.recorded)
}

/// Warnings about the parts missing from a trace.
fn omissions(trace: &Trace, metered: &Metered) -> impl Iterator<Item = WarningKind> + use<> {
    let omitted = trace.omitted;
    let unrecorded = unrecorded(trace, metered);
    let meter = metered.meter;
    [
        (
            omitted.searches,
            WarningKind::SearchesOmitted(omitted.searches),
        ),
        (
            omitted.directories,
            WarningKind::DirectoriesOmitted(omitted.directories),
        ),
        (omitted.names, WarningKind::NamesOmitted(omitted.names)),
        (omitted.untracked, WarningKind::Untracked(omitted.untracked)),
        (
            omitted.nameless,
            WarningKind::Nameless(omitted.nameless, meter),
        ),
        (unrecorded, WarningKind::Unrecorded(unrecorded, meter)),
    ]
    .into_iter()
    .filter(|(n, _)| *n > 0)
    .map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use meter::call::{Call, CommandEnd, Listener, MeterReason, Total};
    use meter::names::InheritedFiles;
    use meter::syscalls::by_name;

    use super::*;
    use crate::predict::RoundTrip;
    use crate::recorder::Recorder;

    #[test]
    fn calls_that_never_returned_do_not_hide_unrecorded_ones() {
        let mut recorder = Recorder::new(InheritedFiles::default(), Environment::default());
        let number = by_name("read").unwrap().number;
        // Five calls are recorded, of which two never return. Three more are only known never to
        // return.
        for result in [Some(1), Some(1), None, Some(1), None] {
            let call = Call {
                pid: 1,
                tid: 1,
                number,
                args: [0; 6],
                name: None,
                other: None,
                result,
                start: 0,
                nanos: 1,
            };
            recorder.call(&call);
        }
        let total = Total {
            program: b"/bin/x".to_vec(),
            pid: 1,
            number,
            calls: 7,
            nanos: 7,
            errors: Vec::new(),
        };
        let metered = Metered {
            meter: "bpf",
            choice: MeterReason::Requested,
            warnings: Vec::new(),
            totals: vec![total],
            unfinished: 5,
            lost: 0,
            overhead: Duration::ZERO,
            ended: CommandEnd::Exited(0),
            real: Duration::ZERO,
            user: Duration::ZERO,
            sys: Duration::ZERO,
        };
        let options = SearchOptions {
            remote: Vec::new(),
            rtt: RoundTrip::Assume,
            nodes: 1,
            server_rate: None,
        };
        let environment = Environment::default();
        let report = SearchReport::new(recorder.finish(), metered, &environment, &options);
        let kinds: Vec<_> = report
            .warnings
            .iter()
            .map(|warning| warning.reason::<WarningKind>().copied())
            .collect();
        assert_eq!(kinds, [Some(WarningKind::Unrecorded(4, "bpf"))]);
        let message = "4 calls are not counted: bpf did not report them";
        assert_eq!(report.warnings[0].message(), message);
    }
}
