//! What several experiments do to a file.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use gate::cache::{Mapping, cachestat, page_size};
use gate::create::{ftruncate, pwrite64};
use gate::file::fsync;
use gate::fs::{Advice, fadvise64, pread64};
use gate::{Errno, Fd, Gate};

use crate::desk::{Desk, Trouble};
use crate::place::Scratch;
use crate::timer::Clock;

/// Writes all of `bytes` at a place in a file.
pub(crate) fn write_all(fd: &Fd, mut bytes: &[u8], mut offset: u64) -> Result<(), Trouble> {
    while !bytes.is_empty() {
        match pwrite64(fd, bytes, offset)
            .map_err(Trouble::refused("cannot write to the file", Gate::Pwrite64))?
        {
            0 => {
                return Err(Trouble::Hindered(
                    "cannot write to the file: it takes nothing more".to_owned(),
                ));
            }
            n => {
                bytes = &bytes[n..];
                offset += n as u64;
            }
        }
    }
    Ok(())
}

/// Bytes that no file system can make smaller, from a seed.
pub(crate) fn noise(bytes: &mut [u8], seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for chunk in bytes.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_ne_bytes()[..chunk.len()]);
    }
}

/// Fills a file with so many bytes of noise, and waits until they are on the disk.
pub(crate) fn fill(desk: &mut Desk<'_>, fd: &Fd, len: u64) -> Result<(), Trouble> {
    const CHUNK: u64 = 1 << 20;
    let mut chunk = vec![0; CHUNK as usize];
    let mut at = 0;
    while at < len {
        let n = CHUNK.min(len - at);
        desk.spend(0, n)?;
        noise(&mut chunk, at + 1);
        write_all(fd, &chunk[..n as usize], at)?;
        at += n;
    }
    sync(fd)
}

/// Waits until a file is on the disk.
pub(crate) fn sync(fd: &Fd) -> Result<(), Trouble> {
    fsync(fd).map_err(Trouble::refused(
        "cannot bring the file to the disk",
        Gate::Fsync,
    ))
}

/// Makes a file so long, the rest of it a hole.
pub(crate) fn extend(fd: &Fd, len: u64) -> Result<(), Trouble> {
    ftruncate(fd, len).map_err(Trouble::refused(
        "cannot make the file longer",
        Gate::Ftruncate,
    ))
}

/// How it is seen what of a file is in memory.
#[derive(Debug)]
pub(crate) enum Witness {
    /// By cachestat(2).
    Cachestat(Fd),
    /// By mincore(2), on a mapping of the file: where cachestat is missing, or is blind (on an
    /// overlay, whose files are kept by another file system).
    Mincore(Mapping, Vec<u8>),
}

impl Witness {
    /// The way that sees a page of the file that was just read. `None` where neither does.
    pub(crate) fn of(scratch: &Scratch<'_>, len: u64) -> Result<Option<Witness>, Trouble> {
        // So that not all of it is in memory: who then sees everything there sees nothing.
        forget(&scratch.file, len, None)?;
        let reader = scratch.reopen()?;
        let _ = fadvise64(&reader, 0, 0, Advice::Random);
        read_at(&reader, &mut [0], 0)?;
        let page = page_size() as u64;
        if cachestat(&scratch.file, 0, page).is_ok_and(|cached| cached.pages > 0) {
            return Ok(Some(Witness::Cachestat(scratch.reopen()?)));
        }
        let Ok(map) = Mapping::new(
            scratch.file.as_fd(),
            usize::try_from(len).unwrap_or(usize::MAX),
        ) else {
            return Ok(None);
        };
        let mut witness = Witness::Mincore(map, Vec::new());
        Ok((1..len.div_ceil(page).max(2))
            .contains(&witness.pages(0, len).unwrap_or(0))
            .then_some(witness))
    }

    /// How many pages of a part of the file are in memory.
    pub(crate) fn pages(&mut self, offset: u64, len: u64) -> Result<u64, Errno> {
        match self {
            Witness::Cachestat(fd) => cachestat(fd, offset, len).map(|cached| cached.pages),
            Witness::Mincore(map, pages) => {
                let page = page_size() as u64;
                let from = offset / page * page;
                map.mincore(from as usize, (offset + len - from) as usize, pages)?;
                Ok(pages.iter().filter(|page| **page & 1 != 0).count() as u64)
            }
        }
    }

    /// How many pages of a file of `end` pages are in memory without a gap, of which `have` are
    /// known to be; those that are just being read count. More are `expected` after a read that
    /// took long: it has had them fetched.
    pub(crate) fn reach(&mut self, have: u64, end: u64, expected: bool) -> Result<u64, Errno> {
        /// A disk that others want as well takes so long.
        const PATIENCE: Duration = Duration::from_millis(100);
        /// So many pages are the beginning of a file.
        const EARLY: u64 = 2048;
        if let Witness::Cachestat(_) = self {
            return self.reach_now(have, end);
        }
        // mincore does not count a page before its bytes have come: it is given time to, and asked
        // until no more do. Small windows show early in a file, and nothing tells the read that has
        // one fetched from the others.
        let begun = Instant::now();
        let (mut last, mut wait) = (
            have,
            Duration::from_micros(if have < EARLY { 300 } else { 50 }),
        );
        loop {
            std::thread::sleep(wait);
            let now = self.reach_now(last, end)?;
            let is_awaited = expected && now == have && have < end && begun.elapsed() < PATIENCE;
            if now == last && !is_awaited {
                return Ok(now);
            }
            // The more have come, the more may be under way.
            wait = if is_awaited {
                Duration::from_millis(1)
            } else {
                Duration::from_millis(2 + (now - have) / 100)
            };
            last = now;
        }
    }

    fn reach_now(&mut self, mut have: u64, end: u64) -> Result<u64, Errno> {
        let page = page_size() as u64;
        // As a rule none has come since: one page is asked for, and only then more and more.
        let mut part = 1;
        while have < end {
            let asked = part.min(end - have);
            let there = self.pages(have * page, asked * page)?;
            have += there;
            if there < asked {
                break;
            }
            part = (part * 8).min(4096);
        }
        Ok(have)
    }

    /// Its name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Witness::Cachestat(_) => "cachestat(2)",
            Witness::Mincore(..) => "mincore(2)",
        }
    }
}

/// Has the kernel forget what it has of a file in memory; whether that is seen to be so. Pages that
/// are just being written, or that a processor still has in hand, stay: then it is asked again.
pub(crate) fn forget(fd: &Fd, len: u64, witness: Option<&mut Witness>) -> Result<bool, Trouble> {
    /// So often in a row without any page having gone: then none will. Some 120 ms.
    const PATIENCE: u64 = 16;
    let (mut witness, mut last, mut unchanged) = (witness, u64::MAX, 0);
    while unchanged < PATIENCE {
        sync(fd)?;
        let told = fadvise64(fd, 0, 0, Advice::DontNeed);
        told.map_err(Trouble::refused(
            "cannot drop the file from memory",
            Gate::Fadvise64,
        ))?;
        let Some(witness) = &mut witness else {
            return Ok(true);
        };
        let left = witness.pages(0, len).map_err(Trouble::refused(
            "cannot see what is in memory",
            Gate::Cachestat,
        ))?;
        if left == 0 {
            return Ok(true);
        }
        unchanged = if left < last { 0 } else { unchanged + 1 };
        last = left;
        std::thread::sleep(Duration::from_millis(unchanged));
        if gate::interrupt::asked().is_some() {
            return Err(Trouble::Interrupted);
        }
    }
    Ok(false)
}

/// What each call of a series takes, one for each `step` of so many bytes; `after` is told, and may
/// take its time.
pub(crate) fn times(
    clock: Clock,
    len: u64,
    step: usize,
    mut call: impl FnMut(u64) -> Result<usize, Errno>,
    mut after: impl FnMut(f64),
) -> Result<Vec<f64>, Errno> {
    let timed = |at| {
        let begun = clock.now();
        call(at)?;
        let took = clock.since(begun);
        after(took);
        Ok(took)
    };
    (0..len).step_by(step).map(timed).collect()
}

/// Reads at a place in a file, as much as it gives.
pub(crate) fn read_at(fd: &Fd, buffer: &mut [u8], offset: u64) -> Result<usize, Trouble> {
    pread64(fd, buffer, offset).map_err(Trouble::refused("cannot read the file", Gate::Pread64))
}
