//! The file that a call is about.

use std::rc::Rc;

use super::kind::DescriptorKind;

/// An absolute path.
pub type Name = Rc<[u8]>;

/// The number of components of a path.
pub fn components(name: &[u8]) -> u64 {
    base::path::names(name).count() as u64
}

/// The file that a call is about: its path, or the descriptor it uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallFile {
    /// The absolute path of the file: of the first path argument that is looked up, or else of the
    /// first descriptor.
    pub name: Option<Name>,
    /// The absolute path of the second file of rename, link or copy_file_range.
    pub other: Option<Name>,
    /// The call looked the file up by a path; otherwise the file was open already.
    pub by_name: bool,
    /// The file is known to be a directory.
    pub directory: bool,
    /// The number of the open directory to which the path is relative.
    pub base: Option<u64>,
    /// The number of the open file description that the call uses or opens; duplicates of a
    /// descriptor share it.
    pub opened: Option<u64>,
    /// The kind of the descriptor that the call uses or was opening; `None` for a call without
    /// descriptor, with a bad one, or with a path lookup.
    pub descriptor: Option<DescriptorKind>,
    /// The number of trailing components of the path that are known to be directories and no links;
    /// if `may_be_link`, the last one may be a link that was followed.
    pub(super) real: u32,
    pub(super) may_be_link: bool,
}
