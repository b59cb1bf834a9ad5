//! The base of an increment: the catalog of an earlier dump.

use base::path::or_dot;
use catalog::columns::{DIR, MODE, NAME, TOP};
use catalog::compare::OldName;
use catalog::part::Part;
use catalog::rows::{Rows, Source};
use catalog::since::index::{Index, by_group, each_group};
use catalog::since::{GoneMount, OtherRoot, check_root, missed_mounts};
use catalog::{self, About, Root, ShardOfRun, copy};
use gate::fs::StatxMask;
use gate::long::stat_long;
use ondisk::pax::{self, dumpdir::Code};
use walk::{FileType, path_id};

use super::levels::{Level, MOST};
use crate::error::{Action, Error, ErrorKind};
use crate::plan::{ListedName, in_archive};

/// The base of an increment: the catalog of an earlier dump.
pub(crate) struct Base {
    path: Vec<u8>,
    pub(super) reader: catalog::Reader,
}

impl Base {
    /// Opens a catalog, and checks that a dump of `sources` can be based on it.
    pub(crate) fn open(path: &[u8], sources: &[Vec<u8>]) -> Result<Base, Error> {
        let base = Base {
            path: path.to_vec(),
            reader: catalog::Reader::open(path)?,
        };
        base.reader
            .check_trusted()
            .map_err(|kind| base.refused(kind.into()))?;
        let roots = &base.reader.about().roots;
        let is_same =
            |(root, source): (&Root, &Vec<u8>)| in_archive(&root.path) == in_archive(source);
        if roots.len() != sources.len() || !roots.iter().zip(sources).all(is_same) {
            if base.reader.about().options.files_from {
                return Err(base.refused(catalog::ErrorKind::OnlyListed.into()));
            }
            let roots = roots.iter().map(|root| root.path.clone()).collect();
            return Err(base.refused(ErrorKind::OtherSources { roots }));
        }
        let part = base.about().options.shard.as_ref();
        if let Some(refusal) = part.and_then(ShardOfRun::refusal) {
            return Err(base.refused(refusal.into()));
        }
        if let Some(shard) = part.and_then(ShardOfRun::shard) {
            return Err(base.refused(catalog::ErrorKind::OnlyShard(shard).into()));
        }
        Ok(base)
    }

    /// Refuses a full dump into a state directory with dumps of different trees, because it would
    /// replace the base of their increments. One common SRC is enough, since SRCs may be added and
    /// dropped. Unreadable catalogs are ignored, since the dump replaces them.
    pub(crate) fn check_full(level: &Level, sources: &[Vec<u8>]) -> Result<(), Error> {
        let levels = (0..=MOST).map(|number| Level {
            number,
            ..level.clone()
        });
        let mut catalogs = levels.map(|level| catalog::Reader::open(&level.catalog()));
        let Some(old) = catalogs.find_map(Result::ok) else {
            return Ok(());
        };
        let roots = old.about().roots.iter().map(|root| root.path.clone());
        let roots: Vec<Vec<u8>> = roots.collect();
        let is_same = |root: &Vec<u8>| {
            sources
                .iter()
                .any(|source| in_archive(source) == in_archive(root))
        };
        match roots.iter().any(is_same) {
            true => Ok(()),
            false => Err(Error::new(
                Action::OpenState,
                &level.state,
                ErrorKind::OtherSources { roots },
            )),
        }
    }

    pub(super) fn refused(&self, kind: ErrorKind) -> Error {
        Error::new(Action::UseBase, &self.path, kind)
    }

    pub(crate) fn about(&self) -> &About {
        self.reader.about()
    }

    pub(crate) fn entries(&self) -> u64 {
        self.reader.about().entries
    }

    /// The archive that must be restored before an increment with this base.
    pub(crate) fn archive(&self) -> pax::Base {
        let id = self.about().archive;
        id.map_or(pax::Base::Unknown, pax::Base::Archive)
    }

    /// Copies the catalog to `path`, atomically, with the tokens of `renewed` and the changes of
    /// `describe`. With current tokens, the next increment need not check again the files that were
    /// only read since the base. Nothing is written if `path` is the same file and nothing is new.
    pub(crate) fn copy_to(
        &self,
        path: &[u8],
        renewed: &[Part],
        describe: impl FnOnce(&mut About),
    ) -> Result<(), Error> {
        let mut about = self.reader.about().clone();
        describe(&mut about);
        for part in &mut about.parts {
            let is_same = |new: &&Part| {
                (new.top, &new.path, new.ino) == (part.top, &part.path, part.ino)
                    && part.is_same_file_system(new)
            };
            if let Some(new) = renewed.iter().find(is_same) {
                match part.is_identical(new) {
                    true => part.token = new.token.clone().or(part.token.take()),
                    false => *part = new.clone(), // a newer snapshot
                }
            }
        }
        let identity = |path: &[u8]| {
            let seen = stat_long(path, StatxMask::BASIC_STATS).ok()?;
            Some((seen.dev, seen.ino))
        };
        let here = identity(path);
        if here.is_some() && here == identity(&self.path) && about == *self.reader.about() {
            return Ok(());
        }
        Ok(copy(&self.reader, &about, path)?)
    }

    pub(crate) fn missed_mounts(&self, rows: Option<&Rows>) -> Result<Vec<GoneMount>, Error> {
        Ok(missed_mounts(&self.reader, self.about(), rows)?)
    }

    /// Checks that each SRC is still the same directory, or has the same path.
    pub(super) fn check_sources(&self, sources: &[Source], parts: &[Part]) -> Result<(), Error> {
        let about = self.reader.about();
        let top_part = |parts: &[Part], top: u32| {
            let is_top =
                |part: &&Part| part.top == top && part.path.is_empty() && part.engine.is_some();
            parts.iter().find(is_top).cloned()
        };
        for ((nth, source), root) in (0..).zip(sources).zip(&about.roots) {
            let (Some(old), Some(new)) = (top_part(&about.parts, nth), top_part(parts, nth)) else {
                continue;
            };
            let checked = check_root(root, &old, &new, || source.absolute.clone());
            if let Err(other) = checked {
                return Err(self.refused(ErrorKind::ReplacedSource {
                    is_other_file_system: other == OtherRoot::FileSystem,
                    source_path: or_dot(&source.path).to_vec(),
                }));
            }
        }
        Ok(())
    }

    /// Checks that no SRC has changed from a directory to a file or back: no dumpdir lists a SRC,
    /// so a restore would not remove the old one.
    pub(super) fn check_source_types(&self, rows: &Rows, index: &Index) -> Result<(), Error> {
        for (nth, source) in rows.sources().iter().enumerate() {
            let old = index.find(path_id::top(nth));
            let was_dir = old.map(|row| index.row(row).is_dir());
            let is_dir = source.rows.start < rows.len() && rows.is_dir(source.rows.start);
            if was_dir.is_some_and(|was_dir| was_dir != is_dir) {
                return Err(self.refused(ErrorKind::SourceChangedType {
                    source_path: source.path.clone(),
                    is_directory: is_dir,
                }));
            }
        }
        Ok(())
    }

    /// Reads the names of some rows of the catalog, each relative to its SRC, and the hash of that
    /// SRC.
    pub(super) fn names(&self, wanted: &[u32]) -> Result<Vec<(u64, OldName)>, catalog::Error> {
        let mut named = Vec::with_capacity(wanted.len());
        for (group, first, here) in by_group(&self.reader, wanted) {
            let dirs = self.reader.read(DIR, group)?;
            let names = self.reader.read(NAME, group)?;
            let tops = self.reader.read(TOP, group)?;
            for &place in here {
                let at = (u64::from(place) - first) as usize;
                let name = (dirs[at].to_vec(), names[at].to_vec());
                named.push((path_id::top(tops[at] as usize), name));
            }
        }
        Ok(named)
    }

    /// Reads the entries of each SRC, in the form of a dumpdir of an increment without changes.
    pub(crate) fn lists_of_sources(&self) -> Result<Vec<Vec<ListedName>>, Error> {
        let mut lists = vec![Vec::new(); self.about().roots.len()];
        let read = |group: usize| {
            let dirs = self.reader.read(DIR, group)?;
            let here = (0..self.reader.rows(group)).filter(|&at| dirs[at].is_empty());
            let here: Vec<usize> = here.collect();
            // Most row groups of a deep tree have no entries directly below a SRC.
            if here.is_empty() {
                return Ok(Vec::new());
            }
            let (names, tops) = (
                self.reader.read(NAME, group)?,
                self.reader.read(TOP, group)?,
            );
            let modes = self.reader.read(MODE, group)?;
            let listed = here.into_iter().filter_map(|at| {
                let code = match FileType::from_mode(modes[at]) {
                    _ if names[at].is_empty() => return None,
                    FileType::Socket => return None,
                    FileType::Directory => Code::D,
                    _ => Code::N,
                };
                Some((tops[at], (code, names[at].to_vec())))
            });
            Ok(listed.collect::<Vec<_>>())
        };
        each_group(&self.reader, read, |_, listed| {
            for (top, entry) in listed {
                if let Some(list) = lists.get_mut(top as usize) {
                    list.push(entry);
                }
            }
        })?;
        Ok(lists)
    }

    /// Reads the checksums of some rows of the catalog. Each row has a number that is passed to
    /// `take` with the checksum.
    pub(crate) fn hashes(
        &self,
        mut wanted: Vec<(u32, usize)>,
        mut take: impl FnMut(usize, [u8; 32]),
    ) -> Result<(), catalog::Error> {
        wanted.sort_unstable();
        let places: Vec<u32> = wanted.iter().map(|(row, _)| *row).collect();
        let mut left = &wanted[..];
        for (group, first, here) in by_group(&self.reader, &places) {
            let (these, later) = left.split_at(here.len());
            let known = self.reader.hashes(group)?;
            for (row, number) in these {
                if let Some(hash) = known[(u64::from(*row) - first) as usize] {
                    take(*number, hash);
                }
            }
            left = later;
        }
        Ok(())
    }
}
