//! How it is known what has changed.

use std::fmt;

use walk::EngineKind;

/// How it is known what has changed since a catalog was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Evidence {
    /// The file system's token, and its engine.
    #[error("{} is as it was when the catalog was made, so nothing can have changed", token(*.0))]
    Token(EngineKind),
    /// btrfs has written nothing.
    #[error("nothing in the directory was written after the generation that the catalog is of")]
    NothingWritten,
    /// bulkstat has found no other inode.
    #[error("every inode is as the catalog has it")]
    SameInodes,
    /// btrfs has told which inodes it has written since this generation.
    #[error("only what was written after generation {0} of the subvolume was looked at")]
    WrittenAfter(u64),
    /// bulkstat has found other inodes.
    #[error("only inodes that are not as the catalog has them were looked at")]
    OtherInodes,
    /// The digest of a walk.
    #[error("the digest of all entries is that of the catalog")]
    SameDigest,
    /// The entries of a walk.
    #[error("entries were compared with the catalog one by one")]
    Compared,
}

fn token(by: EngineKind) -> &'static str {
    match by {
        EngineKind::Btrfs => "the generation of the subvolume",
        EngineKind::Ext4 => "the number of transactions that the journal has committed",
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
