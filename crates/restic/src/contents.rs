//! Reads the contents of files, at most up to the size at opening, so that contents and metadata
//! agree.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use archive::WarningKind;
use archive::dump::{NotOpened, OpenAncestors, Progress, is_unchanged, is_unchanged_as_read, stat};
use base::{Warning, Warnings};
use catalog::rows::Rows;
use gate::fs::{Whence, lseek, pread64};
use gate::sync::Mutex;
use gate::{Errno, Fd, Gate};
use walk::{FileType, Meta};

/// Warnings about entries of a tree.
pub(crate) struct EntryWarnings {
    rows: Arc<Rows>,
    found: Mutex<Warnings>,
    /// Whether the snapshot lacks an entry, or data of one, that could not be read.
    skipped: AtomicBool,
}

impl EntryWarnings {
    /// Maximum number of warnings; further ones are only counted.
    const MOST: usize = 100_000;

    pub(crate) fn new(rows: Arc<Rows>) -> EntryWarnings {
        EntryWarnings {
            rows,
            found: Mutex::default(),
            skipped: AtomicBool::new(false),
        }
    }

    /// Warns of a file that could not be opened, or whose metadata could not be read.
    pub(crate) fn not_opened(&self, row: usize, gate: Gate, why: NotOpened) {
        self.skip(why.warning(&self.rows.full_path(row), self.rows.kind(row), gate));
    }

    pub(crate) fn failed(&self, row: usize, gate: Gate, errno: Errno, kind: WarningKind) {
        let path = self.rows.full_path(row);
        self.skip(Warning::failed(&path, gate, errno, kind));
    }

    fn skip(&self, warning: Warning) {
        self.found.lock().push(warning, EntryWarnings::MOST);
        self.skipped.store(true, Relaxed);
    }

    /// Warns that data of an entry is missing in the snapshot.
    pub(crate) fn lose(&self, row: usize, kind: WarningKind) {
        self.warn(row, kind);
        self.skipped.store(true, Relaxed);
    }

    pub(crate) fn warn(&self, row: usize, kind: WarningKind) {
        let warning = Warning::about(&self.rows.full_path(row), kind);
        self.found.lock().push(warning, EntryWarnings::MOST);
    }

    pub(crate) fn has_skipped(&self) -> bool {
        self.skipped.load(Relaxed)
    }

    pub(crate) fn take(&self) -> Vec<Warning> {
        self.found.lock().take_all(WarningKind::MoreOfThese)
    }
}

/// A data or hole extent of a file.
#[derive(Clone, Copy)]
struct Extent {
    is_hole: bool,
    end: u64,
}

/// An open file whose contents are being read.
pub(crate) struct Contents<'a> {
    warnings: &'a EntryWarnings,
    progress: &'a Progress,
    row: usize,
    meta: Meta,
    fd: Fd,
    /// The current extent, data or hole, and its end. `None` if not yet known.
    extent: Option<Extent>,
    /// Number of bytes still to be read.
    left: u64,
    /// The file has become shorter: the rest is stored as zeros.
    is_short: bool,
    /// The offset at which read(2) returned the end of the file, if before `st_size`.
    end: Option<u64>,
}

impl<'a> Contents<'a> {
    /// Opens the file of a row. If it has changed since `meta` was collected, updates `meta`.
    /// `None`, with a warning, if it cannot be opened.
    pub(crate) fn open(
        places: &mut OpenAncestors<Arc<Rows>>,
        warnings: &'a EntryWarnings,
        progress: &'a Progress,
        row: usize,
        meta: &mut Meta,
    ) -> Option<Contents<'a>> {
        let opened = places.open_file(row, meta.uid).and_then(|fd| {
            let now = stat(&fd)?;
            match now.kind() {
                FileType::Regular => Ok((fd, now)),
                _ => Err(NotOpened::Replaced),
            }
        });
        match opened {
            Ok((fd, now)) => {
                if !is_unchanged(&now, meta) {
                    *meta = now;
                }
                let is_dense = meta.blocks.saturating_mul(512) >= meta.size;
                Some(Contents {
                    warnings,
                    progress,
                    row,
                    meta: *meta,
                    fd,
                    extent: is_dense.then_some(Extent {
                        is_hole: false,
                        end: u64::MAX,
                    }),
                    left: meta.size,
                    is_short: false,
                    end: None,
                })
            }
            Err(why) => {
                warnings.not_opened(row, Gate::Openat, why);
                None
            }
        }
    }

    /// The extent at an offset. If lseek(2) fails, the rest of the file counts as data.
    fn extent_at(&mut self, at: u64) -> Extent {
        if let Some(extent) = self.extent.filter(|extent| at < extent.end) {
            return extent;
        }
        let (size, seek) = (self.meta.size, |whence| lseek(&self.fd, at, whence));
        let (is_hole, end) = match seek(Whence::Data) {
            Ok(data) if data > at => (true, data.min(size)),
            Err(Errno::ENXIO) if at < size => (true, size),
            // If a hole is punched into this data extent meanwhile, read(2) returns zeros for the
            // hole.
            Ok(_) => (false, seek(Whence::Hole).unwrap_or(size).max(at + 1)),
            Err(_) => (false, u64::MAX),
        };
        *self.extent.insert(Extent { is_hole, end })
    }

    /// Skips as many parts of the length `part` as fit into the current hole, and returns their
    /// number.
    pub(crate) fn skip_hole(&mut self, part: usize) -> u64 {
        let at = self.meta.size - self.left;
        let extent = self.extent_at(at);
        if !extent.is_hole || part == 0 || self.is_short {
            return 0;
        }
        let count = extent.end.saturating_sub(at) / part as u64;
        self.left -= count * part as u64;
        self.progress.add_bytes(count * part as u64);
        count
    }

    /// Appends up to `most` bytes of the file, fewer only at its end. `None`, with a warning, if
    /// they cannot be read.
    pub(crate) fn read(&mut self, most: usize, to: &mut Vec<u8>) -> Option<()> {
        let most = usize::try_from(self.left).map_or(most, |left| left.min(most));
        let (first, at, mut have) = (to.len(), self.meta.size - self.left, 0);
        to.resize(first + most, 0);
        while have < most && !self.is_short {
            let offset = at + have as u64;
            let extent = self.extent_at(offset);
            let length = (extent.end - offset).min((most - have) as u64) as usize;
            if extent.is_hole {
                have += length; // holes are zeros, which the buffer contains already
                continue;
            }
            match pread64(&self.fd, &mut to[first + have..][..length], offset) {
                Err(Errno::EINTR) => {}
                Ok(0) => {
                    // Like restic, end the file where the data ends, before `st_size`.
                    let end = Some(offset);
                    let is_same = |now| is_unchanged_as_read(&now, &self.meta, end);
                    if stat(&self.fd).is_ok_and(is_same) {
                        self.end = end;
                        self.left = 0;
                        to.truncate(first + have);
                        return Some(());
                    }
                    self.is_short = true; // the buffer contains zeros already
                }
                Ok(n) => have += n,
                Err(e) => {
                    self.warnings.not_opened(self.row, Gate::Pread64, e.into());
                    return None;
                }
            }
        }
        self.left -= most as u64;
        self.progress.add_bytes(most as u64);
        Some(())
    }

    /// Whether the whole file was read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.left == 0
    }

    /// The offset of the end of the file, if read(2) returned it before `st_size`.
    pub(crate) fn end(&self) -> Option<u64> {
        self.end
    }

    /// Whether to read the file again, because it has changed since it was opened. If `can_be` is
    /// false, reading again is impossible, and a warning is added instead.
    pub(crate) fn must_be_repeated(self, can_be: bool) -> bool {
        let Contents {
            warnings,
            row,
            meta,
            fd,
            end,
            ..
        } = self;
        match stat(&fd) {
            Ok(now) if is_unchanged_as_read(&now, &meta, end) => {
                if let Some(end) = end {
                    let (size, is_padded) = (meta.size, false);
                    warnings.lose(
                        row,
                        WarningKind::EndsEarly {
                            end,
                            size,
                            is_padded,
                        },
                    );
                }
                false
            }
            Ok(_) if can_be => true,
            Ok(now) => {
                warnings.warn(row, WarningKind::changed(meta.size, now.size));
                false
            }
            Err(e) => {
                warnings.failed(row, Gate::Statx, e, WarningKind::NotCheckedAfterwards);
                false
            }
        }
    }
}
