//! The reads of a file that Linux's readahead makes, in pages; see mm/readahead.c.

/// Limits of read requests in pages, each at least 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The maximum readahead.
    pub(crate) window: u64,
    /// The maximum size of a request.
    pub(crate) request: u64,
}

impl Limits {
    /// The requests of reading `pages` pages at once.
    fn readahead(self, pages: u64) -> Reads {
        Reads {
            waits: u64::from(pages > 0),
            requests: pages.div_ceil(self.request),
        }
    }
}

/// Numbers of requests and round trips for reading a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    /// Round trips that are waited for: a readahead sends its requests together.
    pub(crate) waits: u64,
    pub(crate) requests: u64,
}

impl Reads {
    pub(crate) fn and(self, other: Reads) -> Reads {
        Reads {
            waits: self.waits + other.waits,
            requests: self.requests + other.requests,
        }
    }

    /// The requests and round trips beyond those of `first`, the earlier reads.
    pub(crate) fn after(self, first: Reads) -> Reads {
        Reads {
            waits: self.waits.saturating_sub(first.waits),
            requests: self.requests.saturating_sub(first.requests),
        }
    }

    pub(crate) fn times(self, times: u64) -> Reads {
        Reads {
            waits: self.waits * times,
            requests: self.requests * times,
        }
    }
}

/// The requests for the first `wanted` pages of a file of `all` pages, when the first read has
/// `first` pages.
pub(crate) fn sequential(all: u64, wanted: u64, first: u64, limits: Limits) -> Reads {
    if wanted == 0 || all == 0 {
        return Reads::default();
    }
    let first = first.max(1);
    let mut window = first_window(first, limits.window);
    let mut have = window.min(all);
    // Reading the page `mark` starts the next readahead: the first page after those of the first
    // read.
    let mut mark = if window > first { first } else { 0 };
    let mut reads = limits.readahead(have);
    while have < all && wanted > mark {
        mark = have;
        window = next_window(window, limits.window);
        have = (have + window).min(all);
        reads = reads.and(limits.readahead(have - mark));
    }
    reads
}

/// The requests for the page faults of a mapped file of `all` pages, beyond the first `have` pages.
/// A fault reads half a window on each side. All pages are counted, as it is unknown which ones a
/// program touches.
pub(crate) fn faults(all: u64, have: u64, limits: Limits) -> Reads {
    let have = match have {
        0 => 0,
        have => have.max(first_window(1, limits.window)),
    };
    let left = all.saturating_sub(have);
    let windows = limits.readahead(limits.window).times(left / limits.window);
    windows.and(limits.readahead(left % limits.window))
}

/// The first readahead window for a first read of this many pages.
pub(crate) fn first_window(pages: u64, most: u64) -> u64 {
    let size = pages.max(1).next_power_of_two();
    if size <= most / 32 {
        size * 4
    } else if size <= most / 4 {
        size * 2
    } else {
        most
    }
}

/// The size of the readahead window after one of size `window`.
fn next_window(window: u64, most: u64) -> u64 {
    if window < most / 16 {
        window * 4
    } else if window <= most / 2 {
        window * 2
    } else {
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_windows_are_those_of_the_kernel() {
        let limits = Limits {
            window: 32,
            request: 256,
        };
        assert_eq!(
            [1, 2, 8, 20].map(|pages| first_window(pages, 32)),
            [4, 4, 16, 32]
        );
        assert_eq!([4, 16, 32].map(|pages| next_window(pages, 32)), [8, 32, 32]);
        assert_eq!(
            (
                sequential(0, 0, 0, limits).requests,
                sequential(1, 1, 1, limits).requests,
                faults(256, 1, limits).requests
            ),
            (0, 1, 8)
        );
        assert_eq!(faults(1, 1, limits), Reads::default());
        // 4, 8, 16 and 32 pages, then 32 at a time, in requests of at most 16 pages.
        let small = Limits {
            request: 16,
            ..limits
        };
        let reads = |waits, requests| Reads { waits, requests };
        assert_eq!(sequential(60, 60, 1, limits), reads(4, 4));
        assert_eq!(sequential(60, 60, 1, small), reads(4, 5));
        assert_eq!(faults(260, 4, small), reads(8, 16));
        assert_eq!(faults(261, 4, small), reads(9, 17));
    }
}
