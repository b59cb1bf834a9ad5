//! Directories that are kept open for what is in them, so that it is opened by a single name; but
//! not too many.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use gate::fs::getdents64;
use gate::{Errno, Fd};

use crate::job::{Job, Place, c_name};

/// An open directory, counted among those that are.
pub(crate) struct Opened {
    fd: Fd,
    count: Arc<AtomicUsize>,
}

impl Opened {
    /// Its descriptor.
    pub(crate) fn fd(&self) -> &Fd {
        &self.fd
    }

    /// Reads entries of it; 0 when there are no more, also when it was removed meanwhile.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        match getdents64(&self.fd, buffer) {
            Err(Errno::ENOENT) => Ok(0),
            other => other,
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Relaxed);
    }
}

/// The count of them, and a bound.
pub(crate) struct OpenDirs {
    count: Arc<AtomicUsize>,
    most: usize,
}

impl OpenDirs {
    /// None are open. No more than `most` are kept.
    pub(crate) fn within(most: usize) -> OpenDirs {
        OpenDirs {
            count: Arc::default(),
            most,
        }
    }

    /// Opens a directory by its name in the one that it is in, if that was kept, else by its whole
    /// name.
    ///
    /// # Errors
    /// `EXDEV` when another mount has come to lie there; those of openat2(2).
    pub(crate) fn directory(
        &self,
        job: &Job<'_>,
        place: impl FnOnce() -> Place,
        name: &[u8],
        from: Option<&Opened>,
    ) -> Result<Arc<Opened>, Errno> {
        let fd = match from {
            Some(from) => {
                let name = c_name(name).ok_or(Errno::EINVAL)?;
                job.open_in(&from.fd, &name)?
            }
            None => job.open(&place())?,
        };
        self.count.fetch_add(1, Relaxed);
        Ok(Arc::new(Opened {
            fd,
            count: Arc::clone(&self.count),
        }))
    }

    /// The directory once more, for something in it that is still to be opened; `None` when enough
    /// are open.
    pub(crate) fn keep(&self, opened: &Arc<Opened>) -> Option<Arc<Opened>> {
        (self.count.load(Relaxed) < self.most).then(|| Arc::clone(opened))
    }
}
