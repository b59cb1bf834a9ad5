//! What lies hidden under a mount point.
//!
//! The mount that it is on is copied, alone, into a tree that no path reaches (open_tree with OPEN_TREE_CLONE): there,
//! nothing is mounted over the directory. Nothing that anybody else sees is changed, and the copy goes with its
//! descriptor.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;

use gate::fs::{At, CWD, FileType, Open, Statx, Want, statx};
use gate::long::{open_long_no_symlinks, reach};
use gate::mount::open_tree_clone;
use gate::{Errno, Fd, Gate};

use crate::method::{Hunt, Queue, read_whole};
use crate::path::{below, join};
use crate::root::Root;
use crate::{Kind, Point, Warning};

/// What lies beneath.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Beneath {
    /// Files that are no directories; one with several names counts once.
    pub files: u64,
    /// Bytes in plain files, by their sizes.
    pub bytes: u64,
}

/// Finds out what lies beneath each mount point. A mount point whose parent no path reaches stays without an answer.
pub fn look(root: &Root, points: &mut [Point], hunt: &mut Hunt<'_>) {
    let visible: HashMap<u64, Vec<u8>> =
        points.iter().filter(|p| !p.hidden).filter_map(|p| Some((p.id?, p.target.clone()))).collect();
    let mut copies: HashMap<u64, Result<Fd, Errno>> = HashMap::new();
    for point in points {
        let (Some(id), Some(parent)) = (point.id, point.parent) else { continue };
        if Some(id) == root.anchor && point.target == b"/" {
            continue; // nothing lies beneath the root
        }
        // The part of the parent that we can name: what begins at the root of the question, or at its own mount point.
        let from: &[u8] = match visible.get(&parent) {
            _ if Some(parent) == root.anchor => &root.path,
            Some(target) => target,
            None if point.target == root.path => crate::path::parent(&root.path),
            None => {
                let message = "what lies beneath is not known: the mount that it is on is itself covered";
                hunt.warnings.push(Warning::about(&point.target, message));
                continue;
            }
        };
        let copy = copies.entry(parent).or_insert_with(|| copy_of(from));
        let looked = match copy {
            Ok(copy) => below(from, &point.target)
                .ok_or((Gate::OpenTree, Errno::ENOENT))
                .and_then(|rest| count(copy, rest, point, hunt)),
            Err(errno) => Err((Gate::OpenTree, *errno)),
        };
        match looked {
            Ok(beneath) => point.beneath = Some(beneath),
            Err((gate, errno)) => {
                let next = match errno {
                    Errno::EPERM => "; it takes CAP_SYS_ADMIN: run as root",
                    Errno::EINVAL => "; mounts here are locked to what they are on: run it outside this container",
                    _ => "",
                };
                let message = format!("cannot look beneath the mount point{next}");
                hunt.warnings.push(Warning::failed(&point.target, gate, errno, message));
            }
        }
    }
}

fn copy_of(path: &[u8]) -> Result<Fd, Errno> {
    let reach = reach(CWD, path)?;
    open_tree_clone(reach.dir(), reach.rest())
}

/// Counts what the name `rest` of a copied mount holds.
fn count(copy: &Fd, rest: &[u8], point: &Point, hunt: &mut Hunt<'_>) -> Result<Beneath, (Gate, Errno)> {
    let mut sum = Sum::default();
    let rest = if rest.is_empty() { b"." } else { rest };
    if point.kind == Some(Kind::File) {
        let reach = reach(copy.as_fd(), rest).map_err(|e| (Gate::Openat, e))?;
        let seen = statx(reach.dir(), reach.rest(), At::SYMLINK_NOFOLLOW, Want::BASIC_STATS);
        sum.add(&seen.map_err(|e| (Gate::Statx, e))?);
        return Ok(sum.beneath);
    }
    let fd = open_long_no_symlinks(copy.as_fd(), rest, Open::PATH | Open::DIRECTORY).map_err(|e| (Gate::Openat2, e))?;
    let top = Root { path: point.target.clone(), fd, dev: point.dev, anchor: None, is_mount_root: None };
    let mut queue = Queue::new(&top, ());
    let mut buffer = vec![0u8; 64 << 10];
    while let Some(at) = queue.pop() {
        let path = queue.path(at);
        hunt.directory(&path);
        let dir = match queue.open(at) {
            Ok(dir) => dir,
            Err(errno) => {
                hunt.failed(&path, Gate::Openat2, errno);
                continue;
            }
        };
        let whole = read_whole(&dir, &mut buffer, |bytes| {
            for entry in ondisk::dirent::entries(bytes) {
                match statx(&dir, entry.name, At::SYMLINK_NOFOLLOW | At::NO_AUTOMOUNT, Want::BASIC_STATS) {
                    Ok(seen) if seen.file_type == FileType::Directory => queue.push(at, entry.name.to_bytes(), ()),
                    Ok(seen) => sum.add(&seen),
                    Err(errno) => hunt.failed(&join(&path, entry.name.to_bytes()), Gate::Statx, errno),
                }
            }
        });
        if let Err(errno) = whole {
            hunt.failed(&path, Gate::Getdents64, errno);
        }
    }
    Ok(sum.beneath)
}

#[derive(Default)]
struct Sum {
    beneath: Beneath,
    linked: HashSet<((u32, u32), u64)>,
}

impl Sum {
    fn add(&mut self, seen: &Statx) {
        if seen.nlink > 1 && !self.linked.insert((seen.dev, seen.ino)) {
            return;
        }
        self.beneath.files += 1;
        if seen.file_type == FileType::Regular {
            self.beneath.bytes += seen.size;
        }
    }
}
