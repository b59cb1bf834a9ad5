//! The reads of a file that Linux's readahead makes, in pages; see mm/readahead.c.

/// The requests for the first `wanted` pages of a file of `all` pages, when the first read is of
/// `first` pages and the readahead is at most `most` pages.
pub(crate) fn sequential(all: u64, wanted: u64, first: u64, most: u64) -> u64 {
    if wanted == 0 || all == 0 {
        return 0;
    }
    let first = first.max(1);
    let mut window = first_window(first, most);
    let mut have = window.min(all);
    // Reading this page starts the next readahead: the first page after the read itself.
    let mut mark = if window > first { first } else { 0 };
    let mut requests = 1;
    while have < all && wanted > mark {
        mark = have;
        window = next_window(window, most);
        have = (have + window).min(all);
        requests += 1;
    }
    requests
}

/// The requests for the page faults of a mapped file of `all` pages, beyond the first `have` pages. A
/// fault reads half a window on each side. Which pages a program touches is unknown: all of them are
/// counted.
pub(crate) fn faults(all: u64, have: u64, window: u64) -> u64 {
    let have = match have {
        0 => 0,
        have => have.max(first_window(1, window)),
    };
    all.saturating_sub(have).div_ceil(window)
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

/// The next readahead window.
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
        assert_eq!(
            [1, 2, 8, 20].map(|pages| first_window(pages, 32)),
            [4, 4, 16, 32]
        );
        assert_eq!([4, 16, 32].map(|pages| next_window(pages, 32)), [8, 32, 32]);
        assert_eq!(
            (
                sequential(0, 0, 0, 32),
                sequential(1, 1, 1, 32),
                faults(256, 1, 32)
            ),
            (0, 1, 8)
        );
        assert_eq!(faults(1, 1, 32), 0);
    }
}
