//! What goes on beside a test's work until that is done.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the work is done.
pub(crate) struct Until(AtomicBool);

impl Until {
    pub(crate) fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Does `work` while so many threads do something else, each with its number, until it is over;
/// also when it fails.
pub(crate) fn meanwhile<T>(
    threads: u64,
    other: impl Fn(u64, &Until) + Sync,
    work: impl FnOnce() -> T,
) -> T {
    struct AtLast<'a>(&'a Until);
    impl Drop for AtLast<'_> {
        fn drop(&mut self) {
            self.0.0.store(true, Ordering::Relaxed);
        }
    }
    let until = Until(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _at_last = AtLast(&until);
        for thread in 0..threads {
            let (other, until) = (&other, &until);
            scope.spawn(move || other(thread, until));
        }
        work()
    })
}

/// Does `work` while a file is written without a pause; and once more as soon as it is over, as
/// long as before, and never again.
pub(crate) fn while_written<T>(hot: &Path, work: impl FnOnce() -> T) -> T {
    let write = |_, until: &Until| {
        let mut n = 0_u8;
        while !until.is_over() {
            n = n.wrapping_add(1) | 1;
            fs::write(hot, [n; 10]).unwrap();
        }
        fs::write(hot, [0; 10]).unwrap();
    };
    meanwhile(1, write, work)
}
