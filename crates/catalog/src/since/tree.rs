//! The directories compared with a catalog, open, and the mounts in them.

use base::path::below;
use gate::fs::Open;
use gate::long::open_long;
use mounts::doubt::doubtful;
use ondisk::Mount;
use walk::entry::joined;
use walk::{DirKey, EngineKind, MountContext, Top, mounts_around};

use crate::format::{About, Root};
use crate::part::Part;
use crate::token::Token;

/// The directories compared with a catalog, and the mount table.
pub struct ComparedTree {
    /// Open directories, in the order of the catalog's roots. If the list is empty, neither tokens
    /// nor written inodes are compared.
    pub(crate) tops: Vec<Top>,
    pub(crate) mounts: Vec<Mount>,
}

impl ComparedTree {
    /// Reads the mount table around the first directory.
    pub fn new(tops: Vec<Top>) -> ComparedTree {
        let mounts = match tops.first() {
            Some(top) => mounts_around(Some(top)),
            None => Vec::new(),
        };
        ComparedTree { tops, mounts }
    }

    /// A directory with its mount and file system.
    pub(crate) fn mount_context<'a>(&'a self, top: &'a Top) -> MountContext<'a> {
        MountContext::new(top, top.mount(&self.mounts))
    }

    /// The mounts below a directory, with the relative paths of their mount points; `None` if the
    /// mount table is of another namespace.
    pub(super) fn mounted_below(&self, top: &Top) -> Option<Vec<(&[u8], &Mount)>> {
        let absolute = mounts::root::name_of(&top.fd).ok()?;
        // A table without the mount of `top` (of another namespace) has no mounts below it, either.
        top.mount(&self.mounts)?;
        let named = self
            .mounts
            .iter()
            .filter_map(|it| Some((below(&absolute, it.target.as_deref()?)?, it)));
        Some(named.filter(|(name, _)| !name.is_empty()).collect())
    }

    /// The engine of the file system, if nothing can have changed since a catalog; `None` if
    /// something may have changed, or if `accepts` rejects an engine.
    ///
    /// Nothing has changed if every part of the catalog has a token, if its file system still has
    /// the same token, and if no other file system has been mounted. (An unmounted file system is a
    /// part with a different token, and a mount that the walk did not enter is a part without a
    /// token.)
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
        let doubtful = doubtful(&self.mounts);
        for (number, top) in (0..).zip(&self.tops) {
            let parts = about.parts.iter().filter(|part| part.top == number);
            let parts: Vec<&[u8]> = parts.map(|part| &part.path[..]).collect();
            // A network or FUSE mount at the path of a part with a token is a different file
            // system, and its server may not answer.
            let is_known = |(name, mount): &(&[u8], &Mount)| {
                parts.contains(name) && !doubtful.contains(&mount.id)
            };
            if !self.mounted_below(top)?.iter().all(is_known) {
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

/// Why a directory is not the root of a catalog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OtherRoot {
    /// The directory is on a different file system.
    FileSystem,
    /// The directory is a different one on the same file system.
    Directory,
}

/// Compares a directory with a root of a catalog, and with the part that begins there. A different
/// inode number is accepted at the same absolute path: the directory may have been restored.
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
