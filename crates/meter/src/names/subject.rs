//! What a call is about.

use std::rc::Rc;

use super::kind::DescriptorKind;

/// An absolute name.
pub type Name = Rc<[u8]>;

/// The number of components of a name.
pub fn components(name: &[u8]) -> u64 {
    name.split(|&b| b == b'/')
        .filter(|part| !part.is_empty())
        .count() as u64
}

/// What a call is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The absolute name of its file: of its first path argument that is looked up, or else of its
    /// first descriptor.
    pub name: Option<Name>,
    /// The absolute name of the second file of rename, link, copy_file_range.
    pub other: Option<Name>,
    /// Whether the file was looked up by a name; otherwise it was open.
    pub by_name: bool,
    /// The file is known to be a directory.
    pub directory: bool,
    /// The number of the open directory that the name is relative to.
    pub base: Option<u64>,
    /// The number of the open file that the call uses or opens: an open file description, which
    /// duplicates of the descriptor share.
    pub opened: Option<u64>,
    /// What the descriptor is that the call uses, or that it has waited to open; `None` if it uses
    /// none, or a bad one, or looks a name up.
    pub descriptor: Option<DescriptorKind>,
    /// The last components of the name of which it is known that they are directories, and no
    /// links; but if `may_be_link`, the last one may be a link that was followed.
    pub(super) real: u32,
    pub(super) may_be_link: bool,
}
