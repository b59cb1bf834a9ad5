//! The evidence that tells what has changed.

use std::fmt;

use walk::EngineKind;

/// The evidence by which changes since a catalog were found or excluded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Evidence {
    /// The file system's token is unchanged; with the file system's engine.
    #[error("{} is unchanged since the catalog was written", token(*.0))]
    Token(EngineKind),
    /// btrfs has written nothing since the generation of the catalog.
    #[error("nothing in the directory was written after the generation of the catalog")]
    NothingWritten,
    /// Every inode compared is equal to that in the catalog.
    #[error("all inodes are equal to those in the catalog")]
    SameInodes,
    /// btrfs reported the inodes written after this generation.
    #[error("compared only what was written after generation {0} of the subvolume")]
    WrittenAfter(u64),
    /// ext4 and XFS: only inodes that differ from the catalog were looked up.
    #[error("compared only inodes that differ from the catalog")]
    OtherInodes,
    /// The digest of a walk equals that of the catalog.
    #[error("the digest of all entries equals that of the catalog")]
    SameDigest,
    /// All entries of a walk were compared.
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

/// The evidence, and why a walk used its engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reason {
    /// The evidence by which changes were found or excluded.
    pub evidence: Evidence,
    /// Why the walk used its engine, if there was a walk.
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
