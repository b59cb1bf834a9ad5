//! The subvolumes of a btrfs file system, and their paths.

use std::collections::HashMap;

use base::btrfs::each_item;
use gate::{Errno, Fd};
use ondisk::btrfs::{
    FIRST_INODE, FS_TREE, LAST_INODE, ROOT_TREE, SubvolumeRoot, kind, links, root_ref,
};
use walk::entry::joined;

/// A subvolume and its path.
#[derive(Clone, Debug)]
pub(super) struct KnownSubvolume {
    pub(super) root: SubvolumeRoot,
    /// The path from the top of the file system, beginning with a slash; `None` during deletion.
    pub(super) path: Option<Vec<u8>>,
}

/// The parent tree of a subvolume, and the directory and name in it.
struct Link {
    tree: u64,
    dir: u64,
    name: Vec<u8>,
}

/// All subvolumes, by tree id.
pub(super) fn subvolumes(fd: &Fd) -> Result<HashMap<u64, KnownSubvolume>, Errno> {
    let mut roots = HashMap::new();
    let mut links = HashMap::new();
    each_item(
        fd,
        ROOT_TREE,
        (FS_TREE, 0, 0)..=(LAST_INODE, u8::MAX, u64::MAX),
        |item| {
            let (tree, kind, offset) = item.key;
            let is_subvolume =
                |tree: u64| tree == FS_TREE || (FIRST_INODE..=LAST_INODE).contains(&tree);
            if kind == kind::ROOT_ITEM && is_subvolume(tree) {
                roots.extend(SubvolumeRoot::parse(item.data).map(|root| (tree, root)));
            }
            if let Some(link) = root_ref(item) {
                let (dir, name) = (link.dir, link.name.to_vec());
                links.insert(offset, Link { tree, dir, name });
            }
        },
    )?;
    let paths = roots.into_iter().map(|(tree, root)| {
        let path = path_of(fd, tree, &links);
        (tree, KnownSubvolume { root, path })
    });
    Ok(paths.collect())
}

/// The path of a subvolume, composed of the names of its parent subvolumes and directories.
fn path_of(fd: &Fd, tree: u64, links: &HashMap<u64, Link>) -> Option<Vec<u8>> {
    /// PATH_MAX limits the depth of paths, so a deeper nesting means a damaged file system.
    const DEEPEST: usize = 4096;
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut at = tree;
    while at != FS_TREE {
        let link = links.get(&at)?;
        names.push(link.name.clone());
        let mut dir = link.dir;
        while dir != FIRST_INODE {
            let (parent, name) = parent_of(fd, link.tree, dir)?;
            names.push(name);
            dir = parent;
            if names.len() > DEEPEST {
                return None;
            }
        }
        at = link.tree;
        if names.len() > DEEPEST {
            return None;
        }
    }
    let names = names.iter().rev();
    Some(names.fold(b"/".to_vec(), |path, name| joined(&path, name)))
}

/// The parent directory of a directory, and its name there.
fn parent_of(fd: &Fd, tree: u64, dir: u64) -> Option<(u64, Vec<u8>)> {
    let mut parent = None;
    let keys = (dir, kind::INODE_REF, 0)..=(dir, kind::INODE_REF, u64::MAX);
    each_item(fd, tree, keys, |item| {
        parent = links(item)
            .next()
            .map(|link| (link.dir, link.name.to_vec()));
    })
    .ok()?;
    parent
}
