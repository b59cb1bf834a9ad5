//! Holds a process where it opens or reads a file, by the permission events of fanotify(7): the
//! process continues only after the test has acted.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use super::wait::LIMIT;

/// The event at which a process is held.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop<'a> {
    /// A read(2) of this file.
    Read(&'a Path),
    /// Opening this directory, or a file in it.
    Open(&'a Path),
    /// Opening or creating a file in this directory.
    OpenFileIn(&'a Path),
    /// Opening a file or a directory on the mount that is visible at this path.
    OpenOnMount(&'a Path),
}

/// Holds a process at one event. Dropping this releases the process.
pub(crate) struct Hold {
    held: Arc<Held>,
    /// Closing this ends the thread.
    end: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

/// The number of the process that is held.
type Held = (Mutex<Option<u32>>, Condvar);

impl Hold {
    /// Holds the first process that reaches `stop`.
    pub(crate) fn new(stop: Stop<'_>) -> Hold {
        Hold::when(stop, |_| true)
    }

    /// Holds the first process that reaches `stop` while `is_due` returns true for the path.
    /// `is_due` must not open watched files, because nobody would answer these events.
    pub(crate) fn when(stop: Stop<'_>, is_due: impl FnMut(&Path) -> bool + Send + 'static) -> Hold {
        let events = watch(stop).unwrap_or_else(|error| panic!("{stop:?}: {error}"));
        let held = Arc::new(Held::default());
        let (ended, end) = io::pipe().unwrap();
        let thread = thread::spawn({
            let held = Arc::clone(&held);
            move || attend(&events, &ended, &held, is_due)
        });
        Hold {
            held,
            end: Some(end),
            thread: Some(thread),
        }
    }

    /// Waits until a process is held, and returns its number. Panics if `child` ends first.
    #[track_caller]
    pub(crate) fn wait(&self, child: &mut Child) -> u32 {
        let held = self.wait_unless(|| child.try_wait().unwrap().is_some());
        held.expect("it ended, and no process was held")
    }

    /// Waits until a process is held, and returns its number; `None` if `is_over` returns true
    /// first.
    #[track_caller]
    pub(crate) fn wait_unless(&self, mut is_over: impl FnMut() -> bool) -> Option<u32> {
        let started = Instant::now();
        let mut held = self.held.0.lock().unwrap();
        while held.is_none() {
            assert!(started.elapsed() < LIMIT, "no process was held");
            let some = Duration::from_millis(5);
            held = self.held.1.wait_timeout(held, some).unwrap().0;
            if held.is_none() && is_over() {
                return None;
            }
        }
        *held
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.end.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Creates a fanotify group, which must answer each of its events.
fn watch(stop: Stop<'_>) -> io::Result<File> {
    let (at, flags, mask) = match stop {
        Stop::Read(at) => (at, 0, libc::FAN_ACCESS_PERM),
        Stop::Open(at) => {
            let mask = libc::FAN_OPEN_PERM | libc::FAN_ONDIR | libc::FAN_EVENT_ON_CHILD;
            (at, 0, mask)
        }
        Stop::OpenFileIn(at) => (at, 0, libc::FAN_OPEN_PERM | libc::FAN_EVENT_ON_CHILD),
        Stop::OpenOnMount(at) => {
            let mask = libc::FAN_OPEN_PERM | libc::FAN_ONDIR;
            (at, libc::FAN_MARK_MOUNT, mask)
        }
    };
    let at = CString::new(at.as_os_str().as_bytes()).unwrap();
    let kind = libc::FAN_CLASS_CONTENT | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK;
    let flags = flags | libc::FAN_MARK_ADD;
    // SAFETY: both calls take plain numbers and a path that outlives them; the descriptor is new.
    unsafe {
        let group = libc::fanotify_init(kind, (libc::O_RDONLY | libc::O_CLOEXEC).cast_unsigned());
        if group < 0 {
            return Err(io::Error::last_os_error());
        }
        let group = File::from_raw_fd(group);
        match libc::fanotify_mark(group.as_raw_fd(), flags, mask, libc::AT_FDCWD, at.as_ptr()) {
            0 => Ok(group),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Answers all events except the first due one, until `end` is closed. When the group is closed,
/// the kernel answers that one, too.
fn attend(mut group: &File, end: &PipeReader, held: &Held, mut is_due: impl FnMut(&Path) -> bool) {
    let mut kept = None;
    loop {
        let mut polled = [
            PollFd::new(&group, PollFlags::IN),
            PollFd::new(end, PollFlags::IN),
        ];
        let _ = poll(&mut polled, None);
        if !polled[1].revents().is_empty() {
            return;
        }
        let mut buffer = [0; 4096];
        let length = match group.read(&mut buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(error) => panic!("{error}"),
        };
        for event in buffer[..length].chunks_exact(size_of::<libc::fanotify_event_metadata>()) {
            // `struct fanotify_event_metadata`: the descriptor and the process are its last members.
            let word = |at: usize| i32::from_ne_bytes(event[at..at + 4].try_into().unwrap());
            let (fd, process) = (word(16), word(20));
            // SAFETY: the kernel has opened it for this event.
            let file = unsafe { File::from_raw_fd(fd) };
            let path = fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
            if kept.is_none() && is_due(&path) {
                kept = Some(file);
                *held.0.lock().unwrap() = Some(process.cast_unsigned());
                held.1.notify_all();
                continue;
            }
            let answer = [fd.cast_unsigned(), libc::FAN_ALLOW].map(u32::to_ne_bytes);
            // If the process was killed meanwhile, the answer fails.
            let _ = group.write(&answer.concat());
        }
    }
}
