//! Temporary names, which do not outlive the process: a signal that ends it takes them away.

use std::ffi::{CStr, CString};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use libc::c_int;

use super::{fsync, renameat2, unlinkat};
use crate::fs::{At, Want, statx};
use crate::long::c_string;
use crate::signals::disposition;
use crate::{Errno, Fd, Result};

/// A temporary name in a directory, which goes when this is dropped, or when SIGINT, SIGTERM or
/// SIGHUP ends the process.
#[derive(Debug)]
pub(super) struct Temporary {
    pub(super) dir: Fd,
    pub(super) name: CString,
    /// Whether it is to be taken away.
    pub(super) is_there: bool,
    doom: Option<&'static AtomicPtr<Doomed>>,
}

/// A name that must not outlive the process.
struct Doomed {
    /// Who has made it. What that one forks has the same table and the same handler, and must leave
    /// the name alone.
    process: u32,
    dir: c_int,
    name: CString,
}

/// The temporary names that signals are to take away; null where there is none. What they point to
/// is never freed, since a signal's handler may be looking at it: that is a few bytes for each file
/// that is written so. No command writes more files at once than there is room for here.
static DOOMED: [AtomicPtr<Doomed>; 4] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 4];

impl Temporary {
    /// A name that nothing has yet.
    pub(super) fn named(dir: Fd, name: CString) -> Result<Temporary> {
        take_away_on_signals();
        Ok(Temporary {
            dir,
            name,
            is_there: false,
            doom: None,
        })
    }

    /// Finds a name that is free, and makes it.
    pub(super) fn anyhow(
        dir: Fd,
        mut make: impl FnMut(&Fd, &CStr) -> Result<()>,
    ) -> Result<Temporary> {
        /// So many names in a row are not taken by chance.
        const TRIES: u32 = 100;
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mut own = Temporary::named(dir, CString::default())?;
        for _ in 0..TRIES {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            own.name = c_string(format!(".fathom-{:x}-{n:x}", std::process::id()).as_bytes())?;
            if statx(&own.dir, &own.name, At::SYMLINK_NOFOLLOW, Want::empty()).is_ok() {
                continue;
            }
            match own.make(&mut make) {
                Ok(()) => return Ok(own),
                Err(Errno::EEXIST) => {}
                Err(e) => return Err(e),
            }
        }
        Err(Errno::EEXIST)
    }

    /// Has something made under the name.
    pub(super) fn make(&mut self, make: impl FnOnce(&Fd, &CStr) -> Result<()>) -> Result<()> {
        // Signals know of the name before it is there: there is no moment in which it is there and
        // they do not.
        self.spare();
        let process = std::process::id();
        let doomed = Box::new(Doomed {
            process,
            dir: self.dir.as_raw_fd(),
            name: self.name.clone(),
        });
        self.doom = Some(doom(doomed).ok_or(Errno::EMFILE)?);
        let made = make(&self.dir, &self.name);
        self.is_there = made.is_ok();
        if !self.is_there {
            self.spare();
        }
        made
    }

    /// Signals leave the name alone from here on.
    fn spare(&mut self) {
        if let Some(doom) = self.doom.take() {
            doom.store(std::ptr::null_mut(), Ordering::SeqCst);
        }
    }

    /// Makes it the name that is wanted, and waits until that is on the disk.
    pub(super) fn rename(&mut self, to: &CStr) -> Result<()> {
        renameat2(&self.dir, &self.name, &self.dir, to)?;
        self.is_there = false;
        fsync(&self.dir)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.is_there {
            let _ = unlinkat(&self.dir, &self.name);
        }
        self.spare();
    }
}

/// Has signals take a name away: its place in the table, or `None` when that is full.
fn doom(doomed: Box<Doomed>) -> Option<&'static AtomicPtr<Doomed>> {
    let doomed = Box::into_raw(doomed);
    let taken = |doom: &&AtomicPtr<Doomed>| {
        doom.compare_exchange(
            std::ptr::null_mut(),
            doomed,
            Ordering::SeqCst,
            Ordering::SeqCst,
        )
        .is_ok()
    };
    DOOMED.iter().find(taken)
}

/// Has the temporary name taken away by the signals that end a program, unless they are ignored or
/// somebody else's.
fn take_away_on_signals() {
    extern "C" fn on_signal(signal: c_int) {
        // SAFETY: values that DOOMED pointed to are never freed; getpid, unlinkat, signal and raise
        // may be called in a handler. The signal is blocked while its handler runs: it ends the
        // process when this returns.
        unsafe {
            for doomed in DOOMED
                .iter()
                .map(|doom| doom.swap(std::ptr::null_mut(), Ordering::SeqCst))
            {
                if !doomed.is_null() && (*doomed).process == libc::getpid().unsigned_abs() {
                    libc::unlinkat((*doomed).dir, (*doomed).name.as_ptr(), 0);
                }
            }
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let mut action = disposition(signal);
        if action.sa_sigaction == libc::SIG_DFL {
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            // SAFETY: the pointer is to a live sigaction; the handler keeps to what handlers may
            // do.
            unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
        }
    }
}
