//! Step 2: compares only inodes that were written since a catalog, according to the file system.
//!
//! All other inodes are unchanged, but may have a new path. So names in the written directories are
//! compared with the catalog's rows, and everything below a renamed or removed directory counts as
//! different (`names`). A comparison of only these rows and entries finds the same changes as a
//! comparison of all. In case of doubt, the whole tree is walked.

use walk::{EngineKind, MountContext};

use super::evidence::Evidence;
use super::tree::ComparedTree;
use crate::error::Error;
use crate::format::{About, Options, Reader};
use crate::token::Token;

mod btrfs;
mod differing;
mod inodes;
mod known;
mod names;

pub use differing::Differing;
pub(crate) use differing::emit_entries;

/// Inodes written since a catalog of a directory.
pub(super) enum ChangesSince<'a> {
    Btrfs(btrfs::SubvolumeChanges<'a>),
    /// ext4 and XFS.
    Inodes(inodes::InodeChanges<'a>),
}

impl<'a> ChangesSince<'a> {
    /// Asks the file system which inodes were written since the catalog; `None` if it cannot tell,
    /// or if a walk would be as fast. `few` is as in [`find_changes`](super::find_changes).
    pub(super) fn find_written(
        reader: &'a Reader,
        tree: &ComparedTree,
        context: &MountContext<'a>,
        few: fn(EngineKind, usize) -> usize,
    ) -> Result<Option<ChangesSince<'a>>, Error> {
        let about = reader.about();
        let token = token(about).filter(|token| can_tell(about, token.engine(), tree, context));
        Ok(match token {
            Some(Token::Btrfs(token)) => {
                btrfs::SubvolumeChanges::find_written(token, context, reader, few)?
                    .map(ChangesSince::Btrfs)
            }
            Some(tells @ (Token::Xfs(mount) | Token::Ext4(mount))) => {
                let by = tells.engine();
                inodes::InodeChanges::find_written(mount, context, reader, by, few)?
                    .map(ChangesSince::Inodes)
            }
            None => None,
        })
    }

    /// Evidence that nothing in the directory has changed; `None` if something may have.
    pub(super) fn is_nothing(&self) -> Option<Evidence> {
        match self {
            ChangesSince::Btrfs(since) => since.is_nothing(),
            ChangesSince::Inodes(since) => since.is_nothing().then_some(Evidence::SameInodes),
        }
    }

    /// Compares written inodes with the catalog; `None` in case of doubt.
    pub(super) fn differing(self, reader: &Reader) -> Result<Option<(Differing, Evidence)>, Error> {
        let (differing, evidence) = match self {
            ChangesSince::Btrfs(since) => {
                let evidence = Evidence::WrittenAfter(since.then);
                (since.differing(reader)?, evidence)
            }
            ChangesSince::Inodes(since) => (since.differing(reader)?, Evidence::OtherInodes),
        };
        Ok(differing.map(|differing| (differing, evidence)))
    }
}

/// The engine that may find the inodes written since a catalog.
pub(super) fn engine(about: &About) -> Option<EngineKind> {
    token(about).map(Token::engine)
}

/// The token of the catalog, if its tree is a single part on a suitable file system, and was walked
/// completely and without racy entries.
fn token(about: &About) -> Option<&Token> {
    let [part] = &about.parts[..] else {
        return None;
    };
    let all = Options {
        one_file_system: about.options.one_file_system,
        ..Options::default()
    };
    let is_all = about.complete && about.options == all && about.racy == 0;
    part.token.as_ref().filter(|_| is_all)
}

/// Whether the directory is that of the catalog and has no mounts below it, and the engine `by`
/// works there.
fn can_tell(
    about: &About,
    by: EngineKind,
    tree: &ComparedTree,
    context: &MountContext<'_>,
) -> bool {
    about.parts.first().map(|part| part.ino) == Some(context.top.meta.ino)
        && context.mount.is_some()
        && walk::engine::engine(by).possible(context).is_ok()
        && tree
            .mounted_below(context.top)
            .is_some_and(|mounts| mounts.is_empty())
}
