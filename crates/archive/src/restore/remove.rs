//! A name taken away, and all that is below it; never what is on another mount, and never through a
//! symlink.

use std::ffi::{CStr, CString};
use std::rc::Rc;

use gate::create::{fchmod, unlinkat_directory};
use gate::file::unlinkat;
use gate::fs::{At, Open, Resolve, Want, getdents64, has_openat2, openat2, statx};
use gate::process::is_root;
use gate::{Errno, Fd, Gate};
use ondisk::dirent::{EntryType, entries};

use super::trail::Trail;
use super::{Remarks, Trouble, change_mode};

/// A directory that is being emptied.
#[derive(Default)]
struct Frame {
    /// Directories in it, to be emptied next.
    directories: Vec<CString>,
    /// What could not be taken away.
    kept: Vec<CString>,
    is_read: bool,
}

/// Takes away what has a name, which is known as `path` in warnings. Gives how many entries are
/// gone.
pub(super) fn remove(here: &Rc<Fd>, name: &CStr, path: &[u8], remarks: &mut Remarks) -> u64 {
    let mut trouble = |below: &[u8], gate, errno| {
        let what = match errno {
            Errno::EXDEV | Errno::EBUSY => "not taken away: something is mounted there",
            Errno::EACCES | Errno::EPERM => {
                "it is not in the archive any more, and may not be taken away; run as root"
            }
            _ => "it is not in the archive any more, and cannot be taken away",
        };
        let path = if below.is_empty() {
            path.to_vec()
        } else {
            [path, b"/", below].concat()
        };
        remarks.warn(&path, Trouble::of(gate, errno, what));
    };
    match unlinkat(here, name) {
        Ok(()) => return 1,
        Err(Errno::ENOENT) => return 0,
        Err(Errno::EISDIR) => {}
        Err(e) => {
            trouble(b"", Gate::Unlinkat, e);
            return 0;
        }
    }
    let mut removed = 0;
    let mut trail: Trail<Frame> = Trail::new(Rc::clone(here));
    let mut buffer = vec![0; 32 << 10];
    match enter(here, name) {
        Ok(fd) => trail.push(name.to_bytes(), Rc::new(fd), Frame::default()),
        Err(e) => {
            trouble(b"", Gate::Openat2, e);
            return 0;
        }
    }
    // Names in warnings begin below the first level.
    let below = |trail: &[u8], name: &[u8]| {
        let inner = trail.get(below_first(trail)..).unwrap_or_default();
        if inner.is_empty() {
            name.to_vec()
        } else {
            [inner, b"/", name].concat()
        }
    };
    loop {
        let opened = trail.here();
        let whole = trail.path().to_vec();
        let Some(frame) = trail.last() else {
            return removed;
        };
        let dir = match opened {
            Ok(dir) => dir,
            Err(e) => {
                trouble(&below(&whole, b""), Gate::Openat2, e);
                return removed;
            }
        };
        if let Some(next) = frame.directories.pop() {
            match enter(&dir, &next) {
                Ok(fd) => trail.push(next.to_bytes(), Rc::new(fd), Frame::default()),
                Err(e) => {
                    trouble(&below(&whole, next.to_bytes()), Gate::Openat2, e);
                    frame.kept.push(next);
                }
            }
            continue;
        }
        if !frame.is_read {
            let read = getdents64(&dir, &mut buffer).unwrap_or_else(|e| {
                trouble(&below(&whole, b""), Gate::Getdents64, e);
                0
            });
            frame.is_read = read == 0;
            for entry in entries(&buffer[..read.min(buffer.len())]) {
                // A directory that was opened again is read again from its beginning.
                if frame.kept.iter().any(|kept| kept.as_c_str() == entry.name) {
                    continue;
                }
                if entry.entry_type == EntryType::Directory {
                    frame.directories.push(entry.name.to_owned());
                    continue;
                }
                match unlinkat(&dir, entry.name) {
                    Ok(()) => removed += 1,
                    Err(Errno::ENOENT) => {}
                    Err(Errno::EISDIR) => frame.directories.push(entry.name.to_owned()),
                    Err(e) => {
                        trouble(&below(&whole, entry.name.to_bytes()), Gate::Unlinkat, e);
                        frame.kept.push(entry.name.to_owned());
                    }
                }
            }
            continue;
        }
        // It is empty now, or holds what has been warned of.
        let Some(frame) = trail.pop() else {
            return removed;
        };
        let own = whole.rsplit(|&b| b == b'/').next().unwrap_or_default();
        let (Ok(own), Ok(above)) = (gate::long::c_string(own), trail.here()) else {
            return removed;
        };
        match unlinkat_directory(&above, &own) {
            Ok(()) => removed += 1,
            Err(Errno::ENOENT) => {}
            Err(e) => {
                if frame.kept.is_empty() {
                    trouble(&below(&whole, b""), Gate::Unlinkat, e);
                }
                match trail.last() {
                    Some(frame) => frame.kept.push(own),
                    None => return removed,
                }
            }
        }
    }
}

/// Where the names below the first level begin.
fn below_first(path: &[u8]) -> usize {
    path.iter()
        .position(|&b| b == b'/')
        .map_or(path.len(), |at| at + 1)
}

/// Opens a directory that is to be emptied, on the same mount only. One that does not let its owner
/// in is made to.
fn enter(here: &Fd, name: &CStr) -> gate::Result<Fd> {
    const ALL: u32 = 0o700;
    let resolve =
        Resolve::BENEATH | Resolve::NO_SYMLINKS | Resolve::NO_MAGICLINKS | Resolve::NO_XDEV;
    let open = || openat2(here, name, Open::SCAN, resolve);
    let fd = match open() {
        Err(Errno::EACCES) => {
            change_mode(here, name, ALL)?;
            open()?
        }
        other => other?,
    };
    let seen = |fd: &Fd| statx(fd, c"", At::EMPTY_PATH, Want::BASIC_STATS);
    if !has_openat2() && seen(&fd)?.mnt_id != seen(here)?.mnt_id {
        return Err(Errno::EXDEV);
    }
    if !is_root() {
        let _ = fchmod(&fd, ALL); // whose it is not, cannot; that shows when something is to be taken away
    }
    Ok(fd)
}
