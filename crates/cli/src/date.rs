//! Dates on the command line, and their time zone.

use std::os::unix::ffi::OsStrExt;

use archive::increment::retention::Local;
use gate::file::Reader;
use gate::fs::Time;
use jiff::civil::{Date as Day, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use ondisk::utc;

/// The local time zone.
pub(crate) struct Zone(TimeZone);

impl Zone {
    /// The time zone that TZ names, as a file of the zone database or in POSIX syntax; without TZ,
    /// the zone of /etc/localtime. UTC if the zone does not exist, as in the C library.
    pub(crate) fn local() -> Zone {
        let zone = match std::env::var_os("TZ") {
            None => read(b"/etc/localtime"),
            Some(name) => named(name.as_bytes()),
        };
        Zone(zone.unwrap_or(TimeZone::UTC))
    }

    #[cfg(feature = "restic")]
    pub(crate) fn into_inner(self) -> TimeZone {
        self.0
    }

    /// Formats seconds since 1970 as local time: `2023-11-14 22:13:20`.
    pub(crate) fn text(&self, seconds: i64) -> String {
        let Ok(time) = Timestamp::from_second(seconds) else {
            return utc(seconds).replace('T', " ");
        };
        let time = self.0.to_datetime(time);
        let (date, time) = (time.date(), time.time());
        let (hour, minute, second) = (time.hour(), time.minute(), time.second());
        format!("{date} {hour:02}:{minute:02}:{second:02}")
    }

    /// The calendar fields of a time, by which a retention policy groups dumps.
    pub(crate) fn periods(&self, time: Time) -> Local {
        let bound = if time.sec < 0 {
            Timestamp::MIN
        } else {
            Timestamp::MAX
        };
        let second = time.sec;
        let time = Timestamp::from_second(second).unwrap_or(bound);
        let time = self.0.to_datetime(time);
        let week = time.date().iso_week_date();
        Local {
            second,
            year: time.year(),
            month: time.month(),
            day: time.day(),
            hour: time.hour(),
            week: (week.year(), week.week()),
        }
    }

    /// The absolute time of a local time. If clocks are set forward past this time, the UTC offset
    /// before the change applies. If clocks are set back and the time occurs twice, the first
    /// occurrence counts.
    fn moment(&self, at: DateTime) -> Time {
        let beyond = if at.year() < 0 {
            Timestamp::MIN
        } else {
            Timestamp::MAX
        };
        to_time(self.0.to_timestamp(at).unwrap_or(beyond))
    }
}

fn named(name: &[u8]) -> Option<TimeZone> {
    let name = name.strip_prefix(b":").unwrap_or(name);
    if name.is_empty() {
        return None;
    }
    let directory = std::env::var_os("TZDIR");
    let directory = directory.as_deref().map_or(DATABASE, |dir| dir.as_bytes());
    // An absolute path in TZ names a file outside of the database.
    let path = match name {
        [b'/', ..] => name.to_vec(),
        _ => [directory, b"/", name].concat(),
    };
    let posix = || TimeZone::posix(str::from_utf8(name).ok()?).ok();
    read(&path).or_else(posix)
}

const DATABASE: &[u8] = b"/usr/share/zoneinfo";

fn read(path: &[u8]) -> Option<TimeZone> {
    /// Zone files have at most a few thousand bytes; more is not read.
    const MOST: u64 = 1 << 20;
    let reader = Reader::open(path).ok()?;
    let mut bytes = vec![0; reader.len().min(MOST) as usize];
    let len = reader.read_at(0, &mut bytes).ok()?;
    TimeZone::tzif("local", &bytes[..len]).ok()
}

/// An absolute time; or a local time, whose absolute time depends on the time zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Date {
    Moment(Time),
    /// A local time, as the beginning of the given day, minute or second. Only seconds can have a
    /// fraction.
    Local(DateTime, Unit),
}

/// The precision of a local time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    Day,
    Minute,
    Second,
}

/// The time of a dump, as given on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DumpTime {
    Date(Date),
    /// The end of the day N days before today.
    Day(i64),
    /// N seconds before now.
    Ago(i64),
    Latest,
}

impl DumpTime {
    pub(crate) fn parse(text: &str) -> Option<DumpTime> {
        if matches!(text, "latest" | "now") {
            return Some(DumpTime::Latest);
        }
        if let Some(days) = named_day(text) {
            return Some(DumpTime::Day(days));
        }
        if let Some(date) = Date::parse(text) {
            return Some(DumpTime::Date(date));
        }
        let seconds = i64::try_from(duration(text)?);
        Some(DumpTime::Ago(seconds.unwrap_or(i64::MAX)))
    }

    /// The last moment of the given day, minute or second. `now` is the current time, in seconds
    /// since 1970.
    pub(crate) fn last(self, zone: &Zone, now: i64) -> Time {
        match self {
            DumpTime::Date(date) => date.last(zone),
            DumpTime::Ago(seconds) => end_of(now.saturating_sub(seconds)),
            DumpTime::Latest => end_of(i64::MAX),
            DumpTime::Day(days) => Date::days_ago(days, zone, now).last(zone),
        }
    }
}

/// How many days before today a named day is.
pub(crate) fn named_day(text: &str) -> Option<i64> {
    match text {
        "today" => Some(0),
        "yesterday" => Some(1),
        _ => None,
    }
}

/// A duration in seconds: the sum of numbers with units, such as `1d 12h`.
pub(crate) fn duration(text: &str) -> Option<u64> {
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

/// The accepted forms of dates, for messages.
pub(crate) const FORMS: &str =
    "2026-11-20, '2026-11-20 03:00', 2026-11-20T03:00:00Z or @1795143600";

impl Date {
    pub(crate) fn parse(text: &str) -> Option<Date> {
        if let Some(number) = text.strip_prefix('@') {
            return seconds(number).map(Date::Moment);
        }
        if let Ok(moment) = text.parse::<Timestamp>() {
            return Some(Date::Moment(to_time(moment)));
        }
        let text = text.replacen('T', " ", 1);
        if let Ok(day) = Day::strptime("%Y-%m-%d", &text) {
            return Some(Date::Local(day.into(), Unit::Day));
        }
        if let Ok(minute) = DateTime::strptime("%Y-%m-%d %H:%M", &text) {
            return Some(Date::Local(minute, Unit::Minute));
        }
        let second = DateTime::strptime("%Y-%m-%d %H:%M:%S%.f", &text).ok()?;
        Some(Date::Local(second, Unit::Second))
    }

    /// The local day that is `days` days before the day of `now`, in seconds since 1970.
    pub(crate) fn days_ago(days: i64, zone: &Zone, now: i64) -> Date {
        let now = Timestamp::from_second(now).unwrap_or(Timestamp::MAX);
        let day = zone.0.to_datetime(now).date().saturating_sub(days.days());
        Date::Local(day.into(), Unit::Day)
    }

    /// The first moment of the given day, minute or second.
    pub(crate) fn first(self, zone: &Zone) -> Time {
        match self {
            Date::Moment(time) => time,
            Date::Local(from, _) => zone.moment(from),
        }
    }

    /// The last moment of the given day, minute or second. A time with a fraction of a second is
    /// its own last moment.
    pub(crate) fn last(self, zone: &Zone) -> Time {
        let (from, length) = match self {
            Date::Moment(_) | Date::Local(_, Unit::Second) => {
                let time = self.first(zone);
                return match time.nsec {
                    0 => end_of(time.sec),
                    _ => time,
                };
            }
            Date::Local(from, Unit::Minute) => (from, 1.minute()),
            Date::Local(from, Unit::Day) => (from, 1.day()),
        };
        // For dates after the year 9999, both ends saturate to the same moment.
        let end = zone.moment(from.saturating_add(length)).sec - 1;
        end_of(end.max(zone.moment(from).sec))
    }
}

/// The last nanosecond of a second.
fn end_of(sec: i64) -> Time {
    let nsec = 999_999_999;
    Time { sec, nsec }
}

fn to_time(moment: Timestamp) -> Time {
    Time::from_nanos(moment.as_nanosecond())
}

/// Parses seconds since 1970, with an optional fraction.
fn seconds(text: &str) -> Option<Time> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = fraction.len() <= 9 && fraction.bytes().all(|b| b.is_ascii_digit());
    let sec: i64 = whole.parse().ok().filter(|_| is_number)?;
    let nsec: u32 = format!("{fraction:0<9}").parse().ok()?;
    // The fraction of a negative number counts away from zero: -1.5 is half a second before -1.
    Some(match whole.starts_with('-') && nsec > 0 {
        true => Time::new(sec.checked_sub(1)?, 1_000_000_000 - nsec),
        false => Time { sec, nsec },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_name_moments() {
        let berlin = Zone(TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap());
        let utc = Zone(TimeZone::UTC);
        for (zone, text, first, last) in [
            (&utc, "@0", (0, 0), 0),
            (&utc, "@-1.5", (-2, 500_000_000), -2),
            (&utc, "@7.000000001", (7, 1), 7),
            (&utc, "1970-01-02", (86_400, 0), 2 * 86_400 - 1),
            (&utc, "1970-01-02 00:01", (86_460, 0), 86_519),
            (&utc, "1970-01-02T00:01:02.5", (86_462, 500_000_000), 86_462),
            (&berlin, "1970-01-02T00:01:02Z", (86_462, 0), 86_462),
            (&berlin, "1970-01-01 01:00:00+01:00", (0, 0), 0),
            (&berlin, "1970-01-01 01:00", (0, 0), 59),
            // When clocks are changed, the day has 23 or 25 hours.
            (&berlin, "2026-03-29", (1_774_738_800, 0), 1_774_821_599),
            (&berlin, "2026-10-25", (1_792_879_200, 0), 1_792_969_199),
            // When clocks are set back, this time occurs twice. The first of the two counts.
            (
                &berlin,
                "2026-10-25 02:30",
                (1_792_888_200, 0),
                1_792_888_259,
            ),
        ] {
            let date = Date::parse(text).unwrap();
            let (sec, nsec) = first;
            assert_eq!(date.first(zone), Time { sec, nsec }, "{text}");
            let exact = Time { sec, nsec };
            let last = if nsec > 0 { exact } else { end_of(last) };
            assert_eq!(date.last(zone), last, "{text}");
        }
        for bad in [
            "",
            "@",
            "@x",
            "@1.x",
            "today",
            "2026-13-01",
            "2026-02-30",
            "2026-11-20 25:00",
            "2026-11-20 3",
            "2026-11-20 03:00 x",
        ] {
            assert_eq!(Date::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_of_dumps_are_relative_to_now() {
        let berlin = Zone(TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap());
        // `now` is 2026-11-28 00:30 in Berlin.
        let now = 1_795_822_200;
        for (text, expected) in [
            ("today", 1_795_906_799),
            ("yesterday", 1_795_820_399),
            ("2d", now - 172_800),
            ("1w", now - 604_800),
            ("3h", now - 10_800),
            ("30min", now - 1800),
            ("1d 12h", now - 129_600),
            ("latest", i64::MAX),
            ("2026-11-27", 1_795_820_399),
        ] {
            let when = DumpTime::parse(text).unwrap();
            assert_eq!(when.last(&berlin, now), end_of(expected), "{text}");
        }
        let yesterday = Date::days_ago(1, &berlin, now).first(&berlin);
        assert_eq!((yesterday.sec, yesterday.nsec), (1_795_734_000, 0));
        for bad in ["", "d", "-1d", "2x", "tomorrow", "1.5d", "é"] {
            assert_eq!(DumpTime::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn extreme_dates_have_moments_and_texts() {
        for zone in [
            Zone(TimeZone::UTC),
            Zone(TimeZone::posix("XXX-14").unwrap()),
        ] {
            for text in ["0001-01-01", "9999-12-31", "9999-12-31 23:59:59"] {
                let date = Date::parse(text).unwrap();
                assert!(date.first(&zone) <= date.last(&zone));
            }
            assert_eq!(zone.text(i64::MAX), utc(i64::MAX).replace('T', " "));
        }
        assert_eq!(
            Zone(TimeZone::posix("XXX-1").unwrap()).text(-1),
            "1970-01-01 00:59:59"
        );
    }
}
