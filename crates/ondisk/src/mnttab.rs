//! Lines of mount tables that people and programs keep: /etc/mtab, /etc/mnttab, fstab.
//! [fstab(5)](https://man7.org/linux/man-pages/man5/fstab.5.html),
//! [getmntent(3)](https://man7.org/linux/man-pages/man3/getmntent.3.html)

/// Undoes the escapes `\ooo` (three octal digits, at most `\377`). Anything else stands for itself.
pub fn unescape(field: &[u8]) -> Vec<u8> {
    if !field.contains(&b'\\') {
        return field.to_vec();
    }
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        match rest {
            [
                b'\\',
                a @ b'0'..=b'3',
                b @ b'0'..=b'7',
                c @ b'0'..=b'7',
                tail @ ..,
            ] => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = tail;
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

/// Writes the escapes that getmntent(3) undoes: of space, tab, newline, carriage return, backslash
/// and `#`.
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

/// The mount point that a line names: of mountinfo, of fstab or mtab (second field), or a line that
/// is a path and nothing else. `None` for comments, blank lines, and what names no absolute path.
pub fn mount_point(line: &[u8]) -> Option<Vec<u8>> {
    if let Some(mount) = crate::mountinfo::parse(line) {
        return mount.target;
    }
    let line = line.trim_ascii_start();
    if line.first() == Some(&b'/') && !line.iter().any(|b| b" \t".contains(b)) {
        return Some(unescape(line));
    }
    let mut fields = line
        .split(|b| b" \t".contains(b))
        .filter(|field| !field.is_empty());
    let source = fields.next().filter(|source| !source.starts_with(b"#"))?;
    match fields.next() {
        Some(target) if target.first() == Some(&b'/') => Some(unescape(target)),
        _ if source.first() == Some(&b'/') => Some(unescape(line)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mount_points_of_all_kinds_of_lines() {
        let of = |line: &str| mount_point(line.as_bytes()).map(|t| String::from_utf8(t).unwrap());
        assert_eq!(
            of("/dev/sda1 /mnt\\040a ext4 rw 0 1").as_deref(),
            Some("/mnt a")
        );
        assert_eq!(of("tmpfs\t/tmp\ttmpfs").as_deref(), Some("/tmp"));
        assert_eq!(of("/srv/x").as_deref(), Some("/srv/x"));
        assert_eq!(of("\t/srv/x y").as_deref(), Some("/srv/x y"));
        assert_eq!(
            of("36 35 98:0 / /boot rw - ext3 /dev/root rw").as_deref(),
            Some("/boot")
        );
        assert_eq!(of("# /dev/sda1 /mnt"), None);
        assert_eq!(of("UUID=1 none swap sw 0 0"), None);
    }

    proptest! {
        #[test]
        fn escapes_are_undone(name in proptest::collection::vec(any::<u8>(), 0..300)) {
            let escaped = escape(&name);
            prop_assert!(!escaped.iter().any(|b| b" \t\n#".contains(b)));
            prop_assert_eq!(unescape(&escaped), name);
        }

        #[test]
        fn no_line_makes_it_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = mount_point(&line);
        }
    }
}
