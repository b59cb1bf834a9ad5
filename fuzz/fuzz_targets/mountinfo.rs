//! Lines of mountinfo: what is parsed is sound, and is parsed again when it is written anew.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::mnttab::{escape, mount_point};
use ondisk::mountinfo::parse;
use ondisk::{Mount, split_options};

fuzz_target!(|line: &[u8]| {
    let Some(mount) = parse(line) else { return };
    assert!(
        mount
            .target
            .as_ref()
            .is_some_and(|target| target.starts_with(b"/"))
    );
    assert!(
        mount
            .content
            .source
            .as_ref()
            .is_none_or(|source| !source.is_empty())
    );
    assert_eq!(mount_point(line), mount.target);

    // Read-only when the mount or its super block is.
    let fields: Vec<_> = line.split(|&b| b == b' ').collect();
    let dash = 6 + fields[6..]
        .iter()
        .position(|field| *field == b"-")
        .expect("a line has a separator");
    let read_only = [fields[5], fields[dash + 3]]
        .iter()
        .any(|options| has_ro(options));
    assert_eq!(
        has_ro(&mount.content.options),
        read_only,
        "{:?}",
        mount.content.options
    );
    assert!(split_options(&mount.content.options).all(|option| !option.is_empty()));

    assert_eq!(parse(&write(&mount)), Some(mount));
});

fn has_ro(options: &[u8]) -> bool {
    options.split(|&b| b == b',').any(|word| word == b"ro")
}

fn write(mount: &Mount) -> Vec<u8> {
    let field = |bytes: &Option<Vec<u8>>| escape(bytes.as_deref().unwrap_or_default());
    let ids = format!("{} {} {}", mount.id, mount.parent, mount.dev).into_bytes();
    let tag: &[u8] = if mount.slave {
        b"master:1"
    } else {
        b"shared:1"
    };
    let (target, source) = (field(&mount.target), field(&mount.content.source));
    let (fsroot, fstype) = (escape(&mount.content.fsroot), escape(&mount.content.fstype));
    [
        &ids[..],
        &fsroot,
        &target,
        &mount.content.options,
        tag,
        b"-",
        &fstype,
        &source,
        b"",
    ]
    .join(&b' ')
}
