//! XFS: the head of its log.
//!
//! Every change to an inode or a directory is logged; syncfs(2) has what is held back written to
//! the log, and waits, so that the head has moved on past it. It only grows while the file system
//! is mounted: it is made of a number of the block, and one of the round. It also moves when XFS,
//! within a minute of the last change, marks the log as done with.

use walk::MountContext;
use walk::engine::bulkstat::log_head_lsn;

use super::{is_this_mount, this_mount};

pub(super) fn token(ground: &MountContext<'_>) -> Option<String> {
    let mount = this_mount(ground)?;
    Some(format!(
        "bulkstat {mount} log head {}",
        log_head_lsn(ground.top.meta.dev)?
    ))
}

/// Whether a token is of the mount that a directory is on: then it has been mounted all the time.
pub(crate) fn is_of_mount(token: &str, ground: &MountContext<'_>) -> bool {
    let then = token
        .strip_prefix("bulkstat ")
        .and_then(|token| token.split_once(" log head "));
    then.is_some_and(|(mount, _)| is_this_mount(mount, ground))
}
