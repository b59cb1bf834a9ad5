//! The remedies for warnings and errors, by reason and errno. They are not in the library crates,
//! because many of them name a flag or a command of fathom.

use std::borrow::Cow;
use std::ffi::CStr;

use archive::restore::NotRestored;
use archive::verify::Difference;
use archive::{Damage, ErrorKind};
use base::Warning;
use catalog::StoreError;
use gate::Errno;
use gate::fs::{FileType, Statx, StatxMask};
use gate::long::stat_long;
use mounts::Incompleteness;
use mounts::namespace::OtherNamespace;
use show::shell::quoted;

pub(crate) use self::archives::{
    ITS_SNAPSHOTS, archive_hint, has_snapshot_catalog, newest_catalog,
};
use self::commands::{hint_for_pathsearch, hint_for_pathwalk, hint_for_probe};
use crate::cmd::compare::show as compare;
use crate::rank_warning::Reason;

mod archives;
mod commands;

/// The hint for a directory with parts of a different run.
pub(crate) const OLD_PARTS: &str =
    "continue that run with --resume and as many ranks as before, or give a new directory";
/// The hint for a name or a pattern that ends with a carriage return.
pub(crate) const CRLF: &str = "remove the carriage returns of CRLF lines with tr -d '\\r'";
const SEE_THE_LOG: &str = "the kernel's log says more";

/// Whether a nonexistent name ends in a carriage return. Such a name is probably from a list with
/// CRLF line ends.
pub(crate) fn ends_in_cr(path: Option<&[u8]>) -> bool {
    path.is_some_and(|path| path.ends_with(b"\r"))
}

/// The hint for a missing name with escapes, as this program prints other bytes than text.
fn escaped_name(warning: &Warning) -> Option<String> {
    let is_missing = matches!(warning.reason(), Some(archive::WarningKind::NoSuchMember))
        || matches!(
            warning.reason(),
            Some(NotRestored::NoSuchMember | NotRestored::NotInLastTree)
        );
    let path = str::from_utf8(warning.path.as_deref()?).ok()?;
    let is_hex = |at: usize| u8::from_str_radix(path.get(at + 2..at + 4)?, 16).ok();
    let has_escape = path
        .match_indices("\\x")
        .any(|(at, _)| is_hex(at).is_some());
    let is_escaped = is_missing && has_escape && !path.contains('\'');
    is_escaped.then(|| format!("in bash, $'{path}' has the bytes instead of the escapes"))
}

fn is_directory(path: &[u8]) -> bool {
    stat_long(path, StatxMask::TYPE).is_ok_and(|seen| seen.file_type == FileType::Directory)
}

/// The hint for a warning; `None` if no remedy is known.
pub(crate) fn hint(warning: &Warning) -> Option<Cow<'static, str>> {
    if let Some(hint) = escaped_name(warning) {
        return Some(Cow::Owned(hint));
    }
    if let Some(kind) = warning.reason() {
        return hint_for_pathwalk(kind);
    }
    if let Some(space::WarningKind::OtherNamespace(other)) = warning.reason() {
        return Some(Cow::Owned(enter_hint(other, "space")));
    }
    if let Some(reason) = warning.reason::<Reason>() {
        return reason.hint.clone().map(Cow::Owned);
    }
    let hint = if let Some(kind) = warning.reason() {
        hint_for_pathsearch(*kind)
    } else if let Some(kind) = warning.reason() {
        match kind {
            archive::WarningKind::DoesNotExist if ends_in_cr(warning.path.as_deref()) => Some(CRLF),
            kind => hint_for_archive(kind, warning.errno),
        }
    } else if let Some(catalog::WarningKind::EntriesLost(_)) = warning.reason() {
        Some("dump it again")
    } else if let Some(Difference::OnlyListed) = warning.reason() {
        ends_in_cr(warning.path.as_deref()).then_some(CRLF)
    } else if let Some(NotRestored::NoSuchMember) = warning.reason()
        && let Some(dir) = warning.path.as_deref().filter(|path| is_directory(path))
    {
        return Some(Cow::Owned(format!(
            "to restore below it, use -C {}",
            quoted(dir)
        )));
    } else if let Some(reason) = warning.reason() {
        hint_for_restore(reason, warning.errno)
    } else if let Some(kind) = warning.reason() {
        hint_for_walk(kind, warning.errno)
    } else if let Some(meter::WarningKind::Unprivileged(_)) = warning.reason() {
        Some("run fathom as root")
    } else if let Some(kind) = warning.reason() {
        hint_for_probe(kind)
    } else if let Some(compare::WarningKind::TooShort { .. }) = warning.reason() {
        Some("measure a larger tree, or more work: times below a clock tick are 0")
    } else if let Some(kind) = warning.reason() {
        hint_for_space(kind)
    } else {
        hint_for_mounts(warning.reason()?, warning.errno)
    };
    hint.map(Cow::Borrowed)
}

/// The hint for a warning of a dump, a listing or a verification.
fn hint_for_archive(kind: &archive::WarningKind, errno: Option<Errno>) -> Option<&'static str> {
    use archive::WarningKind::*;
    Some(match kind {
        ReplacedAndSkipped | Replaced | OtherSource | ZerosFrom { .. } | NotCheckedAfterwards => {
            "dump it again"
        }
        TooManyNames => "make a full dump",
        BehindSymlink(_) => "list it by a path without symbolic links",
        InNoCatalog => "fathom list ARCHIVE... -- '*NAME' searches the archives themselves",
        NoSuchMember => "fathom list without PATH prints all members",
        Damaged(ErrorKind::DamagedArchive {
            damage: Damage::FrameLost { .. },
            ..
        }) => "fathom restore restores all other members",
        Lost => "fathom list --state DIR -- PATH prints the other dumps that have a file",
        Unreadable => match errno? {
            Errno::EACCES | Errno::EPERM => "run as root, or skip it with --exclude",
            Errno::EIO | Errno::EUCLEAN => SEE_THE_LOG,
            Errno::ENOKEY => "the file is encrypted: unlock it with its key",
            _ => return None,
        },
        _ => return None,
    })
}

fn hint_for_restore(reason: &NotRestored, errno: Option<Errno>) -> Option<&'static str> {
    use NotRestored::*;
    Some(match (reason, errno) {
        (_, Some(Errno::EMFILE | Errno::ENFILE)) => "raise the limit of open files (ulimit -n)",
        (_, Some(Errno::ENOSPC | Errno::EDQUOT)) => "free some space, and restore again",
        (_, Some(Errno::EROFS)) => "restore to a writable file system",
        // The attributes of a file that cannot be opened, such as a device, are set through
        // /proc/self/fd.
        (Mode | Xattrs(_) | StaleXattrs | Acl, Some(Errno::ENOENT)) => "mount /proc",
        (InTheWay, Some(Errno::EPERM)) => "lsattr shows whether it is immutable",
        (NoSuchMember | NotInLastTree, _) => {
            "fathom list prints the members of an archive; fathom list --state DIR -- '*NAME*' finds files in all dumps"
        }
        (NotInUndamagedPart, _) => "fathom list --state DIR -- '*NAME*' finds files in all dumps",
        (AboveNotEntered | RemovalTakesRoot | DeviceTakesRoot, _) => "run as root",
        (AboveNotDirectory, _) => "move the parent away, or restore to another directory",
        (DirectoryInTheWay, _) => "move it away, and restore again",
        (NoSuchTarget(_), _) => "restore that file too",
        (
            Damaged {
                damage: Damage::FrameLost { .. },
                ..
            },
            _,
        ) => "fathom verify --state DIR names the lost members, if the dump has a catalog",
        _ => return None,
    })
}

fn hint_for_walk(kind: &walk::WarningKind, errno: Option<Errno>) -> Option<&'static str> {
    use walk::WarningKind::*;
    Some(match (kind, errno) {
        (UnreadableTree { .. }, _) => SEE_THE_LOG,
        (Damaged(_), _) => "check the file system with fsck",
        (MountedMeanwhile | Moved, _) => "run the command again",
        (OpenDirectory | ReadDirectory | ReadAttributes, Some(errno)) => match errno {
            Errno::EACCES | Errno::EPERM => "run as root, or skip it with --exclude",
            Errno::ESTALE | Errno::ENOTCONN => {
                "run fathom mounts --check to see which mounts do not answer"
            }
            Errno::EIO | Errno::EUCLEAN => SEE_THE_LOG,
            _ => return None,
        },
        _ => return None,
    })
}

/// The hint for a directory in a different mount namespace.
pub(crate) fn enter_hint(other: &OtherNamespace, command: &str) -> String {
    let path = quoted(&other.path);
    format!("nsenter -t {} -m fathom {command} {path}", other.pid)
}

fn hint_for_space(kind: &space::WarningKind) -> Option<&'static str> {
    use space::WarningKind::*;
    match kind {
        PartOnly(_) => Some("mount the root of the file system, and give that directory"),
        NoProcesses | UnknownMount => Some("mount /proc"),
        Beneath(_) | Processes(_) | Superblock | Owners | Trees | Unread { .. } => {
            (!gate::process::is_root()).then_some("run as root")
        }
        Stuck(_) => Some("fathom mounts --check shows which mounts do not answer"),
        BlockGroups | NoSize | OtherNamespace(_) => None,
    }
}

fn hint_for_mounts(kind: &mounts::WarningKind, errno: Option<Errno>) -> Option<&'static str> {
    use mounts::WarningKind::*;
    let is_root = gate::process::is_root();
    Some(match kind {
        ReadAttributes(_) | ReadDirectory(_) => match errno? {
            Errno::EACCES | Errno::EPERM if !is_root => {
                "run as root, or give a ROOT that you can read"
            }
            Errno::ENOTCONN | Errno::ESTALE | Errno::EIO | Errno::ETIMEDOUT | Errno::EHOSTDOWN => {
                "run fathom mounts --check to see which mounts do not answer"
            }
            _ => return None,
        },
        LookBeneath => match errno? {
            Errno::EPERM => "run as root (CAP_SYS_ADMIN)",
            Errno::ENOSYS => "open_tree(2) requires Linux 5.2",
            Errno::EINVAL => {
                "run fathom outside of this container, where the mounts are not locked"
            }
            Errno::ETIMEDOUT => "its parent mount does not answer: see fathom mounts --check",
            _ => return None,
        },
        UnreadBeneath(_) if !is_root => "run as root",
        UnreadableMountPoint => "run as root",
        Incomplete(Incompleteness::MissingRoot) => "try --by search",
        Incomplete(Incompleteness::DepthBound { .. }) => "use --depth 0 for no limit",
        NotSearched(_) => "fathom mounts --check names what does not answer",
        Hung(_) | StillHung => {
            "exclude it from backups (--format exclude), or detach it for all processes with umount -l"
        }
        Gone => "detach it for all processes with umount -l",
        Removed => "unmount it",
        Stale => "check its server",
        Denied => "run as another user",
        _ => return None,
    })
}

/// The hint if no meter works, or if the meter of `--meter` does not work.
pub(crate) fn meter_hint(why: &meter::Unavailable) -> Option<&'static str> {
    use meter::Unavailable::{BpfMap, BpfProgram, NoMeter, OnlyProcesses, Ptrace};
    match why {
        OnlyProcesses => Some("use --meter bpf, as root"),
        NoMeter(refused) if refused.iter().any(|(_, why)| *why == OnlyProcesses) => {
            Some("run as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE")
        }
        BpfMap(Errno::EPERM) | BpfProgram(Errno::EPERM, _) => Some(
            "run as root (or with CAP_BPF, CAP_PERFMON and CAP_IPC_LOCK), or use --meter ptrace",
        ),
        NoMeter(refused) => refused.iter().find_map(|(_, why)| meter_hint(why)),
        Ptrace(Errno::EPERM) => Some(
            "in a container, allow ptrace (--cap-add=SYS_PTRACE); elsewhere, set kernel.yama.ptrace_scope to \
             at most 1, and do not trace fathom itself",
        ),
        Ptrace(_) => Some("use --meter bpf, as root"),
        _ => None,
    }
}

/// The hint for a process that cannot be attached to.
pub(crate) fn target_hint(why: &meter::TargetError) -> String {
    use meter::TargetError::*;
    match why {
        NoProcess(_) => "list processes with ps -e".into(),
        Thread(_, process) => format!("give -p {process}"),
        KernelThread(_) | Myself(_) => "give the id of another process".into(),
        OtherUser(_) => "run as root".into(),
        Traced(_, tracer) => format!("end process {tracer}, or use --meter bpf, as root"),
        Unopened(..) | NotCgroup(_) => {
            "give a directory of a cgroup file system, such as /sys/fs/cgroup/system.slice".into()
        }
    }
}

/// The hint for a command that cannot be executed.
pub(crate) fn command_hint(why: &meter::CommandError) -> &'static str {
    use meter::CommandError::{Empty, NotExecuted, NotFound};
    match why {
        Empty => "give a command",
        NotFound(name) if name.iter().any(|byte| b" |;&<>$*".contains(byte)) => {
            "for a shell command line, give sh -c '...'"
        }
        NotFound(_) => "check the name, or give the path of the command",
        NotExecuted(program, errno) => match (*errno, examine(program)) {
            (Errno::ENOENT, Ok(_)) => "install the interpreter that it names",
            (Errno::ENOENT | Errno::ENOTDIR, _) => "check the path",
            (Errno::EACCES, Ok(seen)) if seen.file_type == FileType::Directory => {
                "it is a directory: give the path of a program"
            }
            (Errno::EACCES, Ok(seen)) if seen.mode & 0o111 == 0 => {
                "make it executable with chmod +x"
            }
            (Errno::EACCES, Ok(_)) => {
                "check its owner and mode; its file system must not be mounted noexec"
            }
            (Errno::EACCES, Err(_)) => "check the modes of the directories above it",
            (Errno::ENOEXEC, _) => "begin a script with #! and its interpreter",
            _ => "check whether it runs without fathom",
        },
    }
}

/// The type and mode of a program that cannot be executed.
fn examine(program: &CStr) -> gate::Result<Statx> {
    stat_long(program.to_bytes(), StatxMask::TYPE | StatxMask::MODE)
}

/// The hint for an error of a remote restic repository.
#[cfg(feature = "restic")]
pub(crate) fn repository_hint(location: &[u8], error: &StoreError) -> Cow<'static, str> {
    let is_bucket = location.starts_with(b"s3:");
    let hint = match error {
        StoreError::NoConnection(_) if location.starts_with(b"sftp:") => {
            "check that ssh connects to the host and asks for nothing"
        }
        StoreError::NoConnection(_) => "check the URL, and that the server runs",
        StoreError::WrongCredentials(..) if !is_bucket => {
            "check the user and the password in the URL, or RESTIC_REST_USERNAME and RESTIC_REST_PASSWORD"
        }
        StoreError::Denied if !is_bucket => {
            "give the user permission to write; a server in append-only mode is enough"
        }
        error => return store_hint(error),
    };
    hint.into()
}

pub(crate) fn store_hint(error: &StoreError) -> Cow<'static, str> {
    let hint = match error {
        StoreError::Unsupported => "use a build with --features cloud",
        StoreError::BadUrl => "give s3://BUCKET/KEY",
        StoreError::OtherScheme => {
            "rclone serve s3 makes an S3 endpoint of other stores; put ./ before the name of a file"
        }
        StoreError::BadKey(_) => "give a bucket and a key such as s3://bucket/dir/name.tar.zst",
        StoreError::BadSetting(_) => "look for blanks and for a newline at its end",
        StoreError::BadEndpoint(_) => "give it with its scheme, such as https://s3.example.com",
        StoreError::WrongClock => {
            "set the clock of this machine: timedatectl shows whether it is synchronized"
        }
        StoreError::WrongRegion(_) => "set AWS_REGION to the region of the bucket",
        StoreError::NotImplemented => "use another store, or an object without conditions",
        StoreError::NoCredentials(_) => "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        StoreError::PlainHttp => "set AWS_ALLOW_HTTP=true to permit it",
        StoreError::WrongCredentials(_, variables) => match &variables[..] {
            [] => "check the endpoint, and the role of this machine",
            variables => {
                let variables = variables.join(", ");
                return format!("check the endpoint, and the values of {variables}").into();
            }
        },
        StoreError::Denied => {
            "give the access key permission for this bucket and key; an object under object lock stays as it is"
        }
        StoreError::NoBucket => "check the name and the endpoint, or create the bucket",
        StoreError::NotFound => "check the name",
        StoreError::Changed => "run the command again",
        StoreError::TooLarge(_) => "dump fewer directories to each archive",
        StoreError::NoConnection(_) => {
            "check --endpoint-url, the variable with the endpoint (such as AWS_ENDPOINT_URL) and HTTPS_PROXY"
        }
        StoreError::Certificate(_) => {
            "check the name in the endpoint; SSL_CERT_FILE names a file with the certificate of its authority"
        }
        StoreError::Redirected(_) => {
            "redirects are not followed: give the URL of the server itself"
        }
        StoreError::LongAnswer(_) => "check that it is the server that you mean",
        StoreError::Refused(_) | StoreError::Other(_) => "",
    };
    hint.into()
}
