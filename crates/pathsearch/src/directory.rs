//! The directories in which a command looked names up.

use crate::kind::Count;
use crate::trace::{DirectoryLookups, Trace};
use crate::tree::MountPoints;

/// A directory, and the look-ups in it.
#[derive(Clone, Debug)]
pub struct DirectoryReport {
    /// Its name, absolute.
    pub dir: Vec<u8>,
    /// The look-ups.
    pub lookups: DirectoryLookups,
    /// The type of its file system, where the mount table has it.
    pub fstype: Option<Vec<u8>>,
    /// Whether that is a network file system.
    pub network: bool,
}

/// The directories, those with the most misses first.
pub(crate) fn report_directories(trace: &Trace, mounts: &MountPoints) -> Vec<DirectoryReport> {
    let report = |(dir, lookups): &(Vec<u8>, DirectoryLookups)| {
        let mount = mounts.find(dir);
        DirectoryReport {
            dir: dir.clone(),
            lookups: lookups.clone(),
            fstype: mount.map(|mount| mount.fstype.clone()),
            network: mount.is_some_and(|mount| mount.network),
        }
    };
    let mut directories: Vec<DirectoryReport> = trace.directories.iter().map(report).collect();
    // They are sorted by name, and the sort is stable.
    directories.sort_by_key(|directory| {
        let Count { hits, misses } = directory.lookups.counts.total();
        std::cmp::Reverse((misses, hits))
    });
    directories
}
