//! Lines of mount tables: escapes are undone, and what a line names is an absolute path.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::mnttab::{escape, mount_point, unescape};

fuzz_target!(|bytes: &[u8]| {
    let escaped = escape(bytes);
    assert!(!escaped.iter().any(|b| b" \t\n\r#".contains(b)));
    assert_eq!(unescape(&escaped), bytes);
    assert!(unescape(bytes).len() <= bytes.len());

    let named = mount_point(bytes);
    assert!(
        named.as_ref().is_none_or(|path| path.starts_with(b"/")),
        "not absolute: {named:?}"
    );
    match bytes.iter().find(|b| !b" \t".contains(b)) {
        None | Some(b'#') => assert_eq!(named, None, "a blank line or a comment"),
        Some(_) => {}
    }

    // Any path comes back from the lines that name it.
    let path = [b"/", bytes].concat();
    let escaped = escape(&path);
    assert_eq!(mount_point(&escaped).as_ref(), Some(&path));
    assert_eq!(
        mount_point(&[b"none ", &escaped[..], b" tmpfs rw 0 0"].concat()).as_ref(),
        Some(&path)
    );
    let mountinfo = [b"36 35 0:40 / ", &escaped[..], b" rw - tmpfs none rw"].concat();
    assert_eq!(mount_point(&mountinfo), Some(path));
});
