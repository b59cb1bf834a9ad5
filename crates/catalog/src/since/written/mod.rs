//! Step 2: only what the file system says was written since is compared with the catalog.
//!
//! The rest is as it was, but for its path: so the names in the directories among these inodes are
//! compared with the rows that the catalog has of them, and what is below a directory that was
//! renamed or removed differs as well (`names`). From these rows and entries alone, the comparison
//! entry by entry finds the same changes as from all. In any doubt, everything is walked.

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
pub(crate) use differing::give;

/// What was written since a catalog of a directory was made.
pub(super) enum Since<'a> {
    Btrfs(btrfs::Since<'a>),
    /// ext4 and XFS.
    Inodes(inodes::Since<'a>),
}

impl<'a> Since<'a> {
    /// Asks the file system; `None` if it cannot tell, or a walk would be as fast. `few` is
    /// [`Scan::few`](super::Scan::few).
    pub(super) fn ask(
        reader: &'a Reader,
        tree: &ComparedTree,
        context: &MountContext<'a>,
        few: fn(EngineKind, usize) -> usize,
    ) -> Result<Option<Since<'a>>, Error> {
        let about = reader.about();
        let token = token(about).filter(|token| can_tell(about, token.engine(), tree, context));
        Ok(match token {
            Some(Token::Btrfs(token)) => {
                btrfs::Since::ask(token, context, reader, few)?.map(Since::Btrfs)
            }
            Some(tells @ (Token::Xfs(mount) | Token::Ext4(mount))) => {
                let by = tells.engine();
                inodes::Since::ask(mount, context, reader, by, few)?.map(Since::Inodes)
            }
            None => None,
        })
    }

    /// Evidence that nothing in the directory has changed; `None` if something may have.
    pub(super) fn is_nothing(&self) -> Option<Evidence> {
        match self {
            Since::Btrfs(since) => since.is_nothing(),
            Since::Inodes(since) => since.is_nothing().then_some(Evidence::SameInodes),
        }
    }

    /// Compares what was written with the catalog; `None` if the result is in doubt.
    pub(super) fn differing(self, reader: &Reader) -> Result<Option<(Differing, Evidence)>, Error> {
        let (differing, evidence) = match self {
            Since::Btrfs(since) => {
                let evidence = Evidence::WrittenAfter(since.then);
                (since.differing(reader)?, evidence)
            }
            Since::Inodes(since) => (since.differing(reader)?, Evidence::OtherInodes),
        };
        Ok(differing.map(|differing| (differing, evidence)))
    }
}

/// The engine of the file system that may tell what was written since a catalog was made.
pub(super) fn engine(about: &About) -> Option<EngineKind> {
    token(about).map(Token::engine)
}

/// The token, if the tree is one part whose file system tells what was written, and was walked
/// completely and at rest.
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

/// The directory is the one that the catalog is of, nothing is mounted in it, and its engine works
/// there.
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
            .is_some_and(|names| names.is_empty())
}
