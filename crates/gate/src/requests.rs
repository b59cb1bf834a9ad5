//! Requests for ioctls of btrfs and XFS, and the sizes of their results.

/// Length of a `struct btrfs_ioctl_get_subvol_info_args` in bytes.
pub const SUBVOL_INFO_LEN: usize = 504;

/// Length of a `struct xfs_fsop_geom` in bytes.
pub const GEOMETRY_LEN: usize = 256;

/// Length of `struct xfs_bulkstat`, in bytes.
pub const BULKSTAT_LEN: usize = 192;

/// A range of keys, in the order of (object, type, offset).
#[derive(Clone, Copy, Debug)]
pub struct SearchKey {
    /// Id of the tree to search; 0 for the tree of the subvolume which contains the descriptor.
    pub tree: u64,
    /// The first key of the search range.
    pub first: (u64, u8, u64),
    /// The last key of the search range.
    pub last: (u64, u8, u64),
    /// Minimum transaction id: only B-tree leaves written in this transaction or later are
    /// searched.
    pub min_transid: u64,
    /// Maximum number of items to return.
    pub items: u32,
}
