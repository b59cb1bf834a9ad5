//! Why a command was not done: exit status 2.
//!
//! Each library crate has one error type; here, once, they become the words that a user reads. An
//! error says what was being done, the path, the cause, and what to do next where there is
//! something.

use std::fmt;

use archive::{Action, ErrorKind};
use gate::Errno;
use show::name::printable;

use crate::hint::archive_hint;

/// How a command ended: with how many warnings, or why it was not done.
pub(crate) type Outcome = Result<usize, Error>;

/// Why a command was not done, as it is printed after `fathom: `.
#[derive(Debug)]
pub(crate) struct Error(String);

impl Error {
    /// An error that is about no path.
    pub(crate) fn new(message: impl Into<String>) -> Error {
        Error(message.into())
    }

    /// `doing` failed at a path that was read. Without a hint of the caller's, the errno gives one.
    pub(crate) fn read(doing: &str, path: &[u8], cause: impl Into<Cause>, hint: &str) -> Error {
        Error::at(doing, path, cause.into(), hint, Access::Read)
    }

    /// The same for a path that was written.
    pub(crate) fn write(doing: &str, path: &[u8], cause: impl Into<Cause>, hint: &str) -> Error {
        Error::at(doing, path, cause.into(), hint, Access::Write)
    }

    /// The same error with one more hint.
    pub(crate) fn and(self, hint: &str) -> Error {
        Error(format!("{}; {hint}", self.0))
    }

    fn at(doing: &str, path: &[u8], cause: Cause, hint: &str, access: Access) -> Error {
        let path = printable(path);
        let hint = match (hint, cause.errno) {
            ("", Some(errno)) => access.hint(errno),
            (hint, _) => hint,
        };
        let separator = if hint.is_empty() { "" } else { "; " };
        Error(format!("{doing} '{path}': {}{separator}{hint}", cause.text))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<meter::Error> for Error {
    fn from(error: meter::Error) -> Error {
        use meter::Error::{Command, Late, Unavailable};
        Error(match &error {
            Command(_) => error.to_string(),
            Unavailable(_) => format!("cannot meter the command: {error}"),
            Late { .. } => format!("there is no account, though the command was run: {error}"),
        })
    }
}

impl From<archive::Error> for Error {
    fn from(error: archive::Error) -> Error {
        let (doing, hint) = (error.action.to_string(), archive_hint(&error));
        let access = match error.action {
            Action::WriteArchive | Action::WriteCatalog | Action::WriteMap => Access::Write,
            _ => Access::Read,
        };
        match error.kind {
            ErrorKind::Walk(error) => (*error).into(),
            kind => Error::at(&doing, &error.path, kind.into(), hint, access),
        }
    }
}

impl From<mounts::Error> for Error {
    fn from(error: mounts::Error) -> Error {
        let hint = match error.errno {
            Some(Errno::EACCES | Errno::EPERM) => {
                "run as root, or begin at a directory that you may read"
            }
            Some(Errno::ENOTCONN | Errno::ESTALE) => {
                "its server is gone; see fathom mounts --check"
            }
            _ => "",
        };
        match (&error.path, error.errno) {
            (Some(path), Some(errno)) => Error::read(&error.kind.to_string(), path, errno, hint),
            _ => Error::new(error.to_string()),
        }
    }
}

impl From<walk::Error> for Error {
    fn from(error: walk::Error) -> Error {
        match error {
            walk::Error::Directory(error) => error.into(),
            walk::Error::Pattern(error) => Error::new(format!("cannot use --exclude: {error}")),
            walk::Error::Refused {
                path,
                engine,
                refusal,
            } => Error::new(format!(
                "cannot walk '{}' by {}: {}; give --engine auto, or see --explain",
                printable(&path),
                engine.name(),
                printable(refusal.to_string().as_bytes())
            )),
            walk::Error::Process(_) => Error::new(error.to_string()),
        }
    }
}

/// What made an action fail: the text, and the errno where it was a system call.
pub(crate) struct Cause {
    text: String,
    errno: Option<Errno>,
}

impl From<Errno> for Cause {
    fn from(errno: Errno) -> Cause {
        Cause {
            text: errno.to_string(),
            errno: Some(errno),
        }
    }
}

impl From<std::io::Error> for Cause {
    fn from(error: std::io::Error) -> Cause {
        Cause {
            text: error.to_string(),
            errno: error.raw_os_error().map(Errno),
        }
    }
}

impl From<ErrorKind> for Cause {
    fn from(kind: ErrorKind) -> Cause {
        Cause {
            text: kind.to_string(),
            errno: kind.errno(),
        }
    }
}

impl From<String> for Cause {
    fn from(text: String) -> Cause {
        Cause { text, errno: None }
    }
}

impl From<survey::Error> for Cause {
    fn from(error: survey::Error) -> Cause {
        error.to_string().into()
    }
}

impl From<&str> for Cause {
    fn from(text: &str) -> Cause {
        text.to_owned().into()
    }
}

/// What was being done to a path.
#[derive(Clone, Copy)]
enum Access {
    Read,
    Write,
}

impl Access {
    /// What to do next where the caller knows nothing better.
    fn hint(self, errno: Errno) -> &'static str {
        match (self, errno) {
            (Access::Read, Errno::ENOENT) => "give a name that exists",
            (Access::Read, Errno::ENOTDIR) => "give a directory",
            (Access::Read, Errno::EISDIR) => "give a file",
            (Access::Read, Errno::EACCES | Errno::EPERM) => {
                "run as root, or give what you may read"
            }
            (Access::Write, Errno::ENOENT) => "make its directory first",
            (Access::Write, Errno::ENOTDIR) => "give a name in a directory",
            (Access::Write, Errno::EISDIR) => "give the name of a file",
            (Access::Write, Errno::EACCES | Errno::EPERM | Errno::EROFS) => {
                "give a name where you may write"
            }
            (Access::Write, Errno::ENOSPC) => "make room, or write it to another file system",
            (Access::Write, Errno::EFBIG) => {
                "raise the limit that ulimit -f shows, or write it to a file system of larger files"
            }
            _ => "",
        }
    }
}
