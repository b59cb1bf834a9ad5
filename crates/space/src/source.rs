//! The mount through which metadata is read, a copy of it without the mounts on it, and the paths that these mounts cover.

use std::os::fd::{AsFd, AsRawFd};

use base::path::{below, join};
use gate::Fd;
use gate::fs::Open;
use gate::long::{open_long, reach};
use gate::mount::open_tree_clone;
use mounts::may_hang;
use ondisk::Mount;
use walk::entry::joined;
use walk::{Top, open_top};

use crate::error::WarningKind;

/// A mount of the examined file system, with the mount table.
pub(crate) struct TableSource<'a> {
    pub(crate) top: &'a Top,
    pub(crate) mount: &'a Mount,
    pub(crate) mount_point: &'a [u8],
    pub(crate) table: &'a [Mount],
}

/// Converts a number of bytes to the type of `Item::bytes`.
pub(crate) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Clones a mount without the mounts on it (open_tree(2)): the descriptor, a path to the clone, and
/// its mount id.
pub(crate) fn copy_of(top: &Top) -> Option<(Fd, Vec<u8>, u64)> {
    let copy = reach(top.fd.as_fd(), b".")
        .and_then(|reach| open_tree_clone(reach.dir(), reach.rest()))
        .ok()?;
    let path = format!("/proc/self/fd/{}", copy.as_raw_fd()).into_bytes();
    let opened = open_top(&path, 0).ok()?;
    let is_same = (opened.meta.dev, opened.meta.ino) == (top.meta.dev, top.meta.ino);
    is_same.then_some((copy, path, opened.meta.mount))
}

/// The paths, relative to `mount_point`, that other mounts cover. A bind mount of the very directory that it covers
/// hides nothing.
pub(crate) fn covered(mount: &Mount, mount_point: &[u8], table: &[Mount]) -> Vec<Vec<u8>> {
    let on_it = table
        .iter()
        .filter(|row| row.parent == mount.id && row.id != mount.id);
    let mut covered: Vec<Vec<u8>> = on_it
        .filter_map(|row| {
            let rel = below(mount_point, row.target.as_deref()?)?;
            let shown = joined(&mount.content.fsroot, rel);
            let is_itself = row.dev == mount.dev && row.content.fsroot == shown;
            (!is_itself && !rel.is_empty()).then(|| rel.to_vec())
        })
        .collect();
    covered.sort();
    covered.dedup();
    covered
}

/// A directory on which a mount can be bound, to look beneath the mounts on it: its own mount point. Paths from `/` do not
/// enter a mount on `/` itself, so the root is bound on a different directory.
pub(crate) fn bind_target(mount_point: &[u8], table: &[Mount]) -> Vec<u8> {
    const OTHERS: [&[u8]; 4] = [b"/mnt", b"/tmp", b"/run", b"/dev"];
    if mount_point != b"/" {
        return mount_point.to_vec();
    }
    let can_block = |dir: &[u8]| {
        let mut on_it = table
            .iter()
            .filter(|row| row.target.as_deref() == Some(dir));
        on_it.any(|row| may_hang(&row.content.fstype))
    };
    let mut others = OTHERS.into_iter().filter(|dir| !can_block(dir));
    others
        .find(|dir| open_long(dir, Open::PATH | Open::DIRECTORY).is_ok())
        .unwrap_or(OTHERS[0])
        .to_vec()
}

/// The reason of a warning that the files beneath `covered` cannot be read.
pub(crate) fn beneath(mount_point: &[u8], covered: &[Vec<u8>]) -> WarningKind {
    let paths = covered.iter().map(|rel| join(mount_point, rel));
    WarningKind::Beneath(paths.collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ondisk::{Content, Dev};

    use super::*;

    fn mount(id: u64, parent: u64, minor: u32, target: &str, fsroot: &str) -> Mount {
        Mount {
            id,
            parent,
            dev: Dev::new(8, minor),
            target: Some(target.into()),
            content: Arc::new(Content {
                fsroot: fsroot.into(),
                ..Content::default()
            }),
            slave: false,
        }
    }

    #[test]
    fn mounts_on_a_mount_cover_its_files() {
        let own = mount(2, 1, 1, "/srv", "/");
        let table = [
            own.clone(),
            mount(3, 2, 2, "/srv/b", "/"),
            mount(4, 2, 2, "/srv/a", "/part"),
            // A mount on top of the previous one.
            mount(5, 4, 2, "/srv/a", "/"),
            // A bind mount of the directory that it covers, and one of a different directory.
            mount(6, 2, 1, "/srv/c", "/c"),
            mount(7, 2, 1, "/srv/d", "/c"),
            mount(8, 1, 2, "/srv2", "/"),
        ];
        assert_eq!(covered(&own, b"/srv", &table), [b"a", b"b", b"d"]);
    }

    #[test]
    fn the_root_is_bound_on_a_directory_that_answers() {
        assert_eq!(bind_target(b"/srv", &[]), b"/srv");
        let nfs = |target| {
            let row = mount(2, 1, 1, target, "/");
            let content = Content {
                fstype: b"nfs4".to_vec(),
                ..Content::default()
            };
            Mount {
                content: Arc::new(content),
                ..row
            }
        };
        let found = bind_target(b"/", &[nfs("/mnt"), nfs("/tmp")]);
        assert!([&b"/run"[..], b"/dev"].contains(&&found[..]), "{found:?}");
    }
}
