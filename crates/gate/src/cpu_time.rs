//! CPU time of this process and of its threads, in user and in kernel mode.
//! [clock_gettime(2)](https://man7.org/linux/man-pages/man2/clock_gettime.2.html)

use std::time::Duration;

/// CPU time that all threads of this process have used.
pub fn process_cpu_time() -> Duration {
    Duration::from_nanos(nanoseconds(libc::CLOCK_PROCESS_CPUTIME_ID))
}

/// CPU time that the calling thread has used.
pub fn thread_cpu_time() -> Duration {
    Duration::from_nanos(nanoseconds(libc::CLOCK_THREAD_CPUTIME_ID))
}

#[inline]
pub(crate) fn read_clock(clock: libc::clockid_t) -> libc::timespec {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a live timespec. Every kernel has the clocks that are used here; that of a
    // process that is gone leaves `time` as it is.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time
}

#[inline]
pub(crate) fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let time = read_clock(clock);
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}
