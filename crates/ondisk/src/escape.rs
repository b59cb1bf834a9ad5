//! Octal escapes in mount tables.
//! [getmntent(3)](https://man7.org/linux/man-pages/man3/getmntent.3.html)

/// Decodes escapes `\ooo` (three octal digits, at most `\377`). Other bytes are kept.
pub fn unescape(field: &[u8]) -> Vec<u8> {
    if !field.contains(&b'\\') {
        return field.to_vec();
    }
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        let (byte, tail) = match tail {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..] if *first == b'\\' => {
                ((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'), tail)
            }
            _ => (*first, tail),
        };
        out.push(byte);
        rest = tail;
    }
    out
}

/// Escapes the characters that getmntent(3) decodes: space, tab, newline, carriage return,
/// backslash and `#`.
pub fn escape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    for &byte in field {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | b'\\' | b'#' => {
                out.extend(format!("\\{byte:03o}").bytes())
            }
            _ => out.push(byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn escapes_are_undone(name in proptest::collection::vec(any::<u8>(), 0..300)) {
            let escaped = escape(&name);
            prop_assert!(!escaped.iter().any(|b| b" \t\n#".contains(b)));
            prop_assert_eq!(unescape(&escaped), name);
        }
    }
}
