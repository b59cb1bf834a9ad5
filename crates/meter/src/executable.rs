//! The file that a process executes.

use std::ffi::{CStr, CString};
use std::os::fd::AsRawFd;

use gate::fd::Fd;
use gate::fs::{At, CWD, Open, Want, openat, pread64, readlinkat, statx};

/// The absolute name of the file that a process runs. When it runs another one by now, or none: the
/// name of the file that it was called by, or that as it is. Which file it is, the number of its
/// inode tells, and so does the last part of the name; without the number (0) that of what it was
/// called by does.
pub(crate) fn file_of(pid: u32, called: &[u8], inode: u64) -> Vec<u8> {
    let exe = CString::new(format!("/proc/{pid}/exe")).unwrap_or_default();
    let running = readlinkat(CWD, &exe).ok();
    if let Some(running) = running
        .as_ref()
        .filter(|running| last(running) == last(called))
    {
        return running.clone();
    }
    let is_it =
        |name: &CStr| statx(CWD, name, At::empty(), Want::INO).is_ok_and(|file| file.ino == inode);
    if inode > 0 {
        let named = || {
            named(called, Open::PATH)
                .filter(|(file, _)| is_it(&link(file)))
                .map(|(_, name)| name)
        };
        return running
            .filter(|_| is_it(&exe))
            .or_else(named)
            .unwrap_or_else(|| called.to_vec());
    }
    match (run_by(called), running) {
        (Some(named), Some(running)) => {
            if last(&named) == last(&running) {
                running
            } else {
                named
            }
        }
        (named, running) => named.or(running).unwrap_or_else(|| called.to_vec()),
    }
}

fn last(name: &[u8]) -> Option<&[u8]> {
    name.rsplit(|&byte| byte == b'/').next()
}

/// Opens a file by its name, and says what it is called where no link leads to it.
fn named(name: &[u8], how: Open) -> Option<(Fd, Vec<u8>)> {
    let file = openat(CWD, &CString::new(name).ok()?, how).ok()?;
    let name = readlinkat(CWD, &link(&file)).ok()?;
    Some((file, name))
}

fn link(file: &Fd) -> CString {
    CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default()
}

/// What execve(2) runs when it is given this name: of a script, its interpreter.
fn run_by(called: &[u8]) -> Option<Vec<u8>> {
    /// As many as the kernel follows.
    const DEEP: usize = 5;
    let mut called = called.to_vec();
    for _ in 0..DEEP {
        if called.first() != Some(&b'/') {
            return None; // who knows where it begins
        }
        let (file, name) = named(&called, Open::NONBLOCK)?;
        let mut head = [0; 256];
        let read = pread64(&file, &mut head, 0).unwrap_or_default();
        let Some(line) = head.get(..read)?.strip_prefix(b"#!") else {
            return Some(name);
        };
        let words = line
            .split(|byte| *byte == b'\n')
            .next()?
            .split(|byte| matches!(byte, b' ' | b'\t'));
        called = words.into_iter().find(|word| !word.is_empty())?.to_vec();
    }
    None
}
