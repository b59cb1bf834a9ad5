//! Parsers of option values: numbers, times, sizes, shares.

use std::ffi::OsString;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::str::FromStr;
use std::time::Duration;

use archive::compression::{Compress, Compression};
use archive::increment::retention::Within;
use clap::builder::{OsStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use walk::Shard;

use crate::date::{DumpTime, FORMS};

/// Error: the value is not a whole number, or out of bounds.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("use a whole number {}", range(.low, .high))]
pub(crate) struct NotWithin {
    low: String,
    high: String,
}

fn range(low: &str, high: &str) -> String {
    match high.parse::<u64>() {
        Ok(high) if high >= u64::from(u32::MAX) => format!("of at least {low}"),
        _ => format!("from {low} to {high}"),
    }
}

pub(crate) fn bytes(names: &[OsString]) -> Vec<Vec<u8>> {
    let bytes = |name: &OsString| name.as_bytes().to_vec();
    names.iter().map(bytes).collect()
}

pub(crate) fn number<T: FromStr + PartialOrd + Display + Clone>(
    within: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, NotWithin> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| within.contains(number));
        number.ok_or_else(|| {
            let (low, high) = (within.start().to_string(), within.end().to_string());
            NotWithin { low, high }
        })
    }
}

/// Parses a value by name. Each line of `table` is a name and a description.
pub(crate) fn choices(table: &'static str) -> PossibleValuesParser {
    let values = table.lines().filter_map(|line| line.split_once(' '));
    let values = values.map(|(name, help)| PossibleValue::new(name).help(help.trim_start()));
    PossibleValuesParser::new(values)
}

/// Parses a name to a value of a library crate; `auto` gives `None`. clap's derive treats a field
/// of type `Option` as an optional argument, so the field must have an alias of this type.
pub(crate) fn choice<T: Copy + Send + Sync + 'static, const N: usize>(
    table: &'static str,
    all: [T; N],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = Option<T>> {
    choices(table).map(move |chosen| all.into_iter().find(|value| name(*value) == chosen))
}

/// Parses a name to a value of a library crate. The rows of `table` name `values`, in their order.
pub(crate) fn named<T: Copy + Send + Sync + 'static, const N: usize>(
    table: &'static str,
    values: [T; N],
) -> impl TypedValueParser<Value = T> {
    choices(table).try_map(move |chosen| {
        let names = table.lines().filter_map(|line| line.split_once(' '));
        let mut named = names.zip(values);
        let known = named.find(|((name, _), _)| *name == chosen);
        known.map(|(_, value)| value).ok_or("unknown name")
    })
}

/// Parses the name of a file that must be seekable: refuses `-` (standard output).
pub(crate) fn seekable() -> impl TypedValueParser<Value = OsString> {
    OsStringValueParser::new().try_map(|name| match name.as_encoded_bytes() {
        b"-" => Err("a catalog cannot be written to standard output"),
        _ => Ok(name),
    })
}

/// Parses a shard, such as `0/4`.
pub(crate) fn shard(text: &str) -> Result<Shard, &'static str> {
    const FORM: &str = "use I/N, with I from 0 to N - 1, such as 0/4";
    let (number, of) = text.split_once('/').ok_or(FORM)?;
    let number: u32 = number.parse().map_err(|_| FORM)?;
    let of: u32 = of.parse().map_err(|_| FORM)?;
    let shard = (number < of).then_some(Shard { number, of });
    shard.ok_or(FORM)
}

/// Parses a compression format, optionally with a level after a colon.
pub(crate) fn compress(text: &str) -> Result<Compress, &'static str> {
    let (name, level) = match text.split_once(':') {
        Some((name, level)) => (name, Some(level)),
        None => (text, None),
    };
    if name == "none" && level.is_none() {
        return Ok(Compress::No);
    }
    let mut formats = Compression::WRITTEN.into_iter();
    let format = formats.find(|format| format.to_string() == name);
    let format = format.ok_or("use none, gzip, xz or zstd")?;
    let level = level.map(|level| {
        let level = level.parse().ok();
        level
            .filter(|level| format.levels().contains(level))
            .ok_or("use a level from 1 to 9 for gzip, 0 to 9 for xz, 1 to 19 for zstd")
    });
    Ok(Compress::With(format, level.transpose()?))
}

/// Splits text such as `10ms` into number and unit.
fn split_unit(text: &str) -> (&str, &str) {
    let unit = text.find(|c: char| c.is_ascii_alphabetic());
    text.split_at(unit.unwrap_or(text.len()))
}

/// Parses a duration: numbers with the units `us`, `ms`, `s`, `m` or `h`, such as `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, &'static str> {
    const NOT_TIME: &str = "use a duration such as 500ms, 2s, 1m or 1h30m";
    let (mut seconds, mut rest) = (0.0, text);
    while !rest.is_empty() || seconds == 0.0 {
        let (number, unit) = split_unit(rest);
        let end = unit.find(|c: char| !c.is_ascii_alphabetic());
        let (unit, next) = unit.split_at(end.unwrap_or(unit.len()));
        let factor = match unit {
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "" if number.parse::<f64>().is_ok() => {
                return Err("a duration needs a unit, such as 5ms or 5s");
            }
            _ => return Err(NOT_TIME),
        };
        let number: f64 = number.trim().parse().map_err(|_| NOT_TIME)?;
        seconds += number * factor;
        rest = next;
        if rest.is_empty() {
            break;
        }
    }
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| !time.is_zero() && time.as_secs() < 1_000_000)
        .ok_or("use a duration over 0 and under 11 days")
}

/// Parses a duration in restic's units of the calendar: `h`, `d`, `m` (months) and `y`.
pub(crate) fn within(text: &str) -> Result<Within, &'static str> {
    const FORM: &str = "use a duration in years, months, days and hours, such as 30d, 12h or 1y6m";
    let (mut within, mut rest) = (Within::default(), text);
    while !rest.is_empty() || text.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = rest.split_at(digits);
        let field = match unit.as_bytes().first() {
            Some(b'y') => &mut within.years,
            Some(b'm') => &mut within.months,
            Some(b'd') => &mut within.days,
            Some(b'h') => &mut within.hours,
            _ => return Err(FORM),
        };
        let number: u32 = number.parse().map_err(|_| FORM)?;
        // The limit keeps all sums of seconds in range.
        let sum = field.saturating_add(number);
        *field = Some(sum).filter(|sum| *sum <= 9_000_000).ok_or(FORM)?;
        rest = &unit[1..];
    }
    match within == Within::default() {
        true => Err(FORM),
        false => Ok(within),
    }
}

/// Parses a duration in seconds; the unit may be omitted, because the option's name says it.
pub(crate) fn seconds(text: &str) -> Result<Duration, &'static str> {
    match text.trim().parse::<f64>() {
        Ok(_) => duration(&format!("{}s", text.trim())),
        Err(_) => duration(text),
    }
}

/// Parses the time of a dump: a date, or a time relative to now.
pub(crate) fn when(text: &str) -> Result<DumpTime, InvalidDumpTime> {
    DumpTime::parse(text.trim()).ok_or(InvalidDumpTime)
}

/// Error: the value is not the time of a dump.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "use latest, today, yesterday, a duration such as 30min or 2d, or a date in local time such as {FORMS}"
)]
pub(crate) struct InvalidDumpTime;

/// Parses a ratio of directories to files, such as `40:60`.
pub(crate) fn mix(text: &str) -> Result<(f64, f64), &'static str> {
    let share = |text: &str| {
        let share = text.trim().parse().ok();
        share.filter(|share: &f64| (0.0..=1e9).contains(share))
    };
    let shares = text.split_once(':');
    let shares = shares.and_then(|(dirs, files)| Some((share(dirs)?, share(files)?)));
    shares
        .filter(|(dirs, files)| dirs + files > 0.0)
        .ok_or("use two numbers such as 40:60")
}

pub(crate) fn percent(text: &str) -> Result<f64, &'static str> {
    let number = text.trim_end_matches('%').trim().parse().ok();
    let percent = number.filter(|share| (0.0..=100.0).contains(share));
    percent.ok_or("use a number from 0 to 100")
}

/// Parses a size in bytes, with the suffix `K`, `M`, `G` or `T` for powers of 1024.
pub(crate) fn size(text: &str) -> Result<u64, &'static str> {
    const NOT_SIZE: &str = "use a whole number with a unit, such as 64K, 1M or 2G";
    let (number, unit) = split_unit(text.trim());
    let unit = unit.to_ascii_uppercase();
    let shift = match unit.trim_end_matches('B').trim_end_matches('I') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(NOT_SIZE),
    };
    let number: u64 = number.trim().parse().map_err(|_| NOT_SIZE)?;
    number
        .checked_mul(1 << shift)
        .filter(|size| *size < 1 << 60)
        .ok_or("the size is too large")
}

/// Parses the memory limit of the cgroup in which probe fills the page cache.
pub(crate) fn cache_limit(text: &str) -> Result<u64, &'static str> {
    let limit = size(text)?;
    match (16 << 20..=4 << 30).contains(&limit) {
        true => Ok(limit),
        false => Err("use a size from 16M to 4G"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(
            (number(1..=9_u8)("9"), number(0..=u64::MAX)("0")),
            (Ok(9), Ok(0))
        );
        let error = |text: &str| number(1..=u64::MAX)(text).unwrap_err().to_string();
        assert_eq!(error("0"), "use a whole number of at least 1");
        for bad in ["", "0", "10", "300", "-1", "1.5", "x"] {
            assert_eq!(
                number(1..=9_u8)(bad),
                Err(NotWithin {
                    low: "1".to_owned(),
                    high: "9".to_owned()
                }),
                "{bad}"
            );
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("64K", 64 << 10),
            ("2g", 2 << 30),
            ("1MiB", 1 << 20),
            ("3KB", 3072),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for bad in [
            "",
            "K",
            "-1",
            "1.5G",
            "2X",
            "99999999T",
            "18446744073709551616",
        ] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn cache_limits() {
        assert_eq!(
            [cache_limit("16M"), cache_limit("4G")],
            [Ok(16 << 20), Ok(4 << 30)]
        );
        for bad in ["1K", "16383K", "5G", "x"] {
            assert!(cache_limit(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times() {
        assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("0.5s"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        let needs_unit = Err("a duration needs a unit, such as 5ms or 5s");
        assert_eq!([duration("5"), duration("0.5")], [needs_unit, needs_unit]);
        for bad in [
            "", "s", "-1s", "2d", "0", "0s", "nan", "inf", "1h30", "1s-2s",
        ] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_in_units_of_the_calendar() {
        let given = Within {
            years: 1,
            months: 5,
            days: 7,
            hours: 2,
        };
        assert_eq!(within("1y5m7d2h"), Ok(given));
        assert_eq!(within("30d").map(|within| within.days), Ok(30));
        for bad in [
            "",
            "0d",
            "d",
            "30",
            "1w",
            "-1d",
            "1.5d",
            "99999999h",
            "1d é",
        ] {
            assert!(within(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shares() {
        assert_eq!(mix("40:60"), Ok((40.0, 60.0)));
        assert_eq!(mix("0 : 1"), Ok((0.0, 1.0)));
        for bad in ["", "40", "0:0", "-1:2", "nan:1", "1:inf", "1:2:3"] {
            assert!(mix(bad).is_err(), "{bad}");
        }
        assert_eq!((percent("51"), percent("51%")), (Ok(51.0), Ok(51.0)));
        for bad in ["", "-1", "101", "nan", "x"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
    }
}
