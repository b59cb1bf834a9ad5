//! The probed directory: its state according to the kernel, and temporary files in it.

use std::ffi::{CStr, CString};
use std::os::fd::AsRawFd;

use gate::create::{mkdirat, unlinkat_directory};
use gate::file::{read_kernel, unlinkat};
use gate::fs::{AtFlags, CWD, Open, Statfs, StatxMask, fstat, fstatfs, getdents64, openat, statx};
use gate::long::{c_string, open_long};
use gate::mount::mount_id;
use gate::scratch::{flock, open_direct, open_new, open_unnamed};
use gate::{Errno, Fd};
use mounts::TableSource;
use mounts::table::Table;
use ondisk::{Dev, Mount, option_value, split_options};

use crate::error::{Error, Purpose, Result};
use crate::finding::{ReportedValue, Source};

/// Prefix of the names of temporary files and directories. The process that creates such a file
/// holds a lock on it.
const PREFIX: &[u8] = b".fathom-probe-";

/// Number of attempts to create a file, because a concurrent run may remove a new file as a
/// leftover.
const TRIES: usize = 3;

/// A directory to probe.
#[allow(missing_docs, reason = "the names say it")]
pub struct ProbeDir {
    pub dir: Fd,
    /// The mount of the directory, if the kernel's mount table is available.
    pub mount: Option<Mount>,
    pub statfs: Statfs,
    /// The kernel's table of mounts.
    pub(crate) table: Vec<Mount>,
    /// The device of the directory, from statx(2).
    dev: Dev,
    /// Whether to create only files without a name (`O_TMPFILE`).
    pub(crate) unnamed_only: bool,
}

impl ProbeDir {
    /// Opens a directory, and removes the leftovers of killed runs in it.
    pub(crate) fn open(path: &[u8]) -> Result<ProbeDir> {
        let dir = ProbeDir {
            unnamed_only: false,
            ..ProbeDir::open_unnamed_only(path)?
        };
        dir.sweep();
        Ok(dir)
    }

    /// Opens a directory in which only files without a name are created, and nothing is removed.
    pub fn open_unnamed_only(path: &[u8]) -> Result<ProbeDir> {
        let dir = open_long(path, Open::DIRECTORY).map_err(Purpose::OpenDirectory.failed())?;
        let stat = fstat(&dir, StatxMask::BASIC_STATS);
        let stat = stat.map_err(Purpose::StatDirectory.failed())?;
        let statfs = fstatfs(&dir).map_err(Purpose::StatFileSystem.failed())?;
        let table = Table::read(TableSource::Mountinfo);
        let table = table.or_else(|_| Table::read(TableSource::Kernel));
        let table = table.map(|table| table.mounts).unwrap_or_default();
        let id = mount_id(&dir);
        let mount = table.iter().find(|mount| Some(mount.id) == id);
        Ok(ProbeDir {
            dir,
            mount: mount.cloned(),
            statfs,
            table,
            dev: stat.dev,
            unnamed_only: true,
        })
    }

    pub(crate) fn fstype(&self) -> Option<&[u8]> {
        self.mount.as_ref().map(|mount| &mount.content.fstype[..])
    }

    /// Whether the file system is of one of these types.
    pub(crate) fn is(&self, types: &[&[u8]]) -> bool {
        self.fstype().is_some_and(|fstype| types.contains(&fstype))
    }

    /// Whether the file system keeps its files in memory only, such as tmpfs.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.is(&[b"tmpfs", b"ramfs", b"devtmpfs"])
    }

    /// Whether the file system is mounted with an option that satisfies `is_it`.
    pub(crate) fn has_option(&self, is_it: impl Fn(&[u8]) -> bool) -> bool {
        let mount = self.mount.as_ref();
        mount.is_some_and(|mount| split_options(&mount.content.options).any(|o| is_it(&o)))
    }

    fn is_read_only(&self) -> bool {
        self.has_option(|option| option == b"ro")
    }

    /// The device of the file system, which on btrfs differs from that of its files.
    pub fn device(&self) -> Dev {
        self.mount.as_ref().map_or(self.dev, |mount| mount.dev)
    }

    /// The readahead size in bytes that the kernel reports. An overlay uses the readahead size of
    /// its upper layer.
    pub(crate) fn readahead(&self) -> Option<ReportedValue> {
        let read = |path: String| {
            let text = read_kernel(&CString::new(path.as_bytes()).ok()?).ok()?;
            let kib: u64 = std::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()?;
            Some(ReportedValue::new(kib << 10, Source::File(path)))
        };
        if self.is(&[b"overlay"]) {
            let options = &self.mount.as_ref()?.content.options;
            let upper = option_value(options, b"upperdir=")?;
            return ProbeDir::open_unnamed_only(&upper).ok()?.readahead();
        }
        if self.is(&[b"btrfs"]) {
            // btrfs has its own backing device info (bdi), in the sysfs directory of the UUID that
            // lists its devices.
            let source = self.mount.as_ref()?.content.source.as_deref()?;
            let device = source.rsplit(|b| *b == b'/').next()?;
            let all = open_long(b"/sys/fs/btrfs", Open::SCAN).ok()?;
            let uuid = list(&all).into_iter().find(|uuid| {
                let path = [uuid.as_bytes(), b"/devices/", device].concat();
                c_string(&path)
                    .is_ok_and(|path| statx(&all, &path, AtFlags::empty(), StatxMask::TYPE).is_ok())
            })?;
            let uuid = uuid.to_string_lossy();
            return read(format!("/sys/fs/btrfs/{uuid}/bdi/read_ahead_kb"));
        }
        let bdi = format!("/sys/class/bdi/{}", self.device());
        read(format!("{bdi}/read_ahead_kb"))
            .or_else(|| read(format!("{bdi}-fuseblk/read_ahead_kb")))
    }

    /// The maximum size of a temporary file in bytes: a quarter of the free space.
    pub(crate) fn room(&self) -> u64 {
        fstatfs(&self.dir).map_or(self.statfs.available, |now| now.available) / 4
    }

    pub(crate) fn scratch(&self) -> Result<Scratch<'_>> {
        if self.is_read_only() {
            return Err(Purpose::CreateFile.failed()(Errno::EROFS));
        }
        match open_unnamed(&self.dir) {
            Ok(file) => {
                let (name, dir) = (None, self);
                let unnamed = Scratch { file, name, dir };
                // Without /proc, a file without a name cannot be reopened.
                if unnamed.reopen().is_ok() {
                    return Ok(unnamed);
                }
            }
            Err(
                Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL | Errno::ENOENT | Errno::ENOSYS,
            ) => {}
            Err(e) => return Err(self.refused(Purpose::CreateFile, e)),
        }
        self.check_names_allowed()?;
        for _ in 0..TRIES {
            let name = self.free_name()?;
            let file =
                open_new(&self.dir, &name).map_err(|e| self.refused(Purpose::CreateFile, e))?;
            let is_held = self.hold(&file, &name);
            let (name, dir) = (Some(name), self);
            let scratch = Scratch { file, name, dir };
            if is_held {
                return Ok(scratch);
            }
        }
        Err(Purpose::CreateFile.failed()(Errno::ENOENT))
    }

    fn check_names_allowed(&self) -> Result<()> {
        if self.unnamed_only {
            return Err(Error::UnnamedOnly);
        }
        Ok(())
    }

    /// Locks a new file, so that [`ProbeDir::sweep`] of a concurrent run does not remove it.
    /// Returns false if such a run removed it before the lock. Without support for locks, nothing
    /// is ever removed.
    fn hold(&self, created: &Fd, name: &CStr) -> bool {
        flock(created) != Err(Errno::EAGAIN)
            && statx(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW, StatxMask::TYPE).is_ok()
    }

    /// The error for a failed creation. File systems return various errnos in a deleted directory.
    /// procfs and sysfs return ENOENT in existing directories.
    fn refused(&self, action: Purpose, errno: Errno) -> Error {
        let stat = fstat(&self.dir, StatxMask::BASIC_STATS);
        match (stat.is_ok_and(|stat| stat.nlink == 0), errno) {
            (true, _) => action.failed()(Errno::ENOENT),
            (false, Errno::ENOENT) => Error::TakesNoFiles { action },
            (false, errno) => action.failed()(errno),
        }
    }

    pub(crate) fn scratch_dir(&self) -> Result<Scratch<'_>> {
        self.check_names_allowed()?;
        let mut last = Errno::ENOENT;
        for _ in 0..TRIES {
            let name = self.free_name()?;
            mkdirat(&self.dir, &name, 0o700)
                .map_err(|e| self.refused(Purpose::CreateDirectory, e))?;
            match openat(&self.dir, &name, Open::SCAN) {
                Ok(file) => {
                    let is_held = self.hold(&file, &name);
                    let (name, dir) = (Some(name), self);
                    let scratch = Scratch { file, name, dir };
                    if is_held {
                        return Ok(scratch);
                    }
                }
                Err(e) => {
                    let _ = retry_interrupted(|| unlinkat_directory(&self.dir, &name));
                    if e != Errno::ENOENT {
                        last = e;
                    }
                }
            }
        }
        Err(Purpose::OpenScratchDirectory.failed()(last))
    }

    fn free_name(&self) -> Result<CString> {
        let now = gate::clock::monotonic_raw();
        let unique = format!("{:x}-{now:x}", std::process::id());
        c_string(&[PREFIX, unique.as_bytes()].concat()).map_err(Purpose::NameTemporary.failed())
    }

    /// Removes the leftovers of killed runs: temporary names that no process has locked.
    pub(crate) fn sweep(&self) {
        if self.is_read_only() || self.unnamed_only {
            return;
        }
        for name in list(&self.dir) {
            if !name.as_bytes().starts_with(PREFIX) {
                continue;
            }
            let Ok(left) = openat(&self.dir, &name, Open::NOFOLLOW | Open::NONBLOCK) else {
                continue;
            };
            if flock(&left).is_ok() {
                self.remove(&name);
            }
        }
    }

    /// Removes a temporary file, or a temporary directory with the files of experiments.
    fn remove(&self, name: &CStr) {
        if retry_interrupted(|| unlinkat(&self.dir, name)) != Err(Errno::EISDIR) {
            return;
        }
        // Reopen the directory: a descriptor at its end would return no more entries.
        if let Ok(dir) = retry_interrupted(|| openat(&self.dir, name, Open::SCAN)) {
            for inner in list(&dir).iter().filter(|inner| is_ours(inner.to_bytes())) {
                let _ = retry_interrupted(|| unlinkat(&dir, inner));
            }
        }
        let _ = retry_interrupted(|| unlinkat_directory(&self.dir, name));
    }
}

/// Whether a name has the form that experiments use in a temporary directory: `new-0-127`. No other
/// names are removed: a user with write access could give a different directory a temporary name,
/// and have root empty it.
fn is_ours(name: &[u8]) -> bool {
    let prefixes = [&b"new-"[..], b"renamed-"];
    let bare = prefixes
        .iter()
        .find_map(|prefix| name.strip_prefix(*prefix));
    let bare = bare.unwrap_or(name);
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let mut parts = bare.splitn(2, |byte| *byte == b'-');
    parts.next().is_some_and(is_number) && parts.next().is_some_and(is_number)
}

/// The names in a directory; none if it is no directory.
pub(crate) fn list(dir: &Fd) -> Vec<CString> {
    let mut buffer = vec![0; 32 << 10];
    let mut names = Vec::new();
    while let Ok(n @ 1..) = retry_interrupted(|| getdents64(dir, &mut buffer)) {
        names.extend(ondisk::dirent::entries(&buffer[..n]).map(|entry| entry.name.to_owned()));
    }
    names
}

/// Repeats a call that fails with EINTR: a FUSE server has not carried it out.
fn retry_interrupted<T>(mut call: impl FnMut() -> gate::Result<T>) -> gate::Result<T> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            done => return done,
        }
    }
}

/// A temporary file, without a name where `O_TMPFILE` is supported, or a temporary directory.
/// Removed on drop.
pub(crate) struct Scratch<'a> {
    /// The descriptor; files are open for reading and writing.
    pub(crate) file: Fd,
    name: Option<CString>,
    dir: &'a ProbeDir,
}

impl Scratch<'_> {
    /// Reopens the file for reading, which resets the readahead state, as that belongs to an open
    /// file.
    pub(crate) fn reopen(&self) -> Result<Fd> {
        match &self.name {
            Some(name) => openat(&self.dir.dir, name, Open::NOFOLLOW),
            None => openat(CWD, &self.proc_path(), Open::empty()),
        }
        .map_err(Purpose::Reopen.failed())
    }

    /// Reopens the file with O_DIRECT.
    pub(crate) fn reopen_direct(&self) -> gate::Result<Fd> {
        match &self.name {
            Some(name) => open_direct(&self.dir.dir, name),
            None => open_direct(CWD, &self.proc_path()),
        }
    }

    fn proc_path(&self) -> CString {
        // The name has no NUL, so the conversion cannot fail.
        CString::new(format!("/proc/self/fd/{}", self.file.as_raw_fd())).unwrap_or_default()
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            self.dir.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn only_names_of_the_experiments_are_removed() {
        assert!(
            [&b"0-1"[..], b"15-127", b"new-0-1", b"renamed-3-99"]
                .into_iter()
                .all(is_ours)
        );
        let others = [
            &b"passwd"[..],
            b"0",
            b"-",
            b"0-",
            b"-1",
            b"new-",
            b"new-a-1",
            b"0-1-2",
            b"no-0-1",
            b"",
        ];
        assert!(!others.into_iter().any(is_ours));
    }

    #[test]
    fn a_locked_temporary_file_is_not_swept() {
        let temporary =
            open_long(std::env::temp_dir().as_os_str().as_bytes(), Open::DIRECTORY).unwrap();
        let own = c_string(format!("fathom-place-{}", std::process::id()).as_bytes()).unwrap();
        mkdirat(&temporary, &own, 0o700).unwrap();
        let path = std::env::temp_dir().join(own.to_str().unwrap());
        let dir = ProbeDir::open(path.as_os_str().as_bytes()).unwrap();
        let create = || {
            let name = dir.free_name().unwrap();
            (open_new(&dir.dir, &name).unwrap(), name)
        };
        let (file, held) = create();
        assert!(dir.hold(&file, &held));
        // flock(2) protects a temporary file from a concurrent run, which removes leftovers.
        dir.sweep();
        assert!(dir.hold(&file, &held));
        // A concurrent run opens the file before it is locked, and then removes it.
        let (file, name) = create();
        let sweeper = openat(&dir.dir, &name, Open::NOFOLLOW).unwrap();
        flock(&sweeper).unwrap();
        assert!(!dir.hold(&file, &name));
        drop(sweeper);
        unlinkat(&dir.dir, &name).unwrap();
        assert!(!dir.hold(&file, &name));
        drop(dir.scratch_dir().unwrap());
        unlinkat(&dir.dir, &held).unwrap();
        unlinkat_directory(&temporary, &own).unwrap();
    }
}
