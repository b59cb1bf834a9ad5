//! The files of a repository that are named by the hash of their contents, and their directories
//! (`doc/design.rst`, "Repository Layout").

use serde::Deserialize;

use crate::id::Id;

/// The kind of a blob. All blobs of a pack have one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BlobKind {
    /// A part of the contents of a file.
    Data,
    /// The JSON of a directory.
    Tree,
}

/// The type of a repository file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RepositoryFile {
    Index,
    Key,
    Pack(BlobKind),
    Snapshot,
}

impl RepositoryFile {
    /// The directory of files of this type.
    pub(crate) fn dir(self) -> &'static str {
        match self {
            RepositoryFile::Index => "index",
            RepositoryFile::Key => "keys",
            RepositoryFile::Pack(_) => "data",
            RepositoryFile::Snapshot => "snapshots",
        }
    }

    /// The path of a file in the repository.
    pub(crate) fn path(self, id: &Id) -> String {
        let (dir, name) = (self.dir(), id.to_string());
        match self {
            RepositoryFile::Pack(_) => format!("{dir}/{}/{name}", &name[..2]),
            _ => format!("{dir}/{name}"),
        }
    }

    /// Whether files of this type are cached locally.
    pub(crate) fn is_cached(self) -> bool {
        match self {
            RepositoryFile::Index
            | RepositoryFile::Pack(BlobKind::Tree)
            | RepositoryFile::Snapshot => true,
            RepositoryFile::Key | RepositoryFile::Pack(BlobKind::Data) => false,
        }
    }
}
