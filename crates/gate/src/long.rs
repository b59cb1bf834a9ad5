//! System calls on path names of any length. The kernel takes at most `PATH_MAX` (4096) bytes. For
//! a longer name, the directories are opened piece by piece with `O_PATH`; the call then gets the
//! last descriptor and the last piece.

use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd};

use crate::fs::{
    AtFlags, CWD, Open, Resolve, Stat, Statx, StatxMask, lstatat, newfstatat, openat, statx,
};
use crate::resolve::openat2;
use crate::{Errno, Fd, Result};

/// Maximum length of a name for the kernel, without its NUL.
const LONGEST: usize = libc::PATH_MAX as usize - 1;

/// A directory and a name relative to it that is short enough for the kernel.
pub struct SplitPath<'a> {
    from: Option<Fd>,
    base: BorrowedFd<'a>,
    rest: Cow<'a, CStr>,
}

impl SplitPath<'_> {
    /// The directory that [`SplitPath::rest`] is relative to.
    pub fn dir(&self) -> BorrowedFd<'_> {
        self.from.as_ref().map_or(self.base, |fd| fd.as_fd())
    }

    /// The rest of the name, after the opened pieces.
    pub fn rest(&self) -> &CStr {
        &self.rest
    }
}

/// Opens the directories of a `name` in `dir` that is too long for the kernel. Makes no call for a
/// short name.
///
/// # Errors
/// The errors of openat(2) for a piece; `EINVAL` for a name that contains a NUL; `ENAMETOOLONG` for
/// a component of over 4095 bytes.
pub fn reach<'a>(dir: BorrowedFd<'a>, name: &'a [u8]) -> Result<SplitPath<'a>> {
    let mut from: Option<Fd> = None;
    let rest = match name {
        // Pass an empty name to the system call, which returns the error.
        [] => Cow::Borrowed(c""),
        name => cut(name, |piece| {
            let at = from.as_ref().map_or(dir, |fd| fd.as_fd());
            from = Some(openat(at, piece, Open::PATH | Open::DIRECTORY)?);
            Ok(())
        })?,
    };
    Ok(SplitPath {
        from,
        base: dir,
        rest,
    })
}

/// Calls `enter` with the pieces of a name that is too long for the kernel, except the last one,
/// which is returned; `.` if nothing is left.
fn cut<'a>(name: &'a [u8], mut enter: impl FnMut(&CStr) -> Result<()>) -> Result<Cow<'a, CStr>> {
    let mut rest = name;
    while rest.len() > LONGEST {
        let cut = last_slash(rest)?;
        enter(&c_string(&rest[..cut])?)?;
        rest = &rest[cut..];
        while let [b'/', tail @ ..] = rest {
            rest = tail;
        }
    }
    match rest {
        [] => Ok(Cow::Borrowed(c".")),
        rest => c_string(rest).map(Cow::Owned),
    }
}

/// Where to cut a long name: the last slash that the kernel takes.
fn last_slash(name: &[u8]) -> Result<usize> {
    let slash = name[..LONGEST].iter().rposition(|&b| b == b'/');
    slash.filter(|&at| at > 0).ok_or(Errno::ENAMETOOLONG)
}

/// A name with a NUL at its end.
///
/// # Errors
/// `EINVAL` for a name that contains a NUL.
pub fn c_string(name: &[u8]) -> Result<CString> {
    CString::new(name).map_err(|_| Errno::EINVAL)
}

/// [`statx`] for a name of any length.
pub fn statx_long(name: &[u8], at: AtFlags, want: StatxMask) -> Result<Statx> {
    let reach = reach(CWD, name)?;
    statx(reach.dir(), reach.rest(), at, want)
}

/// [`statx`] for a name of any length, without flags, like stat(2).
pub fn stat_long(name: &[u8], want: StatxMask) -> Result<Statx> {
    statx_long(name, AtFlags::empty(), want)
}

/// [`lstatat`] for a name of any length.
pub fn lstat_long(name: &[u8], want: StatxMask) -> Result<Statx> {
    let reach = reach(CWD, name)?;
    lstatat(reach.dir(), reach.rest(), want)
}

/// Makes the client of a network file system revalidate the parent directory of a name. Without
/// this, for a directory that another host has created or replaced, the client returns `ENOENT`, or
/// opens the removed directory, so that each use fails with `ESTALE`, until cached attributes
/// expire (`acdirmin` in nfs(5)).
pub fn refresh_parent(name: &[u8]) {
    // Ignore errors: the caller gets the same errors when it opens `name`.
    let _ = statx_long(
        parent(name),
        AtFlags::STATX_FORCE_SYNC,
        StatxMask::BASIC_STATS,
    );
}

/// The parent directory of a name, by its text; `/` and `.` are their own parents.
pub fn parent(name: &[u8]) -> &[u8] {
    match name.iter().rposition(|&b| b != b'/') {
        Some(last) => split_path(&name[..=last]).0,
        None if name.is_empty() => b".",
        None => b"/",
    }
}

/// Splits a path into the directory to open, `.` if the text has none, and the name there: what
/// follows the last slash.
pub fn split_path(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&b| b == b'/') {
        Some(slash) => (&path[..slash.max(1)], &path[slash + 1..]),
        None => (b".", path),
    }
}

/// [`newfstatat`] for a name of any length.
pub fn newfstatat_long(dir: BorrowedFd<'_>, name: &[u8], at: AtFlags) -> Result<Stat> {
    let reach = reach(dir, name)?;
    newfstatat(reach.dir(), reach.rest(), at)
}

/// [`openat`] for a name of any length.
pub fn open_long(name: &[u8], how: Open) -> Result<Fd> {
    let reach = reach(CWD, name)?;
    openat(reach.dir(), reach.rest(), how)
}

/// [`openat2_long`] that follows no symlink.
pub fn open_long_no_symlinks(dir: BorrowedFd<'_>, name: &[u8], how: Open) -> Result<Fd> {
    openat2_long(dir, name, how, Resolve::NO_SYMLINKS)
}

/// [`openat2`] for a name of any length without `..`; an empty name means the directory itself.
pub fn openat2_long(dir: BorrowedFd<'_>, name: &[u8], how: Open, resolve: Resolve) -> Result<Fd> {
    const PLACE: Open = Open::PATH.union(Open::DIRECTORY);
    let mut from: Option<Fd> = None;
    let rest = cut(name, |piece| {
        let at = from.as_ref().map_or(dir, |fd| fd.as_fd());
        from = Some(openat2(at, piece, PLACE, resolve)?);
        Ok(())
    })?;
    openat2(
        from.as_ref().map_or(dir, |fd| fd.as_fd()),
        &rest,
        how,
        resolve,
    )
}

/// Opens a file beneath a directory by a name of any length, and follows neither symlinks nor `..`,
/// even if the tree changes meanwhile.
///
/// # Errors
/// `ELOOP` or `ENOTDIR` for a symlink in the path, `EXDEV` for a name that leads outside.
pub fn open_beneath(dir: BorrowedFd<'_>, name: &[u8], how: Open) -> Result<Fd> {
    let resolve = Resolve::BENEATH | Resolve::NO_SYMLINKS | Resolve::NO_MAGICLINKS;
    let mut components = name.split(|&b| b == b'/');
    if components.any(|part| part == b"..") || name.starts_with(b"/") {
        return Err(Errno::EXDEV);
    }
    openat2_long(dir, name, how | Open::NOFOLLOW, resolve)
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
