//! The error type of the archive crate.

use std::io;

use base::path::shown;
use catalog::remote::StoreError;
use gate::Errno;
use ondisk::pax;

use crate::compression::{BadSuffix, Compression};

/// A result of the archive crate.
pub type Result<T> = std::result::Result<T, Error>;

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

impl From<catalog::Error> for Error {
    fn from(error: catalog::Error) -> Error {
        Error {
            action: Action::Catalog(error.action),
            path: error.path,
            kind: error.kind.into(),
        }
    }
}

impl From<walk::Error> for Error {
    fn from(error: walk::Error) -> Error {
        catalog::Error::from(error).into()
    }
}

/// The operation during which an error occurred.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each one is")]
pub enum Action {
    /// An operation on a catalog.
    #[error(transparent)]
    Catalog(catalog::Action),
    /// Reading a list of names or patterns.
    #[error("cannot read")]
    ReadList,
    /// Dumping the names of a list.
    #[error("cannot use list")]
    UseList,
    #[error("cannot open archive")]
    OpenArchive,
    #[error("cannot read archive")]
    ReadArchive,
    #[error("cannot write archive")]
    WriteArchive,
    #[error("cannot write map")]
    WriteMap,
    /// Using a catalog as the base of an increment.
    #[error("cannot use base catalog")]
    UseBase,
    #[error("cannot open state directory")]
    OpenState,
    #[error("cannot create state directory")]
    CreateState,
    #[error("cannot search for catalogs in")]
    FindBase,
    #[error("cannot remove the catalogs of higher levels in")]
    RemoveHigherLevels,
    /// Reading the records of the dumps of a state directory.
    #[error("cannot read")]
    ReadRecords,
    #[error("cannot write")]
    WriteRecords,
    #[error("cannot find a dump in")]
    FindDump,
    #[error("cannot remove archive")]
    RemoveArchive,
    #[error("cannot dump")]
    DumpSource,
    /// Creating an output file of a dump.
    #[error("cannot write to")]
    DumpTo,
    #[error("cannot restore")]
    Restore,
    #[error("cannot write to")]
    WriteFile,
    #[error("cannot restore into")]
    RestoreInto,
    /// Comparing an archive with a directory.
    #[error("cannot compare with")]
    CompareWith,
}

/// The cause of an error of the archive crate.
#[derive(Clone, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each one means")]
pub enum ErrorKind {
    /// A cause shared with catalogs: a system call, a store, the parts of a run.
    #[error(transparent)]
    Catalog(#[from] catalog::ErrorKind),
    #[error("it is a directory, and no file in it is named part-*.tar*")]
    NoArchives,
    /// The state directory is in an object store, but the archive is a local file.
    #[error("the archive '{}' is not in a store, as the state is", shown(.archive))]
    LocalArchive { archive: Vec<u8> },
    #[error("it describes {}, not the given SRC", quoted(.roots))]
    OtherSources { roots: Vec<Vec<u8>> },
    /// Two SRC arguments have the same member name.
    #[error(
        "'{}' and '{}' have the same name in the archive: an increment would remove entries of both",
        shown(.0), shown(.1)
    )]
    SameName(Vec<u8>, Vec<u8>),
    #[error("it is reached through the symlink '{}', which is dumped as well", shown(.symlink))]
    SourceBehindSymlink { symlink: Vec<u8> },
    #[error("'{}' is now {}", shown(.source_path), match is_other_file_system {
        true => "on another file system",
        false => "another directory",
    })]
    ReplacedSource {
        source_path: Vec<u8>,
        is_other_file_system: bool,
    },
    #[error("'{}' {}", shown(.source_path), changed_type(*.is_directory))]
    SourceChangedType {
        source_path: Vec<u8>,
        is_directory: bool,
    },

    /// A state directory without dumps is on a file system of /etc/fstab that is not mounted.
    #[error("/etc/fstab has a file system for '{}', and nothing is mounted there", shown(.mount_point))]
    NotMounted { mount_point: Vec<u8> },
    /// The parent of a new state directory does not exist: its file system may not be mounted.
    #[error("the directory above it does not exist")]
    NoParent,
    #[error("another dump is using it")]
    StateInUse,
    #[error("line {line} is not the record of a dump")]
    DamagedRecord { line: usize },
    #[error("no dump is recorded in it")]
    NoDump,
    #[error("no dump began by that time")]
    NoDumpBefore,
    #[error("the dump is based on one that is not recorded")]
    BaseNotRecorded,
    #[error("archive '{}' {}", shown(.archive), match is_replaced {
        true => "is another file now",
        false => "does not exist",
    })]
    ArchiveGone { archive: Vec<u8>, is_replaced: bool },
    #[error("it is the archive of an earlier dump that this one is based on")]
    ReplacesBase,
    #[error(
        "the path of the archive of level {level} is unknown: it was written to standard output or a pipe"
    )]
    ArchiveStreamed { level: u8 },

    #[error("line {line} contains a NUL")]
    NulInLine { line: usize },
    #[error("line {line} ends with a carriage return")]
    CarriageReturn { line: usize },
    #[error("it contains no names")]
    NoNames,
    #[error("'{}' is absolute, and '{}' is not", shown(.absolute), shown(.relative))]
    MixedNames {
        absolute: Vec<u8>,
        relative: Vec<u8>,
    },
    #[error("'{}' contains '..'", shown(.name))]
    ParentInName { name: Vec<u8> },

    #[error("archive, map and catalogs must be different files")]
    SharedFile,
    #[error("the file is a source of this dump and would be overwritten")]
    ReplacesSource,

    #[error("{0}")]
    Suffix(#[from] BadSuffix),
    #[error("{} exists and is not empty; {}", match .entry.as_slice() {
        b"." => "the target directory".to_owned(),
        entry => format!("'{}'", shown(entry)),
    }, match are_chain {
        true => "entries that the increments do not list would be removed",
        false => "its entries would be mixed with those of the dump",
    })]
    NotEmpty { entry: Vec<u8>, are_chain: bool },
    #[error("the archive that it is based on is missing{}", after(previous.as_deref()))]
    BaseMissing { previous: Option<Vec<u8>> },
    #[error("it is based on '{}', which comes after it", shown(.base))]
    BeforeBase { base: Vec<u8> },
    #[error("it is based on '{}', as '{}' is, and only one of them can follow", shown(.base), shown(.other))]
    SameBase { base: Vec<u8>, other: Vec<u8> },
    #[error("it is a full dump of the same tree as '{}', and begins another chain", shown(.first))]
    SecondFullDump { first: Vec<u8> },
    /// `--strip-components` cannot apply to increments, whose removals and renames are named from
    /// the root of the tree.
    #[error("it is one of several archives, and increments apply only to unchanged names")]
    StrippedChain,
    #[error("{}, and no archive has a member of this name", match is_directory {
        true => "it is a directory",
        false => "it does not exist",
    })]
    NoSuchPath { is_directory: bool },
    /// Verify found no member in the directory, but found them in a different one.
    #[error("it has no member of the archive, such as '{}'", shown(.member))]
    OtherTree { member: Vec<u8>, dir: Vec<u8> },
    /// Verify found no member in the directory, but found the first ones without this directory at
    /// the beginning of their names.
    #[error(
        "it has no member of the archive, such as '{}', but has members without '{}/'",
        shown(.member), shown(.prefix)
    )]
    OtherPrefix { member: Vec<u8>, prefix: Vec<u8> },
    #[error("{0}")]
    NotArchive(NotArchive),
    #[error("decompressing it takes too much memory (the window of {0} is too large)")]
    LargeWindow(Compression),
    #[error("{damage}, at byte {at}{}", .damage.offset_base())]
    DamagedArchive { at: u64, damage: Damage },
    #[error("{0}")]
    BadName(BadName),
    #[error("no catalog of this dump is kept")]
    NoCatalogKept,
    #[error("the dump has no file of this name")]
    NotInDump,
    #[error("it is not a regular file")]
    NotPlainFile,
    /// An absolute PATH is outside of all SRC directories.
    #[error("the dump is of {}, which it is not below", quoted(.roots))]
    OutsideSources { roots: Vec<Vec<u8>> },
}

impl ErrorKind {
    /// The error number, if a system call failed.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            ErrorKind::Catalog(kind) => kind.errno(),
            _ => None,
        }
    }

    /// The error of the object store, if there was one.
    pub(crate) fn store(&self) -> Option<&StoreError> {
        match self {
            ErrorKind::Catalog(catalog::ErrorKind::Store(error)) => Some(error),
            _ => None,
        }
    }

    /// Whether a catalog is damaged, or the file is no catalog.
    pub fn is_unusable_catalog(&self) -> bool {
        matches!(self, ErrorKind::Catalog(kind) if kind.is_unusable_catalog())
    }

    /// The SRC that is on a different file system than in the base.
    pub(crate) fn other_file_system(&self) -> Option<&Vec<u8>> {
        match self {
            ErrorKind::ReplacedSource {
                source_path,
                is_other_file_system: true,
            } => Some(source_path),
            _ => None,
        }
    }
}

impl From<Errno> for ErrorKind {
    fn from(errno: Errno) -> ErrorKind {
        catalog::ErrorKind::from(errno).into()
    }
}

impl From<StoreError> for ErrorKind {
    fn from(error: StoreError) -> ErrorKind {
        catalog::ErrorKind::from(error).into()
    }
}

impl From<io::Error> for ErrorKind {
    fn from(error: io::Error) -> ErrorKind {
        catalog::ErrorKind::from(error).into()
    }
}

fn quoted(names: &[Vec<u8>]) -> String {
    /// Maximum paths listed in the message, since there may be thousands.
    const MOST: usize = 3;
    let name = |name: &Vec<u8>| match &name[..] {
        b"" => "the names of a list".to_owned(),
        name => format!("'{}'", shown(name)),
    };
    let first: Vec<String> = names.iter().take(MOST).map(name).collect();
    match names.len().saturating_sub(MOST) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

fn after(previous: Option<&[u8]>) -> String {
    let place = |name| format!(": at least one archive between '{}' and it", shown(name));
    previous.map_or(String::new(), place)
}

fn changed_type(is_directory: bool) -> &'static str {
    match is_directory {
        true => "is now a directory, and was not one",
        false => "was a directory, and is not one now",
    }
}

/// The type of a file that was expected to be an archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each one means")]
pub enum NotArchive {
    #[error("the file is empty")]
    Empty,
    /// Compressed in a format that is not supported: the program's name, and the command that
    /// decompresses the file.
    #[error("it is compressed with {0}, which fathom cannot read")]
    Compressed(&'static str, &'static str),
    /// Encrypted: the program's name, and the command that decrypts the file.
    #[error("it is encrypted with {0}")]
    Encrypted(&'static str, &'static str),
    #[error("it is a Parquet file such as a catalog, not an archive")]
    Parquet,
    #[error("not a tar archive")]
    Other,
}

/// A defect of an archive that does not prevent reading the rest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Defect {
    /// The damaged member, if its name can be read.
    pub member: Option<Vec<u8>>,
    /// Offset in the archive.
    pub at: u64,
    /// The kind of damage.
    pub damage: Damage,
}

/// A kind of damage of an archive.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each one means")]
pub enum Damage {
    /// A bad header: the member is lost.
    #[error("header skipped: {}", .0.what)]
    Header(pax::Fault),
    /// A minor fault: the member can still be read.
    #[error("{}", .0.what)]
    Fault(pax::Fault),
    /// An archive without members, with data other than zeros after its end.
    #[error("no members, and data follows the end: probably not a tar archive")]
    Empty,
    #[error("wrong index: the archive is read from its beginning")]
    WrongIndex,
    #[error("data follows the end of the archive and is skipped (concatenated archives?)")]
    DataAfterEnd,
    /// Number of further defects, not kept because of a limit of memory.
    #[error("and {0} more defects")]
    MoreDefects(u64),
    #[error("truncated within the headers of a member")]
    CutShortInHeaders,
    /// The archive has no end-of-archive blocks.
    #[error("no end-of-archive blocks: the archive may be truncated")]
    NoEnd,
    #[error("truncated: at least {missing} bytes are missing")]
    CutShort { missing: u64 },
    #[error("the {0} stream is truncated")]
    CompressedCutShort(Compression),
    /// The compressed stream is damaged; with the message of the library.
    #[error("the {0} stream is damaged ({1})")]
    Compressed(Compression, String),
    #[error("ignored data after the {0} stream")]
    Garbage(Compression),
    /// The members in damaged frames of zstd, up to the next one that can be read; `None` if there
    /// is none up to the end of the archive.
    #[error("members in the damaged frame are lost{}", continued(.next.as_deref()))]
    FrameLost { next: Option<Vec<u8>> },
}

fn continued(next: Option<&[u8]>) -> String {
    match next {
        Some(next) => format!("; reading continues with '{}'", shown(next)),
        None => ", up to the end of the archive".to_owned(),
    }
}

impl Damage {
    /// Text to follow an offset in a message: for damage of a compressed stream, the offset is that
    /// in the uncompressed archive, not in the file.
    pub(crate) fn offset_base(&self) -> &'static str {
        match self {
            Damage::CompressedCutShort(_)
            | Damage::Compressed(..)
            | Damage::Garbage(_)
            | Damage::FrameLost { .. } => " of the uncompressed archive",
            _ => "",
        }
    }

    /// Whether members are lost, though the archive can be read further.
    pub(crate) fn is_loss(&self) -> bool {
        matches!(self, Damage::Header(_) | Damage::FrameLost { .. })
    }
}

/// Why a name is invalid as a member name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each one means")]
pub enum BadName {
    #[error("the name is empty")]
    Empty,
    #[error("the name contains a NUL")]
    Nul,
    #[error("the name contains '..'")]
    DotDot,
}
