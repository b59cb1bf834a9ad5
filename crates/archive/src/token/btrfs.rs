//! btrfs: the generation of the subvolume.
//!
//! Every change to a subvolume, be it of a name, an attribute or data, goes into its tree, and a commit writes that tree's
//! root anew, with the number of the transaction as its generation. After syncfs(2) nothing waits to be committed. The
//! numbers only grow, also over mounts and boots; the subvolume's UUID ties them to the subvolume. Subvolumes below it are
//! parts of their own.

use gate::btrfs::get_subvol_info;
use ondisk::btrfs::Subvolume;
use walk::Ground;

pub(super) fn token(ground: &Ground<'_>) -> Option<String> {
    let info = get_subvol_info(&ground.top.fd).ok()?;
    let subvolume = Subvolume::parse(&info)?;
    Some(format!("{}{}", before_generation(&subvolume), subvolume.generation))
}

/// The generation in a token, if it is of this subvolume.
pub(crate) fn generation(token: &str, subvolume: &Subvolume) -> Option<u64> {
    token.strip_prefix(&before_generation(subvolume))?.parse().ok()
}

fn before_generation(subvolume: &Subvolume) -> String {
    format!("btrfs {:032x} tree {} generation ", u128::from_be_bytes(subvolume.uuid), subvolume.tree)
}
