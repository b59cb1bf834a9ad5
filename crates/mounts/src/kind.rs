//! Whether a mount is on a directory or on a file, which the kernel's table does not say.

use std::collections::HashMap;

use gate::fs::{At, FileType, Want};
use gate::long::statx_long;
use ondisk::{Dev, Mount};

use crate::point::Kind;
use crate::tree::Tree;

/// File systems whose server may be gone, so that a look at a file may wait for ever.
pub fn may_hang(fstype: &[u8]) -> bool {
    const REMOTE: &[&[u8]] = &[
        b"nfs",
        b"nfs4",
        b"cifs",
        b"smb3",
        b"smbfs",
        b"ceph",
        b"afs",
        b"9p",
        b"lustre",
        b"beegfs",
        b"gpfs",
        b"orangefs",
        b"pvfs2",
        b"ocfs2",
        b"gfs2",
        b"coda",
        b"ncpfs",
        b"autofs",
        b"virtiofs",
        b"vboxsf",
        b"vmhgfs",
        b"panfs",
        b"wekafs",
    ];
    REMOTE.contains(&fstype) || is_fuse(fstype)
}

fn is_fuse(fstype: &[u8]) -> bool {
    fstype == b"fuse" || fstype.starts_with(b"fuse.")
}

/// A part of a file system that a mount shows.
type Part<'a> = (Dev, &'a [u8]);

/// Finds the kinds of mounts, and remembers them: two mounts that show the same part of a file
/// system are of one kind.
#[derive(Default)]
pub(crate) struct Kinds<'a> {
    known: HashMap<Part<'a>, Option<Kind>>,
    /// The last one: mounts that show the same come one after another.
    last: Option<(Part<'a>, Option<Kind>)>,
}

impl<'a> Kinds<'a> {
    /// The kind of one mount: from the table as far as that goes, else (a bind mount that shows a
    /// part of its file system only) by one look at it, unless a server might not answer.
    pub(crate) fn find(&mut self, row: &'a Mount, tree: &Tree<'_>, visible: bool) -> Option<Kind> {
        if row.content.fstype == b"nsfs" {
            return Some(Kind::File);
        }
        let whole = row.content.fsroot == b"/" || row.content.fsroot.is_empty();
        // A FUSE server may give a plain file for the root of its file system.
        if tree.has_mount_inside(row) || whole && !is_fuse(&row.content.fstype) {
            return Some(Kind::Dir);
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

fn look(row: &Mount, tree: &Tree<'_>) -> Option<Kind> {
    // To look at the root of a FUSE mount asks no server, as long as nothing is wanted; to go
    // through one might.
    let mut above = Some(row);
    while let Some(mount) = above {
        if may_hang(&mount.content.fstype)
            && !(mount.id == row.id && is_fuse(&mount.content.fstype))
        {
            return None;
        }
        above = tree
            .row(mount.parent)
            .filter(|parent| parent.id != mount.id);
    }
    let at = At::SYMLINK_NOFOLLOW | At::NO_AUTOMOUNT | At::STATX_DONT_SYNC;
    match statx_long(row.target.as_deref()?, at, Want::empty())
        .ok()?
        .file_type
    {
        FileType::Unknown => None,
        FileType::Directory => Some(Kind::Dir),
        _ => Some(Kind::File),
    }
}

#[cfg(test)]
mod tests {
    use super::may_hang;

    #[test]
    fn servers_may_hang_and_disks_do_not() {
        assert!(may_hang(b"fuse.sshfs") && may_hang(b"nfs4"));
        assert!(!may_hang(b"fuseblk") && !may_hang(b"ext4"));
    }
}
