//! File names, which may contain any byte except NUL.

use std::borrow::Cow;
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::ser::SerializeMap;

/// A name for a terminal, escaped reversibly: control characters, invalid UTF-8, characters that
/// change the direction of writing, and backslashes.
pub fn printable(name: &[u8]) -> Cow<'_, str> {
    if name.iter().all(|&b| matches!(b, b' '..=b'~') && b != b'\\') {
        return String::from_utf8_lossy(name);
    }
    let mut out = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                c if c.is_control() && c.is_ascii() => {
                    let _ = write!(out, "\\x{:02x}", u32::from(c));
                }
                c if c.is_control() || is_invisible(c) => {
                    let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
                }
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.into()
}

/// Text with raw names, made safe for a terminal: control characters are escaped as by
/// [`printable`], except newlines, tabs and NULs.
pub fn harmless(text: &[u8]) -> Cow<'_, [u8]> {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t' | 0);
    if text.iter().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let is_kept = |byte: &u8| matches!(byte, b'\n' | b'\t' | b'\\' | 0);
    let mut out = Vec::with_capacity(text.len());
    for part in text.split_inclusive(is_kept) {
        match part.split_last() {
            Some((kept, rest)) if is_kept(kept) => {
                out.extend_from_slice(printable(rest).as_bytes());
                out.push(*kept);
            }
            _ => out.extend_from_slice(printable(part).as_bytes()),
        }
    }
    Cow::Owned(out)
}

/// A name as one field of a line, as in mountinfo: blanks, backslashes, control characters and
/// invalid UTF-8 become `\ooo`.
pub fn field(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '\\' || c == ' ' || c.is_control() || is_invisible(c) {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    let _ = write!(out, "\\{byte:03o}");
                }
            } else {
                out.push(c);
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\{byte:03o}");
        }
    }
    out
}

/// Whether a character has no width but changes how its neighbours look.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Serializes a name as `field`; if it is not UTF-8, lossily, with its exact bytes in
/// `<field>_b64`.
///
/// # Errors
/// The errors of the serializer.
pub fn entry<M: SerializeMap>(
    map: &mut M,
    field: &str,
    name: Option<&[u8]>,
) -> Result<(), M::Error> {
    match name.map(|name| (name, std::str::from_utf8(name))) {
        None => map.serialize_entry(field, &None::<&str>),
        Some((_, Ok(name))) => map.serialize_entry(field, name),
        Some((name, Err(_))) => {
            map.serialize_entry(field, &String::from_utf8_lossy(name))?;
            map.serialize_entry(&format!("{field}_b64"), &STANDARD.encode(name))
        }
    }
}

/// Serializes names as `field`; if one is not UTF-8, lossily, with the exact bytes of all in
/// `<field>_b64`.
///
/// # Errors
/// The errors of the serializer.
pub fn entries<M: SerializeMap>(
    map: &mut M,
    field: &str,
    names: Option<&[impl AsRef<[u8]>]>,
) -> Result<(), M::Error> {
    let Some(names) = names else {
        return map.serialize_entry(field, &None::<&str>);
    };
    let names = names.iter().map(AsRef::as_ref);
    let lossy: Vec<_> = names.clone().map(String::from_utf8_lossy).collect();
    map.serialize_entry(field, &lossy)?;
    if names.clone().any(|name| std::str::from_utf8(name).is_err()) {
        let exact: Vec<String> = names.map(|name| STANDARD.encode(name)).collect();
        map.serialize_entry(&format!("{field}_b64"), &exact)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::printable;
    use proptest::prelude::*;

    #[test]
    fn a_terminal_obeys_no_name() {
        for (name, shown) in [
            (&b"plain /\\ name\n\0"[..], "plain /\\ name\n\0"),
            (b"\x1b[31mred\x07\t", "\\x1b[31mred\\x07\t"),
            (
                "\u{9b}31m, \u{202e}, é\\".as_bytes(),
                "\\u{9b}31m, \\u{202e}, é\\",
            ),
            (b"\x9b31m\xff\n", "\\x9b31m\\xff\n"),
        ] {
            assert_eq!(&*super::harmless(name), shown.as_bytes(), "{shown}");
        }
    }

    #[test]
    fn nothing_reaches_a_terminal_raw() {
        assert_eq!(printable("näme".as_bytes()), "näme");
        assert_eq!(printable(b"a\nb\x1b[2Jc\xff\\"), "a\\nb\\x1b[2Jc\\xff\\\\");
        assert_eq!(printable("\u{202e}x\u{85}".as_bytes()), "\\u{202e}x\\u{85}");
    }

    proptest! {
        #[test]
        fn a_field_is_one_field_and_can_be_undone(name in proptest::collection::vec(any::<u8>(), 0..100)) {
            let field = super::field(&name);
            prop_assert!(!field.chars().any(|c| c.is_control() || c == ' '));
            prop_assert_eq!(ondisk::mnttab::unescape(field.as_bytes()), name);
        }

        #[test]
        fn printable_is_printable(name in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(!printable(&name).chars().any(char::is_control));
        }
    }
}
