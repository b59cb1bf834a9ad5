//! The engine on an image of ext4 that is any bytes: it ends, and finds no more names than fit into the image.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walk::EngineKind;

mod engine;

/// The inode number of the root directory.
const ROOT: u64 = 2;

fuzz_target!(|bytes: &[u8]| {
    // A block may be that of several directories, and each of them has an inode; those of the directory outside come on top.
    let most = (bytes.len() as u64 / 12).pow(2) + 100;
    engine::walk_directory(EngineKind::Ext4, Some(ROOT), Some(bytes), most);
});
