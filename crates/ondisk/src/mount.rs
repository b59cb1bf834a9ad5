//! Mounts, as in mountinfo and statmount.

use std::fmt;
use std::sync::Arc;

/// A device number, printed as `8:1`. The major number is 0 for file systems without a block device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Dev {
    pub major: u32,
    pub minor: u32,
}

impl Dev {
    /// Builds a device number.
    pub const fn new(major: u32, minor: u32) -> Dev {
        Dev { major, minor }
    }

    /// Decodes the kernel's 32-bit device number, like `new_decode_dev()`.
    #[inline]
    pub fn decode(number: u32) -> Dev {
        Dev::new(number >> 8 & 0xfff, number & 0xff | number >> 12 & 0xf_ff00)
    }

    /// Encodes the kernel's 32-bit device number, like `new_encode_dev()`.
    pub fn encode(self) -> u32 {
        self.minor & 0xff | self.major << 8 | (self.minor & !0xff) << 12
    }
}

impl fmt::Display for Dev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// An entry of the kernel's mount table: the fields that mountinfo and statmount have in common.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mount {
    /// Mount id, as in /proc/self/mountinfo; reused after an unmount.
    pub id: u64,
    /// Id of the parent mount, on which this one is mounted.
    pub parent: u64,
    /// Device number of the superblock. On btrfs, files have a different `st_dev`.
    pub dev: Dev,
    /// Absolute path of the mount point from this process's root; `None` if unreachable.
    pub target: Option<Vec<u8>>,
    /// The mounted file system. Mounts with the same content share one [`Content`], since a table
    /// may have thousands of mounts.
    pub content: Arc<Content>,
    /// Whether the mount receives propagation from a master (`master:N` in mountinfo).
    pub slave: bool,
}

/// The mounted part of a file system, and its options.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Content {
    /// The mounted path within the file system: `/`, or that of a bind mount or subvolume.
    pub fsroot: Vec<u8>,
    /// Type of the file system, with its subtype: `ext4`, `fuse.sshfs`.
    pub fstype: Vec<u8>,
    /// The device or other source; `None` if the kernel does not report it.
    pub source: Option<Vec<u8>>,
    /// Options of the mount, then those of the superblock that differ, separated by commas and
    /// escaped (see [`split_options`](crate::split_options)); `ro` if either is read-only.
    pub options: Vec<u8>,
    /// Whether this mount is read-only, regardless of the superblock.
    pub mount_read_only: bool,
    /// Whether the superblock is read-only, and with it all its mounts.
    pub super_read_only: bool,
}

/// Whether the options of a mount or superblock include `ro`.
pub(crate) fn is_read_only(options: &[u8]) -> bool {
    words(options).any(|word| word == b"ro")
}

/// Merges the options of a mount and its superblock into [`Content::options`].
pub(crate) fn merge_options(mount: &[u8], super_block: &[u8]) -> Vec<u8> {
    /// Maximum number of the mount's options that an option of the superblock is compared with,
    /// which bounds the time for malformed lists. The kernel has a dozen options for a mount.
    const MOST: usize = 32;
    let is_mode = |word: &&[u8]| matches!(*word, b"rw" | b"ro");
    let modes = words(mount).chain(words(super_block)).filter(is_mode);
    let mut all = Vec::with_capacity(mount.len() + 1 + super_block.len());
    if let Some(mode) = modes.min() {
        push(&mut all, mode); // "ro" sorts before "rw", so one "ro" makes the result read-only
    }
    words(mount)
        .filter(|word| !is_mode(word))
        .for_each(|word| push(&mut all, word));
    for word in words(super_block).filter(|word| !is_mode(word)) {
        if !words(mount).take(MOST).any(|other| other == word) {
            push(&mut all, word);
        }
    }
    all
}

fn words(options: &[u8]) -> impl Iterator<Item = &[u8]> {
    options
        .split(|&b| b == b',')
        .filter(|word| !word.is_empty())
}

fn push(all: &mut Vec<u8>, word: &[u8]) {
    if !all.is_empty() {
        all.push(b',');
    }
    all.extend_from_slice(word);
}

/// The value of the option that begins with `prefix`, such as `upperdir=`.
pub fn option_value(options: &[u8], prefix: &[u8]) -> Option<Vec<u8>> {
    split_options(options).find_map(|option| Some(option.strip_prefix(prefix)?.to_vec()))
}

/// Splits options, and decodes the escapes.
pub fn split_options(options: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    words(options).map(crate::escape::unescape)
}

#[cfg(test)]
mod tests {
    use super::merge_options;

    #[test]
    fn options_are_merged_and_read_only_wins() {
        let merged = |mount: &str, sup: &str| {
            String::from_utf8(merge_options(mount.as_bytes(), sup.as_bytes()))
        };
        assert_eq!(
            merged("rw,relatime", "rw,discard").unwrap(),
            "rw,relatime,discard"
        );
        assert_eq!(
            merged("rw,nosuid", "ro,size=4k").unwrap(),
            "ro,nosuid,size=4k"
        );
        assert_eq!(merged("ro,nosuid", "rw").unwrap(), "ro,nosuid");
        assert_eq!(merged("nosuid", "ro").unwrap(), "ro,nosuid");
    }
}
