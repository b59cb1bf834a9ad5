//! Names in archives: which are sound, and which were chosen.

use std::collections::HashMap;

/// A name of an archive, as seen from DIR.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Name {
    /// Its components with one slash between them; nothing for DIR itself.
    pub(super) path: Vec<u8>,
    /// Whether it began with a slash.
    pub(super) was_absolute: bool,
}

/// Brings a name into the form in which names are compared: no slash before or after it, none doubled, no `.` in it.
///
/// # Errors
/// Why nothing is made under it.
pub(super) fn clean(raw: &[u8]) -> Result<Name, &'static str> {
    if raw.is_empty() {
        return Err("it has no name");
    }
    if raw.contains(&0) {
        return Err("there is a NUL in its name");
    }
    let mut path = Vec::with_capacity(raw.len());
    for part in raw.split(|&b| b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return Err("there is a '..' in its name"),
            part => {
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(part);
            }
        }
    }
    Ok(Name { path, was_absolute: raw.starts_with(b"/") })
}

/// The directory of a clean name, and the name in it.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&b| b == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// Renames of directories, in their order: the old name and the new one. A NUL is the name of the temporary directory.
pub(super) type Renames = Vec<(Vec<u8>, Vec<u8>)>;

/// Names, and which of the PATHs each is: what is below it is chosen with it, as far as no name below says otherwise. `None` is no
/// PATH: what has that name comes to lie elsewhere.
type Names = HashMap<Vec<u8>, Option<usize>>;

/// The PATHs that were asked for; all, if there are none. They are names after the last archive: what has them may have other
/// names in earlier ones.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// As they were given, each with whether it was met.
    given: Vec<(Vec<u8>, bool)>,
    /// The names that they have in each archive.
    names: Vec<Names>,
    /// The archive at hand.
    turn: usize,
}

impl Chosen {
    /// # Errors
    /// Why one of them can be the name of nothing, and which.
    pub(super) fn new(paths: &[Vec<u8>]) -> Result<Chosen, (Vec<u8>, &'static str)> {
        let name = |(at, raw): (usize, &Vec<u8>)| Ok((clean(raw).map_err(|why| (raw.clone(), why))?.path, Some(at)));
        let names = paths.iter().enumerate().map(name).collect::<Result<_, _>>()?;
        Ok(Chosen { given: paths.iter().map(|raw| (raw.clone(), false)).collect(), names: vec![names], turn: 0 })
    }

    /// Whether everything was asked for.
    pub(super) fn is_all(&self) -> bool {
        self.given.is_empty()
    }

    /// Works out the names in each archive from the renames that each carries out.
    pub(super) fn trace(&mut self, renames: &[Renames]) {
        let mut names = self.names.pop().unwrap_or_default();
        let mut all = Vec::new();
        for renames in renames.iter().rev() {
            all.push(names.clone());
            names = renames.iter().rev().fold(names, before);
        }
        all.reverse();
        self.names = all;
    }

    /// Goes on to the next archive.
    pub(super) fn next_archive(&mut self) {
        self.turn += 1;
    }

    /// Whether a clean name is one of them or below one.
    pub(super) fn takes(&mut self, path: &[u8]) -> bool {
        let Some(names) = self.names.get(self.turn).or(self.names.last()) else { return true };
        if self.given.is_empty() {
            return true;
        }
        let found = nearest(names, path);
        if let Some((_, is_met)) = found.and_then(|at| self.given.get_mut(at)) {
            *is_met = true;
        }
        found.is_some()
    }

    /// Whether a directory that is to be renamed may hold anything that was chosen, as things were before this archive.
    pub(super) fn has_in(&self, dir: &[u8]) -> bool {
        let names = self.turn.checked_sub(1).and_then(|before| self.names.get(before)).or(self.names.last());
        let is_below = |(path, at): (&Vec<u8>, &Option<usize>)| at.is_some() && is_within(path, dir);
        self.given.is_empty() || names.is_some_and(|names| nearest(names, dir).is_some() || names.iter().any(is_below))
    }

    /// Those that were never met, as they were given.
    pub(super) fn missed(self) -> Vec<Vec<u8>> {
        let mut missed: Vec<_> = self.given.into_iter().filter(|(_, is_met)| !is_met).map(|(raw, _)| raw).collect();
        missed.sort();
        missed
    }
}

/// The name that what has this name has after a rename.
pub(super) fn after(name: Vec<u8>, (old, new): &(Vec<u8>, Vec<u8>)) -> Vec<u8> {
    match name.strip_prefix(&old[..]) {
        Some(rest @ ([] | [b'/', ..])) => [new, rest].concat(),
        _ => name,
    }
}

/// Whether a clean name is another one, or below it.
fn is_within(path: &[u8], dir: &[u8]) -> bool {
    dir.is_empty() || matches!(path.strip_prefix(dir), Some([] | [b'/', ..]))
}

/// Which PATH a clean name is, or is below.
fn nearest(names: &Names, path: &[u8]) -> Option<usize> {
    let ends = path.iter().enumerate().rev().filter(|(_, b)| **b == b'/').map(|(at, _)| at);
    std::iter::once(path.len()).chain(ends).chain([0]).find_map(|end| names.get(&path[..end])).copied().flatten()
}

/// The names that what has these names had before a rename. What had the old name afterwards was not there yet.
fn before(names: Names, (old, new): &(Vec<u8>, Vec<u8>)) -> Names {
    let renamed = nearest(&names, new);
    let mut were = Names::new();
    for (name, at) in names {
        match name.strip_prefix(&new[..]) {
            Some(rest @ ([] | [b'/', ..])) => drop(were.insert([old, rest].concat(), at)),
            _ if is_within(&name, old) => {}
            _ => drop(were.insert(name, at)),
        }
    }
    // What was renamed into a directory is chosen with it, and what was renamed out of it is not.
    if nearest(&were, old) != renamed {
        were.insert(old.clone(), renamed);
    }
    were
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_plain() {
        let plain = |raw: &[u8]| clean(raw).map(|name| name.path);
        assert_eq!(plain(b"./a//b/./c/"), Ok(b"a/b/c".to_vec()));
        assert_eq!(plain(b"./"), Ok(b"".to_vec()));
        assert_eq!(clean(b"//etc/passwd"), Ok(Name { path: b"etc/passwd".to_vec(), was_absolute: true }));
        assert_eq!(plain(b"..a/b.."), Ok(b"..a/b..".to_vec()));
        for bad in [&b""[..], b"..", b"a/..", b"a/../b", b"a\0b", b"/../x"] {
            assert!(clean(bad).is_err(), "{bad:?}");
        }
        assert_eq!(split(b"a/b/c"), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(split(b"c"), (&b""[..], &b"c"[..]));
    }

    fn chosen(paths: &[&str]) -> Chosen {
        Chosen::new(&paths.iter().map(|path| path.as_bytes().to_vec()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_chosen_path_takes_what_is_below_it() {
        let mut some = chosen(&["a/b/", "x", "never"]);
        for (path, is_taken) in
            [("a/b", true), ("a/b/c", true), ("a/bc", false), ("a", false), ("x", true), ("xy", false)]
        {
            assert_eq!(some.takes(path.as_bytes()), is_taken, "{path}");
        }
        assert_eq!(some.missed(), [b"never".to_vec()]);
        assert!(Chosen::new(&[b"../x".to_vec()]).is_err());
        assert!(chosen(&["."]).takes(b"anything"));
        assert!(chosen(&[]).takes(b"anything") && chosen(&[]).is_all());
    }

    #[test]
    fn what_comes_to_lie_elsewhere_is_not_chosen() {
        let renames = |all: &[(&str, &str)]| -> Renames {
            all.iter().map(|(old, new)| (old.as_bytes().to_vec(), new.as_bytes().to_vec())).collect()
        };
        let mut some = chosen(&["z", "a"]);
        some.trace(&[renames(&[]), renames(&[("a", "z")]), renames(&[("z/out", "b"), ("c", "z/in")])]);
        let taken = |some: &mut Chosen| {
            ["a", "a/f", "a/out", "a/out/f", "z/f", "z/out/f", "c/f", "b"].map(|path| some.takes(path.as_bytes()))
        };
        assert_eq!(taken(&mut some), [true, true, false, false, false, false, true, false]);
        some.next_archive();
        assert!(some.has_in(b"a") && !some.has_in(b"a/out") && some.has_in(b"c"));
        assert_eq!(taken(&mut some), [true, true, true, true, true, false, true, false], "a new directory is called a");
        some.next_archive();
        assert_eq!(taken(&mut some), [true, true, true, true, true, true, false, false]);
    }

    #[test]
    fn a_chosen_path_is_known_by_its_earlier_names() {
        let renames = |all: &[(&str, &str)]| -> Renames {
            all.iter().map(|(old, new)| (old.as_bytes().to_vec(), new.as_bytes().to_vec())).collect()
        };
        let mut some = chosen(&["now/x", "into", "swap1"]);
        let swap = [("swap1", "\0"), ("swap2", "swap1"), ("\0", "swap2")];
        some.trace(&[
            renames(&[]),
            renames(&[("first", "then")]),
            renames(&[("then", "now"), ("from", "into/it")]),
            renames(&swap),
        ]);
        let taken = |some: &mut Chosen| {
            ["first/x", "then/x", "now/x", "then/y", "into/z", "from/z", "swap1", "swap2"]
                .map(|path| some.takes(path.as_bytes()))
        };
        assert_eq!(taken(&mut some), [true, false, false, false, true, true, false, true]);
        some.next_archive();
        assert!(some.has_in(b"first") && !some.has_in(b"then") && some.has_in(b"from/z"));
        assert_eq!(taken(&mut some), [false, true, false, false, true, true, false, true]);
        some.next_archive();
        assert_eq!(taken(&mut some), [false, false, true, false, true, false, false, true]);
        some.next_archive();
        assert_eq!(taken(&mut some), [false, false, true, false, true, false, true, false]);
        assert!(some.missed().is_empty());
    }
}
