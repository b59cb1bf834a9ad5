//! Properties of mounts that the kernel's mount table does not have: whether the mount point is a
//! directory or a file, and by the type of file system, whether calls may hang.

use std::collections::HashMap;

use base::path::below;
use gate::Errno;
use gate::fs::{AtFlags, CWD, FileType, StatxMask};
use gate::long::{newfstatat_long, statx_long};
use ondisk::{Dev, Mount};

use crate::point::{Point, PointKind};
use crate::tree::Tree;

/// Whether a file system may have a server that is gone, so that calls may block for ever.
pub fn may_hang(fstype: &[u8]) -> bool {
    const REMOTE: &str = "nfs nfs4 cifs smb3 smbfs ceph afs 9p lustre beegfs gpfs orangefs pvfs2 \
        ocfs2 gfs2 coda ncpfs autofs virtiofs vboxsf vmhgfs panfs wekafs";
    is_one_of(fstype, REMOTE) || is_fuse(fstype)
}

/// Whether a FUSE file system has its files on a server that its source names. For instance, in the
/// source `disk1:disk2` of mergerfs neither name is a machine.
pub(crate) fn is_remote_fuse(fstype: &[u8]) -> bool {
    const REMOTE: &str = "afpfs beegfs blobfuse blobfuse2 ceph ceph-fuse cephfs curlftpfs cvmfs2 davfs2 fuse-nfs \
        gcsfuse glusterfs goofys hdfs juicefs lizardfs mfs moosefs mount.davfs mountpoint-s3 nfs orangefs \
        quobyte rclone s3fs saunafs seaweedfs smbnetfs ssh sshfs webdavfs weed xtreemfs";
    fstype
        .strip_prefix(b"fuse.")
        .is_some_and(|subtype| is_one_of(subtype, REMOTE))
}

/// Whether the kernel generates the files of a file system, so that none are stored.
pub fn is_kernel_file_system(fstype: &[u8]) -> bool {
    const KERNEL: &str = "binfmt_misc bpf cgroup cgroup2 configfs cpuset debugfs devpts devtmpfs \
        efivarfs fusectl hugetlbfs mqueue nsfs proc pstore securityfs sysfs tracefs";
    is_one_of(fstype, KERNEL)
}

/// Whether a file system is a read-only image, which has no free space by design.
pub fn is_read_only_image(fstype: &[u8]) -> bool {
    is_one_of(fstype, "cramfs erofs iso9660 romfs squashfs")
}

/// Whether a mount stores no files of users: a file system of the kernel or the system, or one in
/// memory below /dev, /run, /sys or /proc.
pub fn is_pseudo(point: &Point) -> bool {
    const OTHERS: &str = "autofs binder dlm fuse.gvfsd-fuse fuse.lxcfs fuse.portal nfsd resctrl \
        rpc_pipefs selinuxfs smackfs";
    let Some(fstype) = point.fstype() else {
        return false;
    };
    is_kernel_file_system(fstype)
        || is_one_of(fstype, OTHERS)
        || is_one_of(fstype, "tmpfs ramfs") && is_system_path(&point.target)
}

/// Whether a path is in a directory that the system creates while it boots.
pub fn is_system_path(path: &[u8]) -> bool {
    let is_below = |dir: &&str| below(dir.as_bytes(), path).is_some();
    ["/dev", "/run", "/sys", "/proc"].iter().any(is_below)
}

/// Whether a type of file system is in a list that is separated by spaces.
pub(crate) fn is_one_of(fstype: &[u8], types: &str) -> bool {
    types
        .split_ascii_whitespace()
        .any(|one| one.as_bytes() == fstype)
}

pub(crate) fn is_fuse(fstype: &[u8]) -> bool {
    fstype == b"fuse" || fstype.starts_with(b"fuse.")
}

/// The part of a file system that a mount shows: device, and path within it.
type ShownPart<'a> = (Dev, &'a [u8]);

/// Finds the kinds of mount points. Two mounts of the same part of a file system have the same
/// kind.
#[derive(Default)]
pub(crate) struct Kinds<'a> {
    known: HashMap<ShownPart<'a>, Option<PointKind>>,
    /// The last result: mounts of the same part often follow one another.
    last: Option<(ShownPart<'a>, Option<PointKind>)>,
}

impl<'a> Kinds<'a> {
    /// The kind of a mount point, directory or file: from the table if possible; for a bind mount
    /// of a part of its file system by one statx, unless a server might not answer.
    pub(crate) fn find(
        &mut self,
        row: &'a Mount,
        tree: &Tree<'_>,
        visible: bool,
    ) -> Option<PointKind> {
        if row.content.fstype == b"nsfs" {
            return Some(PointKind::File);
        }
        let whole = row.content.fsroot == b"/" || row.content.fsroot.is_empty();
        // The root of a FUSE file system may be a regular file.
        if tree.has_mount_inside(row) || whole && !is_fuse(&row.content.fstype) {
            return Some(PointKind::Dir);
        }
        let part = (row.dev, row.content.fsroot.as_slice());
        if let Some((last, kind @ Some(_))) = self.last
            && last == part
        {
            return kind;
        }
        let known = self.known.entry(part).or_default();
        if known.is_none() && visible {
            *known = look(row, tree);
        }
        self.last = Some((part, *known));
        *known
    }
}

fn look(row: &Mount, tree: &Tree<'_>) -> Option<PointKind> {
    // Statx of the root of a FUSE mount asks no server if no field is requested; statx of a path
    // through the mount might.
    let mut above = Some(row);
    while let Some(mount) = above {
        let is_own_root = mount.id == row.id && is_fuse(&mount.content.fstype);
        if may_hang(&mount.content.fstype) && !is_own_root {
            return None;
        }
        above = tree
            .row(mount.parent)
            .filter(|parent| parent.id != mount.id);
    }
    let at = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    let target = row.target.as_deref()?;
    let file_type = match statx_long(target, at, StatxMask::empty()) {
        Ok(seen) => seen.file_type,
        // Without statx(2), the only alternative is newfstatat(2), which may ask a server.
        Err(Errno::ENOSYS | Errno::EPERM) if !may_hang(&row.content.fstype) => {
            newfstatat_long(CWD, target, at).ok()?.file_type
        }
        Err(_) => return None,
    };
    match file_type {
        FileType::Unknown => None,
        FileType::Directory => Some(PointKind::Dir),
        _ => Some(PointKind::File),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ondisk::{Content, Dev};

    use super::{is_pseudo, may_hang};
    use crate::point::Point;

    #[test]
    fn pseudo_file_systems_store_no_files_of_users() {
        let is_pseudo = |fstype: &str, target: &str| {
            let content = Content {
                fstype: fstype.into(),
                ..Content::default()
            };
            is_pseudo(&Point {
                content: Some(Arc::new(content)),
                ..Point::bare(target.into(), Dev::new(0, 1), None)
            })
        };
        for (fstype, target) in [("proc", "/proc"), ("tmpfs", "/dev"), ("tmpfs", "/run/lock")] {
            assert!(is_pseudo(fstype, target), "{target}");
        }
        for (fstype, target) in [
            ("tmpfs", "/tmp"),
            ("tmpfs", "/running"),
            ("ext4", "/run/media"),
        ] {
            assert!(!is_pseudo(fstype, target), "{target}");
        }
    }

    #[test]
    fn network_file_systems_may_hang_and_local_ones_may_not() {
        assert!(may_hang(b"fuse.sshfs") && may_hang(b"nfs4"));
        assert!(!may_hang(b"fuseblk") && !may_hang(b"ext4"));
    }
}
