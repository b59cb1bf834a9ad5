//! Validates the names of members.

use base::path::{components, trim_slashes};

use crate::error::BadName;
use crate::list::plain;

/// A normalized member name, relative to DIR.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ArchiveName {
    /// Components joined by single slashes; empty for DIR itself.
    pub(super) path: Vec<u8>,
    /// Whether the name began with a slash.
    pub(super) was_absolute: bool,
}

/// Normalizes a name: without leading, trailing and repeated slashes, and without `.`.
///
/// # Errors
/// The name is invalid, so its member is not restored.
pub(super) fn clean(raw: &[u8]) -> Result<ArchiveName, BadName> {
    if raw.is_empty() {
        return Err(BadName::Empty);
    }
    if raw.contains(&0) {
        return Err(BadName::Nul);
    }
    if components(raw).any(|part| part == b"..") {
        return Err(BadName::DotDot);
    }
    Ok(ArchiveName {
        path: plain(raw).into_owned(),
        was_absolute: raw.starts_with(b"/"),
    })
}

/// Removes the first `components` of a name, counting `.` as one like GNU tar; `None` if nothing
/// remains.
pub(super) fn strip(raw: &[u8], components: usize) -> Option<&[u8]> {
    let without_slashes = |name: &[u8]| name.iter().take_while(|&&b| b == b'/').count();
    let mut rest = trim_slashes(raw);
    for _ in 0..components {
        rest = &rest[without_slashes(rest)..];
        let slash = rest.iter().position(|&b| b == b'/')?;
        rest = &rest[slash..];
    }
    Some(&rest[without_slashes(rest)..])
}

#[cfg(test)]
mod tests {
    use base::path::split;

    use super::*;

    #[test]
    fn names_are_normalized() {
        let plain = |raw: &[u8]| clean(raw).map(|name| name.path);
        assert_eq!(plain(b"./a//b/./c/"), Ok(b"a/b/c".to_vec()));
        assert_eq!(plain(b"./"), Ok(b"".to_vec()));
        assert_eq!(
            clean(b"//etc/passwd"),
            Ok(ArchiveName {
                path: b"etc/passwd".to_vec(),
                was_absolute: true
            })
        );
        assert_eq!(plain(b"..a/b.."), Ok(b"..a/b..".to_vec()));
        for bad in [&b""[..], b"..", b"a/..", b"a/../b", b"a\0b", b"/../x"] {
            assert!(clean(bad).is_err(), "{bad:?}");
        }
        assert_eq!(split(b"a/b/c"), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(split(b"c"), (&b""[..], &b"c"[..]));
    }

    #[test]
    fn components_are_counted_as_gnu_tar_does() {
        for (name, components, rest) in [
            ("a/b/c", 0, Some("a/b/c")),
            ("a/b/c", 1, Some("b/c")),
            ("a/b/c/", 2, Some("c")),
            ("a/b/c", 3, None),
            ("a//b", 1, Some("b")),
            ("//a/b", 1, Some("b")),
            ("./a/b", 1, Some("a/b")),
            ("./a/b", 2, Some("b")),
            ("a/.", 1, Some(".")),
            ("a/", 1, None),
            ("./", 1, None),
            ("", 1, None),
            ("/", 1, None),
        ] {
            let rest = rest.map(str::as_bytes);
            assert_eq!(
                strip(name.as_bytes(), components),
                rest,
                "{name} {components}"
            );
        }
    }
}
