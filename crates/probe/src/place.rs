//! The directory that is probed: what the kernel says of it, and files in it to experiment on.

use std::ffi::{CStr, CString};
use std::os::fd::AsRawFd;

use gate::create::{mkdirat, unlinkat_directory};
use gate::file::{read_kernel, unlinkat};
use gate::fs::{At, CWD, Open, Statfs, Want, fstatfs, getdents64, openat, statx};
use gate::long::{c_string, open_long};
use gate::scratch::{flock, open_direct, open_new, open_unnamed};
use gate::{Errno, Fd, Gate};
use mounts::table::{Door, Table};
use ondisk::{Dev, Mount, split_options};

use crate::desk::Trouble;

/// What temporary names begin with. Whoever makes one holds a lock on it for as long as it lives.
const PREFIX: &[u8] = b".fathom-probe-";

/// So often something is made anew that another run has taken for left behind.
const TRIES: usize = 3;

/// A directory to be probed.
pub struct Place {
    /// The directory.
    pub dir: Fd,
    /// Its name, as it was given.
    pub path: Vec<u8>,
    /// Its device, as statx(2) says.
    pub dev: Dev,
    /// The mount that it is on, where the kernel's table is to be had.
    pub mount: Option<Mount>,
    /// What statfs(2) says of it.
    pub statfs: Statfs,
    /// The kernel's table of mounts.
    pub table: Vec<Mount>,
    /// What is made in it may have a name for a while.
    names: bool,
}

impl Place {
    /// Opens a directory, and asks what it is. What an earlier run left behind in it, having been
    /// killed, is taken away.
    ///
    /// # Errors
    /// The call that failed.
    pub fn open(path: &[u8]) -> Result<Place, Trouble> {
        let place = Place {
            names: true,
            ..Place::unasked(path)?
        };
        place.sweep();
        Ok(place)
    }

    /// The same, for one whom nobody has asked to work there: nothing is made that has a name, and
    /// nothing is taken away.
    ///
    /// # Errors
    /// The call that failed.
    pub fn unasked(path: &[u8]) -> Result<Place, Trouble> {
        let dir = open_long(path, Open::DIRECTORY)
            .map_err(Trouble::refused("cannot open the directory", Gate::Openat))?;
        let asked = statx(&dir, c"", At::EMPTY_PATH, Want::BASIC_STATS | Want::MNT_ID);
        let seen = asked.map_err(Trouble::refused(
            "cannot look at the directory",
            Gate::Statx,
        ))?;
        let statfs = fstatfs(&dir).map_err(Trouble::refused(
            "cannot ask for the file system",
            Gate::Fstatfs,
        ))?;
        let table = Table::read(Door::Mountinfo)
            .or_else(|_| Table::read(Door::Kernel))
            .map(|table| table.mounts);
        let table = table.unwrap_or_default();
        let mount = table
            .iter()
            .find(|mount| Some(mount.id) == seen.mnt_id)
            .cloned();
        Ok(Place {
            dir,
            path: path.to_vec(),
            dev: seen.dev.into(),
            mount,
            statfs,
            table,
            names: false,
        })
    }

    /// Whether what is made in it can have no name.
    pub fn makes_no_names(&self) -> bool {
        !self.names
    }

    /// The type of its file system.
    pub fn fstype(&self) -> Option<&[u8]> {
        self.mount.as_ref().map(|mount| &mount.content.fstype[..])
    }

    /// Whether its file system is one of these.
    pub fn is(&self, types: &[&[u8]]) -> bool {
        self.fstype().is_some_and(|fstype| types.contains(&fstype))
    }

    /// Whether its files are in memory, and nowhere else.
    pub fn is_in_memory(&self) -> bool {
        self.is(&[b"tmpfs", b"ramfs", b"devtmpfs"])
    }

    /// Whether nothing can be written to it.
    pub fn is_read_only(&self) -> bool {
        self.mount.as_ref().is_some_and(|mount| {
            split_options(&mount.content.options).any(|option| option == b"ro")
        })
    }

    /// The device of the file system: on btrfs not that of its files.
    pub fn device(&self) -> Dev {
        self.mount.as_ref().map_or(self.dev, |mount| mount.dev)
    }

    /// How much it reads ahead, in bytes, and where the kernel says so. An overlay reads by the
    /// rules of the file system that its upper layer is on.
    pub fn readahead(&self) -> Option<(u64, String)> {
        let read = |path: String| {
            let text = read_kernel(&CString::new(path.as_bytes()).ok()?).ok()?;
            let kib: u64 = std::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()?;
            Some((kib << 10, path))
        };
        if self.is(&[b"overlay"]) {
            let options = &self.mount.as_ref()?.content.options;
            let upper = split_options(options)
                .find_map(|option| option.strip_prefix(b"upperdir=").map(<[u8]>::to_vec))?;
            return Place::unasked(&upper).ok()?.readahead();
        }
        if self.is(&[b"btrfs"]) {
            // The kernel names it by its UUID, and under that by its devices.
            let source = self.mount.as_ref()?.content.source.as_deref()?;
            let device = source.rsplit(|b| *b == b'/').next()?;
            let all = open_long(b"/sys/fs/btrfs", Open::SCAN).ok()?;
            let ours = names(&all).into_iter().find(|uuid| {
                let path = [uuid.as_bytes(), b"/devices/", device].concat();
                c_string(&path)
                    .is_ok_and(|path| statx(&all, &path, At::empty(), Want::TYPE).is_ok())
            })?;
            return read(format!(
                "/sys/fs/btrfs/{}/bdi/read_ahead_kb",
                ours.to_string_lossy()
            ));
        }
        read(format!("/sys/class/bdi/{}/read_ahead_kb", self.device())).or_else(|| {
            read(format!(
                "/sys/class/bdi/{}-fuseblk/read_ahead_kb",
                self.device()
            ))
        })
    }

    /// How many bytes of a file may be made here: a quarter of what is free.
    pub fn room(&self) -> u64 {
        fstatfs(&self.dir).map_or(self.statfs.available, |now| now.available) / 4
    }

    /// A new, empty file.
    ///
    /// # Errors
    /// The call that failed.
    pub fn scratch(&self) -> Result<Scratch<'_>, Trouble> {
        const DOING: &str = "cannot make a file to experiment on";
        if self.is_read_only() {
            return Err(Trouble::refused(DOING, Gate::Openat)(Errno::EROFS));
        }
        match open_unnamed(&self.dir) {
            Ok(file) => {
                let unnamed = Scratch {
                    file,
                    name: None,
                    place: self,
                };
                // Where there is no /proc, what has no name cannot be opened a second time.
                if unnamed.reopen().is_ok() {
                    return Ok(unnamed);
                }
            }
            Err(
                Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL | Errno::ENOENT | Errno::ENOSYS,
            ) => {}
            Err(e) => return Err(self.refused(DOING, Gate::Openat, e)),
        }
        self.may_name()?;
        for _ in 0..TRIES {
            let name = self.free_name()?;
            let file =
                open_new(&self.dir, &name).map_err(|e| self.refused(DOING, Gate::Openat, e))?;
            let made = Scratch {
                file,
                name: Some(name),
                place: self,
            };
            if made
                .name
                .as_deref()
                .is_some_and(|name| self.holds(&made.file, name))
            {
                return Ok(made);
            }
        }
        Err(Trouble::refused(DOING, Gate::Openat)(Errno::ENOENT))
    }

    /// Refuses to make what has a name, unless somebody has asked for it.
    fn may_name(&self) -> Result<(), Trouble> {
        let why = "nothing that has a name is made here unasked: fathom probe does, and takes it away again";
        if self.names {
            Ok(())
        } else {
            Err(Trouble::Hindered(why.to_owned()))
        }
    }

    /// Locks what was just made, so that nobody takes it for what a killed run has left
    /// ([`Place::sweep`]). False when somebody has done so already, before it was locked. Where
    /// there are no locks, nobody dares to take anything away.
    fn holds(&self, made: &Fd, name: &CStr) -> bool {
        flock(made) != Err(Errno::EAGAIN)
            && statx(&self.dir, name, At::SYMLINK_NOFOLLOW, Want::TYPE).is_ok()
    }

    /// What it means that nothing can be made here. Of a directory that was deleted, file systems
    /// say what they like; and some that are there, and take no files, that there is no such
    /// directory.
    fn refused(&self, doing: &'static str, gate: Gate, errno: Errno) -> Trouble {
        let seen = statx(&self.dir, c"", At::EMPTY_PATH, Want::BASIC_STATS);
        match (seen.is_ok_and(|seen| seen.nlink == 0), errno) {
            (true, _) => Trouble::refused(doing, gate)(Errno::ENOENT),
            (false, Errno::ENOENT) => Trouble::Told {
                why: format!("{doing}: {errno}; its file system takes no files"),
                gate,
                errno,
            },
            (false, errno) => Trouble::refused(doing, gate)(errno),
        }
    }

    /// A new, empty directory.
    ///
    /// # Errors
    /// The call that failed.
    pub fn scratch_dir(&self) -> Result<ScratchDir<'_>, Trouble> {
        self.may_name()?;
        let mut last = Errno::ENOENT;
        for _ in 0..TRIES {
            let name = self.free_name()?;
            mkdirat(&self.dir, &name, 0o700).map_err(|e| {
                self.refused("cannot make a directory to experiment in", Gate::Mkdirat, e)
            })?;
            let mut made = ScratchDir {
                dir: None,
                name,
                place: self,
            };
            match openat(&self.dir, &made.name, Open::SCAN) {
                Ok(dir) if self.holds(&dir, &made.name) => {
                    made.dir = Some(dir);
                    return Ok(made);
                }
                Ok(_) | Err(Errno::ENOENT) => {}
                Err(e) => last = e,
            }
        }
        Err(Trouble::refused(
            "cannot open a directory to experiment in",
            Gate::Openat,
        )(last))
    }

    /// A name that nothing has.
    fn free_name(&self) -> Result<CString, Trouble> {
        let now = gate::clock::monotonic_raw();
        let name = [
            PREFIX,
            format!("{:x}-{now:x}", std::process::id()).as_bytes(),
        ]
        .concat();
        c_string(&name).map_err(Trouble::refused(
            "cannot name a temporary file",
            Gate::Openat,
        ))
    }

    /// Takes away what processes that were killed have left behind: temporary names that nobody
    /// holds a lock on. Not for one whom nobody has asked.
    pub fn sweep(&self) {
        if self.is_read_only() || !self.names {
            return;
        }
        for name in names(&self.dir) {
            if !name.as_bytes().starts_with(PREFIX) {
                continue;
            }
            let Ok(left) = openat(&self.dir, &name, Open::NOFOLLOW | Open::NONBLOCK) else {
                continue;
            };
            if flock(&left).is_ok() {
                names(&left)
                    .iter()
                    .filter(|inner| is_ours(inner.to_bytes()))
                    .for_each(|inner| {
                        let _ = unlinkat(&left, inner);
                    });
                if unlinkat_directory(&self.dir, &name) == Err(Errno::ENOTDIR) {
                    let _ = unlinkat(&self.dir, &name);
                }
            }
        }
    }
}

/// Whether a name is one of those that are given in a directory of our own: `new-0-127`. Others
/// stay: whoever may rename in the directory that is probed could call one of root's so, and have
/// root empty it.
fn is_ours(name: &[u8]) -> bool {
    let bare = [&b"new-"[..], b"renamed-"]
        .iter()
        .find_map(|prefix| name.strip_prefix(*prefix))
        .unwrap_or(name);
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let mut parts = bare.splitn(2, |byte| *byte == b'-');
    parts.next().is_some_and(is_number) && parts.next().is_some_and(is_number)
}

/// The names in a directory; none of what is no directory.
fn names(dir: &Fd) -> Vec<CString> {
    let mut buffer = vec![0; 32 << 10];
    let mut names = Vec::new();
    while let Ok(n @ 1..) = whole(|| getdents64(dir, &mut buffer)) {
        names.extend(ondisk::dirent::entries(&buffer[..n]).map(|entry| entry.name.to_owned()));
    }
    names
}

/// A file to experiment on. It has no name where that can be had, and goes with this in any case.
pub struct Scratch<'a> {
    /// The file, open for reading and writing.
    pub file: Fd,
    name: Option<CString>,
    place: &'a Place,
}

impl Scratch<'_> {
    /// Opens it once more, for reading: what the kernel remembers of the reads before it forgets
    /// so.
    pub fn reopen(&self) -> Result<Fd, Trouble> {
        let opened = match &self.name {
            Some(name) => openat(&self.place.dir, name, Open::NOFOLLOW),
            None => openat(CWD, &self.in_proc()?, Open::empty()),
        };
        opened.map_err(Trouble::refused(
            "cannot open the file once more",
            Gate::Openat,
        ))
    }

    /// Opens it for reading past the page cache.
    pub fn reopen_direct(&self) -> Result<Fd, Errno> {
        match &self.name {
            Some(name) => open_direct(&self.place.dir, name),
            None => open_direct(CWD, &self.in_proc().map_err(|_| Errno::ENOENT)?),
        }
    }

    fn in_proc(&self) -> Result<CString, Trouble> {
        let name = CString::new(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        name.map_err(|_| {
            Trouble::Hindered("a file without a name cannot be opened once more".to_owned())
        })
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = whole(|| unlinkat(&self.place.dir, name));
        }
    }
}

/// Does a call once more that a signal came into: a server that is asked over FUSE then has not
/// done it.
fn whole<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            done => return done,
        }
    }
}

/// A directory to experiment in. It goes with this, and what is in it.
pub struct ScratchDir<'a> {
    dir: Option<Fd>,
    name: CString,
    place: &'a Place,
}

impl ScratchDir<'_> {
    /// The directory.
    ///
    /// # Errors
    /// None, once it is open.
    pub fn fd(&self) -> Result<&Fd, Trouble> {
        self.dir.as_ref().ok_or_else(|| {
            Trouble::Hindered("the directory to experiment in is not open".to_owned())
        })
    }
}

impl Drop for ScratchDir<'_> {
    fn drop(&mut self) {
        // Opened anew: a directory that was read to its end shows nothing more.
        if let Ok(dir) = whole(|| openat(&self.place.dir, &self.name, Open::SCAN)) {
            names(&dir).iter().for_each(|inner| {
                let _ = whole(|| unlinkat(&dir, inner));
            });
        }
        let _ = whole(|| unlinkat_directory(&self.place.dir, &self.name));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn only_our_own_names_are_taken_away() {
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
    fn what_is_made_is_held_or_made_anew() {
        let temporary =
            open_long(std::env::temp_dir().as_os_str().as_bytes(), Open::DIRECTORY).unwrap();
        let own = c_string(format!("fathom-place-{}", std::process::id()).as_bytes()).unwrap();
        mkdirat(&temporary, &own, 0o700).unwrap();
        let path = std::env::temp_dir().join(own.to_str().unwrap());
        let place = Place::open(path.as_os_str().as_bytes()).unwrap();
        let make = || {
            let name = place.free_name().unwrap();
            (open_new(&place.dir, &name).unwrap(), name)
        };
        let (file, held) = make();
        assert!(place.holds(&file, &held));
        // Another one who looks does not take it away.
        place.sweep();
        assert!(place.holds(&file, &held));
        // Somebody came upon it before it was locked, and is about to take it away, or has.
        let (file, name) = make();
        let sweeper = openat(&place.dir, &name, Open::NOFOLLOW).unwrap();
        flock(&sweeper).unwrap();
        assert!(!place.holds(&file, &name));
        drop(sweeper);
        unlinkat(&place.dir, &name).unwrap();
        assert!(!place.holds(&file, &name));
        drop(place.scratch_dir().unwrap());
        unlinkat(&place.dir, &held).unwrap();
        unlinkat_directory(&temporary, &own).unwrap();
    }
}
