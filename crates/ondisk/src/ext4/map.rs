//! Finds the blocks of a directory: by extents, or by the block map of ext2. Both are trees whose
//! root is in the inode. The caller reads the blocks of the tree below the root; most directories
//! have none.

use super::bytes::{crc32c, le16, le32};
use super::error::Error;
use super::inode::Inode;
use super::superblock::Superblock;

/// Consecutive blocks of a directory that are also contiguous on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockRun {
    /// First block number within the directory.
    pub logical: u32,
    /// First block number on the device.
    pub place: u64,
    /// Number of blocks in the run, at least one.
    pub blocks: u32,
}

/// A node of the extent tree or block map, in a block that the caller must read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Branch {
    /// Block number on the device.
    pub place: u64,
    /// Number of levels of the tree below this node.
    depth: u16,
    /// Range of the directory's blocks that the node covers: the first block, and the end.
    from: u64,
    until: u64,
}

/// An entry in a node of the extent tree or block map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeEntry {
    /// Blocks with contents.
    Run(BlockRun),
    /// A lower node, which the caller must read and pass to [`BlockMap::branch`] once.
    Branch(Branch),
}

/// The tree of blocks of one inode.
///
/// Reading a damaged tree always ends, because a node only refers to lower levels, and an extent
/// tree covers each block of the content once. A caller that refuses tree blocks that it has read
/// before (in any tree) also bounds the size of the result.
#[derive(Clone, Copy, Debug)]
pub struct BlockMap<'a> {
    superblock: &'a Superblock,
    extents: bool,
    seed: u32,
    /// Length of the directory in blocks. Allocated blocks beyond the end are skipped.
    length: u64,
}

const HEADER: usize = 12;
const ENTRY: usize = 12;
const DEEPEST: u16 = 5;

impl<'a> BlockMap<'a> {
    /// The extent tree or block map of an inode whose content is not inline.
    pub fn new(inode: &Inode<'a>, superblock: &'a Superblock) -> BlockMap<'a> {
        let length = inode.size().div_ceil(u64::from(superblock.block_size));
        BlockMap {
            superblock,
            extents: inode.has_extents(),
            seed: inode.seed(),
            length: length.min(1 << 32),
        }
    }

    /// Parses the root of the tree, [`Inode::body`].
    ///
    /// # Errors
    /// The tree is damaged, so that the kernel would refuse it. Earlier results may be wrong as
    /// well.
    pub fn root(&self, body: &[u8; 60], found: &mut impl FnMut(NodeEntry)) -> Result<(), Error> {
        if self.extents {
            return self.extents(body, None, 0, 1 << 32, found);
        }
        let mut at = 0;
        for (slot, depth) in (0..15).map(|slot: usize| (slot, slot.saturating_sub(11) as u16)) {
            at = self.pointer(le32(body, slot * 4), depth, at, found)?;
        }
        Ok(())
    }

    /// Parses a node of the extent tree or block map, which an entry referred to.
    ///
    /// # Errors
    /// The errors of [`BlockMap::root`].
    pub fn branch(
        &self,
        branch: Branch,
        block: &[u8],
        found: &mut impl FnMut(NodeEntry),
    ) -> Result<(), Error> {
        let block = block
            .get(..self.superblock.block_size as usize)
            .ok_or(Error::BlocksUnreadable)?;
        if self.extents {
            return self.extents(block, Some(branch.depth), branch.from, branch.until, found);
        }
        let mut at = branch.from;
        for word in block.chunks_exact(4) {
            if at >= self.length {
                break;
            }
            at = self.pointer(le32(word, 0), branch.depth - 1, at, found)?;
        }
        Ok(())
    }

    /// Parses one entry of a block map, for the content from block `at` on. Returns the block
    /// number after the entry's range.
    fn pointer(
        &self,
        place: u32,
        depth: u16,
        at: u64,
        found: &mut impl FnMut(NodeEntry),
    ) -> Result<u64, Error> {
        let end =
            at.saturating_add((u64::from(self.superblock.block_size) / 4).pow(u32::from(depth)));
        if place == 0 || at >= self.length {
            return Ok(end); // a hole, or a block beyond the end of the directory
        }
        let place = self.inside(u64::from(place), 1)?;
        found(if depth == 0 {
            NodeEntry::Run(BlockRun {
                logical: at as u32,
                place,
                blocks: 1,
            })
        } else {
            NodeEntry::Branch(Branch {
                place,
                depth,
                from: at,
                until: end,
            })
        });
        Ok(end)
    }

    /// Parses a node of an extent tree. `depth` is the expected depth of the node; `None` for the
    /// root, whose header tells the depth of the tree.
    fn extents(
        &self,
        node: &[u8],
        depth: Option<u16>,
        from: u64,
        until: u64,
        found: &mut impl FnMut(NodeEntry),
    ) -> Result<(), Error> {
        let (entries, depth) = self.entries(node, depth)?;
        let starts = entries
            .clone()
            .skip(1)
            .map(|entry| u64::from(le32(entry, 0)));
        let mut past = from;
        for (entry, next) in entries.zip(starts.chain([until])) {
            let start = u64::from(le32(entry, 0));
            if start < past || start >= next || next > until {
                return Err(Error::ExtentTree);
            }
            if depth > 0 {
                let place = u64::from(le32(entry, 4)) | u64::from(le16(entry, 8)) << 32;
                let branch = Branch {
                    place: self.inside(place, 1)?,
                    depth: depth - 1,
                    from: start,
                    until: next,
                };
                past = next;
                if start < self.length {
                    found(NodeEntry::Branch(branch));
                }
            } else {
                let (end, run) = self.extent_entry(entry, start, next)?;
                past = end;
                if let Some(run) = run {
                    found(NodeEntry::Run(run));
                }
            }
        }
        Ok(())
    }

    /// Checks the header and the checksum of an extent tree node. Returns its entries and its
    /// depth.
    fn entries<'n>(
        &self,
        node: &'n [u8],
        depth: Option<u16>,
    ) -> Result<(impl Iterator<Item = &'n [u8]> + Clone, u16), Error> {
        const MAGIC: u16 = 0xf30a;
        let (used, room) = (usize::from(le16(node, 2)), usize::from(le16(node, 4)));
        let own = le16(node, 6);
        let end = HEADER + ENTRY * room;
        let sound = le16(node, 0) == MAGIC
            && used <= room
            && end <= node.len()
            && match depth {
                None => own <= DEEPEST && (used > 0 || own == 0),
                Some(depth) => own == depth && used > 0,
            };
        if !sound {
            return Err(Error::ExtentTree);
        }
        // The root node is in the inode, whose checksum covers it.
        let checked = depth.is_some() && self.superblock.has_checksums();
        let holds = |tail: &[u8]| crc32c(self.seed, &node[..end]) == le32(tail, 0);
        if checked && !node.get(end..end + 4).is_some_and(holds) {
            return Err(Error::ExtentChecksum);
        }
        Ok((node[HEADER..].chunks_exact(ENTRY).take(used), own))
    }

    /// Parses an entry of a leaf, which must be inside the content from `start` to `limit`. Returns
    /// the end of its range, and its blocks unless the extent is allocated but unwritten.
    fn extent_entry(
        &self,
        entry: &[u8],
        start: u64,
        limit: u64,
    ) -> Result<(u64, Option<BlockRun>), Error> {
        const LONGEST_WRITTEN: u16 = 0x8000;
        let (length, written) = match le16(entry, 4) {
            length @ ..=LONGEST_WRITTEN => (length, true),
            length => (length - LONGEST_WRITTEN, false),
        };
        let place = u64::from(le32(entry, 8)) | u64::from(le16(entry, 6)) << 32;
        let end = start + u64::from(length);
        if length == 0 || end > limit {
            return Err(Error::ExtentTree);
        }
        let place = self.inside(place, u64::from(length))?;
        let blocks = u64::from(length).min(self.length.saturating_sub(start)) as u32;
        let run = BlockRun {
            logical: start as u32,
            place,
            blocks,
        };
        Ok((end, (written && blocks > 0).then_some(run)))
    }

    /// Checks that a range of blocks is inside the file system, after its first block.
    fn inside(&self, place: u64, blocks: u64) -> Result<u64, Error> {
        let (first, end) = (self.superblock.first_block, self.superblock.blocks);
        let is_inside = place > first && place.saturating_add(blocks) <= end;
        is_inside.then_some(place).ok_or(Error::BlocksOutside)
    }
}

#[cfg(test)]
mod tests {
    use super::super::inode::tests::directory;
    use super::super::superblock::tests::plain;
    use super::*;
    use proptest::prelude::*;

    const EXTENTS_FL: u32 = 0x8_0000;

    fn node(depth: u16, entries: &[[u32; 3]]) -> Vec<u8> {
        let words = [
            0xf30a | (entries.len() as u32) << 16,
            4 | u32::from(depth) << 16,
            0,
        ];
        [&[words], entries]
            .concat()
            .as_flattened()
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect()
    }

    fn root(flags: u32, blocks: u32, body: &[u8]) -> Result<Vec<NodeEntry>, Error> {
        let superblock = Superblock::parse(&plain()).unwrap();
        let raw = directory(flags, blocks * 4096, body);
        let inode = Inode::parse(&superblock, 12, &raw).unwrap();
        let mut all = Vec::new();
        BlockMap::new(&inode, &superblock)
            .root(inode.body(), &mut |found| all.push(found))
            .map(|()| all)
    }

    fn run(logical: u32, place: u64, blocks: u32) -> NodeEntry {
        NodeEntry::Run(BlockRun {
            logical,
            place,
            blocks,
        })
    }

    #[test]
    fn extents_in_the_inode_are_found() {
        let body = node(0, &[[0, 2, 100], [2, 0x8003, 200], [9, 5, 300]]);
        assert_eq!(
            root(EXTENTS_FL, 12, &body),
            Ok(vec![run(0, 100, 2), run(9, 300, 3)])
        );
        assert_eq!(root(EXTENTS_FL, 1, &body), Ok(vec![run(0, 100, 1)]));
        assert_eq!(root(EXTENTS_FL, 1, &node(0, &[])), Ok(vec![]));
    }

    #[test]
    fn extents_that_overlap_or_lie_outside_are_errors() {
        let outside = Err(Error::BlocksOutside);
        assert_eq!(root(EXTENTS_FL, 12, &node(0, &[[0, 2, 2047]])), outside);
        assert_eq!(root(EXTENTS_FL, 12, &node(0, &[[0, 2, 0]])), outside);
        assert_eq!(
            root(EXTENTS_FL, 12, &node(0, &[[0, 0xffff_0001, u32::MAX]])),
            outside
        );
        let none = Err(Error::ExtentTree);
        assert_eq!(
            root(EXTENTS_FL, 12, &node(0, &[[0, 2, 100], [1, 2, 200]])),
            none
        );
        assert_eq!(
            root(EXTENTS_FL, 12, &node(0, &[[5, 2, 100], [1, 2, 200]])),
            none
        );
        assert_eq!(root(EXTENTS_FL, 12, &node(0, &[[0, 0, 100]])), none);
        assert_eq!(root(EXTENTS_FL, 12, &node(6, &[[0, 100, 0]])), none);
        assert_eq!(root(EXTENTS_FL, 12, &node(1, &[])), none);
        assert_eq!(root(EXTENTS_FL, 12, &[]), none);
    }

    #[test]
    fn branches_are_read_within_their_range() {
        let superblock = Superblock::parse(&plain()).unwrap();
        let raw = directory(EXTENTS_FL, 100 * 4096, &node(1, &[[0, 50, 0], [10, 51, 0]]));
        let inode = Inode::parse(&superblock, 12, &raw).unwrap();
        let map = BlockMap::new(&inode, &superblock);
        let mut branches = Vec::new();
        map.root(inode.body(), &mut |found| branches.push(found))
            .unwrap();
        let first = Branch {
            place: 50,
            depth: 0,
            from: 0,
            until: 10,
        };
        let second = Branch {
            place: 51,
            depth: 0,
            from: 10,
            until: 1 << 32,
        };
        assert_eq!(
            branches,
            [NodeEntry::Branch(first), NodeEntry::Branch(second)]
        );

        let block = |entries: &[[u32; 3]]| {
            let mut block = node(0, entries);
            block.resize(4096, 0);
            block
        };
        let mut all = Vec::new();
        map.branch(first, &block(&[[2, 3, 70]]), &mut |found| all.push(found))
            .unwrap();
        assert_eq!(all, [run(2, 70, 3)]);
        assert!(
            map.branch(first, &block(&[[2, 9, 70]]), &mut |_| ())
                .is_err()
        );
        assert!(
            map.branch(second, &block(&[[2, 3, 70]]), &mut |_| ())
                .is_err()
        );
        assert!(map.branch(second, &block(&[]), &mut |_| ()).is_err());
        assert!(
            map.branch(second, &block(&[[10, 3, 70]])[..4000], &mut |_| ())
                .is_err()
        );
    }

    #[test]
    fn block_maps_of_ext2_are_read() {
        let mut body = [0u32; 15];
        body[..2].copy_from_slice(&[100, 101]);
        body[3] = 103;
        body[12] = 200;
        let bytes = body.map(u32::to_le_bytes);
        let found = root(0, 14, bytes.as_flattened()).unwrap();
        assert_eq!(found[..3], [run(0, 100, 1), run(1, 101, 1), run(3, 103, 1)]);
        assert_eq!(
            found[3..],
            [NodeEntry::Branch(Branch {
                place: 200,
                depth: 1,
                from: 12,
                until: 12 + 1024
            })]
        );
        assert_eq!(root(0, 2, bytes.as_flattened()).unwrap(), found[..2]);
        assert_eq!(root(0, 1, &[0xff; 60]), Err(Error::BlocksOutside));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            flags in prop_oneof![Just(0), Just(EXTENTS_FL)],
            blocks in 0u32..100_000,
            body in proptest::collection::vec(0u8..5, 60),
            block in proptest::collection::vec(0u8..5, 4096),
            magic: bool,
        ) {
            let superblock = Superblock::parse(&plain()).unwrap();
            let (mut body, mut block) = (body, block);
            if magic {
                body[..2].copy_from_slice(&[0x0a, 0xf3]);
                block[..2].copy_from_slice(&[0x0a, 0xf3]);
            }
            let raw = directory(flags, blocks.wrapping_mul(4096), &body);
            if let Some(inode) = Inode::parse(&superblock, 12, &raw) {
                let map = BlockMap::new(&inode, &superblock);
                let mut all = Vec::new();
                let _ = map.root(inode.body(), &mut |found| all.push(found));
                for found in all {
                    match found {
                        NodeEntry::Run(run) => prop_assert!(run.place + u64::from(run.blocks) <= 2048 && run.blocks > 0),
                        NodeEntry::Branch(branch) => drop(map.branch(branch, &block, &mut |_| ())),
                    }
                }
            }
        }
    }
}
