//! Parses the modes of `--perm`: octal, or symbolic as in chmod(1), applied to mode 0.

use walk::predicate::test::{PermMatch, PermTest};

const FORM: &str = "use an octal mode such as 644, or a symbolic one such as u=rw,g+r; \
                    -MODE requires all of its bits, /MODE any of them";

pub(crate) fn parse(text: &str) -> Result<PermTest, &'static str> {
    let (how, mode) = match text.as_bytes() {
        [b'-', ..] => (PermMatch::All, &text[1..]),
        [b'/', ..] => (PermMatch::Any, &text[1..]),
        _ => (PermMatch::Exact, text),
    };
    let test = |bits, directory_bits| PermTest {
        how,
        bits,
        directory_bits,
    };
    if !mode.is_empty() && mode.bytes().all(|b| b.is_ascii_digit()) {
        let bits = u32::from_str_radix(mode, 8).ok();
        let bits = bits.filter(|bits| *bits <= 0o7777).ok_or(FORM)?;
        return Ok(test(bits, bits));
    }
    let bits = symbolic(mode, false).ok_or(FORM)?;
    Ok(test(bits, symbolic(mode, true).ok_or(FORM)?))
}

/// The mode bits that result when symbolic clauses such as `u+x,g=u` are applied to mode 0, in
/// order.
fn symbolic(mode: &str, is_directory: bool) -> Option<u32> {
    let mut bits = 0;
    for clause in mode.split(',') {
        let operator = clause.find(['+', '-', '='])?;
        let (who, mut rest) = clause.split_at(operator);
        let mut affected = 0;
        for who in who.chars() {
            affected |= match who {
                'u' => 0o4700,
                'g' => 0o2070,
                'o' => 0o1007,
                'a' => 0o7777,
                _ => return None,
            };
        }
        // A clause without u, g or o affects all classes: unlike chmod(1), find ignores the umask.
        let affected = if affected == 0 { 0o7777 } else { affected };
        while !rest.is_empty() {
            let operator = rest.chars().next()?;
            rest = &rest[operator.len_utf8()..];
            let end = rest.find(['+', '-', '=']).unwrap_or(rest.len());
            let (letters, tail) = rest.split_at(end);
            rest = tail;
            let value = permissions(letters, bits, is_directory)? & affected;
            bits = match operator {
                '+' => bits | value,
                '-' => bits & !value,
                // As in chmod(1), `=` keeps the set-user-ID and set-group-ID bits of a directory,
                // unless the clause mentions them.
                '=' if is_directory => bits & (!affected | 0o6000) | value,
                '=' => bits & !affected | value,
                _ => return None,
            };
        }
    }
    Some(bits)
}

/// The bits of permission letters such as `rwx`, for user, group and others. A single `u`, `g` or
/// `o` copies the bits of that class.
fn permissions(letters: &str, bits: u32, is_directory: bool) -> Option<u32> {
    let copied = |shift: u32| (bits >> shift & 7) * 0o111;
    match letters {
        "u" => return Some(copied(6)),
        "g" => return Some(copied(3)),
        "o" => return Some(copied(0)),
        _ => {}
    }
    let bit = |letter| {
        Some(match letter {
            'r' => 0o444,
            'w' => 0o222,
            'x' => 0o111,
            'X' if is_directory || bits & 0o111 != 0 => 0o111,
            'X' => 0,
            's' => 0o6000,
            't' => 0o1000,
            _ => return None,
        })
    };
    letters
        .chars()
        .try_fold(0, |all, letter| Some(all | bit(letter)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_octal_or_symbolic() {
        use PermMatch::{All, Any, Exact};
        for (text, how, bits, directory_bits) in [
            ("644", Exact, 0o644, 0o644),
            ("-4000", All, 0o4000, 0o4000),
            ("/222", Any, 0o222, 0o222),
            ("u=rwx,g=u,o=", Exact, 0o770, 0o770),
            ("-u+w,g+w", All, 0o220, 0o220),
            ("a+X", Exact, 0, 0o111),
            ("u+x,a+X", Exact, 0o111, 0o111),
            ("+t", Exact, 0o1000, 0o1000),
            ("u+s,g+s", Exact, 0o6000, 0o6000),
        ] {
            let expected = PermTest {
                how,
                bits,
                directory_bits,
            };
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        for bad in [
            "", "-", "/", "888", "10000", "rwx", "u", "z+x", "u+q", "644,u+x",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
