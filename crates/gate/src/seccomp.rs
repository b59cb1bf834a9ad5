//! A filter that stops a traced process at some of its system calls, and at no others.
//! [seccomp(2)](https://man7.org/linux/man-pages/man2/seccomp.2.html)

use libc::{c_long, c_ulong, sock_filter};

use crate::errno::check;
use crate::{Errno, Result};

/// The architecture of this program, as the kernel's audit names it (`AUDIT_ARCH_*`); 0 where
/// nobody has written it down.
pub const ARCH: u32 = if cfg!(target_arch = "x86_64") {
    0xc000_003e
} else if cfg!(target_arch = "aarch64") {
    0xc000_00b7
} else {
    0
};

/// Where struct seccomp_data has the number of the call, and the architecture.
const NUMBER_AT: u32 = 0;
const ARCH_AT: u32 = 4;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const GO_ON: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const fn step(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// A filter, made before it is needed: installing it allocates nothing.
pub struct Filter(Vec<sock_filter>);

impl Filter {
    /// One that stops at the calls of these numbers (`SECCOMP_RET_TRACE`) and lets all others pass;
    /// also those that a 32-bit program makes, and those of x32, which have numbers of their own.
    pub fn trace(numbers: impl IntoIterator<Item = u32>) -> Filter {
        let mut numbers: Vec<u32> = numbers.into_iter().collect();
        numbers.sort_unstable();
        numbers.dedup();
        // Where it changes whether a number is one of them, beginning with 0, which is none.
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
        ];
        search(&changes, false, &mut steps);
        Filter(steps)
    }

    /// Puts the calling process under it, for good, and all that it will ever start. Whoever is not
    /// traced then gets `ENOSYS` for those calls. Says whether this took the right to gain
    /// privileges by execve(2) from them (`PR_SET_NO_NEW_PRIVS`), as it must from a process without
    /// `CAP_SYS_ADMIN`.
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
        let len = self.0.len() as u16;
        let program = libc::sock_fprog {
            len,
            filter: self.0.as_ptr().cast_mut(),
        };
        let set = |flags: c_ulong| {
            // SAFETY: `program` and its instructions live, and the kernel only reads them.
            check(unsafe {
                libc::syscall(
                    libc::SYS_seccomp,
                    libc::SECCOMP_SET_MODE_FILTER,
                    flags,
                    &raw const program,
                )
            })
        };
        // Without this flag, kernels before 5.16 also turn off speculation, which makes programs
        // slower than they are.
        match set(libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW) {
            Err(Errno::EINVAL) => set(0),
            other => other,
        }
        .map(drop)
    }
}

/// The steps that find the place of a number between `changes` by halving; below the first, it is
/// one of those sought if `inside`.
fn search(changes: &[u32], inside: bool, steps: &mut Vec<sock_filter>) {
    let middle = changes.len() / 2;
    let (Some(change), below) = (
        changes.get(middle),
        changes.get(..middle).unwrap_or_default(),
    ) else {
        let verdict = if inside {
            libc::SECCOMP_RET_TRACE
        } else {
            libc::SECCOMP_RET_ALLOW
        };
        steps.push(step(RETURN, 0, 0, verdict));
        return;
    };
    // A jump on a condition goes 255 steps at most; one without, any number.
    steps.push(step(IF_AT_LEAST, 0, 1, *change));
    let jump = steps.len();
    steps.push(step(GO_ON, 0, 0, 0));
    search(below, inside, steps);
    if let Some(jump_over) = steps.len().checked_sub(jump + 1)
        && let Some(jump) = steps.get_mut(jump)
    {
        jump.k = jump_over as u32;
    }
    search(
        changes.get(middle + 1..).unwrap_or_default(),
        inside ^ middle.is_multiple_of(2),
        steps,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the filter says, worked out step by step.
    fn verdict(filter: &Filter, arch: u32, number: u32) -> u32 {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let step = filter.0[at];
            at += 1;
            match step.code {
                LOAD => loaded = if step.k == ARCH_AT { arch } else { number },
                IF_EQUAL => at += usize::from(if loaded == step.k { step.jt } else { step.jf }),
                IF_AT_LEAST => at += usize::from(if loaded >= step.k { step.jt } else { step.jf }),
                GO_ON => at += step.k as usize,
                _ => return step.k,
            }
        }
    }

    #[test]
    fn it_stops_at_just_these() {
        for numbers in [
            &[][..],
            &[0],
            &[1],
            &[0, 1, 2],
            &[7, 3, 3, 5],
            &[0, 2, 3, 4, 9, 10, 257, 439, 440],
        ] {
            let filter = Filter::trace(numbers.iter().copied());
            for number in (0..500).chain([0x4000_0000, 0x4000_0003, u32::MAX]) {
                let traced = verdict(&filter, ARCH, number) == libc::SECCOMP_RET_TRACE;
                assert_eq!(traced, numbers.contains(&number), "{number} of {numbers:?}");
                assert_eq!(
                    verdict(&filter, 0x4000_0003, number),
                    libc::SECCOMP_RET_ALLOW
                );
            }
        }
        let many = Filter::trace((0..450).step_by(2));
        assert!(
            (0..450).all(|n| (verdict(&many, ARCH, n) == libc::SECCOMP_RET_TRACE) == (n % 2 == 0))
        );
        assert!(many.0.len() < 4096);
    }
}
