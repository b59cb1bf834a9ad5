//! Archives written with the program's own encoder, and trees to archive.

use ondisk::pax::{BLOCK, Member, header, padded};

/// A member and its data.
pub(crate) type Packed<'a> = (Member, &'a [u8]);

/// An empty regular file.
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

/// Appends the end of an archive.
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

/// A ustar header of `size` bytes of data, with a few bytes replaced: their offset, and the bytes.
pub(crate) fn raw(name: &str, letter: u8, size: usize, replaced: &[(usize, &[u8])]) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    let mode = if letter == b'5' { 0o755 } else { 0o644 };
    let (mode, size) = (format!("{mode:07o}\0"), format!("{size:011o}\0"));
    let letter = [letter];
    let fields: [(usize, &[u8]); 8] = [
        (0, name.as_bytes()),
        (100, mode.as_bytes()),
        (108, b"0000000\0"),
        (116, b"0000000\0"),
        (124, size.as_bytes()),
        (136, b"07346545000\0"),
        (156, &letter),
        (257, b"ustar\x0000"),
    ];
    for (at, bytes) in fields.iter().chain(replaced) {
        block[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// A member of [`raw`] headers with its data.
pub(crate) fn member(name: &str, letter: u8, data: &[u8]) -> Vec<u8> {
    let mut member = raw(name, letter, data.len(), &[]);
    member.extend(data);
    member.resize(member.len().next_multiple_of(BLOCK), 0);
    member
}

/// An extended header with these records.
pub(crate) fn extended(letter: u8, records: &[(&str, &[u8])]) -> Vec<u8> {
    let mut text = Vec::new();
    for (key, value) in records {
        let rest = key.len() + value.len() + 3;
        let len = (rest + 1..).find(|len| len.to_string().len() + rest == *len);
        text.extend(format!("{} {key}=", len.unwrap()).as_bytes());
        text.extend(*value);
        text.push(b'\n');
    }
    member("PaxHeaders/x", letter, &text)
}
