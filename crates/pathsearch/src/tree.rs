//! The file tree as the model sees it: the files that names refer to, and their file systems.

use std::collections::HashMap;

use base::path::{ancestors, below};
use gate::clock::monotonic_raw;
use gate::file::Reader;
use gate::fs::{CWD, FileType, StatxMask, readlinkat};
use gate::long::{lstat_long, reach};
use mounts::may_hang;
use mounts::root::Root;
use mounts::table::read_either;
use mounts::tree::Tree;
use ondisk::elf::{Program, program};

use crate::request::ClientBehavior;

/// The file that a name refers to; symbolic links are not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Missing,
    Directory,
    /// A regular file of this size in bytes.
    File(u64),
    /// A symbolic link with this target.
    Link(Vec<u8>),
    /// A device, a socket or a FIFO; or a link that cannot be read.
    Special,
}

/// Access to a file tree; tests replace the real one.
pub(crate) trait FileTree {
    /// The file that an absolute path refers to.
    fn node(&mut self, path: &[u8]) -> Node;
    /// The ELF interpreter of a program.
    fn interpreter(&mut self, path: &[u8]) -> Option<Vec<u8>>;
    /// Whether the entries of a directory are remote, on the modelled file system.
    fn is_remote(&mut self, dir: &[u8]) -> bool;
    /// Seconds of a lookup of a nonexistent name, without a meter; `None` if it cannot be measured.
    fn time_miss(&mut self, path: &[u8]) -> Option<f64>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountedFs {
    pub(crate) fstype: Vec<u8>,
    /// Whether the mount is a network file system.
    pub(crate) network: bool,
    is_kernel: bool,
    /// Maximum bytes of one read request, if the mount options tell.
    read_size: Option<u64>,
}

impl MountedFs {
    fn new(fstype: &[u8], options: &[u8]) -> MountedFs {
        MountedFs {
            read_size: options.split(|byte| *byte == b',').find_map(read_size),
            fstype: fstype.to_vec(),
            network: may_hang(fstype) && fstype != b"autofs",
            is_kernel: KERNEL.split(' ').any(|kernel| kernel.as_bytes() == fstype),
        }
    }
}

/// The mount option that limits read requests: `rsize` of nfs(5) and mount.cifs(8), `max_read` of
/// fuse(4).
fn read_size(option: &[u8]) -> Option<u64> {
    let (name, value) = std::str::from_utf8(option).ok()?.split_once('=')?;
    let bytes = value.parse().ok()?;
    (["rsize", "max_read"].contains(&name) && bytes > 0).then_some(bytes)
}

/// The mounted file systems, by mount point.
#[derive(Clone, Debug, Default)]
pub(crate) struct MountPoints(HashMap<Vec<u8>, MountedFs>);

impl MountPoints {
    /// Reads the mount table. Empty if it cannot be read.
    pub(crate) fn read() -> MountPoints {
        let anchor = Root::open(b"/").ok().and_then(|root| root.anchor);
        let Ok((table, _)) = read_either(false, anchor) else {
            return MountPoints::default();
        };
        let tree = Tree::new(&table.mounts);
        let anchor = anchor.or_else(|| tree.anchor(b"/"));
        let visible = anchor
            .map(|anchor| tree.visible(b"/", anchor))
            .unwrap_or_default();
        let mounts = table.mounts.iter().zip(visible);
        let mounts = mounts
            .filter(|(_, visible)| *visible)
            .filter_map(|(row, _)| {
                let mounted = MountedFs::new(&row.content.fstype, &row.content.options);
                Some((row.target.clone()?, mounted))
            });
        MountPoints(mounts.collect())
    }

    /// The file system of an absolute path, by the deepest mount point above it.
    pub(crate) fn find(&self, path: &[u8]) -> Option<&MountedFs> {
        let path = path.starts_with(b"/").then_some(path)?;
        ancestors(path).find_map(|at| self.0.get(at))
    }
}

/// The part of the file tree that is assumed to be on the network file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemoteScope {
    /// These directories and everything below them, except kernel file systems.
    Directories(Vec<Vec<u8>>),
    /// All directories on network file systems.
    Network,
    /// The whole file tree, except kernel file systems.
    Everything,
}

/// File systems whose files the kernel generates.
const KERNEL: &str = "proc sysfs devtmpfs devpts cgroup cgroup2 securityfs debugfs tracefs bpf \
                      mqueue pstore configfs fusectl hugetlbfs binfmt_misc";

impl RemoteScope {
    /// Whether the scope contains a directory.
    pub(crate) fn contains(&self, mounts: &MountPoints, dir: &[u8]) -> bool {
        let mount = mounts.find(dir);
        let is_kernel =
            || mount.is_some_and(|mount| mount.is_kernel) || below(b"/proc", dir).is_some();
        match self {
            RemoteScope::Directories(dirs) => {
                dirs.iter().any(|top| below(top, dir).is_some()) && !is_kernel()
            }
            RemoteScope::Network => mount.is_some_and(|mount| mount.network),
            RemoteScope::Everything => !is_kernel(),
        }
    }
}

/// The file tree of this machine, with a cache of the files examined.
#[derive(Debug)]
pub(crate) struct LocalTree<'a> {
    mounts: &'a MountPoints,
    pub(crate) scope: &'a RemoteScope,
    nodes: HashMap<Vec<u8>, Node>,
}

impl<'a> LocalTree<'a> {
    /// A tree whose part `scope` is remote.
    pub(crate) fn new(mounts: &'a MountPoints, scope: &'a RemoteScope) -> LocalTree<'a> {
        LocalTree {
            mounts,
            scope,
            nodes: HashMap::new(),
        }
    }

    /// The client behavior of a directory's file system, by its type and options.
    pub(crate) fn behavior(&self, dir: &[u8]) -> ClientBehavior {
        let Some(mount) = self.mounts.find(dir) else {
            return ClientBehavior::default();
        };
        let behavior = ClientBehavior::of_type(&mount.fstype);
        ClientBehavior {
            read_size: mount.read_size.unwrap_or(behavior.read_size),
            ..behavior
        }
    }
}

fn read_node(path: &[u8]) -> Node {
    let Ok(seen) = lstat_long(path, StatxMask::TYPE | StatxMask::SIZE) else {
        return Node::Missing;
    };
    match seen.file_type {
        FileType::Directory => Node::Directory,
        FileType::Regular => Node::File(seen.size),
        FileType::Symlink => {
            let target = reach(CWD, path).and_then(|reach| readlinkat(reach.dir(), reach.rest()));
            target.map_or(Node::Special, Node::Link)
        }
        _ => Node::Special,
    }
}

impl FileTree for LocalTree<'_> {
    fn node(&mut self, path: &[u8]) -> Node {
        if let Some(known) = self.nodes.get(path) {
            return known.clone();
        }
        let node = read_node(path);
        self.nodes.insert(path.to_vec(), node.clone());
        node
    }

    fn interpreter(&mut self, path: &[u8]) -> Option<Vec<u8>> {
        let mut head = [0; 4096];
        let n = Reader::open(path)
            .and_then(|file| file.read_at(0, &mut head))
            .ok()?;
        match program(head.get(..n)?) {
            Program::Dynamic { interpreter } | Program::Script { interpreter } => {
                Some(interpreter.to_vec())
            }
            Program::Static | Program::Other => None,
        }
    }

    fn is_remote(&mut self, dir: &[u8]) -> bool {
        self.scope.contains(self.mounts, dir)
    }

    fn time_miss(&mut self, path: &[u8]) -> Option<f64> {
        time_miss(path)
    }
}

/// Seconds of a lookup of a nonexistent name; `None` if the name exists.
pub(crate) fn time_miss(path: &[u8]) -> Option<f64> {
    // Take the minimum: other trials contain interrupts and preemption.
    const TRIALS: usize = 3;
    let trial = |_| {
        let start = monotonic_raw();
        let found = lstat_long(path, StatxMask::TYPE);
        let nanos = monotonic_raw().saturating_sub(start);
        found.is_err().then_some(nanos as f64 / 1e9)
    };
    (0..TRIALS).filter_map(trial).min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_on_the_deepest_mount_above_it() {
        let mount = |target: &str, fstype: &str| {
            let mounted = MountedFs::new(fstype.as_bytes(), b"ro,rsize=65536,hard");
            (target.as_bytes().to_vec(), mounted)
        };
        let mounts = [
            mount("/", "ext4"),
            mount("/srv", "nfs"),
            mount("/srv/a/b", "tmpfs"),
        ]
        .into_iter()
        .collect();
        let mounts = MountPoints(mounts);
        let fstype = |name: &str| {
            mounts
                .find(name.as_bytes())
                .map(|mount| mount.fstype.clone())
        };
        for (name, expected) in [
            ("/", "ext4"),
            ("/usr/bin", "ext4"),
            ("/srvx", "ext4"),
            ("/srv", "nfs"),
            ("/srv/a", "nfs"),
            ("/srv/a/b/c", "tmpfs"),
        ] {
            assert_eq!(fstype(name).as_deref(), Some(expected.as_bytes()), "{name}");
        }
        let root = mounts.find(b"/").unwrap();
        assert_eq!(root.read_size, Some(65536));
        for option in ["rsize", "rsize=", "rsize=0", "wsize=1", "max_read=x"] {
            assert_eq!(read_size(option.as_bytes()), None, "{option}");
        }
        assert_eq!(
            (
                fstype("srv/a"),
                fstype(""),
                MountPoints::default().find(b"/a")
            ),
            (None, None, None)
        );
        assert!(
            RemoteScope::Network.contains(&mounts, b"/srv/x")
                && !RemoteScope::Network.contains(&mounts, b"/srv/a/b")
        );
    }
}
