//! Observes which pages of a file are in the page cache.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use gate::Fd;
use gate::cache::{FileMapping, cachestat, page_size};
use gate::fs::{Advice, fadvise64};

use crate::dir::Scratch;
use crate::error::{Error, Purpose, Result};
use crate::io::{read_at, sync};
use crate::names::SeenBy;

/// A way to observe which pages of a file are in the page cache.
#[derive(Debug)]
pub(crate) enum Residency {
    Cachestat(Fd),
    /// By mincore(2) on a mapping of the file, where cachestat(2) does not exist or counts nothing
    /// (on an overlay, whose pages belong to a different file system).
    Mincore(FileMapping, Vec<u8>),
}

impl Residency {
    /// Chooses the call that reports a page which was just read as cached. `None` if neither call
    /// does.
    pub(crate) fn new(scratch: &Scratch<'_>, len: u64) -> Result<Option<Residency>> {
        // Drop pages first: a call that still reports all of them as present is useless.
        drop_cache(&scratch.file, len, None)?;
        let reader = scratch.reopen()?;
        let _ = fadvise64(&reader, 0, 0, Advice::Random);
        read_at(&reader, &mut [0], 0)?;
        let page = page_size() as u64;
        if cachestat(&scratch.file, 0, page).is_ok_and(|cached| cached.pages > 0) {
            return Ok(Some(Residency::Cachestat(scratch.reopen()?)));
        }
        let len_in_memory = usize::try_from(len).unwrap_or(usize::MAX);
        let Ok(map) = FileMapping::new(scratch.file.as_fd(), len_in_memory) else {
            return Ok(None);
        };
        let mut residency = Residency::Mincore(map, Vec::new());
        let (some, all) = (
            residency.pages(0, len).unwrap_or(0),
            len.div_ceil(page).max(2),
        );
        Ok((1..all).contains(&some).then_some(residency))
    }

    /// The number of cached pages in a part of the file.
    pub(crate) fn pages(&mut self, offset: u64, len: u64) -> Result<u64> {
        self.count(offset, len)
            .map_err(Purpose::ReadResidency.failed())
    }

    fn count(&mut self, offset: u64, len: u64) -> gate::Result<u64> {
        match self {
            Residency::Cachestat(fd) => cachestat(fd, offset, len).map(|cached| cached.pages),
            Residency::Mincore(map, pages) => {
                let page = page_size() as u64;
                let from = offset / page * page;
                map.mincore(from as usize, (offset + len - from) as usize, pages)?;
                Ok(pages.iter().filter(|page| **page & 1 != 0).count() as u64)
            }
        }
    }

    /// The number of consecutive cached pages from the start of a file of `end` pages, of which the
    /// first `known` were cached before. Pages that are being read count as well. `expected`: the
    /// last read was slow and has triggered readahead, so more pages will arrive.
    pub(crate) fn prefix(&mut self, known: u64, end: u64, expected: bool) -> Result<u64> {
        /// Maximum time to wait for expected pages, which a busy disk delivers late.
        const PATIENCE: Duration = Duration::from_millis(100);
        /// Page index up to which the beginning of the file extends, where windows are small.
        const EARLY: u64 = 2048;
        if let Residency::Cachestat(_) = self {
            return self.prefix_now(known, end);
        }
        // mincore(2) does not count a page before its data has arrived, so poll until no more
        // arrive. At the beginning of a file windows are small, and no slow read signals that one
        // is being fetched.
        let begun = Instant::now();
        let mut wait = Duration::from_micros(if known < EARLY { 300 } else { 50 });
        let mut last = known;
        loop {
            std::thread::sleep(wait);
            let now = self.prefix_now(last, end)?;
            let is_awaited = expected && now == known && known < end && begun.elapsed() < PATIENCE;
            if now == last && !is_awaited {
                return Ok(now);
            }
            // Wait longer if many pages have arrived, because more of them may follow.
            let millis = if is_awaited {
                1
            } else {
                2 + (now - known) / 100
            };
            wait = Duration::from_millis(millis);
            last = now;
        }
    }

    fn prefix_now(&mut self, mut known: u64, end: u64) -> Result<u64> {
        let page = page_size() as u64;
        // Usually no further page is cached, so query only one page first.
        let mut part = 1;
        while known < end {
            let asked = part.min(end - known);
            let present = self.pages(known * page, asked * page)?;
            known += present;
            if present < asked {
                break;
            }
            part = (part * 8).min(4096);
        }
        Ok(known)
    }

    pub(crate) fn seen_by(&self) -> SeenBy {
        match self {
            Residency::Cachestat(_) => SeenBy::Cachestat,
            Residency::Mincore(..) => SeenBy::Mincore,
        }
    }
}

/// Drops a file's pages from the page cache, and returns whether all are gone. Pages under
/// writeback, or in a per-CPU batch, stay at first, so the call is repeated until the number of
/// cached pages stops falling.
pub(crate) fn drop_cache(fd: &Fd, len: u64, residency: Option<&mut Residency>) -> Result<bool> {
    /// Number of rounds without progress until giving up: about 120 ms.
    const PATIENCE: u64 = 16;
    let (mut residency, mut last, mut unchanged) = (residency, u64::MAX, 0);
    while unchanged < PATIENCE {
        sync(fd)?;
        fadvise64(fd, 0, 0, Advice::DontNeed).map_err(Purpose::DropCache.failed())?;
        let Some(residency) = &mut residency else {
            return Ok(true);
        };
        let left = residency.pages(0, len)?;
        if left == 0 {
            return Ok(true);
        }
        unchanged = if left < last { 0 } else { unchanged + 1 };
        last = left;
        std::thread::sleep(Duration::from_millis(unchanged));
        if gate::interrupt::pending_signal().is_some() {
            return Err(Error::Interrupted);
        }
    }
    Ok(false)
}
