//! Mounts, from mountinfo and statmount.

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
    /// A device with these numbers.
    pub const fn new(major: u32, minor: u32) -> Dev {
        Dev { major, minor }
    }

    /// From the kernel's number of 32 bits, as `new_decode_dev()` does.
    #[inline]
    pub fn decode(number: u32) -> Dev {
        Dev {
            major: number >> 8 & 0xfff,
            minor: number & 0xff | number >> 12 & 0xf_ff00,
        }
    }

    /// The kernel's number of 32 bits, as `new_encode_dev()` does.
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
    /// The id in /proc/self/mountinfo, which is reused after an unmount.
    pub id: u64,
    /// The id of the mount that it is mounted on.
    pub parent: u64,
    /// Device of the super block. On btrfs, files have another `st_dev`.
    pub dev: Dev,
    /// The absolute path of the mount point from this process's root; `None` if it is not reachable
    /// from there.
    pub target: Option<Vec<u8>>,
    /// What is mounted. Mounts with the same content share it, since there may be thousands.
    pub content: Arc<Content>,
    /// Whether it receives propagation from a master (`master:N` in mountinfo).
    pub slave: bool,
}

/// What is mounted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Content {
    /// The mounted path within the file system: `/`, or that of a bind mount or subvolume.
    pub fsroot: Vec<u8>,
    /// Type of the file system, with its subtype: `ext4`, `fuse.sshfs`.
    pub fstype: Vec<u8>,
    /// The device or other source; `None` if the kernel does not say.
    pub source: Option<Vec<u8>>,
    /// The mount's options, then the superblock's others, separated by commas and escaped (see
    /// [`split_options`](crate::split_options)); `ro` if either is.
    pub options: Vec<u8>,
    /// This mount is read-only, whatever the super block is.
    pub mount_read_only: bool,
    /// The super block is read-only, and with it all its mounts.
    pub super_read_only: bool,
}

/// Whether options of a mount or of a super block have `ro`.
pub(crate) fn is_read_only(options: &[u8]) -> bool {
    words(options).any(|word| word == b"ro")
}

/// The [`Content::options`] of a mount and its super block.
pub(crate) fn merge_options(mount: &[u8], super_block: &[u8]) -> Vec<u8> {
    /// The kernel has a dozen options for a mount. The limit bounds the time for malformed lists.
    const MOST: usize = 32;
    let is_mode = |word: &&[u8]| matches!(*word, b"rw" | b"ro");
    let modes = words(mount).chain(words(super_block)).filter(is_mode);
    let mut all = Vec::with_capacity(mount.len() + 1 + super_block.len());
    if let Some(mode) = modes.min() {
        push(&mut all, mode); // "ro" is less than "rw"
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

/// The single options, unescaped.
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
