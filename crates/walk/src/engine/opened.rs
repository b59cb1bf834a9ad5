//! Directories that stay open, up to a limit, so that their subdirectories are opened by a single
//! name.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use gate::fs::getdents64;
use gate::{Errno, Fd};
use mounts::listed::is_unlinked;

use crate::job::{Job, JobDirectory, c_name};
use crate::tags::FoundTags;

/// An open directory, counted in its [`OpenDirs`].
pub(crate) struct OpenedDirectory {
    pub(crate) fd: Fd,
    /// The tags of the directory, which decide the entries that the walk includes.
    pub(crate) tags: FoundTags,
    count: Arc<AtomicUsize>,
}

impl OpenedDirectory {
    /// Reads directory entries with getdents64(2); 0 at the end, also if the directory was removed
    /// meanwhile.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        match getdents64(&self.fd, buffer) {
            Err(Errno::ENOENT) if is_unlinked(&self.fd) => Ok(0),
            read => read,
        }
    }
}

impl Drop for OpenedDirectory {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Relaxed);
    }
}

/// The number of open directories, and the maximum up to which they stay open for their
/// subdirectories.
pub(crate) struct OpenDirs {
    count: Arc<AtomicUsize>,
    most: usize,
}

impl OpenDirs {
    pub(crate) fn within(most: usize) -> OpenDirs {
        OpenDirs {
            count: Arc::default(),
            most,
        }
    }

    /// Opens a directory by name in its parent `from`, or without a parent by path from the top.
    /// `EXDEV` means that a mount covers the directory by now.
    pub(crate) fn directory(
        &self,
        job: &Job<'_>,
        place: impl FnOnce() -> JobDirectory,
        name: &[u8],
        from: Option<&OpenedDirectory>,
    ) -> Result<Arc<OpenedDirectory>, Errno> {
        let fd = match from {
            Some(from) => job.open_in(&from.fd, &c_name(name).ok_or(Errno::EINVAL)?)?,
            None => job.open(&place())?,
        };
        let tags = job.filter.tags().find(&fd);
        self.count.fetch_add(1, Relaxed);
        Ok(Arc::new(OpenedDirectory {
            fd,
            tags,
            count: Arc::clone(&self.count),
        }))
    }

    /// Another reference to an open directory, which keeps it open for its subdirectories; `None`
    /// if too many directories are open.
    pub(crate) fn keep(&self, opened: &Arc<OpenedDirectory>) -> Option<Arc<OpenedDirectory>> {
        (self.count.load(Relaxed) < self.most).then(|| Arc::clone(opened))
    }
}
