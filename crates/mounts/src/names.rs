//! Names of block devices, which the papers' programs took from /dev.

use std::collections::HashMap;

use gate::fs::{
    AtFlags, CWD, FileType, Open, Statx, StatxMask, fstat, openat, read, readlinkat, statx,
};
use gate::long::c_string;
use gate::{Errno, Fd};
use ondisk::Dev;
use ondisk::dirent::entries;

use crate::method::breadth::read_whole;
use crate::point::Point;

/// The source of device names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameSource {
    /// The block special files in /dev.
    Dev,
    /// The symlinks in /sys/dev/block.
    Sys,
}

/// Sets the source of every mount point on a block device to that device's name.
pub fn resolve(points: &mut [Point], names: NameSource) {
    let mut known = match names {
        NameSource::Dev => scan_dev(),
        NameSource::Sys => HashMap::new(),
    };
    for point in points.iter_mut().filter(|point| point.dev.major != 0) {
        let name = known.entry(point.dev).or_insert_with(|| match names {
            NameSource::Dev => None,
            NameSource::Sys => from_sys(point.dev),
        });
        if name.is_some() {
            point.named.clone_from(name);
        }
    }
}

/// Finds the best name in /dev for every block device.
fn scan_dev() -> HashMap<Dev, Option<Vec<u8>>> {
    let mut names: HashMap<Dev, Option<Vec<u8>>> = HashMap::new();
    let mut directories = vec![b"/dev".to_vec()];
    let mut own = None;
    let mut buffer = vec![0u8; 64 << 10];
    while let Some(path) = directories.pop() {
        let opened = c_string(&path).and_then(|path| openat(CWD, &path, Open::SCAN));
        let Ok(dir) = opened else { continue };
        // Skip mounts below /dev: shm, pts and mqueue have no block devices.
        let Ok(here) = fstat(&dir, StatxMask::TYPE) else {
            continue;
        };
        if *own.get_or_insert(here.dev) != here.dev {
            continue;
        }
        let _ = read_whole(&dir, &mut buffer, |bytes| {
            for entry in entries(bytes) {
                let name = base::path::join(&path, entry.name.to_bytes());
                // Follow the symlinks in /dev/mapper: their names are better than those of their
                // targets.
                let follow = if path == b"/dev/mapper" {
                    AtFlags::empty()
                } else {
                    AtFlags::SYMLINK_NOFOLLOW
                };
                let at = follow | AtFlags::NO_AUTOMOUNT;
                match statx(&dir, entry.name, at, StatxMask::TYPE) {
                    Ok(seen) if seen.file_type == FileType::Block => {
                        let best = names.entry(seen.rdev).or_default();
                        if best.as_ref().is_none_or(|best| rank(&name) < rank(best)) {
                            *best = Some(name);
                        }
                    }
                    Ok(seen) if seen.file_type == FileType::Directory => directories.push(name),
                    _ => {}
                }
            }
        });
    }
    names
}

/// Sort key for the names of a device, the best name first. Names with `swap` come last, since
/// other devices have the same number as a swap device; then, names in /dev/mapper come first,
/// shorter names before longer ones, and equally long names in byte order.
fn rank(name: &[u8]) -> (bool, bool, usize, &[u8]) {
    let is_swap = name.windows(4).any(|part| part == b"swap");
    let is_mapped = name.starts_with(b"/dev/mapper/");
    (is_swap, !is_mapped, name.len(), name)
}

/// The path of a device by its name in sysfs.
fn from_sys(dev: Dev) -> Option<Vec<u8>> {
    let mapped = c_string(format!("/sys/dev/block/{dev}/dm/name").as_bytes()).ok()?;
    let mut buffer = [0u8; 256];
    if let Ok(file) = openat(CWD, &mapped, Open::NONBLOCK)
        && let Ok(n) = read(&file, &mut buffer)
        && n > 1
    {
        return Some([b"/dev/mapper/", buffer[..n].trim_ascii_end()].concat());
    }
    kernel_name(dev).map(|name| device_path(&name))
}

/// The kernel's name of a block device: `sda1`, `dm-0`, `cciss!c0d0`.
pub fn kernel_name(dev: Dev) -> Option<Vec<u8>> {
    let link = c_string(format!("/sys/dev/block/{dev}").as_bytes()).ok()?;
    let target = readlinkat(CWD, &link).ok()?;
    target.rsplit(|&b| b == b'/').next().map(<[u8]>::to_vec)
}

/// A block device that could not be opened, and the error.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct UnopenedDevice {
    pub path: Vec<u8>,
    pub errno: Errno,
}

/// Opens a block device by any of its names; `source` of the mount table may be one. Returns the
/// descriptor and the path.
///
/// # Errors
/// Why the device cannot be opened; `None` if no name leads to it.
pub fn open_device(
    dev: Dev,
    source: Option<&[u8]>,
) -> Result<(Fd, Vec<u8>), Option<UnopenedDevice>> {
    let names = [
        source
            .filter(|source| source.starts_with(b"/"))
            .map(<[u8]>::to_vec),
        kernel_name(dev).map(|name| device_path(&name)),
        Some(format!("/dev/block/{dev}").into_bytes()),
    ];
    let mut failed = None;
    for name in names.into_iter().flatten() {
        let Ok(path) = c_string(&name) else { continue };
        let is_it = |s: Statx| s.file_type == FileType::Block && s.rdev == dev;
        if !statx(CWD, &path, AtFlags::NO_AUTOMOUNT, StatxMask::TYPE).is_ok_and(is_it) {
            continue;
        }
        match openat(CWD, &path, Open::NONBLOCK) {
            // Check the opened file: its name may have been given to a different device meanwhile.
            Ok(fd) if fstat(&fd, StatxMask::TYPE).is_ok_and(is_it) => {
                return Ok((fd, name));
            }
            Ok(_) => {}
            Err(errno) => failed = Some(UnopenedDevice { path: name, errno }),
        }
    }
    Err(failed)
}

/// The path of a device by its kernel name, in which `!` stands for a slash.
pub fn device_path(kernel_name: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> = kernel_name.split(|&b| b == b'!').collect();
    [b"/dev/", &parts.join(&b'/')[..]].concat()
}

#[cfg(test)]
mod tests {
    use super::rank;

    #[test]
    fn mapper_name_is_best_and_swap_name_worst() {
        let sorted = ["/dev/mapper/vg-root", "/dev/dm-0", "/dev/sda1", "/dev/swap"];
        assert!(sorted.is_sorted_by_key(|name| rank(name.as_bytes())));
    }
}
