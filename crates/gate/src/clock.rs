//! Clocks, and the processors that a thread may run on. These calls are not counted: they are not
//! file-system work.

use crate::Result;
use crate::cpu_time::{nanoseconds, read_clock};
use crate::fs::Time;

/// Nanoseconds of `CLOCK_MONOTONIC_RAW`, which NTP does not adjust.
/// [clock_gettime(2)](https://man7.org/linux/man-pages/man2/clock_gettime.2.html)
#[inline]
pub fn monotonic_raw() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC_RAW)
}

/// Nanoseconds of `CLOCK_MONOTONIC`, the clock of the kernel's events.
/// [clock_gettime(2)](https://man7.org/linux/man-pages/man2/clock_gettime.2.html)
#[inline]
pub fn monotonic() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds of `CLOCK_BOOTTIME`, which also counts the time in which the machine is suspended.
/// [clock_gettime(2)](https://man7.org/linux/man-pages/man2/clock_gettime.2.html)
pub fn boot_time() -> u64 {
    nanoseconds(libc::CLOCK_BOOTTIME)
}

/// Microseconds since 1970, by the call that the paper "Exploring file systems" used as its clock.
/// [gettimeofday(2)](https://man7.org/linux/man-pages/man2/gettimeofday.2.html)
#[inline]
pub fn time_of_day() -> u64 {
    let mut t = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    // SAFETY: `t` is a live timeval, and the zone may be null.
    unsafe { libc::gettimeofday(&raw mut t, std::ptr::null_mut()) };
    (t.tv_sec as u64)
        .wrapping_mul(1_000_000)
        .wrapping_add(t.tv_usec as u64)
}

/// The timestamp that the kernel gives to a file that is changed now: the time of its last tick.
/// [clock_gettime(2)](https://man7.org/linux/man-pages/man2/clock_gettime.2.html),
/// `CLOCK_REALTIME_COARSE`
pub fn of_files() -> Time {
    let now = read_clock(libc::CLOCK_REALTIME_COARSE);
    Time::new(now.tv_sec, now.tv_nsec as u32)
}

/// Properties of the processor's time-stamp counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counter {
    /// Whether the counter has the same frequency in all power states.
    pub invariant: bool,
    /// Whether the processor has `rdtscp`, which waits for preceding instructions.
    pub ordered: bool,
}

/// Properties of the time-stamp counter; `None` on architectures other than x86-64.
pub fn counter() -> Option<Counter> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid;
        const EXTENDED: u32 = 0x8000_0000;
        let highest = __cpuid(EXTENDED).eax;
        let has = |leaf: u32, bit: u32| highest >= leaf && __cpuid(leaf).edx & 1 << bit != 0;
        Some(Counter {
            invariant: has(EXTENDED + 7, 8),
            ordered: has(EXTENDED + 1, 27),
        })
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// Reads the time-stamp counter; 0 on other architectures. The caller must check that [`counter`]
/// is `ordered`.
#[inline]
pub fn rdtscp() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let mut processor = 0;
        // SAFETY: the instruction returns the counter and the number of the processor. On a
        // processor without it, SIGILL ends the program; callers check `counter` first.
        unsafe { std::arch::x86_64::__rdtscp(&raw mut processor) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// Numbers of the processors that the calling thread may run on.
/// [sched_getaffinity(2)](https://man7.org/linux/man-pages/man2/sched_setaffinity.2.html)
pub fn affinity() -> Vec<usize> {
    // SAFETY: zero is a valid cpu_set_t.
    let mut set = unsafe { std::mem::zeroed::<libc::cpu_set_t>() };
    // SAFETY: `set` is a live cpu_set_t of the size given.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) } != 0 {
        return Vec::new();
    }
    // SAFETY: every number is below the size of the set.
    (0..libc::CPU_SETSIZE as usize)
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .collect()
}

/// Restricts the calling thread to these processors. Numbers over 1023 are ignored.
/// [sched_setaffinity(2)](https://man7.org/linux/man-pages/man2/sched_setaffinity.2.html)
///
/// # Errors
/// `EINVAL` if none of the processors may be used.
pub fn set_affinity(processors: &[usize]) -> Result<()> {
    // SAFETY: zero is a valid cpu_set_t.
    let mut set = unsafe { std::mem::zeroed::<libc::cpu_set_t>() };
    for &cpu in processors
        .iter()
        .filter(|cpu| **cpu < libc::CPU_SETSIZE as usize)
    {
        // SAFETY: the number is below the size of the set.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: `set` is a live cpu_set_t of the size given.
    let done = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    crate::errno::check(libc::c_long::from(done)).map(drop)
}

/// A system call that does nothing, to measure the minimum cost of a call.
/// [getppid(2)](https://man7.org/linux/man-pages/man2/getppid.2.html)
#[inline]
pub fn empty_call() {
    // SAFETY: no pointers; it cannot fail.
    unsafe { libc::syscall(libc::SYS_getppid) };
}

/// System call number of [`empty_file_call`].
pub const EMPTY_FILE_CALL: u32 = libc::SYS_fcntl as u32;

/// A system call that does nothing, because it fails with `EBADF`, but that meters of file-system
/// work count. [fcntl(2)](https://man7.org/linux/man-pages/man2/fcntl.2.html)
#[inline]
pub fn empty_file_call() {
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_fcntl, -1, libc::F_GETFD) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_forward() {
        let before = (monotonic_raw(), time_of_day());
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(monotonic_raw() >= before.0 + 1_000_000);
        assert!(time_of_day() > before.1);
        if counter().is_some_and(|counter| counter.ordered) {
            let before = rdtscp();
            assert!(rdtscp() > before);
        }
    }

    #[test]
    fn a_thread_can_be_restricted_to_one_processor() {
        std::thread::spawn(|| {
            let one = affinity()[0];
            set_affinity(&[one]).unwrap();
            assert_eq!(affinity(), [one]);
        })
        .join()
        .unwrap();
    }
}
