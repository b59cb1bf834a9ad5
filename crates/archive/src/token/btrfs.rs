//! btrfs: the generation of the subvolume.
//!
//! Every change to a subvolume, be it of a name, an attribute or data, goes into its tree, and a
//! commit writes that tree's root anew, with the number of the transaction as its generation. After
//! syncfs(2) nothing waits to be committed. The numbers only grow, also over mounts and boots; the
//! subvolume's UUID ties them to the subvolume. Subvolumes below it are parts of their own.
//!
//! A file system that is put back to an earlier state, from a copy of its disk, comes to the same
//! numbers once more, by another way: not at the same time, to the nanosecond. And what was written
//! after a generation counts only as long as the mount is the same, or something that was last
//! written in it is still as it was then, which it cannot be by any other way.

use gate::btrfs::get_subvol_info;
use ondisk::btrfs::{FIRST_INODE, LAST_INODE, Subvolume};
use walk::MountContext;
use walk::engine::btrfs::since::written_in;
use walk::entry::Time;

use super::{BESIDES, is_this_mount, this_mount};

pub(super) fn token(ground: &MountContext<'_>) -> Option<String> {
    /// With so many, one most likely stays as it is until the next time.
    const SOME: usize = 8;
    let info = get_subvol_info(&ground.top.fd).ok()?;
    let subvolume = Subvolume::parse(&info)?;
    let Subvolume {
        tree,
        generation,
        ctime,
        ..
    } = subvolume;
    let mount = this_mount(ground).unwrap_or_default();
    // Only root may ask for it, and only root asks what was written since.
    let last =
        written_in(&ground.top.fd, tree, FIRST_INODE..=LAST_INODE, generation).unwrap_or_default();
    let last: String = last
        .iter()
        .take(SOME)
        .map(|inode| format!(" {}", note(inode)))
        .collect();
    let state = format!(
        "{}{generation} at {}",
        before_generation(&subvolume),
        exactly(ctime.sec, ctime.nsec)
    );
    Some(format!("{state}{BESIDES}{mount} last{last}"))
}

/// The generation in a token, if it is of this subvolume, and of what this has come from for
/// certain.
pub(crate) fn generation(
    token: &str,
    ground: &MountContext<'_>,
    subvolume: &Subvolume,
) -> Option<u64> {
    let (state, besides) = token.split_once(BESIDES)?;
    let (generation, _) = state
        .strip_prefix(&before_generation(subvolume))?
        .split_once(" at ")?;
    let generation = generation.parse().ok()?;
    let (mount, last) = besides.split_once(" last")?;
    let is_so = |noted: &str| {
        let ino: Option<u64> = noted.split(':').next().and_then(|ino| ino.parse().ok());
        let now = ino
            .and_then(|ino| written_in(&ground.top.fd, subvolume.tree, ino..=ino, generation).ok());
        now.is_some_and(|now| now.iter().any(|inode| note(inode) == noted))
    };
    let is_known = is_this_mount(mount, ground) || last.split(' ').any(is_so);
    is_known.then_some(generation)
}

/// An inode that was last written, as it is noted: its number, and when it was changed, and read.
fn note(&(ino, ctime, atime): &(u64, Time, Time)) -> String {
    format!(
        "{ino}:{}:{}",
        exactly(ctime.sec, ctime.nsec),
        exactly(atime.sec, atime.nsec)
    )
}

fn exactly(sec: i64, nsec: u32) -> String {
    format!("{sec}.{nsec:09}")
}

fn before_generation(subvolume: &Subvolume) -> String {
    format!(
        "btrfs {:032x} tree {} generation ",
        u128::from_be_bytes(subvolume.uuid),
        subvolume.tree
    )
}
