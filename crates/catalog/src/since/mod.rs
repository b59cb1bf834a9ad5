//! Finds changes since a catalog: the steps that `changed` and `dump --since` share. The cheapest
//! step that can decide comes first:
//!
//! 1. Every file system has the same token as then ([`crate::token`]), so nothing can have changed.
//!    No entry is read.
//! 2. `written`: btrfs reports the inodes written since, and only these are read; ext4 and XFS
//!    report all inodes without names, which are compared with the catalog.
//! 3. The digest: the whole tree is walked, and its digest is compared with the catalog's. No row
//!    of the catalog is read.
//! 4. All entries are compared one by one, with `index`.
//!
//! [`find_changes`] takes the first two steps; `changed` and `dump` take the other steps
//! themselves.

use walk::{EngineKind, MountContext};

use crate::error::Error;
use crate::format::Reader;

mod evidence;
mod gone;
pub mod index;
mod tree;
mod written;

pub use evidence::{Evidence, Reason};
pub use gone::GoneMount;
pub use gone::{MountPoints, TreeNow, gone_mounts, missed_mounts};
pub use tree::{ComparedTree, OtherRoot, check_root};
pub use written::Differing;
pub(crate) use written::emit_entries;

/// A step that only some engines support.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineStep {
    /// Compare the token of the file system with that of the catalog.
    Token,
    /// Ask the file system which inodes were written since the catalog.
    Written,
}

/// Entries written since a catalog.
pub struct Written<'a> {
    /// The engine that found the changes.
    pub by: EngineKind,
    /// The evidence for the changes.
    pub evidence: Evidence,
    /// The mount of the tree.
    pub context: MountContext<'a>,
    /// Rows that are no longer valid, and the new entries.
    pub differing: Differing,
}

/// The result of the first two steps.
pub enum Proof<'a, S> {
    /// Nothing has changed, and no entry was read.
    Untouched {
        /// The engine that found that nothing has changed.
        by: EngineKind,
        /// The evidence that nothing has changed.
        evidence: Evidence,
        /// The prepared state; `None` if the tokens are those of the catalog.
        started: Option<S>,
    },
    /// All entries are as in the catalog, except the given ones.
    Written(S, Written<'a>),
    /// The whole tree must be walked.
    Unknown,
}

/// Takes the first two steps in the list of this module, until one of them gives a result.
///
/// - `accepts` tells whether a step may be taken with an engine.
/// - `few` is the maximum number of changes, among a number of entries, for which comparing inodes
///   is faster than a walk. Changes are expensive: finding the paths of inodes requires reading
///   directories.
/// - `start` prepares a scan before the file system is asked which inodes were written; it returns
///   `None` to walk the tree instead.
pub fn find_changes<'a, S>(
    catalog: &Reader,
    tree: &'a ComparedTree,
    accepts: impl Fn(EngineStep, EngineKind) -> bool,
    few: fn(EngineKind, usize) -> usize,
    start: impl FnOnce(&MountContext<'_>, EngineKind) -> Option<S>,
) -> Result<Proof<'a, S>, Error> {
    let about = catalog.about();
    if let Some(by) = tree.is_untouched(about, |by| accepts(EngineStep::Token, by)) {
        return Ok(Proof::Untouched {
            by,
            evidence: Evidence::Token(by),
            started: None,
        });
    }
    let [top] = &tree.tops[..] else {
        return Ok(Proof::Unknown);
    };
    if about.options.shard.is_some() {
        return Ok(Proof::Unknown); // an inode does not reveal its shard
    }
    let by = written::engine(about).filter(|&by| accepts(EngineStep::Written, by));
    let context = tree.mount_context(top);
    let Some((by, started)) = by.and_then(|by| Some((by, start(&context, by)?))) else {
        return Ok(Proof::Unknown);
    };
    let Some(since) = written::ChangesSince::find_written(catalog, tree, &context, few)? else {
        return Ok(Proof::Unknown);
    };
    if let Some(evidence) = since.is_nothing() {
        return Ok(Proof::Untouched {
            by,
            evidence,
            started: Some(started),
        });
    }
    let Some((differing, evidence)) = since.differing(catalog)? else {
        return Ok(Proof::Unknown);
    };
    let written = Written {
        by,
        evidence,
        context,
        differing,
    };
    Ok(Proof::Written(started, written))
}
