//! Records of an extended header: `LENGTH KEY=VALUE` and a newline; the length is that of the whole
//! record.

use std::collections::BTreeMap;
use std::ops::Range;

use super::sparse::Map;
use super::{
    ARCHIVE, ArchiveId, BASE, Base, CHECKSUM, Fault, Lineage, MOST_NAME, MOST_RECORDS, PART,
    PartOfRun, UNKNOWN, dumpdir,
};
use crate::Time;
use crate::time::digits;

pub(super) fn push(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let rest = key.len() + value.len() + 3; // the blank, the equals sign, the newline
    let count = |n: usize| n.checked_ilog10().map_or(1, |log| log as usize + 1);
    // The length includes its own digits, which may make it one digit longer.
    let len = rest + count(rest + count(rest));
    out.reserve(len);
    for part in [
        digits(len as u64, &mut [0; 20]),
        b" ",
        key,
        b"=",
        value,
        b"\n",
    ] {
        out.extend_from_slice(part);
    }
}

pub(super) fn push_number(out: &mut Vec<u8>, key: &str, value: u64) {
    push(out, key.as_bytes(), digits(value, &mut [0; 20]));
}

pub(super) fn push_time(out: &mut Vec<u8>, key: &str, time: Time) {
    push(out, key.as_bytes(), time.text(&mut [0; Time::LONGEST]));
}

/// A record of an extended header: its offset, its key, and the range of its value.
type Record<'a> = (usize, &'a [u8], Range<usize>);

/// Calls `take` for each record of a header that begins at the offset `start` of the archive. Stops
/// at a record without an end. Returns the first fault.
fn each<'a>(
    text: &'a [u8],
    start: u64,
    mut take: impl FnMut(Record<'a>) -> Result<(), &'static str>,
) -> Option<Fault> {
    let (mut at, mut fault) = (0, None);
    while at < text.len() {
        let (taken, end) = match first(text, at) {
            Some((key, value)) => {
                let end = value.end + 1;
                (take((at, key, value)), end)
            }
            None => {
                let what = "a record of an extended header has a wrong length";
                (Err(what), text.len())
            }
        };
        if let Err(what) = taken {
            let at = start + at as u64;
            fault.get_or_insert(Fault { at, what });
        }
        at = end;
    }
    fault
}

/// Parses the record at an offset of an extended header.
fn first(text: &[u8], at: usize) -> Option<(&[u8], Range<usize>)> {
    const LONGEST_LENGTH: usize = 10;
    let rest = text.get(at..)?;
    let blank = rest
        .iter()
        .take(LONGEST_LENGTH + 1)
        .position(|&byte| byte == b' ')?;
    let len = decimal(&rest[..blank])?;
    let record = rest.get(..usize::try_from(len).ok()?)?;
    let (b'\n', body) = record.split_last()? else {
        return None;
    };
    let body = body.get(blank + 1..)?;
    let equals = body
        .iter()
        .position(|&byte| byte == b'=')
        .filter(|&key| key > 0)?;
    let from = at + blank + 1 + equals + 1;
    Some((&body[..equals], from..at + record.len() - 1))
}

/// Parses a decimal number without a sign.
pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The records that a global header may set for all members.
#[derive(Clone, Debug, Default)]
pub(super) struct GlobalRecords {
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) uname: Option<Vec<u8>>,
    pub(super) gname: Option<Vec<u8>>,
    pub(super) mtime: Option<Time>,
    pub(super) atime: Option<Time>,
    pub(super) ctime: Option<Time>,
}

impl GlobalRecords {
    /// Stores the record if its key is one of these fields. An empty value removes a global
    /// header's value.
    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), &'static str> {
        match key {
            b"uid" => self.uid = id(value)?,
            b"gid" => self.gid = id(value)?,
            b"uname" => self.uname = name(value)?,
            b"gname" => self.gname = name(value)?,
            b"mtime" => self.mtime = time(value)?,
            b"atime" => self.atime = time(value)?,
            b"ctime" => self.ctime = time(value)?,
            _ => {}
        }
        Ok(())
    }
}

/// A fault that makes a member unreadable.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnreadableMember {
    pub(super) fault: Fault,
    /// Whether the fault is in the size of the member's data.
    pub(super) is_size: bool,
}

/// The records that apply to a member: of its extended header, and global ones.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) common: GlobalRecords,
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) major: Option<u32>,
    pub(super) minor: Option<u32>,
    pub(super) acl_access: Option<Vec<u8>>,
    pub(super) acl_default: Option<Vec<u8>>,
    pub(super) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Extended attributes in bsdtar's encoding (`LIBARCHIVE.xattr`). bsdtar writes `SCHILY.xattr`,
    /// too, but with names that only bsdtar decodes.
    pub(super) coded_xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) sparse: Sparse,
    /// Size of a sparse file of star, whose map is elsewhere.
    pub(super) star_size: Option<u64>,
    pub(super) dumpdir: Option<Vec<u8>>,
    pub(super) blake3: Option<[u8; 32]>,
    pub(super) unusable: Option<UnreadableMember>,
    /// Number of bytes of all records except dumpdirs and maps.
    len: usize,
}

/// GNU tar's records of a sparse file, in all versions of its format.
#[derive(Debug, Default)]
pub(super) struct Sparse {
    pub(super) major: Option<u64>,
    pub(super) minor: Option<u64>,
    pub(super) name: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    /// The map of the sparse file, in GNU tar's formats 0.0 and 0.1.
    pub(super) map: Option<Map>,
    /// Offset of an extent of a sparse file, until the record with its length follows.
    offset: Option<u64>,
}

impl Records {
    /// Starts with the records of global headers.
    pub(super) fn new(common: GlobalRecords) -> Records {
        Records {
            common,
            ..Records::default()
        }
    }

    /// Adds the records of an extended header at the offset `start` of the archive. Returns the
    /// first fault that does not make the member unusable; the faulty record is skipped.
    pub(super) fn add(&mut self, mut text: Vec<u8>, start: u64) -> Option<Fault> {
        let mut names = None;
        let fault = each(&text, start, |(at, key, value)| match key {
            b"GNU.dumpdir" if value.len() > dumpdir::MOST => {
                Err("a dumpdir is too long; it is skipped")
            }
            b"GNU.dumpdir" => {
                names = Some(value);
                Ok(())
            }
            _ => {
                let taken = self.take(key, text.get(value).unwrap_or_default());
                let (true, Err(what)) = (is_essential(key), taken) else {
                    return taken;
                };
                let at = start + at as u64;
                self.unusable.get_or_insert(UnreadableMember {
                    fault: Fault { at, what },
                    is_size: key == b"size",
                });
                Ok(())
            }
        });
        // The dumpdir may be long: move its bytes instead of copying them.
        if let Some(names) = names {
            text.truncate(names.end);
            text.drain(..names.start);
            self.dumpdir = Some(text);
        }
        fault
    }

    /// Adds an access control list that Solaris writes before the member: access and default list
    /// in one text.
    pub(super) fn acl(&mut self, both: Option<Vec<u8>>) {
        let Some(both) = both else { return };
        let (default, access): (Vec<&[u8]>, Vec<&[u8]>) = both
            .split(|&byte| byte == b',')
            .partition(|entry| entry.starts_with(b"default"));
        self.acl_access = (!access.is_empty()).then(|| access.join(&b','));
        self.acl_default = (!default.is_empty()).then(|| default.join(&b','));
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), &'static str> {
        if !is_map(key) {
            self.len += key.len() + value.len();
            if self.len > MOST_RECORDS {
                return Err("an extended header is too long");
            }
        }
        let text = |value: &[u8]| (!value.is_empty()).then(|| value.to_vec());
        match key {
            b"path" => self.path = name(value)?,
            b"linkpath" => self.link = name(value)?,
            b"size" => self.size = number(value)?,
            b"SCHILY.devmajor" => self.major = id(value)?,
            b"SCHILY.devminor" => self.minor = id(value)?,
            b"SCHILY.acl.access" => self.acl_access = text(value),
            b"SCHILY.acl.default" => self.acl_default = text(value),
            b"GNU.sparse.major" => self.sparse.major = number(value)?,
            b"GNU.sparse.minor" => self.sparse.minor = number(value)?,
            b"GNU.sparse.name" => self.sparse.name = name(value)?,
            b"GNU.sparse.size" | b"GNU.sparse.realsize" => self.sparse.size = number(value)?,
            b"SCHILY.realsize" => self.star_size = number(value)?,
            b"GNU.sparse.offset" => self.sparse.offset = number(value)?,
            b"GNU.sparse.numbytes" => self.sparse.extent(number(value)?)?,
            b"GNU.sparse.map" => self.sparse.list(value)?,
            b"SCHILY.acl.ace" | b"SCHILY.acl.nfs4" => {
                return Err("an access control list of NFSv4 is skipped");
            }
            b"RHT.security.selinux" => {
                // Add the NUL at the end of an SELinux label: GNU tar and bsdtar may omit it.
                let label = value.strip_suffix(b"\0").unwrap_or(value);
                let label = [label, b"\0"].concat();
                self.xattrs
                    .entry(b"security.selinux".to_vec())
                    .or_insert(label);
            }
            b"comment" => self.blake3 = checksum(value).or(self.blake3),
            _ => {
                if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
                    self.xattrs.insert(
                        attribute(unescape(name, |hex| matches!(hex, b'=' | b'%')))?,
                        value.to_vec(),
                    );
                } else if let Some(name) = key.strip_prefix(b"LIBARCHIVE.xattr.") {
                    let value = base64(value).ok_or("an extended attribute is not valid base64")?;
                    self.coded_xattrs
                        .insert(attribute(unescape(name, |_| true))?, value);
                } else {
                    self.common.take(key, value)?;
                }
            }
        }
        Ok(())
    }
}

impl Sparse {
    /// Adds an extent of a sparse file in GNU tar's format 0.0: its length, after the record with
    /// its offset.
    fn extent(&mut self, len: Option<u64>) -> Result<(), &'static str> {
        let extent = self
            .offset
            .take()
            .zip(len)
            .ok_or("the map of a sparse file has a length without an offset")?;
        self.map.get_or_insert_default().push(extent.0, extent.1)
    }

    /// Parses the map of a sparse file in GNU tar's format 0.1, which is a single record.
    fn list(&mut self, value: &[u8]) -> Result<(), &'static str> {
        const NO_NUMBER: &str = "invalid number in the map of a sparse file";
        let mut map = Map::default();
        let mut numbers = value
            .split(|&byte| byte == b',')
            .filter(|part| !part.is_empty())
            .map(decimal);
        while let Some(offset) = numbers.next() {
            let len = numbers
                .next()
                .ok_or("the map of a sparse file has an offset without a length")?;
            map.push(offset.ok_or(NO_NUMBER)?, len.ok_or(NO_NUMBER)?)?;
        }
        self.map = Some(map);
        Ok(())
    }

    /// Whether the map of a sparse file is at the beginning of its data: GNU tar's format 1.0.
    pub(super) fn map_is_in_data(&self) -> bool {
        self.major.is_some_and(|major| major >= 1)
    }
}

/// Global headers: records for all later members, the checksum of the previous member, the number
/// of the archive in a dump by several processes, and the ids of the archive and its base.
#[derive(Debug, Default)]
pub(super) struct Global {
    pub(super) common: GlobalRecords,
    pub(super) blake3: Option<[u8; 32]>,
    pub(super) part: Option<PartOfRun>,
    pub(super) lineage: Option<Lineage>,
}

impl Global {
    /// Continues with the records of earlier global headers.
    pub(super) fn new(common: GlobalRecords) -> Global {
        Global {
            common,
            ..Global::default()
        }
    }

    /// Adds the records of a header at the offset `start` of the archive; returns the first fault.
    pub(super) fn add(&mut self, text: &[u8], start: u64) -> Option<Fault> {
        each(text, start, |(_, key, value)| {
            let value = text.get(value).unwrap_or_default();
            match key {
                b"comment" => {
                    self.blake3 = checksum(value).or(self.blake3);
                    self.part = part_of_run(value).or(self.part.take());
                    self.lineage = lineage(value).or(self.lineage);
                }
                b"path" | b"linkpath" | b"size" => {
                    return Err("a global header has a name or a size; it is skipped");
                }
                _ => self.common.take(key, value)?,
            }
            Ok(())
        })
    }
}

/// Whether a record belongs to the map of a sparse file.
fn is_map(key: &[u8]) -> bool {
    matches!(
        key,
        b"GNU.sparse.map" | b"GNU.sparse.offset" | b"GNU.sparse.numbytes"
    )
}

/// Whether a member is unreadable without the record: its name, or its data.
fn is_essential(key: &[u8]) -> bool {
    matches!(key, b"path" | b"linkpath" | b"size") || key.starts_with(b"GNU.sparse.")
}

fn name(value: &[u8]) -> Result<Option<Vec<u8>>, &'static str> {
    if value.contains(&0) {
        return Err("a name contains a NUL");
    }
    if value.len() > MOST_NAME {
        return Err("a name is too long");
    }
    Ok((!value.is_empty()).then(|| value.to_vec()))
}

fn number(value: &[u8]) -> Result<Option<u64>, &'static str> {
    if value.is_empty() {
        return Ok(None);
    }
    let number = decimal(value).filter(|&number| i64::try_from(number).is_ok());
    let number = number.ok_or("invalid number in a record")?;
    Ok(Some(number))
}

fn id(value: &[u8]) -> Result<Option<u32>, &'static str> {
    let id = number(value)?.map(u32::try_from).transpose();
    id.map_err(|_| "an owner, group or device number is too large")
}

fn time(value: &[u8]) -> Result<Option<Time>, &'static str> {
    if value.is_empty() {
        return Ok(None);
    }
    let time = std::str::from_utf8(value)
        .ok()
        .and_then(|text| text.parse().ok());
    time.map(Some).ok_or("invalid time in a record")
}

/// Parses a comment with the number of the archive in a dump by several processes; `None` for other
/// comments.
fn part_of_run(comment: &[u8]) -> Option<PartOfRun> {
    let text = std::str::from_utf8(comment).ok()?.strip_prefix(PART)?;
    let (part, run) = text.split_once(" run=")?;
    let (number, of) = part.split_once('/')?;
    let (number, of) = (number.parse().ok()?, of.parse().ok()?);
    let run = run.to_owned();
    (number < of).then_some(PartOfRun { number, of, run })
}

/// Parses a comment with the ids of the archive and its base; `None` for other comments.
fn lineage(comment: &[u8]) -> Option<Lineage> {
    let text = std::str::from_utf8(comment).ok()?.strip_prefix(ARCHIVE)?;
    let (id, base) = match text.split_once(BASE) {
        None => (text, Base::Nothing),
        Some((id, UNKNOWN)) => (id, Base::Unknown),
        Some((id, base)) => (id, Base::Archive(base.parse::<ArchiveId>().ok()?)),
    };
    let id = id.parse().ok()?;
    Some(Lineage { id, base })
}

/// Parses a comment with a checksum; `None` for other comments.
fn checksum(comment: &[u8]) -> Option<[u8; 32]> {
    let digits: &[u8; 64] = comment.strip_prefix(CHECKSUM)?.try_into().ok()?;
    let mut sum = [0; 32];
    for (byte, [high, low]) in sum.iter_mut().zip(digits.as_chunks::<2>().0) {
        *byte = hex_byte(*high, *low)?;
    }
    Some(sum)
}

/// Checks the name of an extended attribute, which must not be empty or contain NUL.
fn attribute(name: Vec<u8>) -> Result<Vec<u8>, &'static str> {
    if name.is_empty() || name.contains(&0) {
        Err("invalid name of an extended attribute")
    } else {
        Ok(name)
    }
}

fn hex_byte(high: u8, low: u8) -> Option<u8> {
    let digit = |byte| char::from(byte).to_digit(16);
    Some((digit(high)? << 4 | digit(low)?) as u8)
}

/// Decodes `%XX` for bytes for which `is_escaped` is true.
fn unescape(name: &[u8], is_escaped: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [first, tail @ ..] = rest {
        let code = match tail {
            [high, low, ..] if *first == b'%' => hex_byte(*high, *low),
            _ => None,
        };
        let code = code.filter(|&byte| is_escaped(byte));
        out.push(code.unwrap_or(*first));
        rest = &rest[if code.is_some() { 3 } else { 1 }..];
    }
    out
}

/// Encodes the name of an extended attribute for a key, like GNU tar.
pub(super) fn escape(name: &[u8], key: &mut Vec<u8>) {
    for &byte in name {
        match byte {
            b'%' => key.extend_from_slice(b"%25"),
            b'=' => key.extend_from_slice(b"%3D"),
            _ => key.push(byte),
        }
    }
}

fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let text = text
        .strip_suffix(b"==")
        .or_else(|| text.strip_suffix(b"="))
        .unwrap_or(text);
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.chunks(4) {
        let mut bits = 0u32;
        for &byte in group {
            let digit = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(digit);
        }
        let [_, a, b, c] = (bits << (6 * (4 - group.len()))).to_be_bytes();
        out.extend_from_slice(&[a, b, c][..group.len() - 1]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_length_of_a_record_includes_its_own_digits() {
        for len in (0..200).chain(9980..10010) {
            let mut out = Vec::new();
            push(&mut out, b"k", &vec![b'v'; len]);
            assert_eq!(
                first(&out, 0),
                Some((&b"k"[..], out.len() - 1 - len..out.len() - 1))
            );
        }
    }

    #[test]
    fn malformed_records_are_refused() {
        for bad in [
            &b"8 a=b\n"[..],
            b"6 a=b",
            b" a=b\n",
            b"6 =ab\n",
            b"6 abc\n",
            b"0 a=b\n",
            b"99999999999 a=b\n",
            b"-6 a=b\n",
            b"2 a=b\n",
        ] {
            let text = [b"8 uid=5\n", bad].concat();
            let mut records = Records::default();
            let fault = records.add(text, 100).map(|fault| fault.at);
            assert_eq!((fault, records.common.uid), (Some(108), Some(5)), "{bad:?}");
        }
        assert_eq!(Records::default().add(b"6 a=b\n6 c=d\n".to_vec(), 0), None);
    }

    #[test]
    fn attributes_of_gnu_tar_and_bsdtar_are_read() {
        let mut text = Vec::new();
        push(&mut text, b"LIBARCHIVE.xattr.user.a%20b", b"eHl6IQ");
        push(&mut text, b"SCHILY.xattr.user.c%3Dd%41", b"\0\n=");
        push(&mut text, b"SCHILY.xattr.user.e", b"");
        let mut records = Records::default();
        assert_eq!(records.add(text, 0), None);
        let are = |map: &BTreeMap<Vec<u8>, Vec<u8>>, expected: &[(&[u8], &[u8])]| {
            assert!(
                map.iter()
                    .map(|(name, value)| (&name[..], &value[..]))
                    .eq(expected.iter().copied())
            );
        };
        are(
            &records.xattrs,
            &[(b"user.c=d%41", b"\0\n="), (b"user.e", b"")],
        );
        are(&records.coded_xattrs, &[(b"user.a b", b"xyz!")]);
    }

    #[test]
    fn only_checksum_comments_are_checksums() {
        let hex: String = (0..32).map(|n| format!("{n:02x}")).collect();
        assert_eq!(
            checksum(format!("blake3={hex}").as_bytes()).unwrap()[31],
            31
        );
        assert_eq!(checksum(format!("blake3={hex}0").as_bytes()), None);
        assert_eq!(checksum(b"0123456789abcdef0123456789abcdef01234567"), None);
    }

    proptest! {
        #[test]
        fn attribute_names_survive_escaping(name in proptest::collection::vec(1u8.., 1..40)) {
            let mut key = Vec::new();
            escape(&name, &mut key);
            prop_assert!(!key.contains(&b'='));
            prop_assert_eq!(unescape(&key, |hex| matches!(hex, b'=' | b'%')), name);
        }

        #[test]
        fn no_header_makes_it_panic(
            pieces in proptest::collection::vec((0..12usize, proptest::collection::vec(any::<u8>(), 0..20)), 0..8),
            tail in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let keys = ["path", "size", "mtime", "GNU.sparse.map", "GNU.sparse.offset", "GNU.sparse.numbytes", "comment",
                "SCHILY.xattr.x", "LIBARCHIVE.xattr.%4", "GNU.dumpdir", "uid", "x"];
            let mut text = Vec::new();
            pieces.iter().for_each(|(key, value)| push(&mut text, keys[*key].as_bytes(), value));
            text.extend(tail);
            let _ = Global::default().add(&text, 0);
            let _ = Records::default().add(text, 0);
        }
    }
}
