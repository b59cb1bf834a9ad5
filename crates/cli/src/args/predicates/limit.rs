//! Parses the times of `--changed-within` and `--changed-before`.

use std::cell::LazyCell;

use walk::entry::Time;

use crate::date::{Date, FORMS, Zone, duration, named_day};

/// A time limit: a date, or a duration before now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TimeLimit {
    At(Date),
    /// The beginning of the day N days before today.
    Day(i64),
    SecondsAgo(u64),
}

impl TimeLimit {
    /// The limit as an absolute time; dates are in `zone`.
    pub(crate) fn before(self, now: Time, zone: &LazyCell<Zone>) -> Time {
        match self {
            TimeLimit::At(date) => date.first(zone),
            TimeLimit::Day(days) => Date::days_ago(days, zone, now.sec).first(zone),
            TimeLimit::SecondsAgo(seconds) => Time {
                sec: now.sec.saturating_sub_unsigned(seconds),
                ..now
            },
        }
    }
}

/// Error: the value is neither a duration nor a date.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "use a duration such as 30min, 12h, 2d or 4w, today, yesterday, or a date in local time such as {FORMS}"
)]
pub(crate) struct NotTime;

pub(crate) fn parse(text: &str) -> Result<TimeLimit, NotTime> {
    let text = text.trim();
    Date::parse(text)
        .map(TimeLimit::At)
        .or_else(|| named_day(text).map(TimeLimit::Day))
        .or_else(|| duration(text).map(TimeLimit::SecondsAgo))
        .ok_or(NotTime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_durations() {
        let day = Ok(TimeLimit::At(Date::parse("1970-01-02").unwrap()));
        for (text, limit) in [
            (" 1970-01-02 ", day),
            ("today", Ok(TimeLimit::Day(0))),
            (" yesterday", Ok(TimeLimit::Day(1))),
            ("90s", Ok(TimeLimit::SecondsAgo(90))),
            ("1d 12h", Ok(TimeLimit::SecondsAgo(129_600))),
            ("2weeks", Ok(TimeLimit::SecondsAgo(1_209_600))),
        ] {
            assert_eq!(parse(text), limit, "{text}");
        }
        for bad in [
            "",
            "5",
            "tomorrow",
            "2026-13-01",
            "1 fortnight",
            "@x",
            "@1.x",
            "-1d",
            "99999999999999y",
        ] {
            assert_eq!(parse(bad), Err(NotTime), "{bad}");
        }
        let now = Time::new(100, 5);
        assert_eq!(
            TimeLimit::SecondsAgo(30).before(now, &LazyCell::new(Zone::local)),
            Time::new(70, 5)
        );
    }
}
