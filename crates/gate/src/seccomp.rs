//! A filter that stops a traced process at chosen system calls.
//! [seccomp(2)](https://man7.org/linux/man-pages/man2/seccomp.2.html)

use libc::{c_long, c_ulong, sock_filter};

use crate::errno::check;
use crate::{Errno, Result};

/// `AUDIT_ARCH_*` of this program; 0 on unsupported architectures.
pub const ARCH: u32 = if cfg!(target_arch = "x86_64") {
    0xc000_003e
} else if cfg!(target_arch = "aarch64") {
    0xc000_00b7
} else {
    0
};

/// Offset of the system call number in `struct seccomp_data`; [`ARCH_AT`] is the offset of the
/// architecture.
const NUMBER_AT: u32 = 0;
const ARCH_AT: u32 = 4;
/// Offset of the lower half of the first argument: both supported architectures are little-endian.
const FIRST_ARGUMENT_AT: u32 = 16;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const IF_ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const fn step(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// The data (`SECCOMP_RET_DATA`) with which a filter of this module stops a thread, as [`crate::ptrace::event_message`] returns it.
/// A traced program may have filters of its own, with other data.
pub const TAG: u32 = 0xfa74;
const TRACE: u32 = libc::SECCOMP_RET_TRACE | TAG;

/// A seccomp filter. Installing it allocates no memory, so that a forked child may do so.
pub struct Filter(Vec<sock_filter>);

impl Filter {
    /// Builds a filter that stops (`SECCOMP_RET_TRACE`) at the calls with these numbers, and at the
    /// call `flagged.0` if its first argument has one of the flags `flagged.1`. All other calls are
    /// allowed, including all of 32-bit programs and of x32, which have different numbers.
    pub fn trace(numbers: impl IntoIterator<Item = u32>, flagged: (u32, u32)) -> Filter {
        let mut numbers: Vec<u32> = numbers.into_iter().collect();
        numbers.sort_unstable();
        numbers.dedup();
        // Bounds of runs of numbers: calls are traced from the first bound on, not from the second
        // on, and so on.
        let mut changes: Vec<u32> = Vec::new();
        for number in numbers {
            match changes.last_mut() {
                Some(end) if *end == number => *end = number.saturating_add(1),
                _ => changes.extend([number, number.saturating_add(1)]),
            }
        }
        let mut steps = vec![
            step(LOAD, 0, 0, ARCH_AT),
            step(IF_EQUAL, 1, 0, ARCH),
            step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
            step(LOAD, 0, 0, NUMBER_AT),
            step(IF_EQUAL, 0, 4, flagged.0),
            step(LOAD, 0, 0, FIRST_ARGUMENT_AT),
            step(IF_ANY_BIT, 0, 1, flagged.1),
            step(RETURN, 0, 0, TRACE),
            step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        search(&changes, false, &mut steps);
        Filter(steps)
    }

    /// Installs the filter permanently for the calling process and its future children. Without a
    /// tracer, the chosen calls return `ENOSYS`. Returns whether `PR_SET_NO_NEW_PRIVS` had to be
    /// set, which a process without `CAP_SYS_ADMIN` needs.
    pub fn install(&self) -> Result<bool> {
        match self.set() {
            Err(Errno::EACCES) => {
                // SAFETY: no pointers.
                check(c_long::from(unsafe {
                    libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
                }))?;
                self.set().map(|()| true)
            }
            other => other.map(|()| false),
        }
    }

    fn set(&self) -> Result<()> {
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        let program = libc::sock_fprog {
            len: self.0.len() as u16,
            filter: self.0.as_ptr().cast_mut(),
        };
        let set = |flags: c_ulong| {
            // SAFETY: `program` and its instructions live, and the kernel only reads them.
            check(unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) })
        };
        // Without this flag, kernels before 5.16 disable speculative execution, which slows
        // programs down.
        match set(libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW) {
            Err(Errno::EINVAL) => set(0),
            other => other,
        }
        .map(drop)
    }
}

/// Appends a binary search of the call number in `changes`; numbers below the first change are
/// traced if `inside`.
fn search(changes: &[u32], inside: bool, steps: &mut Vec<sock_filter>) {
    let middle = changes.len() / 2;
    let (below, [change, above @ ..]) = changes.split_at(middle) else {
        let verdict = if inside {
            TRACE
        } else {
            libc::SECCOMP_RET_ALLOW
        };
        steps.push(step(RETURN, 0, 0, verdict));
        return;
    };
    // A conditional BPF jump skips at most 255 instructions; an unconditional one, any number.
    steps.push(step(IF_AT_LEAST, 0, 1, *change));
    let jump = steps.len();
    steps.push(step(JUMP, 0, 0, 0));
    search(below, inside, steps);
    steps[jump].k = (steps.len() - jump - 1) as u32;
    search(above, inside ^ middle.is_multiple_of(2), steps);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The action that the filter returns for a system call.
    fn verdict(filter: &Filter, arch: u32, number: u32) -> u32 {
        verdict_of(filter, arch, number, 0)
    }

    fn verdict_of(filter: &Filter, arch: u32, number: u32, argument: u32) -> u32 {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let step = filter.0[at];
            at += 1;
            match step.code {
                LOAD => {
                    loaded = match step.k {
                        ARCH_AT => arch,
                        FIRST_ARGUMENT_AT => argument,
                        _ => number,
                    }
                }
                IF_ANY_BIT => {
                    at += usize::from(if loaded & step.k != 0 {
                        step.jt
                    } else {
                        step.jf
                    })
                }
                IF_EQUAL => at += usize::from(if loaded == step.k { step.jt } else { step.jf }),
                IF_AT_LEAST => at += usize::from(if loaded >= step.k { step.jt } else { step.jf }),
                JUMP => at += step.k as usize,
                _ => return step.k,
            }
        }
    }

    #[test]
    fn a_filter_traces_only_the_chosen_numbers() {
        for numbers in [
            &[][..],
            &[0],
            &[1],
            &[0, 1, 2],
            &[7, 3, 3, 5],
            &[0, 2, 3, 4, 9, 10, 257, 439, 440],
        ] {
            let filter = Filter::trace(numbers.iter().copied(), FLAGGED);
            for number in (0..500).chain([0x4000_0000, 0x4000_0003, u32::MAX]) {
                let traced = verdict(&filter, ARCH, number) == TRACE;
                assert_eq!(traced, numbers.contains(&number), "{number} of {numbers:?}");
                assert_eq!(
                    verdict(&filter, 0x4000_0003, number),
                    libc::SECCOMP_RET_ALLOW
                );
            }
        }
        let many = Filter::trace((0..450).step_by(2), FLAGGED);
        assert!((0..450).all(|n| (verdict(&many, ARCH, n) == TRACE) == (n % 2 == 0)));
        assert!(many.0.len() < 4096);
        for (argument, stops) in [
            (0, false),
            (0x11, false),
            (FLAGGED.1, true),
            (u32::MAX, true),
        ] {
            let verdict = verdict_of(&many, ARCH, FLAGGED.0, argument);
            assert_eq!(verdict == TRACE, stops, "{argument:#x}");
        }
    }

    const FLAGGED: (u32, u32) = (501, 0x80_0000);
}
