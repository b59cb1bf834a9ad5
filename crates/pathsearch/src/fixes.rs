//! Changes that would make the searches of a command cheaper, and their savings.

use base::path::{join, parent};
use meter::call::Command;

use crate::bytecode::keep_bytecode;
use crate::change::Change;
use crate::kind::Kind;
use crate::lookup::{normalize, split};
use crate::model::{StartRequests, count_lookups};
use crate::path::{LocalDirectories, PathProposal, ProgramDirectories, propose_path};
use crate::request::{ClientBehavior, Prices, Request, Requests};
use crate::shorten::{UsedDirectories, shorten_runpaths, shorten_variables};
use crate::trace::{NameUse, Shim, Trace};
use crate::tree::{FileTree, Node};

/// A change, and its savings.
#[derive(Clone, Debug, PartialEq)]
pub struct Fix {
    /// The change of the environment or of files.
    pub change: Change,
    /// The number of failed lookups that the change avoids.
    pub saves_misses: u64,
    /// Seconds of these failed lookups on this machine, without a meter.
    pub saves_seconds_here: f64,
    /// Avoided requests to the network file system, with cold caches.
    pub saves_requests: u64,
    /// Seconds of the avoided requests.
    pub saves_seconds: f64,
}

/// Whether a saving is worth a change: at least 10 ms, and from 5 % to 100 % of the measured or
/// predicted total. Both in seconds.
pub fn is_worthwhile(saving: f64, total: f64) -> bool {
    const LEAST: f64 = 0.010;
    const SHARE: f64 = 0.05;
    /// Tolerance, as both may be sums of the same values in different order.
    const ROUNDING: f64 = 1e-9;
    saving >= LEAST && saving >= SHARE * total && saving <= total * (1.0 + ROUNDING)
}

/// The modelled network file system.
pub(crate) struct Remote<'a> {
    pub(crate) tree: &'a mut dyn FileTree,
    pub(crate) behavior: &'a ClientBehavior,
    pub(crate) prices: &'a Prices,
    /// The requests of the start, with cold caches.
    pub(crate) start: &'a Requests,
    /// The duration of the start in seconds.
    pub(crate) seconds: f64,
}

impl Remote<'_> {
    /// LOOKUP requests for failed lookups of these names, whose numbers `misses` returns.
    fn lookups(&mut self, names: &[Vec<u8>], misses: impl Fn(usize) -> u64) -> u64 {
        let once = count_lookups(names, self.tree, self.behavior);
        if self.behavior.keeps_misses {
            return once;
        }
        // Without negative caching each failed lookup is a request.
        let remote = (0..names.len()).filter(|at| self.tree.is_remote(split(&names[*at]).0));
        once.max(remote.map(misses).sum())
    }

    /// The mean time of a failed lookup of these names on this machine. A meter slows a call down
    /// by more than the lookup takes, so they are looked up again without one.
    fn seconds_per_miss(&mut self, trace: &Trace, change: &Change, names: &[Vec<u8>]) -> f64 {
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

    /// A change that saves failed lookups here, and LOOKUP requests on the network file system; at
    /// most as many as the start has.
    fn fix(
        &mut self,
        trace: &Trace,
        change: Change,
        misses: u64,
        requests: u64,
        names: &[Vec<u8>],
    ) -> Fix {
        let misses = misses.min(trace.totals.misses);
        let requests = requests.min(self.start.get(Request::Lookup));
        let seconds_here = self.seconds_per_miss(trace, &change, names) * misses as f64;
        Fix {
            saves_misses: misses,
            saves_seconds_here: seconds_here.min(trace.totals.nanos as f64 / 1e9),
            saves_requests: requests,
            saves_seconds: requests as f64 * self.prices.get(Request::Lookup),
            change,
        }
    }
}

/// A PATH without missing and duplicate directories, otherwise in the present order. Directories on
/// a network file system are reordered only if that alone is worthwhile.
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
        let fix = path.as_ref().and_then(|path| fix_path(trace, path, remote));
        fix.map_or(0.0, |fix| fix.saves_seconds)
    };
    let gain = seconds(&moved) - seconds(&kept);
    match is_worthwhile(gain, remote.seconds) {
        true => moved,
        false => kept,
    }
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
    let mut changes = missed_names(trace);
    if trace.is_complete {
        changes.extend(shorten_variables(trace, &used));
        changes.extend(shorten_runpaths(trace, &used, directories));
    }
    changes.extend(keep_bytecode(trace, remote.tree));
    for (change, names) in changes {
        fixes.extend(fix_misses(trace, change, &names, remote));
    }
    let shims = trace.shims.iter().filter(|shim| shim.processes > 0);
    fixes.extend(shims.map(|shim| {
        let change = Change::AvoidShim {
            shim: shim.clone(),
            manager: manager(shim),
        };
        remote.fix(trace, change, shim.misses, 0, &[])
    }));
    if start.cold.waited() > 0 {
        fixes.push(Fix {
            change: Change::CopyToLocalDisk {
                files: start.files.len() as u64,
                links: start.links.len() as u64,
                bytes: start.bytes,
            },
            saves_misses: 0,
            saves_seconds_here: 0.0,
            saves_requests: start.cold.waited(),
            saves_seconds: remote.prices.seconds(&start.cold),
        });
    }
    fixes.sort_by_key(|fix| std::cmp::Reverse((fix.saves_requests, fix.saves_misses)));
    fixes
}

/// The failed lookups that each change would save, by kind of search.
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

/// The executable of the version manager of a shim script. `manager which NAME` prints the program
/// of a name.
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
    let found = Command::find(&[name.into()]);
    found.is_ok().then(|| name.into())
}

/// Whether a name is a locale's file, as setlocale(3) opens it:
/// `/usr/lib/locale/de_DE.utf8/LC_CTYPE`. If one is found, the locale is installed, and failed
/// lookups of other spellings or of message catalogs remain whatever LC_ALL is.
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
    // Each name of a program has the same number of failed lookups.
    let names = path.names.iter();
    let remote_names = names.filter(|name| remote.tree.is_remote(split(name).0));
    let remote_names = remote_names.count() as u64;
    let mut requests = count_lookups(&path.names, remote.tree, remote.behavior);
    // One lookup finds that a directory is missing, for all names in it.
    for dir in path.removed.iter().map(|dir| normalize(dir)) {
        let is_missing = remote.tree.node(&dir) == Node::Missing;
        requests += u64::from(is_missing && remote.tree.is_remote(&dir));
    }
    if !remote.behavior.keeps_misses {
        // Without negative caching each failed lookup is a request.
        requests = requests.max(path.saves * remote_names / path.names.len().max(1) as u64);
    }
    let change = Change::SetPath(path.clone());
    Some(remote.fix(trace, change, path.saves, requests, &path.names))
}

fn fix_misses(
    trace: &Trace,
    change: Change,
    names: &[&NameUse],
    remote: &mut Remote<'_>,
) -> Option<Fix> {
    let misses = names.iter().map(|used| used.count.misses).sum();
    if misses == 0 {
        return None;
    }
    let paths: Vec<Vec<u8>> = names.iter().map(|used| used.path.to_vec()).collect();
    let requests = remote.lookups(&paths, |at| names[at].count.misses);
    Some(remote.fix(trace, change, misses, requests, &paths))
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
    use gate::{Errno, Result};
    use proptest::prelude::*;

    use base::path::below;
    use ondisk::Dev;

    use super::*;
    use crate::kind::Count;
    use crate::model::predict_requests;
    use crate::path::Identity;
    use crate::trace::{Program, ProgramUse, Totals};

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

        /// A meter's trace of these searches, each with its name and number.
        fn trace(&self, path: &[u8], searches: &[(usize, u64, u64)]) -> Trace {
            let mut trace = Trace::default();
            for &(name, times, nanos) in searches {
                let name = NAMES[name];
                let found = self.resolve(path, name).map(|(dir, _)| dir);
                let dirs = path.split(|&b| b == b':');
                let passed: Vec<&[u8]> = dirs.take_while(|dir| Some(*dir) != found).collect();
                let absolute = passed.iter().filter(|dir| dir.starts_with(b"/"));
                let lookup = |dir: &[u8], hits, misses| NameUse {
                    path: [dir, b"/", name.as_bytes()].concat().into(),
                    kind: Kind::Path,
                    count: Count { hits, misses },
                    nanos: nanos * (hits + misses),
                    follow: true,
                    ..NameUse::default()
                };
                trace
                    .names
                    .extend(absolute.map(|dir| lookup(dir, 0, times)));
                trace.names.extend(found.map(|dir| lookup(dir, times, 0)));
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
        fn a_proposed_path_changes_no_program_and_no_fix_saves_more_than_the_start_has(
            machine in machine(),
            dirs in prop::collection::vec(0..DIRS.len(), 1..9),
            searches in prop::collection::vec((0..NAMES.len(), 1..2000_u64, 0..5000_u64), 1..5),
            rtt in 0.0..0.01_f64,
            keeps_misses in any::<bool>(),
            has_network in any::<bool>(),
        ) {
            let given: Vec<&str> = dirs.iter().map(|at| DIRS[*at]).collect();
            let path = given.join(":");
            let trace = machine.trace(path.as_bytes(), &searches);
            let behavior = ClientBehavior { keeps_misses, ..ClientBehavior::default() };
            let start = predict_requests(&trace.names, &mut machine.clone(), &behavior, |_| 0.0);
            let prices = Prices::uniform(rtt);
            let seconds = prices.seconds(&start.cold);
            let mut remote = Remote {
                tree: &mut machine.clone(),
                behavior: &behavior,
                prices: &prices,
                start: &start.cold,
                seconds,
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
            }
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
