//! Figures in words: how many of what, sizes, times.

/// So many of something, which is called `one` where there is one of it.
pub fn plural(n: u64, one: &str, more: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { more })
}

/// A number of bytes, as people write it.
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["", "K", "M", "G", "T", "P"] {
        if value < 1024.0 || unit == "P" {
            return if unit.is_empty() { bytes.to_string() } else { format!("{value:.1}{unit}") };
        }
        value /= 1024.0;
    }
    unreachable!("the last unit takes all")
}

/// The same with its unit also where they are few.
pub fn sized(bytes: u64) -> String {
    if bytes < 1024 { plural(bytes, "byte", "bytes") } else { size(bytes) }
}

/// Seconds, in the unit that suits them.
pub fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 0.001 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.1} µs", s * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!([size(0), size(1023), size(1536), size(5 << 30)], ["0", "1023", "1.5K", "5.0G"]);
        assert_eq!([sized(0), sized(1), sized(1023), sized(1536)], ["0 bytes", "1 byte", "1023 bytes", "1.5K"]);
    }

    #[test]
    fn times() {
        assert_eq!([time(2.0), time(0.0125), time(35.2e-6), time(0.0)], ["2.00 s", "12.50 ms", "35.2 µs", "0.0 µs"]);
    }
}
