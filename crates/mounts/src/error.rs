//! Errors, and the reasons of warnings.

use std::borrow::Cow;
use std::time::Duration;

use gate::{Errno, Gate};

use crate::reason::{Incompleteness, Loss, TableSource};
use crate::warning::WarningReason;

/// What could not be done, where, and how it failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{kind}{}{}", quoted(path.as_deref()), after_colon(*errno))]
pub struct Error {
    /// What could not be done.
    pub kind: ErrorKind,
    /// The file.
    pub path: Option<Vec<u8>>,
    /// The system call that failed.
    pub gate: Option<Gate>,
    /// How it failed.
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
    /// A system call failed on a file.
    pub fn at(kind: ErrorKind, path: &[u8], gate: Gate, errno: Errno) -> Error {
        Error {
            path: Some(path.to_vec()),
            ..Error::failed(kind, gate, errno)
        }
    }

    /// A system call failed.
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

/// What could not be done.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ErrorKind {
    /// A directory cannot be opened.
    #[error("cannot open directory")]
    OpenDirectory,
    /// A directory cannot be read.
    #[error("cannot read directory")]
    ReadDirectory,
    /// The attributes of a file cannot be read.
    #[error("cannot read the attributes of")]
    ReadAttributes,
    /// No absolute name leads to an open directory.
    #[error("cannot find the absolute name of")]
    FindName,
    /// listmount(2) failed.
    #[error("cannot list the mounts")]
    ListMounts,
    /// statmount(2) failed.
    #[error("cannot describe a mount")]
    DescribeMount,
    /// statmount(2) fills in nothing.
    #[error("statmount(2) says nothing of the mounts that listmount(2) gave")]
    EmptyStatmount,
    /// The ids from listmount(2) do not rise.
    #[error("listmount(2) gave ids that make no sense")]
    InvalidIds,
    /// /proc/self/mountinfo cannot be opened.
    #[error("cannot open /proc/self/mountinfo")]
    OpenMountinfo,
    /// /proc/self/mountinfo cannot be read.
    #[error("cannot read /proc/self/mountinfo")]
    ReadMountinfo,
    /// statfs(2) of /proc failed.
    #[error("cannot tell what /proc is")]
    IdentifyProc,
    /// /proc is not procfs.
    #[error("/proc/self/mountinfo is an ordinary file, not the kernel's")]
    ForgedMountinfo,
    /// The table has no row for the mount that the root is on.
    #[error("{} does not give the mount that the root is on", match .0 {
        TableSource::Kernel => "listmount(2)",
        TableSource::Mountinfo => "/proc/self/mountinfo",
    })]
    MissingRoot(TableSource),
    /// The table can be read neither from the kernel's calls nor from mountinfo.
    #[error("{}; {}", .0[0], .0[1])]
    NoTable(Box<[Error; 2]>),
    /// signalfd(2) failed.
    #[error("cannot wait for signals")]
    WaitForSignals,
    /// poll(2) failed.
    #[error("cannot wait for changes")]
    WaitForChanges,
    /// The fanotify group cannot be read.
    #[error("cannot read mount events")]
    ReadEvents,
    /// Neither fanotify nor mountinfo can be watched.
    #[error("{fanotify}; {mountinfo}")]
    NoWatch {
        /// Why not fanotify.
        fanotify: FanotifyRefusal,
        /// Why not mountinfo.
        mountinfo: Box<Error>,
    },
}

/// Why fanotify does not report mounts here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{} answers {errno}", gate.name())]
pub struct FanotifyRefusal {
    /// The call that failed.
    pub gate: Gate,
    /// How.
    pub errno: Errno,
}

/// What was skipped or found wrong while mounts were found or examined.
#[derive(Debug, thiserror::Error)]
pub enum WarningKind {
    /// statx(2) of a file failed.
    #[error("cannot read its attributes")]
    ReadAttributes(Loss),
    /// A directory cannot be opened, or not be read to its end.
    #[error("cannot read directory")]
    ReadDirectory(Loss),
    /// There were more warnings than are kept.
    #[error("more of the same; only the first 1000 are named")]
    TooMany,
    /// Mount points may be missing.
    #[error("incomplete: {0}")]
    Incomplete(Incompleteness),
    /// A mount point in the table cannot be looked at.
    #[error("the mount table names it, but it cannot be looked at")]
    UnreadableMountPoint,
    /// The mount that a mount point is on has no name.
    #[error("what lies beneath is not known: it is on a mount that no name leads to")]
    UnreachableParent,
    /// What lies beneath a mount point cannot be counted.
    #[error("cannot look beneath the mount point")]
    LookBeneath,
    /// Some files beneath a mount point cannot be read.
    #[error("{} beneath it could not be read, and not counted", match .0 {
        1 => "1 file".to_owned(),
        n => format!("{n} files"),
    })]
    UnreadBeneath(u64),
    /// A mount answered late.
    #[error("slow: it answered after {:.3} s", .0.as_secs_f64())]
    Slow(Duration),
    /// A mount answered some calls only, within the deadline.
    #[error("slow: it answers, but not to all within {:.3} s", .0.as_secs_f64())]
    SlowToAll(Duration),
    /// A mount did not answer within the deadline.
    #[error("hung: no answer within {:.3} s", .0.as_secs_f64())]
    Hung(Duration),
    /// The server or the device of a mount is gone.
    #[error("stale: its server or device is gone")]
    Gone,
    /// What is mounted has been removed.
    #[error("stale: what is mounted here has been removed")]
    Removed,
    /// A mount answers with an error.
    #[error("stale: it answers with an error")]
    Stale,
    /// This user has no permission to look into a mount.
    #[error("denied: this user may not look into it")]
    Denied,
    /// A process that checked a mount cannot be killed.
    #[error(
        "process {0} waits in the kernel for this mount's server, which has taken its request, and cannot be killed"
    )]
    Unkillable(i32),
}

impl WarningReason for WarningKind {
    fn consequence(&self) -> Option<Cow<'_, str>> {
        let text = match self {
            WarningKind::ReadAttributes(loss) | WarningKind::ReadDirectory(loss) => match loss {
                Loss::MountPoints => "mount points in it are not seen",
                Loss::Boundaries => "boundaries in it are not seen",
                Loss::Count => "what is in it is not counted",
            },
            WarningKind::Unkillable(_) => "it ends when the server answers or ends",
            _ => return None,
        };
        Some(text.into())
    }

    fn explains_errno(&self) -> bool {
        !matches!(
            self,
            WarningKind::ReadAttributes(_)
                | WarningKind::ReadDirectory(_)
                | WarningKind::LookBeneath
        )
    }
}
