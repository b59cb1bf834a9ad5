//! Runs the work of a test while other threads interfere.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Set when the work is done, so that the other threads stop.
pub(crate) struct Done(AtomicBool);

impl Done {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs `work` while `threads` threads run `other`, each with its number, until [`Done`] is set. It
/// is also set if the work panics, because otherwise the other threads would never end.
pub(crate) fn with_threads<T>(
    threads: u64,
    other: impl Fn(u64, &Done) + Sync,
    work: impl FnOnce() -> T,
) -> T {
    struct SetOnDrop<'a>(&'a Done);
    impl Drop for SetOnDrop<'_> {
        fn drop(&mut self) {
            self.0.0.store(true, Ordering::Relaxed);
        }
    }
    let done = Done(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _set_on_drop = SetOnDrop(&done);
        for thread in 0..threads {
            let (other, done) = (&other, &done);
            scope.spawn(move || other(thread, done));
        }
        work()
    })
}

/// Waits until shortly after the beginning of a second.
pub(crate) fn wait_for_second() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let left = 1050 - u64::from(now.subsec_millis());
    std::thread::sleep(Duration::from_millis(left));
}

/// Runs `work` while a file is rewritten continuously. The file is written once more, with the same
/// length, after the work.
pub(crate) fn while_rewriting<T>(hot: &Path, work: impl FnOnce() -> T) -> T {
    let write = |_, done: &Done| {
        let mut n = 0_u8;
        while !done.is_set() {
            n = n.wrapping_add(1) | 1;
            fs::write(hot, [n; 10]).unwrap();
        }
        fs::write(hot, [0; 10]).unwrap();
    };
    with_threads(1, write, work)
}
