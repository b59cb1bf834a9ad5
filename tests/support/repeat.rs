//! How often a test repeats its work.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

use catalog::Reader;

use super::wait::LIMIT;

/// Repeats `attempt` until it returns a value, for tests that depend on a coincidence, such as a
/// change during a walk: an attempt without the coincidence returns `None`. The limit is reached
/// only if the coincidence is impossible.
#[track_caller]
pub(crate) fn repeat_until<T>(coincidence: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(
            started.elapsed() < LIMIT,
            "no attempt in {LIMIT:?}: {coincidence}"
        );
    }
}

/// The second in which the walk of a catalog began.
pub(crate) fn second_of(catalog: &Path) -> i64 {
    let reader = Reader::open(catalog.as_os_str().as_bytes()).unwrap();
    reader.about().at_rest_before().sec
}
