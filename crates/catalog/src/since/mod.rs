//! Finds changes since a catalog: the steps that `changed` and `dump --since` share. The cheapest
//! step that can decide comes first:
//!
//! 1. Every file system has the same token as then ([`crate::token`]), so nothing can have changed.
//!    No entry is read.
//! 2. `written`: btrfs reports the inodes written since, and only these are read; ext4 and XFS
//!    report all inodes without names, which are compared with the catalog.
//! 3. The digest: the whole tree is walked, and its digest is compared with the catalog's. No row
//!    of the catalog is read.
//! 4. All entries are compared one by one, with `index`. The two commands do that on their own.

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

/// A step that only some engines support.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineStep {
    /// Compare the token of the file system with that of the catalog.
    Token,
    /// Ask the file system what was written since.
    Written,
}

/// How a command scans the tree.
pub trait Scan {
    /// State prepared before the file system is asked what was written.
    type Started;
    /// The result of a scan.
    type Scanned;

    /// Whether a step may be taken, with this engine.
    fn accepts(&self, step: EngineStep, by: EngineKind) -> bool;

    /// Maximum number of changes, among this many entries, for which comparing inodes is faster
    /// than a walk. Changes are expensive: finding the paths of inodes requires reading
    /// directories.
    fn few(by: EngineKind, entries: usize) -> usize;

    /// Prepares [`Scan::scan_written`], before the file system is asked; `None` to walk instead.
    fn start(&self, context: &MountContext<'_>, by: EngineKind) -> Option<Self::Started>;

    /// Reads the entries written since the catalog; all others are as in the catalog.
    fn scan_written(
        &self,
        started: Self::Started,
        written: Written<'_>,
    ) -> Result<Self::Scanned, Error>;

    /// Walks the whole tree.
    fn scan_all(&self) -> Result<Self::Scanned, Error>;

    /// The digest of a scan, if it can be compared with the catalog's.
    fn digest(&self, scanned: &Self::Scanned) -> Option<String>;
}

/// Entries written since a catalog.
pub struct Written<'a> {
    /// The engine that found the changes.
    pub by: EngineKind,
    /// The evidence for the changes.
    pub evidence: Evidence,
    /// The mount of the tree.
    pub context: &'a MountContext<'a>,
    /// Rows that are no longer valid, and the new entries.
    pub differing: Differing,
}

/// The result of the first three steps.
pub enum Proof<S: Scan> {
    /// Nothing has changed, and no entry was read.
    Untouched {
        /// The engine that found this.
        by: EngineKind,
        /// The evidence that nothing has changed.
        evidence: Evidence,
        /// The prepared state; `None` if the tokens are those of the catalog.
        started: Option<S::Started>,
    },
    /// Nothing has changed: the digest of the scan equals that of the catalog.
    SameDigest(S::Scanned),
    /// The scan must be compared with the catalog.
    Unknown(S::Scanned),
}

/// Takes the first three steps listed above, until one decides.
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
            drop(tree); // the walk opens the directories again
            scan.scan_all()?
        }
    };
    // The digest does not reveal changes of racy entries.
    let is_same = about.racy == 0 && scan.digest(&scanned).is_some_and(|now| now == about.digest);
    Ok(if is_same {
        Proof::SameDigest(scanned)
    } else {
        Proof::Unknown(scanned)
    })
}

/// Step 2: asks the file system what was written; `None` if it cannot tell, or a walk would be as
/// fast.
fn scan_written<S: Scan>(
    catalog: &Reader,
    tree: &ComparedTree,
    scan: &S,
) -> Result<Option<Proof<S>>, Error> {
    let [top] = &tree.tops[..] else {
        return Ok(None);
    };
    if catalog.about().options.shard.is_some() {
        return Ok(None); // an inode does not reveal its shard
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
