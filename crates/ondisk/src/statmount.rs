//! Parses the buffer of statmount(2): `struct statmount` of linux/mount.h, and its strings.
//! [statmount(2)](https://man7.org/linux/man-pages/man2/statmount.2.html)

use std::sync::Arc;

use crate::mount::{is_read_only, merge_options};
use crate::{Content, Dev, Mount, u32_at, u64_at};

const SB_BASIC: u64 = 0x1;
const MNT_BASIC: u64 = 0x2;
const MNT_ROOT: u64 = 0x8;
const MNT_POINT: u64 = 0x10;
const FS_TYPE: u64 = 0x20;
const MNT_OPTS: u64 = 0x80;
const FS_SUBTYPE: u64 = 0x100;
const SB_SOURCE: u64 = 0x200;

/// Offsets of fields in `struct statmount` (linux/mount.h). The field of a string has its offset in
/// the strings, which follow at [`offset::STRINGS`].
mod offset {
    pub(super) const MNT_OPTS: usize = 4;
    pub(super) const MASK: usize = 8;
    pub(super) const SB_DEV_MAJOR: usize = 16;
    pub(super) const SB_DEV_MINOR: usize = 20;
    pub(super) const SB_FLAGS: usize = 32;
    pub(super) const FS_TYPE: usize = 36;
    pub(super) const MNT_ID_OLD: usize = 56;
    pub(super) const MNT_PARENT_ID_OLD: usize = 60;
    pub(super) const MNT_ATTR: usize = 64;
    pub(super) const MNT_MASTER: usize = 88;
    pub(super) const MNT_ROOT: usize = 104;
    pub(super) const MNT_POINT: usize = 108;
    pub(super) const FS_SUBTYPE: usize = 120;
    pub(super) const SB_SOURCE: usize = 124;
    pub(super) const STRINGS: usize = 512;
}

/// Parses a `struct statmount`. `None` without `STATMOUNT_SB_BASIC` and `STATMOUNT_MNT_BASIC`.
pub fn parse(buffer: &[u8]) -> Option<Mount> {
    let mask = u64_at(buffer, offset::MASK)?;
    if mask & (SB_BASIC | MNT_BASIC) != SB_BASIC | MNT_BASIC {
        return None;
    }
    let string = |bit: u64, field: usize| -> Option<Vec<u8>> {
        if mask & bit == 0 {
            return None;
        }
        let from = buffer.get(offset::STRINGS.checked_add(u32_at(buffer, field)? as usize)?..)?;
        Some(from[..from.iter().position(|&b| b == 0)?].to_vec())
    };
    let mount_options = mount_options(u64_at(buffer, offset::MNT_ATTR)?);
    let super_options = super_options(
        u32_at(buffer, offset::SB_FLAGS)?,
        string(MNT_OPTS, offset::MNT_OPTS),
    );
    let mut fstype = string(FS_TYPE, offset::FS_TYPE).unwrap_or_default();
    if let Some(subtype) = string(FS_SUBTYPE, offset::FS_SUBTYPE).filter(|s| !s.is_empty()) {
        fstype.push(b'.');
        fstype.extend(subtype);
    }
    Some(Mount {
        id: u64::from(u32_at(buffer, offset::MNT_ID_OLD)?),
        parent: u64::from(u32_at(buffer, offset::MNT_PARENT_ID_OLD)?),
        dev: Dev::new(
            u32_at(buffer, offset::SB_DEV_MAJOR)?,
            u32_at(buffer, offset::SB_DEV_MINOR)?,
        ),
        target: string(MNT_POINT, offset::MNT_POINT).filter(|target| target.first() == Some(&b'/')),
        content: Arc::new(Content {
            fsroot: string(MNT_ROOT, offset::MNT_ROOT).unwrap_or_default(),
            fstype,
            source: string(SB_SOURCE, offset::SB_SOURCE).filter(|source| !source.is_empty()),
            options: merge_options(&mount_options, &super_options),
            mount_read_only: is_read_only(&mount_options),
            super_read_only: is_read_only(&super_options),
        }),
        slave: u64_at(buffer, offset::MNT_MASTER)? != 0,
    })
}

/// The attributes of a mount (`MOUNT_ATTR_*`) in the words and order of mountinfo.
fn mount_options(attributes: u64) -> Vec<u8> {
    let mut words = vec![if attributes & 0x1 != 0 { "ro" } else { "rw" }];
    let on = |bit: u64| attributes & bit != 0;
    words.extend(on(0x2).then_some("nosuid"));
    words.extend(on(0x4).then_some("nodev"));
    words.extend(on(0x8).then_some("noexec"));
    words.extend((attributes & 0x70 == 0x10).then_some("noatime"));
    words.extend(on(0x80).then_some("nodiratime"));
    words.extend((attributes & 0x70 == 0).then_some("relatime"));
    words.extend(on(0x20_0000).then_some("nosymfollow"));
    words.extend(on(0x10_0000).then_some("idmapped"));
    words.join(",").into_bytes()
}

/// The flags of a superblock (`SB_*`) in the words of mountinfo, and the file system's own options.
fn super_options(flags: u32, own: Option<Vec<u8>>) -> Vec<u8> {
    let mut words = vec![if flags & 0x1 != 0 { "ro" } else { "rw" }];
    let on = |bit: u32| flags & bit != 0;
    words.extend(on(0x10).then_some("sync"));
    words.extend(on(0x80).then_some("dirsync"));
    words.extend(on(0x40).then_some("mand"));
    words.extend(on(1 << 25).then_some("lazytime"));
    let mut all = words.join(",").into_bytes();
    if let Some(own) = own.filter(|own| !own.is_empty()) {
        all.push(b',');
        all.extend(own);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn buffer(strings: &[u8]) -> Vec<u8> {
        let mut b = vec![0u8; offset::STRINGS];
        b[8..16].copy_from_slice(&(SB_BASIC | MNT_BASIC | MNT_POINT | FS_TYPE).to_ne_bytes());
        b[16..20].copy_from_slice(&8u32.to_ne_bytes());
        b[56..60].copy_from_slice(&27u32.to_ne_bytes());
        b[36..40].copy_from_slice(&0u32.to_ne_bytes());
        b[108..112].copy_from_slice(&5u32.to_ne_bytes());
        b.extend(strings);
        b
    }

    #[test]
    fn ids_and_strings_are_parsed() {
        let mount = parse(&buffer(b"ext4\0/mnt\0")).unwrap();
        assert_eq!(
            (mount.id, mount.dev.major, mount.content.fstype.as_slice()),
            (27, 8, &b"ext4"[..])
        );
        assert_eq!(mount.target.as_deref(), Some(&b"/mnt"[..]));
        assert_eq!(mount.content.options, b"rw,relatime");
        assert_eq!(mount.content.source, None);
    }

    #[test]
    fn a_buffer_without_basics_is_refused() {
        assert_eq!(parse(&[0; 600]), None);
        assert_eq!(parse(&[]), None);
    }

    #[test]
    fn an_unterminated_string_is_none() {
        assert_eq!(parse(&buffer(b"ext4\0/mnt")).unwrap().target, None);
    }

    proptest! {
        #[test]
        fn no_buffer_makes_it_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..700)) {
            let _ = parse(&bytes);
            if bytes.len() > 16 {
                bytes[8] = 0xff;
                let _ = parse(&bytes);
            }
        }
    }
}
