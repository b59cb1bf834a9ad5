//! Tracepoints as events of a command and of all that it starts, and the rings that record them.
//! [perf_event_open(2)](https://man7.org/linux/man-pages/man2/perf_event_open.2.html)
//!
//! Events live as long as their descriptors: nothing is left when the process ends. None of it is
//! file-system work, so only closing is counted.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use libc::{c_long, syscall};

use crate::errno::check;
use crate::memory::{READ_WRITE, RingMemory, page_size};
use crate::notify::poll_all;
use crate::{Errno, Fd, Result};

/// What an event records.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// The number of a tracepoint, from its `id` file.
    pub tracepoint: u64,
    /// The `PERF_SAMPLE_*` of each record.
    pub sample: u64,
    /// The user registers in each record, if `sample` asks for them.
    pub registers: u64,
    /// Whether creation and end of threads are recorded too.
    pub tasks: bool,
    /// Bytes in the ring that make it readable for poll(2).
    pub watermark: u32,
}

/// `struct perf_event_attr`, as of its fifth version.
#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_watermark: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

/// Instead of a thread: all of the machine.
pub const ALL: i32 = -1;

/// A tracepoint, in a thread and in all that it starts, on one processor.
#[derive(Debug)]
pub struct Event(Fd);

/// Opens an event, which [`Event::enable`] starts. Its times are those of `CLOCK_MONOTONIC`.
///
/// # Errors
/// `EACCES` or `EPERM` without `CAP_PERFMON`, unless /proc/sys/kernel/perf_event_paranoid is -1;
/// `EINVAL` for a processor that cannot exist; `EMFILE`.
pub fn perf_event_open(watch: &Watch, tid: i32, processor: u32) -> Result<Event> {
    const TRACEPOINT: u32 = 2;
    const DISABLED: u64 = 1 << 0;
    const INHERIT: u64 = 1 << 1;
    const TASK: u64 = 1 << 13;
    const WATERMARK: u64 = 1 << 14;
    const SAMPLE_ID_ALL: u64 = 1 << 18;
    const USE_CLOCKID: u64 = 1 << 25;
    const FLAGS: u64 = DISABLED | INHERIT | WATERMARK | SAMPLE_ID_ALL | USE_CLOCKID;
    let attr = Attr {
        kind: TRACEPOINT,
        size: size_of::<Attr>() as u32,
        config: watch.tracepoint,
        sample_period: 1,
        sample_type: watch.sample,
        flags: if watch.tasks { FLAGS | TASK } else { FLAGS },
        wakeup_watermark: watch.watermark,
        sample_regs_user: watch.registers,
        clockid: libc::CLOCK_MONOTONIC,
        ..Attr::default()
    };
    open(&attr, tid, processor.into()).map(Event)
}

/// An event that counts the CPU time of a thread and of all that it starts from now on, in nanoseconds,
/// also of what has ended since.
///
/// # Errors
/// `ESRCH`; `EACCES` if /proc/sys/kernel/perf_event_paranoid or a filter forbids it; `EMFILE`.
pub fn task_clock(tid: u32) -> Result<Event> {
    const SOFTWARE: u32 = 1;
    const TASK_CLOCK: u64 = 1;
    const INHERIT: u64 = 1 << 1;
    /// Permitted to users. The clock counts time in the kernel all the same.
    const EXCLUDE_KERNEL: u64 = 1 << 5;
    const ANY_PROCESSOR: c_long = -1;
    let attr = Attr {
        kind: SOFTWARE,
        size: size_of::<Attr>() as u32,
        config: TASK_CLOCK,
        flags: INHERIT | EXCLUDE_KERNEL,
        ..Attr::default()
    };
    open(&attr, tid.cast_signed(), ANY_PROCESSOR).map(Event)
}

/// Whether this process may watch everything on a processor: opens an event that never occurs, since
/// closing one of a tracepoint takes some hundredths of a second.
///
/// # Errors
/// As of [`perf_event_open`]; none where /proc/sys/kernel/perf_event_paranoid is 0.
pub fn permitted(processor: u32) -> Result<()> {
    const SOFTWARE: u32 = 1;
    const DUMMY: u64 = 9;
    let attr = Attr {
        kind: SOFTWARE,
        size: size_of::<Attr>() as u32,
        config: DUMMY,
        ..Attr::default()
    };
    open(&attr, ALL, processor.into()).map(drop)
}

fn open(attr: &Attr, tid: i32, processor: c_long) -> Result<Fd> {
    const FD_CLOEXEC: c_long = 1 << 3;
    let attr = std::ptr::from_ref(attr);
    let tid = c_long::from(tid);
    // SAFETY: `attr` is a live perf_event_attr that says how long it is.
    check(unsafe {
        syscall(
            libc::SYS_perf_event_open,
            attr,
            tid,
            processor,
            -1,
            FD_CLOEXEC,
        )
    })
    .map(Fd::take)
}

impl Event {
    /// The ring that this event is recorded in, of `pages` pages: a power of two.
    ///
    /// # Errors
    /// `EPERM` when that is more than /proc/sys/kernel/perf_event_mlock_kb allows a user; `ENOMEM`.
    pub fn ring(&self, pages: usize) -> Result<Ring> {
        let size = pages
            .checked_mul(page_size())
            .filter(|_| pages.is_power_of_two())
            .ok_or(Errno::EINVAL)?;
        Ok(Ring {
            memory: RingMemory::new(&self.0, 0, size, READ_WRITE)?,
            at: 0,
            end: 0,
            released: 0,
        })
    }

    /// Records it in the ring of another event of the same processor. `PERF_EVENT_IOC_SET_OUTPUT`
    pub fn set_output(&self, other: &Event) -> Result<()> {
        self.ioctl(0x2405, other.0.as_raw_fd())
    }

    /// Starts counting and recording. `PERF_EVENT_IOC_ENABLE`
    pub fn enable(&self) -> Result<()> {
        self.ioctl(0x2400, 0)
    }

    /// Stops counting and recording, in all that inherited the event too. `PERF_EVENT_IOC_DISABLE`
    pub fn disable(&self) -> Result<()> {
        self.ioctl(0x2401, 0)
    }

    fn ioctl(&self, request: c_long, number: i32) -> Result<()> {
        let (fd, number) = (self.0.as_raw_fd(), c_long::from(number));
        // SAFETY: no pointers.
        check(unsafe { syscall(libc::SYS_ioctl, fd, request, number) }).map(drop)
    }

    /// How many times it has occurred, recorded or not.
    pub fn count(&self) -> Result<u64> {
        let mut count: u64 = 0;
        let (fd, len) = (self.0.as_raw_fd(), size_of::<u64>());
        // SAFETY: the kernel writes at most 8 bytes.
        check(unsafe { syscall(libc::SYS_read, fd, &raw mut count, len) })?;
        Ok(count)
    }
}

/// Waits until the ring of one of the events has reached its watermark, all watched processes have
/// ended, or `limit` has passed. Returns whether any is left.
///
/// # Errors
/// Those of poll(2), except `EINTR`.
pub fn wait<'a>(events: impl Iterator<Item = &'a Event>, limit: Duration) -> Result<bool> {
    let readable = |event: &Event| libc::pollfd {
        fd: event.0.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut set: Vec<_> = events.map(readable).collect();
    poll_all(
        &mut set,
        i32::try_from(limit.as_millis()).unwrap_or(i32::MAX),
    )?;
    // An event hangs up when its process and all that inherited it have ended.
    Ok(!set.iter().any(|event| event.revents & libc::POLLHUP != 0))
}

/// The records of one processor, in order.
#[derive(Debug)]
pub struct Ring {
    memory: RingMemory,
    /// Positions, which only grow: of the next record, and of the end at the last [`Ring::look`].
    at: u64,
    end: u64,
    /// The position up to which the kernel may overwrite the data.
    released: u64,
}

/// Where `struct perf_event_mmap_page` has the positions of the kernel and of the reader.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

impl Ring {
    /// Releases the records that were read, and looks for new ones.
    pub fn look(&mut self) {
        self.release();
        if let Some(head) = self.memory.position(DATA_HEAD) {
            self.end = head.load(Ordering::Acquire);
        }
    }

    fn release(&mut self) {
        if let Some(tail) = self.memory.position(DATA_TAIL) {
            tail.store(self.at, Ordering::Release);
        }
        self.released = self.at;
    }

    /// The next record of those at the last [`Ring::look`]; the same one until [`Ring::advance`].
    pub fn record(&mut self) -> Option<&[u8]> {
        let len = self.length()?;
        // SAFETY: the kernel writes nothing between the tail, which is not beyond `at`, and `end`.
        unsafe { self.memory.record(self.at, len) }
    }

    /// Goes to the record after this one.
    pub fn advance(&mut self) {
        match self.length() {
            Some(len) => self.at += len as u64,
            None => self.at = self.end,
        }
        if self.at - self.released > self.memory.size() as u64 / 8 {
            self.release();
        }
    }

    /// Length of the next record: the upper half of the second word of its header, which never wraps
    /// around, since lengths are multiples of 8.
    fn length(&self) -> Option<usize> {
        const HEADER: u64 = 8;
        let left = self
            .end
            .checked_sub(self.at)
            .filter(|left| *left >= HEADER)?;
        let header: &AtomicU64 = self.memory.head(self.at)?;
        let bytes = header.load(Ordering::Relaxed).to_ne_bytes();
        let len = u16::from_ne_bytes([bytes[6], bytes[7]]);
        (u64::from(len) >= HEADER && u64::from(len) <= left).then_some(usize::from(len))
    }
}
