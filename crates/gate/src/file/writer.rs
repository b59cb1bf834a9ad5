//! Replaces files atomically.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::temporary::Temporary;
use crate::create::{fchmod, fchownat, in_proc, linkat, renameat2, unlinkat};
use crate::fs::{
    AtFlags, CWD, Dev, FileType, Open, Statx, StatxMask, create, fstat, fsync, lstatat, openat,
    readlinkat, sync_file_range, write,
};
use crate::long::{c_string, open_long, split_path, statx_long};
use crate::scratch::{direct_alignment, flock};
use crate::trust::{ACL, has_acl};
use crate::xattr::getxattrat;
use crate::{Errno, Fd, Result};

/// Permissions of a new file; the umask removes some.
const FOR_ALL: u32 = 0o666;
/// Permissions of a file until its final permissions are set.
pub(super) const FOR_OWNER: u32 = 0o600;

/// Permissions of a file that a [`Writer`] writes. By default, a file that is replaced keeps its
/// permissions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Permissions {
    /// Everybody may read and write the file, restricted by the umask.
    Public,
    /// Only the owner may read and write the file, unless [`set_private_mode`] has set a mode.
    Private,
    /// The file gets exactly this mode, whatever the umask, even if it replaces a file. If the file
    /// system does not support setting a mode, only the owner may access the file.
    Exactly(u32),
}

const NO_MODE: u32 = u32::MAX;
static PRIVATE_MODE: AtomicU32 = AtomicU32::new(NO_MODE);

/// Sets the permissions of all [private](Permissions::Private) files that the process writes from
/// now on, also of those that replace others, whatever the umask. Applies to the whole process,
/// like the umask.
pub fn set_private_mode(mode: u32) {
    PRIVATE_MODE.store(mode & 0o777, Relaxed);
}

/// Creates an `O_TMPFILE`; `None` if the file system or the kernel does not support it, or has no
/// space for it. Creating a file with a name may succeed even then: XFS first flushes data for
/// which it has reserved too much space.
fn unnamed(dir: impl AsFd, mode: u32) -> Result<Option<Fd>> {
    match create(dir, c".", libc::O_TMPFILE | libc::O_WRONLY, mode) {
        Ok(fd) => Ok(Some(fd)),
        // Errors of file systems and kernels without `O_TMPFILE`.
        Err(
            Errno::EOPNOTSUPP
            | Errno::EISDIR
            | Errno::EINVAL
            | Errno::ENOENT
            | Errno::ENOSYS
            | Errno::ENOSPC,
        ) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Sets the mode of a new file. A file system that does not support setting a mode is no error.
pub(super) fn set_mode(fd: &Fd, mode: u32) -> Result<()> {
    match fchmod(fd, mode) {
        Err(Errno::EPERM | Errno::EOPNOTSUPP) => Ok(()),
        done => done,
    }
}

/// Creates a file under a temporary name, to be renamed.
fn named(dir: Fd, mode: u32) -> Result<(Fd, Temporary)> {
    let mut made = None;
    let temporary = Temporary::create_unique(dir, |dir, name| {
        let how = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        made = Some(create(dir, name, how, mode)?);
        Ok(())
    })?;
    Ok((made.ok_or(Errno::EIO)?, temporary))
}

/// A new file that gets its name when it is complete, and disappears if the process ends before.
/// Unlike a [`Writer`], it is created in an open directory, and is not synced to disk.
#[derive(Debug)]
pub struct NewFile {
    fd: Fd,
    temporary: Option<Temporary>,
}

impl NewFile {
    /// Creates an `O_TMPFILE` with the permissions `mode`, less the umask. `Ok(None)` if the file
    /// system does not support it, or has no space for it.
    pub fn unnamed(dir: &Fd, mode: u32) -> Result<Option<NewFile>> {
        Ok(unnamed(dir, mode)?.map(|fd| NewFile {
            fd,
            temporary: None,
        }))
    }

    /// Creates a file under a temporary name, accessible to its owner only. The name is removed
    /// when the process ends, except by SIGKILL.
    pub fn named(dir: &Fd) -> Result<NewFile> {
        let dir = openat(dir, c".", Open::PATH | Open::DIRECTORY)?;
        let (fd, temporary) = named(dir, FOR_OWNER)?;
        Ok(NewFile {
            fd,
            temporary: Some(temporary),
        })
    }

    /// The file, open for writing.
    pub fn fd(&self) -> &Fd {
        &self.fd
    }

    /// Gives the file its name, in the directory that it was created for.
    ///
    /// # Errors
    /// `EEXIST` if the name exists. The file is kept, and can be published again once the name is
    /// free.
    pub fn publish(&mut self, dir: &Fd, name: &CStr) -> Result<()> {
        match &mut self.temporary {
            None => link(&self.fd, dir, name),
            Some(temporary) => {
                renameat2(&temporary.dir, &temporary.name, dir, name)?;
                temporary.exists = false;
                Ok(())
            }
        }
    }
}

/// A file being written. [`Writer::publish`] gives the file its name, replacing any file with that
/// name; an unpublished file disappears. A device, a FIFO or the name of a descriptor
/// (`/dev/stdout`) is written directly.
#[derive(Debug)]
pub struct Writer {
    fd: Fd,
    target: WriteTarget,
    written: u64,
    /// Number of bytes whose writeback has been started.
    writeback: u64,
    /// Whether all bytes are on disk.
    is_synced: bool,
    /// Whether writes bypass the page cache (`O_DIRECT`).
    bypasses_cache: bool,
}

#[derive(Debug)]
enum WriteTarget {
    /// A device, a pipe or an inherited descriptor.
    Direct,
    /// An `O_TMPFILE`, to be linked into the directory.
    Unnamed { dir: Fd, name: CString },
    /// A file under a temporary name, where `O_TMPFILE` is not supported.
    Named { name: CString, temporary: Temporary },
}

/// The file that a path leads to, after all symlinks.
enum Destination {
    /// A descriptor of this process, such as `/dev/stdout`.
    Descriptor(Vec<u8>),
    /// A device or a FIFO, which is written directly.
    Special(OpenPlace, Statx),
    /// A regular file, and its attributes if it exists.
    File(OpenPlace, Option<Statx>),
    /// The path leads to a directory.
    Directory(OpenPlace),
}

/// A file name in an open directory.
struct OpenPlace {
    dir: Fd,
    name: CString,
}

impl OpenPlace {
    fn open(path: &[u8]) -> Result<OpenPlace> {
        let (dir, name) = split_path(path);
        Ok(OpenPlace {
            dir: open_long(dir, Open::PATH | Open::DIRECTORY)?,
            name: c_string(name)?,
        })
    }

    fn statx(&self) -> Result<Statx> {
        lstatat(&self.dir, &self.name, StatxMask::BASIC_STATS)
    }

    fn dir_statx(&self) -> Result<Statx> {
        fstat(&self.dir, StatxMask::BASIC_STATS)
    }

    fn others_may_write(&self) -> Result<bool> {
        let acl = || has_acl(getxattrat(&self.dir, c".", ACL, &mut Vec::new()));
        Ok(self.dir_statx()?.others_may_write(acl))
    }

    /// Refuses a symlink, FIFO or device that another user may have planted to redirect the output.
    fn check(&self, seen: &Statx) -> std::result::Result<(), Refusal> {
        // A file of this user with several links may be a hard link that another user created here.
        let is_own = seen.is_ours() && seen.nlink == 1;
        // Always accept /dev/null: in a user namespace, the owner of /dev may be unknown.
        const NULL: Dev = Dev::new(1, 3);
        if seen.file_type == FileType::Char && seen.rdev == NULL {
            return Ok(());
        }
        match is_own || !self.others_may_write()? {
            true => Ok(()),
            false => Err(Refusal::Planted),
        }
    }
}

/// Why a path is not followed.
enum Refusal {
    /// Another user may have put a symlink, a FIFO or a device there.
    Planted,
    Call(Errno),
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Refusal {
        Refusal::Call(errno)
    }
}

impl Refusal {
    /// `EACCES` for a file that another user may have planted, as the kernel returns for symlinks
    /// with fs.protected_symlinks.
    fn errno(self) -> Errno {
        match self {
            Refusal::Planted => Errno::EACCES,
            Refusal::Call(errno) => errno,
        }
    }
}

/// Whether a path is refused because another user may have put a symlink, a FIFO or a device there.
pub fn is_planted(path: &[u8]) -> bool {
    matches!(Destination::follow(path), Err(Refusal::Planted))
}

/// Opens the directory that a path leads to.
///
/// # Errors
/// `EACCES` for a symlink of another user in a directory to which users other than this one and
/// root may write; the errors of openat(2).
pub fn open_directory(path: &[u8]) -> Result<Fd> {
    let end = path
        .iter()
        .rposition(|&byte| byte != b'/')
        .map_or(0, |at| at + 1);
    match Destination::follow(&path[..end]) {
        _ if end == 0 => open_long(path, Open::DIRECTORY),
        Ok(Destination::Directory(place)) => {
            openat(&place.dir, &place.name, Open::DIRECTORY | Open::NOFOLLOW)
        }
        // Returns the error of openat(2) for a missing path, or a file that is no directory.
        Ok(_) => open_long(path, Open::DIRECTORY),
        Err(refusal) => Err(refusal.errno()),
    }
}

impl Destination {
    /// Resolves a path, following symlinks, including dangling ones.
    fn follow(path: &[u8]) -> std::result::Result<Destination, Refusal> {
        /// The kernel's limit of symlinks in a path (`MAXSYMLINKS`).
        const MOST_LINKS: usize = 40;
        let is_descriptor = |path: &[u8]| {
            matches!(path, b"/dev/stdout" | b"/dev/stderr")
                || path.starts_with(b"/dev/fd/")
                || path.starts_with(b"/proc/self/fd/")
        };
        let mut path = path.to_vec();
        for _ in 0..MOST_LINKS {
            if is_descriptor(&path) {
                return Ok(Destination::Descriptor(path));
            }
            let (parent, name) = split(&path);
            if name.is_empty() {
                let seen = statx_long(&path, AtFlags::NO_AUTOMOUNT, StatxMask::BASIC_STATS);
                let errno = seen.err().filter(|e| *e != Errno::ENOENT);
                return Err(errno.unwrap_or(Errno::EISDIR).into());
            }
            let place = OpenPlace::open(&path)?;
            let seen = match place.statx() {
                Err(Errno::ENOENT) => return Ok(Destination::File(place, None)),
                seen => seen?,
            };
            match seen.file_type {
                FileType::Symlink => {
                    // Open the symlink before the check: the name may be replaced meanwhile.
                    let how = Open::PATH | Open::NOFOLLOW;
                    let link = openat(&place.dir, &place.name, how)?;
                    let seen = fstat(&link, StatxMask::BASIC_STATS)?;
                    place.check(&seen)?;
                    let target = readlinkat(&link, c"")?;
                    path = if target.starts_with(b"/") {
                        target
                    } else {
                        [parent, &target].concat()
                    };
                }
                FileType::Directory => return Ok(Destination::Directory(place)),
                FileType::Regular => return Ok(Destination::File(place, Some(seen))),
                _ => {
                    place.check(&seen)?;
                    return Ok(Destination::Special(place, seen));
                }
            }
        }
        Err(Errno::ELOOP.into())
    }
}

impl Writer {
    /// Starts writing the file that a path of any length leads to. Symlinks are followed and kept.
    ///
    /// # Errors
    /// `EISDIR` for a directory; `EACCES` for a symlink, a FIFO or a device of another user in a
    /// directory to which users other than this one and root may write; the errors of openat(2).
    pub fn create(path: &[u8], permissions: Permissions) -> Result<Writer> {
        let (place, seen) = match Destination::follow(path).map_err(Refusal::errno)? {
            Destination::Descriptor(path) => {
                return Ok(Writer::to(
                    open_long(&path, Open::WRONLY)?,
                    WriteTarget::Direct,
                ));
            }
            Destination::Special(place, seen) => {
                let fd = openat(&place.dir, &place.name, Open::WRONLY | Open::NOFOLLOW)?;
                let now = fstat(&fd, StatxMask::BASIC_STATS)?;
                return match (now.dev, now.ino) == (seen.dev, seen.ino) {
                    true => Ok(Writer::to(fd, WriteTarget::Direct)),
                    false => Err(Errno::EACCES),
                };
            }
            Destination::Directory(_) => return Err(Errno::EISDIR),
            Destination::File(place, seen) => (place, seen),
        };
        // Keep the permissions only of a file of this user: a user who planted a file here must not
        // get access to its replacement, neither as owner nor by the mode of a file of ours that
        // was moved or linked here.
        let is_exact = matches!(permissions, Permissions::Exactly(_));
        let mut kept = seen.filter(|seen| seen.is_ours() && !is_exact);
        if permissions == Permissions::Private
            && let Some(seen) = &kept
            && (seen.nlink > 1 || place.others_may_write()?)
        {
            kept = None;
        }
        let mode = match (permissions, kept) {
            (Permissions::Public, None) => FOR_ALL,
            _ => FOR_OWNER,
        };
        let dir = openat(&place.dir, c".", Open::DIRECTORY)?;
        let writer = Writer::in_dir(dir, place.name, mode)?;
        if let Some(kept) = kept {
            writer.copy_permissions(&kept);
        }
        match (permissions, PRIVATE_MODE.load(Relaxed)) {
            (Permissions::Exactly(mode), _) => set_mode(&writer.fd, mode)?,
            (Permissions::Private, mode) if mode != NO_MODE => fchmod(&writer.fd, mode)?,
            _ => {}
        }
        Ok(writer)
    }

    /// The directory in which a [`Writer`] for this path would create its file, and the file name.
    /// `None` if it would write directly.
    ///
    /// # Errors
    /// The errors of [`create`](Writer::create).
    pub fn place(path: &[u8]) -> Result<Option<(Statx, Vec<u8>)>> {
        match Destination::follow(path).map_err(Refusal::errno)? {
            Destination::File(place, _) => Ok(Some((place.dir_statx()?, place.name.into_bytes()))),
            Destination::Directory(_) => Err(Errno::EISDIR),
            Destination::Descriptor(_) | Destination::Special(..) => Ok(None),
        }
    }

    /// Gives the new file the owner and the permissions of the file that it will replace, so that
    /// users who could not read the old file cannot read the new one. The set-id bits are dropped,
    /// as with any write.
    fn copy_permissions(&self, &Statx { uid, gid, mode, .. }: &Statx) {
        const SAME: u32 = u32::MAX;
        const GROUP: u32 = 0o070;
        let mode = mode & 0o777;
        // Without privilege, chown(2) fails to change the owner, but may change the group.
        let has_group = [uid, SAME]
            .into_iter()
            .any(|uid| fchownat(&self.fd, c"", uid, gid).is_ok());
        // Ignore a failure of chmod(2), as on file systems without permissions.
        let _ = fchmod(&self.fd, if has_group { mode } else { mode & !GROUP });
    }

    /// Writes to standard output, from its current offset.
    ///
    /// # Errors
    /// `EBADF` if standard output was closed.
    pub fn stdout() -> Result<Writer> {
        // If standard output was closed at start, Rust's runtime has opened /dev/null in its place.
        if crate::command::was_closed(1) {
            return Err(Errno::EBADF);
        }
        let fd = Fd::duplicate(libc::STDOUT_FILENO)?;
        Ok(Writer::to(fd, WriteTarget::Direct))
    }

    /// The attributes of the file being written.
    pub fn statx(&self) -> Result<Statx> {
        fstat(&self.fd, StatxMask::BASIC_STATS)
    }

    fn is_direct(&self) -> bool {
        matches!(self.target, WriteTarget::Direct)
    }

    fn to(fd: Fd, target: WriteTarget) -> Writer {
        Writer {
            fd,
            target,
            written: 0,
            writeback: 0,
            is_synced: false,
            bypasses_cache: false,
        }
    }

    /// Makes writes bypass the page cache, in units of `size`, from memory aligned to 4096 bytes.
    /// `false` if the file is not regular, the bytes written so far are not aligned, or the file
    /// system requires a different alignment or does not report it (Linux before 6.1, btrfs).
    /// [fcntl(2)](https://man7.org/linux/man-pages/man2/F_GETFL.2const.html), `O_DIRECT`
    pub fn bypass_cache(&mut self, size: usize) -> bool {
        const ALIGNED: u32 = 4096;
        let fits = |unit: u32| {
            let unit = u64::from(unit);
            let is_multiple = |bytes: u64| unit > 0 && bytes.is_multiple_of(unit);
            is_multiple(ALIGNED.into()) && is_multiple(size as u64) && is_multiple(self.written)
        };
        let alignment = match self.target {
            WriteTarget::Direct => None,
            _ => direct_alignment(&self.fd).ok().flatten(),
        };
        let can = alignment.is_some_and(|(memory, offset)| fits(memory) && fits(offset));
        self.bypasses_cache = can && self.fd.set_flags(libc::O_DIRECT).is_ok();
        self.bypasses_cache
    }

    /// Makes writes use the page cache again.
    ///
    /// # Errors
    /// The errors of fcntl(2).
    pub fn use_cache(&mut self) -> Result<()> {
        self.fd.set_flags(0)?;
        self.bypasses_cache = false;
        self.writeback = self.written;
        Ok(())
    }

    /// Starts writeback of the bytes written, so that little remains for fsync(2). Errors are
    /// ignored: fsync(2) reports them.
    fn start_writeback(&mut self) {
        /// Size of a range for writeback: large enough for a disk, small enough that the final
        /// fsync(2) is short.
        const PIECE: u64 = 1 << 20;
        let ready = (self.written - self.writeback) / PIECE * PIECE;
        if ready > 0 && !self.is_direct() && !self.bypasses_cache {
            let _ = sync_file_range(&self.fd, self.writeback, ready);
            self.writeback += ready;
        }
    }

    fn in_dir(dir: Fd, name: CString, mode: u32) -> Result<Writer> {
        if let Some(fd) = unnamed(&dir, mode)? {
            return Ok(Writer::to(fd, WriteTarget::Unnamed { dir, name }));
        }
        let (fd, temporary) = named(dir, mode)?;
        Ok(Writer::to(fd, WriteTarget::Named { name, temporary }))
    }

    /// Waits until all bytes written are on disk.
    ///
    /// # Errors
    /// The errors of fsync(2), except that a pipe or terminal cannot be synced.
    pub fn sync(&mut self) -> Result<()> {
        match fsync(&self.fd) {
            Err(Errno::EINVAL | Errno::EROFS | Errno::EOPNOTSUPP) if self.is_direct() => {}
            other => other?,
        }
        self.is_synced = true;
        Ok(())
    }

    /// Waits until all bytes are on disk, and gives the file its name, replacing a different file.
    ///
    /// # Errors
    /// No new file is left behind and the old one is kept, unless the last step fails: waiting
    /// until the name is on disk.
    pub fn publish(mut self) -> Result<()> {
        if !self.is_synced {
            self.sync()?;
        }
        match self.target {
            WriteTarget::Direct => Ok(()),
            WriteTarget::Unnamed { dir, name } => match link(&self.fd, &dir, &name) {
                Ok(()) => fsync(&dir),
                Err(Errno::EEXIST) => replace(&self.fd, dir, &name),
                Err(e) => Err(e),
            },
            WriteTarget::Named {
                name,
                mut temporary,
            } => temporary.rename(&name),
        }
    }
}

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = write(&self.fd, bytes).map_err(|e| io::Error::from_raw_os_error(e.0))?;
        self.written += written as u64;
        self.is_synced = false;
        self.start_writeback();
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Splits a path into the directory, with its slash, and the last component.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    path.split_at(path.iter().rposition(|&b| b == b'/').map_or(0, |at| at + 1))
}

fn link(fd: &Fd, dir: &Fd, name: &CStr) -> Result<()> {
    match linkat(fd, c"", dir, name, AtFlags::EMPTY_PATH) {
        // linkat(2) with an empty path needs CAP_DAC_READ_SEARCH before Linux 6.10; linking the
        // path in /proc/self/fd does not.
        Err(Errno::ENOENT | Errno::EPERM | Errno::EINVAL) => {
            linkat(CWD, &in_proc(fd, b"")?, dir, name, AtFlags::SYMLINK_FOLLOW)
        }
        other => other,
    }
}

/// Gives an `O_TMPFILE` a name that exists, replacing the file. linkat(2) cannot replace, so the
/// file first gets a temporary name, and is renamed. The temporary name depends only on the final
/// name, so that the next process removes the file that a killed process left. While a different
/// process publishes the same file, the file gets a unique name: an `O_TMPFILE` whose only name was
/// removed cannot be linked again (`ENOENT`), so neither process may remove the other's name.
fn replace(fd: &Fd, dir: Fd, name: &CStr) -> Result<()> {
    // The kernel releases the lock when this process ends. A file system without locks is no error.
    let _ = flock(fd);
    let make = |dir: &Fd, name: &CStr| link(fd, dir, name);
    let mut temporary = Temporary::named(dir, c_string(temporary_name(name).as_bytes())?);
    let mut made = temporary.make(make);
    if made == Err(Errno::EEXIST) && is_left_behind(&temporary.dir, &temporary.name) {
        let _ = unlinkat(&temporary.dir, &temporary.name);
        made = temporary.make(make);
    }
    if made == Err(Errno::EEXIST) {
        let dir = openat(&temporary.dir, c".", Open::DIRECTORY)?;
        temporary = Temporary::create_unique(dir, make)?;
        made = Ok(());
    }
    made?;
    temporary.rename(name)
}

/// Whether no process holds the lock of a file, because the process that created it has ended.
fn is_left_behind(dir: &Fd, name: &CStr) -> bool {
    let file = openat(dir, name, Open::WRONLY | Open::NOFOLLOW | Open::NONBLOCK);
    file.is_ok_and(|file| flock(&file).is_ok())
}

/// A temporary name for a file: an FNV-1a hash of the final name, so that files get different
/// names, of a length that every file system supports.
fn temporary_name(name: &CStr) -> String {
    let hash = name
        .to_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    format!(".fathom-{hash:016x}")
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests look past the gate")]
mod tests {
    use std::io::Write;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn temporary_dir(name: &str) -> std::path::PathBuf {
        let dir = std::env::temp_dir().join(format!("fathom-gate-{}-{name}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        dir
    }

    fn names(dir: &std::path::Path) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_replaces_another_as_a_whole_or_not_at_all() {
        let dir = temporary_dir("whole");
        let path = dir.join("out");
        let create = || Writer::create(path.as_os_str().as_bytes(), Permissions::Public).unwrap();
        for content in ["one", "two"] {
            let mut writer = create();
            writer.write_all(content.as_bytes()).unwrap();
            assert!(
                std::fs::read_to_string(&path).is_ok_and(|now| now == "one") == (content == "two")
            );
            writer.publish().unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
        // The file that a killed process left under the temporary name must be removed.
        std::fs::write(dir.join(temporary_name(c"out")), b"left behind").unwrap();
        let mut again = create();
        again.write_all(b"two").unwrap();
        again.publish().unwrap();
        assert_eq!(names(&dir), ["out"]);
        let mut dropped = create();
        dropped.write_all(b"three").unwrap();
        drop(dropped);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(names(&dir), ["out"]);
        assert_eq!(
            Writer::create(dir.as_os_str().as_bytes(), Permissions::Public).unwrap_err(),
            Errno::EISDIR
        );
        std::fs::remove_dir_all(dir).unwrap();
    }

    /// Several processes that replace the same file at the same time, such as the ranks of a job.
    #[test]
    fn the_temporary_name_of_a_running_process_is_kept() {
        let dir = temporary_dir("running");
        let path = dir.join("out");
        std::fs::write(&path, "old").unwrap();
        let other = dir.join(temporary_name(c"out"));
        std::fs::write(&other, "other").unwrap();
        let locked = open_long(other.as_os_str().as_bytes(), Open::WRONLY).unwrap();
        flock(&locked).unwrap();
        let mut writer = Writer::create(path.as_os_str().as_bytes(), Permissions::Public).unwrap();
        writer.write_all(b"new").unwrap();
        writer.publish().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "other");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_file_gets_the_owner_and_permissions_of_the_one_that_it_replaces() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let dir = temporary_dir("permissions");
        let path = dir.join("out");
        for mode in [0o600, 0o640, 0o666] {
            std::fs::write(&path, "old").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let is_given = std::os::unix::fs::chown(&path, Some(7), Some(8)).is_ok();
            Writer::create(path.as_os_str().as_bytes(), Permissions::Public)
                .unwrap()
                .publish()
                .unwrap();
            let now = path.metadata().unwrap();
            assert_eq!(now.len(), 0);
            match is_given {
                // The file of another user must be replaced by a new one.
                true => assert_eq!(now.uid(), crate::process::ids().0),
                false => assert_eq!(now.mode() & 0o7777, mode),
            }
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o6755)).unwrap();
        Writer::create(path.as_os_str().as_bytes(), Permissions::Public)
            .unwrap()
            .publish()
            .unwrap();
        assert_eq!(
            path.metadata().unwrap().mode() & 0o7777,
            0o755,
            "the set-id bits are gone"
        );
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_file_with_a_temporary_name_replaces_another_as_a_whole() {
        let dir = temporary_dir("named");
        let open = || open_long(dir.as_os_str().as_bytes(), Open::DIRECTORY).unwrap();
        let start = || {
            let (fd, temporary) = named(open(), FOR_ALL).unwrap();
            Writer::to(
                fd,
                WriteTarget::Named {
                    name: c"out".to_owned(),
                    temporary,
                },
            )
        };
        let mut writer = start();
        writer.write_all(b"x").unwrap();
        assert!(names(&dir)[0].starts_with(".fathom-"));
        writer.publish().unwrap();
        assert_eq!(names(&dir), ["out"]);
        drop(start());
        assert_eq!(names(&dir), ["out"]);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_child_does_not_remove_the_temporary_name_of_its_parent() {
        let dir = temporary_dir("forked");
        let (_fd, temporary) = named(
            open_long(dir.as_os_str().as_bytes(), Open::DIRECTORY).unwrap(),
            FOR_ALL,
        )
        .unwrap();
        let mut child = crate::process::Child::fork(|| {
            // SAFETY: no pointers; its handler, or without one the signal, ends this process.
            unsafe { libc::raise(libc::SIGTERM) };
        })
        .unwrap();
        assert_eq!(
            child
                .wait(std::time::Duration::from_secs(600))
                .unwrap()
                .status,
            None
        );
        assert_eq!(names(&dir), [temporary.name.to_str().unwrap()]);
        drop(temporary);
        assert_eq!(names(&dir), [""; 0]);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_fresh_file_has_no_name_until_it_is_published() {
        let dir = temporary_dir("fresh");
        let fd = open_long(dir.as_os_str().as_bytes(), Open::DIRECTORY).unwrap();
        let both = || {
            [
                NewFile::unnamed(&fd, 0o640).unwrap().unwrap(),
                NewFile::named(&fd).unwrap(),
            ]
        };
        for (fresh, name) in both().iter_mut().zip([c"one", c"two"]) {
            write(fresh.fd(), b"x").unwrap();
            fresh.publish(&fd, name).unwrap();
        }
        drop(both());
        assert_eq!(names(&dir), ["one", "two"]);
        let mut late = NewFile::unnamed(&fd, 0o600).unwrap().unwrap();
        assert_eq!(late.publish(&fd, c"one"), Err(Errno::EEXIST));
        unlinkat(&fd, c"one").unwrap();
        late.publish(&fd, c"one").unwrap();
        assert_eq!(std::fs::read(dir.join("one")).unwrap(), b"");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_symlink_is_kept_and_a_device_is_written_directly() {
        let dir = temporary_dir("link");
        std::os::unix::fs::symlink("real", dir.join("link")).unwrap();
        let mut writer =
            Writer::create(dir.join("link").as_os_str().as_bytes(), Permissions::Public).unwrap();
        writer.write_all(b"x").unwrap();
        writer.publish().unwrap();
        assert_eq!(
            std::fs::read_link(dir.join("link")).unwrap().as_os_str(),
            "real"
        );
        assert_eq!(std::fs::read(dir.join("real")).unwrap(), b"x");
        std::fs::remove_dir_all(dir).unwrap();
        let mut null = Writer::create(b"/dev/null", Permissions::Public).unwrap();
        null.write_all(b"x").unwrap();
        null.publish().unwrap();
    }
}
