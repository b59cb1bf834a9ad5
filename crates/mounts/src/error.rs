//! Errors, kinds of warnings, and why a report may be incomplete.

use std::borrow::Cow;
use std::time::Duration;

use gate::{Errno, Gate};

use base::runs::time_text;
use base::warning::WarningReason;

use crate::namespace::OtherNamespace;

/// A failed operation: what failed, on which file, and how.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{kind}{}{}", quoted(path.as_deref()), after_colon(*errno))]
#[allow(missing_docs, reason = "the names say it")]
pub struct Error {
    pub kind: ErrorKind,
    pub path: Option<Vec<u8>>,
    /// The system call that failed.
    pub gate: Option<Gate>,
    pub errno: Option<Errno>,
}

fn quoted(path: Option<&[u8]>) -> String {
    path.map_or(String::new(), |path| {
        format!(" '{}'", String::from_utf8_lossy(path))
    })
}

fn after_colon(errno: Option<Errno>) -> String {
    errno.map_or(String::new(), |errno| format!(": {errno}"))
}

impl Error {
    /// The error for a system call that failed on a file.
    pub fn at(kind: ErrorKind, path: &[u8], gate: Gate, errno: Errno) -> Error {
        Error {
            path: Some(path.to_vec()),
            ..Error::failed(kind, gate, errno)
        }
    }

    pub(crate) fn failed(kind: ErrorKind, gate: Gate, errno: Errno) -> Error {
        Error {
            gate: Some(gate),
            errno: Some(errno),
            ..Error::from(kind)
        }
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Error {
        Error {
            kind,
            path: None,
            gate: None,
            errno: None,
        }
    }
}

/// The interface by which a mount table is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableSource {
    /// listmount(2) and statmount(2).
    Kernel,
    /// /proc/self/mountinfo.
    Mountinfo,
}

/// The operation that failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum ErrorKind {
    #[error("cannot open directory")]
    OpenDirectory,
    #[error("cannot read directory")]
    ReadDirectory,
    /// A network or FUSE mount, or a path on one, that does not answer within this deadline.
    #[error("no answer within {} from", time_text(*.0))]
    Silent(Duration),
    #[error("cannot read the attributes of")]
    ReadAttributes,
    #[error("cannot find the absolute name of")]
    FindName,
    #[error("a different mount namespace, that of process {}, contains", .0.pid)]
    OtherNamespace(OtherNamespace),
    #[error("cannot list the mounts")]
    ListMounts,
    #[error("cannot read the attributes of a mount")]
    DescribeMount,
    #[error("statmount(2) fails for all mounts that listmount(2) returned")]
    EmptyStatmount,
    #[error("listmount(2) returned invalid mount ids")]
    InvalidIds,
    #[error("cannot open /proc/self/mountinfo")]
    OpenMountinfo,
    #[error("cannot read /proc/self/mountinfo")]
    ReadMountinfo,
    #[error("cannot identify the file system on /proc")]
    IdentifyProc,
    #[error("/proc/self/mountinfo is a regular file, not the mount table of the kernel")]
    ForgedMountinfo,
    #[error("{} does not contain the mount of ROOT", match .0 {
        TableSource::Kernel => "listmount(2)",
        TableSource::Mountinfo => "/proc/self/mountinfo",
    })]
    MissingRoot(TableSource),
    /// Neither interface returns a mount table.
    #[error("{}; {}", .0[0], .0[1])]
    NoTable(Box<[Error; 2]>),
    #[error("cannot wait for signals")]
    WaitForSignals,
    #[error("cannot wait for changes")]
    WaitForChanges,
    #[error("cannot read mount events")]
    ReadEvents,
    /// Mount changes can be watched neither by fanotify nor by polling mountinfo.
    #[error("{fanotify}; {mountinfo}")]
    NoWatch {
        fanotify: FanotifyRefusal,
        mountinfo: Box<Error>,
    },
}

/// The failed call, which shows that fanotify does not report mounts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{} fails: {errno}", gate.name())]
#[allow(missing_docs, reason = "the names say it")]
pub struct FanotifyRefusal {
    pub gate: Gate,
    pub errno: Errno,
}

/// The part of a report that is missing if a directory cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum MissingPart {
    MountPoints,
    Boundaries,
    /// The number of hidden files, which is too low without the files in the directory.
    Count,
}

/// Why mount points may be missing from a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Incompleteness {
    #[error("the mount table does not contain the mount of ROOT")]
    MissingRoot,
    #[error(
        "statx(2) does not report mount points here: bind mounts and mounts on files are not found"
    )]
    NoMountAttributes,
    #[error("the mount table kept changing during the search")]
    TableKeptChanging,
    #[error("some mounts do not answer, and were not searched")]
    SilentMounts,
    #[error("some mount points cannot be accessed")]
    UnreadableMountPoints,
    #[error("some directories could not be read")]
    UnreadableDirectories,
    #[error("{} below the depth limit of {bound} not read", match unread {
        1 => "1 directory was".to_owned(),
        n => format!("{n} directories were"),
    })]
    DepthBound { bound: usize, unread: u64 },
}

/// Something that was skipped or found wrong while mounts were searched or examined.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum WarningKind {
    #[error("cannot read its attributes")]
    ReadAttributes(MissingPart),
    #[error("cannot read directory")]
    ReadDirectory(MissingPart),
    #[error("more warnings of this kind follow; only the first 1000 are listed")]
    TooMany,
    #[error("incomplete: {0}")]
    Incomplete(Incompleteness),
    #[error("it is in the mount table, but cannot be accessed")]
    UnreadableMountPoint,
    #[error("no answer within {}: it was not searched, and mounts on it are taken from the mount table", time_text(*.0))]
    NotSearched(Duration),
    #[error("cannot count the files beneath it: no path reaches its parent mount")]
    UnreachableParent,
    #[error("cannot count the files beneath it")]
    LookBeneath,
    #[error("{} beneath it could not be read, and were not counted", match .0 {
        1 => "1 file".to_owned(),
        n => format!("{n} files"),
    })]
    UnreadBeneath(u64),
    #[error("slow: answered after {}", time_text(*.0))]
    Slow(Duration),
    #[error("slow: some requests were not answered within {}", time_text(*.0))]
    SlowToAll(Duration),
    #[error("hung: no answer within {}", time_text(*.0))]
    Hung(Duration),
    #[error("hung: a process that an earlier check has left there still waits for an answer")]
    StillHung,
    #[error("stale: its server or device is gone")]
    Gone,
    #[error("stale: the file system fails; the kernel log (dmesg) has the reason")]
    Broken,
    #[error("stale: the file system was shut down, after an error or by request")]
    ShutDown,
    #[error("failing: an error has made it read-only; the kernel log (dmesg) has the reason")]
    ReadOnlyByError,
    #[error(
        "failing: read-only although it was mounted writable, after an error or by a remount; the kernel log (dmesg) may have the reason"
    )]
    Unwritable,
    #[error("failing: it has recorded {}; unmount it and run fsck", match .0 {
        1 => "1 error".to_owned(),
        n => format!("{n} errors"),
    })]
    Errors(u64),
    #[error("stale: the mounted directory has been removed")]
    Removed,
    #[error("stale: answers with an error")]
    Stale,
    #[error("denied: this user has no access to it")]
    Denied,
    /// A process that checked a mount and cannot be killed; its process id.
    #[error("process {0} is blocked in the kernel on this mount, and cannot be killed")]
    Unkillable(i32),
}

impl WarningReason for WarningKind {
    fn consequence(&self) -> Option<Cow<'_, str>> {
        let text = match self {
            WarningKind::ReadAttributes(loss) | WarningKind::ReadDirectory(loss) => match loss {
                MissingPart::MountPoints => "mount points in it are not found",
                MissingPart::Boundaries => "boundaries in it are not found",
                MissingPart::Count => "its contents are not counted",
            },
            WarningKind::Unkillable(_) => "it ends when the server answers",
            _ => return None,
        };
        Some(text.into())
    }

    fn explains_errno(&self) -> bool {
        use WarningKind::{LookBeneath, ReadAttributes, ReadDirectory};
        !matches!(self, ReadAttributes(_) | ReadDirectory(_) | LookBeneath)
    }
}
