//! The error of this crate.

use std::fmt;
use std::io;
use std::sync::Arc;

use gate::{Errno, Gate};
use ondisk::pax;
use parquet::errors::ParquetError;

use crate::shown;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation was not done, or not to its end.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{action} '{}': {kind}", shown(.path))]
pub struct Error {
    /// What was being done.
    pub action: Action,
    /// The file or directory that it was done to, as it was given; `-` is a standard stream.
    pub path: Vec<u8>,
    /// What went wrong.
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

/// What was being done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Walking a tree. The error of the walk says which part of it.
    Walk,
    /// Opening an archive.
    OpenArchive,
    /// Reading an archive.
    ReadArchive,
    /// Writing an archive.
    WriteArchive,
    /// Writing the map of an archive.
    WriteMap,
    /// Reading a catalog.
    ReadCatalog,
    /// Writing a catalog.
    WriteCatalog,
    /// Comparing a directory with a catalog.
    UseCatalog,
    /// Dumping what has changed since a catalog.
    UseBase,
    /// Opening the directory in which the catalogs of the levels are.
    OpenState,
    /// Looking in it for the catalog of a lower level.
    FindBase,
    /// Removing from it the catalogs of higher levels.
    RemoveHigherLevels,
    /// Beginning to write a file of a dump.
    DumpTo,
    /// Choosing a member to restore.
    Restore,
    /// Opening the directory to restore into.
    RestoreInto,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Action::Walk => "cannot walk",
            Action::OpenArchive => "cannot open archive",
            Action::ReadArchive => "cannot read archive",
            Action::WriteArchive => "cannot write archive",
            Action::WriteMap => "cannot write map",
            Action::ReadCatalog => "cannot read catalog",
            Action::WriteCatalog => "cannot write catalog",
            Action::UseCatalog => "cannot use catalog",
            Action::UseBase => "cannot go on from catalog",
            Action::OpenState => "cannot open the directory of catalogs",
            Action::FindBase => "cannot look for catalogs in",
            Action::RemoveHigherLevels => "cannot remove the catalogs of higher levels in",
            Action::DumpTo => "cannot dump to",
            Action::Restore => "cannot restore",
            Action::RestoreInto => "cannot restore into",
        })
    }
}

/// What went wrong.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ErrorKind {
    /// A system call failed.
    #[error("{errno}")]
    Call {
        /// The call, where it is known.
        gate: Option<Gate>,
        /// Its error.
        errno: Errno,
    },
    /// Input or output failed without an error number.
    #[error("{0}")]
    Io(Arc<io::Error>),
    /// A tree cannot be walked.
    #[error("the walk failed")]
    Walk(Box<walk::Error>),
    /// A thread that does a part of the work panicked.
    #[error("a thread has died")]
    ThreadDied,
    /// Another thread stopped the work; its error is the one to report.
    #[error("the work was stopped")]
    Stopped,

    /// The catalog ends before its end.
    #[error("it is cut short")]
    CutShort,
    /// Not a Parquet file.
    #[error("it is no Parquet file")]
    NotParquet,
    /// A Parquet file of another program.
    #[error("it is a Parquet file, but not a catalog of fathom's")]
    NotCatalog,
    /// A catalog of a newer version.
    #[error("it is of version {version}, and this program knows versions up to {known}")]
    NewerCatalog {
        /// The version of the catalog.
        version: u64,
        /// The newest version that this program can read.
        known: u64,
    },
    /// The catalog is damaged.
    #[error("it is damaged")]
    DamagedCatalog,
    /// A column of the catalog is damaged, or cannot be written.
    #[error("{}", plain(.0))]
    Parquet(Arc<ParquetError>),
    /// A column of the catalog is damaged.
    #[error("it is damaged: {}", plain(.0))]
    DamagedColumn(Arc<ParquetError>),

    /// A pattern of the catalog is not a pattern.
    #[error("{0}")]
    Pattern(Box<walk::Error>),
    /// The catalog is of a dump of several sources, and not of one directory.
    #[error("it is of a dump of {roots} directories or files, and not of one directory")]
    SeveralRoots {
        /// How many.
        roots: usize,
    },
    /// The directory is on another file system than when the catalog was written.
    #[error(
        "it is of '{}' on {recorded}, and '{}' is now on another file system ({current})",
        shown(.root), shown(.dir)
    )]
    OtherFileSystem {
        /// The directory that the catalog is of.
        root: Vec<u8>,
        /// The file system that it was on.
        recorded: Box<FileSystemId>,
        /// The directory that was given.
        dir: Vec<u8>,
        /// The file system that it is on.
        current: Box<FileSystemId>,
    },
    /// The catalog is of another directory.
    #[error("it is of '{}', which is another directory than '{}'", shown(.root), shown(.dir))]
    OtherDirectory {
        /// The directory that the catalog is of.
        root: Vec<u8>,
        /// The directory that was given.
        dir: Vec<u8>,
    },
    /// The exclude patterns of the catalog have slashes, and the directory was given by another
    /// name.
    #[error("its --exclude patterns go by names that begin with '{}'", shown(.root))]
    OtherNameForExcludes {
        /// The name that the directory had.
        root: Vec<u8>,
    },
    /// The base catalog is of sources with other names in the archive.
    #[error("it is of {}, and names in the archive begin with that", quoted(.roots))]
    OtherSources {
        /// The sources that the catalog is of.
        roots: Vec<Vec<u8>>,
    },
    /// A source is not the directory that the base catalog is of.
    #[error("'{}' is now another directory, or on another file system", shown(.source_path))]
    ReplacedSource {
        /// The source.
        source_path: Vec<u8>,
    },
    /// A source was a directory and is none now, or the reverse.
    #[error("{}", changed_type(.source_path, *.is_directory))]
    SourceChangedType {
        /// The source.
        source_path: Vec<u8>,
        /// Whether it is a directory now.
        is_directory: bool,
    },

    /// Two files of a dump would be the same file.
    #[error("archive, map and catalogs must each have a file of their own")]
    SharedFile,
    /// A file of the dump would replace a source.
    #[error("it is to be dumped, and would be replaced")]
    ReplacesSource,

    /// The file is not a tar archive, possibly compressed with zstd.
    #[error("{0}")]
    NotArchive(NotArchive),
    /// The compressed archive needs a larger window than this program allows.
    #[error("what is compressed wants a window of over 8 MiB")]
    LargeWindow,
    /// The archive is damaged.
    #[error("{damage}, at byte {at}")]
    DamagedArchive {
        /// Offset in the archive, uncompressed, in bytes.
        at: u64,
        /// What is wrong.
        damage: Damage,
    },
    /// A name that no member can have.
    #[error("{0}")]
    BadName(BadName),
}

impl ErrorKind {
    /// A system call that failed.
    pub(crate) fn call(gate: Gate) -> impl Fn(Errno) -> ErrorKind {
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

    /// Whether a catalog is damaged, or is none.
    pub fn is_unusable_catalog(&self) -> bool {
        matches!(
            self,
            ErrorKind::CutShort
                | ErrorKind::NotParquet
                | ErrorKind::NotCatalog
                | ErrorKind::DamagedCatalog
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
        match error.raw_os_error() {
            Some(errno) => Errno(errno).into(),
            None => ErrorKind::Io(Arc::new(error)),
        }
    }
}

impl From<ParquetError> for ErrorKind {
    fn from(error: ParquetError) -> ErrorKind {
        let errno = match &error {
            ParquetError::External(e) => e.downcast_ref::<Errno>().copied().or_else(|| {
                let errno = e.downcast_ref::<io::Error>()?.raw_os_error()?;
                Some(Errno(errno))
            }),
            _ => None,
        };
        errno.map_or_else(|| ErrorKind::Parquet(Arc::new(error)), ErrorKind::from)
    }
}

/// The words of a [`ParquetError`] without the library's name for its kind.
fn plain(error: &ParquetError) -> String {
    match error {
        ParquetError::External(e) => e.to_string(),
        ParquetError::General(what) | ParquetError::NYI(what) | ParquetError::EOF(what) => {
            what.clone()
        }
        other => other.to_string(),
    }
}

fn quoted(names: &[Vec<u8>]) -> String {
    let names: Vec<String> = names
        .iter()
        .map(|name| format!("'{}'", shown(name)))
        .collect();
    names.join(", ")
}

fn changed_type(path: &[u8], is_directory: bool) -> String {
    let path = shown(path);
    if is_directory {
        format!("'{path}' is a directory now, and was none")
    } else {
        format!("'{path}' was a directory, and is none now")
    }
}

/// What tells a file system from others, for messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileSystemId {
    /// Its type, where the mount table says.
    pub fstype: Option<Vec<u8>>,
    /// Its UUID, where the kernel gives it.
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

/// What a file is that is not an archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotArchive {
    /// It has no bytes.
    #[error("it is empty")]
    Empty,
    /// It is compressed with gzip.
    #[error("it is compressed with gzip")]
    Gzip,
    /// It is compressed with bzip2.
    #[error("it is compressed with bzip2")]
    Bzip2,
    /// It is compressed with xz.
    #[error("it is compressed with xz")]
    Xz,
    /// It is something else.
    #[error("it is no tar archive")]
    Other,
}

/// What is wrong with an archive.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Damage {
    /// A header is damaged.
    #[error("{}", .0.what)]
    Header(pax::Fault),
    /// The archive ends within the headers of a member.
    #[error("it is cut short, within the headers of a member")]
    CutShortInHeaders,
    /// The archive has no end-of-archive blocks.
    #[error("it has no end: it may be cut short")]
    NoEnd,
    /// The archive ends within the data of a member.
    #[error("it is cut short, and at least {missing} bytes are missing")]
    CutShort {
        /// Bytes that are missing, at least.
        missing: u64,
    },
    /// The compressed stream ends within a frame.
    #[error("what is compressed is cut short")]
    CompressedCutShort,
    /// The compressed stream is damaged: zstd's name for how.
    #[error("what is compressed cannot be read ({0})")]
    Compressed(&'static str),
}

/// Why a name is no name of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadName {
    /// It is empty.
    #[error("it has no name")]
    Empty,
    /// It has a NUL.
    #[error("there is a NUL in its name")]
    Nul,
    /// It has `..` as a component.
    #[error("there is a '..' in its name")]
    DotDot,
}
