//! Changes that would make the searches of a command cheaper, and what each saves.

use mounts::path::below;

use crate::kind::Kind;
use crate::lookup::{absolute_dirs, components, normalize, split};
use crate::model::{StartRequests, count_lookups};
use crate::path::PathProposal;
use crate::request::{ClientBehavior, Prices, Request};
use crate::trace::{NameUse, Trace};
use crate::tree::{FileTree, Node};

/// A change, and what it saves.
#[derive(Clone, Debug, PartialEq)]
pub struct Fix {
    /// What to change.
    pub change: Change,
    /// Misses that the same start would not have.
    pub saves_misses: u64,
    /// Seconds that those took here.
    pub saves_seconds_here: f64,
    /// Requests that the same start would not make on the network file system, with cold caches.
    pub saves_requests: u64,
    /// Seconds that those take there.
    pub saves_seconds: f64,
}

/// What to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Set PATH to a better value.
    SetPath(PathProposal),
    /// Add the directories of LD_LIBRARY_PATH to ld.so.cache, and unset it.
    UnsetLibraryPath,
    /// Give programs a shorter RUNPATH, or none.
    ShortenRunpath {
        /// Programs that search for libraries.
        programs: Vec<Vec<u8>>,
    },
    /// Run Python without PYTHONPATH, user packages and site-packages.
    IsolatePython,
    /// Pack Python modules into one file.
    PackPythonModules,
    /// Shorten Perl's @INC, or pack the program.
    ShortenPerlPath,
    /// Cache where Ruby libraries are.
    CacheRubyLibraries,
    /// Bundle a Node program into one file.
    BundleNodeProgram,
    /// Reorder the search paths of a compiler, or cache its results.
    ReorderCompilerPaths,
    /// Set LC_ALL to the name of an installed locale.
    SetInstalledLocale,
    /// Set TERM to a terminal that has a description, or TERMINFO to its directory.
    SetInstalledTerminal,
    /// Copy all files to a local disk.
    CopyToLocalDisk {
        /// Files.
        files: u64,
        /// Their size.
        bytes: u64,
    },
}

impl Change {
    /// The kind of search that it makes cheaper.
    pub fn kind(&self) -> Kind {
        match self {
            Change::SetPath(_) => Kind::Path,
            Change::UnsetLibraryPath | Change::ShortenRunpath { .. } => Kind::Linker,
            Change::IsolatePython | Change::PackPythonModules => Kind::Python,
            Change::ShortenPerlPath => Kind::Perl,
            Change::CacheRubyLibraries => Kind::Ruby,
            Change::BundleNodeProgram => Kind::Node,
            Change::ReorderCompilerPaths => Kind::Gcc,
            Change::SetInstalledLocale => Kind::Locale,
            Change::SetInstalledTerminal => Kind::Terminfo,
            Change::CopyToLocalDisk { .. } => Kind::Other,
        }
    }
}

/// The search paths in the environment of the command.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// PATH.
    pub path: Option<Vec<u8>>,
    /// LD_LIBRARY_PATH.
    pub library_path: Option<Vec<u8>>,
    /// PYTHONPATH.
    pub python_path: Option<Vec<u8>>,
}

/// The modelled network file system.
pub(crate) struct Remote<'a> {
    pub(crate) tree: &'a mut dyn FileTree,
    pub(crate) behavior: &'a ClientBehavior,
    pub(crate) prices: &'a Prices,
}

impl Remote<'_> {
    /// LOOKUP requests for misses of these names, each with its number of misses.
    fn lookups(&mut self, names: &[Vec<u8>], misses: impl Fn(usize) -> u64) -> u64 {
        let once = count_lookups(names, self.tree, self.behavior);
        if self.behavior.keeps_misses {
            return once;
        }
        // Without negative caching each miss is a request.
        let remote = (0..names.len()).filter(|at| self.tree.is_remote(split(&names[*at]).0));
        once.max(remote.map(misses).sum())
    }

    /// A change that saves misses here, and LOOKUP requests there.
    fn fix(&self, trace: &Trace, change: Change, misses: u64, requests: u64) -> Fix {
        Fix {
            saves_misses: misses,
            saves_seconds_here: seconds_per_miss(trace, change.kind()) * misses as f64,
            saves_requests: requests,
            saves_seconds: requests as f64 * self.prices.get(Request::Lookup),
            change,
        }
    }
}

/// All changes that would help, those that save the most requests first. `start` are the requests
/// of the whole start.
pub(crate) fn propose_fixes(
    trace: &Trace,
    environment: &Environment,
    path: Option<&PathProposal>,
    start: &StartRequests,
    remote: &mut Remote<'_>,
) -> Vec<Fix> {
    let mut fixes = Vec::new();
    fixes.extend(path.and_then(|path| fix_path(trace, path, remote)));
    for (change, names) in missed_names(trace, environment) {
        fixes.extend(fix_misses(trace, change, &names, remote));
    }
    if start.cold.waited() > 0 {
        fixes.push(Fix {
            change: Change::CopyToLocalDisk {
                files: start.files,
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

/// The names that missed and that each change would save, by kind of search.
fn missed_names<'a>(
    trace: &'a Trace,
    environment: &Environment,
) -> Vec<(Change, Vec<&'a NameUse>)> {
    let dirs = |list: &Option<Vec<u8>>| -> Vec<Vec<u8>> {
        absolute_dirs(list.as_deref().unwrap_or_default()).collect()
    };
    let libraries = dirs(&environment.library_path);
    let modules = dirs(&environment.python_path);
    let is_by_variable = |used: &NameUse| is_below(&libraries, used);
    let is_linker = |used: &NameUse| used.kind == Kind::Linker && split(&used.path).0 != b"/etc";
    let is_python = |used: &NameUse| used.kind == Kind::Python;
    let is_extra = |used: &NameUse| {
        let (_, name) = split(&used.path);
        name.starts_with(b"sitecustomize")
            || name.starts_with(b"usercustomize")
            || is_below(&modules, used)
            || components(&used.path).any(|part| part == b".local")
    };
    let missed = |applies: &dyn Fn(&NameUse) -> bool| -> Vec<&'a NameUse> {
        let missed = trace.names.iter().filter(|used| used.count.misses > 0);
        missed.filter(|used| applies(used)).collect()
    };
    let programs = programs_with_misses(trace, Kind::Linker);
    let by_variable = missed(&|used| is_linker(used) && is_by_variable(used));
    let by_runpath = missed(&|used| is_linker(used) && !is_by_variable(used));
    let extra = missed(&|used| is_python(used) && is_extra(used));
    let installed = missed(&|used| is_python(used) && !is_extra(used));
    let mut all = vec![
        (Change::UnsetLibraryPath, by_variable),
        (Change::ShortenRunpath { programs }, by_runpath),
        (Change::IsolatePython, extra),
        (Change::PackPythonModules, installed),
    ];
    for change in [
        Change::ShortenPerlPath,
        Change::CacheRubyLibraries,
        Change::BundleNodeProgram,
        Change::ReorderCompilerPaths,
        Change::SetInstalledLocale,
        Change::SetInstalledTerminal,
    ] {
        let kind = change.kind();
        all.push((change, missed(&|used| used.kind == kind)));
    }
    all
}

fn fix_path(trace: &Trace, path: &PathProposal, remote: &mut Remote<'_>) -> Option<Fix> {
    if path.saves == 0 {
        return None;
    }
    // Each name of a program misses as many times as the others.
    let names = path.names.iter();
    let remote_names = names.filter(|name| remote.tree.is_remote(split(name).0));
    let remote_names = remote_names.count() as u64;
    let mut requests = count_lookups(&path.names, remote.tree, remote.behavior);
    // One look-up finds that a directory is missing, whatever is searched for in it.
    for dir in path.removed.iter().map(|dir| normalize(dir)) {
        let is_missing = remote.tree.node(&dir) == Node::Missing;
        requests += u64::from(is_missing && remote.tree.is_remote(&dir));
    }
    if !remote.behavior.keeps_misses {
        // Without negative caching each miss is a request.
        requests = requests.max(path.saves * remote_names / path.names.len().max(1) as u64);
    }
    let change = Change::SetPath(path.clone());
    Some(remote.fix(trace, change, path.saves, requests))
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
    Some(remote.fix(trace, change, misses, requests))
}

/// The mean time of a miss of this kind, over the names that have no hits.
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

fn is_below(dirs: &[Vec<u8>], used: &NameUse) -> bool {
    dirs.iter().any(|dir| below(dir, &used.path).is_some())
}

/// The names of programs that have searches of a kind with misses.
fn programs_with_misses(trace: &Trace, kind: Kind) -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    for search in &trace.searches {
        let name = split(&search.program).1;
        // Every program looks ld.so.preload up, and hardly any finds it.
        let is_counted = search.kind == kind && search.name != b"ld.so.preload";
        if is_counted && search.misses() > 0 && !names.iter().any(|known| known == name) {
            names.push(name.to_vec());
        }
    }
    names
}
