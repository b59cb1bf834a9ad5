//! The stops of traced processes. [ptrace(2)](https://man7.org/linux/man-pages/man2/ptrace.2.html)
//!
//! None of it is file-system work, and none of it is counted. A tracer is a thread: only the one
//! that has called [`seize`] may call the others.

use std::mem::MaybeUninit;
use std::time::Duration;

use libc::{c_int, c_long, c_void};

use crate::cache::page_size;
use crate::clock::monotonic;
use crate::errno::check;
use crate::process::{Ended, ended};
use crate::{Errno, Result};

// The C libraries do not agree on the type of these, and do not have all of them.
const CONT: c_long = 7;
const SYSCALL: c_long = 24;
const GETEVENTMSG: c_long = 0x4201;
const GETREGSET: c_long = 0x4204;
const SEIZE: c_long = 0x4206;
const LISTEN: c_long = 0x4208;
const GET_SYSCALL_INFO: c_long = 0x420e;

const EVENT_FORK: c_int = 1;
const EVENT_VFORK: c_int = 2;
const EVENT_CLONE: c_int = 3;
const EVENT_EXEC: c_int = 4;
const EVENT_SECCOMP: c_int = 7;
const EVENT_STOP: c_int = 128;

fn ptrace(request: c_long, tid: u32, address: usize, data: usize) -> Result<usize> {
    // SAFETY: the callers below hand over either plain numbers, or an address and a size of memory
    // of theirs that lives.
    check(unsafe { libc::syscall(libc::SYS_ptrace, request, tid as c_long, address, data) })
}

/// Traces a process from now on, without stopping it: its calls that a [filter](crate::seccomp)
/// stops at, its execve(2), the end of calls, and with all that also the processes and threads that
/// it makes. When this thread ends they are killed.
///
/// # Errors
/// `EPERM` where it may not be traced: another one traces it, it has more privilege, or a container
/// or `kernel.yama.ptrace_scope` forbids it.
pub fn seize(pid: i32) -> Result<()> {
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACESECCOMP
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_EXITKILL;
    ptrace(SEIZE, pid as u32, 0, options as usize).map(drop)
}

/// Why a thread has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It enters a call that the filter stops at.
    Enters,
    /// It returns from a call.
    Returns,
    /// It has made a process by fork(2), vfork(2) or clone(2), or a thread: [`event_message`] is
    /// its id. What it has made stops too, with [`Stop::Begins`], before or after this.
    Makes,
    /// Another program is in place, just before execve(2) returns. The thread has the process's id
    /// from now on; [`event_message`] is the id that it had.
    Execs,
    /// It has just been made, or goes on after [`How::Listen`].
    Begins,
    /// A signal such as SIGSTOP has stopped its whole process: it is to [`How::Listen`].
    Group,
    /// It is about to get this signal, which is to be handed on by [`resume`].
    Signal(i32),
}

/// What a traced thread or a child has come to.
#[derive(Clone, Copy, Debug)]
pub enum Came {
    /// It has stopped, and waits for [`resume`].
    Stopped(Stop),
    /// It has ended. The times are 0 unless they were asked for.
    Ended(Ended),
}

/// Waits for a thread that this one traces or a child that it has made to stop or end. With
/// `times`, the times of those that end are looked up; that costs a little at each stop too. If
/// `awake` is some time, it looks again and again for so long, and does not sleep: to wake a
/// processor that has gone to sleep may take far longer than what is waited for.
///
/// # Errors
/// `ECHILD` when there are none any more; `EINTR` when a signal has come; `EAGAIN` when nothing
/// has, while it was awake.
pub fn wait(times: bool, awake: Duration) -> Result<(u32, Came)> {
    let mut status: c_int = 0;
    // SAFETY: zero is a valid rusage.
    let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
    let into = if times {
        &raw mut usage
    } else {
        std::ptr::null_mut()
    };
    let mut wait4 = |how: c_int| {
        // SAFETY: `status` and `usage` live, and a null pointer for the latter is allowed.
        let tid = unsafe {
            libc::wait4(
                -1,
                &raw mut status,
                libc::__WALL | libc::__WNOTHREAD | how,
                into,
            )
        };
        check(c_long::from(tid)).map(|tid| tid as u32)
    };
    let tid = if awake.is_zero() {
        wait4(0)?
    } else {
        let until = monotonic().saturating_add(awake.as_nanos() as u64);
        loop {
            match wait4(libc::WNOHANG)? {
                0 if monotonic() >= until => return Err(Errno::EAGAIN),
                0 => std::hint::spin_loop(),
                tid => break tid,
            }
        }
    };
    if !libc::WIFSTOPPED(status) {
        return Ok((tid, Came::Ended(ended(status, &usage))));
    }
    let signal = libc::WSTOPSIG(status);
    let stop = match status >> 16 {
        EVENT_SECCOMP => Stop::Enters,
        EVENT_FORK | EVENT_VFORK | EVENT_CLONE => Stop::Makes,
        EVENT_EXEC => Stop::Execs,
        EVENT_STOP if signal == libc::SIGTRAP => Stop::Begins,
        EVENT_STOP => Stop::Group,
        _ if signal == libc::SIGTRAP | 0x80 => Stop::Returns,
        _ => Stop::Signal(signal),
    };
    Ok((tid, Came::Stopped(stop)))
}

/// How a stopped thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// To its next stop.
    Cont,
    /// To its next stop, or to the return of the call that it is in.
    Syscall,
    /// Not, until SIGCONT comes: after [`Stop::Group`].
    Listen,
}

/// Lets a stopped thread go on, with this signal if it is not 0.
///
/// # Errors
/// `ESRCH` when something has killed it meanwhile: [`wait`] will tell.
pub fn resume(tid: u32, how: How, signal: i32) -> Result<()> {
    let request = match how {
        How::Cont => CONT,
        How::Syscall => SYSCALL,
        How::Listen => LISTEN,
    };
    ptrace(request, tid, 0, signal as usize).map(drop)
}

/// What [`Stop::Makes`] and [`Stop::Execs`] are about.
pub fn event_message(tid: u32) -> Result<u32> {
    let mut message: libc::c_ulong = 0;
    ptrace(GETEVENTMSG, tid, 0, (&raw mut message) as usize)?;
    Ok(message as u32)
}

/// struct ptrace_syscall_info of the kernel, with the longest of its variants.
#[repr(C)]
struct SyscallInfo {
    op: u8,
    pad: [u8; 3],
    arch: u32,
    instruction_pointer: u64,
    stack_pointer: u64,
    /// Number and arguments; or the result, and whether it is an error.
    words: [u64; 8],
}

/// What a stopped thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doing {
    /// Its architecture: [`crate::seccomp::ARCH`] unless it is a program of another word size.
    pub arch: u32,
    /// Its call, if it is at one.
    pub call: Option<At>,
}

/// Which end of a call a thread is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// It enters it.
    Entry {
        /// The number of the call.
        number: u64,
        /// Its arguments.
        args: [u64; 6],
    },
    /// It returns from it.
    Exit {
        /// What it answers: minus the error number if it fails.
        result: i64,
    },
}

/// Asks a stopped thread what it is doing.
///
/// # Errors
/// `EIO` before Linux 5.3.
pub fn syscall_info(tid: u32) -> Result<Doing> {
    let mut info = MaybeUninit::<SyscallInfo>::zeroed();
    ptrace(
        GET_SYSCALL_INFO,
        tid,
        size_of::<SyscallInfo>(),
        info.as_mut_ptr() as usize,
    )?;
    // SAFETY: zeroed above, and every bit pattern of the plain integers in it is valid.
    let info = unsafe { info.assume_init() };
    let [first, rest @ .., _] = info.words;
    let call = match info.op {
        1 | 3 => Some(At::Entry {
            number: first,
            args: rest,
        }),
        2 => Some(At::Exit {
            result: first.cast_signed(),
        }),
        _ => None,
    };
    Ok(Doing {
        arch: info.arch,
        call,
    })
}

/// The number and the first argument of the call that a thread is in, at any stop; `None` where
/// that cannot be said.
pub fn call_in_progress(tid: u32) -> Option<(u64, u64)> {
    // Where the general registers have them.
    const PLACES: Option<(usize, usize)> = if cfg!(target_arch = "x86_64") {
        Some((15, 14)) // orig_rax, rdi of struct user_regs_struct
    } else if cfg!(target_arch = "aarch64") {
        Some((8, 0)) // x8, x0
    } else {
        None
    };
    const NT_PRSTATUS: usize = 1;
    let (number, first) = PLACES?;
    let mut registers = [0_u64; 40];
    let mut part = libc::iovec {
        iov_base: registers.as_mut_ptr().cast::<c_void>(),
        iov_len: size_of_val(&registers),
    };
    ptrace(GETREGSET, tid, NT_PRSTATUS, (&raw mut part) as usize).ok()?;
    // A 32-bit program has fewer and smaller ones.
    if part.iov_len < 27 * size_of::<u64>() {
        return None;
    }
    Some((*registers.get(number)?, *registers.get(first)?))
}

/// Reads memory of a traced process, page by page, as far as it can be read; says how many bytes
/// that were. 0 when not even the first can.
/// [process_vm_readv(2)](https://man7.org/linux/man-pages/man2/process_vm_readv.2.html)
pub fn read_memory(tid: u32, address: u64, into: &mut [u8]) -> usize {
    // aarch64 allows tags in the upper byte, which this call does not take.
    const PLACE: u64 = if cfg!(target_arch = "aarch64") {
        u64::MAX >> 8
    } else {
        u64::MAX
    };
    const NONE: libc::iovec = libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    };
    let page = page_size();
    let mut remote = [NONE; 8];
    let (mut at, mut left, mut parts) = ((address & PLACE) as usize, into.len(), 0);
    for part in &mut remote {
        let here = left.min(page - at % page);
        if here == 0 {
            break;
        }
        *part = libc::iovec {
            iov_base: at as *mut c_void,
            iov_len: here,
        };
        (at, left, parts) = (at.wrapping_add(here), left - here, parts + 1);
    }
    let local = libc::iovec {
        iov_base: into.as_mut_ptr().cast::<c_void>(),
        iov_len: into.len(),
    };
    // SAFETY: `local` is all of `into`, which lives; what `remote` says is the other process's, and
    // the kernel checks it.
    let read = unsafe {
        let (local, remote) = (&raw const local, remote.as_ptr());
        libc::syscall(
            libc::SYS_process_vm_readv,
            tid as c_long,
            local,
            1_usize,
            remote,
            parts,
            0_usize,
        )
    };
    check(read).unwrap_or(0).min(into.len())
}

/// Ends a process that this one traces, whatever it is doing.
pub fn kill(pid: u32) {
    // SAFETY: no pointers; a process that is traced keeps its id until the tracer has waited for
    // it.
    unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Held;
    use crate::seccomp::{ARCH, Filter};

    #[test]
    fn a_traced_command_stops_at_its_calls_and_its_names_can_be_read() {
        let filter = Filter::trace([libc::SYS_execve as u32]);
        let program = c"/bin/true";
        let held = Held::fork(program, &[program.to_owned()], || {
            filter.install().map(drop)
        })
        .unwrap();
        seize(held.id()).unwrap();
        let pid = held.id() as u32;
        let _running = held.go().unwrap();
        let mut stops = Vec::new();
        let ended = loop {
            match wait(true, Duration::ZERO).unwrap() {
                (tid, _) if tid != pid => {} // a child that a test has left behind whose thread is no more
                (_, Came::Ended(ended)) => break ended,
                (tid, Came::Stopped(stop)) => {
                    let doing = syscall_info(tid).unwrap();
                    assert_eq!(doing.arch, ARCH);
                    match (stop, doing.call) {
                        (Stop::Enters, Some(At::Entry { number, args })) => {
                            let mut name = [0; 4096];
                            let read = read_memory(tid, args[0], &mut name);
                            assert_eq!(
                                (number, name.get(..10)),
                                (libc::SYS_execve as u64, Some(&b"/bin/true\0"[..]))
                            );
                            assert!(read >= 10);
                            assert_eq!(read_memory(tid, 0, &mut name), 0);
                            assert_eq!(call_in_progress(tid), Some((number, args[0])));
                        }
                        (Stop::Execs, _) => assert_eq!(event_message(tid), Ok(pid)),
                        (Stop::Returns, call) => assert_eq!(call, Some(At::Exit { result: 0 })),
                        other => panic!("{other:?}"),
                    }
                    stops.push(stop);
                    resume(
                        tid,
                        if stop == Stop::Returns {
                            How::Cont
                        } else {
                            How::Syscall
                        },
                        0,
                    )
                    .unwrap();
                }
            }
        };
        assert_eq!(
            (&stops[..], ended.status),
            (&[Stop::Enters, Stop::Execs, Stop::Returns][..], Some(0))
        );
    }
}
