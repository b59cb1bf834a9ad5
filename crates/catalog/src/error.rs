//! The error type of the catalog crate.

use std::sync::Arc;
use std::{fmt, io};

use base::WarningReason;
use base::path::shown;
use gate::{Errno, Gate};
use parquet::errors::ParquetError;

use crate::remote::StoreError;

/// Why an operation failed, or ended early.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{action} '{}': {kind}", shown(.path))]
pub struct Error {
    /// The operation that failed.
    pub action: Action,
    /// The file or directory involved, as given; `-` is a standard stream.
    pub path: Vec<u8>,
    /// The cause of the failure.
    #[source]
    pub kind: ErrorKind,
}

impl Error {
    /// An error of an action on a file or directory.
    pub fn new(action: Action, path: &[u8], kind: impl Into<ErrorKind>) -> Error {
        Error {
            action,
            path: path.to_vec(),
            kind: kind.into(),
        }
    }

    /// The error number, if a system call failed.
    pub fn errno(&self) -> Option<Errno> {
        self.kind.errno()
    }
}

impl From<walk::Error> for Error {
    fn from(error: walk::Error) -> Error {
        Error::new(Action::Walk, b"", ErrorKind::Walk(Box::new(error)))
    }
}

/// The operation during which an error occurred.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each one is")]
pub enum Action {
    /// A walk, whose own error names the path.
    #[error("cannot walk")]
    Walk,
    #[error("cannot read catalog")]
    ReadCatalog,
    #[error("cannot write catalog")]
    WriteCatalog,
    /// Using a catalog to compare a directory with.
    #[error("cannot use catalog")]
    UseCatalog,
}

/// The cause of an error of the catalog crate.
#[derive(Clone, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each one means")]
pub enum ErrorKind {
    #[error("{errno}")]
    Call { gate: Option<Gate>, errno: Errno },
    /// An I/O error without an errno.
    #[error("{0}")]
    Io(Arc<io::Error>),
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The error of a walk.
    #[error("the walk failed")]
    Walk(Box<walk::Error>),
    #[error("a thread ended unexpectedly")]
    ThreadDied,
    /// A different thread failed and stopped the work; the error of that thread is reported.
    #[error("stopped by another error")]
    Stopped,

    #[error("the file is truncated")]
    CutShort,
    #[error("not a Parquet file")]
    NotParquet,
    #[error("a Parquet file, but not written by fathom")]
    NotCatalog,
    #[error("its format version {version} is not supported; this program supports up to {known}")]
    NewerCatalog { version: u64, known: u64 },
    #[error("the file is damaged")]
    DamagedCatalog,
    /// A catalog with wrong checksums that was not written by fathom.
    #[error("its checksums are wrong: another program has written it, or it is damaged")]
    StaleChecksum,
    #[error("it has no column '{name}'")]
    NoColumn { name: String },
    #[error("column '{name}' has the type {is} instead of {wanted}")]
    OtherType {
        name: String,
        is: String,
        wanted: String,
    },
    #[error("it is compressed with {0}, which fathom cannot read")]
    UnknownCodec(&'static str),
    #[error("a row group has {rows} rows, and at most 1,048,576 are supported")]
    LargeRowGroup { rows: u64 },
    #[error("{}", plain(.0))]
    Parquet(Arc<ParquetError>),
    #[error("the file is damaged: {}", plain(.0))]
    DamagedColumn(Arc<ParquetError>),
    #[error("no file in it is named *.parquet")]
    NoCatalogs,
    #[error("'{}' in it is not a part of the same run as '{}'", shown(.other), shown(.first))]
    SeveralRuns { first: Vec<u8>, other: Vec<u8> },
    #[error("it describes {roots} directories or files, not one directory")]
    SeveralRoots { roots: usize },
    #[error("it has no other catalog of '{}' to compare", shown(.root))]
    Unpaired { root: Vec<u8> },
    #[error(
        "it describes '{}' on {recorded}, but '{}' is now on another file system ({current})",
        shown(.root), shown(.dir)
    )]
    OtherFileSystem {
        root: Vec<u8>,
        recorded: Box<FileSystemId>,
        dir: Vec<u8>,
        current: Box<FileSystemId>,
    },
    #[error("it describes '{}', and '{}' is another directory", shown(.root), shown(.dir))]
    OtherDirectory { root: Vec<u8>, dir: Vec<u8> },
    #[error("its exclude patterns contain paths that begin with '{}'", shown(.root))]
    OtherNameForExcludes { root: Vec<u8> },
    /// Foreign data, from another program or a server, claims this size.
    #[error("it claims to have {bytes} bytes, more than {most}")]
    TooLong { bytes: u64, most: u64 },
    /// A file or state directory belongs to a different user, who could decide what is removed,
    /// restored or regarded as dumped.
    #[error("it belongs to another user (uid {uid}), who decides what it says")]
    OtherOwner { uid: u32 },
    #[error("others than its owner may write to it (mode {:04o})", .mode & 0o7777)]
    OthersMayWrite { mode: u32 },
    #[error("it describes only the names of a list")]
    OnlyListed,
    #[error("it describes only shard {}/{} of the tree", .0.number, .0.of)]
    OnlyShard(walk::Shard),
    #[error("it has not exactly the parts of one run")]
    NotAllParts,
    #[error("{0}")]
    MissingParts(MissingParts),
    #[error("it is there, of a walk of another directory or with other options")]
    OtherRun,
    #[error("it is a directory of parts, which are not replaced")]
    InParts,
    #[error("it describes only the entries that rank {number} of {of} has found")]
    OnlyRank { number: u32, of: u32 },
}

impl ErrorKind {
    /// The error of a failed system call.
    pub fn call(gate: Gate) -> impl Fn(Errno) -> ErrorKind {
        move |errno| ErrorKind::Call {
            gate: Some(gate),
            errno,
        }
    }

    /// The error number, if a system call failed.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            ErrorKind::Call { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    /// Whether the file or object does not exist.
    pub fn is_missing(&self) -> bool {
        let errno = self.errno();
        errno == Some(Errno::ENOENT) || matches!(self, ErrorKind::Store(StoreError::NotFound))
    }

    /// Whether a catalog is damaged, or the file is no catalog.
    pub fn is_unusable_catalog(&self) -> bool {
        matches!(
            self,
            ErrorKind::CutShort
                | ErrorKind::NotParquet
                | ErrorKind::NotCatalog
                | ErrorKind::DamagedCatalog
                | ErrorKind::StaleChecksum
                | ErrorKind::DamagedColumn(_)
        )
    }
}

impl From<Errno> for ErrorKind {
    fn from(errno: Errno) -> ErrorKind {
        ErrorKind::Call { gate: None, errno }
    }
}

impl From<io::Error> for ErrorKind {
    fn from(error: io::Error) -> ErrorKind {
        let store = || error.get_ref()?.downcast_ref::<StoreError>().cloned();
        match (error.raw_os_error(), store()) {
            (Some(errno), _) => Errno(errno).into(),
            (None, Some(store)) => store.into(),
            (None, None) => ErrorKind::Io(Arc::new(error)),
        }
    }
}

/// Passes errors through libraries that read and write archives: [`ErrorKind::from`] restores the
/// same kind.
impl From<ErrorKind> for io::Error {
    fn from(kind: ErrorKind) -> io::Error {
        match kind {
            ErrorKind::Call { errno, .. } => io::Error::from_raw_os_error(errno.0),
            ErrorKind::Store(error) => io::Error::other(error),
            kind => io::Error::other(kind),
        }
    }
}

impl From<StoreError> for io::Error {
    fn from(error: StoreError) -> io::Error {
        io::Error::other(error)
    }
}

impl From<ParquetError> for ErrorKind {
    fn from(error: ParquetError) -> ErrorKind {
        let kind = match &error {
            ParquetError::External(e) => e.downcast_ref::<ErrorKind>().cloned().or_else(|| {
                let errno = e.downcast_ref::<io::Error>()?.raw_os_error()?;
                Some(Errno(errno).into())
            }),
            _ => None,
        };
        kind.unwrap_or_else(|| ErrorKind::Parquet(Arc::new(error)))
    }
}

/// The message of a [`ParquetError`], without the parquet crate's name for its kind.
fn plain(error: &ParquetError) -> String {
    match error {
        ParquetError::External(e) => e.to_string(),
        ParquetError::General(what) | ParquetError::NYI(what) | ParquetError::EOF(what) => {
            what.clone()
        }
        other => other.to_string(),
    }
}

/// Some parts of a run are missing in its directory.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{} of {of} missing: {}", plural(numbers.len()), list(numbers, *of))]
pub struct MissingParts {
    /// Numbers of the missing parts.
    pub numbers: Vec<u32>,
    /// Number of parts of the run.
    pub of: u32,
}

impl WarningReason for MissingParts {}

fn plural(parts: usize) -> String {
    match parts {
        1 => "1 part".to_owned(),
        n => format!("{n} parts"),
    }
}

/// File name stems of some parts.
fn list(numbers: &[u32], of: u32) -> String {
    const MOST: usize = 4;
    let name = |number: &u32| format!("part-{number}-of-{of}");
    let shown = numbers.iter().take(MOST).map(name);
    let more = if numbers.len() > MOST { ", ..." } else { "" };
    shown.collect::<Vec<_>>().join(", ") + more
}

/// Identifies a file system in messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileSystemId {
    /// File system type, if the mount table has it.
    pub fstype: Option<Vec<u8>>,
    /// UUID, if the kernel reports it.
    pub uuid: Option<[u8; 16]>,
    /// `f_fsid` of statfs(2).
    pub fsid: [u32; 2],
}

impl fmt::Display for FileSystemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fstype = shown(self.fstype.as_deref().unwrap_or(b"?"));
        match (self.uuid, self.fsid) {
            (Some(uuid), _) => write!(f, "{fstype} {:032x}", u128::from_be_bytes(uuid)),
            (None, [high, low]) => write!(f, "{fstype} {high:08x}{low:08x}"),
        }
    }
}
