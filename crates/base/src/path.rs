//! Paths as bytes.

use std::cmp::Ordering;

/// `dir/name`, without doubling the slash of `/`.
pub fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    path.extend_from_slice(dir);
    if path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// A path without the slashes at its end; empty for the root directory.
pub fn trim_slashes(path: &[u8]) -> &[u8] {
    &path[..path.iter().rposition(|&b| b != b'/').map_or(0, |at| at + 1)]
}

/// A path without the slashes at its end; `/` for the root directory.
pub fn without_slashes(path: &[u8]) -> &[u8] {
    match trim_slashes(path) {
        b"" => &path[..path.len().min(1)],
        trimmed => trimmed,
    }
}

/// `path` relative to `dir`: empty for `dir` itself, `None` outside it.
pub fn below<'a>(dir: &[u8], path: &'a [u8]) -> Option<&'a [u8]> {
    if dir == b"/" {
        return path.strip_prefix(b"/");
    }
    match path.strip_prefix(dir)? {
        [] => Some(b""),
        [b'/', rest @ ..] => Some(rest),
        _ => None,
    }
}

/// The directory that contains `path`.
pub fn parent(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|&b| b == b'/') {
        None | Some(0) => b"/",
        Some(at) => &path[..at],
    }
}

/// A path, and the directories above it up to the root.
pub fn ancestors(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(path), |&path| (path.len() > 1).then(|| parent(path)))
}

/// Splits a path into its directory, empty if it has none, and its last component.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&b| b == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

/// A path to open or to display: `.` for the empty path.
pub fn or_dot(path: &[u8]) -> &[u8] {
    if path.is_empty() { b"." } else { path }
}

/// Orders paths so that the contents of a directory follow it immediately.
pub fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let key = |b: u8| if b == b'/' { 0 } else { b };
    match a.iter().zip(b).find(|(a, b)| a != b) {
        Some((&a, &b)) => key(a).cmp(&key(b)),
        None => a.len().cmp(&b.len()),
    }
}

/// The names in a path: its components, without the empty ones of leading, trailing and doubled
/// slashes.
pub fn names(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/')
        .filter(|name| !name.is_empty())
}

/// The components of a path, without `.` and the empty ones of leading, trailing and doubled
/// slashes.
pub fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    names(path).filter(|name| *name != b".")
}

/// The absolute path of a directory, without a system call on the directory, which could hang. `..`
/// remains: after a symbolic link, `..` is not the directory that contains the link.
///
/// # Errors
/// The working directory has no path.
pub fn absolute(dir: &[u8]) -> gate::Result<Vec<u8>> {
    let top = match dir.starts_with(b"/") {
        true => b"/".to_vec(),
        false => gate::fs::getcwd()?,
    };
    Ok(components(dir).fold(top, |path, name| join(&path, name)))
}

/// A name as it appears in a message: on one line, and without control characters.
pub fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_compares_whole_components() {
        assert_eq!(below(b"/", b"/a/b"), Some(&b"a/b"[..]));
        assert_eq!(below(b"/a", b"/a/b"), Some(&b"b"[..]));
        assert_eq!(below(b"/a", b"/a"), Some(&b""[..]));
        assert_eq!(below(b"/a", b"/ab"), None);
    }

    #[test]
    fn directory_sorts_before_its_content_and_that_before_its_siblings() {
        let mut names: Vec<&[u8]> = vec![b"/a-b", b"/a/c", b"/a", b"/b"];
        names.sort_by(|a, b| compare(a, b));
        assert_eq!(names, [&b"/a"[..], b"/a/c", b"/a-b", b"/b"]);
    }

    #[test]
    fn trailing_slashes_are_removed() {
        assert_eq!(without_slashes(b"a/b//"), b"a/b");
        assert_eq!(without_slashes(b"///"), b"/");
        assert_eq!(without_slashes(b""), b"");
    }

    #[test]
    fn parent_of_a_path() {
        assert_eq!(
            (parent(b"/a/b"), parent(b"/a"), parent(b"/")),
            (&b"/a"[..], &b"/"[..], &b"/"[..])
        );
        let above: Vec<&[u8]> = ancestors(b"/a/b").collect();
        assert_eq!(above, [&b"/a/b"[..], b"/a", b"/"]);
    }
}
