//! btrfs: the generation of the subvolume.
//!
//! Every change to a subvolume, be it of a name, an attribute or data, goes into its tree, and a commit writes that tree's
//! root anew, with the number of the transaction as its generation. After syncfs(2) nothing waits to be committed. The
//! numbers only grow, also over mounts and boots; the subvolume's UUID ties them to the subvolume. Subvolumes below it are
//! parts of their own.
//!
//! A file system that is put back to an earlier state, from a copy of its disk, comes to the same numbers once more, by another way: not
//! at the same time, to the nanosecond. And what was written after a generation counts only as long as the mount is the same, or
//! something that was last written in it is still as it was then, which it cannot be by any other way.

use gate::btrfs::get_subvol_info;
use ondisk::btrfs::Subvolume;
use walk::Ground;
use walk::engine::btrfs::since::{is_as_noted, last_written};
use walk::entry::Time;

use super::{BESIDES, this_mount};

pub(super) fn token(ground: &Ground<'_>) -> Option<String> {
    let info = get_subvol_info(&ground.top.fd).ok()?;
    let subvolume = Subvolume::parse(&info)?;
    let Subvolume { generation, ctime, .. } = subvolume;
    let mount = this_mount(ground).unwrap_or_default();
    // Only root may ask for it, and only root asks what was written since.
    let last = last_written(&ground.top.fd, &subvolume).unwrap_or_default();
    let last: String = last.iter().map(|(ino, ctime)| format!(" {ino}:{}.{:09}", ctime.sec, ctime.nsec)).collect();
    let state = format!("{}{generation} at {}.{:09}", before_generation(&subvolume), ctime.sec, ctime.nsec);
    Some(format!("{state}{BESIDES}{mount} last{last}"))
}

/// The generation in a token, if it is of this subvolume, and of what this has come from for certain.
pub(crate) fn generation(token: &str, ground: &Ground<'_>, subvolume: &Subvolume) -> Option<u64> {
    let (state, besides) = token.split_once(BESIDES)?;
    let (generation, _) = state.strip_prefix(&before_generation(subvolume))?.split_once(" at ")?;
    let generation = generation.parse().ok()?;
    let (mount, last) = besides.split_once(" last")?;
    let is_so = |noted| is_as_noted(&ground.top.fd, subvolume.tree, generation, noted).unwrap_or(false);
    let is_known = this_mount(ground).is_some_and(|now| now == mount) || last.split(' ').filter_map(noted).any(is_so);
    is_known.then_some(generation)
}

/// An inode that was last written, from its number and time in a token.
fn noted(word: &str) -> Option<(u64, Time)> {
    let (ino, ctime) = word.split_once(':')?;
    let (sec, nsec) = ctime.split_once('.')?;
    Some((ino.parse().ok()?, Time { sec: sec.parse().ok()?, nsec: nsec.parse().ok()? }))
}

fn before_generation(subvolume: &Subvolume) -> String {
    format!("btrfs {:032x} tree {} generation ", u128::from_be_bytes(subvolume.uuid), subvolume.tree)
}
