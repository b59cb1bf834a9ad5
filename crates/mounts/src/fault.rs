//! Faults that a file system itself reports: in its options, in its superblock, and in /sys.
//!
//! A single sign does not suffice. A mount may be read-only by intention. A superblock becomes
//! read-only after an error, but also by `mount -o remount,ro`, which makes both the mount and the
//! superblock read-only. ext4 has a counter of its errors, which is decisive.
//! [ext4(5)](https://man7.org/linux/man-pages/man5/ext4.5.html)

use std::collections::{HashMap, HashSet};

use gate::file::read_kernel_in;
use ondisk::{Content, Dev, split_options};

use crate::kind::is_one_of;
use crate::names::kernel_name;
pub use crate::point::Fault;
use crate::point::Point;

/// Sets [`Point::fault`] of each mount point. Reads /sys for each ext4 file system, and touches no
/// file system.
pub fn examine(points: &mut [Point]) {
    let mut errors: HashMap<Dev, Option<u64>> = HashMap::new();
    let (mut writable, mut restricted) = (HashSet::new(), HashSet::new());
    for point in &*points {
        if let Some(content) = &point.content {
            let set = match content.mount_read_only {
                true => &mut restricted,
                false => &mut writable,
            };
            set.insert(point.dev);
        }
    }
    for point in points {
        let dev = point.dev;
        let Some(content) = &point.content else {
            continue;
        };
        let counted = is_one_of(&content.fstype, "ext2 ext3 ext4")
            .then(|| *errors.entry(dev).or_insert_with(|| ext4_errors(dev)))
            .flatten();
        let is_meant_writable = match counted {
            Some(_) => writable.contains(&dev),
            None => !restricted.contains(&dev),
        };
        point.fault = fault(content, counted, is_meant_writable);
    }
}

/// The fault of a file system, given the number of errors that ext4 has counted, and whether the
/// file system was mounted writable.
fn fault(content: &Content, errors: Option<u64>, is_meant_writable: bool) -> Option<Fault> {
    /// Types of file systems whose drivers make the superblock read-only after an error.
    const GIVE_UP: &str =
        "bcachefs btrfs exfat ext2 ext3 ext4 f2fs jfs msdos nilfs2 ntfs3 reiserfs ubifs vfat";
    let has =
        |wanted: &[u8]| split_options(&content.options).any(|option| option.as_slice() == wanted);
    let is_meant_writable = is_meant_writable && is_one_of(&content.fstype, GIVE_UP);
    if is_one_of(&content.fstype, "ext2 ext3 ext4 f2fs btrfs xfs") && has(b"shutdown") {
        return Some(Fault::ShutDown);
    }
    if has(b"emergency_ro") {
        return Some(Fault::ReadOnly);
    }
    match errors {
        Some(0) => None,
        _ if content.super_read_only && is_meant_writable => Some(Fault::ReadOnly),
        errors => errors.map(Fault::Errors),
    }
}

/// Number of errors that ext4 has recorded on a device, from
/// [/sys/fs/ext4/DEVICE/errors_count](https://docs.kernel.org/admin-guide/ext4.html).
fn ext4_errors(dev: Dev) -> Option<u64> {
    let dir = [&b"/sys/fs/ext4/"[..], &kernel_name(dev)?].concat();
    let text = read_kernel_in(&dir, b"errors_count").ok()?;
    str::from_utf8(&text).ok()?.trim_ascii().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Content, Fault, fault};

    #[test]
    fn read_only_on_purpose_is_no_fault() {
        let content = |fstype: &str, options: &str, super_read_only| Content {
            fstype: fstype.into(),
            options: options.into(),
            super_read_only,
            ..Content::default()
        };
        let remount = "ro,errors=remount-ro";
        for (content, errors, is_meant_writable, expected) in [
            (content("ext4", remount, true), Some(0), false, None),
            (content("ext4", remount, true), Some(0), true, None),
            (content("ext4", remount, false), None, true, None),
            (
                content("ext4", remount, true),
                Some(2),
                true,
                Some(Fault::ReadOnly),
            ),
            (
                content("ext4", remount, true),
                Some(2),
                false,
                Some(Fault::Errors(2)),
            ),
            (
                content("ext4", "rw", false),
                Some(1),
                true,
                Some(Fault::Errors(1)),
            ),
            (
                content("ext4", "rw,emergency_ro", false),
                None,
                true,
                Some(Fault::ReadOnly),
            ),
            (
                content("ext4", "rw,shutdown", false),
                Some(0),
                true,
                Some(Fault::ShutDown),
            ),
            (
                content("vfat", remount, true),
                None,
                true,
                Some(Fault::ReadOnly),
            ),
            (content("vfat", remount, true), None, false, None),
            (content("squashfs", "ro", true), None, true, None),
            (content("nfs4", "rw,shutdown", true), None, true, None),
        ] {
            let found = fault(&content, errors, is_meant_writable);
            assert_eq!(found, expected, "{content:?} {errors:?}");
        }
    }
}
