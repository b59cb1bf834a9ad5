//! Figures in words: how many of what, sizes, times.

/// A count and its noun: `one` for 1, else `more`.
pub fn plural(n: u64, one: &str, more: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { more })
}

/// A number of bytes for people: `1.5K`.
pub fn size(bytes: u64) -> String {
    if bytes < 1024 {
        return bytes.to_string();
    }
    let mut value = bytes as f64 / 1024.0;
    for unit in ["K", "M", "G", "T", "P"] {
        // What would be written as 1024.0 of a unit is 1.0 of the next.
        if value < 1023.95 {
            return format!("{value:.1}{unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1}E")
}

/// The same with its unit, also below 1024: `7 bytes`.
pub fn sized(bytes: u64) -> String {
    if bytes < 1024 {
        plural(bytes, "byte", "bytes")
    } else {
        size(bytes)
    }
}

/// Seconds, in the unit that fits.
pub fn duration(seconds: f64) -> String {
    match seconds {
        // What would be written as 1000 of a unit is 1 of the next.
        s if s >= 0.999_995 => format!("{s:.2} s"),
        s if s >= 0.000_999_95 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.1} µs", s * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(
            [size(0), size(1023), size(1536), size(5 << 30)],
            ["0", "1023", "1.5K", "5.0G"]
        );
        assert_eq!(
            [size((1 << 20) - 1), size(1048524), size(1023 << 10)],
            ["1.0M", "1023.9K", "1023.0K"]
        );
        assert_eq!([size(u64::MAX), size(1 << 60)], ["16.0E", "1.0E"]);
        assert_eq!(
            [sized(0), sized(1), sized(1023), sized(1536)],
            ["0 bytes", "1 byte", "1023 bytes", "1.5K"]
        );
    }

    #[test]
    fn times() {
        assert_eq!(
            [
                duration(2.0),
                duration(0.0125),
                duration(35.2e-6),
                duration(0.0)
            ],
            ["2.00 s", "12.50 ms", "35.2 µs", "0.0 µs"]
        );
        assert_eq!(
            [duration(0.999_996), duration(0.999_99), duration(999.96e-6)],
            ["1.00 s", "999.99 ms", "1.00 ms"]
        );
    }
}
