//! Numbers for people: counts, sizes, times.

/// A count with its noun, `one` for 1, else `more`: `40,057 files`.
pub fn plural(n: u64, one: &str, more: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { more })
}

/// A count with thousands separators: `493,309`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes to three significant digits: `1.50 KiB`; exact multiples without a fraction:
/// `4 KiB`.
pub fn size(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    for unit in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
        // Print values from 1023.5 on as 1 of the next unit, because rounding would give 1024.
        if value < 1023.5 {
            return format!("{} {unit}", significant(value));
        }
        value /= 1024.0;
    }
    format!("{} EiB", significant(value))
}

/// A number to three significant digits, without a zero fraction.
fn significant(value: f64) -> String {
    match value {
        v if v.fract() == 0.0 || v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// A number of bytes with its unit, even below 1024: `7 bytes`.
pub fn sized(bytes: u64) -> String {
    if bytes < 1024 {
        plural(bytes, "byte", "bytes")
    } else {
        size(bytes)
    }
}

/// A ratio to three significant digits: `1.01`, `12.5`, `26,631`; below a tenth, in thousandths.
pub fn ratio(value: f64) -> String {
    match value {
        v if v >= 99.95 => count(v.round() as u64),
        v if v >= 9.995 => format!("{v:.1}"),
        v if v >= 0.0995 || v == 0.0 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    }
}

/// Seconds to three significant digits in a fitting unit: `1.06 s`, `37.2 ms`, `11.5 min`.
pub fn duration(seconds: f64) -> String {
    const UNITS: [(f64, &str); 6] = [
        (3600.0, "h"),
        (60.0, "min"),
        (1.0, "s"),
        (1e-3, "ms"),
        (1e-6, "µs"),
        (1e-9, "ns"),
    ];
    // Use minutes from 10 min on, and hours from 2 h on. Print values from 999.5 of a smaller unit
    // on as 1 of the next unit, because rounding would give 1000.
    let is_large_enough = |(unit, name): &&(f64, &str)| match *name {
        "h" => seconds >= 7200.0,
        "min" => seconds >= 600.0,
        _ => seconds >= 0.9995 * unit,
    };
    let (unit, name) = UNITS.iter().find(is_large_enough).unwrap_or(&UNITS[5]);
    let value = seconds / unit;
    match value {
        0.0 => "0 s".to_owned(),
        v if v >= 99.95 || *name == "ns" => format!("{v:.0} {name}"),
        v if v >= 9.995 => format!("{v:.1} {name}"),
        v => format!("{v:.2} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        for (n, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (493_309, "493,309"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(count(n), text);
        }
    }

    #[test]
    fn sizes() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.50 KiB"),
            (5 << 30, "5 GiB"),
            ((1 << 20) - 1, "1.00 MiB"),
            (1023 << 10, "1023 KiB"),
            (101_187_584, "96.5 MiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(
            [sized(0), sized(1), sized(1023), sized(1536)],
            ["0 bytes", "1 byte", "1,023 bytes", "1.50 KiB"]
        );
    }

    #[test]
    fn ratios() {
        for (value, text) in [
            (0.0, "0.00"),
            (0.004_57, "0.005"),
            (0.1, "0.10"),
            (1.006, "1.01"),
            (9.996, "10.0"),
            (244.9, "245"),
            (26_631.0, "26,631"),
        ] {
            assert_eq!(ratio(value), text);
        }
    }

    #[test]
    fn times() {
        for (seconds, text) in [
            (5.0 * 3600.0, "5.00 h"),
            (690.0, "11.5 min"),
            (599.0, "599 s"),
            (2.0, "2.00 s"),
            (1.064_47, "1.06 s"),
            (0.999_6, "1.00 s"),
            (0.037_2, "37.2 ms"),
            (0.000_999_4, "999 µs"),
            (35.2e-6, "35.2 µs"),
            (537e-9, "537 ns"),
            (0.0, "0 s"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }
}
