//! The engine on a tree whose items are any bytes: it ends. An item is its inode number, its type, its offset, the length of its data
//! (a byte each), and the data. Searches return the items in the order of their keys; or, for an input that begins with an odd byte, the
//! input as it is, with a claim of how many items it has.
#![no_main]

use std::sync::Arc;

use gate::Errno;
use gate::btrfs::{SEARCH_HEAD, SUBVOL_INFO_LEN, SearchKey};
use gate::crafted::{Answers, answer_by};
use gate::xfs::{BULKSTAT_LEN, GEOMETRY_LEN};
use libfuzzer_sys::fuzz_target;
use ondisk::btrfs::{FIRST_INODE, kind};
use walk::EngineKind;

mod engine;

type Item = ((u64, u8, u64), Vec<u8>);

struct Tree {
    raw: Option<Vec<u8>>,
    items: Vec<Item>,
}

impl Tree {
    fn new(bytes: &[u8]) -> Tree {
        let (&first, mut rest) = bytes.split_first().unwrap_or((&0, &[]));
        if first & 1 == 1 {
            return Tree {
                raw: Some(rest.to_vec()),
                items: Vec::new(),
            };
        }
        let mut items: Vec<Item> = Vec::new();
        while let [ino, kind, offset, length, tail @ ..] = rest {
            let (data, tail) = tail.split_at((*length as usize).min(tail.len()));
            let mut data = data.to_vec();
            if *kind == kind::INODE_ITEM {
                data.resize(160, 0);
            }
            let ino = FIRST_INODE + u64::from(*ino);
            items.push(((ino, *kind, u64::from(*offset) + FIRST_INODE), data));
            rest = tail;
        }
        items.sort();
        Tree { raw: None, items }
    }
}

impl Answers for Tree {
    fn tree_search_v2(&self, key: &SearchKey, buffer: &mut [u8]) -> gate::Result<usize> {
        let room = &mut buffer[SEARCH_HEAD..];
        if let Some(raw) = &self.raw {
            let length = raw.len().min(room.len());
            room[..length].copy_from_slice(&raw[..length]);
            let claim = raw.first_chunk().copied().map_or(0, u32::from_le_bytes);
            return Ok(claim as usize);
        }
        let (mut at, mut count) = (0, 0);
        let found = self.items.iter();
        let found = found.filter(|(item, _)| (key.first..=key.last).contains(item));
        for ((object, kind, offset), data) in found.take(key.items as usize) {
            let record = [
                &[1, *object, *offset].map(u64::to_ne_bytes).concat()[..],
                &u32::from(*kind).to_ne_bytes(),
                &(data.len() as u32).to_ne_bytes(),
                data,
            ]
            .concat();
            let Some(to) = room.get_mut(at..at + record.len()) else {
                break;
            };
            to.copy_from_slice(&record);
            (at, count) = (at + record.len(), count + 1);
        }
        Ok(count)
    }

    fn get_subvol_info(&self) -> [u8; SUBVOL_INFO_LEN] {
        [0; SUBVOL_INFO_LEN]
    }

    fn xfs_fsgeometry(&self) -> [u8; GEOMETRY_LEN] {
        [0; GEOMETRY_LEN]
    }

    fn xfs_bulkstat(
        &self,
        _group: u32,
        _from: u64,
        _rows: &mut [[u8; BULKSTAT_LEN]],
    ) -> gate::Result<(usize, u64)> {
        Err(Errno::ENOTTY)
    }
}

fuzz_target!(|bytes: &[u8]| {
    answer_by(Some(Arc::new(Tree::new(bytes))));
    engine::walk_directory(EngineKind::Btrfs, Some(FIRST_INODE), None, u64::MAX);
});
