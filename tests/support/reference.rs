//! What is to be found, worked out without the program under test: from our own reading of mountinfo, and from our own walk.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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

/// Every mount at or under `root` in this thread's namespace.
pub(crate) fn table(root: &Path) -> Vec<Mount> {
    // /proc/self would show the namespace of the process's first thread.
    let text = fs::read("/proc/thread-self/mountinfo").unwrap();
    let mut mounts: Vec<Mount> = text.split(|&b| b == b'\n').filter(|line| !line.is_empty()).map(parse).collect();
    let parents: BTreeSet<u64> = mounts.iter().map(|mount| mount.parent).collect();
    mounts.retain(|mount| mount.target.starts_with(root));
    for mount in &mut mounts {
        mount.internal = parents.contains(&mount.id);
        mount.hidden = mount_id(&mount.target) != Some(mount.id);
    }
    mounts
}

/// The targets of the mounts at or under `root` that a path reaches.
pub(crate) fn visible(root: &Path) -> BTreeSet<PathBuf> {
    table(root).into_iter().filter(|mount| !mount.hidden).map(|mount| mount.target).collect()
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
            let Ok(status) = fs::symlink_metadata(&path) else { continue };
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
    for option in text(fields[5]).split(',').chain(text(fields[dash + 3]).split(',')) {
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
        match code.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()) {
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

/// `path` as it is called inside `jail`.
pub(crate) fn inside(jail: &Path, path: &Path) -> PathBuf {
    let bare = path.strip_prefix(jail).unwrap();
    if bare.as_os_str().as_bytes().is_empty() { PathBuf::from("/") } else { Path::new("/").join(bare) }
}
