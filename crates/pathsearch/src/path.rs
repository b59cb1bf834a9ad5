//! A better PATH: without directories that are not there and such that stand in it twice, and in
//! the order in which the programs that were searched for are found after the fewest misses. Every
//! name leads to the program that it led to before.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use gate::fs::{At, FileType, Open, Want, getdents64};
use gate::long::{open_long, statx_long};
use gate::{Errno, Result};
use mounts::path::join;
use ondisk::dirent::entries;

use crate::lookup::{plain, split};
use crate::order::best;
use crate::trace::{Found, Use};

/// What an element of PATH is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    /// A directory, which this many elements before it are as well.
    Live,
    /// Nothing, or no directory.
    Dead,
    /// The directory of this element, an earlier one.
    Again(usize),
    /// One that nothing is known of: relative, or not to be read. Nothing is moved past it.
    Fixed,
}

/// What is to be seen in directories.
pub trait Programs {
    /// What an absolute directory is: its device and inode; `None` for nothing, and what is no
    /// directory.
    fn directory(&mut self, dir: &[u8]) -> Result<Option<(u64, u64)>>;
    /// The names in it.
    fn names(&mut self, dir: &[u8]) -> Result<Vec<Vec<u8>>>;
    /// The file of a name, if it can be run: its device and inode.
    fn program(&mut self, path: &[u8]) -> Option<(u64, u64)>;
}

/// What would be better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Better {
    /// The value of PATH.
    pub path: Vec<u8>,
    /// Elements that are left out.
    pub left_out: Vec<Vec<u8>>,
    /// Whether the others are in another order.
    pub moved: bool,
    /// Misses that the same searches would not make.
    pub saves: u64,
    /// Names that would not be looked up, each once.
    pub names: Vec<Vec<u8>>,
    /// Searches that were looked at.
    pub searches: u64,
}

/// The elements in which a search tries in vain: those before the one that has what it looks for.
fn before<'a>(elements: &'a [&'a [u8]], found: Option<&[u8]>) -> &'a [&'a [u8]] {
    let end = elements
        .iter()
        .position(|dir| Some(*dir) == found)
        .unwrap_or(elements.len());
    &elements[..end]
}

/// The names that a search of `name` looks up in directories.
fn names<'a>(dirs: &'a [&'a [u8]], name: &'a [u8]) -> impl Iterator<Item = Vec<u8>> + 'a {
    dirs.iter()
        .filter(|dir| dir.starts_with(b"/"))
        .map(move |dir| join(dir, name))
}

/// The elements of a value, as they are given, and as the directories of look-ups are told.
fn split_up(path: &[u8]) -> Vec<(&[u8], Vec<u8>)> {
    let told = |given: &[u8]| {
        if given.starts_with(b"/") {
            plain(given)
        } else {
            given.to_vec()
        }
    };
    path.split(|&b| b == b':')
        .map(|given| (given, told(given)))
        .collect()
}

/// A better value than `path` for these searches; `None` if there is none.
pub fn better(path: &[u8], searches: &[(Found, Use)], look: &mut dyn Programs) -> Option<Better> {
    let both = split_up(path);
    let elements: Vec<&[u8]> = both.iter().map(|(_, dir)| dir.as_slice()).collect();
    let kinds = kinds(&elements, look);
    let place = |dir: &[u8]| {
        elements
            .iter()
            .position(|element| dir.starts_with(b"/") && *element == dir)
    };
    let real = |at: usize| match kinds.get(at) {
        Some(Element::Again(first)) => *first,
        _ => at,
    };
    let mut weights = vec![0_u64; elements.len()];
    for ((_, found), used) in searches {
        if let Some(at) = found.as_deref().and_then(|found| place(split(found).0))
            && let Some(weight) = weights.get_mut(real(at))
        {
            *weight += used.times;
        }
    }
    let after = constraints(&elements, &kinds, look);
    let order: Vec<usize> = best(&weights, &after)
        .into_iter()
        .filter(|at| matches!(kinds.get(*at), Some(Element::Live | Element::Fixed)))
        .collect();
    let kept: Vec<usize> = (0..elements.len())
        .filter(|at| matches!(kinds[*at], Element::Live | Element::Fixed))
        .collect();
    let given: Vec<&[u8]> = order.iter().map(|at| both[*at].0).collect();
    let new: Vec<&[u8]> = order.iter().map(|at| elements[*at]).collect();

    let mut better = Better {
        path: given.join(&b':'),
        left_out: (0..elements.len())
            .filter(|at| !kept.contains(at))
            .map(|at| both[at].0.to_vec())
            .collect(),
        moved: order != kept,
        saves: 0,
        names: Vec::new(),
        searches: 0,
    };
    let (mut looked_up, mut still, mut saves) = (BTreeSet::new(), BTreeSet::new(), 0);
    for ((name, found), used) in searches {
        let dir = found.as_deref().map(|found| split(found).0);
        let (old_dir, new_dir) = match dir {
            None => (None, None),
            Some(dir) => {
                let Some(at) = place(dir) else { continue }; // along another PATH, which the command has set itself
                (Some(dir), elements.get(real(at)).copied())
            }
        };
        let (old, new) = (before(&elements, old_dir), before(&new, new_dir));
        better.searches += used.times;
        // Of what was found in the first place it is not known whether it was run by its whole
        // name: it is taken not to be.
        saves += match old.len() as i128 {
            0 => -(new.len() as i128 * i128::from(used.times)),
            tries => (tries - new.len() as i128) * i128::from(used.misses) / tries,
        };
        // What was run by its whole name was not searched for.
        if used.misses > 0 {
            looked_up.extend(names(old, name));
            still.extend(names(new, name));
        }
    }
    better.saves = u64::try_from(saves).unwrap_or(0);
    better.names = looked_up.difference(&still).cloned().collect();
    // An empty value is none: what a shell does with it is its own affair, and most search the
    // working directory.
    let says_something = !better.path.is_empty() && better.path != path;
    (says_something && (better.saves > 0 || !better.left_out.is_empty())).then_some(better)
}

/// The elements of a value of PATH, and what each is.
pub fn elements(path: &[u8], look: &mut dyn Programs) -> Vec<(Vec<u8>, Element)> {
    let both = split_up(path);
    let dirs: Vec<&[u8]> = both.iter().map(|(_, dir)| dir.as_slice()).collect();
    both.iter()
        .map(|(given, _)| given.to_vec())
        .zip(kinds(&dirs, look))
        .collect()
}

fn kinds(elements: &[&[u8]], look: &mut dyn Programs) -> Vec<Element> {
    let mut seen: HashMap<(u64, u64), usize> = HashMap::new();
    let mut kinds = Vec::with_capacity(elements.len());
    for (at, element) in elements.iter().enumerate() {
        // What nothing is known of, and is there by the same name already, is searched in vain once
        // more.
        let unknown = || match elements[..at].iter().position(|before| before == element) {
            Some(first) => Element::Again(first),
            None => Element::Fixed,
        };
        kinds.push(if !element.starts_with(b"/") {
            unknown()
        } else {
            match look.directory(element) {
                Err(_) => unknown(),
                Ok(None) => Element::Dead,
                Ok(Some(identity)) => match seen.get(&identity) {
                    Some(first) => Element::Again(*first),
                    None => {
                        seen.insert(identity, at);
                        Element::Live
                    }
                },
            }
        });
    }
    kinds
}

/// For each element those that must stay before it: they have a program of the same name that is
/// another one; or nothing is known of one of the two.
fn constraints(elements: &[&[u8]], kinds: &[Element], look: &mut dyn Programs) -> Vec<Vec<usize>> {
    /// Names that are compared; with more, everything stays where it is.
    const MOST: usize = 500_000;
    let mut fixed: BTreeSet<usize> = (0..kinds.len())
        .filter(|at| kinds[*at] == Element::Fixed)
        .collect();
    let mut holders: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
    let live = |at: &usize| kinds[*at] == Element::Live;
    let mut room = MOST;
    for at in (0..kinds.len()).filter(live) {
        match look.names(elements[at]) {
            Ok(names) if names.len() <= room => {
                room -= names.len();
                names
                    .into_iter()
                    .for_each(|name| holders.entry(name).or_default().push(at));
            }
            _ => drop(fixed.insert(at)),
        }
    }
    let mut pairs: BTreeSet<(usize, usize)> = BTreeSet::new();
    for at in 0..kinds.len() {
        for other in (0..at).filter(|other| fixed.contains(other) || fixed.contains(&at)) {
            pairs.insert((other, at));
        }
    }
    for (name, holders) in holders {
        for (n, &second) in holders.iter().enumerate() {
            for &first in holders.iter().take(n).filter(|first| **first != second) {
                if pairs.contains(&(first, second)) {
                    continue;
                }
                let mut of = |at: usize| look.program(&join(elements[at], &name));
                if let (Some(a), Some(b)) = (of(first), of(second))
                    && a != b
                {
                    pairs.insert((first, second));
                }
            }
        }
    }
    let mut after = vec![Vec::new(); kinds.len()];
    for (first, second) in pairs {
        after[second].push(first);
    }
    after
}

/// A value as a shell takes it, whatever is in it.
pub fn quoted(value: &[u8]) -> Vec<u8> {
    let mut out = vec![b'\''];
    for &byte in value {
        match byte {
            b'\'' => out.extend_from_slice(b"'\\''"),
            byte => out.push(byte),
        }
    }
    out.push(b'\'');
    out
}

/// The programs of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Here;

impl Programs for Here {
    fn directory(&mut self, dir: &[u8]) -> Result<Option<(u64, u64)>> {
        match statx_long(dir, At::empty(), Want::TYPE | Want::INO) {
            Ok(seen) if seen.file_type == FileType::Directory => {
                Ok(Some(identity(seen.dev, seen.ino)))
            }
            Ok(_) | Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn names(&mut self, dir: &[u8]) -> Result<Vec<Vec<u8>>> {
        let fd = open_long(dir, Open::DIRECTORY)?;
        let mut buffer = vec![0; 64 << 10];
        let mut names = Vec::new();
        loop {
            let n = getdents64(&fd, &mut buffer)?;
            if n == 0 {
                return Ok(names);
            }
            let filled = buffer.get(..n).unwrap_or_default();
            names.extend(entries(filled).map(|entry| entry.name.to_bytes().to_vec()));
        }
    }

    fn program(&mut self, path: &[u8]) -> Option<(u64, u64)> {
        const ANYBODY_MAY_RUN: u32 = 0o111;
        let seen = statx_long(path, At::empty(), Want::TYPE | Want::MODE | Want::INO).ok()?;
        let runs = seen.file_type == FileType::Regular && seen.mode & ANYBODY_MAY_RUN != 0;
        runs.then(|| identity(seen.dev, seen.ino))
    }
}

fn identity((major, minor): (u32, u32), ino: u64) -> (u64, u64) {
    (u64::from(major) << 32 | u64::from(minor), ino)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Inode = u64;
    type Listed = Vec<(&'static str, Inode)>;
    /// Directories, each with its inode and the programs in it.
    struct Made(Vec<(&'static str, Inode, Listed)>);

    impl Programs for Made {
        fn directory(&mut self, dir: &[u8]) -> Result<Option<(u64, u64)>> {
            if dir == b"/closed" {
                return Err(Errno::EACCES);
            }
            Ok(self
                .0
                .iter()
                .find(|(name, ..)| name.as_bytes() == dir)
                .map(|(_, ino, _)| (1, *ino)))
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
        fn program(&mut self, path: &[u8]) -> Option<(u64, u64)> {
            let (dir, name) = split(path);
            let here = self.0.iter().find(|(name, ..)| name.as_bytes() == dir)?;
            here.2
                .iter()
                .find(|(n, _)| n.as_bytes() == name)
                .map(|(_, ino)| (1, *ino))
        }
    }

    fn made() -> Made {
        Made(vec![
            ("/a", 1, vec![]),
            ("/b", 2, vec![("x", 10), ("own", 11)]),
            ("/c", 3, vec![("x", 12), ("y", 13)]),
            ("/bin", 4, vec![("ls", 14), ("z", 15)]),
            ("/usr/bin", 4, vec![("ls", 14), ("z", 15)]),
        ])
    }

    fn used(name: &str, found: Option<&str>, times: u64, misses: u64) -> (Found, Use) {
        (
            (
                name.as_bytes().to_vec(),
                found.map(|found| found.as_bytes().to_vec()),
            ),
            Use { times, misses },
        )
    }

    #[test]
    fn the_dead_and_the_doubled_go_and_what_is_used_comes_first() {
        let searches = [
            used("ls", Some("/usr/bin/ls"), 2, 8),
            used("none", None, 1, 6),
        ];
        let better = better(b"/dead:/a:/b:/c:/usr/bin/:/bin", &searches, &mut made()).unwrap();
        assert_eq!(better.path, b"/usr/bin/:/a:/b:/c");
        assert_eq!(better.left_out, [b"/dead".to_vec(), b"/bin".to_vec()]);
        assert_eq!(
            (better.saves, better.searches, better.moved),
            (8 + 2, 3, true)
        );
        assert!(
            better.names.contains(&b"/a/ls".to_vec())
                && !better.names.contains(&b"/a/none".to_vec())
        );
    }

    #[test]
    fn each_time_that_a_directory_stands_there_is_a_miss() {
        // Five tries each time, of which two are left: `/a` once, and the working directory.
        let searches = [used("none", None, 3, 15)];
        let better = better(b"/a:/dead:.:/a:/a", &searches, &mut made()).unwrap();
        assert_eq!((better.path, better.saves), (b"/a:.".to_vec(), 9));
    }

    #[test]
    fn what_nothing_is_known_of_need_not_stand_there_twice() {
        let searches = [used("ls", Some("/bin/ls"), 1, 5)];
        let better = better(b"/closed:.:/closed/:/closed:.:/bin", &searches, &mut made()).unwrap();
        assert_eq!(
            (better.path, better.saves, better.moved),
            (b"/closed:.:/bin".to_vec(), 3, false)
        );
    }

    #[test]
    fn what_was_found_in_the_first_directory_costs_more_in_another_order() {
        let searches = [
            used("own", Some("/b/own"), 2, 0),
            used("ls", Some("/bin/ls"), 5, 5),
        ];
        let better = better(b"/b:/bin", &searches, &mut made()).unwrap();
        assert_eq!((better.path, better.saves), (b"/bin:/b".to_vec(), 5 - 2));
    }

    #[test]
    fn slashes_and_dots_that_say_nothing_are_no_other_directory() {
        let found = [used("y", Some("/c/y"), 5, 10)];
        let better = better(b"//a/:/b/.:/./c", &found, &mut made()).unwrap();
        assert_eq!((better.path, better.saves), (b"/b/.:/./c://a/".to_vec(), 5));
    }

    #[test]
    fn a_name_keeps_the_program_that_it_leads_to() {
        // /c is used most, but its x must stay behind that of /b.
        let better = better(b"/a:/b:/c", &[used("y", Some("/c/y"), 5, 10)], &mut made()).unwrap();
        assert_eq!((better.path, better.saves), (b"/b:/c:/a".to_vec(), 5));
    }

    #[test]
    fn nothing_is_moved_past_what_is_not_known() {
        let searches = [used("ls", Some("/bin/ls"), 1, 2)];
        assert_eq!(better(b"/a::/bin", &searches, &mut made()), None);
        let after = better(b"/dead:/c:.:/a:/bin", &searches, &mut made()).unwrap();
        assert_eq!(after.path, b"/c:.:/bin:/a");
    }

    #[test]
    fn what_is_best_already_stays() {
        assert_eq!(
            better(
                b"/bin:/a",
                &[used("ls", Some("/bin/ls"), 1, 0)],
                &mut made()
            ),
            None
        );
        assert_eq!(better(b"", &[], &mut made()), None);
        // Where nothing is left, or the working directory alone, there is no other value that means
        // the same.
        assert_eq!(
            better(b"/dead", &[used("x", None, 1, 1)], &mut made()),
            None
        );
        assert_eq!(
            better(b"/dead:", &[used("x", None, 1, 1)], &mut made()),
            None
        );
        assert_eq!(
            better(
                b"/c:/bin",
                &[used("q", Some("/elsewhere/q"), 1, 9)],
                &mut made()
            ),
            None
        );
    }

    #[test]
    fn any_value_survives_a_shell() {
        assert_eq!(quoted(b"/a b:/it's:/\xff"), b"'/a b:/it'\\''s:/\xff'");
    }
}
