//! Changes that would make the searches of a command cheaper, and their savings.

use std::collections::{HashMap, HashSet};

use base::path::{join, parent};

use crate::bytecode::keep_bytecode;
use crate::change::{AvoidedNames, Change};
use crate::kind::{Count, Kind};
use crate::lookup::{normalize, split};
use crate::model::{StartRequests, without_copied};
use crate::path::{LocalDirectories, PathProposal, ProgramDirectories, is_installed, propose_path};
use crate::predict::StartModel;
use crate::request::Requests;
use crate::shorten::{UsedDirectories, shorten_runpaths, shorten_variables};
use crate::trace::{NameUse, Shim, Trace};
use crate::tree::FileTree;

/// A change, and its savings.
#[derive(Clone, Debug, PartialEq)]
pub struct Fix {
    /// The change of the environment or of files.
    pub change: Change,
    /// The number of failed lookups that the change avoids.
    pub saves_misses: u64,
    /// Seconds of these failed lookups on this machine, without a meter.
    pub saves_seconds_here: f64,
    /// Avoided requests to the network file system that the command waits for, with cold caches:
    /// the difference of the predictions for the recorded calls and for those that remain.
    pub saves_requests: u64,
    /// The difference of the predicted start times, with cold caches.
    pub saves_seconds: f64,
}

/// The minimum saving that is worth a change, in seconds.
const LEAST: f64 = 0.010;

/// Whether a saving is worth a change: at least 10 ms, and from 5 % to 100 % of the measured or
/// predicted total. Both arguments are in seconds.
pub fn is_worthwhile(saving: f64, total: f64) -> bool {
    const SHARE: f64 = 0.05;
    /// Tolerance, as saving and total may be sums of the same values in different order.
    const ROUNDING: f64 = 1e-9;
    saving >= LEAST && saving >= SHARE * total && saving <= total * (1.0 + ROUNDING)
}

/// The modelled network file system.
pub(crate) struct Remote<'a> {
    pub(crate) tree: &'a mut dyn FileTree,
    pub(crate) model: StartModel,
    /// The requests of the start, with cold caches.
    pub(crate) start: &'a Requests,
}

/// The difference of the predictions for a start and for the start after a change.
#[derive(Clone, Copy, Debug, Default)]
struct RemoteSaving {
    /// Requests that the command waits for.
    requests: u64,
    seconds: f64,
}

impl Remote<'_> {
    /// The saving of a change after which the start uses these names. 0 if the start would take
    /// longer.
    fn saving(&mut self, names: &[NameUse]) -> RemoteSaving {
        let after = self.model.cold_requests(names, self.tree);
        let seconds = self.model.time(self.start).seconds - self.model.time(&after).seconds;
        RemoteSaving {
            requests: self.start.waited().saturating_sub(after.waited()),
            seconds: seconds.max(0.0),
        }
    }

    /// The mean time of a failed lookup of these names on this machine. A meter slows a call down
    /// by more than the lookup takes, so the names are looked up again without a meter.
    fn seconds_per_miss(&mut self, trace: &Trace, change: &Change, names: &[&[u8]]) -> f64 {
        const SAMPLES: usize = 256;
        let every = names.len().div_ceil(SAMPLES).max(1);
        let sample = names.iter().step_by(every);
        let times: Vec<f64> = sample
            .filter_map(|name| self.tree.time_miss(name))
            .collect();
        match times.len() {
            0 => seconds_per_miss(trace, change.kind()),
            n => times.iter().sum::<f64>() / n as f64,
        }
    }

    /// The fix of a change that saves `misses` failed lookups of these names on this machine, and
    /// requests to the network file system.
    fn fix(
        &mut self,
        trace: &Trace,
        change: Change,
        misses: u64,
        saving: RemoteSaving,
        names: &[&[u8]],
    ) -> Fix {
        let misses = misses.min(trace.totals.misses);
        let seconds_here = self.seconds_per_miss(trace, &change, names) * misses as f64;
        Fix {
            saves_misses: misses,
            saves_seconds_here: seconds_here.min(trace.totals.nanos as f64 / 1e9),
            saves_requests: saving.requests,
            saves_seconds: saving.seconds,
            change,
        }
    }
}

/// A PATH without missing and duplicate directories, otherwise in the present order. Directories on
/// a network file system are reordered only if the reordering alone is worthwhile.
pub(crate) fn choose_path(
    path: &[u8],
    trace: &Trace,
    directories: &mut dyn ProgramDirectories,
    has_network: bool,
    remote: &mut Remote<'_>,
) -> Option<PathProposal> {
    let kept = propose_path(path, &trace.programs, directories, &mut |_| false);
    if !has_network {
        return kept;
    }
    let is_movable = &mut |dir: &[u8]| dir.starts_with(b"/") && remote.tree.is_remote(dir);
    let moved = propose_path(path, &trace.programs, directories, is_movable);
    let mut seconds = |path: &Option<PathProposal>| {
        let path = path.as_ref().filter(|path| path.saves > 0);
        path.map_or(0.0, |path| {
            remote.saving(&names_with_path(trace, path)).seconds
        })
    };
    let gain = seconds(&moved) - seconds(&kept);
    let total = remote.model.time(remote.start).seconds;
    match is_worthwhile(gain, total) {
        true => moved,
        false => kept,
    }
}

/// Sorts fixes by saved requests, most first. Changes that avoid compilations precede fixes that save
/// less than 10 ms, because compiling takes longer than the lookups and is not in the savings.
fn sort_fixes(fixes: &mut [Fix]) {
    fixes.sort_by_key(|fix| {
        let is_large = fix.saves_seconds.max(fix.saves_seconds_here) >= LEAST;
        let is_before_small = is_large || fix.change.saves_compiling();
        std::cmp::Reverse((
            is_before_small,
            is_large,
            fix.saves_requests,
            fix.saves_misses,
        ))
    });
}

/// All changes that would help, in decreasing order of saved requests. `start` has the requests of
/// the whole start.
pub(crate) fn propose_fixes(
    trace: &Trace,
    path: Option<&PathProposal>,
    start: &StartRequests,
    directories: &mut dyn ProgramDirectories,
    remote: &mut Remote<'_>,
) -> Vec<Fix> {
    let mut fixes = Vec::new();
    fixes.extend(path.and_then(|path| fix_path(trace, path, remote)));
    let used = UsedDirectories::new(trace);
    let mut changes = Vec::new();
    if trace.is_complete {
        changes.extend(shorten_variables(trace, &used));
        changes.extend(shorten_runpaths(trace, &used, directories));
    }
    let missed = missed_names(trace).into_iter();
    let missed = missed.chain(keep_bytecode(trace, remote.tree));
    changes.extend(missed.map(|(change, missed)| AvoidedNames {
        change,
        missed,
        unused: Vec::new(),
    }));
    for avoided in changes {
        fixes.extend(fix_avoided(trace, avoided, remote));
    }
    let shims = trace.shims.iter().filter(|shim| shim.processes > 0);
    fixes.extend(shims.map(|shim| {
        let change = Change::AvoidShim {
            shim: shim.clone(),
            manager: manager(shim),
        };
        remote.fix(trace, change, shim.misses, RemoteSaving::default(), &[])
    }));
    let copied = start.files.iter().chain(&start.links);
    let copied: HashSet<&[u8]> = copied.map(Vec::as_slice).collect();
    let left = without_copied(&trace.names, &copied, remote.tree);
    let saving = remote.saving(&left);
    if saving.requests > 0 && !start.files.is_empty() {
        fixes.push(Fix {
            change: Change::CopyToLocalDisk {
                files: start.files.len() as u64,
                links: start.links.len() as u64,
                bytes: start.bytes,
            },
            saves_misses: 0,
            saves_seconds_here: 0.0,
            saves_requests: saving.requests,
            saves_seconds: saving.seconds,
        });
    }
    sort_fixes(&mut fixes);
    fixes
}

/// Changes that avoid one kind of failed lookups, each with the names of the lookups that it
/// avoids.
fn missed_names(trace: &Trace) -> Vec<(Change, Vec<&NameUse>)> {
    let missed = |applies: &dyn Fn(&NameUse) -> bool| -> Vec<&NameUse> {
        let missed = trace.names.iter().filter(|used| used.count.misses > 0);
        missed.filter(|used| applies(used)).collect()
    };
    let mut all = Vec::new();
    for change in [
        Change::CacheRubyLibraries,
        Change::BundleNodeProgram,
        Change::CacheCompilations,
        Change::SetInstalledTerminal,
    ] {
        let kind = change.kind();
        all.push((change, missed(&|used| used.kind == kind)));
    }
    if !trace
        .names
        .iter()
        .any(|used| is_locale_file(used) && used.count.hits > 0)
    {
        let absent = missed(&|used| is_locale_file(used) && !is_builtin_locale(used));
        all.push((Change::SetInstalledLocale, absent));
    }
    all
}

/// The version manager that has installed a shim script, to be called as `manager which NAME`: that
/// prints the program behind the shim NAME.
fn manager(shim: &Shim) -> Option<Vec<u8>> {
    const MANAGERS: &str = "pyenv rbenv nodenv asdf mise goenv jenv plenv phpenv";
    // The version manager's directory contains the directories `shims` and `bin`.
    let root = parent(split(&shim.path).0);
    let file = |name: &str| join(root, format!("bin/{name}").as_bytes());
    let own = |name: &&str| LocalDirectories.program(&file(name)).is_some();
    let is_named = |name: &&str| split(root).1.ends_with(name.as_bytes());
    let mut all = MANAGERS.split(' ');
    if let Some(name) = all.clone().find(own) {
        return Some(file(name));
    }
    let name = all.find(is_named)?;
    is_installed(name).then(|| name.into())
}

/// Whether a name is a locale's file, as setlocale(3) opens it:
/// `/usr/lib/locale/de_DE.utf8/LC_CTYPE`. If such a file is found, the locale is installed, and
/// failed lookups of other spellings or of message catalogs remain whatever LC_ALL is.
fn is_locale_file(used: &NameUse) -> bool {
    let (dir, name) = split(&used.path);
    let above = split(split(dir).0).1;
    used.kind == Kind::Locale && name.starts_with(b"LC_") && above == b"locale"
}

/// Whether a name is a file of C, C.UTF-8 or POSIX, which are built into the C library.
fn is_builtin_locale(used: &NameUse) -> bool {
    let locale = split(split(&used.path).0).1;
    locale == b"C" || locale == b"POSIX" || locale.starts_with(b"C.")
}

fn fix_path(trace: &Trace, path: &PathProposal, remote: &mut Remote<'_>) -> Option<Fix> {
    if path.saves == 0 {
        return None;
    }
    let saving = remote.saving(&names_with_path(trace, path));
    let avoided = path.names.iter().filter(|(_, now, then)| then < now);
    let avoided: Vec<&[u8]> = avoided.map(|(name, ..)| &name[..]).collect();
    let change = Change::SetPath(path.clone());
    Some(remote.fix(trace, change, path.saves, saving, &avoided))
}

/// The names that the start would use if the same searches were made along a proposed PATH.
fn names_with_path(trace: &Trace, path: &PathProposal) -> Vec<NameUse> {
    let names = path.names.iter();
    let mut changed: HashMap<&[u8], (u64, u64)> = names
        .map(|(name, now, then)| (&name[..], (*now, *then)))
        .collect();
    let removed = path.removed.iter().filter(|dir| dir.starts_with(b"/"));
    let removed: HashSet<Vec<u8>> = removed.map(|dir| normalize(dir)).collect();
    let mut all: Vec<NameUse> = Vec::with_capacity(trace.names.len());
    for used in &trace.names {
        let mut left = used.clone();
        match changed.remove(&used.path[..]) {
            Some((0, then)) => left.count.misses += then,
            // A search may make several failed lookups of a path, so their number is scaled.
            Some((now, then)) => left.count.misses = scale(used.count.misses, then, now),
            None => {}
        }
        // Some shells look up the directories of PATH themselves. A missing directory that is
        // removed from PATH is no longer looked up.
        let is_missing_element = used.count.hits == 0 && removed.contains(&used.path[..]);
        all.push(match left.count == Count::default() || is_missing_element {
            true => used.removed(),
            false => left,
        });
    }
    let mut added: Vec<_> = changed.into_iter().collect();
    added.retain(|(_, (now, then))| then > now);
    added.sort_unstable();
    all.extend(added.into_iter().map(|(name, (_, then))| NameUse {
        path: name.into(),
        kind: Kind::Path,
        count: Count {
            hits: 0,
            misses: then,
        },
        follow: true,
        ..NameUse::default()
    }));
    all
}

/// `value * part / whole`, without overflow.
fn scale(value: u64, part: u64, whole: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// A fix that avoids recorded calls; `None` if there are no such calls.
fn fix_avoided(trace: &Trace, avoided: AvoidedNames<'_>, remote: &mut Remote<'_>) -> Option<Fix> {
    let AvoidedNames {
        change,
        missed,
        unused,
    } = avoided;
    let misses: u64 = missed.iter().map(|used| used.count.misses).sum();
    let paths: Vec<&[u8]> = missed.iter().map(|used| &used.path[..]).collect();
    let unused: HashSet<&[u8]> = unused.iter().map(|used| &used.path[..]).collect();
    let saving = remote.saving(&names_without(trace, &paths, &unused));
    if misses == 0 && saving.requests == 0 {
        return None;
    }
    Some(remote.fix(trace, change, misses, saving, &paths))
}

/// The names that remain if the failed lookups of `missed` and all calls on `unused` are avoided.
fn names_without(trace: &Trace, missed: &[&[u8]], unused: &HashSet<&[u8]>) -> Vec<NameUse> {
    let missed: HashSet<&[u8]> = missed.iter().copied().collect();
    let left = trace.names.iter().map(|used| {
        let is_missed = missed.contains(&used.path[..]);
        if unused.contains(&used.path[..]) || is_missed && used.count.hits == 0 {
            return used.removed();
        }
        let mut left = used.clone();
        if is_missed {
            left.count.misses = 0;
        }
        left
    });
    left.collect()
}

/// The mean metered time of a failed lookup of this kind, over the names without hits.
fn seconds_per_miss(trace: &Trace, kind: Kind) -> f64 {
    let (mut nanos, mut misses) = (0, 0);
    for used in &trace.names {
        if used.kind == kind && used.count.hits == 0 {
            nanos += used.nanos;
            misses += used.count.misses;
        }
    }
    match misses {
        0 => 0.0,
        misses => nanos as f64 / 1e9 / misses as f64,
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use gate::{Errno, Result};
    use proptest::prelude::*;

    use base::path::below;
    use ondisk::Dev;

    use super::*;
    use crate::environment::Environment;
    use crate::path::Identity;
    use crate::request::{ClientBehavior, Prices};
    use crate::trace::{Execution, Program, ProgramUse, Totals};
    use crate::tree::Node;

    const DIRS: [&str; 8] = [
        "/usr/local/bin",
        "/usr/bin",
        "/bin",
        "/opt/a",
        "/opt/b",
        "/net/a",
        "/net/b",
        "",
    ];
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Access {
        Missing,
        /// The directory cannot be examined with stat(2).
        Unsearchable,
        /// The entries of the directory cannot be listed.
        Unreadable,
        Readable,
    }

    /// How the recorded calls of a test used a path; recorded on its first use.
    fn name_use<'a>(trace: &'a mut Trace, path: &[u8]) -> &'a mut NameUse {
        let known = trace.names.iter().position(|used| *used.path == *path);
        let at = known.unwrap_or(trace.names.len());
        if known.is_none() {
            trace.names.push(NameUse {
                path: path.into(),
                follow: true,
                ..NameUse::default()
            });
        }
        &mut trace.names[at]
    }

    /// A simulated machine: access to each of [`DIRS`], and its inode; the program of each name in
    /// each inode; and whether each directory is remote.
    #[derive(Clone, Debug)]
    struct Machine {
        dirs: Vec<(Access, usize, bool)>,
        programs: Vec<[Option<u64>; 4]>,
    }

    impl Machine {
        fn dir(&self, dir: &[u8]) -> Option<(Access, usize, bool)> {
            let at = DIRS.iter().position(|known| known.as_bytes() == dir)?;
            self.dirs.get(at).copied()
        }

        /// The program at a path.
        fn program_at(&self, dir: &[u8], name: &[u8]) -> Option<u64> {
            let (access, inode, _) = self.dir(dir)?;
            let name = NAMES.iter().position(|known| known.as_bytes() == name)?;
            self.programs[inode][name].filter(|_| access != Access::Missing)
        }

        /// Searches a name along a PATH; returns its directory and program.
        fn resolve<'a>(&self, path: &'a [u8], name: &str) -> Option<(&'a [u8], u64)> {
            let mut dirs = path.split(|&b| b == b':');
            dirs.find_map(|dir| Some((dir, self.program_at(dir, name.as_bytes())?)))
        }

        /// A meter's trace of these searches: index of the name, number of searches, nanoseconds
        /// per call.
        fn trace(&self, path: &[u8], searches: &[(usize, u64, u64)]) -> Trace {
            let mut trace = Trace::default();
            for &(name, times, nanos) in searches {
                let name = NAMES[name];
                let found = self.resolve(path, name).map(|(dir, _)| dir);
                let dirs = path.split(|&b| b == b':');
                let passed: Vec<&[u8]> = dirs.take_while(|dir| Some(*dir) != found).collect();
                let absolute = passed.iter().filter(|dir| dir.starts_with(b"/"));
                let mut look_up = |dir: &[u8], hits, misses| {
                    let used = name_use(&mut trace, &join(dir, name.as_bytes()));
                    used.kind = Kind::Path;
                    used.count += Count { hits, misses };
                    used.nanos += nanos * (hits + misses);
                };
                absolute.for_each(|&dir| look_up(dir, 0, times));
                found.into_iter().for_each(|dir| look_up(dir, times, 0));
                let misses = times * passed.len() as u64;
                let program = Program {
                    name: name.as_bytes().to_vec(),
                    found: found.map(|dir| [dir, b"/", name.as_bytes()].concat()),
                };
                trace.programs.push((program, ProgramUse { times, misses }));
                trace.totals.lookups += misses + times;
                trace.totals.misses += misses;
                trace.totals.nanos += misses * nanos;
            }
            trace
        }
    }

    impl ProgramDirectories for Machine {
        fn directory(&mut self, dir: &[u8]) -> Result<Option<Identity>> {
            match self.dir(dir) {
                None | Some((Access::Missing, ..)) => Ok(None),
                Some((Access::Unsearchable, ..)) => Err(Errno::EACCES),
                Some((_, inode, _)) => Ok(Some((Dev::new(0, 1), inode as u64))),
            }
        }
        fn names(&mut self, dir: &[u8]) -> Result<Vec<Vec<u8>>> {
            match self.dir(dir) {
                Some((Access::Readable, inode, _)) => {
                    let names = NAMES.iter().zip(self.programs[inode]);
                    let here = names.filter(|(_, program)| program.is_some());
                    Ok(here.map(|(name, _)| name.as_bytes().to_vec()).collect())
                }
                _ => Err(Errno::EACCES),
            }
        }
        fn program(&mut self, path: &[u8]) -> Option<Identity> {
            let (dir, name) = split(path);
            Some((Dev::new(0, 2), self.program_at(dir, name)?))
        }
    }

    impl FileTree for Machine {
        fn node(&mut self, path: &[u8]) -> Node {
            let (dir, name) = split(path);
            let is_above = DIRS
                .iter()
                .any(|known| below(path, known.as_bytes()).is_some());
            match (self.dir(path), self.program_at(dir, name)) {
                (Some((Access::Missing, ..)), _) => Node::Missing,
                (_, Some(_)) => Node::File(10_000),
                _ if is_above => Node::Directory,
                _ => Node::Missing,
            }
        }
        fn interpreter(&mut self, _: &[u8]) -> Option<Vec<u8>> {
            None
        }
        fn is_remote(&mut self, dir: &[u8]) -> bool {
            self.dir(dir).is_some_and(|(.., is_remote)| is_remote)
        }
        fn time_miss(&mut self, _: &[u8]) -> Option<f64> {
            None
        }
    }

    fn machine() -> impl Strategy<Value = Machine> {
        let access = prop_oneof![
            1 => Just(Access::Missing),
            1 => Just(Access::Unsearchable),
            1 => Just(Access::Unreadable),
            9 => Just(Access::Readable),
        ];
        let dirs = prop::collection::vec((access, 0..7_usize, any::<bool>()), DIRS.len() - 1);
        let program = prop::option::weighted(0.4, 0..6_u64);
        let programs = prop::collection::vec(prop::array::uniform4(program), 7);
        (dirs, programs).prop_map(|(dirs, programs)| Machine { dirs, programs })
    }

    proptest! {
        #[test]
        fn a_proposed_path_changes_no_program_and_saves_the_difference_of_the_predictions(
            machine in machine(),
            dirs in prop::collection::vec(0..DIRS.len(), 1..9),
            searches in prop::collection::vec((0..NAMES.len(), 1..2000_u64, 0..5000_u64), 1..5),
            rtt in 0.0..0.01_f64,
            keeps_misses in any::<bool>(),
            has_network in any::<bool>(),
            nodes in 1..3000_u64,
            server_rate in prop::option::of(100.0..100_000.0_f64),
        ) {
            let given: Vec<&str> = dirs.iter().map(|at| DIRS[*at]).collect();
            let path = given.join(":");
            let trace = machine.trace(path.as_bytes(), &searches);
            let behavior = ClientBehavior { keeps_misses, ..ClientBehavior::default() };
            let model = StartModel {
                prices: Prices::uniform(rtt),
                behavior,
                compute: 0.1,
                nodes,
                server_rate,
            };
            let start = model.requests(&trace.names, &mut machine.clone());
            let seconds = model.time(&start.cold).seconds;
            let mut remote = Remote {
                tree: &mut machine.clone(),
                model,
                start: &start.cold,
            };
            let directories = &mut machine.clone();
            let chosen =
                choose_path(path.as_bytes(), &trace, directories, has_network, &mut remote);
            if let Some(chosen) = &chosen {
                for name in NAMES {
                    let program = |path| machine.resolve(path, name).map(|(_, program)| program);
                    prop_assert_eq!(program(path.as_bytes()), program(&chosen.path), "{}", name);
                }
                let shown = String::from_utf8(chosen.path.clone()).unwrap();
                let kept: Vec<&str> = shown.split(':').collect();
                let place = |dir: &str| given.iter().position(|old| *old == dir).unwrap();
                for (first, second) in kept.iter().zip(&kept[1..]) {
                    prop_assert!(has_network || place(first) < place(second), "{}", shown);
                }
                let mut standard = kept.iter().filter(|dir| DIRS[..3].contains(dir));
                prop_assert!(standard.by_ref().map(|dir| place(dir)).is_sorted(), "{}", shown);
            }
            for fix in propose_fixes(&trace, chosen.as_ref(), &start, directories, &mut remote) {
                let Totals { misses, nanos, .. } = trace.totals;
                prop_assert!(fix.saves_misses <= misses, "{:?}", fix);
                prop_assert!(fix.saves_seconds_here <= nanos as f64 / 1e9, "{:?}", fix);
                prop_assert!(fix.saves_requests <= start.cold.waited(), "{:?}", fix);
                prop_assert!(fix.saves_seconds <= seconds * (1.0 + 1e-9), "{:?}", fix);
                // If PATH is reordered, the saving is not exact: a search may end at the same
                // program in a different directory.
                if let Change::SetPath(path) = &fix.change
                    && !path.is_reordered
                {
                    let after = machine.trace(&path.path, &searches);
                    let after = model.cold_requests(&after.names, &mut machine.clone());
                    let saved = start.cold.waited() as i64 - after.waited() as i64;
                    prop_assert_eq!(fix.saves_requests as i64, saved, "{:?}", fix);
                    let saved = seconds - model.time(&after).seconds;
                    prop_assert!((fix.saves_seconds - saved).abs() < 1e-6, "{:?}", fix);
                }
            }
        }

        #[test]
        fn a_shorter_library_path_saves_the_difference_of_the_predictions(
            libraries in libraries(),
            dirs in prop::collection::vec(0..LIBRARY_DIRS, 1..9),
            keeps_misses in any::<bool>(),
            nodes in 1..3000_u64,
            server_rate in prop::option::of(100.0..100_000.0_f64),
        ) {
            let value = dirs.iter().map(|dir| format!("/{dir}")).collect::<Vec<_>>().join(":");
            let trace = libraries.trace(value.as_bytes());
            let model = StartModel {
                prices: Prices::uniform(0.005),
                behavior: ClientBehavior { keeps_misses, ..ClientBehavior::default() },
                compute: 0.1,
                nodes,
                server_rate,
            };
            let start = model.requests(&trace.names, &mut libraries.clone());
            let mut remote = Remote {
                tree: &mut libraries.clone(),
                model,
                start: &start.cold,
            };
            let machine = &mut Machine { dirs: Vec::new(), programs: Vec::new() };
            let fixes = propose_fixes(&trace, None, &start, machine, &mut remote);
            let shorter = fixes.iter().find_map(|fix| match &fix.change {
                Change::ShortenVariable { value, .. } => Some((fix, value)),
                _ => None,
            });
            let is_useful = |dir: &usize| {
                let tried = libraries.found(value.as_bytes());
                tried.contains(&format!("/{dir}").into_bytes())
            };
            prop_assert!(shorter.is_none() || !dirs.iter().all(is_useful));
            if let Some((fix, value)) = shorter {
                let after = libraries.trace(value.as_deref().unwrap_or_default());
                let after = model.cold_requests(&after.names, &mut libraries.clone());
                let saved = start.cold.waited() as i64 - after.waited() as i64;
                prop_assert_eq!(fix.saves_requests as i64, saved, "{:?}", fix);
                let saved = model.time(&start.cold).seconds - model.time(&after).seconds;
                prop_assert!((fix.saves_seconds - saved).abs() < 1e-6, "{:?}", fix);
            }
        }
    }

    const LIBRARY_DIRS: usize = 8;
    const LIBRARIES: [&str; 3] = ["liba.so", "libb.so", "libc.so"];

    /// A simulated remote file tree of the directories `/0`, `/1` and so on: whether each exists,
    /// and the libraries in it.
    #[derive(Clone, Debug)]
    struct Libraries(Vec<(bool, [bool; LIBRARIES.len()])>);

    fn libraries() -> impl Strategy<Value = Libraries> {
        let library = prop::bool::weighted(0.2);
        let dir = (prop::bool::weighted(0.7), prop::array::uniform3(library));
        prop::collection::vec(dir, LIBRARY_DIRS).prop_map(Libraries)
    }

    impl Libraries {
        fn contains(&self, dir: &[u8], library: usize) -> bool {
            let number = String::from_utf8_lossy(dir.strip_prefix(b"/").unwrap_or(dir));
            let dir = number.parse::<usize>().ok().and_then(|at| self.0.get(at));
            dir.is_some_and(|(exists, libraries)| *exists && libraries[library])
        }

        /// The directory in which each library is found.
        fn found(&self, value: &[u8]) -> HashSet<Vec<u8>> {
            let dirs: Vec<&[u8]> = value.split(|&b| b == b':').collect();
            let libraries = 0..LIBRARIES.len();
            let found = libraries.filter_map(|library| {
                let mut dirs = dirs.iter();
                dirs.find(|dir| self.contains(dir, library))
            });
            found.map(|dir| dir.to_vec()).collect()
        }

        /// The trace of a program that searches the libraries with this LD_LIBRARY_PATH.
        fn trace(&self, value: &[u8]) -> Trace {
            let environment = Environment {
                lists: [Some(value.to_vec()), None, None, None, None],
                ..Environment::default()
            };
            let mut trace = Trace {
                is_complete: true,
                executions: vec![Execution {
                    program: b"/none/program"[..].into(),
                    environment: Some(Rc::new(environment)),
                }],
                ..Trace::default()
            };
            for (library, name) in LIBRARIES.iter().enumerate() {
                for dir in value.split(|&b| b == b':').filter(|dir| !dir.is_empty()) {
                    let is_found = self.contains(dir, library);
                    let mut count = |path: &[u8], is_hit| {
                        let used = name_use(&mut trace, path);
                        (used.kind, used.opened_first) = (Kind::Linker, true);
                        used.count.add(is_hit);
                        used.opens += u64::from(is_hit);
                        trace.totals.misses += u64::from(!is_hit);
                    };
                    for level in ["glibc-hwcaps/x86-64-v3", "glibc-hwcaps/x86-64-v2"] {
                        count(&join(&join(dir, level.as_bytes()), name.as_bytes()), false);
                    }
                    count(&join(dir, name.as_bytes()), is_found);
                    if is_found {
                        break;
                    }
                    let exists = self.node_of(dir) == Node::Directory;
                    let used = name_use(&mut trace, dir);
                    used.kind = Kind::Linker;
                    used.count.add(exists);
                    used.stats += u64::from(exists);
                    trace.totals.misses += u64::from(!exists);
                }
            }
            trace
        }

        fn node_of(&self, path: &[u8]) -> Node {
            let (dir, name) = split(path);
            let library = LIBRARIES.iter().position(|known| known.as_bytes() == name);
            let number = || String::from_utf8_lossy(name).parse::<usize>().ok();
            let entry = number().and_then(|at| self.0.get(at));
            match library {
                Some(library) if self.contains(dir, library) => Node::File(10_000),
                None if dir == b"/" && entry.is_some_and(|(exists, _)| *exists) => Node::Directory,
                _ => Node::Missing,
            }
        }
    }

    impl FileTree for Libraries {
        fn node(&mut self, path: &[u8]) -> Node {
            self.node_of(path)
        }
        fn interpreter(&mut self, _: &[u8]) -> Option<Vec<u8>> {
            None
        }
        fn is_remote(&mut self, _: &[u8]) -> bool {
            true
        }
        fn time_miss(&mut self, _: &[u8]) -> Option<f64> {
            None
        }
    }

    /// Whether setting an installed locale is proposed for these lookups, each with its number of
    /// hits.
    fn proposes_locale(lookups: &[(&str, u64)]) -> bool {
        let names = lookups.iter().map(|(path, hits)| NameUse {
            path: path.as_bytes().into(),
            kind: Kind::Locale,
            count: Count {
                hits: *hits,
                misses: 1 - hits,
            },
            ..NameUse::default()
        });
        let trace = Trace {
            names: names.collect(),
            ..Trace::default()
        };
        let proposed = missed_names(&trace);
        let is_locale = |change: &Change| *change == Change::SetInstalledLocale;
        let mut proposed = proposed.iter();
        proposed.any(|(change, names)| is_locale(change) && !names.is_empty())
    }

    #[test]
    fn an_installed_locale_is_proposed_only_where_it_is_missing() {
        let archive = ("/usr/lib/locale/locale-archive", 0);
        let german = ("/usr/lib/locale/de_DE.UTF-8/LC_CTYPE", 0);
        assert!(proposes_locale(&[archive, german]));
        for installed in [
            &[archive, german, ("/usr/lib/locale/de_DE.utf8/LC_CTYPE", 1)][..],
            &[archive, ("/usr/lib/locale/C.UTF-8/LC_CTYPE", 0)],
            &[archive, ("/usr/share/locale/de/LC_MESSAGES/bash.mo", 0)],
            &[archive],
            &[],
        ] {
            assert!(!proposes_locale(installed), "{installed:?}");
        }
    }

    #[test]
    fn changes_that_avoid_compilations_precede_savings_below_ten_milliseconds() {
        let fix = |change, saves_requests, saves_seconds| Fix {
            change,
            saves_misses: saves_requests,
            saves_seconds_here: 0.0,
            saves_requests,
            saves_seconds,
        };
        let compile = Change::SetBytecodeDirectory {
            modules: 1,
            dir: b"/cache".to_vec(),
            is_read_only: false,
        };
        let mut fixes = [
            fix(Change::CacheRubyLibraries, 19, 0.0095),
            fix(compile, 1, 0.0005),
            fix(Change::BundleNodeProgram, 21, 0.0105),
            fix(Change::CacheCompilations, 40, 0.020),
        ];
        sort_fixes(&mut fixes);
        let requests = fixes.map(|fix| fix.saves_requests);
        assert_eq!(requests, [40, 21, 1, 19]);
    }

    #[test]
    fn a_worthwhile_gain_is_ten_milliseconds_and_five_percent() {
        let gains = [
            (0.010, 0.19),
            (0.009, 0.01),
            (0.1, 2.1),
            (1.0, 2.0),
            (0.0, 0.0),
            (2.0, 2.0),
            (2.1, 2.0),
        ];
        let worthwhile = gains.map(|(gain, total)| is_worthwhile(gain, total));
        assert_eq!(worthwhile, [true, false, false, true, false, true, false]);
    }
}
