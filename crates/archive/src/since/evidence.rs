//! How it is known what has changed.

use std::fmt;

use walk::EngineKind;

/// How it is known what has changed since a catalog was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// The file system's token is still the one in the catalog: nothing has changed. The engine is
    /// the file system's own.
    Token(EngineKind),
    /// btrfs has written nothing in the directory since the generation of the catalog.
    NothingWritten,
    /// bulkstat gives every inode as the catalog has it.
    SameInodes,
    /// btrfs told which inodes it has written since this generation.
    WrittenAfter(u64),
    /// bulkstat told which inodes are not as the catalog has them.
    OtherInodes,
    /// A walk gave the same digest.
    SameDigest,
    /// A walk was compared with the catalog, entry by entry.
    Compared,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = match self {
            Evidence::Token(EngineKind::Btrfs) => "the generation of the subvolume",
            Evidence::Token(EngineKind::Ext4) => {
                "the number of transactions that the journal has committed"
            }
            Evidence::Token(_) => "the head of the log",
            Evidence::NothingWritten => {
                return f.write_str(
                    "nothing in the directory was written after the generation that the catalog is of",
                );
            }
            Evidence::SameInodes => return f.write_str("every inode is as the catalog has it"),
            Evidence::WrittenAfter(generation) => {
                return write!(
                    f,
                    "only what was written after generation {generation} of the subvolume was looked at"
                );
            }
            Evidence::OtherInodes => {
                return f
                    .write_str("only inodes that are not as the catalog has them were looked at");
            }
            Evidence::SameDigest => {
                return f.write_str("the digest of all entries is that of the catalog");
            }
            Evidence::Compared => {
                return f.write_str("entries were compared with the catalog one by one");
            }
        };
        write!(
            f,
            "{token} is as it was when the catalog was made, so nothing can have changed"
        )
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
        Reason {
            evidence,
            walk: None,
        }
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
