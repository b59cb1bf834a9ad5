//! The file tree, as far as a model of it must know it: what a name leads to, and which file system
//! it is on.

use std::collections::HashMap;

use gate::file::Reader;
use gate::fs::{At, CWD, FileType, Want, readlinkat};
use gate::long::{reach, statx_long};
use mounts::may_hang;
use mounts::path::{below, parent};
use mounts::root::Root;
use mounts::table::read_either;
use mounts::tree::Tree;
use ondisk::elf::{Program, program};

/// What a name is, without following it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// Nothing has this name.
    Missing,
    /// A directory.
    Directory,
    /// A plain file of this size in bytes.
    File(u64),
    /// A symbolic link that leads there.
    Link(Vec<u8>),
    /// A device, a socket, a fifo; or what cannot be looked at.
    Special,
}

/// Looks at a tree.
pub trait Look {
    /// What has this absolute name; the link itself, if it is one.
    fn node(&mut self, path: &[u8]) -> Node;
    /// The interpreter that a file needs to be run.
    fn interpreter(&mut self, path: &[u8]) -> Option<Vec<u8>>;
    /// Whether what lies in this directory is on the file system that the model is about.
    fn far(&mut self, dir: &[u8]) -> bool;
}

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// Its type.
    pub fstype: Vec<u8>,
    /// Whether a server is asked for what is on it.
    pub network: bool,
}

/// The file systems that names lie on.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// By their mount points.
    mounts: HashMap<Vec<u8>, Mounted>,
}

impl Places {
    /// From the mount table; empty where there is none.
    pub fn read() -> Places {
        let anchor = Root::open(b"/").ok().and_then(|root| root.anchor);
        let Ok((table, _)) = read_either(false, anchor) else {
            return Places::default();
        };
        let tree = Tree::new(&table.mounts);
        let anchor = anchor.or_else(|| tree.anchor(b"/"));
        let visible = anchor
            .map(|anchor| tree.visible(b"/", anchor))
            .unwrap_or_default();
        let mounts = table
            .mounts
            .iter()
            .zip(visible)
            .filter(|(_, visible)| *visible)
            .filter_map(|(row, _)| {
                let fstype = row.content.fstype.clone();
                Some((
                    row.target.clone()?,
                    Mounted {
                        network: may_hang(&fstype) && fstype != b"autofs",
                        fstype,
                    },
                ))
            });
        Places {
            mounts: mounts.collect(),
        }
    }

    /// The file system that an absolute name is on, by the name alone.
    pub fn of_name(&self, path: &[u8]) -> Option<&Mounted> {
        let mut at = path.starts_with(b"/").then_some(path)?;
        loop {
            match self.mounts.get(at) {
                None if at != b"/" => at = parent(at),
                found => return found,
            }
        }
    }
}

/// Which part of the tree the model is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Far {
    /// What lies at or under these directories, but for what the kernel makes up itself.
    Dirs(Vec<Vec<u8>>),
    /// What is on a network file system.
    Network,
    /// Everything, but for what the kernel makes up itself.
    Everything,
}

/// File systems that are no place for files.
const MADE_UP: [&[u8]; 16] = [
    b"proc",
    b"sysfs",
    b"devtmpfs",
    b"devpts",
    b"cgroup",
    b"cgroup2",
    b"securityfs",
    b"debugfs",
    b"tracefs",
    b"bpf",
    b"mqueue",
    b"pstore",
    b"configfs",
    b"fusectl",
    b"hugetlbfs",
    b"binfmt_misc",
];

impl Far {
    /// Whether a directory belongs to it.
    pub fn holds(&self, places: &Places, dir: &[u8]) -> bool {
        let on = |wanted: &dyn Fn(&Mounted) -> bool, otherwise| {
            places.of_name(dir).map_or(otherwise, wanted)
        };
        let real = || {
            on(&|mount| !MADE_UP.contains(&&mount.fstype[..]), true)
                && below(b"/proc", dir).is_none()
        };
        match self {
            Far::Dirs(dirs) => real() && dirs.iter().any(|top| below(top, dir).is_some()),
            Far::Network => on(&|mount| mount.network, false),
            Far::Everything => real(),
        }
    }
}

/// The tree of this machine.
#[derive(Debug)]
pub struct Here<'a> {
    places: &'a Places,
    far: &'a Far,
    nodes: HashMap<Vec<u8>, Node>,
}

impl<'a> Here<'a> {
    /// With what is far away.
    pub fn new(places: &'a Places, far: &'a Far) -> Here<'a> {
        Here {
            places,
            far,
            nodes: HashMap::new(),
        }
    }
}

/// What is at a name now; a link is not followed.
pub fn node(path: &[u8]) -> Node {
    let Ok(seen) = statx_long(
        path,
        At::SYMLINK_NOFOLLOW | At::NO_AUTOMOUNT,
        Want::TYPE | Want::SIZE,
    ) else {
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

impl Look for Here<'_> {
    fn node(&mut self, path: &[u8]) -> Node {
        if let Some(known) = self.nodes.get(path) {
            return known.clone();
        }
        let node = node(path);
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

    fn far(&mut self, dir: &[u8]) -> bool {
        self.far.holds(self.places, dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_on_the_deepest_mount_above_it() {
        let mount = |target: &str, fstype: &str| {
            (
                target.as_bytes().to_vec(),
                Mounted {
                    fstype: fstype.into(),
                    network: fstype == "nfs",
                },
            )
        };
        let mounts = [
            mount("/", "ext4"),
            mount("/srv", "nfs"),
            mount("/srv/a/b", "tmpfs"),
        ]
        .into_iter()
        .collect();
        let places = Places { mounts };
        let fstype = |name: &str| {
            places
                .of_name(name.as_bytes())
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
        assert_eq!(
            (
                fstype("srv/a"),
                fstype(""),
                Places::default().of_name(b"/a")
            ),
            (None, None, None)
        );
        assert!(
            Far::Network.holds(&places, b"/srv/x") && !Far::Network.holds(&places, b"/srv/a/b")
        );
    }
}
