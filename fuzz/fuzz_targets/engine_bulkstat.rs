//! The engine on inodes of any bytes: it ends, and finds each name of the directory once. The input is the geometry, then a byte that says
//! which inode number the answers go on with, then the inodes, of which each has the number of an entry.
#![no_main]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use gate::Errno;
use gate::btrfs::{SUBVOL_INFO_LEN, SearchKey};
use gate::crafted::{Answers, answer_by};
use gate::xfs::{BULKSTAT_LEN, GEOMETRY_LEN};
use libfuzzer_sys::fuzz_target;
use walk::EngineKind;

mod engine;

struct Inodes {
    geometry: [u8; GEOMETRY_LEN],
    next: u8,
    rows: Vec<[u8; BULKSTAT_LEN]>,
}

impl Inodes {
    fn new(bytes: &[u8]) -> Option<Inodes> {
        let (geometry, rest) = bytes.split_first_chunk()?;
        let (next, rest) = rest.split_first()?;
        let mut rows = rest.as_chunks().0.to_vec();
        let top = engine::directory();
        let names = ["a", "a/b", "a/f", "f", "g"];
        for (row, name) in rows.iter_mut().zip(names.iter().cycle()) {
            let ino = fs::metadata(top.join(name)).unwrap().ino();
            // One in four has any number.
            if row[0] % 4 > 0 {
                row[..8].copy_from_slice(&ino.to_ne_bytes());
            }
        }
        Some(Inodes {
            geometry: *geometry,
            next: *next,
            rows,
        })
    }
}

impl Answers for Inodes {
    fn tree_search_v2(&self, _key: &SearchKey, _buffer: &mut [u8]) -> gate::Result<usize> {
        Err(Errno::ENOTTY)
    }

    fn get_subvol_info(&self) -> [u8; SUBVOL_INFO_LEN] {
        [0; SUBVOL_INFO_LEN]
    }

    fn xfs_fsgeometry(&self) -> [u8; GEOMETRY_LEN] {
        self.geometry
    }

    fn xfs_bulkstat(
        &self,
        _group: u32,
        from: u64,
        rows: &mut [[u8; BULKSTAT_LEN]],
    ) -> gate::Result<(usize, u64)> {
        let count = self.rows.len().min(rows.len());
        rows[..count].copy_from_slice(&self.rows[..count]);
        // Also more rows than there is room for.
        let claim = if self.next == 255 { usize::MAX } else { count };
        Ok((claim, from.wrapping_add(u64::from(self.next))))
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Some(inodes) = Inodes::new(bytes) {
        answer_by(Some(Arc::new(inodes)));
        engine::walk_directory(EngineKind::Bulkstat, None, None, 5);
    }
});
