//! Writes a member's headers. Equal members give equal bytes, whatever the machine, the process and
//! the time.

use std::ops::Range;

use super::field::{
    self, Block, GID, GNAME, LINK, MAGIC, MAJOR, MINOR, MODE, MTIME, NAME, POSIX, PREFIX, SIZE,
    TYPE, UID, UNAME,
};
use super::record::{escape, push, push_number, push_time};
use super::{
    ARCHIVE, BASE, BLOCK, Base, CHECKSUM, Lineage, Member, MemberKind, PART, PartOfRun, UNKNOWN,
};

/// Appends the headers of a member: an extended header with everything that does not fit into the
/// fields of a ustar header, and the ustar header. The data must follow, padded with zeros to whole
/// blocks.
///
/// Names must not contain NUL. Returns the offset of the checksum in `out`, for [`set_checksum`].
pub fn header(member: &Member, out: &mut Vec<u8>) -> Option<usize> {
    let mut ustar = [0; BLOCK];
    let start = extended(b'x', out);
    records(member, &mut ustar, out);
    // The checksum is the last record, which ends with a newline.
    let checksum = member.blake3.map(|_| out.len() - 1 - DIGITS);
    finish(start, &name_in(&member.path, b"PaxHeaders"), out);
    fill(member, &mut ustar);
    out.extend_from_slice(&ustar);
    checksum
}

/// Overwrites the checksum at offset `at` of a header.
pub fn set_checksum(header: &mut [u8], at: usize, blake3: &[u8; 32]) {
    if let Some(to) = header.get_mut(at..at + DIGITS) {
        to.copy_from_slice(&digits(blake3));
    }
}

/// Appends a global header with the checksum of the previous member, which was unknown before its
/// data was written.
pub fn trailer(blake3: &[u8; 32], out: &mut Vec<u8>) {
    global(b"GlobalHead/blake3", &comment(blake3), out);
}

/// Appends a global header with the number of this archive in a dump by several processes. Must
/// precede all members. Other programs ignore the comment.
pub fn part_header(part: &PartOfRun, out: &mut Vec<u8>) {
    let PartOfRun { number, of, run } = part;
    let text = format!("{PART}{number}/{of} run={run}");
    global(b"GlobalHead/part", text.as_bytes(), out);
}

/// Appends a global header with the ids of the archive and of its base. Must precede all members.
/// Other programs ignore the comment.
pub fn lineage_header(lineage: &Lineage, out: &mut Vec<u8>) {
    let base = match lineage.base {
        Base::Nothing => String::new(),
        Base::Unknown => format!("{BASE}{UNKNOWN}"),
        Base::Archive(id) => format!("{BASE}{id}"),
    };
    let text = format!("{ARCHIVE}{}{base}", lineage.id);
    global(b"GlobalHead/archive", text.as_bytes(), out);
}

fn global(name: &[u8], text: &[u8], out: &mut Vec<u8>) {
    let start = extended(b'g', out);
    push(out, b"comment", text);
    finish(start, &[name], out);
}

/// Reserves a block for the header of an extended header, and returns its offset.
fn extended(letter: u8, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.resize(start + BLOCK, 0);
    out[start + TYPE] = letter;
    start
}

/// Pads an extended header, and fills in its own header block with the length of its records.
fn finish(start: usize, name: &[&[u8]], out: &mut Vec<u8>) {
    let len = out.len() - start - BLOCK;
    out.resize(start + BLOCK + len.next_multiple_of(BLOCK), 0);
    if let Some(block) = out[start..].first_chunk_mut::<BLOCK>() {
        put_parts(block, name);
        let len = len as u64;
        for (field, value) in [(MODE, 0o644), (UID, 0), (GID, 0), (SIZE, len), (MTIME, 0)] {
            field::put(block, field, value);
        }
        field::put_bytes(block, MAGIC, POSIX);
        field::put_sum(block);
    }
}

/// Writes the records that a member needs, and its name into the ustar header.
fn records(member: &Member, ustar: &mut Block, out: &mut Vec<u8>) {
    let large = |out: &mut Vec<u8>, key: &str, field: Range<usize>, value: u64| {
        if value > field::most(&field) {
            push_number(out, key, value);
        }
    };
    let [path, link, uname, gname] = long_names(member, ustar);
    let sparse_name = member.sparse.as_ref().map(|_| &member.path[..]);
    let is_binary = |name: &[u8]| std::str::from_utf8(name).is_err();
    let names = [path, link, uname, gname, sparse_name];
    if names.into_iter().flatten().any(is_binary) {
        // POSIX defines names in records as UTF-8, and bsdtar mangles others unless told that they
        // are binary.
        push(out, b"hdrcharset", b"BINARY");
    }
    push_some(out, "path", path);
    push_some(out, "linkpath", link);
    large(out, "size", SIZE, member.stored);
    large(out, "uid", UID, member.uid.into());
    large(out, "gid", GID, member.gid.into());
    push_some(out, "uname", uname);
    push_some(out, "gname", gname);
    push_time(out, "mtime", member.mtime);
    for (key, time) in [("atime", member.atime), ("ctime", member.ctime)] {
        if let Some(time) = time {
            push_time(out, key, time);
        }
    }
    large(out, "SCHILY.devmajor", MAJOR, member.rdev.major.into());
    large(out, "SCHILY.devminor", MINOR, member.rdev.minor.into());
    if member.sparse.is_some() {
        push(out, b"GNU.sparse.major", b"1");
        push(out, b"GNU.sparse.minor", b"0");
        push(out, b"GNU.sparse.name", &member.path);
        push_number(out, "GNU.sparse.realsize", member.size);
    }
    push_some(out, "SCHILY.acl.access", member.acl_access.as_deref());
    push_some(out, "SCHILY.acl.default", member.acl_default.as_deref());
    for (name, value) in &member.xattrs {
        let mut key = b"SCHILY.xattr.".to_vec();
        escape(name, &mut key);
        push(out, &key, value);
    }
    push_some(out, "GNU.dumpdir", member.dumpdir.as_deref());
    if let Some(blake3) = &member.blake3 {
        push(out, b"comment", &comment(blake3));
    }
}

fn push_some(out: &mut Vec<u8>, key: &str, value: Option<&[u8]>) {
    if let Some(value) = value {
        push(out, key.as_bytes(), value);
    }
}

/// Writes the name into the ustar header. Of path, link target, user and group, returns those that
/// do not fit into the header.
fn long_names<'a>(member: &'a Member, ustar: &mut Block) -> [Option<&'a [u8]>; 4] {
    // For a file with a map, the ustar header has a different name, for programs that do not
    // support sparse files.
    let fits = match &member.sparse {
        Some(_) => {
            put_parts(ustar, &name_in(&member.path, b"GNUSparseFile.0"));
            true
        }
        None => put_name(ustar, &member.path),
    };
    // A full field needs no NUL at its end, but not all programs accept this for user and group.
    [
        (&member.path, fits),
        (&member.link, member.link.len() <= LINK.len()),
        (&member.uname, member.uname.len() < UNAME.len()),
        (&member.gname, member.gname.len() < GNAME.len()),
    ]
    .map(|(name, fits)| (!fits).then_some(&name[..]))
}

/// Fills in a ustar header except for the name; values that do not fit are in records.
fn fill(member: &Member, ustar: &mut Block) {
    for (field, value) in [
        (MODE, member.mode.into()),
        (UID, member.uid.into()),
        (GID, member.gid.into()),
        (SIZE, member.stored),
        (MTIME, member.mtime.sec.try_into().unwrap_or(0)),
        (MAJOR, member.rdev.major.into()),
        (MINOR, member.rdev.minor.into()),
    ] {
        field::put(ustar, field, value);
    }
    ustar[TYPE] = match member.kind {
        MemberKind::File => b'0',
        MemberKind::Link => b'1',
        MemberKind::Symlink => b'2',
        MemberKind::Char => b'3',
        MemberKind::Block => b'4',
        MemberKind::Directory => b'5',
        MemberKind::Fifo => b'6',
        MemberKind::Label => b'V',
        MemberKind::Continuation => b'M',
    };
    field::put_bytes(ustar, LINK, &member.link);
    field::put_bytes(ustar, MAGIC, POSIX);
    for (field, name) in [(UNAME, &member.uname), (GNAME, &member.gname)] {
        field::put_bytes(ustar, field.start..field.end - 1, name);
    }
    field::put_sum(ustar);
}

/// Writes a name that is given in parts, like [`put_name`].
fn put_parts(block: &mut Block, parts: &[&[u8]]) {
    let mut at = NAME.start;
    if parts.iter().map(|part| part.len()).sum::<usize>() > NAME.len() {
        put_name(block, &parts.concat());
        return;
    }
    for part in parts {
        block[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
}

/// Writes a name into a header, with the directory of a long name in the prefix. Returns whether it
/// fits; if not, it is cut off.
fn put_name(block: &mut Block, name: &[u8]) -> bool {
    if name.len() <= NAME.len() {
        field::put_bytes(block, NAME, name);
        return true;
    }
    // The slash between prefix and name is implied, and the name must not be empty.
    let last = PREFIX.len().min(name.len() - 2);
    let slash = name[..=last]
        .iter()
        .rposition(|&byte| byte == b'/')
        .filter(|&at| at > 0);
    match slash.map(|at| (&name[..at], &name[at + 1..])) {
        Some((prefix, rest)) if rest.len() <= NAME.len() => {
            field::put_bytes(block, PREFIX, prefix);
            field::put_bytes(block, NAME, rest);
            true
        }
        _ => {
            field::put_bytes(block, NAME, name);
            false
        }
    }
}

/// The name of an additional header of a file: in a directory `dir` next to the file.
fn name_in<'a>(path: &'a [u8], dir: &'a [u8]) -> [&'a [u8]; 4] {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let at = path
        .iter()
        .rposition(|&byte| byte == b'/')
        .map_or(0, |at| at + 1);
    [&path[..at], dir, b"/", &path[at..]]
}

/// The text of a pax comment with a BLAKE3 checksum.
fn comment(blake3: &[u8; 32]) -> [u8; CHECKSUM.len() + DIGITS] {
    let mut comment = [0; CHECKSUM.len() + DIGITS];
    comment[..CHECKSUM.len()].copy_from_slice(CHECKSUM);
    comment[CHECKSUM.len()..].copy_from_slice(&digits(blake3));
    comment
}

/// Number of hexadecimal digits of a checksum.
const DIGITS: usize = 64;

fn digits(blake3: &[u8; 32]) -> [u8; DIGITS] {
    const DIGIT: &[u8; 16] = b"0123456789abcdef";
    let mut digits = [0; DIGITS];
    for (pair, byte) in digits.as_chunks_mut().0.iter_mut().zip(blake3) {
        *pair = [byte >> 4, byte & 15].map(|digit| DIGIT[usize::from(digit)]);
    }
    digits
}
