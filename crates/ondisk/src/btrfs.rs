//! What btrfs says of a subvolume: `struct btrfs_ioctl_get_subvol_info_args`.
//! [btrfs-ioctl(2)](https://btrfs.readthedocs.io/en/latest/btrfs-ioctl.html)

/// Whether the subvolume was made as a snapshot of another: it then has a parent's UUID. `None` when the bytes are too few.
pub fn is_snapshot(info: &[u8]) -> Option<bool> {
    // treeid u64, name[256], parent_id u64, dirid u64, generation u64, flags u64, uuid[16], parent_uuid[16], ...
    const PARENT_UUID: usize = 8 + 256 + 4 * 8 + 16;
    info.get(PARENT_UUID..PARENT_UUID + 16).map(|uuid| uuid.iter().any(|&b| b != 0))
}

#[cfg(test)]
mod tests {
    use super::is_snapshot;

    #[test]
    fn a_parent_uuid_makes_a_snapshot() {
        let mut info = [0u8; 504];
        assert_eq!(is_snapshot(&info), Some(false));
        info[327] = 1; // the last byte of parent_uuid
        assert_eq!(is_snapshot(&info), Some(true));
        assert_eq!(is_snapshot(&info[..200]), None);
    }
}
