//! Looks up the files that share an extent.

use std::os::fd::AsFd;

use gate::Errno;
use gate::btrfs::logical_ino_v2;
use gate::extent::{FSMAP_HEAD, FSMAP_LEN, getfsmap};
use ondisk::Dev;
use ondisk::btrfs::parse_references;

/// The interface of a file system that returns the files which share an extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owners {
    /// btrfs: BTRFS_IOC_LOGICAL_INO_V2
    Btrfs,
    /// XFS: FS_IOC_GETFSMAP, if the file system has reverse mappings (`mkfs.xfs -m rmapbt=1`).
    Xfs,
    /// The file system has no such interface.
    Unknown,
}

impl Owners {
    /// Inode numbers of the files that refer to a byte of a device, sorted, each repeated per
    /// reference. On btrfs these are all references to any part of the extent, which is freed as a
    /// whole. If there are more than `expected`, some may be missing.
    ///
    /// # Errors
    /// The errors of the calls; `EOPNOTSUPP` if the file system has no such interface.
    pub(crate) fn read(
        self,
        any_file: impl AsFd,
        device: Dev,
        at: u64,
        expected: usize,
    ) -> Result<Vec<u64>, Errno> {
        let mut owners = match self {
            Owners::Btrfs => {
                let mut buffer = vec![0; 2 + 3 * (expected + 1)];
                logical_ino_v2(any_file, at, &mut buffer)?;
                // If the buffer is too small, there are more references than expected: other files
                // share the extent.
                parse_references(&buffer).unwrap_or_default()
            }
            Owners::Xfs => {
                let mut buffer = vec![0; FSMAP_HEAD + FSMAP_LEN * (expected + 1)];
                let count = getfsmap(any_file, device, at..at + 1, &mut buffer)?;
                let records = ondisk::fsmap::parse(&buffer[FSMAP_HEAD..], count);
                let owners: Option<Vec<u64>> = records.map(|record| record.ino).collect();
                owners.ok_or(Errno::EOPNOTSUPP)?
            }
            Owners::Unknown => return Err(Errno::EOPNOTSUPP),
        };
        owners.sort_unstable();
        Ok(owners)
    }
}
