//! ext4 with a journal: how many transactions have been committed while it is mounted.
//!
//! Every change to an inode or a directory is part of a transaction; syncfs(2) has the running one
//! committed, if there is one, and waits. As long as nothing is changed there is none, and the
//! count stays. It is kept as long as the file system is mounted. What is written past the file
//! system, to its device, does not count; nor does it show to who reads files.

use walk::MountContext;
use walk::engine::ext4::journal_transactions;

use super::this_mount;

pub(super) fn token(ground: &MountContext<'_>) -> Option<String> {
    let mount = this_mount(ground)?;
    Some(format!(
        "ext4 {mount} transactions {}",
        journal_transactions(ground.top.meta.dev)?
    ))
}
