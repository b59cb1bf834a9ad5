//! The stops of traced processes. [ptrace(2)](https://man7.org/linux/man-pages/man2/ptrace.2.html)
//!
//! Calls of this module are not counted, being no file-system work. A tracer is a thread: only the
//! thread that has called [`seize`] may call the other functions.

use std::mem::MaybeUninit;
use std::time::Duration;

use libc::{c_int, c_long, c_void};

use crate::clock::monotonic;
use crate::errno::check;
use crate::memory::page_size;
use crate::process::{ProcessEnd, ended};
use crate::signals::block;
use crate::{Errno, Result};

// Requests of ptrace(2): the C libraries disagree on the type of these constants, and lack some.
const POKEDATA: c_long = 5;
const CONT: c_long = 7;
const DETACH: c_long = 17;
const SYSCALL: c_long = 24;
const GETEVENTMSG: c_long = 0x4201;
const GETREGSET: c_long = 0x4204;
const SETREGSET: c_long = 0x4205;
const SEIZE: c_long = 0x4206;
const INTERRUPT: c_long = 0x4207;
const LISTEN: c_long = 0x4208;
const GET_SYSCALL_INFO: c_long = 0x420e;

const EVENT_STOP: c_int = 128;

fn ptrace(request: c_long, tid: u32, address: usize, data: usize) -> Result<usize> {
    // SAFETY: the callers below pass either plain numbers, or address and size of live memory.
    check(unsafe { libc::syscall(libc::SYS_ptrace, request, tid as c_long, address, data) })
}

/// Traces a process and its future children and threads, without stopping it: the calls that a
/// [filter](crate::seccomp) stops at, their returns, and execve(2). The kernel kills the traced
/// processes when the tracing thread ends.
///
/// # Errors
/// `EPERM` if the process is traced already, has more privilege, or a container or
/// `kernel.yama.ptrace_scope` forbids it.
pub fn seize(pid: i32) -> Result<()> {
    let options = OPTIONS | libc::PTRACE_O_TRACESECCOMP | libc::PTRACE_O_EXITKILL;
    ptrace(SEIZE, pid as u32, 0, options as usize).map(drop)
}

/// ptrace(2) options for both [`seize`] and [`attach`].
const OPTIONS: c_int = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC;

/// Traces a running thread, and its future children and threads. When the tracing thread ends, the
/// kernel detaches the traced threads, and they continue. The traced thread stops soon, with
/// [`PtraceStop::Begins`]: until then its calls cause no stops.
///
/// # Errors
/// The errors of [`seize`]; `ESRCH` if the thread has ended.
pub fn attach(tid: u32) -> Result<()> {
    ptrace(SEIZE, tid, 0, OPTIONS as usize)?;
    interrupt(tid)
}

/// Makes a traced thread stop soon, with [`PtraceStop::Begins`] unless a different stop comes
/// before.
///
/// # Errors
/// `ESRCH` if the thread has ended.
pub fn interrupt(tid: u32) -> Result<()> {
    ptrace(INTERRUPT, tid, 0, 0).map(drop)
}

/// Ends the tracing of a stopped thread, which continues with `signal` unless that is 0.
///
/// # Errors
/// `ESRCH` if the thread has been killed meanwhile.
pub fn detach(tid: u32, signal: i32) -> Result<()> {
    ptrace(DETACH, tid, 0, signal as usize).map(drop)
}

/// Why a traced thread has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PtraceStop {
    /// The thread enters a system call at which the filter stops.
    Enters,
    /// The thread returns from a system call.
    Returns,
    /// The thread has created a process or thread, whose id is [`event_message`]. The new process
    /// or thread stops too, with [`PtraceStop::Begins`], before or after this stop.
    Makes,
    /// execve(2) has loaded another program, and is about to return. The thread now has the
    /// process's id; [`event_message`] is its previous id.
    Execs,
    /// The thread was just created, or continues after [`ResumeMode::Listen`].
    Begins,
    /// This signal, such as SIGSTOP, has stopped the thread's process: [`ResumeMode::Listen`] must
    /// follow.
    Group(i32),
    /// The thread is about to get this signal, which [`resume`] must deliver.
    Signal(i32),
}

/// A state change of a traced thread.
#[derive(Clone, Copy, Debug)]
pub enum ThreadEvent {
    /// The thread has stopped, until [`resume`].
    Stopped(PtraceStop),
    /// The thread has ended. The CPU times are 0 unless [`wait`] was called with `times`.
    Ended(ProcessEnd),
}

/// Waits for a traced thread to stop or end. With `times`, reads the CPU times of a thread that has
/// ended, which makes each stop a little slower. Polls for the duration `spin` before it sleeps,
/// since waking an idle processor may take far longer than the event. With a `limit`, sleeps no
/// longer than that; this takes more calls, and SIGCHLD stays blocked.
///
/// # Errors
/// `ECHILD` if no traced thread is left; `EINTR` after a signal; `EAGAIN` if nothing happened while
/// polling, or within the limit.
pub fn wait(times: bool, spin: Duration, limit: Option<Duration>) -> Result<(u32, ThreadEvent)> {
    let mut status: c_int = 0;
    // SAFETY: zero is a valid rusage.
    let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
    let into = if times {
        &raw mut usage
    } else {
        std::ptr::null_mut()
    };
    let mut wait4 = |how: c_int| {
        // Without __WALL, wait4(2) waits for traced threads only, not for children that this
        // process had before its execve(2).
        let how = libc::__WCLONE | libc::__WNOTHREAD | how;
        // SAFETY: `status` and `usage` live, and a null pointer for the latter is allowed.
        let tid = unsafe { libc::wait4(-1, &raw mut status, how, into) };
        check(c_long::from(tid)).map(|tid| tid as u32)
    };
    let tid = if spin.is_zero() {
        match limit {
            None => wait4(0)?,
            Some(limit) => {
                let until = monotonic().saturating_add(limit.as_nanos() as u64);
                loop {
                    // Block SIGCHLD, which the kernel sends when a traced thread stops or ends,
                    // before checking for state changes, so that a later change ends the sleep.
                    let children = block(&[libc::SIGCHLD]);
                    match wait4(libc::WNOHANG)? {
                        0 => sleep_until(&children, until)?,
                        tid => break tid,
                    }
                }
            }
        }
    } else {
        let until = monotonic().saturating_add(spin.as_nanos() as u64);
        loop {
            match wait4(libc::WNOHANG)? {
                0 if monotonic() >= until => return Err(Errno::EAGAIN),
                0 => std::hint::spin_loop(),
                tid => break tid,
            }
        }
    };
    if !libc::WIFSTOPPED(status) {
        return Ok((tid, ThreadEvent::Ended(ended(status, &usage))));
    }
    let signal = libc::WSTOPSIG(status);
    let stop = match status >> 16 {
        libc::PTRACE_EVENT_SECCOMP => PtraceStop::Enters,
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
            PtraceStop::Makes
        }
        libc::PTRACE_EVENT_EXEC => PtraceStop::Execs,
        EVENT_STOP if signal == libc::SIGTRAP => PtraceStop::Begins,
        EVENT_STOP => PtraceStop::Group(signal),
        _ if signal == libc::SIGTRAP | 0x80 => PtraceStop::Returns,
        _ => PtraceStop::Signal(signal),
    };
    Ok((tid, ThreadEvent::Stopped(stop)))
}

/// Sleeps until one of the blocked signals arrives. `EAGAIN` when the monotonic clock reaches
/// `until`.
fn sleep_until(signals: &libc::sigset_t, until: u64) -> Result<()> {
    let left = Duration::from_nanos(until.saturating_sub(monotonic()));
    // SAFETY: zero is a valid timespec.
    let mut time = unsafe { std::mem::zeroed::<libc::timespec>() };
    time.tv_sec = left.as_secs().cast_signed();
    time.tv_nsec = left.subsec_nanos() as c_long;
    // SAFETY: the pointers are to live values, or null where that is allowed.
    let got = unsafe { libc::sigtimedwait(signals, std::ptr::null_mut(), &raw const time) };
    match got {
        -1 => Err(Errno::last()),
        _ => Ok(()),
    }
}

/// How a stopped thread continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumeMode {
    /// Run to the next stop.
    Cont = CONT as isize,
    /// Run to the next stop, or to the return of the present system call.
    Syscall = SYSCALL as isize,
    /// Stay stopped until SIGCONT: after [`PtraceStop::Group`].
    Listen = LISTEN as isize,
}

/// Continues a stopped thread, with `signal` unless that is 0.
///
/// # Errors
/// `ESRCH` if the thread has been killed meanwhile: [`wait`] will return it.
pub fn resume(tid: u32, how: ResumeMode, signal: i32) -> Result<()> {
    ptrace(how as c_long, tid, 0, signal as usize).map(drop)
}

/// The thread id that belongs to [`PtraceStop::Makes`] or [`PtraceStop::Execs`]; at [`PtraceStop::Enters`] the data of the seccomp filter.
pub fn event_message(tid: u32) -> Result<u32> {
    let mut message: libc::c_ulong = 0;
    ptrace(GETEVENTMSG, tid, 0, (&raw mut message) as usize)?;
    Ok(message as u32)
}

/// `struct ptrace_syscall_info`, as long as its longest variant.
#[repr(C)]
struct SyscallInfo {
    op: u8,
    pad: [u8; 3],
    arch: u32,
    instruction_pointer: u64,
    stack_pointer: u64,
    /// At entry the number and the arguments; at return the result, and whether it is an error.
    words: [u64; 8],
}

/// The state of a stopped thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoppedThread {
    /// Architecture of the program, `AUDIT_ARCH_*`: [`crate::seccomp::ARCH`], unless it has a
    /// different word size.
    pub arch: u32,
    /// The system call that the thread enters or returns from.
    pub call: Option<SyscallStop>,
}

/// Entry or return of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum SyscallStop {
    Entry {
        number: u64,
        args: [u64; 6],
    },
    Exit {
        /// Result of the call; a negative error number if it failed.
        result: i64,
    },
}

/// Reads the state of a stopped thread. `PTRACE_GET_SYSCALL_INFO`
///
/// # Errors
/// `EIO` before Linux 5.3.
pub fn syscall_info(tid: u32) -> Result<StoppedThread> {
    let mut info = MaybeUninit::<SyscallInfo>::zeroed();
    let (len, at) = (size_of::<SyscallInfo>(), info.as_mut_ptr() as usize);
    ptrace(GET_SYSCALL_INFO, tid, len, at)?;
    // SAFETY: zeroed above, and every bit pattern of the plain integers in it is valid.
    let info = unsafe { info.assume_init() };
    let [first, rest @ .., _] = info.words;
    let call = match info.op {
        1 | 3 => Some(SyscallStop::Entry {
            number: first,
            args: rest,
        }),
        2 => Some(SyscallStop::Exit {
            result: first.cast_signed(),
        }),
        _ => None,
    };
    Ok(StoppedThread {
        arch: info.arch,
        call,
    })
}

/// The registers of a stopped thread that hold number, arguments and result of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct CallRegisters {
    pub number: u64,
    pub args: [u64; 6],
    /// Result register: valid after the call has returned; a negative error number if it failed.
    pub result: i64,
}

/// Indices in the general registers: of the call number, its arguments and its result.
type RegisterIndices = (usize, [usize; 6], usize);
const REGISTERS: Option<RegisterIndices> = if cfg!(target_arch = "x86_64") {
    // orig_rax; rdi, rsi, rdx, r10, r8, r9; rax of struct user_regs_struct
    Some((15, [14, 13, 12, 7, 9, 8], 10))
} else if cfg!(target_arch = "aarch64") {
    Some((8, [0, 1, 2, 3, 4, 5], 0)) // x8; x0 to x5; x0
} else {
    None
};

/// Gets or sets the first `len` bytes of the general registers. Returns the registers, and the
/// number of bytes that the kernel read or wrote.
fn registers(
    request: c_long,
    tid: u32,
    mut values: [u64; 40],
    len: usize,
) -> Result<([u64; 40], usize)> {
    const NT_PRSTATUS: usize = 1;
    let mut part = libc::iovec {
        iov_base: values.as_mut_ptr().cast::<c_void>(),
        iov_len: size_of_val(&values).min(len),
    };
    ptrace(request, tid, NT_PRSTATUS, (&raw mut part) as usize)?;
    Ok((values, part.iov_len))
}

/// Reads the registers of a thread at any stop. They do not show whether the thread enters a call,
/// returns from it, or is in none. `None` for a 32-bit program, and on unsupported processors.
/// `PTRACE_GETREGSET`
///
/// # Errors
/// `ESRCH`: the thread is not stopped, for example because it has been killed.
pub fn call_registers(tid: u32) -> Result<Option<CallRegisters>> {
    let Some((number, args, result)) = REGISTERS else {
        return Ok(None);
    };
    let (registers, len) = registers(GETREGSET, tid, [0; 40], usize::MAX)?;
    // A 32-bit program has fewer and smaller registers.
    let is_64_bit = len >= 27 * size_of::<u64>();
    Ok(is_64_bit.then(|| CallRegisters {
        number: registers[number],
        args: args.map(|place| registers[place]),
        result: registers[result].cast_signed(),
    }))
}

/// Changes the first argument of the system call that a stopped thread enters. `PTRACE_SETREGSET`
///
/// # Errors
/// `ESRCH`: the thread is not stopped; `EINVAL` on an unsupported processor.
pub fn set_first_argument(tid: u32, value: u64) -> Result<()> {
    let Some((_, [first, ..], _)) = REGISTERS else {
        return Err(Errno::EINVAL);
    };
    let (mut values, len) = registers(GETREGSET, tid, [0; 40], usize::MAX)?;
    values[first] = value;
    registers(SETREGSET, tid, values, len).map(drop)
}

/// Makes a thread that stops at [`PtraceStop::Enters`] skip the system call, which then fails with this error: what a seccomp filter does
/// in a process without a tracer. `PTRACE_SETREGSET`
///
/// # Errors
/// `ESRCH`: the thread is not stopped; `EINVAL`: a 32-bit program, or an unsupported processor.
pub fn refuse_call(tid: u32, error: Errno) -> Result<()> {
    /// The register set with the number of the system call, on aarch64.
    const NT_ARM_SYSTEM_CALL: usize = 0x404;
    if call_registers(tid)?.is_none() {
        return Err(Errno::EINVAL);
    }
    let Some((number, _, result)) = REGISTERS else {
        return Err(Errno::EINVAL);
    };
    let (mut values, len) = registers(GETREGSET, tid, [0; 40], usize::MAX)?;
    values[result] = i64::from(-error.0).cast_unsigned();
    if cfg!(target_arch = "x86_64") {
        values[number] = u64::MAX;
    }
    registers(SETREGSET, tid, values, len)?;
    if cfg!(target_arch = "aarch64") {
        let mut none: c_int = -1;
        let mut part = libc::iovec {
            iov_base: (&raw mut none).cast::<c_void>(),
            iov_len: size_of_val(&none),
        };
        ptrace(SETREGSET, tid, NT_ARM_SYSTEM_CALL, (&raw mut part) as usize)?;
    }
    Ok(())
}

/// Writes a word to the memory of a stopped thread, even where it is read-only for the program.
/// `PTRACE_POKEDATA`
///
/// # Errors
/// `ESRCH`: the thread is not stopped; `EIO`: the address is not mapped.
pub fn write_word(tid: u32, address: u64, word: u64) -> Result<()> {
    ptrace(POKEDATA, tid, address as usize, word as usize).map(drop)
}

/// Reads memory of a traced process, page by page up to the first unreadable one, and returns the
/// number of bytes.
/// [process_vm_readv(2)](https://man7.org/linux/man-pages/man2/process_vm_readv.2.html)
pub fn read_memory(tid: u32, address: u64, into: &mut [u8]) -> usize {
    // aarch64 allows tags in the upper byte of an address, which process_vm_readv(2) does not
    // accept.
    const ADDRESS: u64 = if cfg!(target_arch = "aarch64") {
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
    let (mut at, mut left, mut parts) = ((address & ADDRESS) as usize, into.len(), 0);
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
    let tid = tid as libc::pid_t;
    // SAFETY: `local` is all of `into`, which lives; the kernel checks the addresses of `remote`.
    let read =
        unsafe { libc::process_vm_readv(tid, &raw const local, 1, remote.as_ptr(), parts, 0) };
    usize::try_from(read).unwrap_or(0).min(into.len())
}

/// Kills a traced process.
pub fn kill(pid: u32) {
    // SAFETY: no pointers; a traced process keeps its id until the tracer has reaped it.
    unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::HeldCommand;
    use crate::seccomp::{ARCH, Filter};

    #[test]
    fn a_traced_command_stops_at_its_calls_and_its_memory_is_readable() {
        let filter = Filter::trace([libc::SYS_execve as u32], (u32::MAX, 0));
        let program = c"/bin/true";
        let held = HeldCommand::fork(program, &[program.to_owned()], || {
            filter.install().map(drop)
        })
        .unwrap();
        seize(held.id()).unwrap();
        let pid = held.id() as u32;
        let _running = held.go().unwrap();
        let mut stops = Vec::new();
        let ended = loop {
            match wait(true, Duration::ZERO, None).unwrap() {
                (tid, _) if tid != pid => {} // a child of another test, whose thread has ended
                (_, ThreadEvent::Ended(ended)) => break ended,
                (tid, ThreadEvent::Stopped(stop)) => {
                    let doing = syscall_info(tid).unwrap();
                    assert_eq!(doing.arch, ARCH);
                    match (stop, doing.call) {
                        (PtraceStop::Enters, Some(SyscallStop::Entry { number, args })) => {
                            let mut name = [0; 4096];
                            let read = read_memory(tid, args[0], &mut name);
                            assert_eq!(
                                (number, name.get(..10)),
                                (libc::SYS_execve as u64, Some(&b"/bin/true\0"[..]))
                            );
                            assert!(read >= 10);
                            assert_eq!(read_memory(tid, 0, &mut name), 0);
                            let registers = call_registers(tid).unwrap().unwrap();
                            assert_eq!((registers.number, registers.args), (number, args));
                        }
                        (PtraceStop::Execs, _) => assert_eq!(event_message(tid), Ok(pid)),
                        (PtraceStop::Returns, call) => {
                            assert_eq!(call, Some(SyscallStop::Exit { result: 0 }));
                            assert_eq!(call_registers(tid).unwrap().unwrap().result, 0);
                        }
                        other => panic!("{other:?}"),
                    }
                    stops.push(stop);
                    resume(
                        tid,
                        if stop == PtraceStop::Returns {
                            ResumeMode::Cont
                        } else {
                            ResumeMode::Syscall
                        },
                        0,
                    )
                    .unwrap();
                }
            }
        };
        assert_eq!(
            (&stops[..], ended.status),
            (
                &[PtraceStop::Enters, PtraceStop::Execs, PtraceStop::Returns][..],
                Some(0)
            )
        );
    }
}
