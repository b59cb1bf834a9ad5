//! The files of a repository that are named by the hash of their contents, and where they are (`doc/design.rst`, "Repository
//! Layout").

use serde::Deserialize;

use crate::id::Id;

/// The kind of a blob. Packs have blobs of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// A part of the contents of a file.
    Data,
    /// A directory.
    Tree,
}

/// The type of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FileType {
    Index,
    Key,
    Pack(Kind),
    Snapshot,
}

impl FileType {
    /// The directory of its files.
    pub(crate) fn dir(self) -> &'static str {
        match self {
            FileType::Index => "index",
            FileType::Key => "keys",
            FileType::Pack(_) => "data",
            FileType::Snapshot => "snapshots",
        }
    }

    /// The path of a file in the repository.
    pub(crate) fn path(self, id: &Id) -> String {
        let (dir, name) = (self.dir(), id.to_string());
        match self {
            FileType::Pack(_) => format!("{dir}/{}/{name}", &name[..2]),
            _ => format!("{dir}/{name}"),
        }
    }

    /// Whether files of the type are kept in a cache.
    pub(crate) fn is_cached(self) -> bool {
        match self {
            FileType::Index | FileType::Pack(Kind::Tree) | FileType::Snapshot => true,
            FileType::Key | FileType::Pack(Kind::Data) => false,
        }
    }
}
