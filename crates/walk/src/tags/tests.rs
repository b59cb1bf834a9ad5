//! Tests of tags: files that mark their directory.

#![allow(
    clippy::disallowed_methods,
    reason = "the test writes the files past the gate"
)]

use std::fs;
use std::os::unix::ffi::OsStrExt;

use super::Tags;
use gate::fs::Open;
use gate::long::open_long;

const SIGNATURE: &str = "Signature: 8a477f597d28d172789f06886806bc55";

#[test]
fn tags_are_found_by_name_and_signature() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path();
    let keeps = |tags: &Tags, name: &[u8]| {
        let dir = open_long(at.as_os_str().as_bytes(), Open::SCAN).unwrap();
        tags.find(&dir).keep(name)
    };
    let caches = Tags::new(true, &[b""; 0]);
    let named = Tags::new(false, &["skip", "other"]);
    for text in [
        "",
        "Signature: 8a477f597d28d172789f06886806bc5",
        "Signature: X",
    ] {
        fs::write(at.join("CACHEDIR.TAG"), text).unwrap();
        assert!(keeps(&caches, b"a"), "{text}");
    }
    fs::write(at.join("CACHEDIR.TAG"), format!("{SIGNATURE}\n")).unwrap();
    assert!(!keeps(&caches, b"a") && keeps(&caches, b"CACHEDIR.TAG"));
    assert!(keeps(&named, b"a"));
    fs::create_dir(at.join("skip")).unwrap();
    assert!(!keeps(&named, b"a") && keeps(&named, b"skip") && !keeps(&named, b"other"));
    fs::remove_file(at.join("CACHEDIR.TAG")).unwrap();
    std::os::unix::fs::symlink("skip", at.join("CACHEDIR.TAG")).unwrap();
    assert!(keeps(&caches, b"a"));
}
