//! What a file system knows to have been written since: only that is held against the catalog.
//!
//! | | tells |
//! |---|---|
//! | [`btrfs`] | the inodes that were written after a generation, with their names |
//! | [`xfs`] | of the inodes that the catalog knows, those that are not as it has them |
//!
//! The rest is as it was, but for its path: so the names in the directories among them are held
//! against the rows that the catalog has of these, and what is below a directory that has come to
//! another path, or is gone, counts as well ([`look`]). With what these rows and entries give,
//! `resolve` comes to what it would with all; and with the other rows, they are all there is.
//!
//! Nothing is taken for granted: where there is any doubt, there is no answer, and everything is
//! walked.

use std::collections::{BTreeMap, HashMap, HashSet};

use gate::Errno;
use ondisk::Mount;
use walk::entry::{Time, joined};
use walk::{Dir, EngineKind, Entry, Meta, MountContext, Sink, Top, Worker};

use super::index::hash;
use super::untouched::mounted_below;
use crate::catalog::{About, Fault, Options, Reader};
use crate::token::engine;

mod btrfs;
mod look;
mod xfs;

/// What was written since a catalog of a directory was made.
pub(crate) enum Since<'a> {
    Btrfs(btrfs::Since<'a>),
    Xfs(xfs::Since<'a>),
}

impl<'a> Since<'a> {
    /// Asks for it; `None` where that cannot be told, or would not cost less than a walk.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub(crate) fn of(
        reader: &'a Reader,
        top: &'a Top,
        mounts: &[Mount],
    ) -> Result<Option<Since<'a>>, Fault> {
        let about = reader.about();
        let Some((by, token)) = token(about) else {
            return Ok(None);
        };
        let ground = MountContext::of(top, top.mount(mounts));
        if !can_tell(about, by, &ground, mounts) {
            return Ok(None);
        }
        Ok(match by {
            EngineKind::Btrfs => btrfs::Since::of(token, top, &ground, about).map(Since::Btrfs),
            _ => xfs::Since::of(token, top, &ground, reader)?.map(Since::Xfs),
        })
    }

    /// The engine that is the file system's.
    pub(crate) fn by(&self) -> EngineKind {
        match self {
            Since::Btrfs(_) => EngineKind::Btrfs,
            Since::Xfs(_) => EngineKind::Bulkstat,
        }
    }

    /// Why nothing in the directory can have changed; `None` where that is not so for certain.
    pub(crate) fn nothing(&self) -> Option<&'static str> {
        match self {
            Since::Btrfs(since) => since.is_outside().then_some(
                "nothing in the directory was written after the generation that the catalog is of",
            ),
            Since::Xfs(since) => since
                .is_nothing()
                .then_some("every inode is as the catalog has it"),
        }
    }

    /// Holds it against the catalog; `None` where it cannot be told what comes of it.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub(crate) fn differing(self, reader: &Reader) -> Result<Option<Differing>, Fault> {
        match self {
            Since::Btrfs(since) => since.differing(reader),
            Since::Xfs(since) => since.differing(reader),
        }
    }
}

/// What was written.
#[derive(Default)]
struct Written {
    inos: HashSet<u64>,
    /// Where the directories among it are now, below DIR.
    dirs: HashMap<u64, Vec<u8>>,
    /// What of it is there now.
    feed: Feed,
}

/// What there is that a catalog has not, or not so: all else is as its other rows say.
#[derive(Default)]
pub(crate) struct Differing {
    /// Places of rows that say nothing any more, which rise.
    pub(crate) places: Vec<u32>,
    feed: Feed,
    /// When others were last read, by their inodes, if not when the catalog says.
    pub(crate) atimes: HashMap<u64, Time>,
    /// How it was found.
    pub(crate) why: String,
}

/// Entries by the directory that they are in, below DIR.
type Feed = BTreeMap<Vec<u8>, Vec<(Vec<u8>, Meta)>>;

impl Differing {
    /// Hands over what there is, as a walk of `root` would.
    pub(crate) fn hand_over(&self, root: &[u8], to: &dyn Sink) {
        let mut worker = to.worker();
        for (dir, entries) in &self.feed {
            let entries: Vec<Entry<'_>> = entries
                .iter()
                .map(|(name, meta)| Entry { name, meta: *meta })
                .collect();
            give(&mut *worker, root, dir, &entries);
        }
    }
}

/// Why there is nothing to go by.
enum Doubt {
    /// Something is not as it must be.
    Strange,
    /// The catalog cannot be read.
    Catalog(Fault),
}

impl From<Fault> for Doubt {
    fn from(fault: Fault) -> Doubt {
        Doubt::Catalog(fault)
    }
}

impl From<Errno> for Doubt {
    fn from(_: Errno) -> Doubt {
        Doubt::Strange
    }
}

/// `None` where there is any doubt.
fn certain<T>(found: Result<T, Doubt>) -> Result<Option<T>, Fault> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Doubt::Strange) => Ok(None),
        Err(Doubt::Catalog(fault)) => Err(fault),
    }
}

/// Whether a walk of all knows as soon.
fn is_much(changes: usize, about: &About) -> bool {
    changes as u64 > about.entries / 4
}

/// The engine of the file system that may tell what was written since a catalog.
pub(crate) fn by(about: &About) -> Option<EngineKind> {
    token(about).map(|(by, _)| by)
}

/// The token to go by, if the tree is one part whose file system tells what was written, and was
/// walked whole and at rest.
fn token(about: &About) -> Option<(EngineKind, &str)> {
    let [part] = &about.parts[..] else {
        return None;
    };
    let all = Options {
        one_file_system: about.options.one_file_system,
        ..Options::default()
    };
    let is_all = about.complete && about.options == all && about.racy == 0;
    let token = part.token.as_deref().filter(|_| is_all)?;
    engine(token)
        .filter(|by| [EngineKind::Btrfs, EngineKind::Bulkstat].contains(by))
        .map(|by| (by, token))
}

/// Whether a directory is the one that a catalog is of, nothing is mounted in it, and the engine
/// for it can work there.
fn can_tell(about: &About, by: EngineKind, ground: &MountContext<'_>, mounts: &[Mount]) -> bool {
    about
        .parts
        .first()
        .is_some_and(|part| part.ino == ground.top.meta.ino)
        && ground.mount.is_some()
        && by.engine().possible(ground).is_ok()
        && mounted_below(ground.top, mounts).is_some_and(|names| names.is_empty())
}

/// Gives entries of a directory below `root`, as a walk of that does.
pub(crate) fn give(worker: &mut dyn Worker, root: &[u8], dir: &[u8], entries: &[Entry<'_>]) {
    let depth = dir
        .split(|&b| b == b'/')
        .filter(|part| !part.is_empty())
        .count() as u32;
    worker.take(
        &Dir {
            path: &joined(root, dir),
            hash: hash(0, dir),
            depth,
        },
        entries,
    );
}
