//! Archives written with the program's own encoder, and trees to archive.

use ondisk::pax::{BLOCK, Member, header, padded};

/// A member and its data.
pub(crate) type Packed<'a> = (Member, &'a [u8]);

/// An empty plain file.
pub(crate) fn plain(path: impl AsRef<[u8]>, data: &[u8]) -> Member {
    let len = data.len() as u64;
    Member {
        path: path.as_ref().to_vec(),
        mode: 0o644,
        size: len,
        stored: len,
        ..Member::default()
    }
}

/// Appends a member and its data.
pub(crate) fn push(archive: &mut Vec<u8>, member: &Member, data: &[u8]) {
    header(member, archive);
    if let Some(map) = &member.sparse {
        map.encode(member.size, archive);
    }
    archive.extend_from_slice(data);
    archive.resize(padded(archive.len() as u64).unwrap() as usize, 0);
}

/// Ends an archive.
pub(crate) fn end(archive: &mut Vec<u8>) {
    archive.resize((archive.len() + 2 * BLOCK).next_multiple_of(20 * BLOCK), 0);
}

/// An archive of these members.
pub(crate) fn pack(members: &[Packed<'_>]) -> Vec<u8> {
    let mut archive = Vec::new();
    members
        .iter()
        .for_each(|(member, data)| push(&mut archive, member, data));
    end(&mut archive);
    archive
}

/// The checksum of the data.
pub(crate) fn sum(data: &[u8]) -> [u8; 32] {
    blake3::hash(data).into()
}
