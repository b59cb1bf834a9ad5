//! Everything that an archive stores of a tree, read without the program under test, to compare a
//! tree with its copy. Names may have any length.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::hash::{DefaultHasher, Hasher};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, SeekFrom, StatxFlags, lgetxattr, llistxattr, openat,
    readlinkat, seek, statx,
};
use rustix::io::{Errno, pread};

/// The metadata and data of an entry.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    /// The type, as the letter of ls(1).
    pub(crate) kind: char,
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    /// The size; 0 except for regular files.
    pub(crate) size: u64,
    pub(crate) mtime: (i64, u32),
    pub(crate) atime: (i64, u32),
    pub(crate) rdev: (u32, u32),
    pub(crate) target: Vec<u8>,
    /// A hash of the blocks that are not all zeros, and of their offsets.
    pub(crate) content: u64,
    /// The data extents of a sparse file.
    pub(crate) data: Vec<(u64, u64)>,
    pub(crate) attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The first of its names in the tree, if it has several.
    pub(crate) twin: Option<Vec<u8>>,
}

/// The entries by path below the top, whose path is empty.
pub(crate) type Snapshot = BTreeMap<Vec<u8>, Seen>;

/// The part of a tree that an archive contains: everything except sockets.
pub(crate) fn kept(top: &Path) -> Snapshot {
    snapshot(top)
        .into_iter()
        .filter(|(_, seen)| seen.kind != 's')
        .collect()
}

/// Reads a tree. Access times do not change, except those of symlinks.
pub(crate) fn snapshot(top: &Path) -> Snapshot {
    let mut all = Snapshot::new();
    let mut names: BTreeMap<(u32, u32, u64), Vec<Vec<u8>>> = BTreeMap::new();
    let parent = openat(
        CWD,
        top.parent().unwrap(),
        OFlags::PATH | OFlags::DIRECTORY,
        Mode::empty(),
    )
    .unwrap();
    let name = CString::new(top.file_name().unwrap().as_bytes()).unwrap();
    visit(&parent, &name, Vec::new(), &mut all, &mut names);
    for twins in names.into_values().filter(|names| names.len() > 1) {
        let first = twins.iter().min().unwrap().clone();
        twins
            .iter()
            .for_each(|name| all.get_mut(name).unwrap().twin = Some(first.clone()));
    }
    all
}

fn visit(
    dir: &OwnedFd,
    name: &CString,
    path: Vec<u8>,
    all: &mut Snapshot,
    names: &mut BTreeMap<(u32, u32, u64), Vec<Vec<u8>>>,
) {
    let s = statx(
        dir,
        name,
        AtFlags::SYMLINK_NOFOLLOW,
        StatxFlags::BASIC_STATS,
    )
    .unwrap();
    let kind = FileType::from_raw_mode(s.stx_mode.into());
    let proc_name = CString::new(
        [
            format!("/proc/self/fd/{}/", dir.as_raw_fd()).as_bytes(),
            name.as_bytes(),
        ]
        .concat(),
    )
    .unwrap();
    let mut seen = Seen {
        kind: match kind {
            FileType::RegularFile => '-',
            FileType::Directory => 'd',
            FileType::Symlink => 'l',
            FileType::Fifo => 'p',
            FileType::Socket => 's',
            FileType::CharacterDevice => 'c',
            FileType::BlockDevice => 'b',
            _ => '?',
        },
        mode: u32::from(s.stx_mode) & 0o7777,
        owner: (s.stx_uid, s.stx_gid),
        mtime: (s.stx_mtime.tv_sec, s.stx_mtime.tv_nsec),
        atime: (s.stx_atime.tv_sec, s.stx_atime.tv_nsec),
        rdev: (s.stx_rdev_major, s.stx_rdev_minor),
        attributes: attributes(&proc_name),
        ..Seen::default()
    };
    let quietly = OFlags::NOFOLLOW | OFlags::NOATIME | OFlags::NONBLOCK;
    match kind {
        FileType::RegularFile => {
            let file = openat(dir, name, quietly, Mode::empty()).unwrap();
            seen.size = s.stx_size;
            let data = data(&file, s.stx_size);
            seen.content = content(&file, &data);
            if s.stx_blocks * 512 < s.stx_size {
                seen.data = data;
            }
        }
        FileType::Symlink => seen.target = readlinkat(dir, name, Vec::new()).unwrap().into_bytes(),
        FileType::Directory => {
            let open = openat(dir, name, quietly | OFlags::DIRECTORY, Mode::empty()).unwrap();
            let entries: Vec<_> = Dir::read_from(&open)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().to_owned())
                .collect();
            for entry in entries {
                if !matches!(entry.as_bytes(), b"." | b"..") {
                    let below = [
                        &path[..],
                        if path.is_empty() { b"" } else { b"/" },
                        entry.as_bytes(),
                    ]
                    .concat();
                    visit(&open, &entry, below, all, names);
                }
            }
        }
        _ => {}
    }
    if kind != FileType::Directory {
        names
            .entry((s.stx_dev_major, s.stx_dev_minor, s.stx_ino))
            .or_default()
            .push(path.clone());
    }
    all.insert(path, seen);
}

/// The extended attributes, without those by which XFS lists access control lists a second time.
fn attributes(path: &CString) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut list = vec![0; 1 << 16];
    let len = match llistxattr(path, &mut list[..]) {
        Err(Errno::OPNOTSUPP) => 0,
        len => len.unwrap(),
    };
    let names = list[..len].split_inclusive(|&b| b == 0);
    names
        .filter(|name| !name.starts_with(b"trusted.SGI_ACL_"))
        .map(|name| {
            let mut value = vec![0; 1 << 16];
            let attribute = CString::from_vec_with_nul(name.to_vec()).unwrap();
            let len = lgetxattr(path, &attribute, &mut value[..]).unwrap();
            value.truncate(len);
            (attribute.into_bytes(), value)
        })
        .collect()
}

/// The data extents.
fn data(file: impl AsFd, size: u64) -> Vec<(u64, u64)> {
    let (mut all, mut at) = (Vec::new(), 0);
    while let Ok(from) = seek(&file, SeekFrom::Data(at)) {
        at = seek(&file, SeekFrom::Hole(from)).unwrap();
        all.push((from, at));
        if at >= size {
            break;
        }
    }
    all
}

fn content(file: impl AsFd, data: &[(u64, u64)]) -> u64 {
    const BLOCK: usize = 4096;
    let mut hasher = DefaultHasher::new();
    let mut buffer = [0; BLOCK];
    for &(from, to) in data {
        let mut at = from / BLOCK as u64 * BLOCK as u64;
        while at < to {
            let mut have = 0;
            while have < BLOCK {
                match pread(&file, &mut buffer[have..], at + have as u64).unwrap() {
                    0 => break,
                    n => have += n,
                }
            }
            if buffer[..have].iter().any(|&b| b != 0) {
                hasher.write_u64(at);
                hasher.write(&buffer[..have]);
            }
            at += BLOCK as u64;
        }
    }
    hasher.finish()
}

/// Checks that two trees are equal after `less` has removed the allowed differences.
pub(crate) fn alike(a: &Snapshot, b: &Snapshot, what: &str, less: impl Fn(&[u8], &mut Seen)) {
    let of = |all: &Snapshot, name: &Vec<u8>| {
        let mut seen = all.get(name).cloned();
        seen.iter_mut().for_each(|seen| less(name, seen));
        seen
    };
    let names: BTreeSet<_> = a.keys().chain(b.keys()).collect();
    let both = names
        .into_iter()
        .map(|name| (name, of(a, name), of(b, name)))
        .filter(|(_, a, b)| a != b);
    let differ: Vec<String> = both
        .map(|(name, a, b)| format!("{}:\n  {a:?}\n  {b:?}", name.escape_ascii()))
        .collect();
    assert!(
        differ.is_empty(),
        "{what}: {} differ\n{}",
        differ.len(),
        differ[..differ.len().min(10)].join("\n")
    );
}

/// The same, ignoring access times.
pub(crate) fn same(a: &Snapshot, b: &Snapshot, what: &str) {
    alike(a, b, what, |_, seen| seen.atime = (0, 0));
}

/// Ignores what a new file of an increment inherits from its directory when GNU tar creates it: the
/// compression of btrfs, and set-group-ID.
pub(crate) fn ignore_inherited(wanted: &Snapshot, is: &mut Snapshot) {
    for (name, seen) in is {
        let Some(wanted) = wanted.get(name) else {
            continue;
        };
        if seen.kind == 'd' {
            seen.mode = seen.mode & !0o2000 | wanted.mode & 0o2000;
        }
        let is_known = |attribute: &Vec<u8>| wanted.attributes.contains_key(attribute);
        seen.attributes
            .retain(|attribute, _| attribute != b"btrfs.compression" || is_known(attribute));
    }
}

/// Checks that two archives are the same, byte for byte.
#[track_caller]
pub(crate) fn same_bytes(expected: &[u8], found: &[u8], what: &str) {
    // Byte by byte takes seconds without optimisation.
    if expected != found {
        let at = expected.iter().zip(found).position(|(a, b)| a != b);
        let (expected, found) = (expected.len(), found.len());
        panic!("{what}: {found} bytes instead of {expected}, and they differ at {at:?}");
    }
}
