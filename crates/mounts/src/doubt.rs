//! Which mounts may wait for a server.
//!
//! The type of a file system tells whether it has a server itself. Other file systems wait for the servers of what they are made of: an
//! overlay for those of its layers, and a file system on a loop device for that of the image file, also if further devices (of the
//! device mapper, of md, a partition) are in between. Where no mount has a server, none of this is looked up.

use std::collections::{HashSet, VecDeque};

use base::directory::each_entry;
use base::path::{absolute, below, join, names, parent};
use gate::file::read_kernel_in;
use gate::fs::{CWD, FileType, Open, StatxMask, readlinkat};
use gate::long::{c_string, open_long, stat_long};
use ondisk::{Content, Dev, Mount};

use crate::kind::{is_one_of, may_hang};
use crate::names::kernel_name;

/// Maximum number of devices on top of one another.
const LEVELS: usize = 8;
/// Maximum number of symlinks in a path, as in path_resolution(7).
const SYMLINKS: usize = 40;

/// Whether a mount has a server itself, which may not answer; false for autofs, because touching it would trigger the automount.
pub(crate) fn has_server(mount: &Mount) -> bool {
    let fstype = &mount.content.fstype[..];
    may_hang(fstype) && fstype != b"autofs"
}

/// The ids of the mounts of a whole table that may wait for a server. A mount at `/` is among them only if it has a server itself:
/// this process could not run if its root directory did not answer.
pub fn doubtful(table: &[Mount]) -> HashSet<u64> {
    let mut found: HashSet<u64> = table
        .iter()
        .filter(|it| has_server(it))
        .map(|it| it.id)
        .collect();
    if found.is_empty() {
        return found;
    }
    let is_root = |mount: &Mount| mount.target.as_deref() == Some(&b"/"[..]);
    let stacked = table
        .iter()
        .filter(|it| is_stacked(&it.content) && !is_root(it));
    let mut stacked: Vec<(u64, Foundation)> = stacked
        .map(|it| (it.id, Foundation::find(it.dev, &it.content)))
        .collect();
    // An image file may be on a file system that is on another image file.
    loop {
        let known = found.len();
        stacked.retain(|(id, foundation)| {
            let waits = foundation.waits(table, &found);
            if waits {
                found.insert(*id);
            }
            !waits
        });
        if found.len() == known {
            return found;
        }
    }
}

/// Whether a file system may be made of parts of other file systems.
pub(crate) fn is_stacked(content: &Content) -> bool {
    const DEVICES: [&str; 7] = ["loop", "dm-", "mapper/", "md", "nbd", "rbd", "drbd"];
    let device = content
        .source
        .as_deref()
        .and_then(|source| source.strip_prefix(b"/dev/"));
    let is_device = |device: &[u8]| DEVICES.iter().any(|one| device.starts_with(one.as_bytes()));
    is_overlay(content) || device.is_some_and(is_device)
}

fn is_overlay(content: &Content) -> bool {
    is_one_of(&content.fstype, "overlay aufs ecryptfs unionfs")
}

/// What a stacked file system is made of.
#[derive(Default)]
pub(crate) struct Foundation {
    /// Whether a part has a server, or may have one.
    has_server: bool,
    /// The image files of loop devices, as paths.
    pub(crate) files: Vec<Vec<u8>>,
}

impl Foundation {
    /// What the file system with this device number and content is made of. Reads only /sys and /dev.
    pub(crate) fn find(dev: Dev, content: &Content) -> Foundation {
        let mut found = Foundation {
            // The paths of layers in the options may be relative, and name directories that other mounts cover.
            has_server: is_overlay(content),
            files: Vec::new(),
        };
        if !found.has_server && is_stacked(content) {
            found.add(device(dev, content), LEVELS);
        }
        found
    }

    fn add(&mut self, dev: Option<Dev>, levels: usize) {
        let Some((dev, name)) = dev.and_then(|dev| Some((dev, kernel_name(dev)?))) else {
            return;
        };
        self.has_server |= ["nbd", "rbd", "drbd"]
            .iter()
            .any(|kind| name.starts_with(kind.as_bytes()));
        let own = format!("/sys/dev/block/{dev}");
        // The directory of a partition is in that of its device.
        for dir in [own.clone(), format!("{own}/..")] {
            if let Ok(mut file) = read_kernel_in(format!("{dir}/loop").as_bytes(), b"backing_file")
            {
                file.pop_if(|last| *last == b'\n');
                self.files.push(file);
            }
        }
        let Ok(slaves) = open_long(format!("{own}/slaves").as_bytes(), Open::SCAN) else {
            return;
        };
        let mut below = Vec::new();
        _ = each_entry(&slaves, |entry| {
            if entry.file_type != FileType::Directory {
                below.push([b"/sys/class/block/", entry.name.to_bytes()].concat());
            }
        });
        for dir in below {
            if let Some(levels) = levels.checked_sub(1) {
                self.add(number(&dir), levels);
            }
        }
    }

    fn waits(&self, table: &[Mount], doubtful: &HashSet<u64>) -> bool {
        let is_doubtful = |file: &Vec<u8>| {
            covering(file, table).is_some_and(|mount| doubtful.contains(&mount.id))
        };
        self.has_server || self.files.iter().any(is_doubtful)
    }
}

/// The block device of a file system. Some, like btrfs, have a device number of their own: their source is the device.
fn device(dev: Dev, content: &Content) -> Option<Dev> {
    if dev.major != 0 {
        return Some(dev);
    }
    let seen = stat_long(content.source.as_deref()?, StatxMask::TYPE).ok()?;
    (seen.file_type == FileType::Block).then_some(seen.rdev)
}

/// The device number in the directory of a device in sysfs.
fn number(dir: &[u8]) -> Option<Dev> {
    let text = read_kernel_in(dir, b"dev").ok()?;
    let (major, minor) = str::from_utf8(&text).ok()?.trim_ascii().split_once(':')?;
    Some(Dev::new(major.parse().ok()?, minor.parse().ok()?))
}

/// The mount that contains an absolute path without symlinks: of several at the same path, the last one covers the others.
pub fn covering<'m>(path: &[u8], table: &'m [Mount]) -> Option<&'m Mount> {
    let length = |mount: &&Mount| {
        let target = mount.target.as_deref()?;
        below(target, path).map(|_| target.len())
    };
    let above = table.iter().filter(|mount| length(mount).is_some());
    above.max_by_key(length)
}

/// The first doubtful mount that the lookup of a path enters, including the automounts. Reads the symlinks in front of that mount, and
/// touches nothing behind it.
pub(crate) fn first_doubtful<'m>(
    path: &[u8],
    table: &'m [Mount],
    doubtful: &HashSet<u64>,
) -> Option<&'m Mount> {
    let path = absolute(path).ok()?;
    let mut left: VecDeque<Vec<u8>> = names(&path).map(<[u8]>::to_vec).collect();
    let (mut at, mut symlinks) = (b"/".to_vec(), 0);
    while let Some(name) = left.pop_front() {
        if name == b"." {
            continue;
        }
        if name == b".." {
            at = parent(&at).to_vec();
            continue;
        }
        let next = join(&at, &name);
        let mut here = table.iter().rev();
        let here = here.find(|mount| mount.target.as_ref() == Some(&next));
        let waits =
            |mount: &&Mount| doubtful.contains(&mount.id) || may_hang(&mount.content.fstype);
        if let Some(mount) = here.filter(waits) {
            return Some(mount);
        }
        match c_string(&next).and_then(|next| readlinkat(CWD, &next)) {
            Ok(target) if symlinks < SYMLINKS => {
                symlinks += 1;
                if target.starts_with(b"/") {
                    at = b"/".to_vec();
                }
                names(&target)
                    .rev()
                    .for_each(|name| left.push_front(name.to_vec()));
            }
            _ => at = next,
        }
    }
    None
}
