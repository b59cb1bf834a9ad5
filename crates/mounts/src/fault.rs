//! Faults that a file system itself reports: in its options, in its superblock, and in /sys.
//!
//! A single sign does not suffice. A mount may be read-only by intention. A superblock becomes
//! read-only after an error, but also by `mount -o remount,ro`, which makes both the mount and the
//! superblock read-only. ext4 has a counter of its errors, which is decisive.
//! [ext4(5)](https://man7.org/linux/man-pages/man5/ext4.5.html)

use std::collections::{HashMap, HashSet};

use base::path::below;
use gate::Errno;
use gate::file::read_kernel_in;
use gate::fs::{AtFlags, StatxMask};
use gate::long::statx_long;
use ondisk::{Content, Dev, Mount, option_value, split_options};

use crate::kind::is_one_of;
use crate::names::kernel_name;
pub use crate::point::Fault;
use crate::point::{MountClass, Point};
use crate::table::read_mounts;

/// Sets [`Point::fault`] of each mount point. Reads /sys for each ext4 file system, and touches no
/// file system except a faulty one below an overlay.
pub fn examine(points: &mut [Point]) {
    set_own_faults(points);
    // The file system of an upper layer can be outside of the listed directory, so the whole table is read.
    let mut table = None;
    for point in points.iter_mut().filter(|point| point.fault.is_none()) {
        let Some(upper) = point.content.as_deref().and_then(upper_layer) else {
            continue;
        };
        let table = table.get_or_insert_with(|| {
            let mut rows: Vec<Point> = read_mounts().into_iter().filter_map(listed).collect();
            set_own_faults(&mut rows);
            rows
        });
        // A path of a different mount namespace, such as that of the host, does not exist here.
        let exists = || {
            let seen = statx_long(&upper, AtFlags::NO_AUTOMOUNT, StatxMask::TYPE);
            !matches!(seen, Err(Errno::ENOENT | Errno::ENOTDIR))
        };
        point.fault = fault_at(&upper, table).filter(|_| exists());
    }
}

fn listed(row: Mount) -> Option<Point> {
    let target = row.target.clone()?;
    Some(Point::from_row(row, target, None, MountClass::Leaf, false))
}

/// The upper layer of an overlay, if its path is absolute.
fn upper_layer(content: &Content) -> Option<Vec<u8>> {
    if content.fstype != b"overlay" {
        return None;
    }
    option_value(&content.options, b"upperdir=").filter(|upper| upper.starts_with(b"/"))
}

/// The fault of the file system that contains a path: of the mount with the longest path above it, the newest one.
fn fault_at(path: &[u8], table: &[Point]) -> Option<Fault> {
    let above = table
        .iter()
        .filter(|point| below(&point.target, path).is_some());
    above.max_by_key(|point| point.target.len())?.fault
}

fn set_own_faults(points: &mut [Point]) {
    let mut errors: HashMap<Dev, Option<u64>> = HashMap::new();
    let mut meant_writable = None;
    for point in points {
        let dev = point.dev;
        let Some(content) = &point.content else {
            continue;
        };
        let counted = is_one_of(&content.fstype, "ext2 ext3 ext4")
            .then(|| *errors.entry(dev).or_insert_with(|| ext4_errors(dev)))
            .flatten();
        let was_made_read_only = content.super_read_only
            && gives_up(content)
            && meant_writable
                .get_or_insert_with(find_meant_writable)
                .contains(&dev);
        point.fault = fault(content, counted, was_made_read_only);
    }
}

/// The devices of the file systems that were mounted writable: those of which the oldest mount is writable. Later ones may be bind mounts,
/// each with a `ro` of its own.
fn find_meant_writable() -> HashSet<Dev> {
    let mut seen = HashSet::new();
    let oldest = read_mounts()
        .into_iter()
        .filter(|mount| seen.insert(mount.dev));
    let writable = oldest.filter(|mount| !mount.content.mount_read_only);
    writable.map(|mount| mount.dev).collect()
}

/// Whether the driver of a file system makes the superblock read-only after an error.
fn gives_up(content: &Content) -> bool {
    const GIVE_UP: &str =
        "bcachefs btrfs exfat ext2 ext3 ext4 f2fs jfs msdos nilfs2 ntfs3 reiserfs ubifs vfat";
    is_one_of(&content.fstype, GIVE_UP)
}

/// The fault of a file system, given the number of errors that ext4 has counted, and whether the
/// file system was mounted writable and is read-only now.
fn fault(content: &Content, errors: Option<u64>, was_made_read_only: bool) -> Option<Fault> {
    let has =
        |wanted: &[u8]| split_options(&content.options).any(|option| option.as_slice() == wanted);
    if is_one_of(&content.fstype, "ext2 ext3 ext4 f2fs btrfs xfs") && has(b"shutdown") {
        return Some(Fault::ShutDown);
    }
    if has(b"emergency_ro") {
        return Some(Fault::ReadOnly);
    }
    match errors {
        Some(0) => None,
        Some(_) if was_made_read_only => Some(Fault::ReadOnly),
        None if was_made_read_only => Some(Fault::Unwritable),
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
    use super::{Content, Dev, Fault, Point, fault, fault_at, gives_up, upper_layer};

    #[test]
    fn an_overlay_has_the_fault_of_its_upper_layer() {
        let content = |fstype: &str| Content {
            fstype: fstype.into(),
            options: r"rw,lowerdir=/a,upperdir=/mnt/a\040b/upper,workdir=/mnt/w".into(),
            ..Content::default()
        };
        let upper = upper_layer(&content("overlay")).unwrap();
        assert_eq!(upper, b"/mnt/a b/upper");
        assert_eq!(upper_layer(&content("ext4")), None);
        let point = |target: &str, fault| Point {
            fault,
            ..Point::bare(target.into(), Dev::default(), None)
        };
        let failing = Some(Fault::ReadOnly);
        let mut table = vec![point("/", failing), point("/mnt/a b", None)];
        assert_eq!(fault_at(&upper, &table), None);
        table.push(point("/mnt/a b", failing));
        assert_eq!(fault_at(&upper, &table), failing);
        table.push(point("/mnt/a", Some(Fault::ShutDown)));
        assert_eq!(fault_at(&upper, &table), failing);
    }

    #[test]
    fn read_only_on_purpose_is_no_fault() {
        let content = |fstype: &str, options: &str, super_read_only| Content {
            fstype: fstype.into(),
            options: options.into(),
            super_read_only,
            ..Content::default()
        };
        let remount = "ro,errors=remount-ro";
        for (content, errors, was_made_read_only, expected) in [
            (content("ext4", remount, true), Some(0), false, None),
            (content("ext4", remount, true), Some(0), true, None),
            (content("ext4", remount, false), None, false, None),
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
                false,
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
                Some(Fault::Unwritable),
            ),
            (content("vfat", remount, true), None, false, None),
            (content("nfs4", "rw,shutdown", true), None, false, None),
        ] {
            let found = fault(&content, errors, was_made_read_only);
            assert_eq!(found, expected, "{content:?} {errors:?}");
        }
        assert!(gives_up(&content("btrfs", "ro", true)));
        assert!(!gives_up(&content("squashfs", "ro", true)));
    }
}
