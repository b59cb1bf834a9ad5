//! What to do about a warning or an error, by its reason and errno. The hints are not in the library
//! crates, because many of them name a flag or a command.

use std::borrow::Cow;
use std::ffi::CStr;

use archive::compression::{BadSuffix, Compression};
use archive::restore::NotRestored;
use archive::verify::Difference;
use archive::{Action, ErrorKind, NotArchive, StoreError};
use base::Warning;
use gate::Errno;
use gate::fs::{At, FileType, Statx, Want};
use gate::long::statx_long;
use mounts::Incompleteness;
use show::name::printable;

use self::commands::{hint_for_comparison, hint_for_pathsearch, hint_for_pathwalk, hint_for_probe};
use crate::rank_warning::Reason;

mod commands;

/// What to do about the parts of another run.
pub(crate) const OLD_PARTS: &str =
    "continue that run with --resume and as many ranks as before, or give a new directory";
/// What to do about a name or a pattern that ends with a carriage return.
pub(crate) const CRLF: &str = "remove the carriage returns of CRLF lines with tr -d '\\r'";
const SEE_THE_LOG: &str = "the kernel's log says more";

/// Whether a name that does not exist may be from a list with CRLF lines.
pub(crate) fn ends_in_cr(path: Option<&[u8]>) -> bool {
    path.is_some_and(|path| path.ends_with(b"\r"))
}

/// What to do about a warning.
pub(crate) fn hint(warning: &Warning) -> Option<Cow<'static, str>> {
    if let Some(kind) = warning.reason() {
        return hint_for_pathwalk(kind);
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
    } else if let Some(Difference::OnlyListed) = warning.reason() {
        ends_in_cr(warning.path.as_deref()).then_some(CRLF)
    } else if let Some(reason) = warning.reason() {
        hint_for_restore(reason, warning.errno)
    } else if let Some(kind) = warning.reason() {
        hint_for_walk(kind, warning.errno)
    } else if let Some(kind) = warning.reason() {
        hint_for_meter(kind)
    } else if let Some(kind) = warning.reason() {
        hint_for_probe(kind)
    } else if let Some(kind) = warning.reason() {
        hint_for_comparison(kind)
    } else {
        hint_for_mounts(warning.reason()?, warning.errno)
    };
    hint.map(Cow::Borrowed)
}

/// For a dump, a listing or a verification.
fn hint_for_archive(kind: &archive::WarningKind, errno: Option<Errno>) -> Option<&'static str> {
    use archive::WarningKind::*;
    Some(match kind {
        ReplacedAndSkipped
        | Replaced
        | OtherSource
        | EntriesLost(_)
        | ZerosFrom { .. }
        | NotCheckedAfterwards => "dump it again",
        TooManyNames => "make a full dump",
        BehindSymlink(_) => "list it by a path without symbolic links",
        NoSuchMember => "fathom list without PATH prints all members",
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
        // The attributes of files that are not opened, such as devices, are set through /proc/self/fd.
        (Mode | Xattrs(_) | StaleXattrs | Acl, Some(Errno::ENOENT)) => "mount /proc",
        (InTheWay, Some(Errno::EPERM)) => "lsattr shows whether it is immutable",
        (NoSuchMember, _) => "fathom list prints the members of an archive",
        (AboveNotEntered | RemovalTakesRoot | DeviceTakesRoot, _) => "run as root",
        (AboveNotDirectory, _) => "move the parent away, or restore to another directory",
        (DirectoryInTheWay, _) => "move it away, and restore again",
        (NoSuchTarget(_), _) => "restore that file too",
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
            "exclude it from backups (--format exclude), or detach it with umount -l"
        }
        Gone => "detach it with umount -l",
        Removed => "unmount it",
        Stale => "check its server",
        Denied => "run as another user",
        _ => return None,
    })
}

/// What to do if no meter works, or the chosen one does not.
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

/// What to do about a process that cannot be attached to.
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

/// What to do about a command that cannot be run.
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
    statx_long(program.to_bytes(), At::empty(), Want::TYPE | Want::MODE)
}

fn hint_for_meter(kind: &meter::WarningKind) -> Option<&'static str> {
    use meter::WarningKind::Unprivileged;
    Some(match kind {
        Unprivileged(_) => "run fathom as root",
        _ => return None,
    })
}

/// What to do about an error of an archive or a catalog.
pub(crate) fn archive_hint(error: &archive::Error) -> Cow<'static, str> {
    match &error.kind {
        ErrorKind::OtherTree { dir, .. } => format!("use --against '{}'", printable(dir)).into(),
        ErrorKind::NotArchive(NotArchive::Compressed(_, command)) => {
            format!("decompress it with {command}, and give - as ARCHIVE").into()
        }
        ErrorKind::Store(error) => store_hint(error),
        _ => fixed_archive_hint(error).into(),
    }
}

/// What to do about an error of a restic repository that is no local directory.
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

fn store_hint(error: &StoreError) -> Cow<'static, str> {
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
        StoreError::LongAnswer(_) => "check that it is the server that you mean",
        StoreError::Refused(_) | StoreError::Other(_) => "",
    };
    hint.into()
}

fn fixed_archive_hint(error: &archive::Error) -> &'static str {
    use Action::*;
    match (error.action, error.errno()) {
        (OpenState | FindBase | RemoveHigherLevels, Some(Errno::ENOENT)) => {
            return "check the name, or create the directory";
        }
        (RestoreInto, Some(Errno::ENOENT)) => return "create it first",
        (WriteArchive, Some(Errno::ENOSPC)) => {
            return "free some space, or write to another file system";
        }
        (WriteArchive, Some(Errno::EFBIG)) => {
            return "ulimit -f or the file system limits the file size; compress with a name that ends in .zst";
        }
        _ => {}
    }
    match (error.action, &error.kind) {
        (UseCatalog, ErrorKind::SeveralRoots { .. }) => "write one with fathom walk --catalog",
        (UseCatalog, ErrorKind::Unpaired { .. }) => {
            "give one catalog of each directory in OLD and in NEW"
        }
        (UseCatalog, ErrorKind::NotAllParts) => "give a directory with the parts of one walk",
        (ReadArchive | Restore, ErrorKind::MissingParts(_)) => {
            "give a directory with all parts of one dump"
        }
        (_, ErrorKind::MissingParts(_)) => {
            "wait until all parts are written, or walk again; --resume keeps parts that are finished"
        }
        (WriteCatalog, ErrorKind::OtherRun) => OLD_PARTS,
        (WriteCatalog, ErrorKind::InParts) => {
            "make one catalog of the parts with fathom query --compact, and update that"
        }
        (UseCatalog, ErrorKind::OnlyRank { .. }) => "give the directory with all parts",
        (UseCatalog, ErrorKind::OnlyShard(_)) => "compare it with the same shard of another walk",
        (UseBase, ErrorKind::OnlyRank { .. }) => {
            "give the directory with all parts, or make a full dump"
        }
        (UseBase, ErrorKind::OnlyShard(_)) => {
            "give the directory with all shards, or make a full dump"
        }
        (UseCatalog, ErrorKind::OnlyListed) => "write one with fathom walk --catalog",
        (ReadList, ErrorKind::CarriageReturn { .. }) => CRLF,
        (UseList, ErrorKind::NoNames) => "name at least one file or directory, one per line",
        (UseList, ErrorKind::MixedNames { .. }) => {
            "make all names absolute, or all relative to the current directory"
        }
        (UseList, ErrorKind::ParentInName { .. }) => {
            "use an absolute name, or run fathom in the directory above"
        }
        (UseCatalog, ErrorKind::OtherCatalog { .. }) => "give two catalogs of one directory",
        (UseCatalog, ErrorKind::OtherFileSystem { .. } | ErrorKind::OtherDirectory { .. }) => {
            "give that directory, or write a new catalog"
        }
        (UseCatalog, ErrorKind::OtherNameForExcludes { .. }) => "give DIR by the same path",
        (UseBase, ErrorKind::OtherSources { .. }) => {
            "give SRC by the same path, or make a full dump"
        }
        (OpenArchive, ErrorKind::OtherOwner { .. } | ErrorKind::OthersMayWrite { .. }) => {
            "fathom restore takes it by its name, if you trust everybody who may have written it"
        }
        (OpenArchive, ErrorKind::ArchiveGone { .. }) => {
            "fathom list --state prints the archives; fathom restore takes them by name"
        }
        (_, ErrorKind::OtherOwner { .. }) => "use one of your own, or run fathom as that user",
        (_, ErrorKind::OthersMayWrite { .. }) => {
            "chmod go-w, once nobody else can have written what is in it"
        }
        (WriteArchive, ErrorKind::LocalArchive { .. }) => {
            "write the archive to the store, or use a local --state"
        }
        (_, ErrorKind::LocalArchive { .. }) => {
            "fathom restore takes it by its name; records in a store name objects only"
        }
        (_, ErrorKind::SourceBehindSymlink { .. }) => {
            "give the target of the symlink, or dump it to an archive of its own"
        }
        (UseBase, ErrorKind::SameName(..)) => "dump them to archives of their own",
        (OpenState, ErrorKind::OtherSources { .. }) => "give each SRC a state directory of its own",
        (UseBase, _) => "make a full dump",
        (_, ErrorKind::NewerCatalog { .. }) => "use a newer fathom, or write a new catalog",
        (_, ErrorKind::NotParquet | ErrorKind::NotCatalog) => {
            "give a file that --catalog has written"
        }
        (_, ErrorKind::StaleChecksum) => {
            "remove checksum and checksums from its metadata fathom.catalog, or make a full dump"
        }
        (_, ErrorKind::UnknownCodec(_)) => "write it again with zstd, Snappy, gzip or LZ4_RAW",
        (ReadRecords, ErrorKind::TooLong { .. }) => {
            "find out what has written it: each dump takes a line of 500 bytes to 4 MiB"
        }
        (_, ErrorKind::TooLong { .. } | ErrorKind::LargeRowGroup { .. }) => {
            "write it again with smaller row groups"
        }
        (_, ErrorKind::NoColumn { .. } | ErrorKind::OtherType { .. }) => {
            "write it again with all columns of the original, in their types"
        }
        // A new catalog would not show what has changed since the lost one was written: a dump must
        // not be based on it.
        (_, kind) if kind.is_unusable_catalog() => {
            "write a new catalog; for increments, make a full dump"
        }
        (_, ErrorKind::SeveralRuns { .. }) => {
            "move the parts of each run to a directory of its own"
        }
        (_, ErrorKind::NoArchives) => "give an archive, or a directory with the parts of one",
        (_, ErrorKind::NoCatalogs) => "give a catalog, or a directory with the parts of one",
        (OpenState, ErrorKind::NotMounted { .. }) => {
            "mount it, or remove its line from /etc/fstab: archives would be written to another file system"
        }
        (CreateState, ErrorKind::NoParent) => {
            "create it if its file system is mounted; mount that first if it is not"
        }
        (OpenState, ErrorKind::StateInUse) => "wait until it ends, or give another directory",
        (ReadRecords, ErrorKind::DamagedRecord { .. }) => {
            "remove that line; fathom restore takes archives by name as well"
        }
        (FindDump, ErrorKind::NoDump) => {
            "give the directory of fathom dump --state, or the archives by name"
        }
        (FindDump, ErrorKind::NoDumpBefore) => "fathom list --state prints all dumps",
        (FindDump, _) => {
            "fathom list --state prints the archives; fathom restore takes them by name"
        }
        (RestoreInto, ErrorKind::NotEmpty { .. }) => {
            "restore into an empty directory, or give --overwrite"
        }
        (Restore, ErrorKind::BaseMissing { .. }) => {
            "give all archives of the chain; fathom list --state prints them"
        }
        (Restore, ErrorKind::BeforeBase { .. }) => {
            "give the archives in the order in which they were made"
        }
        (Restore, ErrorKind::SameBase { .. }) => "omit the older of the two",
        (Restore, ErrorKind::SecondFullDump { .. }) => {
            "give one full dump and its increments, and restore the other chain into another directory"
        }
        (Restore, ErrorKind::StrippedChain) => {
            "restore without --strip-components into a new directory, and move what is in it"
        }
        (CompareWith, ErrorKind::NoCatalogKept) => {
            "fathom verify ARCHIVE --against DIR compares a full dump; dumps without -o keep their catalogs"
        }
        (Restore, ErrorKind::NotInDump) => {
            "fathom list --state DIR -- PATH prints the dumps that have it"
        }
        (Restore, ErrorKind::NotPlainFile) => "restore it into a directory, with -C",
        (Restore, ErrorKind::OutsideSources { .. }) => "give a path below one of these",
        (Restore, ErrorKind::BadName(_)) => "give the name as fathom list prints it",
        (_, ErrorKind::ReplacesSource) => "give another name",
        (_, ErrorKind::ReplacesBase) => "give each archive a name of its own",
        (_, ErrorKind::SharedFile) => "give each a name of its own",
        (_, ErrorKind::Suffix(BadSuffix::Other)) => {
            "give a name with the suffix of --compress, or with .tar"
        }
        (_, ErrorKind::Suffix(BadSuffix::Unsupported)) => "use .tar, .tar.gz, .tar.xz or .tar.zst",
        (_, ErrorKind::NoSuchPath { is_directory: true }) => "to restore into it, use -C",
        (_, ErrorKind::NoSuchPath { .. }) => {
            "check the name of the archive; fathom list prints the members"
        }
        (_, ErrorKind::NotArchive(what)) => match what {
            NotArchive::Parquet => "give the archive of the same dump",
            NotArchive::Empty | NotArchive::Other | NotArchive::Compressed(..) => {
                "give an archive of fathom dump or tar"
            }
        },
        (_, ErrorKind::DamagedArchive { at: 0, .. }) => {
            "nothing in it can be read: copy the file again, or use another copy"
        }
        (_, ErrorKind::DamagedArchive { .. }) => "fathom verify shows what is damaged",
        (_, ErrorKind::LargeWindow(Compression::Zstd)) => {
            "decompress it with zstd -dc --long=31, and give - as ARCHIVE"
        }
        (_, ErrorKind::LargeWindow(_)) => "decompress it with xz -dc, and give - as ARCHIVE",
        _ => "",
    }
}
