//! CPU time of this process and of its threads, in user and in kernel mode.
//! [clock_gettime(2)](https://man7.org/linux/man-pages/man2/clock_gettime.2.html)

use std::time::Duration;

/// CPU time that all threads of this process have used.
pub fn process_cpu_time() -> Duration {
    read_clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time that the calling thread has used.
pub fn thread_cpu_time() -> Duration {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read_clock(clock: libc::clockid_t) -> Duration {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is a live timespec. Every kernel has the clocks of CPU time.
    unsafe { libc::clock_gettime(clock, &raw mut t) };
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}
