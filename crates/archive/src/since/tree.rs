//! The directories that are compared with a catalog, opened, and what is mounted in them.

use mounts::path::below;
use ondisk::Mount;
use walk::{MountContext, Top, mounts_around};

/// The directories that are compared with a catalog, and the mount table.
pub(crate) struct Tree {
    /// In the order of the catalog's roots. Empty to try neither tokens nor what was written.
    pub(crate) tops: Vec<Top>,
    pub(crate) mounts: Vec<Mount>,
}

impl Tree {
    pub(crate) fn new(tops: Vec<Top>) -> Tree {
        let mounts = match tops.first() {
            Some(top) => mounts_around(Some(top)),
            None => Vec::new(),
        };
        Tree { tops, mounts }
    }

    /// A directory with its mount and its file system.
    pub(crate) fn ground<'a>(&'a self, top: &'a Top) -> MountContext<'a> {
        MountContext::new(top, top.mount(&self.mounts))
    }

    /// The paths below a directory at which something is mounted; `None` if the table does not say.
    pub(crate) fn mounted_below(&self, top: &Top) -> Option<Vec<&[u8]>> {
        let absolute = mounts::root::name_of(&top.fd).ok()?;
        // A table without the mount of `top` (of another namespace) lacks those below it as well.
        top.mount(&self.mounts)?;
        let names = self
            .mounts
            .iter()
            .filter_map(|mount| below(&absolute, mount.target.as_deref()?));
        Some(names.filter(|name| !name.is_empty()).collect())
    }
}
