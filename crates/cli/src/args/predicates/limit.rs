//! Parses the times of `--changed-within` and `--changed-before`.

use std::cell::LazyCell;

use walk::entry::Time;

use crate::date::{Date, FORMS, Zone, named_day};

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

/// A duration in seconds: the sum of numbers with units, such as `1d 12h`.
fn duration(text: &str) -> Option<u64> {
    let (mut sum, mut rest) = (0_u64, text);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let unit = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, tail) = tail.split_at(unit);
        let seconds = match unit {
            "s" | "sec" | "second" | "seconds" => 1,
            "m" | "min" | "minute" | "minutes" => 60,
            "h" | "hour" | "hours" => 3600,
            "d" | "day" | "days" => 86_400,
            "w" | "week" | "weeks" => 7 * 86_400,
            // Mean lengths of month and year in the Gregorian calendar, as in fd.
            "M" | "month" | "months" => 2_630_016,
            "y" | "year" | "years" => 31_557_600,
            _ => return None,
        };
        let number: u64 = number.parse().ok()?;
        sum = sum.checked_add(number.checked_mul(seconds)?)?;
        rest = tail.trim_start();
    }
    Some(sum).filter(|_| !text.is_empty())
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
        let now = Time { sec: 100, nsec: 5 };
        assert_eq!(
            TimeLimit::SecondsAgo(30).before(now, &LazyCell::new(Zone::local)),
            Time { sec: 70, nsec: 5 }
        );
    }
}
