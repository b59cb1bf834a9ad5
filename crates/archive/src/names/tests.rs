//! Tests of reading names from files.

#![allow(
    clippy::disallowed_methods,
    reason = "the test writes the files past the gate"
)]

use std::os::unix::ffi::OsStrExt;

use crate::names::{read_names, read_patterns};

#[test]
fn names_end_with_newlines_or_nuls() {
    let place = tempfile::NamedTempFile::new().unwrap();
    let path = place.path().as_os_str().as_bytes();
    let names = |text: &[u8], is_null| {
        std::fs::write(place.path(), text).unwrap();
        read_names(path, is_null).map_err(|e| e.to_string())
    };
    let two = Ok(vec![b"-a\\n".to_vec(), b" b\xff".to_vec()]);
    assert_eq!(names(b"-a\\n\n\n b\xff", false), two);
    assert_eq!(names(b"-a\\n\0 b\xff\0", true), two);
    assert_eq!(names(b"a\nb\0", true), Ok(vec![b"a\nb".to_vec()]));
    assert!(names(b"a\n\0b\n", false).unwrap_err().contains("line 2"));
    assert_eq!(names(b"", false), Ok(vec![]));
    assert!(read_names(b"/nowhere", false).is_err());
}

#[test]
fn patterns_are_lines_without_carriage_returns() {
    let place = tempfile::NamedTempFile::new().unwrap();
    let path = place.path().as_os_str().as_bytes();
    std::fs::write(place.path(), b"*.o\n\n# a\n\xff\n").unwrap();
    let expected = [&b"*.o"[..], b"# a", b"\xff"];
    assert_eq!(read_patterns(path).unwrap(), expected);
    std::fs::write(place.path(), "a\rb\nc\r\n").unwrap();
    let error = read_patterns(path).unwrap_err().to_string();
    assert!(
        error.contains("line 2 ends with a carriage return"),
        "{error}"
    );
}
