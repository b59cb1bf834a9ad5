//! The events of every processor, and the rings that record them.

use gate::file::read_kernel;
use gate::perf::{Event, Ring, Watch, perf_event_open};
use gate::{Errno, machine};
use ondisk::perf;

use crate::tracefs::Tracepoints;

/// Bytes of all rings together, and the bounds of each ring.
const ALL_RINGS: usize = 32 << 20;
const LARGEST_RING: usize = 8 << 20;
const SMALLEST_RING: usize = 64 << 10;

/// The numbers of the online processors.
pub(super) fn processors() -> Vec<u32> {
    let online = read_kernel(c"/sys/devices/system/cpu/online").unwrap_or_default();
    let listed = str::from_utf8(&online).ok().and_then(parse_ranges);
    listed.unwrap_or_else(|| (0..machine::processors() as u32).collect())
}

/// Numbers as in `0-3,8`.
fn parse_ranges(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        all.extend(first..=last.min(first.saturating_add(1 << 16)));
    }
    Some(all)
}

/// The events of every processor, and their rings.
#[derive(Default)]
pub(super) struct Events {
    pub(super) enter: Vec<Event>,
    exec: Vec<Event>,
    exit: Vec<Event>,
    pub(super) rings: Vec<Ring>,
}

impl Events {
    pub(super) fn open(tracepoints: &Tracepoints, has_ids: bool, tid: i32) -> gate::Result<Events> {
        let processors = processors();
        let page = gate::cache::page_size();
        let size = (ALL_RINGS / processors.len().max(1)).clamp(SMALLEST_RING, LARGEST_RING);
        let mut pages = (size / page).max(1).next_power_of_two();
        let sample = perf::SAMPLE | if has_ids { perf::IDS } else { 0 };
        let enter = Watch {
            tracepoint: tracepoints.enter,
            sample,
            registers: 0,
            tasks: true,
            watermark: (pages * page / 4) as u32,
        };
        let exit = Watch {
            tracepoint: tracepoints.exit,
            tasks: false,
            ..enter
        };
        let exec = Watch {
            tracepoint: tracepoints.exec,
            sample: sample | perf::ABI,
            registers: 1,
            ..exit
        };
        let mut events = Events::default();
        for processor in processors {
            let first = perf_event_open(&enter, tid, processor)?;
            let ring = loop {
                match first.ring(pages) {
                    Err(Errno::EPERM | Errno::ENOMEM) if pages * page > SMALLEST_RING => pages /= 2,
                    other => break other?,
                }
            };
            for (watch, opened) in [(&exit, &mut events.exit), (&exec, &mut events.exec)] {
                let event = perf_event_open(watch, tid, processor)?;
                event.set_output(&first)?;
                opened.push(event);
            }
            events.enter.push(first);
            events.rings.push(ring);
        }
        // Not before all rings exist: what happened before would be counted but not recorded.
        let mut all = events.enter.iter().chain(&events.exit).chain(&events.exec);
        all.try_for_each(Event::enable)?;
        Ok(events)
    }

    /// Stops the exits first: an exit without its entry would look like a call that a seccomp
    /// filter has answered.
    pub(super) fn stop(&self) -> gate::Result<()> {
        let mut all = self.exit.iter().chain(&self.enter).chain(&self.exec);
        all.try_for_each(Event::disable)
    }

    /// How many entries and exits there were, recorded or not.
    pub(super) fn count(&self) -> gate::Result<[u64; 2]> {
        let sum = |events: &[Event]| events.iter().map(Event::count).sum::<gate::Result<u64>>();
        Ok([sum(&self.enter)?, sum(&self.exit)?])
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_listed_as_ranges() {
        assert_eq!(parse_ranges("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse_ranges("0"), Some(vec![0]));
        assert_eq!(parse_ranges(""), None);
        assert!(!processors().is_empty());
    }
}
