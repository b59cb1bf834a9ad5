//! The directories that are compared with a catalog, opened, and what is mounted in them.

use base::path::below;
use gate::fs::Open;
use gate::long::open_long;
use ondisk::Mount;
use walk::entry::joined;
use walk::{DirKey, EngineKind, MountContext, Top, mounts_around};

use crate::format::{About, Root};
use crate::part::Part;
use crate::token::Token;

/// The directories that are compared with a catalog, and the mount table.
pub struct ComparedTree {
    /// In the order of the catalog's roots. Empty to try neither tokens nor what was written.
    pub(crate) tops: Vec<Top>,
    pub(crate) mounts: Vec<Mount>,
}

impl ComparedTree {
    /// With the mounts around the first of its directories.
    pub fn new(tops: Vec<Top>) -> ComparedTree {
        let mounts = match tops.first() {
            Some(top) => mounts_around(Some(top)),
            None => Vec::new(),
        };
        ComparedTree { tops, mounts }
    }

    /// A directory with its mount and its file system.
    pub(crate) fn mount_context<'a>(&'a self, top: &'a Top) -> MountContext<'a> {
        MountContext::new(top, top.mount(&self.mounts))
    }

    /// The paths below a directory at which something is mounted; `None` if the table does not say.
    pub(super) fn mounted_below(&self, top: &Top) -> Option<Vec<&[u8]>> {
        let absolute = mounts::root::name_of(&top.fd).ok()?;
        // A table without the mount of `top` (of another namespace) lacks those below it as well.
        top.mount(&self.mounts)?;
        let targets = self.mounts.iter().filter_map(|it| it.target.as_deref());
        let names = targets.filter_map(|target| below(&absolute, target));
        Some(names.filter(|name| !name.is_empty()).collect())
    }

    /// The engine of the file system, if nothing can have changed since a catalog was made; `None`
    /// if something may have, or if an engine is not `accepted`.
    ///
    /// Nothing has changed if every part of the tree has a token, and the same one as in the
    /// catalog, and nothing else has been mounted. (An unmounted file system is a part without its
    /// token, and so is a mount that the walk did not enter.)
    pub(super) fn is_untouched(
        &self,
        about: &About,
        accepts: impl Fn(EngineKind) -> bool,
    ) -> Option<EngineKind> {
        let tokens = about.parts.iter().map(|part| part.token.as_ref());
        let tokens: Vec<&Token> = tokens.collect::<Option<_>>()?;
        if !tokens.iter().all(|token| accepts(token.engine())) {
            return None;
        }
        for (number, top) in (0..).zip(&self.tops) {
            let parts = about.parts.iter().filter(|part| part.top == number);
            let parts: Vec<&[u8]> = parts.map(|part| &part.path[..]).collect();
            if !self
                .mounted_below(top)?
                .iter()
                .all(|name| parts.contains(name))
            {
                return None;
            }
        }
        for (part, recorded) in about.parts.iter().zip(&tokens) {
            let path = joined(&self.tops.get(part.top as usize)?.path, &part.path);
            let fd = open_long(&path, Open::DIRECTORY | Open::NONBLOCK).ok()?;
            let top = Top::new(fd, path, DirKey::default()).ok()?;
            let now = || Token::take(&MountContext::new(&top, None));
            if top.meta.ino != part.ino || !now()?.is_same_state(recorded) {
                return None;
            }
        }
        tokens.first().map(|token| token.engine())
    }
}

/// Why a directory is not the one that a catalog is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OtherRoot {
    /// It is on a different file system.
    FileSystem,
    /// It is a different directory of the same file system.
    Directory,
}

/// Compares a directory with a root of a catalog, and with the part that begins there. A directory
/// with another inode number is the same root if it has the same absolute path: it was restored.
pub fn check_root(
    root: &Root,
    old: &Part,
    new: &Part,
    absolute: impl FnOnce() -> Option<Vec<u8>>,
) -> Result<(), OtherRoot> {
    let has_same_path = || root.absolute.is_some() && root.absolute == absolute();
    if !old.is_same_file_system(new) {
        Err(OtherRoot::FileSystem)
    } else if old.ino != new.ino && !has_same_path() {
        Err(OtherRoot::Directory)
    } else {
        Ok(())
    }
}
