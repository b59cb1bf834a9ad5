//! The times of `--changed-within` and `--changed-before`.

use chrono::{DateTime, NaiveDateTime};
use walk::entry::Time;

const FORMS: &str = "use a duration such as 30min, 12h, 2d or 4w, or a date in UTC such as \
                     2026-11-20, '2026-11-20 03:00', 2026-11-20T03:00:00Z or @1795143600";

/// A moment, or a time before now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TimeLimit {
    At(Time),
    SecondsAgo(u64),
}

impl TimeLimit {
    /// The moment, given what time it is.
    pub(crate) fn before(self, now: Time) -> Time {
        match self {
            TimeLimit::At(time) => time,
            TimeLimit::SecondsAgo(seconds) => Time {
                sec: now.sec.saturating_sub_unsigned(seconds),
                ..now
            },
        }
    }
}

pub(crate) fn parse(text: &str) -> Result<TimeLimit, &'static str> {
    let text = text.trim();
    date(text)
        .map(TimeLimit::At)
        .or_else(|| duration(text).map(TimeLimit::SecondsAgo))
        .ok_or(FORMS)
}

/// Numbers with units, added up: `1d 12h`.
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
            // The mean month and year of the Gregorian calendar, as in fd.
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

fn date(text: &str) -> Option<Time> {
    if let Some(number) = text.strip_prefix('@') {
        return seconds(number);
    }
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(Time {
            sec: time.timestamp(),
            nsec: time.timestamp_subsec_nanos() % 1_000_000_000,
        });
    }
    let text = text.replacen('T', " ", 1);
    let forms = [
        ("", "%Y-%m-%d %H:%M:%S%.f"),
        (":00", "%Y-%m-%d %H:%M:%S"),
        (" 00:00:00", "%Y-%m-%d %H:%M:%S"),
    ];
    let time = forms.into_iter().find_map(|(end, form)| {
        NaiveDateTime::parse_from_str(&format!("{text}{end}"), form).ok()
    })?;
    let time = time.and_utc();
    Some(Time {
        sec: time.timestamp(),
        nsec: time.timestamp_subsec_nanos() % 1_000_000_000,
    })
}

/// Seconds since 1970, and a fraction after them.
fn seconds(text: &str) -> Option<Time> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = fraction.len() <= 9 && fraction.bytes().all(|b| b.is_ascii_digit());
    let sec: i64 = whole.parse().ok().filter(|_| is_number)?;
    let nsec: u32 = format!("{fraction:0<9}").parse().ok()?;
    // A fraction is away from zero: -1.5 is half a second before -1.
    Some(match whole.starts_with('-') && nsec > 0 {
        true => Time {
            sec: sec.checked_sub(1)?,
            nsec: 1_000_000_000 - nsec,
        },
        false => Time { sec, nsec },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_durations() {
        let at = |sec, nsec| Ok(TimeLimit::At(Time { sec, nsec }));
        for (text, limit) in [
            ("@0", at(0, 0)),
            ("@-1.5", at(-2, 500_000_000)),
            ("@7.000000001", at(7, 1)),
            ("1970-01-02", at(86_400, 0)),
            ("1970-01-02 00:01", at(86_460, 0)),
            ("1970-01-02T00:01:02.5", at(86_462, 500_000_000)),
            ("1970-01-01T01:00:00+01:00", at(0, 0)),
            ("1970-01-01T00:00:01Z", at(1, 0)),
            ("90s", Ok(TimeLimit::SecondsAgo(90))),
            ("1d 12h", Ok(TimeLimit::SecondsAgo(129_600))),
            ("2weeks", Ok(TimeLimit::SecondsAgo(1_209_600))),
        ] {
            assert_eq!(parse(text), limit, "{text}");
        }
        for bad in [
            "",
            "5",
            "yesterday",
            "2026-13-01",
            "1 fortnight",
            "@x",
            "@1.x",
            "-1d",
            "99999999999999y",
        ] {
            assert_eq!(parse(bad), Err(FORMS), "{bad}");
        }
        let now = Time { sec: 100, nsec: 5 };
        assert_eq!(
            TimeLimit::SecondsAgo(30).before(now),
            Time { sec: 70, nsec: 5 }
        );
    }
}
