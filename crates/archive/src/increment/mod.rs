//! Plans an increment: what must be dumped so that restoring the earlier dumps, and then this one,
//! gives the tree as it is now. The rules are those by which GNU tar restores an increment: see
//! docs/dump.md.
//!
//! | module | contents |
//! |---|---|
//! | [`levels`] | which catalog a dump of a level is based on |
//! | `compare` | compares the tree with the catalog: what becomes of each entry |
//! | `scan` | collects what there is now |
//! | `moves` | orders the renames of directories |

use crate::error::{Action, Error, ErrorKind};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::Write;

use crate::attribution::{self, Function};
use gate::Errno;
use gate::file::{Reader, Writer};
use gate::fs::{At, Want};
use gate::long::statx_long;
use mounts::Warning;
use ondisk::Dev;
use walk::entry::append;
use walk::{Diagnostics, Top, digest, open_top};

use crate::beside::both;
use crate::catalog::columns::{DIR, NAME, TOP};
use crate::catalog::{self, Options, Root};
use crate::gather::{self, Gathered};
use crate::part::Part;
use crate::plan::{Plan, Step, member_name};
use crate::rows::{Rows, Source};
use crate::since::index::{Identity, Index, NO_PART, by_group, print};
use crate::since::{Evidence, Tree, Verdict, check_root, find_changes};
use compare::{Fate, Now, Outcome, compare};
use moves::OldName;
use scan::DumpScan;

mod compare;
pub mod levels;
#[cfg(test)]
mod model;
mod moves;
mod scan;

/// The tree as it is now.
pub(crate) enum Collected {
    /// Nothing has changed since the base.
    Unchanged {
        parts: Vec<Gathered>,
        /// Entries that were read to find that out.
        looked_at: u64,
    },
    /// Something may have changed.
    Changed(Box<Planned>),
}

/// A tree, and what is to be written of it.
pub(crate) struct Planned {
    pub(crate) rows: Rows,
    pub(crate) parts: Vec<Gathered>,
    pub(crate) plan: Plan,
}

/// The base of an increment: the catalog of an earlier dump.
pub struct Base {
    path: Vec<u8>,
    reader: catalog::Reader,
}

impl Base {
    /// Opens a catalog, and checks that a dump of `sources` can be based on it.
    ///
    /// # Errors
    /// It cannot be read, or is of something else.
    pub fn open(path: &[u8], sources: &[Vec<u8>]) -> Result<Base, Error> {
        let base = Base {
            path: path.to_vec(),
            reader: catalog::Reader::open(path)?,
        };
        let roots = &base.reader.about().roots;
        let is_same =
            |(root, source): (&Root, &Vec<u8>)| in_archive(&root.path) == in_archive(source);
        if roots.len() != sources.len() || !roots.iter().zip(sources).all(is_same) {
            let roots = roots.iter().map(|root| root.path.clone()).collect();
            return Err(base.refused(ErrorKind::OtherSources { roots }));
        }
        Ok(base)
    }

    fn refused(&self, kind: ErrorKind) -> Error {
        Error::new(Action::UseBase, &self.path, kind)
    }

    /// The number of its entries.
    pub fn entries(&self) -> u64 {
        self.reader.about().entries
    }

    /// Collects the tree as it is now, or finds that nothing has changed.
    ///
    /// # Errors
    /// The tree or the catalog cannot be read.
    pub(crate) fn collect(
        &self,
        request: &gather::CollectOptions,
        options: &Options,
        desk: &Diagnostics,
    ) -> Result<Collected, Error> {
        let about = self.reader.about();
        let is_same_choice = about.options == *options && about.complete;
        let tops = request.sources.iter().enumerate();
        let tops: Result<Vec<Top>, _> = tops
            .filter(|_| is_same_choice)
            .map(|(nth, source)| open_top(source, nth))
            .collect();
        let scan = DumpScan {
            base: self,
            request,
            is_same_choice,
            desk,
        };
        let tree = Tree::new(tops.unwrap_or_default());
        Ok(match find_changes(&self.reader, tree, &scan)? {
            Verdict::Untouched { by, evidence } => Collected::Unchanged {
                parts: vec![scan.part(by, evidence.to_string())],
                looked_at: 0,
            },
            Verdict::SameDigest((_, gathered)) => {
                let mut parts = gathered.parts;
                for part in &mut parts {
                    part.why = format!("{}; {}", Evidence::SameDigest, part.why);
                }
                Collected::Unchanged {
                    parts,
                    looked_at: self.entries(),
                }
            }
            Verdict::Unknown((gathering, gathered)) => {
                let (rows, index) = both(
                    || gathering.finish(gathered.engines()),
                    || Index::load(&self.reader),
                );
                attribution::set_phase(Function::Other);
                let plan = self.plan(&rows, index?)?;
                let parts = gathered.parts;
                Collected::Changed(Box::new(Planned { rows, parts, plan }))
            }
        })
    }

    /// Copies the catalog to `path`, atomically, unless that is the same file.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn copy_to(&self, path: &[u8]) -> Result<(), Error> {
        let read = |errno: Errno| Error::new(Action::ReadCatalog, &self.path, errno);
        let write = |errno: Errno| Error::new(Action::WriteCatalog, path, errno);
        let identity = |path: &[u8]| {
            statx_long(path, At::empty(), Want::BASIC_STATS).map(|seen| (seen.dev, seen.ino))
        };
        if identity(path).is_ok() && identity(path) == identity(&self.path) {
            return Ok(());
        }
        let from = Reader::open(&self.path).map_err(read)?;
        let mut to = Writer::create(path).map_err(write)?;
        let (mut piece, mut at) = (vec![0; 1 << 20], 0);
        loop {
            let n = from.read_at(at, &mut piece).map_err(read)?;
            if n == 0 {
                return to.publish().map_err(write);
            }
            to.write_all(&piece[..n])
                .map_err(|e| Error::new(Action::WriteCatalog, path, e))?;
            at += n as u64;
        }
    }

    /// Plans what must be dumped of the tree.
    ///
    /// # Errors
    /// The catalog cannot be read, or is of other directories.
    fn plan(&self, rows: &Rows, index: Index) -> Result<Plan, Error> {
        self.is_of(rows.sources(), rows.parts())?;
        self.are_directories_still(rows, &index)?;
        let parts: Vec<u32> = rows
            .parts()
            .iter()
            .map(|part| part.among(&self.reader.about().parts).unwrap_or(NO_PART))
            .collect();
        let entry = |row: u32| {
            let row = row as usize;
            let meta = rows.meta(row);
            let identity =
                Identity::from_meta(parts.get(rows.part(row)).copied().unwrap_or(NO_PART), &meta);
            Now {
                parent: rows.parent(row).map(|parent| parent as u32),
                name: rows.name(row),
                identity,
                print: print(identity.who, &meta),
                is_dir: meta.is_dir(),
                nlink: meta.nlink,
            }
        };
        let top = |row: u32| digest::top(rows.top(row as usize));
        let names = |wanted: &[u32]| self.names(wanted);
        let outcome = compare(
            rows.len() as u32,
            entry,
            rows.directories(),
            top,
            &index,
            names,
        )?;
        drop(index);
        let mut plan = planned(rows, &outcome);
        plan.kept_as = outcome.rows;
        Ok(plan)
    }

    /// Checks that each SRC is still the same directory, or has the same path.
    fn is_of(&self, sources: &[Source], parts: &[Part]) -> Result<(), Error> {
        let about = self.reader.about();
        let begins = |parts: &[Part], top: u32| {
            parts
                .iter()
                .find(|part| part.top == top && part.path.is_empty() && part.engine.is_some())
                .cloned()
        };
        for ((nth, source), root) in (0..).zip(sources).zip(&about.roots) {
            let (Some(old), Some(new)) = (begins(&about.parts, nth), begins(parts, nth)) else {
                continue;
            };
            if check_root(root, &old, &new, || source.absolute.clone()).is_err() {
                return Err(self.refused(ErrorKind::ReplacedSource {
                    source_path: source.path.clone(),
                }));
            }
        }
        Ok(())
    }

    /// Checks that no SRC has become a directory or ceased to be one: no dumpdir lists a SRC, so
    /// none could have the old one removed.
    fn are_directories_still(&self, rows: &Rows, index: &Index) -> Result<(), Error> {
        for (nth, source) in rows.sources().iter().enumerate() {
            let was_dir = index
                .find(digest::top(nth))
                .map(|row| index.row(row).is_dir());
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

    /// Reads the names of some rows of the catalog, below their SRC, and the hash of that.
    fn names(&self, wanted: &[u32]) -> Result<Vec<(u64, OldName)>, Error> {
        let mut named = Vec::with_capacity(wanted.len());
        for (group, first, here) in by_group(&self.reader, wanted) {
            let (dirs, names) = (
                self.reader.read(DIR, group)?,
                self.reader.read(NAME, group)?,
            );
            let tops = self.reader.read(TOP, group)?;
            for &place in here {
                let at = (u64::from(place) - first) as usize;
                let name = (dirs[at].to_vec(), names[at].to_vec());
                named.push((digest::top(tops[at] as usize), name));
            }
        }
        Ok(named)
    }

    /// Reads the checksums of some rows of the catalog. Each row comes with a number that `take`
    /// gets back.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub(crate) fn hashes(
        &self,
        mut wanted: Vec<(u32, usize)>,
        mut take: impl FnMut(usize, [u8; 32]),
    ) -> Result<(), Error> {
        wanted.sort_unstable();
        let places: Vec<u32> = wanted.iter().map(|(row, _)| *row).collect();
        let mut left = &wanted[..];
        for (group, first, here) in by_group(&self.reader, &places) {
            let (these, later) = left.split_at(here.len());
            let known = self.reader.hashes(group)?;
            for (row, number) in these {
                known
                    .get((u64::from(*row) - first) as usize)
                    .copied()
                    .flatten()
                    .into_iter()
                    .for_each(|hash| take(*number, hash));
            }
            left = later;
        }
        Ok(())
    }
}

/// What the names of a SRC begin with in an archive.
fn in_archive(path: &[u8]) -> &[u8] {
    let name = member_name(path);
    &name[..name.iter().rposition(|&b| b != b'/').map_or(0, |at| at + 1)]
}

/// Turns the outcome of a comparison into a plan.
fn planned(rows: &Rows, outcome: &Outcome) -> Plan {
    let mut plan = Plan::increment(rows.len());
    // Of a dumped file with several names, the first is the file, and the others are links to it.
    let mut first: HashMap<(Dev, u64), usize> = HashMap::new();
    for (row, fate) in outcome.fates.iter().enumerate() {
        let step = match fate {
            Fate::Kept => continue,
            Fate::Link => outcome
                .links
                .get(&(row as u32))
                .map_or(Step::Whole, |to| Step::Link(*to as usize)),
            Fate::Dumped | Fate::Replaces => Step::Whole,
        };
        if *fate == Fate::Replaces {
            plan.set_replacing(row);
        }
        let earlier = (step == Step::Whole && rows.is_linked(row))
            .then(|| rows.meta(row))
            .map(|meta| *first.entry((meta.dev, meta.ino)).or_insert(row))
            .filter(|earlier| *earlier != row);
        plan.set(row, earlier.map_or(step, Step::Link));
    }
    let renames = outcome.steps.iter().map(|step| {
        let source = rows.sources().get(rows.top(step.top as usize));
        let begin = source.map_or(&b""[..], |source| in_archive(&source.path));
        let member = |path: &[u8]| {
            let mut name = begin.to_vec();
            append(&mut name, path);
            name
        };
        (member(&step.from), member(&step.to))
    });
    if let Some(carrier) = rows
        .sources()
        .iter()
        .map(|source| source.rows.start)
        .find(|&row| row < rows.len() && rows.is_dir(row))
    {
        plan.set_renames(carrier, renames.collect());
    }
    (plan.removed, plan.renamed) = (outcome.removed, outcome.renamed);
    plan
}

/// Protects what could not be read: restoring the increment must not remove it, and the next
/// increment must not take it for known.
pub(crate) fn spare_unseen(rows: &Rows, skipped: &[Warning], plan: &mut Plan) {
    let failed = skipped.iter().filter(|skipped| skipped.gate.is_some());
    let paths: HashSet<&[u8]> = failed
        .filter_map(|skipped| skipped.path.as_deref())
        .collect();
    if paths.is_empty() {
        return;
    }
    let mut within: HashMap<&[u8], BTreeSet<&[u8]>> = HashMap::new();
    for path in &paths {
        if let Some(slash) = path.iter().rposition(|&b| b == b'/') {
            // In a SRC that ends in a slash, or below it.
            within
                .entry(&path[..slash])
                .or_default()
                .insert(&path[slash + 1..]);
            within
                .entry(&path[..=slash])
                .or_default()
                .insert(&path[slash + 1..]);
        }
    }
    let mut path = Vec::new();
    for row in rows.directories().map(|row| row as usize) {
        rows.path(row, &mut path);
        if paths.contains(&path[..]) {
            plan.set(row, Step::Whole);
            plan.set_blind(row);
        }
        if let Some(mut unseen) = within.remove(&path[..]) {
            unseen.retain(|name| rows.children(row).all(|child| rows.name(child) != *name));
            unseen
                .into_iter()
                .for_each(|name| plan.add_unseen(row, name));
        }
    }
}
