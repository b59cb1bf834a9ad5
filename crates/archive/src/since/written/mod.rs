//! Step 2: only what the file system says was written since is compared with the catalog.
//!
//! | module | contents |
//! |---|---|
//! | `btrfs` | the inodes that were written after a generation, with their names |
//! | `xfs` | of the inodes that the catalog knows, those that are not as it has them |
//! | `names` | compares the names in directories that were written with the catalog |
//! | `differing` | the result |
//!
//! The rest is as it was, but for its path: so the names in the directories among these inodes are
//! compared with the rows that the catalog has of them, and what is below a directory that was
//! renamed or removed differs as well (`names`). From these rows and entries alone, the comparison
//! entry by entry finds the same changes as from all.
//!
//! Nothing is assumed: where there is any doubt, there is no result, and everything is walked.

use crate::error::Error;
use walk::{EngineKind, MountContext};

use super::evidence::Evidence;
use super::tree::Tree;
use crate::catalog::{About, Options, Reader};
use crate::token::Token;

mod btrfs;
mod differing;
mod names;
mod xfs;

pub(crate) use differing::{Differing, give};

/// What was written since a catalog of a directory was made.
pub(super) enum Since<'a> {
    Btrfs(btrfs::Since<'a>),
    Xfs(xfs::Since<'a>),
}

impl<'a> Since<'a> {
    /// Asks the file system; `None` if it cannot tell, or a walk would be as fast.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub(super) fn ask(
        reader: &'a Reader,
        tree: &Tree,
        ground: &MountContext<'a>,
    ) -> Result<Option<Since<'a>>, Error> {
        let about = reader.about();
        let token = token(about).filter(|token| can_tell(about, token.engine(), tree, ground));
        Ok(match token {
            Some(Token::Btrfs(token)) => btrfs::Since::ask(token, ground, about).map(Since::Btrfs),
            Some(Token::Xfs(token)) => xfs::Since::ask(token, ground, reader)?.map(Since::Xfs),
            Some(Token::Ext4(_)) | None => None,
        })
    }

    /// Why nothing in the directory can have changed; `None` if something may have.
    pub(super) fn nothing(&self) -> Option<Evidence> {
        match self {
            Since::Btrfs(since) => since.is_outside().then_some(Evidence::NothingWritten),
            Since::Xfs(since) => since.is_nothing().then_some(Evidence::SameInodes),
        }
    }

    /// Compares what was written with the catalog; `None` if the result is in doubt.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub(super) fn differing(self, reader: &Reader) -> Result<Option<(Differing, Evidence)>, Error> {
        let (differing, evidence) = match self {
            Since::Btrfs(since) => {
                let evidence = Evidence::WrittenAfter(since.generation());
                (since.differing(reader)?, evidence)
            }
            Since::Xfs(since) => (since.differing(reader)?, Evidence::OtherInodes),
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
    let token = part.token.as_ref().filter(|_| is_all)?;
    (!matches!(token, Token::Ext4(_))).then_some(token)
}

/// The directory is the one that the catalog is of, nothing is mounted in it, and its engine works
/// there.
fn can_tell(about: &About, by: EngineKind, tree: &Tree, ground: &MountContext<'_>) -> bool {
    about
        .parts
        .first()
        .is_some_and(|part| part.ino == ground.top.meta.ino)
        && ground.mount.is_some()
        && walk::engine::engine(by).possible(ground).is_ok()
        && tree
            .mounted_below(ground.top)
            .is_some_and(|names| names.is_empty())
}
