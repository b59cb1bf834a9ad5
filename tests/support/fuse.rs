//! Small FUSE servers that misbehave, implemented on the raw protocol. Dropping a server ends it,
//! and the requests that wait for it.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::mount::{MountFlags, mount};

use super::build;

/// How a server behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Serves an empty directory.
    Works,
    /// Serves an empty directory, and answers each request when the test releases it:
    /// [`Server::release`].
    Held,
    /// Refuses everything with EACCES.
    Denies,
    /// Refuses everything with this error.
    Fails(i32),
    /// Serves an empty directory; of each two attempts to open it, the first fails with this error.
    FailsFirst(i32),
    /// Serves a plain file, and is mounted on one.
    File,
    /// Serves a directory that contains two empty directories: `short`, and one with a name of 600
    /// bytes.
    LongName,
    /// Serves an empty directory in which files can be created and written; answers this number of
    /// fsync(2) requests, and then no request at all.
    Syncs(u32),
    /// Never reads a request. Waiting processes can be killed.
    Hung,
    /// Reads requests and never answers. Waiting processes cannot be killed until the server ends.
    Silent,
    /// The server has ended.
    Stale,
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    requests: Arc<AtomicU64>,
    release: Option<Sender<()>>,
    is_stopped: Arc<AtomicBool>,
    /// Closing this ends the thread.
    end: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
    _device: Option<File>,
}

impl Server {
    /// The number of requests that the server has received, without INIT and without requests that
    /// get no answer. [`Manner::Hung`] receives none.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    /// Stops reading requests.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
    }

    /// Lets [`Manner::Held`] answer this many requests.
    pub(crate) fn release(&self, count: usize) {
        for _ in 0..count {
            self.release.as_ref().unwrap().send(()).unwrap();
        }
    }
}

/// Mounts a server with this behaviour on `at`, creating the directory if it is missing.
pub(crate) fn serve(manner: Manner, at: impl AsRef<Path>) -> Server {
    serve_as(manner, at.as_ref(), "a server", "fuse.test")
}

/// The same, with a source and a type for the mount table.
pub(crate) fn serve_as(manner: Manner, at: &Path, source: &str, fstype: &str) -> Server {
    let mode = if manner == Manner::File {
        build::file(at, 0);
        PLAIN_FILE
    } else {
        build::dir(at);
        DIRECTORY
    };
    let device = connect(
        at,
        (source, fstype),
        MountFlags::NOSUID,
        libc::O_NONBLOCK,
        &format!("rootmode={mode:o}"),
    );

    let requests = Arc::new(AtomicU64::new(0));
    let is_stopped = Arc::new(AtomicBool::new(false));
    let (release, released) = channel();
    let (ended, end) = pipe().unwrap();
    let (thread, device) = match manner {
        Manner::Stale => (None, None),
        Manner::Hung => (None, Some(device)),
        _ => {
            let (requests, is_stopped) = (Arc::clone(&requests), Arc::clone(&is_stopped));
            let attend = move || attend(manner, &device, &requests, &is_stopped, &released, &ended);
            (Some(thread::spawn(attend)), None)
        }
    };
    Server {
        requests,
        release: Some(release),
        is_stopped,
        end: Some(end),
        thread,
        _device: device,
    }
}

/// Mounts a FUSE file system on `at`, and returns the descriptor on which to serve it.
pub(super) fn connect(
    at: &Path,
    (source, fstype): (&str, &str),
    flags: MountFlags,
    opened: i32,
    options: &str,
) -> File {
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(opened)
        .open("/dev/fuse")
        .unwrap();
    let options = format!(
        "fd={},user_id=0,group_id=0,allow_other,{options}",
        device.as_raw_fd()
    );
    let options = CString::new(options).unwrap();
    mount(
        source,
        at,
        fstype,
        flags | MountFlags::NODEV,
        options.as_c_str(),
    )
    .unwrap();
    device
}

impl Drop for Server {
    fn drop(&mut self) {
        (self.release, self.end) = (None, None);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn attend(
    manner: Manner,
    mut device: &File,
    requests: &AtomicU64,
    is_stopped: &AtomicBool,
    released: &Receiver<()>,
    ended: &PipeReader,
) {
    let mut request = vec![0; 1 << 17];
    let mut count = 0;
    loop {
        let mut fds = [
            PollFd::new(device, PollFlags::IN),
            PollFd::new(ended, PollFlags::IN),
        ];
        let _ = poll(&mut fds, None); // a signal interrupts it
        if !fds[1].revents().is_empty() {
            return;
        }
        if is_stopped.load(Ordering::SeqCst) {
            let _ = poll(&mut fds[1..], None);
            return;
        }
        let length = match device.read(&mut request) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return, // unmounted
            Err(_) => continue, // the requester has gone
        };
        let operation = operation(&request);
        if [FORGET, INTERRUPT, BATCH_FORGET].contains(&operation) {
            continue;
        }
        if operation != INIT {
            requests.fetch_add(1, Ordering::SeqCst);
            if manner == Manner::Held && released.recv().is_err() {
                return;
            }
        }
        let Some(reply) = answer(manner, &request[..length], &mut count) else {
            continue;
        };
        let _ = device.write(&reply); // fails if the requester has ended: that is no error
    }
}

fn operation(request: &[u8]) -> u32 {
    u32::from_ne_bytes(request[4..8].try_into().unwrap())
}

// Operations of <linux/fuse.h>.
pub(super) const LOOKUP: u32 = 1;
pub(super) const FORGET: u32 = 2;
pub(super) const GETATTR: u32 = 3;
const WRITE: u32 = 16;
pub(super) const STATFS: u32 = 17;
const FSYNC: u32 = 20;
pub(super) const INIT: u32 = 26;
pub(super) const OPENDIR: u32 = 27;
pub(super) const READDIR: u32 = 28;
pub(super) const RELEASEDIR: u32 = 29;
const CREATE: u32 = 35;
pub(super) const INTERRUPT: u32 = 36;
pub(super) const BATCH_FORGET: u32 = 42;

pub(super) const PLAIN_FILE: u32 = 0o100_644;
pub(super) const DIRECTORY: u32 = 0o040_755;

fn answer(manner: Manner, request: &[u8], count: &mut u32) -> Option<Vec<u8>> {
    let operation = operation(request);
    let result = match (manner, operation) {
        (_, INIT) => Ok(words(&[7, 31, 0, 0, 0, 4096, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
        (Manner::Silent, _) => return None,
        (Manner::Syncs(most), FSYNC) => {
            *count += 1;
            if *count > most {
                return None;
            }
            Ok(Vec::new())
        }
        (Manner::Syncs(_), _) => writable(operation, request),
        (Manner::FailsFirst(errno), OPENDIR) => {
            *count += 1;
            match *count % 2 {
                1 => Err(errno),
                _ => empty_directory(operation),
            }
        }
        (Manner::Denies, _) => Err(libc::EACCES),
        (Manner::Fails(errno), _) => Err(errno),
        (Manner::File, GETATTR) => Ok(attributes(PLAIN_FILE)),
        (Manner::LongName, LOOKUP | READDIR) => long_name(operation, request),
        _ => empty_directory(operation),
    };
    Some(reply(request, result))
}

/// `struct fuse_out_header` with the id of the request, and the body of the reply.
pub(super) fn reply(request: &[u8], result: Result<Vec<u8>, i32>) -> Vec<u8> {
    let (error, body) = match result {
        Ok(body) => (0, body),
        Err(errno) => (-errno, Vec::new()),
    };
    let length = u32::try_from(16 + body.len()).unwrap();
    [
        &length.to_ne_bytes()[..],
        &error.to_ne_bytes(),
        &request[8..16],
        &body,
    ]
    .concat()
}

/// `struct fuse_dirent`: inode, offset of the next entry, length of the name, type, name, padding.
pub(super) fn dirent(inode: u64, next: u64, kind: u8, name: &[u8]) -> Vec<u8> {
    let head = [inode, next].map(u64::to_ne_bytes).concat();
    let mut entry = [
        &head,
        &words(&[u32::try_from(name.len()).unwrap(), u32::from(kind)]),
        name,
    ]
    .concat();
    entry.resize(entry.len().next_multiple_of(8), 0);
    entry
}

fn empty_directory(operation: u32) -> Result<Vec<u8>, i32> {
    match operation {
        GETATTR => Ok(attributes(DIRECTORY)),
        STATFS => Ok(words(&[0; 20])),
        OPENDIR => Ok(words(&[0; 4])),
        READDIR | RELEASEDIR => Ok(Vec::new()),
        LOOKUP => Err(libc::ENOENT),
        _ => Err(libc::ENOSYS),
    }
}

/// The directory is inode 1; each created file is inode 2.
fn writable(operation: u32, request: &[u8]) -> Result<Vec<u8>, i32> {
    const FILE: u64 = 2;
    let node = u64::from_ne_bytes(request[16..24].try_into().unwrap());
    match operation {
        // `struct fuse_entry_out`, and an open file.
        CREATE => {
            let head = [FILE, 0, 3600, 3600, 0].map(u64::to_ne_bytes).concat();
            Ok([&head, &attributes(PLAIN_FILE)[16..], &[0; 16]].concat())
        }
        // The body: handle, offset, size.
        WRITE => Ok([&request[56..60], &[0; 4]].concat()),
        GETATTR if node == FILE => Ok(attributes(PLAIN_FILE)),
        _ => empty_directory(operation),
    }
}

/// Looks up a name in the directory with two entries, or reads the directory.
fn long_name(operation: u32, request: &[u8]) -> Result<Vec<u8>, i32> {
    const ROOT: u64 = 1;
    let number = |at: usize| u64::from_ne_bytes(request[at..at + 8].try_into().unwrap());
    let names = [b"n".repeat(600), b"short".to_vec()];
    let (node, body) = (number(16), 40);
    if node != ROOT {
        return empty_directory(operation);
    }
    if operation == LOOKUP {
        let wanted = request[body..].split(|&b| b == 0).next().unwrap();
        let inode = ROOT
            + 1
            + names
                .iter()
                .position(|name| name == wanted)
                .ok_or(libc::ENOENT)? as u64;
        // `struct fuse_entry_out`: inode, generation, their validity, the attributes.
        let head = [inode, 0, 3600, 0, 0].map(u64::to_ne_bytes).concat();
        return Ok([&head, &attributes(DIRECTORY)[16..]].concat());
    }
    let mut entries = Vec::new();
    if number(body + 8) == 0 {
        for (name, inode) in names.iter().zip(ROOT + 1..) {
            entries.extend(dirent(inode, inode, libc::DT_DIR, name));
        }
    }
    Ok(entries)
}

/// `struct fuse_attr_out`: inode 1, readable by all users.
pub(super) fn attributes(mode: u32) -> Vec<u8> {
    let mut out = vec![0; 104];
    out[16..24].copy_from_slice(&1_u64.to_ne_bytes());
    out[76..80].copy_from_slice(&mode.to_ne_bytes());
    out[80..84].copy_from_slice(&2_u32.to_ne_bytes());
    out
}

pub(super) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}
