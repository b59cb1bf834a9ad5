//! The tick of a file system's clock: two changes within one tick leave the same ctime, so an entry
//! that was read in the tick of a change may have changed again unnoticed.

use std::time::Duration;

use gate::btrfs::BTRFS_SUPER_MAGIC;
use gate::fs::{EXT4_SUPER_MAGIC, TMPFS_MAGIC};
use gate::xfs::XFS_SUPER_MAGIC;
use walk::Moment;
use walk::entry::Time;

/// Longer than any tick of a file system's clock: after this time, a change leaves another ctime.
pub const TICK: Duration = Duration::from_millis(20);

/// [`TICK`] later.
pub(crate) fn after_a_tick(time: Time) -> Time {
    let nsec = time.nsec + TICK.subsec_nanos();
    Time {
        sec: time.sec.saturating_add((nsec / 1_000_000_000).into()),
        nsec: nsec % 1_000_000_000,
    }
}

/// [`TICK`] earlier.
pub(crate) fn before_a_tick(time: Time) -> Time {
    let tick = TICK.subsec_nanos();
    match time.nsec.checked_sub(tick) {
        Some(nsec) => Time { nsec, ..time },
        None => Time {
            sec: time.sec.saturating_sub(1),
            nsec: time.nsec + 1_000_000_000 - tick,
        },
    }
}

/// Waits until a change leaves a later ctime than any change before `begun`: until the coarse clock
/// that the kernel stamps files with has reached `begun`, or for [`TICK`] on a file system that may
/// have another clock. `magic` is `f_type` of statfs(2).
pub(crate) fn wait_for_tick(begun: &Moment, magic: Option<u64>) {
    /// ext2 to ext4, XFS, btrfs, tmpfs.
    const KERNEL_CLOCK: [u64; 4] = [
        EXT4_SUPER_MAGIC,
        XFS_SUPER_MAGIC,
        BTRFS_SUPER_MAGIC,
        TMPFS_MAGIC,
    ];
    const STEP: Duration = Duration::from_micros(500);
    let has_kernel_clock = magic.is_some_and(|magic| KERNEL_CLOCK.contains(&magic));
    // If the clock is set back meanwhile, it may take any time to reach `begun`: TICK is enough.
    while let Some(left) = TICK.checked_sub(begun.elapsed()) {
        if has_kernel_clock && gate::clock::of_files() >= begun.time() {
            return;
        }
        std::thread::sleep(if has_kernel_clock {
            left.min(STEP)
        } else {
            left
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_of_files_reaches_the_moment() {
        for magic in [Some(0xef53), None] {
            let begun = Moment::now();
            wait_for_tick(&begun, magic);
            assert!(
                gate::clock::of_files() >= begun.time() || begun.elapsed() >= TICK,
                "{magic:?}"
            );
        }
    }

    #[test]
    fn before_a_tick_borrows_from_the_seconds() {
        let at = |sec, nsec| before_a_tick(Time { sec, nsec });
        let (sec, nsec) = (5, 10_000_000);
        assert_eq!(at(5, 30_000_000), Time { sec, nsec });
        let (sec, nsec) = (4, 980_000_000);
        assert_eq!(at(5, 0), Time { sec, nsec });
    }
}
