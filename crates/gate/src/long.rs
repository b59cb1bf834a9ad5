//! Calls on names of any length. The kernel takes at most `PATH_MAX` (4096) bytes. Of a longer name, the
//! directories are opened piece by piece with `O_PATH`; the call then gets the last descriptor and the
//! last piece.

use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd};

use crate::fs::{
    At, CWD, Open, Resolve, Stat, Statx, Want, has_openat2, newfstatat, openat, openat2, statx,
};
use crate::{Errno, Fd, Result};

/// The longest name the kernel takes, without its NUL.
const LONGEST: usize = libc::PATH_MAX as usize - 1;

/// A name that is short enough for the kernel, from a descriptor on.
pub struct Reach<'a> {
    from: Option<Fd>,
    base: BorrowedFd<'a>,
    rest: Cow<'a, CStr>,
}

impl Reach<'_> {
    /// The directory that [`Reach::rest`] begins at.
    pub fn dir(&self) -> BorrowedFd<'_> {
        self.from.as_ref().map_or(self.base, |fd| fd.as_fd())
    }

    /// The rest of the name.
    pub fn rest(&self) -> &CStr {
        &self.rest
    }
}

/// Opens the directories of a `name` in `dir` that is too long for the kernel. A short name makes no
/// call.
///
/// # Errors
/// Those of openat(2) for a piece; `EINVAL` for a name with a NUL in it; `ENAMETOOLONG` for a
/// component of over 4095 bytes.
pub fn reach<'a>(dir: BorrowedFd<'a>, name: &'a [u8]) -> Result<Reach<'a>> {
    let mut from: Option<Fd> = None;
    let mut rest = name;
    while rest.len() > LONGEST {
        let cut = last_slash(rest)?;
        let piece = c_string(&rest[..cut])?;
        let at = from.as_ref().map_or(dir, |fd| fd.as_fd());
        from = Some(openat(at, &piece, Open::PATH | Open::DIRECTORY)?);
        rest = &rest[cut..];
        while let [b'/', tail @ ..] = rest {
            rest = tail;
        }
    }
    let rest = if rest.is_empty() && from.is_some() {
        Cow::Borrowed(c".")
    } else {
        Cow::Owned(c_string(rest)?)
    };
    Ok(Reach {
        from,
        base: dir,
        rest,
    })
}

/// Where to cut a long name: the last slash that the kernel takes.
fn last_slash(name: &[u8]) -> Result<usize> {
    let slash = name[..LONGEST].iter().rposition(|&b| b == b'/');
    slash.filter(|&at| at > 0).ok_or(Errno::ENAMETOOLONG)
}

/// A name, terminated by NUL.
///
/// # Errors
/// `EINVAL` for a name with a NUL in it.
pub fn c_string(name: &[u8]) -> Result<CString> {
    CString::new(name).map_err(|_| Errno::EINVAL)
}

/// [`statx`] of a name of any length.
pub fn statx_long(name: &[u8], at: At, want: Want) -> Result<Statx> {
    let reach = reach(CWD, name)?;
    statx(reach.dir(), reach.rest(), at, want)
}

/// Has the client of a network file system ask its server for the directory that a name is in. Without this, a
/// client knows nothing of a directory that another host has created, or replaced, until its attributes expire
/// (`acdirmin` in nfs(5)): it answers `ENOENT`, or opens the directory that was removed, and each use is `ESTALE`.
pub fn refresh_parent(name: &[u8]) {
    // Whatever is wrong with the parent, the caller finds out when it opens `name`.
    let _ = statx_long(parent(name), At::STATX_FORCE_SYNC, Want::BASIC_STATS);
}

/// The directory that a name is in, by its text; `/` and `.` are in themselves.
pub fn parent(name: &[u8]) -> &[u8] {
    let end = name.iter().rposition(|&b| b != b'/').map_or(0, |at| at + 1);
    match name[..end].iter().rposition(|&b| b == b'/') {
        Some(0) => b"/",
        Some(slash) => &name[..slash],
        None if end == 0 && !name.is_empty() => b"/",
        None => b".",
    }
}

/// [`newfstatat`] of a name of any length.
pub fn newfstatat_long(dir: BorrowedFd<'_>, name: &[u8], at: At) -> Result<Stat> {
    let reach = reach(dir, name)?;
    newfstatat(reach.dir(), reach.rest(), at)
}

/// [`openat`] of a name of any length.
pub fn open_long(name: &[u8], how: Open) -> Result<Fd> {
    let reach = reach(CWD, name)?;
    openat(reach.dir(), reach.rest(), how)
}

/// [`openat2_long`] that follows no symlink.
pub fn open_long_no_symlinks(dir: BorrowedFd<'_>, name: &[u8], how: Open) -> Result<Fd> {
    openat2_long(dir, name, how, Resolve::NO_SYMLINKS)
}

/// [`openat2`] of a name of any length. If the name is too long for the kernel, `resolve` holds for
/// its last piece only.
pub fn openat2_long(dir: BorrowedFd<'_>, name: &[u8], how: Open, resolve: Resolve) -> Result<Fd> {
    let reach = reach(dir, name)?;
    openat2(reach.dir(), reach.rest(), how, resolve)
}

/// Opens a file beneath a directory by a name of any length, and follows neither symlinks nor `..`,
/// also if the tree changes meanwhile. Without openat2(2), it opens one component after the other.
///
/// # Errors
/// `ELOOP` or `ENOTDIR` for a symlink in the path, `EXDEV` for a name that leads out.
pub fn open_beneath(dir: BorrowedFd<'_>, name: &[u8], how: Open) -> Result<Fd> {
    let resolve = Resolve::BENEATH | Resolve::NO_SYMLINKS | Resolve::NO_MAGICLINKS;
    let components = || {
        name.split(|&b| b == b'/')
            .filter(|part| !part.is_empty() && *part != b".")
    };
    if components().any(|part| part == b"..") || name.starts_with(b"/") {
        return Err(Errno::EXDEV);
    }
    let place = Open::PATH | Open::DIRECTORY | Open::NOFOLLOW;
    let mut from: Option<Fd> = None;
    let mut rest = name;
    while rest.len() > LONGEST && has_openat2() {
        let cut = last_slash(rest)?;
        let at = from.as_ref().map_or(dir, |fd| fd.as_fd());
        let next = openat2(at, &c_string(&rest[..cut])?, place, resolve)?;
        if !has_openat2() {
            break; // it was just found missing: symlinks may have been followed
        }
        from = Some(next);
        rest = &rest[cut + 1..];
    }
    if has_openat2() {
        let at = from.as_ref().map_or(dir, |fd| fd.as_fd());
        let rest = c_string(if rest.is_empty() { b"." } else { rest })?;
        let opened = openat2(at, &rest, how | Open::NOFOLLOW, resolve);
        if has_openat2() {
            return opened;
        }
    }
    let mut parts = components().peekable();
    let mut here: Option<Fd> = None;
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        let how = if is_last { how | Open::NOFOLLOW } else { place };
        let at = here.as_ref().map_or(dir, |fd| fd.as_fd());
        here = Some(openat(at, &c_string(part)?, how)?);
    }
    here.map_or_else(|| openat(dir, c".", how), Ok)
}

#[cfg(test)]
mod tests {
    use super::parent;

    #[test]
    fn the_parent_of_a_name_is_before_its_last_component() {
        let names: [(&[u8], &[u8]); 7] = [
            (b"/srv/tree", b"/srv"),
            (b"/srv//tree//", b"/srv/"),
            (b"/srv", b"/"),
            (b"/", b"/"),
            (b"tree", b"."),
            (b"a/tree/", b"a"),
            (b"", b"."),
        ];
        for (name, expected) in names {
            assert_eq!(parent(name), expected, "{name:?}");
        }
    }
}
