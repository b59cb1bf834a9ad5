//! The tick of a file system's clock: two changes within one tick have the same ctime, so an entry
//! read within the tick of a change may have changed again unnoticed.

use std::time::Duration;

use gate::btrfs::BTRFS_SUPER_MAGIC;
use gate::fs::{EXT4_SUPER_MAGIC, TMPFS_MAGIC};
use gate::xfs::XFS_SUPER_MAGIC;
use walk::Moment;
use walk::entry::Time;

/// Longer than any tick of a file system's clock: a change after this time has a later ctime.
pub const TICK: Duration = Duration::from_millis(20);

/// The given time plus [`TICK`].
pub(crate) fn after_a_tick(time: Time) -> Time {
    let nsec = time.nsec + TICK.subsec_nanos();
    Time::new(
        time.sec.saturating_add((nsec / 1_000_000_000).into()),
        nsec % 1_000_000_000,
    )
}

/// The given time minus [`TICK`].
pub fn before_a_tick(time: Time) -> Time {
    let tick = TICK.subsec_nanos();
    match time.nsec.checked_sub(tick) {
        Some(nsec) => Time { nsec, ..time },
        None => Time::new(time.sec.saturating_sub(1), time.nsec + 1_000_000_000 - tick),
    }
}

/// Waits until new changes get a later ctime than any change before `begun`: until the kernel's
/// coarse clock, from which ctimes are taken, has reached `begun`; or for [`TICK`] on a file system
/// that may use a different clock. `magic` is `f_type` of statfs(2).
pub(crate) fn wait_for_tick(begun: &Moment, magic: Option<u64>) {
    let kernel_clock = has_kernel_clock(magic).then_some(gate::clock::of_files as fn() -> Time);
    while let Some(pause) = pause(
        begun.elapsed(),
        kernel_clock.map(|clock| clock() >= begun.time()),
    ) {
        std::thread::sleep(pause);
    }
}

/// Whether a file system with this `f_type` takes ctimes from the kernel's coarse clock.
fn has_kernel_clock(magic: Option<u64>) -> bool {
    /// ext2 to ext4, XFS, btrfs, tmpfs.
    const KERNEL_CLOCK: [u64; 4] = [
        EXT4_SUPER_MAGIC,
        XFS_SUPER_MAGIC,
        BTRFS_SUPER_MAGIC,
        TMPFS_MAGIC,
    ];
    magic.is_some_and(|magic| KERNEL_CLOCK.contains(&magic))
}

/// How long to sleep before checking the clocks again, `elapsed` after the moment to wait for;
/// `None` when the wait is over. `has_reached`: whether the kernel's coarse clock has reached that
/// moment; `None` if file times may come from a different clock.
fn pause(elapsed: Duration, has_reached: Option<bool>) -> Option<Duration> {
    const STEP: Duration = Duration::from_micros(500);
    // If the clock was set back meanwhile, reaching the moment may take any time: never wait longer
    // than TICK.
    let left = TICK.checked_sub(elapsed)?;
    match has_reached {
        Some(true) => None,
        Some(false) => Some(left.min(STEP)),
        None => Some(left),
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "the test changes files past the gate"
)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn wait_ends_with_the_clock_of_files_or_the_longest_tick() {
        let us = Duration::from_micros;
        for (elapsed, has_reached, expected) in [
            (us(0), Some(true), None),
            (us(0), Some(false), Some(us(500))),
            (us(19_900), Some(false), Some(us(100))),
            (us(20_001), Some(false), None),
            (us(0), None, Some(us(20_000))),
            (us(15_000), None, Some(us(5_000))),
            (us(20_001), None, None),
        ] {
            let what = format!("{elapsed:?}, {has_reached:?}");
            assert_eq!(pause(elapsed, has_reached), expected, "{what}");
        }
        assert!(has_kernel_clock(Some(EXT4_SUPER_MAGIC)));
        let msdos = Some(0x4d44);
        assert!(!has_kernel_clock(msdos) && !has_kernel_clock(None));
    }

    #[test]
    fn change_after_the_wait_has_a_later_ctime() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let change = || {
            std::fs::write(file.path(), "changed").unwrap();
            let status = file.path().metadata().unwrap();
            (status.ctime(), status.ctime_nsec())
        };
        let magic = gate::fs::fstatfs(file.as_file()).unwrap().magic;
        for magic in [Some(magic), None] {
            for _ in 0..10 {
                let before = change();
                wait_for_tick(&Moment::now(), magic);
                assert!(change() > before, "{magic:?}");
            }
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
