//! Tracepoints as events of a command and of all that it starts, and the rings that they are
//! written to. [perf_event_open(2)](https://man7.org/linux/man-pages/man2/perf_event_open.2.html)
//!
//! Events live by their descriptors: nothing of them is left when the process has ended. None of it
//! is file-system work, so none of it is counted (but closing is).

use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use libc::{c_long, syscall};

use crate::bpf::{Access, Area, page};
use crate::errno::check;
use crate::{Errno, Fd, Result};

/// What to watch.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// The number of a tracepoint, from its `id` file.
    pub tracepoint: u64,
    /// The `PERF_SAMPLE_*` of each record.
    pub sample: u64,
    /// Registers of the program in each record, if the sample type asks for them.
    pub registers: u64,
    /// Threads that are made and that end are recorded, too.
    pub tasks: bool,
    /// Bytes in the ring that make it ready to be polled.
    pub watermark: u32,
}

/// Bytes in a page of memory: rings are of whole pages.
pub fn page_size() -> usize {
    page()
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

/// An event: one tracepoint, for a process and its children to come, on one processor.
#[derive(Debug)]
pub struct Event {
    fd: Fd,
}

/// An event of a tracepoint, in a thread and in all that it starts, while they are on a processor;
/// it waits for [`Event::enable`]. Times are those of `CLOCK_MONOTONIC`.
///
/// # Errors
/// `EACCES` or `EPERM` without `CAP_PERFMON`, unless /proc/sys/kernel/perf_event_paranoid is -1;
/// `EINVAL` for a processor that there cannot be; `EMFILE`.
pub fn perf_event_open(watch: &Watch, tid: i32, processor: u32) -> Result<Event> {
    const TRACEPOINT: u32 = 2;
    const DISABLED: u64 = 1 << 0;
    const INHERIT: u64 = 1 << 1;
    const TASK: u64 = 1 << 13;
    const WATERMARK: u64 = 1 << 14;
    const SAMPLE_ID_ALL: u64 = 1 << 18;
    const USE_CLOCKID: u64 = 1 << 25;
    let attr = Attr {
        kind: TRACEPOINT,
        size: size_of::<Attr>() as u32,
        config: watch.tracepoint,
        sample_period: 1,
        sample_type: watch.sample,
        flags: DISABLED
            | INHERIT
            | WATERMARK
            | SAMPLE_ID_ALL
            | USE_CLOCKID
            | if watch.tasks { TASK } else { 0 },
        wakeup_watermark: watch.watermark,
        sample_regs_user: watch.registers,
        clockid: libc::CLOCK_MONOTONIC,
        ..Attr::default()
    };
    open(&attr, tid, processor).map(|fd| Event { fd })
}

/// Whether this process may watch all that goes on on a processor: by an event that never happens.
/// To close one of a tracepoint takes some hundredths of a second.
///
/// # Errors
/// As of [`perf_event_open`], but where /proc/sys/kernel/perf_event_paranoid is 0 nobody is
/// refused.
pub fn permitted(processor: u32) -> Result<()> {
    const SOFTWARE: u32 = 1;
    const DUMMY: u64 = 9;
    let attr = Attr {
        kind: SOFTWARE,
        size: size_of::<Attr>() as u32,
        config: DUMMY,
        ..Attr::default()
    };
    open(&attr, -1, processor).map(drop)
}

fn open(attr: &Attr, tid: i32, processor: u32) -> Result<Fd> {
    const FD_CLOEXEC: c_long = 1 << 3;
    let attr = std::ptr::from_ref(attr);
    // SAFETY: `attr` is a live perf_event_attr that says how long it is.
    let fd = unsafe {
        syscall(
            libc::SYS_perf_event_open,
            attr,
            c_long::from(tid),
            c_long::from(processor),
            -1,
            FD_CLOEXEC,
        )
    };
    check(fd).map(Fd::take)
}

impl Event {
    /// The ring that this event is recorded in, of `pages` pages: a power of two.
    ///
    /// # Errors
    /// `EPERM` when that is more than /proc/sys/kernel/perf_event_mlock_kb allows a user; `ENOMEM`.
    pub fn ring(&self, pages: usize) -> Result<Ring> {
        let page = page();
        let size = pages
            .checked_mul(page)
            .filter(|_| pages.is_power_of_two())
            .ok_or(Errno::EINVAL)?;
        let area = Area::map(&self.fd, 0, page + size, Access::Write)?;
        Ok(Ring {
            area,
            page,
            size,
            at: 0,
            end: 0,
            given_back: 0,
            whole: Vec::new(),
        })
    }

    /// Has it recorded in the ring of another event of the same processor.
    /// `PERF_EVENT_IOC_SET_OUTPUT`
    pub fn set_output(&self, other: &Event) -> Result<()> {
        self.ioctl(0x2405, other.fd.as_raw_fd())
    }

    /// From now on it is counted and recorded. `PERF_EVENT_IOC_ENABLE`
    pub fn enable(&self) -> Result<()> {
        self.ioctl(0x2400, 0)
    }

    /// From now on it is not, in whoever has inherited it either. `PERF_EVENT_IOC_DISABLE`
    pub fn disable(&self) -> Result<()> {
        self.ioctl(0x2401, 0)
    }

    fn ioctl(&self, request: c_long, number: i32) -> Result<()> {
        // SAFETY: no pointers.
        check(unsafe {
            syscall(
                libc::SYS_ioctl,
                self.fd.as_raw_fd(),
                request,
                c_long::from(number),
            )
        })
        .map(drop)
    }

    /// How often it has happened, whether it was recorded or not.
    pub fn count(&self) -> Result<u64> {
        let mut count: u64 = 0;
        // SAFETY: the kernel writes at most 8 bytes.
        check(unsafe {
            syscall(
                libc::SYS_read,
                self.fd.as_raw_fd(),
                &raw mut count,
                size_of::<u64>(),
            )
        })?;
        Ok(count)
    }
}

/// Waits until the ring of one of the events has as much as it is to wake for, or until there is
/// nobody left who is watched, or `limit` has passed. Says whether there is somebody left.
///
/// # Errors
/// Those of poll(2), save `EINTR`.
pub fn wait<'a>(events: impl Iterator<Item = &'a Event>, limit: Duration) -> Result<bool> {
    let mut set: Vec<libc::pollfd> = events
        .map(|event| libc::pollfd {
            fd: event.fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    let limit = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: `set` has as many entries as is said.
    match check(c_long::from(unsafe {
        libc::poll(set.as_mut_ptr(), set.len() as libc::nfds_t, limit)
    })) {
        // An event hangs up when its process and all that have inherited it are no more.
        Ok(_) => Ok(!set.iter().any(|event| event.revents & libc::POLLHUP != 0)),
        Err(Errno::EINTR) => Ok(true),
        Err(errno) => Err(errno),
    }
}

/// What was recorded on one processor, in order.
#[derive(Debug)]
pub struct Ring {
    area: Area,
    page: usize,
    size: usize,
    /// The record to read next, and the end of those that were there at the last [`Ring::look`].
    /// They only grow.
    at: u64,
    end: u64,
    /// How far the kernel may write again.
    given_back: u64,
    /// For a record that goes beyond the end of the data and continues at their beginning.
    whole: Vec<u8>,
}

/// Where `struct perf_event_mmap_page` says how far the kernel has written, and the reader has
/// read.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

impl Ring {
    /// Gives back the room of what was read, and sees what has come.
    pub fn look(&mut self) {
        self.give_back();
        if let Some(head) = self.area.word(DATA_HEAD) {
            self.end = head.load(Ordering::Acquire);
        }
    }

    fn give_back(&mut self) {
        if let Some(tail) = self.area.word(DATA_TAIL) {
            tail.store(self.at, Ordering::Release);
        }
        self.given_back = self.at;
    }

    /// The next record of those that were there at the last [`Ring::look`]; the same one until
    /// [`Ring::advance`].
    pub fn record(&mut self) -> Option<&[u8]> {
        let len = self.length()?;
        let from = self.at as usize & (self.size - 1);
        let first = len.min(self.size - from);
        // SAFETY: the kernel writes nothing between the tail, which is not beyond `at`, and `end`.
        let (first, rest) = unsafe {
            (
                self.area.bytes(self.page + from, first)?,
                self.area.bytes(self.page, len - first)?,
            )
        };
        if rest.is_empty() {
            return Some(first);
        }
        self.whole.clear();
        self.whole.extend_from_slice(first);
        self.whole.extend_from_slice(rest);
        Some(&self.whole)
    }

    /// Goes to the record after this one.
    pub fn advance(&mut self) {
        match self.length() {
            Some(len) => self.at += len as u64,
            None => self.at = self.end,
        }
        if self.at - self.given_back > self.size as u64 / 8 {
            self.give_back();
        }
    }

    /// Length of the next record: the upper half of the second word of its head, which is never
    /// torn, since lengths are multiples of 8.
    fn length(&self) -> Option<usize> {
        const HEAD: u64 = 8;
        let left = self.end.checked_sub(self.at).filter(|left| *left >= HEAD)?;
        let head = self
            .area
            .word(self.page + (self.at as usize & (self.size - 1)))?
            .load(Ordering::Relaxed);
        let bytes = head.to_ne_bytes();
        let len = u16::from_ne_bytes([bytes[6], bytes[7]]);
        (u64::from(len) >= HEAD && u64::from(len) <= left).then_some(usize::from(len))
    }
}
