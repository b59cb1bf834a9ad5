//! BPF programs, and the tracepoints that they are attached to.

use std::ffi::CStr;

use libc::c_long;

use super::{bpf, raw, short};
use crate::{Errno, Fd, Result};

const PROG_LOAD: c_long = 5;
const OBJ_GET_INFO_BY_FD: c_long = 15;
const RAW_TRACEPOINT_OPEN: c_long = 17;

// Each struct below is the part of `union bpf_attr` that one command of bpf(2) reads. The kernel
// takes missing fields as 0.

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
}

#[repr(C)]
struct RawTracepoint {
    name: u64,
    prog_fd: u32,
    pad: u32,
}

#[repr(C)]
struct InfoByFd {
    fd: u32,
    len: u32,
    info: u64,
}

/// A BPF program that the kernel has loaded.
#[derive(Debug)]
pub struct Program(Fd);

/// Why the kernel refused to load a program.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{errno}; {log}")]
pub struct LoadError {
    /// `EPERM` without the privilege; `EINVAL` or `EACCES` if the verifier refuses the program.
    #[source]
    pub errno: Errno,
    /// The last lines of the verifier's log; empty if the verifier did not run.
    pub log: String,
}

impl Program {
    /// Loads a program for a raw tracepoint, under a licence that the kernel knows.
    ///
    /// # Errors
    /// The verifier's message. After a failure the program is loaded again with a log, so that a
    /// successful load needs no log.
    pub fn load_raw_tracepoint(
        name: &str,
        instructions: &[u64],
        license: &CStr,
    ) -> std::result::Result<Program, LoadError> {
        const RAW_TRACEPOINT: u32 = 17;
        let load = |log: &mut [u8]| {
            let log_at = if log.is_empty() {
                0
            } else {
                log.as_mut_ptr() as u64
            };
            let mut attr = ProgLoad {
                prog_type: RAW_TRACEPOINT,
                insn_cnt: instructions.len() as u32,
                insns: instructions.as_ptr() as u64,
                license: license.as_ptr() as u64,
                log_level: u32::from(!log.is_empty()),
                log_size: log.len() as u32,
                log_buf: log_at,
                prog_name: short(name),
                ..ProgLoad::default()
            };
            // SAFETY: the kernel reads `insn_cnt` instructions and a NUL-terminated licence, and
            // writes at most `log_size` bytes of `log`.
            unsafe { bpf(PROG_LOAD, &mut attr) }.map(|fd| Program(Fd::take(fd)))
        };
        load(&mut []).or_else(|errno| {
            let mut log = vec![0; 1 << 20];
            load(&mut log).map_err(|_| LoadError {
                errno,
                log: last_lines(&log),
            })
        })
    }

    /// How many times the program was skipped because it was already running on that processor
    /// (since Linux 5.12).
    pub fn recursion_misses(&self) -> Result<u64> {
        let mut info = [0u64; 27]; // struct bpf_prog_info, up to recursion_misses
        let mut attr = InfoByFd {
            fd: raw(&self.0),
            len: size_of_val(&info) as u32,
            info: info.as_mut_ptr() as u64,
        };
        // SAFETY: the kernel writes at most `len` bytes of `info`, and no list, since all lengths
        // in it are 0.
        unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut attr) }?;
        Ok(info[26])
    }
}

/// The last three lines of a verifier's log, without its statistics.
fn last_lines(log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log.split(|&byte| byte == 0).next().unwrap_or_default());
    let lines = text.lines().rev();
    let mut last: Vec<&str> = lines
        .filter(|line| !line.starts_with("processed"))
        .take(3)
        .collect();
    last.reverse();
    last.join("; ")
}

/// Attaches a program to a raw tracepoint until the descriptor is closed. `BPF_RAW_TRACEPOINT_OPEN`
///
/// # Errors
/// `ENOENT`: the kernel has no such tracepoint.
pub fn raw_tracepoint_open(name: &CStr, program: &Program) -> Result<Fd> {
    let mut attr = RawTracepoint {
        name: name.as_ptr() as u64,
        prog_fd: raw(&program.0),
        pad: 0,
    };
    // SAFETY: the name is NUL-terminated.
    unsafe { bpf(RAW_TRACEPOINT_OPEN, &mut attr) }.map(Fd::take)
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, Map};
    use super::*;

    #[test]
    fn a_refused_program_comes_with_the_log_of_the_verifier() {
        if Map::new(Kind::Hash, "fathom_test", 4, 4, 1).is_err() {
            return;
        }
        // An `exit` instruction without a result in r0, which the verifier must refuse.
        let refused = Program::load_raw_tracepoint("fathom_test", &[0x95], c"GPL").unwrap_err();
        assert!(refused.log.contains("R0 !read_ok"), "{refused:?}");
        // `r0 = 0; exit`
        let program = Program::load_raw_tracepoint("fathom_test", &[0xb7, 0x95], c"GPL").unwrap();
        assert_eq!(program.recursion_misses(), Ok(0));
        assert_eq!(
            raw_tracepoint_open(c"no_such_place", &program).map(drop),
            Err(Errno::ENOENT)
        );
    }
}
