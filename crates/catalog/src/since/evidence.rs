//! How it is known what has changed.

use std::fmt;

use walk::EngineKind;

/// How it is known what has changed since a catalog was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Evidence {
    /// The file system's token, and its engine.
    #[error("{} is unchanged since the catalog was written", token(*.0))]
    Token(EngineKind),
    /// btrfs has written nothing.
    #[error("nothing in the directory was written after the generation of the catalog")]
    NothingWritten,
    /// bulkstat has found no other inode.
    #[error("all inodes are equal to those in the catalog")]
    SameInodes,
    /// btrfs has told which inodes it has written since this generation.
    #[error("compared only what was written after generation {0} of the subvolume")]
    WrittenAfter(u64),
    /// bulkstat has found other inodes.
    #[error("compared only inodes that differ from the catalog")]
    OtherInodes,
    /// The digest of a walk.
    #[error("the digest of all entries equals that of the catalog")]
    SameDigest,
    /// The entries of a walk.
    #[error("compared all entries with the catalog")]
    Compared,
}

fn token(by: EngineKind) -> &'static str {
    match by {
        EngineKind::Btrfs => "the generation of the subvolume",
        EngineKind::Ext4 => "the transaction number of the journal",
        _ => "the head of the log",
    }
}

/// How it is known what has changed, and why a walk for it took its engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reason {
    /// How it is known.
    pub evidence: Evidence,
    /// Why the walk took its engine, if there was one.
    pub walk: Option<walk::PlanReason>,
}

impl From<Evidence> for Reason {
    fn from(evidence: Evidence) -> Reason {
        let walk = None;
        Reason { evidence, walk }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.walk {
            Some(walk) => write!(f, "{}; {walk}", self.evidence),
            None => self.evidence.fmt(f),
        }
    }
}
