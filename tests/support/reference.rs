//! Expected results computed without the program under test: an independent parser of mountinfo,
//! and an independent walk.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, Mode, OFlags, Statx, StatxAttributes, StatxFlags, StatxTimestamp, openat, statx,
};

use super::build::mount_id;

/// One line of mountinfo.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mount {
    pub(crate) id: u64,
    pub(crate) parent: u64,
    pub(crate) target: PathBuf,
    pub(crate) source: Vec<u8>,
    pub(crate) fstype: String,
    pub(crate) dev: String,
    pub(crate) fsroot: Vec<u8>,
    pub(crate) options: Vec<String>,
    pub(crate) internal: bool,
    pub(crate) hidden: bool,
}

/// The mounts of this thread's namespace, without any access to the file systems themselves. Fails
/// without /proc.
pub(super) fn mountinfo() -> io::Result<Vec<Mount>> {
    // /proc/self would show the namespace of the process's first thread.
    let text = fs::read("/proc/thread-self/mountinfo")?;
    let lines = text.split(|&b| b == b'\n');
    Ok(lines.filter(|line| !line.is_empty()).map(parse).collect())
}

/// Every mount at or under `root` in this thread's namespace.
pub(crate) fn table(root: &Path) -> Vec<Mount> {
    let mut mounts = mountinfo().unwrap();
    let parents: BTreeSet<u64> = mounts.iter().map(|mount| mount.parent).collect();
    mounts.retain(|mount| mount.target.starts_with(root));
    for mount in &mut mounts {
        mount.internal = parents.contains(&mount.id);
        mount.hidden = mount_id(&mount.target) != Some(mount.id);
    }
    mounts
}

/// The targets of the visible mounts at or under `root`.
pub(crate) fn visible(root: &Path) -> BTreeSet<PathBuf> {
    table(root)
        .into_iter()
        .filter(|mount| !mount.hidden)
        .map(|mount| mount.target)
        .collect()
}

/// The directories at or under `root` whose device is not that of the directory they are in.
pub(crate) fn device_changes(root: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let device = |path: &Path| fs::symlink_metadata(path).unwrap().dev();
    if device(root) != device(&root.join("..")) {
        found.insert(root.to_owned());
    }
    let mut unread = vec![root.to_owned()];
    while let Some(directory) = unread.pop() {
        let here = device(&directory);
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let Ok(status) = fs::symlink_metadata(&path) else {
                continue;
            };
            if !status.is_dir() {
                continue;
            }
            if status.dev() != here {
                found.insert(path.clone());
            }
            unread.push(path);
        }
    }
    found
}

fn parse(line: &[u8]) -> Mount {
    let fields: Vec<&[u8]> = line.split(|&b| b == b' ').collect();
    let dash = fields.iter().position(|field| *field == b"-").unwrap();
    let number = |field: &[u8]| std::str::from_utf8(field).unwrap().parse().unwrap();
    let text = |field: &[u8]| String::from_utf8(plain(field)).unwrap();
    let mut options = Vec::new();
    for option in text(fields[5])
        .split(',')
        .chain(text(fields[dash + 3]).split(','))
    {
        if !options.iter().any(|seen| seen == option) {
            options.push(option.to_owned());
        }
    }
    Mount {
        id: number(fields[0]),
        parent: number(fields[1]),
        dev: text(fields[2]),
        fsroot: plain(fields[3]),
        target: PathBuf::from(OsString::from_vec(plain(fields[4]))),
        fstype: text(fields[dash + 1]),
        source: plain(fields[dash + 2]),
        options,
        internal: false,
        hidden: false,
    }
}

/// Undoes mountinfo's escapes: a backslash and three octal digits.
pub(crate) fn plain(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let code = (first == b'\\').then(|| tail.get(..3)).flatten();
        match code.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok())
        {
            Some(byte) => {
                out.push(byte);
                rest = &tail[3..];
            }
            None => {
                out.push(first);
                rest = tail;
            }
        }
    }
    out
}

/// `path` relative to the chroot `jail`.
pub(crate) fn inside(jail: &Path, path: &Path) -> PathBuf {
    let bare = path.strip_prefix(jail).unwrap();
    if bare.as_os_str().as_bytes().is_empty() {
        PathBuf::from("/")
    } else {
        Path::new("/").join(bare)
    }
}

/// One entry of a tree, with the fields of `walk --format ndjson`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: String,
    pub(crate) ino: u64,
    pub(crate) mode: String,
    pub(crate) nlink: u64,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    pub(crate) size: u64,
    pub(crate) blocks: u64,
    pub(crate) rdev: Option<String>,
    pub(crate) dev: String,
    pub(crate) mount: u64,
    pub(crate) atime: String,
    pub(crate) mtime: String,
    pub(crate) ctime: String,
    pub(crate) btime: Option<String>,
    pub(crate) attributes: BTreeSet<String>,
}

/// The entries of a tree by path; paths begin with the root as given.
pub(crate) type Census = BTreeMap<Vec<u8>, Entry>;

/// Everything at and under `top`, across mounts. Directories that cannot be read, or were removed,
/// are skipped.
pub(crate) fn census(top: &Path) -> Census {
    let root = rustix::fs::open(top, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let top = top.as_os_str().as_bytes();
    let mut found = Census::from([(top.to_vec(), entry(&root, c"").expect("the root"))]);
    let mut unread = vec![Vec::new()];
    while let Some(beneath) = unread.pop() {
        let Some(directory) = open_long(root.as_fd(), &beneath) else {
            continue;
        };
        for item in Dir::read_from(&directory).unwrap().flatten() {
            let name = item.file_name();
            if [c".", c".."].contains(&name) {
                continue;
            }
            let Some(entry) = entry(&directory, name) else {
                continue;
            };
            let below = join(&beneath, name.to_bytes());
            if entry.kind == "directory" {
                unread.push(below.clone());
            }
            found.insert(join(top, &below), entry);
        }
    }
    found
}

/// `name` in the directory `at`, with one slash between them.
pub(crate) fn join(at: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if at.is_empty() || at.ends_with(b"/") {
        b""
    } else {
        b"/"
    };
    [at, slash, name].concat()
}

/// Opens a directory below `root` whose path may be longer than PATH_MAX.
fn open_long(root: impl AsFd, mut path: &[u8]) -> Option<OwnedFd> {
    let how = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut here = openat(root, c".", how, Mode::empty()).ok()?;
    while !path.is_empty() {
        let piece = if path.len() < 4000 {
            path.len()
        } else {
            path[..4000].iter().rposition(|&b| b == b'/')?
        };
        here = openat(&here, OsStr::from_bytes(&path[..piece]), how, Mode::empty()).ok()?;
        path = path.get(piece + 1..).unwrap_or_default();
    }
    Some(here)
}

fn entry(directory: impl AsFd, name: &CStr) -> Option<Entry> {
    let how = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::EMPTY_PATH;
    let what = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
    statx(directory, name, how, what)
        .ok()
        .map(|status| told(&status))
}

/// An entry from the result of statx(2).
fn told(status: &Statx) -> Entry {
    let kind = match u32::from(status.stx_mode) & libc::S_IFMT {
        libc::S_IFREG => "file",
        libc::S_IFDIR => "directory",
        libc::S_IFLNK => "symlink",
        libc::S_IFIFO => "fifo",
        libc::S_IFSOCK => "socket",
        libc::S_IFBLK => "block",
        libc::S_IFCHR => "char",
        other => panic!("what is {other:o}?"),
    };
    let device = ["block", "char"].contains(&kind);
    let known = |flag| status.stx_mask & StatxFlags::bits(&flag) != 0;
    let time = |time: StatxTimestamp| format!("{}.{:09}", time.tv_sec, time.tv_nsec);
    let names = [
        (StatxAttributes::APPEND, "append"),
        (StatxAttributes::IMMUTABLE, "immutable"),
        (StatxAttributes::NODUMP, "nodump"),
        (StatxAttributes::COMPRESSED, "compressed"),
        (StatxAttributes::ENCRYPTED, "encrypted"),
        (StatxAttributes::VERITY, "verity"),
    ];
    Entry {
        kind: kind.to_owned(),
        ino: status.stx_ino,
        mode: format!("{:04o}", status.stx_mode & 0o7777),
        nlink: status.stx_nlink.into(),
        uid: status.stx_uid.into(),
        gid: status.stx_gid.into(),
        size: status.stx_size,
        blocks: status.stx_blocks,
        rdev: device.then(|| format!("{}:{}", status.stx_rdev_major, status.stx_rdev_minor)),
        dev: format!("{}:{}", status.stx_dev_major, status.stx_dev_minor),
        mount: status.stx_mnt_id,
        atime: time(status.stx_atime),
        mtime: time(status.stx_mtime),
        ctime: time(status.stx_ctime),
        btime: known(StatxFlags::BTIME).then(|| time(status.stx_btime)),
        attributes: names
            .into_iter()
            .filter(|(flag, _)| status.stx_attributes.contains(*flag))
            .map(|(_, name)| name.to_owned())
            .collect(),
    }
}

/// The part of a census that `-x` leaves: without the contents of directories on other devices than
/// the root.
pub(crate) fn one_device(census: &Census) -> Census {
    let (root, first) = census
        .first_key_value()
        .expect("the root sorts before what is in it");
    let inside = |path: &[u8]| {
        let mut above = path;
        while above.len() > root.len() {
            let slash = above.iter().rposition(|&b| b == b'/').unwrap();
            above = &above[..slash.max(root.len())];
            if census[above].dev != first.dev {
                return false;
            }
        }
        true
    };
    census
        .iter()
        .filter(|(path, _)| inside(path))
        .map(|(path, entry)| (path.clone(), entry.clone()))
        .collect()
}

/// The depth of a path below `root`, as find's `%d`.
pub(crate) fn depth(root: &[u8], path: &[u8]) -> u64 {
    let below = path
        .strip_prefix(root)
        .expect("a path begins with its root");
    below
        .split(|&b| b == b'/')
        .filter(|piece| !piece.is_empty())
        .count() as u64
}

/// Calls syncfs(2) on every file system mounted at or under `top`, so that blocks are allocated.
pub(crate) fn settle(top: &Path) {
    let within: BTreeSet<PathBuf> = visible(&top.canonicalize().unwrap())
        .into_iter()
        .chain([top.to_owned()])
        .collect();
    for place in within {
        if let Ok(file) = fs::File::open(place) {
            rustix::fs::syncfs(file).unwrap();
        }
    }
}
