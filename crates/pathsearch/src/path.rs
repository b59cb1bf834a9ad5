//! A better PATH: without missing and duplicate directories, and with movable directories in the
//! order with the fewest failed lookups. Every name keeps referring to the same program.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::ffi::OsStrExt;

use base::directory::each_entry;
use base::path::{join, or_dot};
use gate::fs::{FileType, Open, StatxMask};
use gate::long::{open_long, stat_long};
use gate::lookup::{Permission, check_permission};
use gate::{Errno, Result};
use mounts::check::{ANSWER_WITHIN, find_silent_paths};
use mounts::doubt::doubtful;
use mounts::table::read_mounts;
use ondisk::Dev;

use crate::lookup::{DEFAULT_PATH, normalize, split};
use crate::order::order_directories;
use crate::trace::{Program, ProgramUse};
use crate::tree::MountPoints;

/// The state of an element of PATH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ElementState {
    /// The element is an existing directory, and no duplicate.
    Ok,
    /// The element does not exist, or is not a directory.
    Missing,
    /// The same directory as the element at this index.
    Duplicate(usize),
    /// A relative path, or a directory that cannot be examined. Nothing is moved past it.
    Unknown,
}

/// Device and inode number, which identify a file.
pub(crate) type Identity = (Dev, u64);

/// Access to the directories of PATH; tests replace the real ones.
pub(crate) trait ProgramDirectories {
    /// The identity of the directory at an absolute path; `None` if there is no directory.
    fn directory(&mut self, dir: &[u8]) -> Result<Option<Identity>>;
    /// The names in a directory.
    fn names(&mut self, dir: &[u8]) -> Result<Vec<Vec<u8>>>;
    /// The identity of a file, if it is executable.
    fn program(&mut self, path: &[u8]) -> Option<Identity>;
}

/// A proposed value of PATH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathProposal {
    /// The proposed value.
    pub path: Vec<u8>,
    /// The elements of PATH that are removed.
    pub removed: Vec<Vec<u8>>,
    /// Whether the remaining elements are reordered.
    pub is_reordered: bool,
    /// The number of failed lookups that the same searches would avoid.
    pub saves: u64,
    /// Paths whose number of failed lookups would change, with the present and the new number, if
    /// each search tries each directory once.
    pub names: Vec<(Vec<u8>, u64, u64)>,
    /// The number of searches considered.
    pub searches: u64,
}

/// A value of PATH, parsed.
struct Elements<'a> {
    /// The elements as given.
    given: Vec<&'a [u8]>,
    /// The normalized absolute directories, as in recorded lookups.
    dirs: Vec<Vec<u8>>,
    states: Vec<ElementState>,
}

impl<'a> Elements<'a> {
    fn parse(path: &'a [u8], directories: &mut dyn ProgramDirectories) -> Elements<'a> {
        let given: Vec<&[u8]> = path.split(|&b| b == b':').collect();
        let dir = |given: &&[u8]| match given.starts_with(b"/") {
            true => normalize(given),
            false => given.to_vec(),
        };
        let dirs: Vec<Vec<u8>> = given.iter().map(dir).collect();
        let states = states(&dirs, directories);
        Elements {
            given,
            dirs,
            states,
        }
    }

    /// The index of an absolute directory.
    fn position(&self, dir: &[u8]) -> Option<usize> {
        let at = self.dirs.iter().position(|element| element == dir);
        at.filter(|_| dir.starts_with(b"/"))
    }

    /// The index of the first element with the same directory.
    fn resolve(&self, at: usize) -> usize {
        match self.states[at] {
            ElementState::Duplicate(first) => first,
            _ => at,
        }
    }

    fn is_kept(&self, at: &usize) -> bool {
        matches!(self.states[*at], ElementState::Ok | ElementState::Unknown)
    }

    /// The number of times that a program was found in each directory.
    fn weights(&self, searches: &[(Program, ProgramUse)]) -> Vec<u64> {
        let mut weights = vec![0; self.dirs.len()];
        for (program, used) in searches {
            let dir = program.found.as_deref().map(|found| split(found).0);
            if let Some(at) = dir.and_then(|dir| self.position(dir)) {
                weights[self.resolve(at)] += used.times;
            }
        }
        weights
    }
}

/// A better value than `path` for these searches; `None` if there is none. Only directories for
/// which `is_movable` holds are reordered.
pub(crate) fn propose_path(
    path: &[u8],
    searches: &[(Program, ProgramUse)],
    directories: &mut dyn ProgramDirectories,
    is_movable: &mut dyn FnMut(&[u8]) -> bool,
) -> Option<PathProposal> {
    let old = Elements::parse(path, directories);
    let movable: Vec<bool> = old.dirs.iter().map(|dir| is_movable(dir)).collect();
    let mut order = match movable.contains(&true) {
        true => {
            let after = constraints(&old, &movable, directories);
            order_directories(&old.weights(searches), &after)
        }
        false => (0..old.dirs.len()).collect(),
    };
    order.retain(|at| old.is_kept(at));
    let (kept, removed): (Vec<usize>, Vec<usize>) =
        (0..old.dirs.len()).partition(|at| old.is_kept(at));
    let given =
        |indices: &[usize]| -> Vec<&[u8]> { indices.iter().map(|at| old.given[*at]).collect() };
    let proposal = PathProposal {
        path: given(&order).join(&b':'),
        removed: given(&removed).into_iter().map(<[u8]>::to_vec).collect(),
        is_reordered: order != kept,
        saves: 0,
        names: Vec::new(),
        searches: 0,
    };
    let proposal = add_savings(proposal, &old, &order, searches);
    // An empty PATH is not better: shells treat it differently, and most search the working
    // directory.
    let is_valid = !proposal.path.is_empty() && proposal.path != path;
    let helps = proposal.saves > 0 || !proposal.removed.is_empty();
    (is_valid && helps).then_some(proposal)
}

/// Adds the savings that the searches would have with the elements of `old` in this order.
fn add_savings(
    mut proposal: PathProposal,
    old: &Elements<'_>,
    order: &[usize],
    searches: &[(Program, ProgramUse)],
) -> PathProposal {
    let old_dirs: Vec<&[u8]> = old.dirs.iter().map(Vec::as_slice).collect();
    let new_dirs: Vec<&[u8]> = order.iter().map(|at| old_dirs[*at]).collect();
    let mut saves = 0;
    let mut names: BTreeMap<Vec<u8>, (u64, u64)> = BTreeMap::new();
    for (program, used) in searches {
        let (mut old_dir, mut new_dir) = (None, None);
        if let Some(found) = program.found.as_deref() {
            // A program outside of `old` was found along a PATH that the command has set itself.
            let Some(at) = old.position(split(found).0) else {
                continue;
            };
            (old_dir, new_dir) = (Some(old_dirs[at]), Some(old_dirs[old.resolve(at)]));
        }
        let (before, after) = (tried(&old_dirs, old_dir), tried(&new_dirs, new_dir));
        proposal.searches += used.times;
        // A program in the first directory may have been executed by its full path. Assume that it
        // was searched for.
        saves += match before.len() as i128 {
            0 => -(after.len() as i128 * i128::from(used.times)),
            tries => (tries - after.len() as i128) * i128::from(used.misses) / tries,
        };
        // A program behind other directories, but without failed lookups, was executed by its full
        // path.
        if used.misses == 0 && !before.is_empty() {
            continue;
        }
        for path in paths(before, &program.name) {
            names.entry(path).or_default().0 += used.times;
        }
        for path in paths(after, &program.name) {
            names.entry(path).or_default().1 += used.times;
        }
    }
    proposal.saves = u64::try_from(saves).unwrap_or(0);
    let names = names.into_iter();
    let changed = names.filter(|(_, (now, then))| now != then);
    proposal.names = changed
        .map(|(path, (now, then))| (path, now, then))
        .collect();
    proposal
}

/// The directories that a search tries before the directory of the program; all directories if the
/// program was not found.
fn tried<'a>(dirs: &'a [&'a [u8]], found: Option<&[u8]>) -> &'a [&'a [u8]] {
    let end = dirs.iter().position(|dir| Some(*dir) == found);
    &dirs[..end.unwrap_or(dirs.len())]
}

/// The paths that a search for `name` looks up in these directories.
fn paths<'a>(dirs: &'a [&'a [u8]], name: &'a [u8]) -> impl Iterator<Item = Vec<u8>> + 'a {
    dirs.iter()
        .filter(|dir| dir.starts_with(b"/"))
        .map(move |dir| join(dir, name))
}

/// The elements of a value of PATH, with their states.
pub(crate) fn elements(
    path: &[u8],
    directories: &mut dyn ProgramDirectories,
) -> Vec<(Vec<u8>, ElementState)> {
    let Elements { given, states, .. } = Elements::parse(path, directories);
    given.into_iter().map(<[u8]>::to_vec).zip(states).collect()
}

fn states(dirs: &[Vec<u8>], directories: &mut dyn ProgramDirectories) -> Vec<ElementState> {
    let mut seen: HashMap<Identity, usize> = HashMap::new();
    let state = |(at, dir): (usize, &Vec<u8>)| {
        // The same path twice is a duplicate, even if it cannot be examined.
        let unknown = || match dirs[..at].iter().position(|before| before == dir) {
            Some(first) => ElementState::Duplicate(first),
            None => ElementState::Unknown,
        };
        if !dir.starts_with(b"/") {
            return unknown();
        }
        match directories.directory(dir) {
            Err(_) => unknown(),
            Ok(None) => ElementState::Missing,
            Ok(Some(identity)) => match *seen.entry(identity).or_insert(at) {
                first if first == at => ElementState::Ok,
                first => ElementState::Duplicate(first),
            },
        }
    };
    dirs.iter().enumerate().map(state).collect()
}

/// For each element, the elements that must stay before it. Two elements keep their order if
/// neither is movable, if one of them is unknown, or if they contain different programs with the
/// same name. The standard directories keep their order, too, because an administrator may override
/// a program of /usr/bin in /usr/local/bin at any time.
fn constraints(
    elements: &Elements<'_>,
    movable: &[bool],
    directories: &mut dyn ProgramDirectories,
) -> Vec<Vec<usize>> {
    /// The maximum number of names to compare; further directories keep their position.
    const MOST: usize = 500_000;
    let Elements { dirs, states, .. } = elements;
    let in_state = |wanted: ElementState| {
        let all = states.iter().enumerate();
        all.filter(move |(_, state)| **state == wanted)
            .map(|(at, _)| at)
    };
    let mut fixed: BTreeSet<usize> = in_state(ElementState::Unknown).collect();
    let mut holders: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
    let mut room = MOST;
    for at in in_state(ElementState::Ok) {
        match directories.names(&dirs[at]) {
            Ok(names) if names.len() <= room => {
                room -= names.len();
                for name in names {
                    holders.entry(name).or_default().push(at);
                }
            }
            _ => drop(fixed.insert(at)),
        }
    }
    let mut pairs: BTreeSet<(usize, usize)> = BTreeSet::new();
    let is_standard = |at: usize| {
        DEFAULT_PATH
            .split(|&b| b == b':')
            .any(|dir| dir == dirs[at])
    };
    for at in 0..states.len() {
        let others = (0..at).filter(|&other| {
            fixed.contains(&other)
                || fixed.contains(&at)
                || !movable[other] && !movable[at]
                || is_standard(other) && is_standard(at)
        });
        pairs.extend(others.map(|other| (other, at)));
    }
    for (name, holders) in holders {
        for (n, &second) in holders.iter().enumerate() {
            for &first in holders.iter().take(n).filter(|first| **first != second) {
                if pairs.contains(&(first, second)) {
                    continue;
                }
                let mut program = |at: usize| directories.program(&join(&dirs[at], &name));
                if let (Some(a), Some(b)) = (program(first), program(second))
                    && a != b
                {
                    pairs.insert((first, second));
                }
            }
        }
    }
    let mut after = vec![Vec::new(); states.len()];
    for (first, second) in pairs {
        after[second].push(first);
    }
    after
}

/// Whether this user may execute a file that was found along PATH. A file that cannot be examined
/// is assumed to be executable.
pub(crate) fn is_executable(path: &[u8]) -> bool {
    stat_long(path, StatxMask::TYPE).map_or(true, |seen| {
        seen.file_type == FileType::Regular && check_permission(path, Permission::Execute).is_ok()
    })
}

/// The directories of this machine.
pub(crate) struct LocalDirectories;

impl ProgramDirectories for LocalDirectories {
    fn directory(&mut self, dir: &[u8]) -> Result<Option<Identity>> {
        match stat_long(dir, StatxMask::TYPE | StatxMask::INO) {
            Ok(seen) if seen.file_type == FileType::Directory => Ok(Some((seen.dev, seen.ino))),
            Ok(_) | Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn names(&mut self, dir: &[u8]) -> Result<Vec<Vec<u8>>> {
        let fd = open_long(dir, Open::DIRECTORY)?;
        let mut names = Vec::new();
        each_entry(fd, |entry| names.push(entry.name.to_bytes().to_vec()))?;
        Ok(names)
    }

    fn program(&mut self, path: &[u8]) -> Option<Identity> {
        const EXECUTABLE: u32 = 0o111;
        let seen = stat_long(path, StatxMask::TYPE | StatxMask::MODE | StatxMask::INO).ok()?;
        let runs = seen.file_type == FileType::Regular && seen.mode & EXECUTABLE != 0;
        runs.then_some((seen.dev, seen.ino))
    }
}

/// An element of PATH.
#[derive(Clone, Debug)]
pub struct PathElement {
    /// The directory, as given.
    pub dir: Vec<u8>,
    /// The state of the element.
    pub state: ElementState,
    /// The type of the directory's file system.
    pub fstype: Option<Vec<u8>>,
    /// Whether the directory is on a network file system.
    pub network: bool,
}

/// Whether a directory of a value of PATH is on a mount that does not answer. A child process looks
/// first, so the caller must have no threads.
pub fn is_silent(path: &[u8]) -> bool {
    silent_elements(path).contains(&true)
}

fn silent_elements(path: &[u8]) -> Vec<bool> {
    let table = read_mounts();
    let dirs = path.split(|&byte| byte == b':');
    find_silent_paths(dirs, &table, &doubtful(&table), ANSWER_WITHIN).unwrap_or_default()
}

/// Whether a directory of PATH that answers has this program. A child process looks first, so the
/// caller must have no threads.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH");
    let path = path.as_ref().map_or(DEFAULT_PATH, |path| path.as_bytes());
    let silent = silent_elements(path)
        .into_iter()
        .chain(std::iter::repeat(false));
    let dirs = path.split(|&byte| byte == b':').zip(silent);
    let mut dirs = dirs.filter(|(_, is_silent)| !is_silent);
    dirs.any(|(dir, _)| {
        let file = join(or_dot(dir), program.as_bytes());
        LocalDirectories.program(&file).is_some()
    })
}

/// The elements of a value of PATH.
pub fn path_elements(path: &[u8]) -> Vec<PathElement> {
    elements_on(path, &MountPoints::read())
}

/// Like [`path_elements`], with the mount table as it was read before.
pub(crate) fn elements_on(path: &[u8], mounts: &MountPoints) -> Vec<PathElement> {
    let element = |(dir, state): (Vec<u8>, ElementState)| {
        let mount = mounts.find(&dir).filter(|_| dir.starts_with(b"/"));
        PathElement {
            state,
            fstype: mount.map(|mount| mount.fstype.clone()),
            network: mount.is_some_and(|mount| mount.network),
            dir,
        }
    };
    elements(path, &mut LocalDirectories)
        .into_iter()
        .map(element)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Number = u64;
    type Listed = Vec<(&'static str, Number)>;
    /// Simulated directories, each with its inode and its programs.
    struct Directories(Vec<(&'static str, Number, Listed)>);

    impl ProgramDirectories for Directories {
        fn directory(&mut self, dir: &[u8]) -> Result<Option<Identity>> {
            if dir == b"/closed" {
                return Err(Errno::EACCES);
            }
            Ok(self
                .0
                .iter()
                .find(|(name, ..)| name.as_bytes() == dir)
                .map(|(_, ino, _)| (Dev::new(0, 1), *ino)))
        }
        fn names(&mut self, dir: &[u8]) -> Result<Vec<Vec<u8>>> {
            let here = self
                .0
                .iter()
                .find(|(name, ..)| name.as_bytes() == dir)
                .unwrap();
            Ok(here
                .2
                .iter()
                .map(|(name, _)| name.as_bytes().to_vec())
                .collect())
        }
        fn program(&mut self, path: &[u8]) -> Option<Identity> {
            let (dir, name) = split(path);
            let here = self.0.iter().find(|(name, ..)| name.as_bytes() == dir)?;
            here.2
                .iter()
                .find(|(n, _)| n.as_bytes() == name)
                .map(|(_, ino)| (Dev::new(0, 1), *ino))
        }
    }

    fn directories() -> Directories {
        Directories(vec![
            ("/a", 1, vec![]),
            ("/b", 2, vec![("x", 10), ("own", 11)]),
            ("/c", 3, vec![("x", 12), ("y", 13)]),
            ("/bin", 4, vec![("ls", 14), ("z", 15)]),
            ("/usr/bin", 4, vec![("ls", 14), ("z", 15)]),
        ])
    }

    /// A better PATH, where every directory may be moved.
    fn propose(path: &[u8], searches: &[(Program, ProgramUse)]) -> Option<PathProposal> {
        propose_path(path, searches, &mut directories(), &mut |_| true)
    }

    fn used(name: &str, found: Option<&str>, times: u64, misses: u64) -> (Program, ProgramUse) {
        (
            Program {
                name: name.as_bytes().to_vec(),
                found: found.map(|found| found.as_bytes().to_vec()),
            },
            ProgramUse { times, misses },
        )
    }

    #[test]
    fn missing_and_duplicate_directories_are_removed_and_the_used_ones_come_first() {
        let searches = [
            used("ls", Some("/usr/bin/ls"), 2, 8),
            used("none", None, 1, 6),
        ];
        let proposal = propose(b"/dead:/a:/b:/c:/usr/bin/:/bin", &searches).unwrap();
        assert_eq!(proposal.path, b"/usr/bin/:/a:/b:/c");
        assert_eq!(proposal.removed, [b"/dead".to_vec(), b"/bin".to_vec()]);
        assert_eq!(
            (proposal.saves, proposal.searches, proposal.is_reordered),
            (8 + 2, 3, true)
        );
        let names = proposal.names.iter();
        let avoided = names.filter(|(_, _, then)| *then == 0);
        let avoided: Vec<&[u8]> = avoided.map(|(path, ..)| &path[..]).collect();
        assert!(avoided.contains(&&b"/a/ls"[..]) && !avoided.contains(&&b"/a/none"[..]));
    }

    #[test]
    fn directories_that_may_not_move_keep_their_order() {
        let searches = [used("ls", Some("/bin/ls"), 5, 15)];
        let keep = |path: &[u8], movable: &'static [u8]| {
            propose_path(path, &searches, &mut directories(), &mut |dir| {
                dir == movable
            })
        };
        let kept = keep(b"/dead:/a:/c:/bin", b"").unwrap();
        assert_eq!(
            (&kept.path[..], kept.is_reordered),
            (&b"/a:/c:/bin"[..], false)
        );
        assert_eq!(keep(b"/a:/c:/bin", b""), None);
        // Only /a moves: /c stays before /bin.
        let moved = keep(b"/a:/c:/bin", b"/a").unwrap();
        assert_eq!(
            (&moved.path[..], moved.is_reordered),
            (&b"/c:/bin:/a"[..], true)
        );
    }

    #[test]
    fn standard_directories_keep_their_order() {
        let mut directories = Directories(vec![
            ("/usr/local/bin", 1, vec![]),
            ("/usr/bin", 2, vec![("ls", 3)]),
            ("/net", 4, vec![]),
        ]);
        let searches = [used("ls", Some("/usr/bin/ls"), 5, 10)];
        let path = b"/net:/usr/local/bin:/usr/bin";
        let proposal = propose_path(path, &searches, &mut directories, &mut |_| true).unwrap();
        assert_eq!(proposal.path, b"/usr/local/bin:/usr/bin:/net");
    }

    #[test]
    fn each_duplicate_is_a_miss() {
        // Five failed lookups per search, of which two remain: `/a` once, and the working
        // directory.
        let searches = [used("none", None, 3, 15)];
        let proposal = propose(b"/a:/dead:.:/a:/a", &searches).unwrap();
        assert_eq!((proposal.path, proposal.saves), (b"/a:.".to_vec(), 9));
    }

    #[test]
    fn an_unknown_element_is_kept_once() {
        let searches = [used("ls", Some("/bin/ls"), 1, 5)];
        let proposal = propose(b"/closed:.:/closed/:/closed:.:/bin", &searches).unwrap();
        assert_eq!(
            (proposal.path, proposal.saves, proposal.is_reordered),
            (b"/closed:.:/bin".to_vec(), 3, false)
        );
    }

    #[test]
    fn programs_of_the_first_directory_cost_more_in_another_order() {
        let searches = [
            used("own", Some("/b/own"), 2, 0),
            used("ls", Some("/bin/ls"), 5, 5),
        ];
        let proposal = propose(b"/b:/bin", &searches).unwrap();
        assert_eq!(
            (proposal.path, proposal.saves),
            (b"/bin:/b".to_vec(), 5 - 2)
        );
    }

    #[test]
    fn doubled_slashes_and_dots_are_the_same_directory() {
        let found = [used("y", Some("/c/y"), 5, 10)];
        let proposal = propose(b"//a/:/b/.:/./c", &found).unwrap();
        assert_eq!(
            (proposal.path, proposal.saves),
            (b"/b/.:/./c://a/".to_vec(), 5)
        );
    }

    #[test]
    fn a_name_keeps_its_program() {
        // /c has most hits, but its x must stay behind the x of /b.
        let proposal = propose(b"/a:/b:/c", &[used("y", Some("/c/y"), 5, 10)]).unwrap();
        assert_eq!((proposal.path, proposal.saves), (b"/b:/c:/a".to_vec(), 5));
    }

    #[test]
    fn nothing_is_moved_past_an_unknown_element() {
        let searches = [used("ls", Some("/bin/ls"), 1, 2)];
        assert_eq!(propose(b"/a::/bin", &searches), None);
        let after = propose(b"/dead:/c:.:/a:/bin", &searches).unwrap();
        assert_eq!(after.path, b"/c:.:/bin:/a");
    }

    #[test]
    fn the_best_path_is_kept() {
        assert_eq!(
            propose(b"/bin:/a", &[used("ls", Some("/bin/ls"), 1, 0)]),
            None
        );
        assert_eq!(propose(b"", &[]), None);
        // If no directory is left, or only the working directory, no other value is equivalent.
        assert_eq!(propose(b"/dead", &[used("x", None, 1, 1)]), None);
        assert_eq!(propose(b"/dead:", &[used("x", None, 1, 1)]), None);
        assert_eq!(
            propose(b"/c:/bin", &[used("q", Some("/elsewhere/q"), 1, 9)]),
            None
        );
    }
}
