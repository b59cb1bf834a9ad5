//! The files that blocked threads of this process wait for: named in the message about a server
//! that does not answer.

use std::ffi::CString;

use base::directory::each_entry;
use gate::file::read_kernel;
use gate::fs::{CWD, Open, openat, readlinkat};
use gate::ptrace::read_memory;
use gate::{Gate, Result};

use crate::entry::joined;

/// The files that threads of this process are waiting for, by
/// [/proc/PID/task/TID/syscall](https://man7.org/linux/man-pages/man5/proc_pid_syscall.5.html).
/// Empty if the kernel does not report the system calls.
pub fn blocked_paths() -> Vec<Vec<u8>> {
    let mut paths = blocked().unwrap_or_default();
    paths.sort_unstable();
    paths.dedup();
    paths
}

fn blocked() -> Result<Vec<Vec<u8>>> {
    let tasks = openat(CWD, c"/proc/self/task", Open::SCAN)?;
    let mut paths = Vec::new();
    each_entry(tasks, |entry| {
        let name = [b"/proc/self/task/", entry.name.to_bytes(), b"/syscall"].concat();
        // Ignore read errors, because the thread may have ended.
        if let Ok(Ok(text)) = CString::new(name).map(|name| read_kernel(&name)) {
            paths.extend(Call::parse(&text).and_then(|call| call.path()));
        }
    })?;
    Ok(paths)
}

/// A system call that a thread is blocked in, and its first two arguments.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    gate: Gate,
    args: [u64; 2],
}

impl Call {
    /// Parses a line such as `257 0xffffff9c 0x7ffe2d0 ...`; `None` for a running thread, or a call
    /// without a file argument.
    fn parse(text: &[u8]) -> Option<Call> {
        let text = std::str::from_utf8(text).ok()?;
        let mut words = text.split_ascii_whitespace();
        let gate = Gate::from_number(words.next()?.parse().ok()?)?;
        let mut arg = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let args = [arg()?, arg()?];
        Some(Call { gate, args })
    }

    /// The path of the file that the system call is about.
    fn path(&self) -> Option<Vec<u8>> {
        let dir = || file_of(self.args[0]);
        match self.gate {
            Gate::Openat | Gate::Openat2 | Gate::Statx | Gate::Newfstatat | Gate::Readlinkat => {
                let name = name_at(self.args[1]);
                match name.first() {
                    Some(b'/') => Some(name),
                    Some(_) => Some(joined(&dir()?, &name)),
                    None => dir(),
                }
            }
            Gate::Fstatfs
            | Gate::Getdents64
            | Gate::Read
            | Gate::Pread64
            | Gate::Flistxattr
            | Gate::Fgetxattr
            | Gate::Syncfs => dir(),
            _ => None,
        }
    }
}

/// The path of a file descriptor, from `/proc/self/fd`, which asks no server. Pipes and sockets
/// have none.
fn file_of(fd: u64) -> Option<Vec<u8>> {
    let link = CString::new(format!("/proc/self/fd/{}", fd as u32 as i32)).ok()?;
    let path = readlinkat(CWD, &link).ok()?;
    path.starts_with(b"/").then_some(path)
}

/// The string at an address of this process; empty if it cannot be read.
fn name_at(address: u64) -> Vec<u8> {
    let mut name = vec![0; 4096];
    let read = read_memory(std::process::id(), address, &mut name);
    let end = name[..read].iter().position(|&byte| byte == 0);
    name.truncate(end.unwrap_or(0));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        let number = (0..600).find(|&number| Gate::from_number(number) == Some(Gate::Statx));
        let line = format!("{} 0x5 0x7f00 0x0 0x0 0x0 0x0 0x1 0x2\n", number.unwrap());
        let call = Call {
            gate: Gate::Statx,
            args: [5, 0x7f00],
        };
        assert_eq!(Call::parse(line.as_bytes()), Some(call));
        for other in [
            "running\n",
            "-1 0x7ffe 0x7f00\n",
            "",
            "99999 0x1 0x2",
            "0 5 6",
        ] {
            assert_eq!(Call::parse(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn string_is_read_from_this_process() {
        let name = c"a name";
        assert_eq!(name_at(name.as_ptr() as u64), b"a name");
        assert_eq!(name_at(8), b"");
    }
}
