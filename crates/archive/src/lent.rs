//! The names in the directories of a catalog, lent to an engine that need not read them again.
//!
//! A name is added to a directory, or taken out of it, only with new times of the directory. So as long as it bears those that it has
//! in the catalog, what is in it has the same names, which stand for the same inodes, however these may have changed. That holds of
//!
//! - directories that were at rest when the catalog was made, and so was each directory above them, so that nothing was moved
//!   while it was looked for;
//! - catalogs that nothing is missing from, and nothing is left out of by other options than now;
//! - directories in which nothing is mounted: what is in them has its inode numbers from the file system that they are on.
//!
//! Of all others nothing is known.

use std::collections::HashMap;
use std::ops::Range;

use walk::entry::{Time, Type};
use walk::moment::may_be_since;
use walk::{Known, Meta, digest};

use crate::catalog::{Fault, Names, Reader};
use crate::changed::index::{each_group, hash};

/// Directories of a SRC, and their names.
#[derive(Debug, Default)]
pub(crate) struct Lent {
    groups: Vec<Group>,
    directories: Vec<Directory>,
    /// The directories, by what stands for their paths.
    places: HashMap<u64, u32>,
    /// What is in them, side by side for each.
    runs: Vec<Run>,
}

/// Of a row group, what is lent.
#[derive(Debug)]
struct Group {
    names: Names,
    inos: Vec<u64>,
    modes: Vec<u32>,
}

/// Rows one after the other that are in one directory.
#[derive(Clone, Debug)]
struct Run {
    dir: u64,
    group: usize,
    rows: Range<usize>,
}

/// What a directory was like.
#[derive(Clone, Debug)]
struct Directory {
    ino: u64,
    nlink: u32,
    ctime: Time,
    /// Where in [`Lent::runs`] that is which is in it.
    inside: Range<usize>,
}

/// What a row group says.
struct Piece {
    group: Group,
    runs: Vec<Run>,
    /// Its directories in their order: the one that each is in, itself, and what it was like.
    dirs: Vec<(u64, u64, Directory)>,
    /// Directories in which something is that cannot be lent.
    odd: Vec<u64>,
}

impl Lent {
    /// What is below the SRC `top` in a part of a catalog, which is the `nth` DIR of a walk now.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub(crate) fn of(reader: &Reader, (top, part): (u32, u32), nth: u32) -> Result<Lent, Fault> {
        let mut pieces: Vec<Option<Piece>> = (0..reader.groups()).map(|_| None).collect();
        let read = |group: usize| piece(reader, group, (top, part), nth);
        each_group(reader, read, |group, piece| pieces[group] = Some(piece))?;
        let (mut lent, mut odd) = (Lent::default(), Vec::new());
        for piece in pieces.into_iter().flatten() {
            lent.groups.push(piece.group);
            lent.runs.extend(piece.runs);
            odd.extend(piece.odd);
            // A directory comes before what is in it.
            for (parent, dir, directory) in piece.dirs {
                let is_safe = parent == hash(nth, b"") || lent.places.contains_key(&parent);
                // (What stands for a path may stand for another one, if somebody wants it to.)
                if is_safe && lent.places.insert(dir, lent.directories.len() as u32).is_some() {
                    odd.push(dir);
                }
                if is_safe {
                    lent.directories.push(directory);
                }
            }
        }
        for dir in odd {
            lent.places.remove(&dir);
        }
        lent.runs.sort_unstable_by_key(|run| run.dir);
        let mut begin = 0;
        for runs in lent.runs.chunk_by(|a, b| a.dir == b.dir) {
            let inside = begin..begin + runs.len();
            begin = inside.end;
            let place = lent.places.get(&runs[0].dir);
            if let Some(directory) = place.and_then(|&place| lent.directories.get_mut(place as usize)) {
                directory.inside = inside;
            }
        }
        Ok(lent)
    }
}

/// Takes from a row group what is in a SRC and in a part.
fn piece(reader: &Reader, group: usize, (top, part): (u32, u32), nth: u32) -> Result<Piece, Fault> {
    let at_rest_before = reader.about().at_rest_before();
    let (paths, names) = (reader.names(group, "dir")?, reader.names(group, "name")?);
    let (tops, parts) = (reader.numbers32(group, "top")?, reader.numbers32(group, "part")?);
    let (nlinks, inos, modes) =
        (reader.numbers32(group, "nlink")?, reader.numbers64(group, "ino")?, reader.numbers32(group, "mode")?);
    let (ctimes, ctimes_ns) = (reader.numbers64(group, "ctime")?, reader.numbers32(group, "ctime_ns")?);
    let (mut runs, mut dirs, mut odd) = (Vec::<Run>::new(), Vec::new(), Vec::new());
    let mut within: (&[u8], u64) = (b"", hash(nth, b""));
    for row in (0..names.len()).filter(|&row| tops[row] == top && !names[row].is_empty()) {
        if within.0 != &paths[row] {
            within = (&paths[row], hash(nth, &paths[row]));
        }
        let dir = within.1;
        if parts[row] != part || inos[row] == 0 || !is_name(&names[row]) {
            odd.push(dir);
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.dir == dir && run.rows.end == row => run.rows.end += 1,
            _ => runs.push(Run { dir, group, rows: row..row + 1 }),
        }
        let ctime = Time { sec: ctimes[row].cast_signed(), nsec: ctimes_ns[row] };
        if is_dir(modes[row]) && !may_be_since(ctime, at_rest_before) {
            let directory = Directory { ino: inos[row], nlink: nlinks[row], ctime, inside: 0..0 };
            dirs.push((dir, digest::below(dir, &names[row]), directory));
        }
    }
    Ok(Piece { group: Group { names, inos, modes }, runs, dirs, odd })
}

fn is_dir(mode: u32) -> bool {
    Type::of_mode(mode) == Type::Directory
}

/// Whether a directory can have such a name in it: a catalog may say anything.
fn is_name(name: &[u8]) -> bool {
    const LONGEST: usize = 255;
    name.len() <= LONGEST && !matches!(name, b"." | b"..") && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}

impl Known for Lent {
    fn find(&self, hash: u64) -> Option<u32> {
        self.places.get(&hash).copied()
    }

    fn names(&self, directory: u32, now: &Meta, each: &mut dyn FnMut(&[u8], u64, bool)) -> bool {
        let is_it =
            |then: &&Directory| now.is_dir() && (then.ino, then.nlink, then.ctime) == (now.ino, now.nlink, now.ctime);
        let Some(then) = self.directories.get(directory as usize).filter(is_it) else { return false };
        for run in &self.runs[then.inside.clone()] {
            let Group { names, inos, modes } = &self.groups[run.group];
            for row in run.rows.clone() {
                each(&names[row], inos[row], is_dir(modes[row]));
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use walk::{Desk, Dir, Entry, Sink};

    use super::*;
    use crate::catalog::{Options, write_rows};
    use crate::gather::Answer;
    use crate::rows::{Gathering, Source};

    fn file(ino: u64) -> Meta {
        Meta { ino, mode: 0o100_644, nlink: 1, ..Meta::default() }
    }

    fn dir(ino: u64) -> Meta {
        Meta { mode: 0o040_755, nlink: 2, ctime: Time { sec: 5, nsec: 7 }, ..file(ino) }
    }

    /// What is lent of a catalog in which there are these names in these directories below the top.
    fn lent(tree: &[(&str, &[(&str, Meta)])]) -> Lent {
        let desk = Desk::default();
        let source = Source { path: b"top".to_vec(), absolute: None, rows: 0..0 };
        let to = Gathering::new(vec![source], vec![0], None, false, &desk);
        to.worker().take(&Dir { path: b"top", hash: 0, depth: 0 }, &[Entry { name: b"", meta: dir(1) }]);
        for (path, entries) in tree {
            let (whole, hash) = (["top", path].join("/"), hash(0, path.as_bytes()));
            let dir = Dir { path: whole.trim_end_matches('/').as_bytes(), hash, depth: 0 };
            let entries = entries.iter().map(|&(name, meta)| Entry { name: name.as_bytes(), meta });
            to.worker().take(&dir, &entries.collect::<Vec<_>>());
        }
        let rows = to.finish(&Answer::default());
        let place = tempfile::tempdir().unwrap();
        let catalog = place.path().join("catalog");
        let catalog = catalog.as_os_str().as_bytes();
        write_rows(catalog, &rows, Options::default(), true, |_| true, |_| None).unwrap().publish().unwrap();
        Lent::of(&Reader::open(catalog).unwrap(), (0, 0), 0).unwrap()
    }

    /// The names in a directory, if they are lent, now that this is what it is like.
    fn names(lent: &Lent, path: &str, now: &Meta) -> Option<Vec<(String, u64, bool)>> {
        let mut names = Vec::new();
        let mut each = |name: &[u8], ino, is_dir| names.push((String::from_utf8(name.to_vec()).unwrap(), ino, is_dir));
        let is_known = lent.names(lent.find(hash(0, path.as_bytes()))?, now, &mut each);
        names.sort();
        is_known.then_some(names)
    }

    #[test]
    fn directories_that_are_as_they_were() {
        let lent = lent(&[
            ("", &[("a", dir(2)), ("b", dir(3)), ("f", file(4))]),
            ("a", &[("x", file(5)), ("m", dir(6)), ("z", file(7))]),
            ("a/m", &[("y", file(8))]),
        ]);
        let all = [("m", 6, true), ("x", 5, false), ("z", 7, false)].map(|(name, ino, is)| (name.to_owned(), ino, is));
        assert_eq!(names(&lent, "a", &dir(2)), Some(all.to_vec()));
        assert_eq!(names(&lent, "a/m", &dir(6)), Some(vec![("y".to_owned(), 8, false)]));
        assert_eq!(names(&lent, "b", &dir(3)), Some(Vec::new()));
        for other in [
            dir(3),
            Meta { nlink: 3, ..dir(2) },
            Meta { ctime: Time { sec: 5, nsec: 8 }, ..dir(2) },
            Meta { mode: 0o100_644, ..dir(2) },
        ] {
            assert_eq!(names(&lent, "a", &other), None, "{other:?}");
        }
        // The top is read in any case, and what is no directory has no names.
        assert_eq!((lent.find(hash(0, b"")), lent.find(hash(0, b"f"))), (None, None));
    }

    #[test]
    fn where_there_is_any_doubt_nothing_is_lent() {
        let later = Meta { ctime: Time { sec: i64::from(u32::MAX), nsec: 0 }, ..dir(2) };
        let elsewhere = Meta { dev: (7, 7).into(), ..file(10) };
        let lent = lent(&[
            ("", &[("moved", later), ("mount", dir(3)), ("torn", dir(4)), ("odd", dir(5)), ("good", dir(6))]),
            ("moved", &[("below", dir(7))]),
            ("mount", &[("on", elsewhere), ("beside", dir(8))]),
            ("torn", &[("gone", file(0))]),
            ("odd", &[("..", file(11))]),
        ]);
        for (path, now) in
            [("moved", later), ("moved/below", dir(7)), ("mount", dir(3)), ("torn", dir(4)), ("odd", dir(5))]
        {
            assert_eq!(names(&lent, path, &now), None, "{path}");
        }
        assert!(names(&lent, "mount/beside", &dir(8)).is_some() && names(&lent, "good", &dir(6)).is_some());
    }

    #[test]
    fn names_that_can_be() {
        assert!([&b"a"[..], b"...", b"\xff\n", &[b'n'; 255]].into_iter().all(is_name));
        assert!(![&b"."[..], b"..", b"a/b", b"/", b"a\0", &[b'n'; 256]].into_iter().any(is_name));
    }
}
