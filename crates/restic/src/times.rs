//! Times as restic writes them: [time.RFC3339Nano](https://pkg.go.dev/time#RFC3339Nano) in the
//! local time zone.

use gate::clock::time_of_day;
use gate::fs::Time;
use jiff::Timestamp;
use jiff::fmt::temporal::Pieces;
use jiff::tz::{Offset, TimeZone};
use ondisk::civil;
use serde::de::{Deserialize, Deserializer, Error};
use serde::{Serialize, Serializer};

/// Writes times in a time zone.
pub(crate) struct Times {
    zone: TimeZone,
    /// The last UTC offset in seconds, and the range of seconds in which it holds.
    offset: Option<(i64, i64, i64)>,
}

impl Times {
    pub(crate) fn new(zone: TimeZone) -> Times {
        Times { zone, offset: None }
    }

    #[cfg(test)]
    pub(crate) fn utc() -> Times {
        Times::new(TimeZone::UTC)
    }

    /// Appends a time. Like restic, replaces a year outside of RFC 3339 by the nearest valid one.
    pub(crate) fn write(&mut self, time: Time, out: &mut Vec<u8>) {
        const DAY: i64 = 24 * 60 * 60;
        let offset = self.offset(time.sec);
        let local = time.sec.saturating_add(offset);
        let (year, mut month, mut day) = civil(local.div_euclid(DAY));
        let second = local.rem_euclid(DAY);
        // The year 9999 has no leap day.
        if year > 9999 && (month, day) == (2, 29) {
            (month, day) = (3, 1);
        }
        let parts = [
            (year.clamp(0, 9999), 4, b'-'),
            (month, 2, b'-'),
            (day, 2, b'T'),
            (second / 3600, 2, b':'),
            (second / 60 % 60, 2, b':'),
            (second % 60, 2, b'.'),
        ];
        for (number, digits, after) in parts {
            write_digits(number, digits, out);
            out.push(after);
        }
        write_digits(time.nsec.into(), 9, out);
        while out.pop_if(|last| *last == b'0').is_some() {}
        out.pop_if(|last| *last == b'.');
        if offset == 0 {
            out.push(b'Z');
        } else {
            let minutes = offset.abs() / 60;
            out.push(if offset < 0 { b'-' } else { b'+' });
            write_digits(minutes / 60, 2, out);
            out.push(b':');
            write_digits(minutes % 60, 2, out);
        }
    }

    /// The UTC offset of local time, in seconds.
    fn offset(&mut self, second: i64) -> i64 {
        if let Some((from, to, offset)) = self.offset
            && (from..to).contains(&second)
        {
            return offset;
        }
        let at = |second: i64| {
            let range = Timestamp::MIN.as_second()..=Timestamp::MAX.as_second();
            let nearest = second.clamp(*range.start(), *range.end());
            Timestamp::from_second(nearest).unwrap_or_default()
        };
        let (now, next) = (at(second), at(second.saturating_add(1)));
        let offset = i64::from(self.zone.to_offset(now).seconds());
        let changed = self.zone.preceding(next).next();
        let changes = self.zone.following(now).next();
        self.offset = Some((
            changed.map_or(i64::MIN, |it| it.timestamp().as_second()),
            changes.map_or(i64::MAX, |it| it.timestamp().as_second()),
            offset,
        ));
        offset
    }
}

/// Appends the last `digits` decimal digits of a number. Rust's standard formatter would take
/// noticeable time, because each entry has three times.
fn write_digits(mut number: i64, digits: usize, out: &mut Vec<u8>) {
    let begin = out.len();
    out.resize(begin + digits, 0);
    for digit in out[begin..].iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// The current time.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_microsecond(time_of_day() as i64).unwrap_or_default()
}

/// Converts a timestamp to the kernel's form.
pub(crate) fn file_time(time: Timestamp) -> Time {
    Time::from_nanos(time.as_nanosecond())
}

/// A time with its UTC offset, because `restic forget` keeps snapshots by local days.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LocalTime {
    pub(crate) at: Timestamp,
    offset: Offset,
}

impl LocalTime {
    pub(crate) fn now(zone: &TimeZone) -> LocalTime {
        let at = now();
        LocalTime {
            at,
            offset: zone.to_offset(at),
        }
    }
}

impl Default for LocalTime {
    fn default() -> LocalTime {
        LocalTime {
            at: Timestamp::default(),
            offset: Offset::UTC,
        }
    }
}

impl Serialize for LocalTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.at.display_with_offset(self.offset))
    }
}

impl<'de> Deserialize<'de> for LocalTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LocalTime, D::Error> {
        let text = String::deserialize(deserializer)?;
        let pieces = Pieces::parse(&text).map_err(D::Error::custom)?;
        Ok(LocalTime {
            at: text.parse().map_err(D::Error::custom)?,
            offset: pieces.to_numeric_offset().unwrap_or(Offset::UTC),
        })
    }
}

/// Whether two texts denote the same time.
pub(crate) fn is_same_time(a: &str, b: &[u8]) -> bool {
    let parse = |text: &str| text.parse::<Timestamp>().ok();
    let other = || std::str::from_utf8(b).ok().and_then(parse);
    a.as_bytes() == b || parse(a).is_some_and(|a| Some(a) == other())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(times: &mut Times, sec: i64, nsec: u32) -> String {
        let mut out = Vec::new();
        times.write(Time { sec, nsec }, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn times_are_those_of_go() {
        let mut utc = Times::utc();
        let mut utc = |sec, nsec| written(&mut utc, sec, nsec);
        assert_eq!(utc(0, 0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_400, 120_000_000), "2000-02-29T00:00:00.12Z");
        assert_eq!(utc(-1, 999_999_999), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(utc(4_107_542_400, 1), "2100-03-01T00:00:00.000000001Z");
        // Years outside of RFC 3339.
        assert_eq!(utc(253_402_300_800, 0), "9999-01-01T00:00:00Z");
        assert_eq!(utc(-62_167_219_201, 0), "0000-12-31T23:59:59Z");
        assert!(utc(i64::MAX, 0).starts_with("9999-") && utc(i64::MIN, 0).starts_with("0000-"));
    }

    #[test]
    fn offsets_change_with_the_season() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let mut berlin = Times::new(zone);
        let mut berlin = |sec| written(&mut berlin, sec, 0);
        for _ in 0..2 {
            assert_eq!(berlin(1_711_846_799), "2024-03-31T01:59:59+01:00");
            assert_eq!(berlin(1_711_846_800), "2024-03-31T03:00:00+02:00");
            assert_eq!(berlin(1_720_000_000), "2024-07-03T11:46:40+02:00");
            assert_eq!(berlin(1_700_000_000), "2023-11-14T23:13:20+01:00");
        }
        let zone = TimeZone::fixed(jiff::tz::offset(-3));
        let mut west = Times::new(zone);
        assert_eq!(written(&mut west, 0, 0), "1969-12-31T21:00:00-03:00");
    }

    #[test]
    fn times_before_1970_are_rounded_down() {
        let time = Timestamp::from_nanosecond(-1).unwrap();
        let expected = Time::new(-1, 999_999_999);
        assert_eq!(file_time(time), expected);
    }

    #[test]
    fn the_same_time_in_other_zones() {
        assert!(is_same_time(
            "1970-01-01T00:00:00Z",
            b"1970-01-01T00:00:00Z"
        ));
        assert!(is_same_time(
            "1970-01-01T09:00:00+09:00",
            b"1970-01-01T00:00:00+00:00"
        ));
        assert!(!is_same_time(
            "1970-01-01T00:00:00Z",
            b"1970-01-01T00:00:01Z"
        ));
        assert!(!is_same_time("no time", b"neither"));
    }

    #[test]
    fn days_are_counted_as_by_jiff() {
        for day in (-800_000..2_900_000).step_by(97) {
            let date = Timestamp::from_second(day * 86_400).unwrap();
            let date = date.to_zoned(TimeZone::UTC).date();
            let (year, month, day) = civil(day);
            let expected = (date.year().into(), date.month().into(), date.day().into());
            assert_eq!((year, month, day), expected);
        }
    }
}
