//! ext4 with a journal: how many transactions have been committed while it is mounted.
//!
//! Every change to an inode or a directory is part of a transaction; syncfs(2) has the running one committed, if there is
//! one, and waits. As long as nothing is changed there is none, and the count stays. It is kept as long as the file system
//! is mounted. What is written past the file system, to its device, does not count; nor does it show to who reads files.

use walk::Ground;
use walk::engine::ext4::journal_transactions;

use super::{device, text, this_mount};

/// `f_type` of ext2, ext3 and ext4.
pub(super) const MAGIC: u64 = 0xef53;

pub(super) fn token(ground: &Ground<'_>) -> Option<String> {
    let mount = this_mount(ground)?;
    let device = device(ground)?;
    // The commit wakes those who wait for it, and then counts itself. It has when its thread sleeps again, waiting for work
    // (S); within a commit the thread runs, or waits for the disk (D).
    let thread: u32 = text(format!("/sys/fs/ext4/{device}/journal_task"))?.trim_end().parse().ok()?;
    is_asleep(&text(format!("/proc/{thread}/stat"))?)?;
    Some(format!("ext4 {mount} transactions {}", journal_transactions(ground.top.meta.dev)?))
}

/// From /proc/PID/stat: the state follows the last parenthesis.
fn is_asleep(stat: &str) -> Option<()> {
    let state = stat.rsplit(')').next()?.trim_start().chars().next()?;
    (state == 'S').then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_thread() {
        assert_eq!(is_asleep("841 (jbd2/a) S-8) S 2 0"), Some(()));
        assert_eq!(is_asleep("841 (jbd2/vda-8) D 2 0"), None);
        assert_eq!(is_asleep(""), None);
    }
}
