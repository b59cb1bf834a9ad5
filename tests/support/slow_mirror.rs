//! A FUSE server that mirrors a local tree, read-only, with a latency for each request, and counts
//! the requests. The kernel caches names, failed lookups, links, attributes and pages, as it does
//! for a network file system; each open is a request.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, UnmountFlags, unmount};

use super::build;
use super::fuse::{
    BATCH_FORGET, DIRECTORY, FORGET, GETATTR, INIT, INTERRUPT, LOOKUP, OPENDIR, READDIR,
    RELEASEDIR, STATFS, connect, dirent, reply, words,
};

const READLINK: u32 = 5;
const OPEN: u32 = 14;
const READ: u32 = 15;
const RELEASE: u32 = 18;
const IOCTL: u32 = 39;

const OPERATIONS: usize = 64;
/// The number of threads, and so the maximum number of requests in flight. A process that ends
/// closes a dozen files at once; the next request must not wait for these.
const THREADS: usize = 24;
/// Seconds for which the kernel may cache names and attributes.
const VALID: u64 = 3600;

/// The latency of a server, and limits on the kernel's caching.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slowness {
    /// The time from a request to its reply.
    pub(crate) latency: Duration,
    /// Whether the kernel must not cache failed lookups.
    pub(crate) forgets_misses: bool,
    /// Whether the kernel must drop the pages of a file when it is opened.
    pub(crate) forgets_pages: bool,
    /// Whether requests other than lookups have a tenth of the latency.
    pub(crate) quick_others: bool,
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Mirror {
    shared: Arc<Shared>,
    at: PathBuf,
}

#[derive(Debug)]
struct Shared {
    device: File,
    how: Slowness,
    counts: [AtomicU64; OPERATIONS],
    state: Mutex<State>,
}

/// Inode, type and name of an entry of a directory.
type Entry = (u64, u8, Vec<u8>);

#[derive(Debug, Default)]
struct State {
    paths: Vec<PathBuf>,
    nodes: HashMap<PathBuf, u64>,
    files: HashMap<u64, Arc<File>>,
    lists: HashMap<u64, Arc<Vec<Entry>>>,
    handles: u64,
}

/// Mounts the mirror of `tree` at `at`.
pub(crate) fn serve_mirror(tree: &Path, at: &Path, how: Slowness) -> Mirror {
    build::dir(at);
    let options = format!("rootmode={DIRECTORY:o},default_permissions");
    let device = connect(at, ("far", "fuse.far"), MountFlags::RDONLY, 0, &options);
    let state = State {
        paths: vec![PathBuf::new(), tree.to_path_buf()],
        ..State::default()
    };
    let shared = Arc::new(Shared {
        device,
        how,
        counts: [const { AtomicU64::new(0) }; OPERATIONS],
        state: Mutex::new(state),
    });
    for _ in 0..THREADS {
        let shared = Arc::clone(&shared);
        thread::spawn(move || attend(&shared));
    }
    Mirror {
        shared,
        at: at.to_path_buf(),
    }
}

impl Mirror {
    /// The number of requests of each kind, by FUSE's names, since the last call.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        let names = [
            (LOOKUP, "LOOKUP"),
            (GETATTR, "GETATTR"),
            (READLINK, "READLINK"),
            (OPEN, "OPEN"),
            (READ, "READ"),
            (RELEASE, "RELEASE"),
            (OPENDIR, "OPENDIR"),
            (READDIR, "READDIR"),
            (RELEASEDIR, "RELEASE"),
            (STATFS, "STATFS"),
            (IOCTL, "IOCTL"),
        ];
        let mut counts = BTreeMap::new();
        for (operation, name) in names {
            *counts.entry(name).or_default() +=
                self.shared.counts[operation as usize].swap(0, Ordering::SeqCst);
        }
        let others = self
            .shared
            .counts
            .iter()
            .enumerate()
            .filter(|(operation, _)| {
                ![FORGET, BATCH_FORGET, INTERRUPT, INIT].contains(&(*operation as u32))
            });
        *counts.entry("other").or_default() += others
            .map(|(_, count)| count.swap(0, Ordering::SeqCst))
            .sum::<u64>();
        counts.retain(|_, count| *count > 0);
        counts
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        // Usually it is unmounted by now. If not, this ends the connection, for waiting processes
        // and for the threads.
        let _ = unmount(&self.at, UnmountFlags::FORCE | UnmountFlags::DETACH);
    }
}

fn attend(shared: &Shared) {
    // Without timer slack, which makes a sleep up to 50 µs longer.
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
    let mut request = vec![0; 1 << 18];
    loop {
        // The kernel wakes one of the waiting threads.
        let length = match (&shared.device).read(&mut request) {
            Ok(length) => length,
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return, // unmounted
            Err(error) if error.raw_os_error() == Some(libc::ECONNABORTED) => return,
            Err(_) => continue, // the requester has gone
        };
        let arrived = Instant::now();
        let operation = u32::from_ne_bytes(request[4..8].try_into().unwrap());
        if let Some(count) = shared.counts.get(operation as usize) {
            count.fetch_add(1, Ordering::SeqCst);
        }
        if [FORGET, INTERRUPT, BATCH_FORGET].contains(&operation) {
            continue;
        }
        let reply = reply(&request, answer(shared, operation, &request[..length]));
        // No network file system forwards an ioctl.
        if ![INIT, IOCTL].contains(&operation) {
            let is_quick = operation != LOOKUP && shared.how.quick_others;
            let latency = shared.how.latency / if is_quick { 10 } else { 1 };
            // Sleeping, not polling: a real server takes no processor time from the client.
            thread::sleep(latency.saturating_sub(arrived.elapsed()));
        }
        // Fails if the requester has ended: that is no error.
        let _ = (&shared.device).write(&reply);
    }
}

fn number(request: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(request[at..at + 8].try_into().unwrap())
}

fn errno(error: std::io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

fn answer(shared: &Shared, operation: u32, request: &[u8]) -> Result<Vec<u8>, i32> {
    const BODY: usize = 40;
    let node = number(request, 16);
    let mut state = shared.state.lock().unwrap();
    let path = state
        .paths
        .get(usize::try_from(node).unwrap())
        .cloned()
        .unwrap_or_default();
    match operation {
        INIT => {
            // FUSE_ASYNC_READ, FUSE_PARALLEL_DIROPS, FUSE_MAX_PAGES, FUSE_CACHE_SYMLINKS
            let flags = 1 | 1 << 18 | 1 << 22 | 1 << 23;
            let mut reply = vec![7, 31, 128 << 10, flags, 16 | 12 << 16, 128 << 10, 1, 32];
            reply.resize(16, 0);
            Ok(words(&reply))
        }
        LOOKUP => {
            let name = request[BODY..].split(|&b| b == 0).next().unwrap();
            let path = path.join(OsStr::from_bytes(name));
            match std::fs::symlink_metadata(&path) {
                Ok(metadata) => {
                    let known = state.nodes.get(&path).copied();
                    let node = known.unwrap_or_else(|| {
                        state.paths.push(path.clone());
                        let node = state.paths.len() as u64 - 1;
                        state.nodes.insert(path, node);
                        node
                    });
                    let head = [node, 0, VALID, VALID, 0].map(u64::to_ne_bytes).concat();
                    Ok([head, attributes(&metadata)].concat())
                }
                // Inode 0: the kernel may cache the failed lookup.
                Err(error) if error.kind() == ErrorKind::NotFound && !shared.how.forgets_misses => {
                    let head = [0, 0, VALID, 0, 0].map(u64::to_ne_bytes).concat();
                    Ok([head, vec![0; 88]].concat())
                }
                Err(error) => Err(errno(error)),
            }
        }
        GETATTR => {
            let metadata = std::fs::symlink_metadata(&path).map_err(errno)?;
            Ok([
                [VALID, 0].map(u64::to_ne_bytes).concat(),
                attributes(&metadata),
            ]
            .concat())
        }
        READLINK => Ok(std::fs::read_link(&path)
            .map_err(errno)?
            .as_os_str()
            .as_bytes()
            .to_vec()),
        OPEN => {
            const FOPEN_KEEP_CACHE: u32 = 2;
            let file = File::open(&path).map_err(errno)?;
            state.handles += 1;
            let handle = state.handles;
            state.files.insert(handle, Arc::new(file));
            let flags = if shared.how.forgets_pages {
                0
            } else {
                FOPEN_KEEP_CACHE
            };
            Ok([&handle.to_ne_bytes()[..], &words(&[flags, 0])].concat())
        }
        READ => {
            let file = state
                .files
                .get(&number(request, BODY))
                .cloned()
                .ok_or(libc::EBADF)?;
            drop(state);
            let size = u32::from_ne_bytes(request[BODY + 16..BODY + 20].try_into().unwrap());
            let mut data = vec![0; size as usize];
            let mut have = 0;
            while have < data.len() {
                match file
                    .read_at(&mut data[have..], number(request, BODY + 8) + have as u64)
                    .map_err(errno)?
                {
                    0 => break,
                    n => have += n,
                }
            }
            data.truncate(have);
            Ok(data)
        }
        RELEASE => {
            state.files.remove(&number(request, BODY));
            Ok(Vec::new())
        }
        OPENDIR => {
            let entry = |entry: std::io::Result<std::fs::DirEntry>| {
                let entry = entry.unwrap();
                let kind = entry.file_type().map_or(0, |kind| match () {
                    () if kind.is_dir() => libc::DT_DIR,
                    () if kind.is_symlink() => libc::DT_LNK,
                    () if kind.is_file() => libc::DT_REG,
                    () if kind.is_char_device() => libc::DT_CHR,
                    () => libc::DT_UNKNOWN,
                });
                (
                    std::os::unix::fs::DirEntryExt::ino(&entry),
                    kind,
                    entry.file_name().as_bytes().to_vec(),
                )
            };
            let list: Vec<Entry> = std::fs::read_dir(&path)
                .map_err(errno)?
                .map(entry)
                .collect();
            state.handles += 1;
            let handle = state.handles;
            state.lists.insert(handle, Arc::new(list));
            Ok([&handle.to_ne_bytes()[..], &[0; 8]].concat())
        }
        READDIR => {
            let list = state
                .lists
                .get(&number(request, BODY))
                .cloned()
                .ok_or(libc::EBADF)?;
            let size =
                u32::from_ne_bytes(request[BODY + 16..BODY + 20].try_into().unwrap()) as usize;
            let from = usize::try_from(number(request, BODY + 8)).unwrap();
            let mut out = Vec::new();
            for (at, (ino, kind, name)) in list.iter().enumerate().skip(from) {
                let entry = dirent(*ino, at as u64 + 1, *kind, name);
                if out.len() + entry.len() > size {
                    break;
                }
                out.extend(entry);
            }
            Ok(out)
        }
        RELEASEDIR => {
            state.lists.remove(&number(request, BODY));
            Ok(Vec::new())
        }
        STATFS => Ok(words(&[0; 20])),
        _ => Err(libc::ENOSYS),
    }
}

/// `struct fuse_attr`
fn attributes(of: &Metadata) -> Vec<u8> {
    let time = |sec: i64| sec.max(0) as u64;
    let wide = [
        of.ino(),
        of.size(),
        of.blocks(),
        time(of.atime()),
        time(of.mtime()),
        time(of.ctime()),
    ];
    let nanos = |nanos: i64| u32::try_from(nanos).unwrap_or_default();
    let narrow = [
        nanos(of.atime_nsec()),
        nanos(of.mtime_nsec()),
        nanos(of.ctime_nsec()),
        of.mode(),
        u32::try_from(of.nlink()).unwrap_or(u32::MAX),
        of.uid(),
        of.gid(),
        0,
        4096,
        0,
    ];
    [wide.map(u64::to_ne_bytes).concat(), words(&narrow)].concat()
}
