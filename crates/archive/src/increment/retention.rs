//! Which dumps a policy keeps, like `restic forget`: the last N dumps, and the last dump of each of
//! the last N hours, days, weeks, months and years that have one; and all dumps since some time
//! before the newest one.

use std::collections::BTreeSet;

use base::Warning;
use ondisk::Time;

use crate::error::Error;
use crate::warning::WarningKind;

/// How many dumps to keep for each kind of period; 0 for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Policy {
    /// How many of the last dumps to keep.
    pub last: usize,
    /// Number of hours for each of which the last dump is kept.
    pub hourly: usize,
    /// Number of days for each of which the last dump is kept.
    pub daily: usize,
    /// Number of weeks, from Monday to Sunday, for each of which the last dump is kept.
    pub weekly: usize,
    /// Number of months for each of which the last dump is kept.
    pub monthly: usize,
    /// Number of years for each of which the last dump is kept.
    pub yearly: usize,
    /// The time before the newest dump in which all dumps are kept.
    pub within: Option<Within>,
}

/// A time before the newest dump, in units of the calendar.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Within {
    /// Number of years.
    pub years: u32,
    /// Number of months.
    pub months: u32,
    /// Number of days.
    pub days: u32,
    /// Number of hours.
    pub hours: u32,
}

impl Within {
    /// The seconds between `newest` and the same day and time so many years, months, days and hours
    /// before. Like Go's `AddDate`, which restic uses, this counts from the same day of the earlier
    /// month, even if that month has fewer days.
    fn seconds_before(self, newest: Local) -> i64 {
        let month = i64::from(newest.year) * 12 + i64::from(newest.month) - 1;
        let earlier = month - i64::from(self.years) * 12 - i64::from(self.months);
        let days = first_day(month) - first_day(earlier) + i64::from(self.days);
        days * 86_400 + i64::from(self.hours) * 3600
    }
}

/// The number of the first day of a month, which is counted from January of the year 0.
fn first_day(month: i64) -> i64 {
    // Years begin in March, so that a leap day is the last day of its year.
    let (year, month) = ((month - 2).div_euclid(12), (month - 2).rem_euclid(12));
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (153 * month + 2) / 5
}

/// A time, with its local date and hour, enough to distinguish periods.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Local {
    /// Seconds since 1970.
    pub second: i64,
    /// The year.
    pub year: i16,
    /// The month, from 1.
    pub month: i8,
    /// The day of the month, from 1.
    pub day: i8,
    /// The hour, from 0.
    pub hour: i8,
    /// Year and week number of ISO 8601.
    pub week: (i16, i8),
}

base::named! {
    /// A kind of period of a retention policy, by the name that restic has for it.
    Period {
        Last "last",
        Hour "hourly",
        Day "daily",
        Week "weekly",
        Month "monthly",
        Year "yearly",
    }
}

impl Period {
    /// A key that differs between periods; for [`Period::Last`], between dumps.
    fn key(self, nth: usize, time: Local) -> [i64; 4] {
        let (year, month, day) = (time.year.into(), time.month.into(), time.day.into());
        match self {
            Period::Last => [nth as i64, 0, 0, 0],
            Period::Hour => [year, month, day, time.hour.into()],
            Period::Day => [year, month, day, 0],
            Period::Week => [time.week.0.into(), time.week.1.into(), 0, 0],
            Period::Month => [year, month, 0, 0],
            Period::Year => [year, 0, 0, 0],
        }
    }
}

/// Why a policy keeps a dump.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeepReason {
    /// The dump is the last one of a period.
    LastOf(Period),
    /// The dump is the oldest, and fewer periods have a dump than the policy keeps: so the history
    /// does not get shorter than the policy allows.
    Oldest(Period),
    /// The dump is not much older than the newest one.
    Within,
    /// The dump is needed to restore the dump with this index.
    BaseOf(usize),
    /// The dump is the last one in which everything was read.
    LastComplete,
    /// The dump has the last data of entries that later dumps could not read.
    LastData,
    /// The next dump may be based on this one.
    NextBase,
    /// An archive needed for the dump is missing or damaged; a copy may replace it.
    Unrestorable,
}

/// A dump about to be made.
#[derive(Clone, Copy, Debug)]
pub struct NextDump {
    /// When the dump begins.
    pub date: Time,
    /// Whether the dump is full.
    pub is_full: bool,
}

/// The dumps that a policy keeps.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RetainedDumps {
    /// Why the dump about to be made will be kept.
    pub new: Vec<KeepReason>,
    /// For each dump the reasons to keep it; empty if it is not kept.
    pub reasons: Vec<Vec<KeepReason>>,
}

/// The warning that pruning failed after a successful dump.
pub fn not_pruned(error: Error) -> Warning {
    Warning::about(&error.path, WarningKind::NotPruned(error.kind))
}

impl RetainedDumps {
    /// Indexes of the dumps not kept, ascending.
    pub fn unneeded(&self) -> Vec<usize> {
        let all = self.reasons.iter().enumerate();
        all.filter(|(_, reasons)| reasons.is_empty())
            .map(|(at, _)| at)
            .collect()
    }

    /// Number of dumps kept only because later ones could not read everything.
    pub fn count_kept_as_needed(&self) -> usize {
        let is_spared = |reasons: &&Vec<KeepReason>| {
            let is_loss = |reason: &KeepReason| {
                matches!(reason, KeepReason::LastComplete | KeepReason::LastData)
            };
            reasons.first().is_some_and(is_loss)
        };
        self.reasons.iter().filter(is_spared).count()
    }
}

impl Policy {
    /// Whether the policy keeps nothing.
    pub fn is_empty(&self) -> bool {
        *self == Policy::default()
    }

    fn count(&self, period: Period) -> usize {
        match period {
            Period::Last => self.last,
            Period::Hour => self.hourly,
            Period::Day => self.daily,
            Period::Week => self.weekly,
            Period::Month => self.monthly,
            Period::Year => self.yearly,
        }
    }

    /// Why each dump is kept, from the times of all dumps, newest first. Periods count by order, not
    /// by time: a dump made while the clock was wrong does not displace all others. For the same
    /// reason, a dump later than `now`, in seconds since 1970, is not the newest one.
    pub fn apply(&self, times: &[Local], now: i64) -> Vec<Vec<KeepReason>> {
        let mut reasons = vec![Vec::new(); times.len()];
        for period in Period::ALL {
            let (count, mut seen) = (self.count(period), BTreeSet::new());
            for (nth, time) in times.iter().enumerate() {
                if seen.len() == count {
                    break;
                }
                if seen.insert(period.key(nth, *time)) {
                    reasons[nth].push(KeepReason::LastOf(period));
                } else if nth + 1 == times.len() {
                    reasons[nth].push(KeepReason::Oldest(period));
                }
            }
        }
        if let Some(within) = self.within {
            let made = times.iter().filter(|time| time.second <= now);
            let newest = made.max_by_key(|time| time.second);
            let since = newest.map(|newest| newest.second - within.seconds_before(*newest));
            for (time, reasons) in times.iter().zip(&mut reasons) {
                if since.is_none_or(|since| time.second > since) {
                    reasons.push(KeepReason::Within);
                }
            }
        }
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noon of a day, with its ISO week.
    fn at(year: i16, month: i8, day: i8, week: (i16, i8)) -> Local {
        Local {
            second: 0,
            year,
            month,
            day,
            hour: 12,
            week,
        }
    }

    fn kept(policy: Policy, times: &[Local]) -> Vec<usize> {
        kept_at(policy, times, 0)
    }

    fn kept_at(policy: Policy, times: &[Local], now: i64) -> Vec<usize> {
        let reasons = policy.apply(times, now).into_iter().enumerate();
        reasons
            .filter(|(_, reasons)| !reasons.is_empty())
            .map(|(nth, _)| nth)
            .collect()
    }

    #[test]
    fn periods_without_a_dump_do_not_count() {
        let times = [
            at(2026, 1, 2, (2026, 1)),
            at(2026, 1, 1, (2026, 1)),
            at(2026, 1, 1, (2026, 1)),
            at(2025, 12, 29, (2026, 1)),
            at(2025, 12, 28, (2025, 52)),
            at(2025, 11, 1, (2025, 44)),
            at(2024, 11, 1, (2024, 44)),
        ];
        let keeps = |policy| kept(policy, &times);
        assert_eq!(
            keeps(Policy {
                last: 2,
                ..Policy::default()
            }),
            [0, 1]
        );
        assert_eq!(
            keeps(Policy {
                daily: 3,
                ..Policy::default()
            }),
            [0, 1, 3]
        );
        assert_eq!(
            keeps(Policy {
                weekly: 3,
                ..Policy::default()
            }),
            [0, 4, 5]
        );
        assert_eq!(
            keeps(Policy {
                monthly: 2,
                ..Policy::default()
            }),
            [0, 3]
        );
        assert_eq!(
            keeps(Policy {
                yearly: 2,
                last: 1,
                ..Policy::default()
            }),
            [0, 3]
        );
        assert_eq!(
            keeps(Policy {
                hourly: 100,
                ..Policy::default()
            }),
            [0, 1, 3, 4, 5, 6]
        );
    }

    #[test]
    fn oldest_dump_is_kept_while_periods_are_missing() {
        let times = [
            at(2026, 1, 9, (2026, 2)),
            at(2026, 1, 8, (2026, 2)),
            at(2026, 1, 6, (2026, 2)),
        ];
        let weekly = |weekly| {
            Policy {
                weekly,
                ..Policy::default()
            }
            .apply(&times, 0)
        };
        let (last, oldest) = (
            KeepReason::LastOf(Period::Week),
            KeepReason::Oldest(Period::Week),
        );
        assert_eq!(weekly(2), [vec![last], vec![], vec![oldest]]);
        assert_eq!(weekly(1), [vec![last], vec![], vec![]]);
    }

    #[test]
    fn months_have_their_lengths() {
        // 1970-01-01, 2000-02-01, 2000-03-01, 2026-11-01: days since 1970.
        let number =
            |year: i64, month: i64| first_day(year * 12 + month - 1) - first_day(1970 * 12);
        let days = [number(1970, 1), number(2000, 2), number(2000, 3)];
        assert_eq!(days, [0, 10_988, 11_017]);
        assert_eq!(number(2026, 11), 20_758);
        let within = Within {
            years: 1,
            months: 2,
            days: 3,
            hours: 4,
        };
        // From 2026-01-31: the first of November 2024 is 426 days before the first of January.
        let before = within.seconds_before(at(2026, 1, 31, (2026, 5)));
        assert_eq!(before, (426 + 3) * 86_400 + 4 * 3600);
    }

    #[test]
    fn dumps_within_a_time_before_the_newest_are_kept() {
        let day = |second: i64| Local {
            second: second * 86_400,
            ..at(2026, 1, 9, (2026, 2))
        };
        // The dump of day 1000 was made while the clock was wrong.
        let times = [day(40), day(1000), day(31), day(30), day(29)];
        let within = Policy {
            within: Some(Within {
                days: 10,
                ..Within::default()
            }),
            ..Policy::default()
        };
        let kept = |now: i64| kept_at(within, &times, now * 86_400);
        assert_eq!(kept(41), [0, 1, 2]);
        assert_eq!(kept(1000), [1]);
    }

    #[test]
    fn clock_that_was_wrong_once_costs_one_place() {
        let times = [
            at(2026, 1, 9, (2026, 2)),
            at(2036, 1, 8, (2036, 2)),
            at(2026, 1, 8, (2026, 2)),
            at(2026, 1, 7, (2026, 2)),
        ];
        assert_eq!(
            kept(
                Policy {
                    daily: 3,
                    ..Policy::default()
                },
                &times
            ),
            [0, 1, 2]
        );
    }
}
