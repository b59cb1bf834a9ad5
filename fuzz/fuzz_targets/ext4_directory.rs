//! A superblock, and after it a block of a directory: what is found are names, of inodes that can
//! be.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::ext4::directory::checksum_holds;
use ondisk::ext4::superblock::LENGTH;
use ondisk::ext4::{Names, Superblock};

fuzz_target!(|bytes: &[u8]| {
    let Ok(superblock) = Superblock::parse(bytes) else {
        return;
    };
    let block = &bytes[LENGTH..];
    for names in [
        Names::in_block(block, &superblock),
        Names::inline(block, &superblock),
    ] {
        let mut names = names;
        let mut length = 0;
        for name in names.by_ref() {
            assert!((1..=superblock.inodes).contains(&name.inode));
            assert!((1..=255).contains(&name.name.len()));
            assert!(
                !name.name.iter().any(|&b| b == 0 || b == b'/')
                    && !matches!(name.name, b"." | b"..")
            );
            length += 8 + name.name.len();
        }
        assert!(length <= block.len());
        assert!(names.next().is_none());
        let _ = names.end();
    }
    for is_root in [false, true] {
        checksum_holds(block, 0, is_root);
    }
});
