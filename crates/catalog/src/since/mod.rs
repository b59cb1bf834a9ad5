//! What has changed since a catalog was made: the steps that `changed` and `dump --since` share. The
//! cheapest step that can tell comes first:
//!
//! 1. Every file system has the token that it had then ([`crate::token`]), so that nothing can have
//!    changed. No entry is read.
//! 2. `written`: btrfs tells which inodes were written since, and only these are read; ext4 and XFS give all
//!    inodes without their names, to be compared with those of the catalog.
//! 3. The digest: everything is walked, and the digest of the walk compared with the catalog's. No
//!    row of the catalog is read.
//! 4. Everything is compared entry by entry, by `index`. The two commands do that on their own.

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
pub use gone::{TreeNow, gone_mounts, missed_mounts};
pub use tree::{ComparedTree, OtherRoot, check_root};
pub use written::Differing;
pub(crate) use written::give;

/// A step that only some engines can take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineStep {
    /// The state of the file system is the one of the catalog.
    Token,
    /// The file system says what was written since.
    Written,
}

/// How a command reads the tree.
pub trait Scan {
    /// What is prepared before a file system is asked what was written.
    type Started;
    /// What was read.
    type Scanned;

    /// The step may be taken, with this engine.
    fn accepts(&self, step: EngineStep, by: EngineKind) -> bool;

    /// The changes of so many entries up to which an engine that compares inodes finds what was written faster
    /// than a walk does. Finding them costs much: to find the paths of inodes, directories are read.
    fn few(by: EngineKind, entries: usize) -> usize;

    /// Prepares [`Scan::scan_written`], before the file system is asked; `None` to walk instead.
    fn start(&self, context: &MountContext<'_>, by: EngineKind) -> Option<Self::Started>;

    /// Reads what was written since the catalog was made: all else is as the catalog has it.
    fn scan_written(
        &self,
        started: Self::Started,
        written: Written<'_>,
    ) -> Result<Self::Scanned, Error>;

    /// Walks everything.
    fn scan_all(&self) -> Result<Self::Scanned, Error>;

    /// The digest of everything, if it can be compared with the catalog's.
    fn digest(&self, scanned: &Self::Scanned) -> Option<String>;
}

/// What was written since a catalog was made.
pub struct Written<'a> {
    /// The engine that compares.
    pub by: EngineKind,
    /// How it is known.
    pub evidence: Evidence,
    /// Where the tree is.
    pub context: &'a MountContext<'a>,
    /// The rows that are no longer true, and what is new.
    pub differing: Differing,
}

/// The result of the first three steps.
pub enum Proof<S: Scan> {
    /// Nothing has changed, and no entry was read. The engine is the file system's own.
    Untouched {
        /// The engine of the file system.
        by: EngineKind,
        /// How it is known.
        evidence: Evidence,
        /// What was prepared, unless the tokens are those of the catalog.
        started: Option<S::Started>,
    },
    /// Nothing has changed: the digest of what was read is the catalog's.
    SameDigest(S::Scanned),
    /// What was read is to be compared with the catalog.
    Unknown(S::Scanned),
}

/// Takes the first three steps, up to the one that tells.
pub fn find_changes<S: Scan>(
    catalog: &Reader,
    tree: ComparedTree,
    scan: &S,
) -> Result<Proof<S>, Error> {
    let about = catalog.about();
    if let Some(by) = tree.is_untouched(about, |by| scan.accepts(EngineStep::Token, by)) {
        return Ok(Proof::Untouched {
            by,
            evidence: Evidence::Token(by),
            started: None,
        });
    }
    let scanned = match scan_written(catalog, &tree, scan)? {
        Some(Proof::Unknown(scanned)) => scanned,
        Some(verdict) => return Ok(verdict),
        None => {
            drop(tree); // the walk opens the directories itself
            scan.scan_all()?
        }
    };
    // Racy entries may have changed without another digest.
    let is_same = about.racy == 0 && scan.digest(&scanned).is_some_and(|now| now == about.digest);
    Ok(if is_same {
        Proof::SameDigest(scanned)
    } else {
        Proof::Unknown(scanned)
    })
}

/// Takes step 2; `None` if the file system cannot tell, or everything is walked as fast.
fn scan_written<S: Scan>(
    catalog: &Reader,
    tree: &ComparedTree,
    scan: &S,
) -> Result<Option<Proof<S>>, Error> {
    let [top] = &tree.tops[..] else {
        return Ok(None);
    };
    if catalog.about().options.shard.is_some() {
        return Ok(None); // inodes do not tell which shard they are in
    }
    let by = written::engine(catalog.about()).filter(|&by| scan.accepts(EngineStep::Written, by));
    let context = tree.mount_context(top);
    let Some((by, started)) = by.and_then(|by| Some((by, scan.start(&context, by)?))) else {
        return Ok(None);
    };
    let Some(since) = written::Since::ask(catalog, tree, &context, S::few)? else {
        return Ok(None);
    };
    if let Some(evidence) = since.is_nothing() {
        return Ok(Some(Proof::Untouched {
            by,
            evidence,
            started: Some(started),
        }));
    }
    let Some((differing, evidence)) = since.differing(catalog)? else {
        return Ok(None);
    };
    let written = Written {
        by,
        evidence,
        context: &context,
        differing,
    };
    let scanned = scan.scan_written(started, written)?;
    Ok(Some(Proof::Unknown(scanned)))
}
