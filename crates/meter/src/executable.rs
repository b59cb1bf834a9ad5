//! The path of the executable of a process.

use std::ffi::{CStr, CString};
use std::os::fd::AsRawFd;

use base::path::split;
use gate::fd::Fd;
use gate::fs::{
    AtFlags, CWD, FileType, Open, StatxMask, fstat, openat, pread64, readlinkat, statx,
};

/// The absolute path of the executable of a process that has called execve(2) with `called`. As the
/// process may have ended or executed a different program since, /proc/PID/exe is trusted only if
/// its last component is that of `called`, or its inode is `inode` (0 if unknown). Otherwise the
/// result is `called` with its links resolved, or failing that `called` itself.
pub(crate) fn file_of(pid: u32, called: &[u8], inode: u64) -> Vec<u8> {
    let exe = CString::new(format!("/proc/{pid}/exe")).unwrap_or_default();
    let running = readlinkat(CWD, &exe).ok();
    if let Some(running) = &running
        && split(running).1 == split(called).1
    {
        return running.clone();
    }
    let has_inode = |name: &CStr| {
        statx(CWD, name, AtFlags::empty(), StatxMask::INO).is_ok_and(|file| file.ino == inode)
    };
    let found = if inode > 0 {
        running.filter(|_| has_inode(&exe)).or_else(|| {
            let (file, name) = resolve(called)?;
            has_inode(&link(&file)).then_some(name)
        })
    } else {
        match (interpreter(called), running) {
            (Some(named), Some(running)) if split(&named).1 == split(&running).1 => Some(running),
            (named, running) => named.or(running),
        }
    };
    found.unwrap_or_else(|| called.to_vec())
}

/// Opens a file by name, and returns its path without symbolic links.
fn resolve(name: &[u8]) -> Option<(Fd, Vec<u8>)> {
    let file = openat(CWD, &CString::new(name).ok()?, Open::PATH).ok()?;
    let name = readlinkat(CWD, &link(&file)).ok()?;
    Some((file, name))
}

fn link(file: &Fd) -> CString {
    CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default()
}

/// The file that execve(2) loads for this name: for a `#!` script, its interpreter.
fn interpreter(called: &[u8]) -> Option<Vec<u8>> {
    /// The kernel's limit of interpreters that are scripts themselves.
    const DEEPEST: usize = 5;
    let mut called = called.to_vec();
    for _ in 0..DEEPEST {
        if called.first() != Some(&b'/') {
            return None; // the working directory is unknown
        }
        let (file, name) = resolve(&called)?;
        // Check the type first: the metered process chose the name, and opening a device or FIFO
        // for reading can have side effects.
        let seen = fstat(&file, StatxMask::TYPE).ok()?;
        if seen.file_type != FileType::Regular {
            return None;
        }
        let file = openat(CWD, &link(&file), Open::NONBLOCK).ok()?;
        let mut head = [0; 256];
        let read = pread64(&file, &mut head, 0).unwrap_or_default();
        let Some(line) = head.get(..read)?.strip_prefix(b"#!") else {
            return Some(name);
        };
        let line = line.split(|byte| *byte == b'\n').next()?;
        let mut words = line.split(|byte| matches!(byte, b' ' | b'\t'));
        called = words.find(|word| !word.is_empty())?.to_vec();
    }
    None
}
