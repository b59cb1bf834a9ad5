//! A time to compare change times with: a file with a later change time may have changed since.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gate::btrfs::BTRFS_SUPER_MAGIC;
use gate::fs::{EXT4_SUPER_MAGIC, TMPFS_MAGIC, Time};
use gate::xfs::XFS_SUPER_MAGIC;

/// A time by two clocks: the real-time clock, which file times come from, and the monotonic clock,
/// which is never set back.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    real: Duration,
    steady: Instant,
}

impl Moment {
    /// The present time.
    pub fn now() -> Moment {
        Moment {
            real: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
            steady: Instant::now(),
        }
    }

    /// The real time of this moment. If the real-time clock has been set back since, the time as
    /// that clock would now have shown it.
    pub fn time(&self) -> Time {
        time(self.real())
    }

    /// The time since this moment.
    pub fn elapsed(&self) -> Duration {
        self.steady.elapsed()
    }

    /// The earliest change time of a file that was changed after this moment. The kernel's clock
    /// for files has steps of up to 10 ms.
    pub(crate) fn changed_since(&self) -> Time {
        const STEP: Duration = Duration::from_millis(20);
        time(self.real().saturating_sub(STEP))
    }

    fn real(&self) -> Duration {
        // Read the monotonic clock first: the time between the two calls would otherwise look as if
        // the real-time clock had been set back.
        let elapsed = self.steady.elapsed();
        earliest(self.real, Moment::now().real, elapsed)
    }
}

/// The precision with which a file system stores the change time of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Granularity {
    /// XFS, btrfs, tmpfs, and ext4 where inodes have room for nanoseconds.
    Nanosecond,
    /// ext2 to ext4 with small inodes.
    Second,
    /// The precision is unknown, and that of the coarsest file system (FAT) is assumed. On network
    /// file systems it depends on the server's file system, which clients do not see.
    TwoSeconds,
}

impl Granularity {
    /// The precision of change times on a file system with this `f_type` of statfs(2).
    ///
    /// ext4 stores nanoseconds of the ctime in each inode that is long enough. Birth times are
    /// stored behind them, so an inode with a birth time has nanoseconds. The ext2 driver has the
    /// same `f_type`, and stores neither.
    pub fn new(magic: u64, has_btime: bool) -> Granularity {
        match magic {
            XFS_SUPER_MAGIC | BTRFS_SUPER_MAGIC | TMPFS_MAGIC => Granularity::Nanosecond,
            EXT4_SUPER_MAGIC if has_btime => Granularity::Nanosecond,
            EXT4_SUPER_MAGIC => Granularity::Second,
            _ => Granularity::TwoSeconds,
        }
    }

    /// The maximum rounding error, in seconds, of a stored time without a fraction.
    fn seconds(self) -> i64 {
        match self {
            Granularity::Nanosecond => 0,
            Granularity::Second => 1,
            Granularity::TwoSeconds => 2,
        }
    }
}

/// Whether a file with this change time may have changed at a moment or later. Where the
/// granularity is coarse or unknown, a time without a fraction may have been rounded down.
pub fn may_be_since(ctime: Time, granularity: Granularity, moment: Time) -> bool {
    let seconds = if ctime.nsec == 0 {
        granularity.seconds()
    } else {
        0
    };
    Time {
        sec: ctime.sec.saturating_add(seconds),
        ..ctime
    } >= moment
}

/// The time of a moment that was at `then` by the clock, if the clock is at `now` after `elapsed`:
/// earlier than `then` if the clock was set back.
fn earliest(then: Duration, now: Duration, elapsed: Duration) -> Duration {
    /// Smaller differences between the two clocks are rounding errors: both derive from one
    /// counter, and are adjusted alike.
    const ROUNDING: Duration = Duration::from_millis(1);
    let by_now = now.saturating_sub(elapsed);
    if by_now + ROUNDING < then {
        by_now
    } else {
        then
    }
}

fn time(since_1970: Duration) -> Time {
    Time::new(
        since_1970.as_secs().cast_signed(),
        since_1970.subsec_nanos(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_that_is_set_back_moves_the_moment_back() {
        let at = |hours: u64, minutes: u64| Duration::from_secs(hours * 3600 + minutes * 60);
        let half_an_hour = at(0, 30);
        assert_eq!(earliest(at(5, 0), at(5, 30), half_an_hour), at(5, 0));
        assert_eq!(
            earliest(at(5, 0), at(4, 30), half_an_hour),
            at(4, 0),
            "set back by an hour"
        );
        assert_eq!(
            earliest(at(5, 0), at(6, 30), half_an_hour),
            at(5, 0),
            "set forward by an hour"
        );
        assert_eq!(
            earliest(at(5, 0), at(0, 10), half_an_hour),
            at(0, 0),
            "set back to 1970"
        );
        assert_eq!(
            earliest(at(5, 0), at(5, 30) - Duration::from_nanos(1), half_an_hour),
            at(5, 0),
            "rounded"
        );
        assert_eq!(time(Duration::new(7, 8)), Time::new(7, 8));
    }

    #[test]
    fn times_without_fractions_may_be_later_by_the_granularity() {
        let moment = Time::new(100, 500_000_000);
        for (granularity, first) in [
            (Granularity::Nanosecond, 101),
            (Granularity::Second, 100),
            (Granularity::TwoSeconds, 99),
        ] {
            let since = |sec, nsec| may_be_since(Time { sec, nsec }, granularity, moment);
            assert!(since(100, 500_000_000) && since(101, 1));
            assert!(!since(100, 499_999_999) && !since(99, 999_999_999));
            assert!(since(first, 0) && !since(first - 1, 0) && !since(0, 0));
            assert!(since(i64::MAX, 0) && !since(i64::MIN, 0));
        }
    }

    #[test]
    fn granularity_is_fine_only_where_it_is_known_to_be() {
        const MSDOS: u64 = 0x4d44;
        const NFS: u64 = 0x6969;
        const OVERLAY: u64 = 0x794c_7630;
        for magic in [XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, TMPFS_MAGIC] {
            for has_btime in [false, true] {
                let granularity = Granularity::new(magic, has_btime);
                assert_eq!(granularity, Granularity::Nanosecond);
            }
        }
        let ext4 = |has_btime| Granularity::new(EXT4_SUPER_MAGIC, has_btime);
        assert_eq!(ext4(true), Granularity::Nanosecond);
        assert_eq!(ext4(false), Granularity::Second);
        // A magic of 0: statfs(2) failed.
        for magic in [MSDOS, NFS, OVERLAY, 0] {
            for has_btime in [false, true] {
                let granularity = Granularity::new(magic, has_btime);
                assert_eq!(granularity, Granularity::TwoSeconds);
            }
        }
    }
}
