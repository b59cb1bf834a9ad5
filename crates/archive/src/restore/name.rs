//! Names in archives: which are sound, and which were chosen.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::error::{Action, BadName, Error, ErrorKind};

/// A name of an archive, as seen from DIR.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Name {
    /// Its components with one slash between them; nothing for DIR itself.
    pub(super) path: Vec<u8>,
    /// Whether it began with a slash.
    pub(super) was_absolute: bool,
}

/// Brings a name into the form in which names are compared: no slash before or after it, none
/// doubled, no `.` in it.
///
/// # Errors
/// Why nothing is made under it.
pub(super) fn clean(raw: &[u8]) -> Result<Name, BadName> {
    if raw.is_empty() {
        return Err(BadName::Empty);
    }
    if raw.contains(&0) {
        return Err(BadName::Nul);
    }
    let mut path = Vec::with_capacity(raw.len());
    for part in raw.split(|&b| b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return Err(BadName::DotDot),
            part => {
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(part);
            }
        }
    }
    Ok(Name {
        path,
        was_absolute: raw.starts_with(b"/"),
    })
}

/// The directory of a clean name, and the name in it.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&b| b == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// Renames of directories, in their order: the old name and the new one. A NUL is the name of the
/// temporary directory.
pub(super) type Renames = Vec<(Vec<u8>, Vec<u8>)>;

/// The PATHs that were asked for; all, if there are none. They are names after the last archive:
/// what has them may have other names in earlier ones, and is made under the last one at once.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// As they were given, each with whether it was met.
    given: Vec<(Vec<u8>, bool)>,
    /// Which of them a clean name is.
    names: BTreeMap<Vec<u8>, usize>,
    /// The renames that each archive carries out, where they are known.
    renames: Vec<Option<Renames>>,
    /// The archive at hand.
    turn: usize,
    /// Where what has a name there comes to lie in the end.
    then: Places,
    /// What that which has a name in the end has for one there.
    before: Places,
}

impl Chosen {
    /// # Errors
    /// One of them cannot be the name of a member.
    pub(super) fn new(paths: &[Vec<u8>]) -> Result<Chosen, Error> {
        let name = |(at, raw): (usize, &Vec<u8>)| {
            let name =
                clean(raw).map_err(|why| Error::new(Action::Restore, raw, ErrorKind::BadName(why)));
            Ok::<_, Error>((name?.path, at))
        };
        let names = paths
            .iter()
            .enumerate()
            .map(name)
            .collect::<Result<_, _>>()?;
        Ok(Chosen {
            given: paths.iter().map(|raw| (raw.clone(), false)).collect(),
            names,
            ..Chosen::default()
        })
    }

    /// Whether everything was asked for.
    pub(super) fn is_all(&self) -> bool {
        self.given.is_empty()
    }

    /// Works out the names in each archive from the renames that each carries out; `None` where
    /// they are not known.
    pub(super) fn trace(&mut self, renames: Vec<Option<Renames>>) {
        self.renames = renames;
        self.aim();
    }

    /// Goes on to the next archive.
    pub(super) fn next_archive(&mut self) {
        self.turn += 1;
        self.aim();
    }

    fn aim(&mut self) {
        (self.then, self.before) = Default::default();
        let later = || self.renames.iter().skip(self.turn + 1).flatten().flatten();
        later()
            .rev()
            .for_each(|(old, new)| self.then.carry(old, new));
        later().for_each(|(old, new)| self.before.carry(new, old));
    }

    /// Where a member with a clean name is made, if it was chosen.
    pub(super) fn takes(&mut self, path: &[u8]) -> Option<Vec<u8>> {
        let place = self.place(path)?;
        if let Some((_, is_met)) = self.nearest(&place).and_then(|at| self.given.get_mut(at)) {
            *is_met = true;
        }
        self.has(&place).then_some(place)
    }

    /// Where what has a clean name in the archive at hand comes to lie; `None` if it is gone by
    /// then.
    pub(super) fn place(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.then.place_of(path)
    }

    /// Whether what comes to lie under a name was chosen.
    pub(super) fn has(&self, place: &[u8]) -> bool {
        self.is_all() || self.nearest(place).is_some()
    }

    /// The PATHs that come to lie below a directory.
    pub(super) fn below(&self, dir: &[u8]) -> impl Iterator<Item = &[u8]> {
        self.names
            .keys()
            .map(|name| &name[..])
            .filter(move |name| *name != dir && is_within(name, dir))
    }

    /// By which name the list of a directory, which has the name `dir` in the archive at hand, has
    /// to do with something in the place of that directory; `None` if by none, or if nothing of it
    /// was chosen.
    pub(super) fn listed(&self, dir: &[u8], place: &[u8], name: &[u8]) -> Option<Vec<u8>> {
        if self.is_all() {
            return Some(name.to_vec());
        }
        let whole = join(place, name);
        let was = self
            .before
            .place_of(&whole)
            .filter(|_| self.has(&whole) || self.below(&whole).next().is_some())?;
        let (above, name) = split(&was);
        (above == dir).then(|| name.to_vec())
    }

    /// Whether something comes to lie below a place that is not in what has the name `dir` in the
    /// archive at hand. It has been made there ahead of its time: by then the place is that of a
    /// directory which is new, and is not what the archive knows by its name.
    pub(super) fn has_ahead(&self, place: &[u8], dir: &[u8]) -> bool {
        self.before.below(place).any(|was| !is_within(was, dir))
    }

    /// The same of a place or of what is below it.
    pub(super) fn is_ahead(&self, place: &[u8], dir: &[u8]) -> bool {
        self.before
            .place_of(place)
            .is_some_and(|was| !is_within(&was, dir))
            || self.has_ahead(place, dir)
    }

    /// Whether a rename of the archive at hand is to be carried out: what was chosen has its last
    /// name already, where the renames were known.
    pub(super) fn has_in(&self, dir: &[u8]) -> bool {
        let is_known = self.renames.get(self.turn).is_some_and(Option::is_some);
        self.is_all() || !is_known && (self.has(dir) || self.below(dir).next().is_some())
    }

    /// Which PATH a clean name is, or is below.
    fn nearest(&self, path: &[u8]) -> Option<usize> {
        ends(path, b'/')
            .find_map(|end| self.names.get(&path[..end]))
            .copied()
    }

    /// Those that were never met, as they were given.
    pub(super) fn missed(self) -> Vec<Vec<u8>> {
        let mut missed: Vec<_> = self
            .given
            .into_iter()
            .filter(|(_, is_met)| !is_met)
            .map(|(raw, _)| raw)
            .collect();
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

/// Where what has a name is at another time. What is below a name goes along, as far as no name
/// below says otherwise; what has no name here is where it was. `None`: it is nowhere.
///
/// In the keys, a NUL stands for the slash: so all that is below a name follows it.
#[derive(Debug, Default)]
struct Places(BTreeMap<Vec<u8>, Option<Vec<u8>>>);

impl Places {
    /// The place of a name; `None` if it has none.
    fn place_of(&self, name: &[u8]) -> Option<Vec<u8>> {
        let key = key(name);
        match ends(&key, 0).find_map(|end| Some((end, self.0.get(&key[..end])?))) {
            None => Some(name.to_vec()),
            Some((end, to)) => to.as_ref().map(|to| [to, &name[end..]].concat()),
        }
    }

    /// Where that is which has a name below this one, as far as it does not go along with what has
    /// this one.
    fn below(&self, name: &[u8]) -> impl Iterator<Item = &[u8]> {
        let inside = if name.is_empty() {
            Vec::new()
        } else {
            [&key(name)[..], b"\0"].concat()
        };
        let from = self
            .0
            .range::<[u8], _>((Bound::Included(&inside[..]), Bound::Unbounded));
        from.take_while(move |(name, _)| name.starts_with(&inside))
            .filter_map(|(_, to)| to.as_deref())
    }

    /// Is from now on of the names before a rename, or after one that is undone: what had the name
    /// `from` then has the name `to` now. What had that one is gone.
    fn carry(&mut self, from: &[u8], to: &[u8]) {
        if from.is_empty() || to.is_empty() || is_within(from, to) || is_within(to, from) {
            return;
        }
        let whole = self.place_of(to);
        let (from, to) = (key(from), key(to));
        drop(self.take(&from));
        for (name, place) in self.take(&to) {
            self.0.insert([&from, &name[to.len()..]].concat(), place);
        }
        self.0.insert(from, whole);
        self.0.insert(to, None);
    }

    /// Takes out what is said of a key, and of what is below it.
    fn take(&mut self, key: &[u8]) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let from = self
            .0
            .range::<[u8], _>((Bound::Included(key), Bound::Unbounded));
        let below = from
            .map(|(name, _)| name)
            .take_while(|name| name.starts_with(key));
        let below: Vec<_> = below
            .filter(|name| matches!(name[key.len()..], [] | [0, ..]))
            .cloned()
            .collect();
        below
            .into_iter()
            .filter_map(|name| self.0.remove_entry(&name))
            .collect()
    }
}

/// A name in which a NUL stands for the slash.
pub(super) fn key(path: &[u8]) -> Vec<u8> {
    path.iter()
        .map(|&b| if b == b'/' { 0 } else { b })
        .collect()
}

/// Where a name ends, and each directory above it, up to DIR itself.
fn ends(path: &[u8], slash: u8) -> impl Iterator<Item = usize> {
    let above = path
        .iter()
        .enumerate()
        .rev()
        .filter(move |(_, b)| **b == slash)
        .map(|(at, _)| at);
    std::iter::once(path.len()).chain(above).chain([0])
}

/// The name of something in a directory.
pub(super) fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() {
        name.to_vec()
    } else {
        [dir, b"/", name].concat()
    }
}

/// Whether a clean name is another one, or below it.
fn is_within(path: &[u8], dir: &[u8]) -> bool {
    dir.is_empty() || matches!(path.strip_prefix(dir), Some([] | [b'/', ..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_plain() {
        let plain = |raw: &[u8]| clean(raw).map(|name| name.path);
        assert_eq!(plain(b"./a//b/./c/"), Ok(b"a/b/c".to_vec()));
        assert_eq!(plain(b"./"), Ok(b"".to_vec()));
        assert_eq!(
            clean(b"//etc/passwd"),
            Ok(Name {
                path: b"etc/passwd".to_vec(),
                was_absolute: true
            })
        );
        assert_eq!(plain(b"..a/b.."), Ok(b"..a/b..".to_vec()));
        for bad in [&b""[..], b"..", b"a/..", b"a/../b", b"a\0b", b"/../x"] {
            assert!(clean(bad).is_err(), "{bad:?}");
        }
        assert_eq!(split(b"a/b/c"), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(split(b"c"), (&b""[..], &b"c"[..]));
    }

    fn chosen(paths: &[&str]) -> Chosen {
        Chosen::new(
            &paths
                .iter()
                .map(|path| path.as_bytes().to_vec())
                .collect::<Vec<_>>(),
        )
        .unwrap()
    }

    #[test]
    fn a_chosen_path_takes_what_is_below_it() {
        let mut some = chosen(&["a/b/", "x", "never"]);
        for (path, is_taken) in [
            ("a/b", true),
            ("a/b/c", true),
            ("a/bc", false),
            ("a", false),
            ("x", true),
            ("xy", false),
        ] {
            assert_eq!(some.takes(path.as_bytes()).is_some(), is_taken, "{path}");
        }
        assert_eq!(some.missed(), [b"never".to_vec()]);
        assert!(Chosen::new(&[b"../x".to_vec()]).is_err());
        assert!(chosen(&["."]).takes(b"anything").is_some());
        assert!(chosen(&[]).takes(b"anything").is_some() && chosen(&[]).is_all());
    }

    /// The names that are made of some names in the archive at hand; nothing for what is not
    /// chosen.
    fn taken<const N: usize>(some: &mut Chosen, paths: [&str; N]) -> [String; N] {
        paths
            .map(|path| String::from_utf8(some.takes(path.as_bytes()).unwrap_or_default()).unwrap())
    }

    fn renames(all: &[(&str, &str)]) -> Option<Renames> {
        Some(
            all.iter()
                .map(|(old, new)| (old.as_bytes().to_vec(), new.as_bytes().to_vec()))
                .collect(),
        )
    }

    #[test]
    fn a_chosen_path_is_known_by_its_earlier_names() {
        let mut some = chosen(&["now/x", "into", "swap1"]);
        let swap = [("swap1", "\0"), ("swap2", "swap1"), ("\0", "swap2")];
        some.trace(vec![
            renames(&[]),
            renames(&[("first", "then")]),
            renames(&[("then", "now"), ("from", "into/it")]),
            renames(&swap),
        ]);
        let paths = [
            "first/x", "then/x", "now/x", "then/y", "into/z", "from/z", "swap1", "swap2/f",
        ];
        assert_eq!(
            taken(&mut some, paths),
            ["now/x", "", "", "", "into/z", "into/it/z", "", "swap1/f"]
        );
        some.next_archive();
        assert_eq!(
            taken(&mut some, paths),
            ["", "now/x", "", "", "into/z", "into/it/z", "", "swap1/f"]
        );
        some.next_archive();
        assert_eq!(
            taken(&mut some, paths),
            ["", "", "now/x", "", "into/z", "", "", "swap1/f"]
        );
        some.next_archive();
        assert_eq!(
            taken(&mut some, paths),
            ["", "", "now/x", "", "into/z", "", "swap1", ""]
        );
        assert!(some.missed().is_empty());
    }

    #[test]
    fn what_is_made_ahead_of_its_time_is_not_what_is_there() {
        let mut some = chosen(&["new"]);
        some.trace(vec![
            renames(&[]),
            renames(&[]),
            renames(&[("old", "new/deep/in")]),
        ]);
        for archive in 0..3 {
            let (place, is_before) = (|of: &str| of.as_bytes().to_vec(), archive < 2);
            assert_eq!(
                some.has_ahead(&place("new"), b"new"),
                is_before,
                "{archive}"
            );
            assert_eq!(
                some.is_ahead(&place("new/deep/in"), b"new"),
                is_before,
                "{archive}"
            );
            assert!(
                !some.has_ahead(&place("new/deep/in"), b"new")
                    && !some.has_ahead(&place("ne"), b"ne"),
                "{archive}"
            );
            assert!(
                !some.is_ahead(&place("new/deep/other"), b"new"),
                "{archive}"
            );
            some.next_archive();
        }
    }

    #[test]
    fn what_comes_to_lie_elsewhere_or_is_gone_is_not_chosen() {
        let mut some = chosen(&["z", "a"]);
        some.trace(vec![
            renames(&[]),
            renames(&[("a", "z")]),
            renames(&[("z/out", "b"), ("c", "z/in")]),
        ]);
        let paths = ["a", "a/f", "a/out", "a/out/f", "z/f", "c/f", "b"];
        assert_eq!(
            taken(&mut some, paths),
            ["z", "z/f", "", "", "", "z/in/f", ""],
            "another z, which was removed"
        );
        some.next_archive();
        assert_eq!(
            taken(&mut some, paths),
            ["a", "a/f", "a/out", "a/out/f", "z/f", "z/in/f", ""],
            "another a, which is new"
        );
        assert_eq!(some.listed(b"z", b"z", b"f"), Some(b"f".to_vec()));
        assert_eq!(some.listed(b"z", b"z", b"in"), None, "not yet in it");
        assert_eq!(some.listed(b"", b"", b"z"), Some(b"z".to_vec()));
        assert_eq!(some.listed(b"", b"", b"other"), None);
        some.next_archive();
        assert_eq!(
            taken(&mut some, paths),
            ["a", "a/f", "a/out", "a/out/f", "z/f", "", ""]
        );
    }
}
