//! Which files share an extent.

use std::os::fd::AsFd;

use gate::Errno;
use gate::btrfs::logical_ino_v2;
use gate::extent::{FSMAP_HEAD, FSMAP_LEN, getfsmap};
use ondisk::Dev;
use ondisk::btrfs::parse_references;

/// How a file system tells which files share an extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owners {
    /// BTRFS_IOC_LOGICAL_INO_V2
    Btrfs,
    /// FS_IOC_GETFSMAP, where the file system keeps reverse mappings (`mkfs.xfs -m rmapbt=1`).
    Xfs,
    /// No way is known.
    Unknown,
}

impl Owners {
    /// The inode numbers of the files that refer to a byte of a device, each as often as it does,
    /// sorted. On btrfs, these are all that refer to any part of the extent: it is freed as a whole.
    /// If there are more than `expected`, some may be missing.
    ///
    /// # Errors
    /// Those of the calls; `EOPNOTSUPP` where the file system does not know.
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
                // With more references than were expected, there are others.
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
