//! Readahead's windows, from how much of a file is in memory after each read of a page in order.

use super::robust::mode;

/// What the kernel fetched at one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The page that was read.
    pub(crate) at: u64,
    /// How many pages were fetched.
    pub(crate) pages: u64,
    /// How many pages were still unread in memory, the one that was read included; 0 for a read that
    /// found nothing.
    pub(crate) left: u64,
}

/// The windows of a file that is read from its beginning: `cached[i]` pages are in memory after page
/// `i` was read.
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

/// The readahead that the windows show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Readahead {
    /// Pages of the first window.
    pub(crate) initial: u64,
    /// Pages of each window until they no longer grow, the first and the steady one included.
    pub(crate) ramp: Vec<u64>,
    /// Pages of the windows that follow.
    pub(crate) steady: u64,
    /// How many pages are still unread when the next steady window is fetched.
    pub(crate) trigger: u64,
    /// How many windows were steady, and how many there were from the first steady one on.
    pub(crate) agree: (usize, usize),
}

/// The readahead of one file; `None` when fewer than three windows are steady, or fewer than half of
/// those from the first such one on: FUSE cuts windows short while its server is busy. `end` is the
/// number of pages in the file: the last window is cut off there, and not counted.
pub(crate) fn readahead(cached: &[u64], end: u64) -> Option<Readahead> {
    let mut windows = windows(cached);
    let fetched = windows
        .iter()
        .fold(0_u64, |sum, window| sum.saturating_add(window.pages));
    if fetched >= end {
        windows.pop();
    }
    // The later half is past the ramp: windows grow at least twofold, and the file has many.
    let late = &windows[windows.len() / 2..];
    let (steady, _) = mode(&late.iter().map(|window| window.pages).collect::<Vec<_>>())?;
    let first = windows.iter().position(|window| window.pages == steady)?;
    let after = &windows[first..];
    let is_steady = |window: &&Window| window.pages == steady;
    let agree = after.iter().filter(is_steady).count();
    // The steady windows that are fetched while the one before is being read: not the first, which
    // ends the ramp. They may be seen late, but not early.
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
