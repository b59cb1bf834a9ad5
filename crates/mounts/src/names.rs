//! Names of devices: what the papers' programs took from /dev.

use std::collections::HashMap;

use gate::fs::{At, CWD, FileType, Open, Want, openat, read, readlinkat, statx};
use gate::long::c_string;
use ondisk::Dev;
use ondisk::dirent::entries;

use crate::Point;
use crate::method::read_whole;

/// Where names come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Names {
    /// A scan of /dev for block special files.
    Dev,
    /// /sys/dev/block, one device at a time.
    Sys,
}

/// Gives every mount point on a block device that device's name as its source.
pub fn resolve(points: &mut [Point], names: Names) {
    let mut known = match names {
        Names::Dev => scan_dev(),
        Names::Sys => HashMap::new(),
    };
    for point in points.iter_mut().filter(|point| point.dev.major != 0) {
        let name = match names {
            Names::Dev => known.get(&point.dev).cloned(),
            Names::Sys => known
                .entry(point.dev)
                .or_insert_with(|| from_sys(point.dev).unwrap_or_default())
                .clone()
                .into(),
        };
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            point.named = Some(name);
        }
    }
}

/// Every block device that has a name in /dev, hashed by its number. Of several names for one
/// device the best is kept.
fn scan_dev() -> HashMap<Dev, Vec<u8>> {
    let mut names: HashMap<Dev, Vec<u8>> = HashMap::new();
    let mut directories = vec![b"/dev".to_vec()];
    let mut own = None;
    let mut buffer = vec![0u8; 64 << 10];
    while let Some(path) = directories.pop() {
        let Ok(c_path) = c_string(&path) else {
            continue;
        };
        let Ok(dir) = openat(CWD, &c_path, Open::SCAN) else {
            continue;
        };
        // Not into what is mounted in /dev: shm, pts, mqueue hold no devices of ours.
        let Ok(here) = statx(&dir, c"", At::EMPTY_PATH, Want::TYPE) else {
            continue;
        };
        if *own.get_or_insert(here.dev) != here.dev {
            continue;
        }
        let _ = read_whole(&dir, &mut buffer, |bytes| {
            for entry in entries(bytes) {
                let name = crate::path::join(&path, entry.name.to_bytes());
                // The names in /dev/mapper are symlinks to what has none.
                let follow = if path == b"/dev/mapper" {
                    At::empty()
                } else {
                    At::SYMLINK_NOFOLLOW
                };
                match statx(&dir, entry.name, follow | At::NO_AUTOMOUNT, Want::TYPE) {
                    Ok(seen) if seen.file_type == FileType::Block => {
                        let best = names
                            .entry(seen.rdev.into())
                            .or_insert_with(|| name.clone());
                        if rank(&name) < rank(best) {
                            *best = name;
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

/// Which of several names is the best: not that of the swap, whose number others share; one in
/// /dev/mapper; then the shortest, and the first.
fn rank(name: &[u8]) -> (bool, bool, usize, &[u8]) {
    let is_swap = name.windows(4).any(|part| part == b"swap");
    (
        is_swap,
        !name.starts_with(b"/dev/mapper/"),
        name.len(),
        name,
    )
}

/// The name that sysfs has for a device.
fn from_sys(dev: Dev) -> Option<Vec<u8>> {
    let link = format!("/sys/dev/block/{dev}");
    let mapped = c_string(format!("{link}/dm/name").as_bytes()).ok()?;
    let mut buffer = [0u8; 256];
    if let Ok(file) = openat(CWD, &mapped, Open::NONBLOCK)
        && let Ok(n) = read(&file, &mut buffer)
        && n > 1
    {
        return Some([b"/dev/mapper/", buffer[..n].trim_ascii_end()].concat());
    }
    let target = readlinkat(CWD, &c_string(link.as_bytes()).ok()?).ok()?;
    let name = target.rsplit(|&b| b == b'/').next()?;
    // sysfs writes `!` for the slash in a device's name, as in `cciss!c0d0`.
    let name: Vec<u8> = name
        .iter()
        .map(|&b| if b == b'!' { b'/' } else { b })
        .collect();
    Some([b"/dev/", name.as_slice()].concat())
}

#[cfg(test)]
mod tests {
    use super::rank;

    #[test]
    fn the_swap_loses_and_the_mapper_wins() {
        let mut names: Vec<&[u8]> = vec![
            b"/dev/swap",
            b"/dev/dm-0",
            b"/dev/sda1",
            b"/dev/mapper/vg-root",
        ];
        names.sort_by(|a, b| rank(a).cmp(&rank(b)));
        assert_eq!(
            names,
            [
                &b"/dev/mapper/vg-root"[..],
                b"/dev/dm-0",
                b"/dev/sda1",
                b"/dev/swap"
            ]
        );
    }
}
