//! Strings in JSON as Go encodes them: [json.Marshal](https://pkg.go.dev/encoding/json#Marshal),
//! for names after [strconv.Quote](https://pkg.go.dev/strconv#Quote).

/// Appends a text, escaped for JSON. Bytes that are not UTF-8 are replaced.
pub(crate) fn write_text(text: &[u8], out: &mut Vec<u8>) {
    for chunk in text.utf8_chunks() {
        write_escaped(chunk.valid(), out);
        // Go replaces each invalid byte by one U+FFFD.
        (0..chunk.invalid().len()).for_each(|_| out.extend_from_slice(b"\\ufffd"));
    }
}

/// Appends the name of an entry, quoted and then escaped for JSON.
pub(crate) fn write_name(name: &[u8], out: &mut Vec<u8>) {
    if name.iter().all(|&byte| is_plain(byte)) {
        out.extend_from_slice(name);
    } else {
        write_escaped(&quoted(name), out);
    }
}

/// Whether a byte needs no escape, in names and in other texts.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&')
}

fn write_escaped(text: &str, out: &mut Vec<u8>) {
    let mut buffer = [0; 4];
    for c in text.chars() {
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            '\0'..='\x1f' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.extend_from_slice(format!("\\u{:04x}", u32::from(c)).as_bytes());
            }
            c => out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes()),
        }
    }
}

/// A name as quoted by strconv.Quote, without the quotation marks.
fn quoted(name: &[u8]) -> String {
    let mut quoted = String::with_capacity(name.len() + 8);
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' => quoted.push_str("\\\""),
                '\\' => quoted.push_str("\\\\"),
                '\u{7}' => quoted.push_str("\\a"),
                '\u{8}' => quoted.push_str("\\b"),
                '\u{c}' => quoted.push_str("\\f"),
                '\n' => quoted.push_str("\\n"),
                '\r' => quoted.push_str("\\r"),
                '\t' => quoted.push_str("\\t"),
                '\u{b}' => quoted.push_str("\\v"),
                '\0'..='\x1f' | '\x7f' => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
                c if is_printable(c) => quoted.push(c),
                '\0'..='\u{ffff}' => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
                c => quoted.push_str(&format!("\\U{:08x}", u32::from(c))),
            }
        }
        for byte in chunk.invalid() {
            quoted.push_str(&format!("\\x{byte:02x}"));
        }
    }
    quoted
}

/// Whether Go considers a character printable: letters, marks, numbers, punctuation, symbols and
/// the ASCII space. Rust's Debug escapes the same characters, and also a mark at the start of a
/// text.
fn is_printable(c: char) -> bool {
    let mut buffer = [b'a'; 5];
    let len = 1 + c.encode_utf8(&mut buffer[1..]).len();
    let text = std::str::from_utf8(&buffer[..len]).unwrap_or_default();
    text.escape_debug().nth(1) == Some(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl Fn(&[u8], &mut Vec<u8>), text: &[u8]) -> String {
        let mut out = Vec::new();
        write(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn texts_are_those_of_go() {
        let text = |text: &[u8]| written(write_text, text);
        assert_eq!(text(b"/usr/bin x"), "/usr/bin x");
        assert_eq!(text(b"a\"\\\n\r\t\x08\x0c\x01"), r#"a\"\\\n\r\t\b\f\u0001"#);
        assert_eq!(text(b"<&>\x7f"), "\\u003c\\u0026\\u003e\x7f");
        assert_eq!(text("é\u{2028}".as_bytes()), "é\\u2028");
        assert_eq!(text(b"\xffa\xf0\x9f\x98"), r"\ufffda\ufffd\ufffd\ufffd");
    }

    #[test]
    fn names_are_those_of_go() {
        let name = |name: &[u8]| written(write_name, name);
        assert_eq!(name(b"plain name"), "plain name");
        assert_eq!(name(b"a&b<"), r"a\u0026b\u003c");
        assert_eq!(
            name(b"\"\\\n\x07\x0b\x01\x7f"),
            r#"\\\"\\\\\\n\\a\\v\\x01\\x7f"#
        );
        assert_eq!(name(b"\xffa\xf0\x9f"), r"\\xffa\\xf0\\x9f");
        // A letter, a mark, an emoji; no-break space, zero-width space, a private-use character.
        let printed = "é e\u{301} \u{1f600}";
        assert_eq!(name(printed.as_bytes()), printed);
        assert_eq!(name("\u{301}".as_bytes()), "\u{301}");
        assert_eq!(
            name("\u{a0}\u{200b}\u{e000}\u{10ffff}".as_bytes()),
            r"\\u00a0\\u200b\\ue000\\U0010ffff"
        );
    }
}
