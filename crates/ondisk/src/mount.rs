use std::fmt;

/// A device number, as `8:1`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Dev {
    /// Major number; 0 for file systems that are on no device.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

impl From<(u32, u32)> for Dev {
    fn from((major, minor): (u32, u32)) -> Dev {
        Dev { major, minor }
    }
}

impl fmt::Display for Dev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// A row of the kernel's mount table: what a line of mountinfo and a struct statmount have in common.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mount {
    /// The mount's id, as in /proc/self/mountinfo: small, and used again after the mount is gone.
    pub id: u64,
    /// The id of the mount that it is mounted on.
    pub parent: u64,
    /// Device of the super block. On btrfs, `st_dev` of the files is another one.
    pub dev: Dev,
    /// The part of the file system that is mounted: `/`, or what a bind mount or subvolume shows.
    pub fsroot: Vec<u8>,
    /// Where it is mounted, absolute, as seen from this process's root; `None` when that root does not reach it.
    pub target: Option<Vec<u8>>,
    /// Type of the file system, with its subtype: `ext4`, `fuse.sshfs`.
    pub fstype: Vec<u8>,
    /// The device or other source; `None` when the kernel does not say.
    pub source: Option<Vec<u8>>,
    /// Options of the mount, comma-separated, as the kernel writes them (escapes included).
    pub mount_options: Vec<u8>,
    /// Options of the super block, likewise.
    pub super_options: Vec<u8>,
    /// Whether it receives mounts from a master (`master:N` in mountinfo).
    pub slave: bool,
}

impl Mount {
    /// The options of the mount, then those of the super block that it has not; `ro` when either is.
    pub fn options(&self) -> Vec<Vec<u8>> {
        let words =
            |options: &[u8]| -> Vec<Vec<u8>> { options.split(|&b| b == b',').map(crate::mnttab::unescape).collect() };
        let mut all = words(&self.mount_options);
        for option in words(&self.super_options) {
            if option == b"ro" {
                all.retain(|o| o != b"rw" && o != b"ro");
                all.insert(0, option);
            } else if !all.contains(&option) && (option != b"rw" || !all.contains(&b"ro".to_vec())) {
                all.push(option);
            }
        }
        all.retain(|option| !option.is_empty());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::Mount;

    #[test]
    fn options_are_merged_and_read_only_wins() {
        let merged = |mount: &str, sup: &str| {
            let mount = Mount { mount_options: mount.into(), super_options: sup.into(), ..Mount::default() };
            String::from_utf8(mount.options().join(&b','))
        };
        assert_eq!(merged("rw,relatime", "rw,discard").unwrap(), "rw,relatime,discard");
        assert_eq!(merged("rw,nosuid", "ro,size=4k").unwrap(), "ro,nosuid,size=4k");
        assert_eq!(merged("ro,nosuid", "rw").unwrap(), "ro,nosuid");
    }
}
