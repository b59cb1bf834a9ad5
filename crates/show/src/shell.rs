//! File names in shell commands.

use std::fmt::Write;

/// Quotes a name for a shell, if necessary: in single quotes, or as `$'...'` with octal escapes
/// (bash, zsh, ksh) if it has characters that cannot be typed.
pub fn quoted(name: &[u8]) -> String {
    let plain = |&b: &u8| b.is_ascii_alphanumeric() || b"/._-+,:=@%".contains(&b);
    if !name.is_empty() && name.iter().all(plain) {
        return String::from_utf8_lossy(name).into_owned();
    }
    let shown = crate::name::printable(name);
    // A name can be typed within single quotes if `printable` escapes nothing except backslashes,
    // which have no meaning within single quotes.
    if std::str::from_utf8(name).is_ok_and(|text| shown == text.replace('\\', "\\\\")) {
        return format!("'{}'", String::from_utf8_lossy(name).replace('\'', r"'\''"));
    }
    let mut text = "$'".to_owned();
    for &byte in name {
        match byte {
            b'\'' | b'\\' => drop(write!(text, "\\{}", char::from(byte))),
            b' '..=b'~' => text.push(char::from(byte)),
            // Always three digits, because the next character may be a digit, too.
            byte => drop(write!(text, "\\{byte:03o}")),
        }
    }
    text + "'"
}

/// Quotes a name for POSIX sh(1) within a script, which has no `$'...'`; [`quoted`] then quotes the script.
pub fn quoted_in_script(name: &[u8]) -> Vec<u8> {
    if quoted(name).as_bytes() == name {
        return name.to_vec();
    }
    single_quoted(name)
}

/// A value in single quotes, for any POSIX shell.
pub fn single_quoted(value: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> = value.split(|&byte| byte == b'\'').collect();
    [b"'", &parts.join(&br"'\''"[..])[..], b"'"].concat()
}

#[cfg(test)]
mod tests {
    use super::{quoted, quoted_in_script, single_quoted};
    use proptest::prelude::*;

    #[test]
    fn a_quoted_value_survives_a_shell() {
        assert_eq!(
            single_quoted(b"/a b:/it's:/\xff"),
            b"'/a b:/it'\\''s:/\xff'"
        );
    }

    #[test]
    fn as_little_as_need_be() {
        for (name, typed) in [
            (&b"/srv/a-b_c.d"[..], "/srv/a-b_c.d"),
            (b"/mnt/my disk", "'/mnt/my disk'"),
            (b"/it's", r"'/it'\''s'"),
            (b"/a\\b", r"'/a\b'"),
            ("/näme".as_bytes(), "'/näme'"),
            (b"/\xff1", r"$'/\3771'"),
            (b"/a\nb'", r"$'/a\012b\''"),
            (b"", "''"),
        ] {
            assert_eq!(quoted(name), typed);
        }
    }

    #[test]
    fn a_script_has_only_single_quotes() {
        for (name, typed) in [
            (&b"/srv/a-b_c.d"[..], &b"/srv/a-b_c.d"[..]),
            (b"/my disk", b"'/my disk'"),
            (b"/it's", br"'/it'\''s'"),
            (b"/a\\b\n\xff", b"'/a\\b\n\xff'"),
        ] {
            assert_eq!(quoted_in_script(name), typed);
        }
    }

    /// The bytes that a shell makes of a quoted word.
    fn taken(typed: &str) -> Vec<u8> {
        let within = |text: &str, from: &str| {
            text.strip_prefix(from)
                .and_then(|text| text.strip_suffix('\''))
                .map(str::to_owned)
        };
        if let Some(text) = within(typed, "'") {
            return text.replace(r"'\''", "'").into_bytes();
        }
        let Some(text) = within(typed, "$'") else {
            return typed.as_bytes().to_vec();
        };
        let (mut name, mut left) = (Vec::new(), text.as_bytes());
        while let Some((&byte, rest)) = left.split_first() {
            let octal = rest
                .get(..3)
                .filter(|digits| byte == b'\\' && digits.iter().all(u8::is_ascii_digit));
            match (byte, octal) {
                (_, Some(digits)) => name.push(
                    digits
                        .iter()
                        .fold(0, |n: u8, digit| n.wrapping_mul(8) + (digit - b'0')),
                ),
                (b'\\', None) => name.extend(rest.first()),
                (byte, _) => name.push(byte),
            }
            let used = if octal.is_some() {
                3
            } else {
                usize::from(byte == b'\\')
            };
            left = &rest[used..];
        }
        name
    }

    proptest! {
        #[test]
        fn a_shell_gives_it_back(name in prop::collection::vec(1..=255_u8, 0..60)) {
            let typed = quoted(&name);
            prop_assert!(!typed.contains(char::is_control));
            prop_assert_eq!(taken(&typed), name, "{}", typed);
        }
    }
}
