//! Chooses between polling and sleeping for the next stop.

use gate::usage;

/// Decides whether to poll for the next stop instead of sleeping. While a processor is idle and
/// stops follow each other fast, polling is faster: waking a sleeping processor takes up to a
/// hundred times as long as the stop itself on a virtual machine.
#[derive(Default)]
pub(super) struct Poller {
    pub(super) processors: usize,
    /// The last stop came within [`SOON`](super::SOON).
    pub(super) is_busy: bool,
    /// Number of waits since fathom's involuntary context switches were last read, and their count
    /// then.
    pub(super) waits: u32,
    pub(super) preemptions: i64,
    /// Number of further readings of the context switches before polling again.
    pub(super) pause: u32,
}

impl Poller {
    pub(super) fn should_poll(&mut self, threads: usize) -> bool {
        const WAITS: u32 = 64;
        const PAUSE: u32 = 64;
        self.waits += 1;
        if self.waits >= WAITS {
            self.waits = 0;
            let before = std::mem::replace(&mut self.preemptions, usage::preemptions());
            self.pause = match self.preemptions == before {
                true => self.pause.saturating_sub(1),
                false => PAUSE,
            };
        }
        self.is_busy && self.pause == 0 && threads < self.processors
    }
}
