//! File times.

use std::fmt;
use std::str::FromStr;

/// A file time: seconds since 1970 (UTC), rounded down, and nanoseconds, which may exceed a second
/// in a damaged inode. As text, a decimal number of seconds, as in the records of a pax archive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Time {
    pub sec: i64,
    pub nsec: u32,
}

const SECOND: u32 = 1_000_000_000;

/// Writes the decimal digits of a number to the end of `text`. Archives have several numbers per
/// member, and formatting them by `std` takes longer than all other work on headers.
pub(crate) fn digits(mut number: u64, text: &mut [u8; 20]) -> &[u8] {
    let mut from = text.len();
    loop {
        from -= 1;
        text[from] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &text[from..];
        }
    }
}

impl Time {
    /// A file time from seconds since 1970 and nanoseconds.
    pub const fn new(sec: i64, nsec: u32) -> Time {
        Time { sec, nsec }
    }

    /// A file time from nanoseconds since 1970.
    pub fn from_nanos(nanos: i128) -> Time {
        let second = i128::from(SECOND);
        let sec = nanos.div_euclid(second) as i64;
        Time::new(sec, nanos.rem_euclid(second) as u32)
    }

    /// Maximum length of a file time as text.
    pub(crate) const LONGEST: usize = 32;

    /// Writes the time as text to the beginning of `room`.
    pub(crate) fn text<'a>(&self, room: &'a mut [u8; Time::LONGEST]) -> &'a [u8] {
        let (sec, nsec) = (self.sec.unsigned_abs(), self.nsec);
        // Half a second before 1970 is -1 s and 500,000,000 ns, but is written as -0.5.
        let (sign, sec, mut nsec) = match (self.sec < 0, nsec) {
            (false, _) => (&b""[..], sec, nsec),
            (true, 0) => (&b"-"[..], sec, 0),
            (true, _) => (&b"-"[..], sec - 1, SECOND.saturating_sub(nsec)),
        };
        let mut len = 0;
        let mut add = |bytes: &[u8]| {
            room[len..len + bytes.len()].copy_from_slice(bytes);
            len += bytes.len();
        };
        add(sign);
        add(digits(sec, &mut [0; 20]));
        if nsec > 0 {
            let mut wanted = 9_usize;
            while nsec % 10 == 0 {
                (nsec, wanted) = (nsec / 10, wanted - 1);
            }
            let mut text = [0; 20];
            let digits = digits(nsec.into(), &mut text);
            add(b".");
            add(&b"000000000"[..wanted.saturating_sub(digits.len())]);
            add(digits);
        }
        &room[..len]
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut room = [0; Time::LONGEST];
        f.write_str(std::str::from_utf8(self.text(&mut room)).unwrap_or_default())
    }
}

/// Formats seconds since 1970 as a UTC time of ISO 8601: `2023-11-14T22:13:20`. Every `i64` has
/// such a time.
pub fn utc(sec: i64) -> String {
    const DAY: i64 = 86_400;
    let (days, rest) = (sec.div_euclid(DAY), sec.rem_euclid(DAY));
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

/// The year, month and day of a day number since 1970-01-01, in the proleptic Gregorian calendar.
pub fn civil(days: i64) -> (i64, i64, i64) {
    // Count days from 1 March of the year 0, in eras of 400 years: a leap day is then the last day
    // of a year.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// A text that is not a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a decimal number of seconds")]
pub struct ParseTimeError;

impl FromStr for Time {
    type Err = ParseTimeError;

    /// Parses a decimal number of seconds; digits below a nanosecond are rounded down.
    fn from_str(text: &str) -> Result<Time, ParseTimeError> {
        let (is_negative, text) = text
            .strip_prefix('-')
            .map_or((false, text), |text| (true, text));
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let mut digits = whole.bytes().chain(fraction.bytes());
        if whole.is_empty() || !digits.all(|byte| byte.is_ascii_digit()) {
            return Err(ParseTimeError);
        }
        let sec: i128 = whole.parse().map_err(|_| ParseTimeError)?;
        let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
        let nsec = digits.fold(0, |nsec, digit| nsec * 10 + u32::from(digit - b'0'));
        let is_finer = fraction.bytes().skip(9).any(|digit| digit != b'0');
        let (sec, nsec) = match (is_negative, nsec + u32::from(is_negative && is_finer)) {
            (false, nsec) => (sec, nsec),
            (true, 0) => (-sec, 0),
            (true, nsec) => (-sec - 1, SECOND - nsec),
        };
        Ok(Time::new(
            i64::try_from(sec).map_err(|_| ParseTimeError)?,
            nsec,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decimal_numbers_of_seconds_are_parsed() {
        let parse = |text: &str| text.parse::<Time>().map(|t| (t.sec, t.nsec)).ok();
        assert_eq!(parse("0"), Some((0, 0)));
        assert_eq!(parse("12.5"), Some((12, 500_000_000)));
        assert_eq!(parse("-0.5"), Some((-1, 500_000_000)));
        assert_eq!(parse("-3"), Some((-3, 0)));
        assert_eq!(parse("1.0000000009"), Some((1, 0)));
        assert_eq!(parse("-1.0000000009"), Some((-2, 999_999_999)));
        assert_eq!(parse("-1.9999999999"), Some((-2, 0)));
        assert_eq!(parse("7."), Some((7, 0)));
        for bad in [
            "",
            "-",
            ".5",
            "+1",
            "1e3",
            "1.-5",
            "--1",
            " 1",
            "99999999999999999999",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        assert_eq!(Time::new(-1, 500_000_000).to_string(), "-0.5");
        assert_eq!(Time::new(1, 20).to_string(), "1.00000002");
        let (sec, nsec) = (i64::MIN, u32::MAX);
        assert_eq!(Time::new(sec, 0).to_string(), "-9223372036854775808");
        assert_eq!(Time::new(5, nsec).to_string(), "5.4294967295");
        assert_eq!(
            digits(u64::MAX, &mut [0; 20]),
            u64::MAX.to_string().as_bytes()
        );
        assert_eq!(digits(0, &mut [0; 20]), b"0");
    }

    proptest! {
        #[test]
        fn a_formatted_time_parses_to_itself(sec: i64, nsec in 0..SECOND) {
            let time = Time { sec, nsec };
            prop_assert_eq!(time.to_string().parse::<Time>(), Ok(time));
        }

        #[test]
        fn no_text_makes_it_panic(text: String, digits in "-?[0-9]{0,22}[.]?[0-9]{0,12}") {
            let _ = (text.parse::<Time>(), digits.parse::<Time>());
        }
    }

    #[test]
    fn days_of_all_times() {
        for (sec, text) in [
            (0, "1970-01-01T00:00:00"),
            (-1, "1969-12-31T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (1_700_000_000, "2023-11-14T22:13:20"),
            (4_107_542_399, "2100-02-28T23:59:59"),
            (4_107_542_400, "2100-03-01T00:00:00"),
            (-62_135_596_800, "0001-01-01T00:00:00"),
        ] {
            assert_eq!(utc(sec), text);
        }
        for extreme in [i64::MIN, i64::MAX] {
            assert!(!utc(extreme).is_empty());
        }
    }
}
