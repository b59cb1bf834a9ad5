//! The file that a process executes.

use std::ffi::{CStr, CString};
use std::os::fd::AsRawFd;

use gate::fd::Fd;
use gate::fs::{At, CWD, FileType, Open, Want, openat, pread64, readlinkat, statx};

/// The absolute name of the file that a process executes, which it has called `called`. By now the
/// process may execute another one, or have ended: /proc/PID/exe is trusted only if its last
/// component is that of `called`, or its inode is `inode` (0 if unknown). Otherwise the file is
/// resolved from `called`, and failing that `called` is returned.
pub(crate) fn file_of(pid: u32, called: &[u8], inode: u64) -> Vec<u8> {
    let exe = CString::new(format!("/proc/{pid}/exe")).unwrap_or_default();
    let running = readlinkat(CWD, &exe).ok();
    if let Some(running) = &running
        && last(running) == last(called)
    {
        return running.clone();
    }
    let has_inode =
        |name: &CStr| statx(CWD, name, At::empty(), Want::INO).is_ok_and(|file| file.ino == inode);
    let found = if inode > 0 {
        running.filter(|_| has_inode(&exe)).or_else(|| {
            let (file, name) = resolve(called)?;
            has_inode(&link(&file)).then_some(name)
        })
    } else {
        match (interpreter(called), running) {
            (Some(named), Some(running)) if last(&named) == last(&running) => Some(running),
            (named, running) => named.or(running),
        }
    };
    found.unwrap_or_else(|| called.to_vec())
}

fn last(name: &[u8]) -> Option<&[u8]> {
    name.rsplit(|&byte| byte == b'/').next()
}

/// Finds a file, and returns its name without symbolic links.
fn resolve(name: &[u8]) -> Option<(Fd, Vec<u8>)> {
    let file = openat(CWD, &CString::new(name).ok()?, Open::PATH).ok()?;
    let name = readlinkat(CWD, &link(&file)).ok()?;
    Some((file, name))
}

fn link(file: &Fd) -> CString {
    CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default()
}

/// What execve(2) executes when it is given this name: of a script, its interpreter.
fn interpreter(called: &[u8]) -> Option<Vec<u8>> {
    /// The most interpreters of interpreters that the kernel follows.
    const DEEPEST: usize = 5;
    let mut called = called.to_vec();
    for _ in 0..DEEPEST {
        if called.first() != Some(&b'/') {
            return None; // the working directory is unknown
        }
        let (file, name) = resolve(&called)?;
        // The process has chosen the name: opening a device or a FIFO for reading would have effects.
        let seen = statx(&file, c"", At::EMPTY_PATH, Want::TYPE).ok()?;
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
