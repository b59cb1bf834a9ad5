//! Infers readahead windows from the number of cached pages after each sequential page read.

use super::robust::mode;

/// The pages that the kernel fetched at one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The index of the page that was read.
    pub(crate) at: u64,
    /// The number of pages that were fetched.
    pub(crate) pages: u64,
    /// The number of unread pages in memory before the read, including the page to be read; 0 if
    /// this page was not cached.
    pub(crate) left: u64,
}

/// The windows of a file read sequentially from its start: `cached[i]` pages are in memory after
/// page `i` was read.
pub(crate) fn windows(cached: &[u64]) -> Vec<Window> {
    let mut before = 0;
    let mut windows = Vec::new();
    for (at, &now) in (0..).zip(cached) {
        if now > before {
            windows.push(Window {
                at,
                pages: now - before,
                left: before.saturating_sub(at),
            });
        }
        before = now;
    }
    windows
}

/// The readahead parameters inferred from windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Readahead {
    /// The size of the first window in pages.
    pub(crate) initial: u64,
    /// The sizes of windows in pages until the size stops growing, including the first and the
    /// steady size.
    pub(crate) ramp: Vec<u64>,
    /// The size of later windows in pages.
    pub(crate) steady: u64,
    /// The number of unread pages when the next steady window is fetched.
    pub(crate) trigger: u64,
    /// The number of steady windows, and of all windows from the first steady one on.
    pub(crate) agree: (usize, usize),
}

/// The readahead of one file; `None` if fewer than three windows are steady, or fewer than half of
/// the windows from the first steady one on: FUSE cuts windows short while its server is busy.
/// `end` is the number of pages in the file: the last window is cut off at the end, and ignored.
pub(crate) fn readahead(cached: &[u64], end: u64) -> Option<Readahead> {
    let mut windows = windows(cached);
    let fetched = windows
        .iter()
        .fold(0_u64, |sum, window| sum.saturating_add(window.pages));
    if fetched >= end {
        windows.pop();
    }
    // Take the steady size from the later half of the windows: windows at least double until they
    // are steady, and the file has many windows.
    let late = &windows[windows.len() / 2..];
    let (steady, _) = mode(&late.iter().map(|window| window.pages).collect::<Vec<_>>())?;
    let first = windows.iter().position(|window| window.pages == steady)?;
    let after = &windows[first..];
    let is_steady = |window: &&Window| window.pages == steady;
    let agree = after.iter().filter(is_steady).count();
    // Steady windows that were fetched while the previous steady window was being read; the first
    // one is excluded, because it ends the ramp. A fetch may be observed late, but not early.
    let steady_windows = after.iter().skip(1).filter(is_steady);
    let mut left: Vec<u64> = steady_windows.map(|window| window.left).collect();
    left.sort_unstable();
    let twice = left.windows(2).rev().find(|pair| pair[0] == pair[1]);
    let trigger = twice.map_or(*left.last()?, |pair| pair[0]);
    let ramp = windows[..=first]
        .iter()
        .map(|window| window.pages)
        .collect();
    let initial = windows.first()?.pages;
    (agree >= 3 && agree * 2 >= after.len()).then_some(Readahead {
        initial,
        ramp,
        steady,
        trigger,
        agree: (agree, after.len()),
    })
}
