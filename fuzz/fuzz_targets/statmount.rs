//! The buffer of statmount: there is a mount when the kernel says so, and it is the one that
//! mountinfo would show.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::split_options;
use ondisk::statmount::parse;

/// STATMOUNT_SB_BASIC and STATMOUNT_MNT_BASIC.
const BASICS: u64 = 0x3;
/// The length of struct statmount, without the strings.
const STRUCT: usize = 512;

fuzz_target!(|buffer: &[u8]| {
    let mount = parse(buffer);
    let mask = integer(buffer, 8);
    if mask.is_none_or(|mask| mask & BASICS != BASICS) {
        assert_eq!(mount, None);
    } else if buffer.len() >= STRUCT {
        assert!(mount.is_some());
    }
    let Some(mount) = mount else { return };

    assert!(
        mount
            .target
            .as_ref()
            .is_none_or(|target| target.starts_with(b"/"))
    );
    assert!(
        mount
            .content
            .source
            .as_ref()
            .is_none_or(|source| !source.is_empty())
    );
    let strings = [
        Some(&mount.content.fsroot),
        mount.target.as_ref(),
        Some(&mount.content.fstype),
        mount.content.source.as_ref(),
    ];
    assert!(
        strings
            .into_iter()
            .flatten()
            .chain([&mount.content.options])
            .all(|string| !string.contains(&0))
    );

    // Exactly one of `ro` and `rw`, first, as in mountinfo; `ro` when the mount or its super block
    // says so.
    let flag = |at: usize| integer(buffer, at).is_some_and(|flags| flags & 1 != 0);
    let options: Vec<_> = split_options(&mount.content.options).collect();
    assert!(
        options[0] == b"ro" || options[0] == b"rw" && !flag(32) && !flag(64),
        "{options:?}"
    );
    assert!(
        mount
            .content
            .options
            .split(|&b| b == b',')
            .skip(1)
            .all(|word| word != b"ro" && word != b"rw"),
        "{options:?}"
    );
});

fn integer(buffer: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(buffer.get(at..at + 8)?.try_into().ok()?))
}
