//! The subjects that calls are charged to: what kind of entry a call is made for.

use gate::attribution;

use crate::entry::Type;

/// The kind of entry that a call is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// All entries alike.
    All,
    /// A directory.
    Directory,
    /// Any other entry.
    File,
}

impl Subject {
    /// The subject of calls about an entry of this type.
    pub fn from_type(kind: Type) -> Subject {
        if kind == Type::Directory {
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

/// Does some work whose calls are made for a subject.
#[inline]
pub fn with_subject<T>(subject: Subject, work: impl FnOnce() -> T) -> T {
    attribution::with_subject(subject.into(), work)
}
