//! What was added, changed, removed and renamed since a catalog. docs/changed.md says what that
//! means.
//!
//! The cheapest way that is sound comes first: what the file system says of itself
//! ([`crate::token`]), and on btrfs what it knows to have been written since; then the digest of a
//! walk, for which no row of the catalog is looked at; and only when something differs, entry by
//! entry.
//!
//! | room | what is in it |
//! |---|---|
//! | `untouched` | the verdict by tokens |
//! | `written` | what a file system knows to have been written since, and no more, is compared |
//! | `index` | what the catalog says of each entry, small enough for all of them |
//! | `compare` | a sink that keeps what differs from that |
//! | `resolve` | what became of what |

use std::collections::BTreeMap;

use mounts::Warning;
use walk::{
    Both, Diagnostics, EngineKind, Filter, MountContext, NoWalk, Sink, Summary, Top,
    WalkOptions as Walk, WalkReport as Walked, mounts_around, open_top, walk,
};

use crate::catalog::read::BEGIN_ANEW;
use crate::catalog::{Catalog, Fault, Reader, Sealed};
use crate::part::Part;
use crate::shown;
use compare::{Compare, Found};
use index::{Index, by_group};
use resolve::{Outcome, resolve};
use written::Since;

mod compare;
pub(crate) mod index;
mod resolve;
pub(crate) mod untouched;
pub(crate) mod written;

/// What is asked.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// The directory, as it was given.
    pub dir: Vec<u8>,
    /// The catalog.
    pub since: Vec<u8>,
    /// The engine; `None` for the one that is best for each mount.
    pub by: Option<EngineKind>,
    /// Threads; `None` for as many as are good.
    pub threads: Option<usize>,
    /// Whether the catalog is to be replaced by one of what is there now.
    pub update: bool,
}

/// What became of an entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Change {
    /// There was nothing at its path, and it was nowhere else.
    Added,
    /// It is at its path, and is not as it was.
    Changed,
    /// Nothing is at its path any more, and it is nowhere else.
    Removed,
    /// It was at another path, where it is no more.
    Renamed,
}

/// An entry that is not as it was.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Changed {
    /// Its name below DIR; `.` for DIR itself.
    pub path: Vec<u8>,
    /// What became of it.
    pub change: Change,
    /// Its name as it was, if it was renamed.
    pub from: Option<Vec<u8>>,
    /// Whether it is (or was) a directory.
    pub is_dir: bool,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Answer {
    /// The engine that found it, by name.
    pub engine: &'static str,
    /// How.
    pub why: String,
    /// What is not as it was, by path.
    pub entries: Vec<Changed>,
    /// Files and directories below renamed directories that are otherwise as they were, by their
    /// names now, and whether they are directories: for tools that know of no renames.
    pub carried: Vec<(Vec<u8>, bool)>,
    /// What was skipped or found wrong.
    pub warnings: Vec<Warning>,
    /// With [`Question::update`], the new catalog, unless the old one is as good: to be published
    /// when the answer has been taken, since nobody can ask for it again afterwards.
    pub update: Option<Sealed>,
}

/// Why there is no answer.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The catalog cannot be read, is not of this directory, or cannot be written.
    Catalog(Fault),
    /// The directory cannot be walked.
    Walk(NoWalk),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Failure {
        Failure::Catalog(fault)
    }
}

/// Finds what has changed.
///
/// # Errors
/// Why it cannot be said. The catalog is as it was then.
pub fn changed(question: &Question, desk: &Diagnostics) -> Result<Answer, Failure> {
    let reader = Reader::open(&question.since)?;
    let about = reader.about();
    let top = open_top(&question.dir, 0).map_err(|e| Failure::Walk(NoWalk::Unusable(e)))?;
    let mounts = mounts_around(Some(&top));
    is_of(&reader, question, &top, &mounts)?;
    let filter =
        Filter::new(&about.options.excludes, about.options.max_depth).map_err(|e| Fault {
            doing: "cannot use catalog",
            path: question.since.clone(),
            error: e,
            next: "",
        })?;
    if let Some((by, why)) =
        untouched::untouched(about, std::slice::from_ref(&top), &mounts, |by| {
            question.by.is_none_or(|only| only == by)
        })
    {
        return Ok(Answer {
            engine: by.name(),
            why,
            ..Answer::default()
        });
    }
    let may_tell = !question.update && question.by.is_none_or(|by| written::by(about) == Some(by));
    let since = if may_tell {
        Since::of(&reader, &top, &mounts)?
    } else {
        None
    };
    let by = since.as_ref().map(Since::by);
    if let Some((by, mut differing)) =
        by.zip(since.map_or(Ok(None), |since| since.differing(&reader))?)
    {
        let index = Index::load_some(&reader, std::mem::take(&mut differing.places))?;
        let compare = Compare::new(&index, &question.dir, &about.parts);
        compare.begin(&MountContext::of(&top, top.mount(&mounts)), by);
        differing.hand_over(&question.dir, &compare);
        let found = compare.into_found();
        let (entries, carried) =
            named(&reader, &index, &found, &resolve(&reader, &index, &found)?)?;
        return Ok(Answer {
            engine: by.name(),
            why: differing.why,
            entries,
            carried,
            ..Answer::default()
        });
    }
    drop(top);

    let walk_to = |sink: &dyn walk::Sink| {
        let asked = Walk {
            dirs: vec![question.dir.clone()],
            by: question.by,
            threads: question.threads,
            one_file_system: about.options.one_file_system,
            filter: filter.clone(),
            expected: Some(about.entries),
            ..Walk::default()
        };
        walk(&asked, sink, desk).map_err(Failure::Walk)
    };
    // The digest says nothing of what was not at rest when it was read. For an update, one walk
    // does for both.
    if about.racy == 0 && !question.update {
        let sum = Summary::default();
        let walked = walk_to(&sum)?;
        let warnings = desk.take_warnings();
        if sum.totals().digest.to_string() == about.digest {
            let (engine, why) = said(&walked, "the digest of all entries is that of the catalog");
            return Ok(Answer {
                engine,
                why,
                warnings,
                ..Answer::default()
            });
        }
    }
    let index = Index::load(&reader)?;
    let compare = Compare::new(&index, &question.dir, &about.parts);
    let (walked, warnings, update) = if question.update {
        let catalog = Catalog::create(&question.since, &question.dir, about.options.clone())?;
        let walked = walk_to(&Both(&compare, &catalog))?;
        let warnings = desk.take_warnings();
        let sealed = catalog.seal(&walked, warnings.is_empty())?;
        (walked, warnings, Some(sealed))
    } else {
        (walk_to(&compare)?, desk.take_warnings(), None)
    };
    let found = compare.into_found();
    let outcomes = resolve(&reader, &index, &found)?;
    let (entries, carried) = named(&reader, &index, &found, &outcomes)?;
    let (engine, why) = said(&walked, "entries were compared with the catalog one by one");
    Ok(Answer {
        engine,
        why,
        entries,
        carried,
        warnings,
        update,
    })
}

fn said(walked: &Walked, how: &str) -> (&'static str, String) {
    walked
        .parts
        .first()
        .map_or(("stat", how.to_owned()), |part| {
            (part.by.name(), format!("{how}; {}", part.why))
        })
}

/// Sees that a catalog is of this directory.
fn is_of(
    reader: &Reader,
    question: &Question,
    top: &Top,
    mounts: &[ondisk::Mount],
) -> Result<(), Fault> {
    let about = reader.about();
    let refused = |error: String, next| Fault {
        doing: "cannot use catalog",
        path: question.since.clone(),
        error,
        next,
    };
    let Some(old) = about.parts.first() else {
        return Err(refused("it is damaged".to_owned(), BEGIN_ANEW));
    };
    let part = Part::of_ground(
        &question.dir,
        &MountContext::of(top, top.mount(mounts)),
        EngineKind::Stat,
    );
    let [root] = &about.roots[..] else {
        let error = format!(
            "it is of a dump of {} directories or files, and not of one directory",
            about.roots.len()
        );
        return Err(refused(error, "make one with fathom walk --catalog"));
    };
    let known = root.absolute.as_ref().unwrap_or(&root.path);
    if !old.is_same_file_system(&part) {
        let error = format!(
            "it is of '{}' on {}, and '{}' is now on another file system ({})",
            shown(known),
            describe(old),
            shown(&question.dir),
            describe(&part)
        );
        return Err(refused(
            error,
            "give the directory that it is of, or make a new catalog",
        ));
    }
    let is_same_name = root.absolute.is_some() && crate::absolute(&question.dir) == root.absolute;
    if old.ino != part.ino && !is_same_name {
        let error = format!(
            "it is of '{}', which is another directory than '{}'",
            shown(known),
            shown(&question.dir)
        );
        return Err(refused(
            error,
            "give the directory that it is of, or make a new catalog",
        ));
    }
    if about.options.excludes.iter().any(|glob| glob.contains('/')) && root.path != question.dir {
        let error = format!(
            "its --exclude patterns go by names that begin with '{}'",
            shown(&root.path)
        );
        return Err(refused(error, "give DIR by that name"));
    }
    Ok(())
}

fn describe(part: &Part) -> String {
    let fstype = shown(part.fstype.as_deref().unwrap_or(b"?"));
    match part.uuid {
        Some(uuid) => format!("{fstype} {:032x}", u128::from_be_bytes(uuid)),
        None => format!("{fstype} {:08x}{:08x}", part.fsid[0], part.fsid[1]),
    }
}

/// A name in a directory below DIR; `.` for DIR itself.
fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    match (dir, name) {
        (b"", b"") => b".".to_vec(),
        (b"", name) => name.to_vec(),
        (dir, name) => [dir, b"/", name].concat(),
    }
}

type Named = (Vec<Changed>, Vec<(Vec<u8>, bool)>);

/// Gives outcomes their names. Those of rows are read from the catalog, the row groups that are
/// wanted only.
fn named(
    reader: &Reader,
    index: &Index,
    found: &Found,
    outcomes: &[Outcome],
) -> Result<Named, Fault> {
    let mut places: Vec<u32> = outcomes
        .iter()
        .filter_map(|outcome| match *outcome {
            Outcome::Renamed(_, row) | Outcome::Removed(row) => Some(index.place(row)),
            _ => None,
        })
        .collect();
    places.sort_unstable();
    let mut names: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for (group, first, here) in by_group(reader, &places) {
        let (dirs, files) = (reader.names(group, "dir")?, reader.names(group, "name")?);
        for &place in here {
            let at = (u64::from(place) - first) as usize;
            names.insert(place, join(&dirs[at], &files[at]));
        }
    }
    let (mut entries, mut carried) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        let mut now = |at: usize, change, from| {
            let entry = &found.entries[at];
            entries.push(Changed {
                path: found.path(entry),
                change,
                from,
                is_dir: entry.is_dir,
            });
        };
        match *outcome {
            Outcome::Added(at) => now(at, Change::Added, None),
            Outcome::Changed(at) => now(at, Change::Changed, None),
            Outcome::Renamed(at, row) => now(at, Change::Renamed, names.remove(&index.place(row))),
            Outcome::Carried(at) => {
                carried.push((found.path(&found.entries[at]), found.entries[at].is_dir))
            }
            Outcome::Removed(row) => entries.push(Changed {
                path: names.remove(&index.place(row)).unwrap_or_default(),
                change: Change::Removed,
                from: None,
                is_dir: index.row(row).is_dir(),
            }),
        }
    }
    entries.sort_unstable();
    carried.sort_unstable();
    Ok((entries, carried))
}

/// How many of each there are.
pub fn count(entries: &[Changed], change: Change) -> usize {
    entries
        .iter()
        .filter(|entry| entry.change == change)
        .count()
}
