//! XFS: a shape that can be, whose groups follow each other; and inodes of any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::xfs::{Geometry, Inode};

fuzz_target!(|bytes: &[u8]| {
    if let Some(shape) = Geometry::parse(bytes) {
        assert!(shape.block.is_power_of_two() && shape.groups > 0);
        let places = [0, 1, u64::from(u32::MAX), u64::MAX / 2, u64::MAX];
        assert!(places.map(|ino| shape.group_of(ino)).is_sorted());
    }
    for row in bytes.as_chunks::<{ Inode::LEN }>().0 {
        assert_eq!(Inode::parse(row).ino, Inode::parse_ino(row));
    }
});
