//! A superblock, and after it what is read with its help: a group descriptor, an inode, the tree
//! that says where its content lies. All that is found lies in the file system.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::ext4::superblock::LENGTH;
use ondisk::ext4::{BlockMap, Inode, NodeEntry, Superblock, group};

fuzz_target!(|bytes: &[u8]| {
    let Ok(superblock) = Superblock::parse(bytes) else {
        return;
    };
    assert!(superblock.block_size.is_power_of_two() && superblock.inode_size >= 128);
    for nth in [0, 1, superblock.descriptor_blocks() - 1, u32::MAX] {
        assert!(
            superblock
                .descriptor_block(nth)
                .is_none_or(|block| block < superblock.blocks)
        );
    }

    let rest = &bytes[LENGTH..];
    if let Some(group) = group::parse(&superblock, 0, rest) {
        assert!(group.used <= superblock.inodes_per_group);
        assert!(group.table / u64::from(superblock.block_size) < superblock.blocks);
    }

    let Some(inode) = Inode::parse(&superblock, 12, rest) else {
        return;
    };
    assert!(inode.mode() != 0 && inode.nlink() != 0 && inode.size() <= i64::MAX as u64);
    let _ = (
        inode.blocks(),
        inode.rdev(),
        inode.btime(),
        inode.has_xattrs(),
        inode.attributes(),
    );
    assert!(
        inode
            .inline_value()
            .is_none_or(|value| value.len() <= rest.len())
    );

    let map = BlockMap::new(&inode, &superblock);
    let mut branches = Vec::new();
    let mut look = |found: NodeEntry| match found {
        NodeEntry::Run(run) => {
            assert!(run.blocks > 0 && run.place > superblock.first_block);
            assert!(run.place + u64::from(run.blocks) <= superblock.blocks);
        }
        NodeEntry::Branch(branch) => {
            assert!(branch.place > superblock.first_block && branch.place < superblock.blocks);
            branches.push(branch);
        }
    };
    let _ = map.root(inode.body(), &mut look);
    // Whatever a branch is, it gets the same bytes: some way down is always wrong, and it ends.
    let mut block = rest
        .get(superblock.inode_size as usize..)
        .unwrap_or_default()
        .to_vec();
    block.resize(superblock.block_size as usize, 0);
    for branch in branches.into_iter().take(8) {
        let _ = map.branch(branch, &block, &mut |_| ());
    }
});
