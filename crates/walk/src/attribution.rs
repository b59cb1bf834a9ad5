//! The subjects that calls are charged to: the kind of entry that a call is made for.

use gate::attribution;

use crate::entry::FileType;

/// The kind of entry that a call is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Subject {
    All,
    Directory,
    /// Any entry but a directory.
    File,
}

impl Subject {
    /// The subject of calls for an entry of this type.
    pub fn from_type(kind: FileType) -> Subject {
        if kind == FileType::Directory {
            Subject::Directory
        } else {
            Subject::File
        }
    }
}

impl From<Subject> for attribution::Subject {
    fn from(subject: Subject) -> Self {
        attribution::Subject::new(subject as u8)
    }
}

/// Charges the calls of some work to a subject.
#[inline]
pub fn with_subject<T>(subject: Subject, work: impl FnOnce() -> T) -> T {
    attribution::with_subject(subject.into(), work)
}
