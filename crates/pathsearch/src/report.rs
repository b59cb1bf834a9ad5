//! The report on a command's searches: their cost, and changes that would make them cheaper.

use std::collections::HashMap;

use base::Warning;
use base::path::ancestors;
use meter::call::Metered;

use crate::environment::{Environment, LISTS};
use crate::fixes::{Fix, Remote, choose_path, is_worthwhile, propose_fixes};
use crate::kind::{Count, Kind, KindCounts};
use crate::lookup::normalize;
use crate::model::StartRequests;
use crate::path::{LocalDirectories, PathProposal};
use crate::path::{PathElement, elements_on, is_silent};
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
    /// The elements of the command's PATH.
    pub path: Vec<PathElement>,
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
        mounts: &MountPoints,
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
        let mut warnings = Vec::new();
        let directories = report_directories(&trace, mounts);
        let network = directories.iter().filter(|directory| directory.network);
        let network: Vec<&[u8]> = network.map(|directory| &directory.dir[..]).collect();
        let scope = match &options.remote[..] {
            [] if network.is_empty() => RemoteScope::Everything,
            [] => RemoteScope::Network,
            remote => RemoteScope::Directories(remote.to_vec()),
        };
        let mut tree = LocalTree::new(mounts, &scope);
        let warned = &mut warnings;
        let prediction = predict(&trace, &metered, &network, options, &mut tree, warned);
        let mut remote = Remote {
            tree: &mut tree,
            model: prediction.model,
            start: &prediction.requests.cold,
        };
        let has_network = scope != RemoteScope::Everything;
        let search_path = environment.path.as_deref();
        let search_path = search_path.filter(|path| !is_silent(path));
        if search_path.is_none() && environment.path.is_some() {
            warnings.push(Warning::general(WarningKind::SilentPath));
        }
        let better_path = search_path.and_then(|path| {
            choose_path(
                path,
                &trace,
                &mut LocalDirectories,
                has_network,
                &mut remote,
            )
        });
        let requests = &prediction.requests;
        let fixes = propose_fixes(
            &trace,
            better_path.as_ref(),
            requests,
            &mut LocalDirectories,
            &mut remote,
        );
        warnings.extend(omissions(&trace, &metered).map(Warning::general));
        SearchReport {
            metered,
            trace,
            directories,
            prediction,
            fixes,
            path: search_path.map_or_else(Vec::new, |path| elements_on(path, mounts)),
            better_path,
            warnings,
        }
    }

    /// Whether the times of failed lookups are their number × a price that was measured without a
    /// meter.
    pub fn is_estimate(&self) -> bool {
        self.metered.stops_processes()
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
        let total = self.prediction.cold.seconds;
        let fixes = self.fixes.iter();
        fixes.filter(move |fix| fix.change.saves_work() || is_worthwhile(fix.saves_seconds, total))
    }

    /// The directories in decreasing order of failed lookups. An element of LD_LIBRARY_PATH,
    /// PYTHONPATH or a similar variable stands for all directories below it that were searched
    /// because of it.
    pub fn directories_by_element(&self) -> Vec<DirectoryReport> {
        let elements = search_path_elements(&self.trace);
        let row_of = |directory: &DirectoryReport| {
            let kind = directory.lookups.kind();
            let is_element =
                |at: &&[u8]| elements.get(*at).is_some_and(|kinds| kinds.contains(&kind));
            let element = ancestors(&directory.dir).find(is_element);
            element.unwrap_or(&directory.dir).to_vec()
        };
        let mut rows: Vec<DirectoryReport> = Vec::new();
        let mut by_name: HashMap<Vec<u8>, usize> = HashMap::new();
        for directory in &self.directories {
            let dir = row_of(directory);
            if let Some(&at) = by_name.get(&dir) {
                rows[at].lookups.counts += directory.lookups.counts;
                rows[at].lookups.nanos += directory.lookups.nanos;
            } else {
                by_name.insert(dir.clone(), rows.len());
                rows.push(DirectoryReport {
                    dir,
                    ..directory.clone()
                });
            }
        }
        sort_directories(&mut rows);
        rows
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
    /// The type of the directory's file system; `None` if the mount table does not have it.
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
    // The sort is stable, so that directories with equally many lookups stay sorted by name.
    sort_directories(&mut directories);
    directories
}

/// Sorts by failed lookups, then by hits, in decreasing order. The sort is stable.
fn sort_directories(directories: &mut [DirectoryReport]) {
    directories.sort_by_key(|directory| {
        let Count { hits, misses } = directory.lookups.counts.total();
        std::cmp::Reverse((misses, hits))
    });
}

/// The absolute elements of the variables that list directories, in all environments, with the
/// kinds of files that are searched for in each element.
fn search_path_elements(trace: &Trace) -> HashMap<Vec<u8>, Vec<Kind>> {
    let mut elements: HashMap<Vec<u8>, Vec<Kind>> = HashMap::new();
    let executions = trace.executions.iter();
    for environment in executions.filter_map(|execution| execution.environment.as_ref()) {
        for ((_, kind), list) in LISTS.iter().zip(&environment.lists) {
            let list = list.as_deref().unwrap_or_default();
            let each = list.split(|byte| matches!(byte, b':' | b';'));
            for dir in each.filter(|dir| dir.starts_with(b"/")).map(normalize) {
                let kinds = elements.entry(dir).or_default();
                if !kinds.contains(kind) {
                    kinds.push(*kind);
                }
            }
        }
    }
    elements
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
    use std::rc::Rc;
    use std::time::Duration;

    use meter::call::{Call, CommandEnd, Listener, MeterReason, Total};
    use meter::names::InheritedFiles;
    use meter::syscalls::by_name;

    use super::*;
    use crate::predict::RoundTrip;
    use crate::recorder::Recorder;
    use crate::trace::Execution;

    #[test]
    fn directories_below_an_element_of_a_search_path_are_one_row() {
        let lookups = |kind, misses| {
            let mut lookups = DirectoryLookups {
                nanos: misses,
                ..DirectoryLookups::default()
            };
            lookups.counts.get_mut(kind).misses = misses;
            lookups
        };
        let rows = [
            ("/opt/a", Kind::Linker, 3),
            ("/opt/a/glibc-hwcaps/x86-64-v2", Kind::Linker, 2),
            ("/opt/a/doc", Kind::Other, 7),
            ("/opt/b/tls", Kind::Linker, 1),
            ("/opt/c", Kind::Linker, 4),
        ];
        let each = rows.into_iter();
        let directories = each
            .map(|(dir, kind, misses)| (dir.as_bytes().to_vec(), lookups(kind, misses)))
            .collect();
        let mut environment = Environment::default();
        environment.lists[0] = Some(b"/opt/a/:/opt/b;relative".to_vec());
        let trace = Trace {
            directories,
            executions: vec![Execution {
                program: b"/bin/x"[..].into(),
                environment: Some(Rc::new(environment)),
            }],
            ..Trace::default()
        };
        let options = SearchOptions {
            remote: Vec::new(),
            rtt: RoundTrip::Assume,
            nodes: 1,
            server_rate: None,
        };
        let environment = Environment::default();
        let report = SearchReport::new(
            trace,
            metered(Vec::new(), 0),
            &MountPoints::read(),
            &environment,
            &options,
        );
        let found = report.directories_by_element();
        let found: Vec<_> = found
            .iter()
            .map(|row| {
                let misses = row.lookups.counts.total().misses;
                (
                    String::from_utf8_lossy(&row.dir).into_owned(),
                    misses,
                    row.lookups.nanos,
                )
            })
            .collect();
        let expected = [
            ("/opt/a/doc", 7, 7),
            ("/opt/a", 5, 5),
            ("/opt/c", 4, 4),
            ("/opt/b", 1, 1),
        ];
        assert_eq!(
            found,
            expected.map(|(dir, n, nanos)| (dir.to_owned(), n, nanos))
        );
        assert_eq!(report.directories.len(), 5);
    }

    fn metered(totals: Vec<Total>, unfinished: u64) -> Metered {
        Metered {
            meter: "bpf",
            choice: MeterReason::Requested,
            warnings: Vec::new(),
            totals,
            unfinished,
            lost: 0,
            overhead: Duration::ZERO,
            ended: CommandEnd::Exited(0),
            real: Duration::ZERO,
            user: Duration::ZERO,
            sys: Duration::ZERO,
        }
    }

    #[test]
    fn calls_that_never_returned_do_not_hide_unrecorded_ones() {
        let mut recorder = Recorder::new(InheritedFiles::default(), Environment::default());
        let number = by_name("read").unwrap().number;
        // Five calls are recorded, of which two never return. The meter counts three more that
        // never return, five in all.
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
        let metered = metered(vec![total], 5);
        let options = SearchOptions {
            remote: Vec::new(),
            rtt: RoundTrip::Assume,
            nodes: 1,
            server_rate: None,
        };
        let environment = Environment::default();
        let report = SearchReport::new(
            recorder.finish(),
            metered,
            &MountPoints::read(),
            &environment,
            &options,
        );
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
