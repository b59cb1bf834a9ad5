//! What metering takes from each call.

use gate::clock;

/// What a file-system call takes that does nothing, in nanoseconds: the best of several rounds. The
/// difference, before a process is metered and then, is what metering takes from it.
pub(crate) fn trial() -> u64 {
    const ROUNDS: u64 = 16;
    const CALLS: u64 = 32;
    let round = |_| {
        let start = clock::monotonic();
        (0..CALLS).for_each(|_| clock::empty_file_call());
        clock::monotonic().saturating_sub(start) / CALLS
    };
    (0..ROUNDS).map(round).min().unwrap_or_default()
}
