//! A FUSE server of a synthetic tree with the latency of a network file system. Requests run
//! concurrently, and the server counts the requests in flight. It can make some requests fail, and
//! it can die.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::MountFlags;

use super::build;
use super::fuse::Server as FuseServer;
use super::fuse::{
    BATCH_FORGET, DIRECTORY, FORGET, GETATTR, INIT, INTERRUPT, LOOKUP, Manner, OPENDIR, PLAIN_FILE,
    READDIR, RELEASEDIR, STATFS, attributes, connect, dirent, reply, serve_as, words,
};
use super::wait::all_threads_sleep;

/// The tree and the server's behaviour: directories `d0`, `d1`, ... with files `f0`, `f1`, ... in
/// each.
#[derive(Clone, Debug, Default)]
pub(crate) struct SyntheticTree {
    pub(crate) directories: u64,
    pub(crate) files: u64,
    /// The latency of each request.
    pub(crate) latency: Duration,
    /// Whether requests are answered in rounds instead of after the latency: all requests in flight
    /// are answered as soon as all threads of the process that sent the last one are asleep. A
    /// round stands for the latency, but depends on no clock. Only for requests of processes other
    /// than the server's.
    pub(crate) in_rounds: bool,
    /// The number of processes that share the work, and a number of lookups: a process that has
    /// made more lookups than that waits longer for each answer, until all have made as many.
    pub(crate) shared_by: Option<(usize, u64)>,
    /// Paths, such as `d1/f2`, and the error of looking them up.
    pub(crate) lost: Vec<(&'static str, i32)>,
    /// Directories and files, and the error of opening them.
    pub(crate) unopened: Vec<(&'static str, i32)>,
    /// Directories, such as `d1`, and the error of reading them.
    pub(crate) unreadable: Vec<(&'static str, i32)>,
    /// Files, such as `d1/f2`, and the error of reading them.
    pub(crate) broken: Vec<(&'static str, i32)>,
    /// The maximum number of bytes that a read returns.
    pub(crate) piece: Option<usize>,
    /// The size of a file is its number times this; 0 gives every file one byte.
    pub(crate) unit: u64,
    /// A file, such as `d1/f2`, the offset from which reading fails, and the error.
    pub(crate) broken_from: Option<(&'static str, u64, i32)>,
    /// The number of requests after which the server dies.
    pub(crate) dies_after: Option<u64>,
}

impl SyntheticTree {
    /// A tree on a server without latency or errors.
    pub(crate) fn of(directories: u64, files: u64) -> SyntheticTree {
        SyntheticTree {
            directories,
            files,
            ..SyntheticTree::default()
        }
    }
}

/// The numbers of requests of a server.
#[derive(Debug, Default)]
pub(crate) struct Load {
    /// The maximum number of requests in flight.
    pub(crate) most: AtomicU64,
    pub(crate) requests: AtomicU64,
    /// The number of rounds in which the requests were answered.
    pub(crate) rounds: AtomicU64,
    pub(crate) by_process: Mutex<BTreeMap<u32, ProcessLoad>>,
}

/// The requests of one process.
#[derive(Debug, Default)]
pub(crate) struct ProcessLoad {
    pub(crate) lookups: u64,
    /// Reads of directories other than the root.
    pub(crate) listings: u64,
}

/// The latency for a process that is ahead of the others.
const BEHIND: Duration = Duration::from_millis(50);

impl Load {
    /// Counts a request of a process, and returns whether the process is ahead of others that share the work.
    fn count(&self, request: &[u8], shared_by: Option<(usize, u64)>) -> bool {
        let word = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
        let (operation, thread) = (word(4), word(32));
        let is_root = u64::from_ne_bytes(request[16..24].try_into().unwrap()) == ROOT;
        let mut all = self.by_process.lock().unwrap();
        let process = all.entry(process_of(thread)).or_default();
        process.lookups += u64::from(operation == LOOKUP);
        process.listings += u64::from(operation == READDIR && !is_root);
        let lookups = process.lookups;
        shared_by.is_some_and(|(processes, share)| {
            let done = all.values().filter(|it| it.lookups >= share);
            lookups > share && done.count() < processes
        })
    }
}

/// A running server. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) load: Arc<Load>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The source and the type of the mount.
const MOUNT: (&str, &str) = ("far", "fuse.far");

/// Mounts a server like that of [`serve_synthetic`] which never reads a request.
pub(crate) fn serve_hung(at: &Path) -> FuseServer {
    serve_as(Manner::Hung, at, MOUNT.0, MOUNT.1)
}

/// Mounts the tree at `at`, creating the directory where it is missing.
pub(crate) fn serve_synthetic(tree: SyntheticTree, at: &Path) -> Server {
    build::dir(at);
    let options = format!("rootmode={DIRECTORY:o}");
    let device = connect(at, MOUNT, MountFlags::NOSUID, libc::O_NONBLOCK, &options);
    let (load, ended) = (Arc::new(Load::default()), Arc::new(AtomicBool::new(false)));
    let thread = thread::spawn({
        let (load, ended) = (Arc::clone(&load), Arc::clone(&ended));
        move || attend(&tree, &device, &load, &ended)
    });
    Server {
        load,
        ended,
        thread: Some(thread),
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Receives requests, and answers each after its latency: one thread suffices.
fn attend(tree: &SyntheticTree, mut device: &File, load: &Load, ended: &AtomicBool) {
    const STEP: Duration = Duration::from_micros(200);
    let mut request = vec![0; 1 << 17];
    let mut under_way: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
    let mut requester = 0;
    while !ended.load(Ordering::Relaxed) {
        let now = Instant::now();
        let is_round = tree.in_rounds && !under_way.is_empty() && all_threads_sleep(requester);
        // A request that was sent before all threads were asleep belongs to the round.
        let is_round = is_round && !has_request(device, Duration::ZERO);
        load.rounds.fetch_add(is_round.into(), Ordering::Relaxed);
        let is_due = |due: Instant| if tree.in_rounds { is_round } else { due <= now };
        while under_way.front().is_some_and(|(due, _)| is_due(*due)) {
            let (_, reply) = under_way.pop_front().unwrap();
            let _ = device.write(&reply); // fails if the requester has ended: that is no error
        }
        let rest = match under_way.front() {
            Some(_) if tree.in_rounds => STEP,
            Some((due, _)) => due.duration_since(now),
            None => Duration::from_millis(20),
        };
        has_request(device, rest);
        loop {
            let length = match device.read(&mut request) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return, // unmounted
                Err(_) => continue, // the requester has gone
            };
            let Some(reply) = answer(tree, &request[..length]) else {
                continue;
            };
            // `pid` in `struct fuse_in_header`: 0 for requests of the kernel itself.
            let thread = u32::from_ne_bytes(request[32..36].try_into().unwrap());
            requester = if thread == 0 { requester } else { thread };
            let seen = load.requests.fetch_add(1, Ordering::Relaxed);
            let is_ahead = load.count(&request[..length], tree.shared_by);
            let latency = if is_ahead { BEHIND } else { tree.latency };
            let due = Instant::now() + latency;
            let at = under_way.partition_point(|(other, _)| *other <= due);
            under_way.insert(at, (due, reply));
            let count = under_way.len() as u64;
            load.most.fetch_max(count, Ordering::Relaxed);
            if Some(seen + 1) == tree.dies_after {
                return; // closing its device ends the connection
            }
        }
    }
}

/// The process of a thread; the thread, if it has ended.
fn process_of(thread: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    process.map_or(thread, |process| process.trim().parse().unwrap())
}

/// Whether a request can be read within a time.
fn has_request(device: &File, within: Duration) -> bool {
    let within = Timespec {
        tv_sec: 0,
        tv_nsec: within.subsec_nanos().into(),
    };
    poll(&mut [PollFd::new(device, PollFlags::IN)], Some(&within)).is_ok_and(|ready| ready > 0)
}

const ROOT: u64 = 1;

/// The directory or file of an inode number.
enum Node {
    Root,
    Directory(u64),
    File(u64, u64),
}

impl SyntheticTree {
    fn node(&self, inode: u64) -> Node {
        let beyond = ROOT + 1 + self.directories;
        match inode {
            ROOT => Node::Root,
            _ if inode < beyond => Node::Directory(inode - ROOT - 1),
            _ => Node::File((inode - beyond) / self.files, (inode - beyond) % self.files),
        }
    }

    fn inode(&self, node: &Node) -> u64 {
        match *node {
            Node::Root => ROOT,
            Node::Directory(d) => ROOT + 1 + d,
            Node::File(d, f) => ROOT + 1 + self.directories + d * self.files + f,
        }
    }

    /// The child with this number, if it exists.
    fn child(&self, of: &Node, number: u64) -> Option<Node> {
        match *of {
            Node::Root => (number < self.directories).then_some(Node::Directory(number)),
            Node::Directory(d) => (number < self.files).then_some(Node::File(d, number)),
            Node::File(..) => None,
        }
    }

    fn path(node: &Node) -> String {
        match node {
            Node::Root => String::new(),
            Node::Directory(d) => format!("d{d}"),
            Node::File(d, f) => format!("d{d}/f{f}"),
        }
    }

    /// `struct fuse_attr_out`.
    fn attributes(&self, node: &Node) -> Vec<u8> {
        let mut out = attributes(if matches!(node, Node::File(..)) {
            PLAIN_FILE
        } else {
            DIRECTORY
        });
        // Seconds for which the attributes are valid.
        out[0..8].copy_from_slice(&3600_u64.to_ne_bytes());
        out[16..24].copy_from_slice(&self.inode(node).to_ne_bytes());
        if let Node::File(_, f) = node {
            out[24..32].copy_from_slice(&self.size(*f).to_ne_bytes());
        }
        out
    }

    fn size(&self, file: u64) -> u64 {
        file * self.unit.max(1)
    }

    fn open(&self, node: &Node) -> Result<(), i32> {
        SyntheticTree::fault(&self.unopened, node)
    }

    /// The error that a list of faults contains for a file.
    fn fault(faults: &[(&'static str, i32)], node: &Node) -> Result<(), i32> {
        let path = SyntheticTree::path(node);
        let fault = faults.iter().find(|(faulty, _)| *faulty == path);
        fault.map_or(Ok(()), |(_, errno)| Err(*errno))
    }

    /// Reads a file: each of its bytes is the number of the file.
    fn read(&self, node: &Node, from: u64, room: usize) -> Result<Vec<u8>, i32> {
        let Node::File(_, f) = node else {
            return Err(libc::EISDIR);
        };
        SyntheticTree::fault(&self.broken, node)?;
        let end = match self.broken_from {
            Some((path, end, errno)) if path == SyntheticTree::path(node) && from >= end => {
                return Err(errno);
            }
            Some((path, end, _)) if path == SyntheticTree::path(node) => end,
            _ => self.size(*f),
        };
        let left = usize::try_from(end.saturating_sub(from)).unwrap();
        Ok(vec![
            f.to_le_bytes()[0];
            left.min(room).min(self.piece.unwrap_or(usize::MAX))
        ])
    }

    fn look_up(&self, within: &Node, wanted: &str) -> Result<Node, i32> {
        let number = wanted
            .get(1..)
            .and_then(|digits| digits.parse().ok())
            .ok_or(libc::ENOENT)?;
        let node = self.child(within, number).ok_or(libc::ENOENT)?;
        SyntheticTree::fault(&self.lost, &node).map(|()| node)
    }

    fn list(&self, within: &Node, from: u64, room: usize) -> Result<Vec<u8>, i32> {
        SyntheticTree::fault(&self.unreadable, within)?;
        let mut entries = Vec::new();
        for number in from.. {
            let Some(child) = self.child(within, number) else {
                break;
            };
            let path = SyntheticTree::path(&child);
            let name = path.rsplit('/').next().unwrap();
            let kind = if matches!(child, Node::File(..)) {
                libc::DT_REG
            } else {
                libc::DT_DIR
            };
            let entry = dirent(self.inode(&child), number + 1, kind, name.as_bytes());
            if entries.len() + entry.len() > room {
                break;
            }
            entries.extend(entry);
        }
        Ok(entries)
    }
}

fn answer(tree: &SyntheticTree, request: &[u8]) -> Option<Vec<u8>> {
    const PARALLEL_DIROPS: u32 = 1 << 18;
    const DIRECT_IO: u32 = 1;
    const OPEN: u32 = 14;
    const READ: u32 = 15;
    const RELEASE: u32 = 18;
    let number = |at: usize| u64::from_ne_bytes(request[at..at + 8].try_into().unwrap());
    let word = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
    let (operation, node, body) = (word(4), number(16), 40);
    let node = || tree.node(node);
    let result = match operation {
        FORGET | INTERRUPT | BATCH_FORGET => return None,
        INIT => Ok(words(&[
            7,
            31,
            0,
            PARALLEL_DIROPS,
            0,
            4096,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        ])),
        GETATTR => Ok(tree.attributes(&node())),
        STATFS => Ok(words(&[0; 20])),
        OPENDIR => tree.open(&node()).map(|()| words(&[0; 4])),
        RELEASEDIR => Ok(Vec::new()),
        // Direct I/O, so that the reader gets exactly what the server returns.
        OPEN => tree.open(&node()).map(|()| words(&[0, 0, DIRECT_IO, 0])),
        READ => tree.read(
            &node(),
            number(body + 8),
            usize::try_from(word(body + 16)).unwrap(),
        ),
        RELEASE => Ok(Vec::new()),
        READDIR => tree.list(
            &node(),
            number(body + 8),
            usize::try_from(word(body + 16)).unwrap(),
        ),
        LOOKUP => {
            let wanted = request[body..].split(|&b| b == 0).next().unwrap();
            tree.look_up(&node(), &String::from_utf8_lossy(wanted))
                .map(|node| {
                    // `struct fuse_entry_out`: inode, generation, their validity, the attributes.
                    let head = [tree.inode(&node), 0, 3600, 3600, 0]
                        .map(u64::to_ne_bytes)
                        .concat();
                    [&head, &tree.attributes(&node)[16..]].concat()
                })
        }
        _ => Err(libc::ENOSYS),
    };
    Some(reply(request, result))
}
