//! Plain files: written so that they appear whole or not at all, and read from any place in them.

mod temporary;

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use libc::{c_int, c_long, syscall};

use self::temporary::Temporary;
use crate::create::{fchmod, fchownat};
use crate::errno::check;
use crate::fs::{At, CWD, FileType, Open, Statx, Want, openat, pread64, read, readlinkat, statx};
use crate::gates::Gate;
use crate::long::{c_string, open_long, reach, statx_long};
use crate::meter::pass;
use crate::{Errno, Fd, Result};

/// Writes to a descriptor. [write(2)](https://man7.org/linux/man-pages/man2/write.2.html)
pub fn write(fd: impl AsFd, bytes: &[u8]) -> Result<usize> {
    pass(Gate::Write, || {
        // SAFETY: the kernel reads at most `bytes.len()` bytes of `bytes`.
        check(unsafe {
            syscall(
                libc::SYS_write,
                fd.as_fd().as_raw_fd(),
                bytes.as_ptr(),
                bytes.len() as c_long,
            )
        })
    })
}

/// Waits until a file, or what a directory says, is on the disk.
/// [fsync(2)](https://man7.org/linux/man-pages/man2/fsync.2.html)
pub fn fsync(fd: impl AsFd) -> Result<()> {
    pass(Gate::Fsync, || {
        // SAFETY: no pointers.
        check(unsafe { syscall(libc::SYS_fsync, fd.as_fd().as_raw_fd()) })
    })
    .map(drop)
}

/// Begins to bring a part of a file to the disk, and does not wait for it: unlike fsync(2) it
/// promises nothing.
/// [sync_file_range(2)](https://man7.org/linux/man-pages/man2/sync_file_range.2.html)
pub fn sync_file_range(fd: impl AsFd, offset: u64, len: u64) -> Result<()> {
    pass(Gate::SyncFileRange, || {
        let (offset, len) = (offset.cast_signed(), len.cast_signed());
        // SAFETY: no pointers. By way of the C library, since the order of the arguments is not the
        // same everywhere.
        let done = unsafe {
            libc::sync_file_range(
                fd.as_fd().as_raw_fd(),
                offset,
                len,
                libc::SYNC_FILE_RANGE_WRITE,
            )
        };
        check(done.into())
    })
    .map(drop)
}

/// Gives a file another name. [linkat(2)](https://man7.org/linux/man-pages/man2/link.2.html)
pub fn linkat(from: impl AsFd, name: &CStr, to: impl AsFd, new: &CStr, at: At) -> Result<()> {
    let (from, to) = (from.as_fd().as_raw_fd(), to.as_fd().as_raw_fd());
    pass(Gate::Linkat, || {
        // SAFETY: both names are NUL-terminated.
        check(unsafe {
            syscall(
                libc::SYS_linkat,
                from,
                name.as_ptr(),
                to,
                new.as_ptr(),
                at.bits(),
            )
        })
    })
    .map(drop)
}

/// Gives a file another name in the place of the one that it has; what had the new name is
/// replaced. [renameat2(2)](https://man7.org/linux/man-pages/man2/rename.2.html)
pub fn renameat2(from: impl AsFd, name: &CStr, to: impl AsFd, new: &CStr) -> Result<()> {
    let (from, to) = (from.as_fd().as_raw_fd(), to.as_fd().as_raw_fd());
    pass(Gate::Renameat2, || {
        // SAFETY: both names are NUL-terminated. Without flags it is renameat, which newer
        // architectures lack.
        check(unsafe {
            syscall(
                libc::SYS_renameat2,
                from,
                name.as_ptr(),
                to,
                new.as_ptr(),
                0,
            )
        })
    })
    .map(drop)
}

/// Takes a name away. [unlinkat(2)](https://man7.org/linux/man-pages/man2/unlink.2.html)
pub fn unlinkat(dir: impl AsFd, name: &CStr) -> Result<()> {
    pass(Gate::Unlinkat, || {
        // SAFETY: `name` is NUL-terminated.
        check(unsafe {
            syscall(
                libc::SYS_unlinkat,
                dir.as_fd().as_raw_fd(),
                name.as_ptr(),
                0,
            )
        })
    })
    .map(drop)
}

/// A file that everybody may read and write whom the umask does not keep out.
const FOR_ALL: u32 = 0o666;

/// Makes a file, its permissions less the umask; `name` is a directory for an `O_TMPFILE`.
fn create(dir: impl AsFd, name: &CStr, how: c_int, mode: u32) -> Result<Fd> {
    pass(Gate::Openat, || {
        let how = how | libc::O_WRONLY | libc::O_CLOEXEC;
        // SAFETY: `name` is NUL-terminated.
        check(unsafe {
            syscall(
                libc::SYS_openat,
                dir.as_fd().as_raw_fd(),
                name.as_ptr(),
                how,
                mode,
            )
        })
    })
    .map(Fd::take)
}

/// Makes an `O_TMPFILE`; `None` where there is none.
fn unnamed(dir: impl AsFd, mode: u32) -> Result<Option<Fd>> {
    match create(dir, c".", libc::O_TMPFILE, mode) {
        Ok(fd) => Ok(Some(fd)),
        // File systems and kernels that have none say so in many ways.
        Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL | Errno::ENOENT | Errno::ENOSYS) => {
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

/// Makes a file under a temporary name.
fn named(dir: Fd, mode: u32) -> Result<(Fd, Temporary)> {
    let mut made = None;
    let temporary = Temporary::anyhow(dir, |dir, name| {
        made = Some(create(dir, name, libc::O_CREAT | libc::O_EXCL, mode)?);
        Ok(())
    })?;
    Ok((made.ok_or(Errno::EIO)?, temporary))
}

/// A new file that gets its name when it is whole: until then nothing is to be seen of it, and
/// nothing is left of it when the process ends. Unlike a [`Writer`] it is made in an open
/// directory, and waits for no disk.
#[derive(Debug)]
pub struct Fresh {
    fd: Fd,
    temporary: Option<Temporary>,
}

impl Fresh {
    /// Makes one with the permissions `mode`, less the umask, for a directory: an `O_TMPFILE`.
    /// `Ok(None)` where there is none of these.
    pub fn unnamed(dir: &Fd, mode: u32) -> Result<Option<Fresh>> {
        Ok(unnamed(dir, mode)?.map(|fd| Fresh {
            fd,
            temporary: None,
        }))
    }

    /// Makes one under a temporary name, which signals take away but a SIGKILL does not. Only its
    /// owner may do anything with it.
    pub fn named(dir: &Fd) -> Result<Fresh> {
        let (fd, temporary) = named(openat(dir, c".", Open::PATH | Open::DIRECTORY)?, 0o600)?;
        Ok(Fresh {
            fd,
            temporary: Some(temporary),
        })
    }

    /// The file, open for writing.
    pub fn fd(&self) -> &Fd {
        &self.fd
    }

    /// Gives it its name, in the directory that it was made for.
    ///
    /// # Errors
    /// `EEXIST` or another when something has the name already. The file is still there then, and
    /// can be given a name once that one has gone.
    pub fn publish(&mut self, dir: &Fd, name: &CStr) -> Result<()> {
        match &mut self.temporary {
            None => link(&self.fd, dir, name),
            Some(temporary) => {
                renameat2(&temporary.dir, &temporary.name, dir, name)?;
                temporary.is_there = false;
                Ok(())
            }
        }
    }
}

/// A file being written. Under its name it appears whole, when it is [published](Writer::publish),
/// and takes the place of what was there; until then, and if it never is, nothing is to be seen of
/// it. What is no plain file (a device, a fifo, a descriptor's name as `/dev/stdout`) is written
/// straight.
#[derive(Debug)]
pub struct Writer {
    fd: Fd,
    whereto: Whereto,
    /// Bytes that have been written, and how many of them are on their way to the disk.
    written: u64,
    hastened: u64,
    /// Whether all of them are on the disk.
    is_settled: bool,
}

#[derive(Debug)]
enum Whereto {
    /// It is what it is.
    Straight,
    /// An `O_TMPFILE`, to be linked into the directory.
    Unnamed { dir: Fd, name: CString },
    /// Under a temporary name, where there is no `O_TMPFILE`.
    Named { name: CString, temporary: Temporary },
}

/// What a name leads to.
enum Lead {
    /// No plain file: something that is written straight.
    Straight(Vec<u8>),
    /// A plain file, which may be there already.
    File(Vec<u8>, Option<Statx>),
}

impl Lead {
    /// Follows symlinks, also where nothing is at their end.
    fn of(path: &[u8]) -> Result<Lead> {
        /// As many symlinks as the kernel follows.
        const MOST_LINKS: usize = 40;
        let is_descriptor = |path: &[u8]| {
            matches!(path, b"/dev/stdout" | b"/dev/stderr")
                || [&b"/dev/fd/"[..], b"/proc/self/fd/"]
                    .iter()
                    .any(|dir| path.starts_with(dir))
        };
        let mut path = path.to_vec();
        for _ in 0..MOST_LINKS {
            if is_descriptor(&path) {
                return Ok(Lead::Straight(path));
            }
            let (parent, name) = split(&path);
            match statx_long(
                &path,
                At::SYMLINK_NOFOLLOW | At::NO_AUTOMOUNT,
                Want::BASIC_STATS,
            ) {
                Ok(seen) if seen.file_type == FileType::Symlink => {
                    let reach = reach(CWD, &path)?;
                    let target = readlinkat(reach.dir(), reach.rest())?;
                    path = if target.starts_with(b"/") {
                        target
                    } else {
                        [parent, &target].concat()
                    };
                }
                Ok(seen) if seen.file_type == FileType::Directory => return Err(Errno::EISDIR),
                Ok(_) | Err(Errno::ENOENT) if name.is_empty() => return Err(Errno::EISDIR),
                Ok(seen) if seen.file_type == FileType::Regular => {
                    return Ok(Lead::File(path, Some(seen)));
                }
                Ok(_) => return Ok(Lead::Straight(path)),
                Err(Errno::ENOENT) => return Ok(Lead::File(path, None)),
                Err(e) => return Err(e),
            }
        }
        Err(Errno::ELOOP)
    }
}

/// A directory that was named by what stands before a name: the working directory, if nothing does.
fn or_here(parent: &[u8]) -> &[u8] {
    if parent.is_empty() { b"." } else { parent }
}

impl Writer {
    /// Makes ready to write the file that a name of any length leads to. A symlink is followed, so
    /// that it stays.
    ///
    /// # Errors
    /// `EISDIR` for a directory; those of openat(2).
    pub fn create(path: &[u8]) -> Result<Writer> {
        let (path, seen) = match Lead::of(path)? {
            Lead::Straight(path) => {
                return Ok(Writer::to(
                    open_long(&path, Open::WRONLY)?,
                    Whereto::Straight,
                ));
            }
            Lead::File(path, seen) => (path, seen),
        };
        let (parent, name) = split(&path);
        let dir = open_long(or_here(parent), Open::DIRECTORY)?;
        let writer = Writer::in_dir(dir, c_string(name)?)?;
        if let Some(seen) = seen {
            writer.be_like(&seen);
        }
        Ok(writer)
    }

    /// Where a [`Writer`] for a name would give its file a name: the directory, and the name there.
    /// `None` if it is written straight.
    ///
    /// # Errors
    /// As for [`create`](Writer::create).
    pub fn place(path: &[u8]) -> Result<Option<(Statx, Vec<u8>)>> {
        let Lead::File(path, _) = Lead::of(path)? else {
            return Ok(None);
        };
        let (parent, name) = split(&path);
        Ok(Some((
            statx_long(or_here(parent), At::NO_AUTOMOUNT, Want::BASIC_STATS)?,
            name.to_vec(),
        )))
    }

    /// Gives it the owner and the permissions of the file whose place it is to take: who may not
    /// read that one may not read this one either. What is written is no program of that owner's:
    /// the set-id bits go, as with any write.
    fn be_like(&self, &Statx { uid, gid, mode, .. }: &Statx) {
        const SAME: u32 = u32::MAX;
        const GROUP: u32 = 0o070;
        let mode = mode & 0o777;
        // Who is not root gives nothing away, but may have the group.
        let has_group = [uid, SAME]
            .into_iter()
            .any(|uid| fchownat(&self.fd, c"", uid, gid).is_ok());
        // Some file systems have no permissions of their own.
        let _ = fchmod(&self.fd, if has_group { mode } else { mode & !GROUP });
    }

    /// Makes ready to write to standard output, whatever that is, from where it stands.
    ///
    /// # Errors
    /// `EBADF` when it is closed.
    pub fn stdout() -> Result<Writer> {
        // What is open there then is the runtime's /dev/null.
        if crate::command::was_closed(1) {
            return Err(Errno::EBADF);
        }
        // SAFETY: no pointers; the number that comes back is of a descriptor that nobody else has.
        let own = check(unsafe {
            syscall(
                libc::SYS_fcntl,
                libc::STDOUT_FILENO,
                libc::F_DUPFD_CLOEXEC,
                3,
            )
        })?;
        Ok(Writer::to(Fd::take(own), Whereto::Straight))
    }

    /// What statx(2) says of the file that is being written: it may have no name yet.
    pub fn statx(&self) -> Result<Statx> {
        statx(&self.fd, c"", At::EMPTY_PATH, Want::BASIC_STATS)
    }

    /// Whether it is written straight, so that whoever looks sees it come.
    pub fn is_straight(&self) -> bool {
        matches!(self.whereto, Whereto::Straight)
    }

    fn to(fd: Fd, whereto: Whereto) -> Writer {
        Writer {
            fd,
            whereto,
            written: 0,
            hastened: 0,
            is_settled: false,
        }
    }

    /// Sends what has been written on its way to the disk, so that there is little left to wait for
    /// at the end. Where that is no use, nothing is said: the end tells what has come of it.
    fn hasten(&mut self) {
        /// So much at a time: large enough for a disk, and little to be left over.
        const PIECE: u64 = 1 << 20;
        let ready = (self.written - self.hastened) / PIECE * PIECE;
        if ready > 0 && !self.is_straight() {
            let _ = sync_file_range(&self.fd, self.hastened, ready);
            self.hastened += ready;
        }
    }

    fn in_dir(dir: Fd, name: CString) -> Result<Writer> {
        if let Some(fd) = unnamed(&dir, FOR_ALL)? {
            return Ok(Writer::to(fd, Whereto::Unnamed { dir, name }));
        }
        let (fd, temporary) = named(dir, FOR_ALL)?;
        Ok(Writer::to(fd, Whereto::Named { name, temporary }))
    }

    /// Waits until all that has been written is on the disk.
    ///
    /// # Errors
    /// Those of fsync(2), but for those that pipes and terminals have nothing to wait for.
    pub fn settle(&mut self) -> Result<()> {
        match fsync(&self.fd) {
            Err(Errno::EINVAL | Errno::EROFS | Errno::EOPNOTSUPP) if self.is_straight() => {}
            other => other?,
        }
        self.is_settled = true;
        Ok(())
    }

    /// Waits until all is on the disk, and gives the file its name, in the place of whatever has
    /// it.
    ///
    /// # Errors
    /// Nothing is left behind then, and what had the name still has it; unless it is the last step
    /// that fails, which is to wait until the name is on the disk.
    pub fn publish(mut self) -> Result<()> {
        if !self.is_settled {
            self.settle()?;
        }
        match self.whereto {
            Whereto::Straight => Ok(()),
            Whereto::Unnamed { dir, name } => match link(&self.fd, &dir, &name) {
                Ok(()) => fsync(&dir),
                Err(Errno::EEXIST) => replace(&self.fd, dir, &name),
                Err(e) => Err(e),
            },
            Whereto::Named {
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
        self.is_settled = false;
        self.hasten();
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The directory of a name, with its slash, and the last component.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    path.split_at(path.iter().rposition(|&b| b == b'/').map_or(0, |at| at + 1))
}

/// Gives an `O_TMPFILE` a name.
fn link(fd: &Fd, dir: &Fd, name: &CStr) -> Result<()> {
    match linkat(fd, c"", dir, name, At::EMPTY_PATH) {
        // Before Linux 6.10 that needs CAP_DAC_READ_SEARCH; through /proc it does not.
        Err(Errno::ENOENT | Errno::EPERM | Errno::EINVAL) => {
            let own = CString::new(format!("/proc/self/fd/{}", fd.as_raw_fd()))
                .map_err(|_| Errno::EINVAL)?;
            linkat(CWD, &own, dir, name, At::SYMLINK_FOLLOW)
        }
        other => other,
    }
}

/// Gives an `O_TMPFILE` a name that something has, whose place it takes. On the way it has a
/// temporary name, always the same one for the same file: what a process has left there that was
/// killed just then goes when the file is written again. Who else writes the same file at the same
/// time may take that name away: then it is done once more.
fn replace(fd: &Fd, dir: Fd, name: &CStr) -> Result<()> {
    const TRIES: u32 = 100;
    // FNV-1a: a name of its own for each file, that is no longer than names may be.
    let hash = name
        .to_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let mut temporary =
        Temporary::named(dir, c_string(format!(".fathom-{hash:016x}").as_bytes())?)?;
    for _ in 0..TRIES {
        match temporary.make(|dir, name| link(fd, dir, name)) {
            Ok(()) => {}
            Err(Errno::EEXIST) => {
                let _ = unlinkat(&temporary.dir, &temporary.name);
                continue;
            }
            Err(e) => return Err(e),
        }
        match temporary.rename(name) {
            Err(Errno::ENOENT) => {}
            other => return other,
        }
    }
    Err(Errno::EEXIST)
}

/// A file open for reading, with its length as it was then.
#[derive(Debug)]
pub struct Reader {
    fd: Fd,
    len: u64,
}

impl Reader {
    /// Opens a file by a name of any length. What is no plain file has the length 0.
    ///
    /// # Errors
    /// `EISDIR` for a directory; those of openat(2).
    pub fn open(path: &[u8]) -> Result<Reader> {
        let fd = open_long(path, Open::NONBLOCK)?;
        let seen = statx(&fd, c"", At::EMPTY_PATH, Want::BASIC_STATS)?;
        if seen.file_type == FileType::Directory {
            return Err(Errno::EISDIR);
        }
        Ok(Reader { fd, len: seen.size })
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads from a place on, as much as there is room for; less only at the end of the file.
    pub fn read_at(&self, mut offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut have = 0;
        while have < buffer.len() {
            match pread64(&self.fd, &mut buffer[have..], offset) {
                Ok(0) => break,
                Ok(n) => {
                    have += n;
                    offset += n as u64;
                }
                Err(Errno::EINTR) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(have)
    }
}

/// What the kernel says in a file of /proc or /sys, cut off at 64 KiB.
pub fn read_kernel(name: &CStr) -> Result<Vec<u8>> {
    const MOST: usize = 64 << 10;
    let fd = openat(CWD, name, Open::NONBLOCK)?;
    let (mut text, mut have) = (vec![0; 4096], 0);
    loop {
        let n = read(&fd, &mut text[have..])?;
        have += n;
        if n == 0 || have == MOST {
            text.truncate(have);
            return Ok(text);
        }
        if have == text.len() {
            text.resize(have * 2, 0);
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests look past the gate")]
mod tests {
    use std::io::Write;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn ground(name: &str) -> std::path::PathBuf {
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
    fn a_file_appears_whole_in_the_place_of_another_or_not_at_all() {
        let dir = ground("whole");
        let path = dir.join("out");
        let create = || Writer::create(path.as_os_str().as_bytes()).unwrap();
        for content in ["one", "two"] {
            let mut writer = create();
            writer.write_all(content.as_bytes()).unwrap();
            assert!(
                std::fs::read_to_string(&path).is_ok_and(|now| now == "one") == (content == "two")
            );
            writer.publish().unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
        // What somebody who was killed has left in the way goes.
        let hash = b"out"
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        std::fs::write(dir.join(format!(".fathom-{hash:016x}")), b"left behind").unwrap();
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
            Writer::create(dir.as_os_str().as_bytes()).unwrap_err(),
            Errno::EISDIR
        );
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn what_takes_the_place_of_another_is_for_the_same_eyes() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let dir = ground("same eyes");
        let path = dir.join("out");
        for mode in [0o600, 0o640, 0o666] {
            std::fs::write(&path, "old").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let is_given = std::os::unix::fs::chown(&path, Some(7), Some(8)).is_ok();
            Writer::create(path.as_os_str().as_bytes())
                .unwrap()
                .publish()
                .unwrap();
            let now = path.metadata().unwrap();
            assert_eq!((now.mode() & 0o7777, now.len()), (mode, 0));
            assert!(!is_given || (now.uid(), now.gid()) == (7, 8));
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o6755)).unwrap();
        Writer::create(path.as_os_str().as_bytes())
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
    fn so_does_one_under_a_temporary_name() {
        let dir = ground("named");
        let open = || open_long(dir.as_os_str().as_bytes(), Open::DIRECTORY).unwrap();
        let start = || {
            let (fd, temporary) = named(open(), FOR_ALL).unwrap();
            Writer::to(
                fd,
                Whereto::Named {
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
    fn a_temporary_name_is_its_own_processs_to_take_away() {
        let dir = ground("forked");
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
                .wait(std::time::Duration::from_secs(5))
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
    fn a_fresh_file_gets_its_name_when_it_is_whole() {
        let dir = ground("fresh");
        let fd = open_long(dir.as_os_str().as_bytes(), Open::DIRECTORY).unwrap();
        let both = || {
            [
                Fresh::unnamed(&fd, 0o640).unwrap().unwrap(),
                Fresh::named(&fd).unwrap(),
            ]
        };
        for (fresh, name) in both().iter_mut().zip([c"one", c"two"]) {
            write(fresh.fd(), b"x").unwrap();
            fresh.publish(&fd, name).unwrap();
        }
        drop(both());
        assert_eq!(names(&dir), ["one", "two"]);
        let mut late = Fresh::unnamed(&fd, 0o600).unwrap().unwrap();
        assert_eq!(late.publish(&fd, c"one"), Err(Errno::EEXIST));
        unlinkat(&fd, c"one").unwrap();
        late.publish(&fd, c"one").unwrap();
        assert_eq!(std::fs::read(dir.join("one")).unwrap(), b"");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_symlink_stays_and_a_device_is_written_straight() {
        let dir = ground("link");
        std::os::unix::fs::symlink("real", dir.join("link")).unwrap();
        let mut writer = Writer::create(dir.join("link").as_os_str().as_bytes()).unwrap();
        writer.write_all(b"x").unwrap();
        writer.publish().unwrap();
        assert_eq!(
            std::fs::read_link(dir.join("link")).unwrap().as_os_str(),
            "real"
        );
        assert_eq!(std::fs::read(dir.join("real")).unwrap(), b"x");
        std::fs::remove_dir_all(dir).unwrap();
        let mut null = Writer::create(b"/dev/null").unwrap();
        null.write_all(b"x").unwrap();
        null.publish().unwrap();
    }

    #[test]
    fn a_reader_reads_to_the_end() {
        let reader = Reader::open(b"/proc/self/exe").unwrap();
        let mut tail = [0; 16];
        assert_eq!(reader.read_at(reader.len() - 4, &mut tail).unwrap(), 4);
        assert_eq!(Reader::open(b"/").unwrap_err(), Errno::EISDIR);
        assert!(
            read_kernel(c"/proc/sys/kernel/random/boot_id")
                .unwrap()
                .len()
                > 30
        );
    }
}
