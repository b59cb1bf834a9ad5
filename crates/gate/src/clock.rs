//! Clocks, and the processor that a thread runs on. None of it is file-system work, and none of it
//! is counted.

use crate::Result;
use crate::fs::Time;

/// Nanoseconds of the clock that nobody adjusts, from some moment on.
/// [clock_gettime(2)](https://man7.org/linux/man-pages/man2/clock_gettime.2.html),
/// `CLOCK_MONOTONIC_RAW`
#[inline]
pub fn monotonic_raw() -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is a live timespec. The clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &raw mut t) };
    (t.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(t.tv_nsec as u64)
}

/// Nanoseconds of the clock that the kernel's events carry; it runs at the speed of time servers.
/// [clock_gettime(2)](https://man7.org/linux/man-pages/man2/clock_gettime.2.html),
/// `CLOCK_MONOTONIC`
#[inline]
pub fn monotonic() -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is a live timespec. The clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut t) };
    (t.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(t.tv_nsec as u64)
}

/// Microseconds since 1970, by the clock on the wall: the paper's yardstick.
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

/// The time of day as the kernel gives it to files that are changed: that of its last tick.
/// [clock_gettime(2)](https://man7.org/linux/man-pages/man2/clock_gettime.2.html),
/// `CLOCK_REALTIME_COARSE`
pub fn of_files() -> Time {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is a live timespec. The clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut t) };
    Time {
        sec: t.tv_sec,
        nsec: t.tv_nsec as u32,
    }
}

/// What the processor says of its counter of cycles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counter {
    /// It runs at one speed in all states of the processor.
    pub invariant: bool,
    /// There is an instruction that reads it after all before it is done (`rdtscp`).
    pub ordered: bool,
}

/// What the processor says of its time-stamp counter; `None` where there is none.
#[cfg(target_arch = "x86_64")]
pub fn counter() -> Option<Counter> {
    use std::arch::x86_64::__cpuid;
    const EXTENDED: u32 = 0x8000_0000;
    let highest = __cpuid(EXTENDED).eax;
    let edx = |leaf: u32| {
        if highest >= leaf {
            __cpuid(leaf).edx
        } else {
            0
        }
    };
    let (features, power) = (edx(EXTENDED + 1), edx(EXTENDED + 7));
    Some(Counter {
        invariant: power & 1 << 8 != 0,
        ordered: features & 1 << 27 != 0,
    })
}

/// What the processor says of its time-stamp counter; `None` where there is none.
#[cfg(not(target_arch = "x86_64"))]
pub fn counter() -> Option<Counter> {
    None
}

/// The time-stamp counter. Only where [`counter`] says that it is `ordered`; 0 on other processors.
#[inline]
pub fn rdtscp() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let mut processor = 0;
        // SAFETY: the instruction writes the counter and the number of the processor, and nothing
        // else. A processor without it ends the program by a signal; callers ask `counter` first.
        unsafe { std::arch::x86_64::__rdtscp(&raw mut processor) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// The processors that the calling thread may run on, by number.
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

/// Has the calling thread run on these processors only. Numbers over 1023 are left out.
/// [sched_setaffinity(2)](https://man7.org/linux/man-pages/man2/sched_setaffinity.2.html)
///
/// # Errors
/// `EINVAL` when none of them may be used.
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

/// A call that enters the kernel and does nothing there: what every other call costs at least.
/// [getppid(2)](https://man7.org/linux/man-pages/man2/getppid.2.html)
#[inline]
pub fn empty_call() {
    // SAFETY: no pointers; it cannot fail.
    unsafe { libc::syscall(libc::SYS_getppid) };
}

/// The number of [`empty_file_call`].
pub const EMPTY_FILE_CALL: u32 = libc::SYS_fcntl as u32;

/// The same for a call that a meter of file-system work sees: it asks something of no descriptor,
/// and fails (`EBADF`). [fcntl(2)](https://man7.org/linux/man-pages/man2/fcntl.2.html)
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
    fn a_thread_can_be_kept_on_one_processor() {
        std::thread::spawn(|| {
            let one = affinity()[0];
            set_affinity(&[one]).unwrap();
            assert_eq!(affinity(), [one]);
        })
        .join()
        .unwrap();
    }
}
