//! Results that a test returns in place of the kernel, for ioctls that read the structures of a
//! file system: a test can give an engine any bytes without a disk that contains them. Only in
//! builds with debug assertions, for tests and fuzz targets.

use std::sync::Arc;

use crate::Result;
use crate::requests::{BULKSTAT_LEN, GEOMETRY_LEN, SUBVOL_INFO_LEN, SearchKey};
use crate::sync::Mutex;

/// Crafted results for the ioctls of the same names.
#[allow(missing_docs, reason = "the names say it")]
pub trait Answers: Send + Sync {
    fn tree_search_v2(&self, key: &SearchKey, buffer: &mut [u8]) -> Result<usize>;
    fn get_subvol_info(&self) -> [u8; SUBVOL_INFO_LEN];
    fn xfs_fsgeometry(&self) -> [u8; GEOMETRY_LEN];
    /// Fills some of the rows in place of the ioctl; returns their number, and the inode number to
    /// continue from.
    fn xfs_bulkstat(
        &self,
        group: u32,
        from: u64,
        rows: &mut [[u8; BULKSTAT_LEN]],
    ) -> Result<(usize, u64)>;
}

static ANSWERS: Mutex<Option<Arc<dyn Answers>>> = Mutex::new(None);

/// Replaces the results of the ioctls in [`Answers`] in this process; with `None`, the kernel's
/// results are used again.
pub fn answer_by(answers: Option<Arc<dyn Answers>>) {
    *ANSWERS.lock() = answers;
}

pub(crate) fn answers() -> Option<Arc<dyn Answers>> {
    ANSWERS.lock().clone()
}
