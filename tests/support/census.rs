//! All that there is to a tree, looked at without the program under test: for comparing a tree with its copy.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{SeekFrom, lgetxattr, llistxattr, seek};

/// One entry of a tree.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Entry {
    /// Type and permissions, as `st_mode`.
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    /// Of what is no directory.
    pub(crate) size: u64,
    pub(crate) mtime: (i64, i64),
    pub(crate) atime: (i64, i64),
    pub(crate) rdev: u64,
    /// The first of the names of a file that has several.
    pub(crate) link: Option<PathBuf>,
    pub(crate) target: Option<PathBuf>,
    pub(crate) xattrs: BTreeMap<OsString, Vec<u8>>,
    /// Where there is data in a plain file: from, to, and a hash of what.
    pub(crate) data: Vec<(u64, u64, u64)>,
}

pub(crate) type Census = BTreeMap<PathBuf, Entry>;

/// Everything below `top`, by names from there, and `top` itself, whose name is empty. Sockets are left out: archives have none.
pub(crate) fn census(top: &Path) -> Census {
    let mut found = Census::new();
    let mut first: BTreeMap<(u64, u64), PathBuf> = BTreeMap::new();
    let mut next = vec![PathBuf::new()];
    while let Some(name) = next.pop() {
        let path = if name.as_os_str().is_empty() { top.to_owned() } else { top.join(&name) };
        let seen = path.symlink_metadata().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        if seen.file_type().is_socket() {
            continue;
        }
        let mut entry = Entry {
            mode: seen.mode(),
            owner: (seen.uid(), seen.gid()),
            size: if seen.is_dir() { 0 } else { seen.size() },
            mtime: (seen.mtime(), seen.mtime_nsec()),
            atime: (seen.atime(), seen.atime_nsec()),
            rdev: seen.rdev(),
            xattrs: xattrs(&path),
            ..Entry::default()
        };
        if seen.is_symlink() {
            entry.target = Some(fs::read_link(&path).unwrap());
        } else if seen.is_file() {
            entry.data = data(&path, seen.size());
        } else if seen.is_dir() {
            next.extend(fs::read_dir(&path).unwrap().map(|inner| name.join(inner.unwrap().file_name())));
        }
        if !seen.is_dir() && seen.nlink() > 1 {
            let known = first.entry((seen.dev(), seen.ino())).or_insert_with(|| name.clone());
            if name < *known {
                known.clone_from(&name);
            }
            entry.link = Some(PathBuf::from(format!("{}:{}", seen.dev(), seen.ino())));
        }
        found.insert(name, entry);
    }
    // Inode numbers are nobody's business: the first name stands for them.
    for entry in found.values_mut() {
        entry.link = entry.link.take().map(|key| {
            let text = key.to_string_lossy().into_owned();
            let (dev, ino) = text.split_once(':').unwrap();
            first[&(dev.parse().unwrap(), ino.parse().unwrap())].clone()
        });
    }
    found
}

/// Holds that two trees are alike, once `less` has made alike what may differ.
pub(crate) fn alike(one: &Census, other: &Census, less: impl Fn(&Path, &mut Entry)) {
    let shown = |path: &Path| path.as_os_str().as_bytes().escape_ascii().to_string();
    let names = |census: &Census| census.keys().cloned().collect::<Vec<_>>();
    let only = |a: &Census, b: &Census| {
        names(a).iter().filter(|name| !b.contains_key(*name)).map(|name| shown(name)).collect::<Vec<_>>()
    };
    assert!(
        names(one) == names(other),
        "only in the one: {:?}\nonly in the other: {:?}",
        only(one, other),
        only(other, one)
    );
    for (path, entry) in one {
        let (mut entry, mut twin) = (entry.clone(), other[path].clone());
        less(path, &mut entry);
        less(path, &mut twin);
        assert!(entry == twin, "'{}' differs:\n{entry:?}\n{twin:?}", shown(path));
    }
}

fn xattrs(path: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let mut names = vec![0; 1 << 16];
    let Ok(n) = llistxattr(path, &mut names[..]) else { return BTreeMap::new() };
    let names = names[..n].split(|&b| b == 0).filter(|name| !name.is_empty());
    let value = |name: &[u8]| {
        let name = OsString::from_vec(name.to_vec());
        let mut value = vec![0; 1 << 16];
        let n = lgetxattr(path, &name, &mut value[..]).unwrap_or(0);
        value.truncate(n);
        (name, value)
    };
    names.map(value).collect()
}

/// Where there is data; access times stay as they are.
fn data(path: &Path, size: u64) -> Vec<(u64, u64, u64)> {
    let open = |flags| OpenOptions::new().read(true).custom_flags(flags | libc::O_NONBLOCK).open(path);
    let file: File = open(libc::O_NOATIME).or_else(|_| open(0)).unwrap();
    let (mut ranges, mut from) = (Vec::new(), 0);
    while from < size {
        let Ok(start) = seek(&file, SeekFrom::Data(from)) else { break };
        let end = seek(&file, SeekFrom::Hole(start)).unwrap();
        ranges.push((start, end, hash(&file, start, end)));
        from = end;
    }
    ranges
}

/// FNV-1a of a part of a file.
fn hash(file: &File, mut from: u64, end: u64) -> u64 {
    let mut buffer = vec![0; 1 << 20];
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    while from < end {
        let most = buffer.len().min(usize::try_from(end - from).unwrap());
        let n = file.read_at(&mut buffer[..most], from).unwrap();
        if n == 0 {
            break;
        }
        for &byte in &buffer[..n] {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        from += n as u64;
    }
    hash
}
