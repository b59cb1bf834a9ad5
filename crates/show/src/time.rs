//! Times of day, in UTC.

/// A time as ISO 8601 has it, to the second: `2023-11-14T22:13:20`. Any number of seconds has one.
pub fn utc(sec: i64) -> String {
    const DAY: i64 = 86_400;
    let (days, rest) = (sec.div_euclid(DAY), sec.rem_euclid(DAY));
    // Days from 1 March of the year 0, in eras of 400 years: a leap day is then the last day of a
    // year.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = year + era * 400 + carry;
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::utc;

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
