//! Errors of commands (exit status 2), converted from the errors of each library crate. The message
//! contains the action, the path, the cause and, if there is one, a hint.

use std::fmt;

use archive::{Action, ErrorKind};
use catalog::Action::WriteCatalog;
use gate::Errno;
use serde::{Deserialize, Serialize};
use show::name::printable;

#[cfg(feature = "restic")]
use crate::hint::repository_hint;
use crate::hint::{
    CRLF, archive_hint, command_hint, ends_in_cr, enter_hint, meter_hint, target_hint,
};

/// The result of a command: the number of warnings, or the error.
pub(crate) type Outcome = Result<usize, Error>;

/// The error of a command, printed after `fathom: `, and a hint.
#[derive(Clone, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Error {
    message: String,
    /// The hint, printed on a separate line; empty if no hint is known.
    hint: String,
    /// This rank of an MPI job stopped only because a different rank has failed.
    is_of_other_rank: bool,
}

impl Error {
    /// An error without a path.
    pub(crate) fn new(message: impl Into<String>) -> Error {
        Error {
            message: message.into(),
            hint: String::new(),
            is_of_other_rank: false,
        }
    }

    /// Whether a different rank of an MPI job has failed, and reports the error.
    pub(crate) fn is_of_other_rank(&self) -> bool {
        self.is_of_other_rank
    }

    /// The hint: a remedy for the error; empty if no remedy is known.
    pub(crate) fn hint(&self) -> &str {
        &self.hint
    }

    /// The error of action `doing`, which failed to read `path`. If `hint` is empty, the errno
    /// selects the hint.
    pub(crate) fn read(doing: &str, path: &[u8], cause: impl Cause, hint: &str) -> Error {
        Error::at(doing, path, &cause, hint, Access::Read)
    }

    /// The error of action `doing`, which failed to write `path`. If `hint` is empty, the errno
    /// selects the hint.
    pub(crate) fn write(doing: &str, path: &[u8], cause: impl Cause, hint: &str) -> Error {
        Error::at(doing, path, &cause, hint, Access::Write)
    }

    pub(crate) fn with_hint(mut self, hint: &str) -> Error {
        if !self.hint.is_empty() {
            self.hint += "; ";
        }
        self.hint += hint;
        self
    }

    /// Adds the rank of an MPI job and its host to the message.
    pub(crate) fn at_place(self, place: &str) -> Error {
        Error {
            message: format!("{place}: {}", self.message),
            ..self
        }
    }

    /// The error of a failed restic snapshot.
    #[cfg(feature = "restic")]
    pub(crate) fn snapshot(repository: &[u8], error: &restic::Error) -> Error {
        let hint = match error {
            restic::Error::Remote { error, .. } => repository_hint(repository, error),
            error => snapshot_hint(error).into(),
        };
        let repository = printable(repository);
        let error = printable(error.to_string().as_bytes()).into_owned();
        Error::new(format!("cannot make a snapshot in '{repository}': {error}")).with_hint(&hint)
    }

    fn at(doing: &str, path: &[u8], cause: &dyn Cause, hint: &str, access: Access) -> Error {
        let is_planted = || matches!(access, Access::Write) && gate::file::is_planted(path);
        let hint = match (hint, cause.errno()) {
            (_, Some(Errno::EACCES)) if is_planted() => {
                "remove the symlink, the FIFO or the device that another user has put there, or write elsewhere"
            }
            ("", Some(errno)) => access.hint(errno),
            (hint, _) => hint,
        };
        let (path, cause) = (printable(path), cause.to_string());
        let cause = printable(cause.as_bytes());
        Error::new(format!("{doing} '{path}': {cause}")).with_hint(hint)
    }
}

/// The hint for an error of a restic repository.
#[cfg(feature = "restic")]
fn snapshot_hint(error: &restic::Error) -> &'static str {
    use restic::Error as E;
    match error {
        E::NoRepository => "create it with restic init, or check the name",
        E::WrongPassword => "check --password-file",
        E::BadKey(_) => "check the repository with restic check; restic key list prints the keys",
        E::Locked(_) => {
            "wait until restic prune or forget has ended, with --retry-lock 1h; restic unlock removes a lock whose process has died"
        }
        E::UnreadableLock(_) => {
            "try again; if no other program uses the repository, restic unlock --remove-all removes it"
        }
        E::LockLost(_) => {
            "make the snapshot again: what the repository has by now is not sent again"
        }
        E::UnsafeSnapshot { .. } => "remove it with restic forget, and make the snapshot again",
        E::Nested(_) => "make a snapshot of each, or change --exclude and --one-file-system",
        E::SamePath(..) => "give both by absolute paths, or make a snapshot of each",
        E::NoPath(_) => "give it by its absolute path",
        E::Scheme(_) => {
            "give a directory (./NAME if its name has a colon), rest:URL, s3:HOST/BUCKET/PREFIX or sftp:USER@HOST:DIR; rclone serve s3 or rclone serve restic serves other stores"
        }
        E::Location => {
            "give rest:http://HOST:PORT/PATH, s3:HOST/BUCKET/PREFIX, sftp:USER@HOST:DIR or sftp://USER@HOST:PORT/DIR"
        }
        // The hint depends on the location: see `repository_hint`.
        E::Remote { .. } => "",
        E::File { .. } => error.errno().map_or("", |errno| Access::Write.hint(errno)),
        E::BadConfig | E::Version(_) | E::HotRepository | E::Chunking => {
            "check the repository with restic check; versions 1 and 2 of the format are supported"
        }
    }
}

impl From<meter::Error> for Error {
    fn from(error: meter::Error) -> Error {
        use meter::Error::{Command, Late, Target, Unavailable};
        match &error {
            Command(why) => Error::new(error.to_string()).with_hint(command_hint(why)),
            Target(why) => {
                Error::new(format!("cannot attach: {error}")).with_hint(&target_hint(why))
            }
            Unavailable(why) if needs_other_meter_to_attach(why) => {
                let hint = meter_hint(why).unwrap_or_default();
                Error::new(format!("cannot attach: {error}")).with_hint(hint)
            }
            Unavailable(why) => Error::new(format!("cannot meter the command: {error}"))
                .with_hint(meter_hint(why).unwrap_or_default()),
            Late(..) => Error::new(format!("the command ran, but there is no report: {error}")),
        }
    }
}

fn needs_other_meter_to_attach(why: &meter::Unavailable) -> bool {
    use meter::Unavailable::{AttachNeedsBtf, NoMeter, OnlyProcesses};
    match why {
        AttachNeedsBtf | OnlyProcesses => true,
        NoMeter(refused) => refused.iter().any(|(_, why)| *why == OnlyProcesses),
        _ => false,
    }
}

impl From<catalog::Error> for Error {
    fn from(error: catalog::Error) -> Error {
        archive::Error::from(error).into()
    }
}

impl From<archive::Error> for Error {
    fn from(error: archive::Error) -> Error {
        let (doing, hint) = (error.action.to_string(), archive_hint(&error));
        let access = match error.action {
            Action::WriteArchive
            | Action::Catalog(WriteCatalog)
            | Action::WriteMap
            | Action::OpenState => Access::Write,
            _ => Access::Read,
        };
        match error.kind {
            ErrorKind::Catalog(catalog::ErrorKind::Walk(error)) => (*error).into(),
            kind => Error::at(&doing, &error.path, &kind, &hint, access),
        }
    }
}

/// The error of an archive that cannot be opened. If the archive is not the first argument, the
/// hint says how to give it as a PATH.
pub(crate) fn not_an_archive(error: archive::Error, archives: &[Vec<u8>]) -> Error {
    let is_later = archives.iter().skip(1).any(|it| *it == error.path);
    let is_read = error.action == Action::ReadArchive;
    let error = Error::from(error);
    match is_later && is_read {
        true => error.with_hint("if it is a PATH, put -- before it"),
        false => error,
    }
}

impl From<mounts::Error> for Error {
    fn from(error: mounts::Error) -> Error {
        if let mounts::ErrorKind::OtherNamespace(other) = &error.kind {
            return Error::new(printable(error.to_string().as_bytes()))
                .with_hint(&enter_hint(other, "COMMAND"));
        }
        let hint = match error.errno {
            Some(Errno::ENOENT) if ends_in_cr(error.path.as_deref()) => CRLF,
            Some(Errno::EACCES | Errno::EPERM) => {
                "run as root, or give a directory that you can read"
            }
            Some(Errno::ELOOP) => "give a path without symbolic links",
            Some(Errno::ENOTCONN | Errno::ESTALE | Errno::EHOSTDOWN | Errno::ETIMEDOUT) => {
                "run fathom mounts --check to see which mounts do not answer"
            }
            Some(Errno::EIO | Errno::ESHUTDOWN | Errno::EUCLEAN | Errno::ENODEV | Errno::ENXIO) => {
                "its file system or device fails: see fathom mounts --check, and the kernel's log (dmesg)"
            }
            _ => "",
        };
        if let mounts::ErrorKind::Silent(_) = error.kind {
            return Error::new(printable(error.to_string().as_bytes()))
                .with_hint("fathom mounts --check lists the mounts that do not answer");
        }
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
            walk::Error::Refused {
                path,
                engine,
                refusal,
            } => Error::new(format!(
                "cannot walk '{}' with --engine {}: {}",
                printable(&path),
                engine.name(),
                printable(refusal.to_string().as_bytes())
            ))
            .with_hint("use --engine auto; --explain lists the engines that work here"),
            walk::Error::Replaced(_) => Error::new(printable(error.to_string().as_bytes()))
                .with_hint("find out by whom, and run it again"),
            walk::Error::Silent(..) => Error::new(printable(error.to_string().as_bytes())).with_hint(
                "mend the server, wait longer with --deadline, or find such mounts with fathom mounts --check",
            ),
            walk::Error::OtherDirectory(_) => Error::new(printable(error.to_string().as_bytes()))
                .with_hint("mount the same file system on all hosts"),
            walk::Error::OtherRank => Error {
                is_of_other_rank: true,
                ..Error::new(error.to_string())
            },
            walk::Error::Process(_) | walk::Error::Thread(_) => Error::new(error.to_string()),
        }
    }
}

impl From<space::Error> for Error {
    fn from(error: space::Error) -> Error {
        match error {
            space::Error::Walk(error) => error.into(),
            space::Error::Mounts(error) => error.into(),
            space::Error::Silent(path, deadline) => walk::Error::Silent(path, deadline).into(),
            space::Error::KernelFileSystem(..) => {
                Error::new(printable(error.to_string().as_bytes()))
                    .with_hint("give a directory on a disk or a tmpfs; fathom mounts lists them")
            }
            space::Error::Size(..) => Error::new(printable(error.to_string().as_bytes())),
        }
    }
}

/// The cause of a failed action.
pub(crate) trait Cause: fmt::Display {
    /// The errno, if a system call failed.
    fn errno(&self) -> Option<Errno> {
        None
    }
}

impl Cause for &str {}
impl Cause for String {}

impl Cause for Errno {
    fn errno(&self) -> Option<Errno> {
        Some(*self)
    }
}

impl Cause for std::io::Error {
    fn errno(&self) -> Option<Errno> {
        self.raw_os_error().map(Errno)
    }
}

impl Cause for ErrorKind {
    fn errno(&self) -> Option<Errno> {
        ErrorKind::errno(self)
    }
}

enum Access {
    Read,
    Write,
}

impl Access {
    fn hint(&self, errno: Errno) -> &'static str {
        match (self, errno) {
            (Access::Read, Errno::ENOENT) => "check the name",
            (Access::Read, Errno::ENOTDIR) => "give a directory",
            (Access::Read, Errno::EISDIR) => "give a file",
            (Access::Read, Errno::EACCES | Errno::EPERM) => {
                "run as root, or give a path that you can read"
            }
            (Access::Write, Errno::ENOENT) => "create its parent directory first",
            (Access::Write, Errno::ENOTDIR) => "give a path whose parent is a directory",
            (Access::Write, Errno::EISDIR) => "give a file name, not a directory",
            (Access::Write, Errno::EACCES | Errno::EPERM | Errno::EROFS) => {
                "give a path that you can write to"
            }
            (Access::Write, Errno::ENOSPC) => "free some space, or write to another file system",
            (Access::Write, Errno::EFBIG) => {
                "raise ulimit -f, or write to a file system that allows larger files"
            }
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    fn is_error<E: std::error::Error + Send + Sync + 'static>() {}

    /// Fails to compile if a public error type lacks `std::error::Error`, `Send` or `Sync`. Each
    /// new error type must be added to this test.
    #[test]
    fn errors_implement_error_send_and_sync() {
        #[cfg(feature = "restic")]
        is_error::<restic::Error>();
        is_error::<account::Error>();
        is_error::<account::InputFault>();
        is_error::<archive::Error>();
        is_error::<archive::ErrorKind>();
        is_error::<archive::WarningKind>();
        is_error::<archive::restore::NotRestored>();
        is_error::<archive::verify::Difference>();
        is_error::<archive::verify::TreeAccess>();
        is_error::<archive::BadName>();
        is_error::<archive::compression::BadSuffix>();
        is_error::<archive::Damage>();
        is_error::<archive::NotArchive>();
        is_error::<catalog::StoreError>();
        is_error::<archive::account::Unavailable>();
        is_error::<catalog::token::UnknownToken>();
        is_error::<super::Error>();
        is_error::<gate::Errno>();
        is_error::<gate::bpf::LoadError>();
        is_error::<meter::CommandError>();
        is_error::<meter::Error>();
        is_error::<meter::TargetError>();
        is_error::<meter::Unavailable>();
        is_error::<meter::WarningKind>();
        is_error::<mounts::Error>();
        is_error::<mounts::ErrorKind>();
        is_error::<mounts::FanotifyRefusal>();
        is_error::<mounts::WarningKind>();
        is_error::<ondisk::ParseTimeError>();
        is_error::<ondisk::ext4::Error>();
        is_error::<ondisk::pax::Fault>();
        is_error::<pathsearch::WarningKind>();
        is_error::<pathwalk::Error>();
        is_error::<pathwalk::WarningKind>();
        is_error::<probe::Error>();
        is_error::<probe::error::SampleFault>();
        is_error::<space::Error>();
        is_error::<space::WarningKind>();
        is_error::<walk::EngineRefusal>();
        is_error::<walk::Error>();
        is_error::<walk::WarningKind>();
    }
}
