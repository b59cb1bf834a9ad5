//! Tokens: what a file system says of itself that must change whenever anything in it does. Where
//! it has not changed, the verdict is there before anything has been walked.
//!
//! A token is taken when all that was dirty has been written, and before anything is read: what is
//! changed during the walk, or after it, makes another token. Whether two of them are of one state
//! is what is asked ([`is_same`]). Each file here says why nothing can slip past its token.

use gate::btrfs::BTRFS_SUPER_MAGIC;
use gate::fs::{At, EXT4_SUPER_MAGIC, Want, statx, syncfs};
use gate::xfs::XFS_SUPER_MAGIC;
use walk::{EngineKind, MountContext};

pub(crate) mod btrfs;
mod ext4;
pub(crate) mod xfs;

/// Takes the token of the file system that a directory is on, having had it written first; `None`
/// where it has none.
pub fn take(ground: &MountContext<'_>) -> Option<String> {
    let of = match ground.statfs.magic {
        BTRFS_SUPER_MAGIC => btrfs::token,
        EXT4_SUPER_MAGIC => ext4::token,
        XFS_SUPER_MAGIC => xfs::token,
        _ => return None,
    };
    syncfs(&ground.top.fd).ok()?;
    of(ground)
}

/// Comes before what is in a token besides the state that it is of.
const BESIDES: &str = " on ";

/// Whether two tokens are of the same state.
pub fn is_same(one: &str, other: &str) -> bool {
    state(one) == state(other)
}

fn state(token: &str) -> &str {
    token.split_once(BESIDES).map_or(token, |(state, _)| state)
}

/// The engine that a token stands in for.
pub fn engine(token: &str) -> Option<EngineKind> {
    let kind = token.split(' ').next()?;
    [EngineKind::Btrfs, EngineKind::Ext4, EngineKind::Bulkstat]
        .into_iter()
        .find(|by| by.name() == kind)
}

/// What ties a count to the time for which it is kept: the boot, and the mount, by an id that no
/// other mount gets as long as the machine is up. As long as the mount lasts, the file system stays
/// in the kernel, and its counts go on.
fn this_mount(ground: &MountContext<'_>) -> Option<String> {
    let boot = gate::file::read_kernel(c"/proc/sys/kernel/random/boot_id").ok()?;
    let seen = statx(&ground.top.fd, c"", At::EMPTY_PATH, Want::MNT_ID_UNIQUE).ok()?;
    let id = seen
        .mnt_id
        .filter(|_| seen.have.contains(Want::MNT_ID_UNIQUE))?;
    Some(format!(
        "boot {} mount {id}",
        String::from_utf8_lossy(&boot).trim_end()
    ))
}

/// Whether that is what a token was tied to.
fn is_this_mount(then: &str, ground: &MountContext<'_>) -> bool {
    this_mount(ground).is_some_and(|now| now == then)
}
