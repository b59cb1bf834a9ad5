//! Temporary names, which are removed when the process ends, also when a signal ends it.

use std::ffi::{CStr, CString};
use std::hash::{BuildHasher, RandomState};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use libc::c_int;

use crate::create::{renameat2, unlinkat};
use crate::fs::{AtFlags, StatxMask, fsync, statx};
use crate::long::c_string;
use crate::signals::disposition;
use crate::{Errno, Fd, Result};

/// A temporary name in a directory. The name is removed when this value is dropped, and when
/// SIGINT, SIGTERM or SIGHUP ends the process.
#[derive(Debug)]
pub(super) struct Temporary {
    pub(super) dir: Fd,
    pub(super) name: CString,
    /// Whether the name exists and must be removed.
    pub(super) exists: bool,
    slot: Option<&'static AtomicPtr<OnSignal>>,
}

/// A temporary name that the signal handler removes.
struct OnSignal {
    /// Id of the process that created the name. A child inherits the table and the handler, and
    /// must not remove the name.
    process: u32,
    dir: c_int,
    name: CString,
}

/// Names that the signal handler removes; null in a free slot. The values are never freed, since a
/// handler may be reading them: that leaks a few bytes per file written. No command writes more
/// than four files at once.
static SLOTS: [AtomicPtr<OnSignal>; 4] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 4];

impl Temporary {
    /// A temporary name for a file that is yet to be created.
    pub(super) fn named(dir: Fd, name: CString) -> Temporary {
        install_signal_handlers();
        Temporary {
            dir,
            name,
            exists: false,
            slot: None,
        }
    }

    pub(super) fn create_unique(
        dir: Fd,
        mut make: impl FnMut(&Fd, &CStr) -> Result<()>,
    ) -> Result<Temporary> {
        const TRIES: u32 = 100;
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Processes on several hosts can have the same id.
        let random = RandomState::new().hash_one(()) as u32;
        let mut own = Temporary::named(dir, CString::default());
        for _ in 0..TRIES {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            own.name =
                c_string(format!(".fathom-{:x}-{random:x}-{n:x}", std::process::id()).as_bytes())?;
            if statx(
                &own.dir,
                &own.name,
                AtFlags::SYMLINK_NOFOLLOW,
                StatxMask::empty(),
            )
            .is_ok()
            {
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

    pub(super) fn make(&mut self, make: impl FnOnce(&Fd, &CStr) -> Result<()>) -> Result<()> {
        // Register the name with the handler before the file exists: a signal in between would
        // leave the file.
        self.release_slot();
        let entry = Box::new(OnSignal {
            process: std::process::id(),
            dir: self.dir.as_raw_fd(),
            name: self.name.clone(),
        });
        self.slot = Some(occupy_slot(entry).ok_or(Errno::EMFILE)?);
        let made = make(&self.dir, &self.name);
        self.exists = made.is_ok();
        if !self.exists {
            self.release_slot();
        }
        made
    }

    /// Removes the name from the signal handler's table.
    fn release_slot(&mut self) {
        if let Some(slot) = self.slot.take() {
            slot.store(std::ptr::null_mut(), Ordering::SeqCst);
        }
    }

    /// Renames the file to its final name, and waits until the rename is on disk.
    pub(super) fn rename(&mut self, to: &CStr) -> Result<()> {
        renameat2(&self.dir, &self.name, &self.dir, to)?;
        self.exists = false;
        fsync(&self.dir)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.exists {
            let _ = unlinkat(&self.dir, &self.name);
        }
        self.release_slot();
    }
}

/// Adds a name to the signal handler's table. Returns its slot; `None` if the table is full.
fn occupy_slot(entry: Box<OnSignal>) -> Option<&'static AtomicPtr<OnSignal>> {
    let entry = Box::into_raw(entry);
    let (free, order) = (std::ptr::null_mut(), Ordering::SeqCst);
    let occupied = |slot: &&AtomicPtr<OnSignal>| {
        let taken = slot.compare_exchange(free, entry, order, order);
        taken.is_ok()
    };
    SLOTS.iter().find(occupied)
}

/// Installs a handler that removes the names before SIGINT, SIGTERM or SIGHUP ends the program,
/// except for signals that are ignored or have a handler already.
fn install_signal_handlers() {
    extern "C" fn on_signal(signal: c_int) {
        // SAFETY: values that SLOTS pointed to are never freed; getpid, unlinkat, signal and raise
        // may be called in a handler. The signal is blocked while its handler runs: it ends the
        // process when this returns.
        unsafe {
            for entry in SLOTS
                .iter()
                .map(|slot| slot.swap(std::ptr::null_mut(), Ordering::SeqCst))
            {
                if !entry.is_null() && (*entry).process == libc::getpid().unsigned_abs() {
                    libc::unlinkat((*entry).dir, (*entry).name.as_ptr(), 0);
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
            // SAFETY: the pointer is to a live sigaction; the handler makes only async-signal-safe
            // calls.
            unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
        }
    }
}
