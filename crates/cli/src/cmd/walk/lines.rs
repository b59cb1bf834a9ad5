//! Prints the entries of a walk, one per line: paths, JSON objects or CSV rows. Hand-written,
//! because a walk prints millions of entries: the escaped path of a directory is computed once for
//! all its entries.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gate::fs::Attributes;
use ondisk::Dev;
use walk::entry::Time;
use walk::{Fields, FileType, Meta};

use crate::args::output::Format;

/// The fields of an entry that a format prints.
pub(super) fn fields(format: Format) -> Fields {
    match format {
        Format::Paths | Format::Paths0 => Fields::NAME,
        _ => Fields::all(),
    }
}

/// The header line of a format.
pub(super) fn head(format: Format) -> &'static [u8] {
    match format {
        Format::Csv => {
            b"path,path_b64,type,ino,mode,nlink,uid,gid,size,blocks,rdev,dev,mount,atime,mtime,ctime,btime,\
              attributes,generation,xattrs\n"
        }
        _ => b"",
    }
}

const ATTRIBUTES: [(Attributes, &str); 6] = [
    (Attributes::COMPRESSED, "compressed"),
    (Attributes::IMMUTABLE, "immutable"),
    (Attributes::APPEND, "append"),
    (Attributes::NODUMP, "nodump"),
    (Attributes::ENCRYPTED, "encrypted"),
    (Attributes::VERITY, "verity"),
];

/// The names of the inode attributes that are set, such as `immutable`.
fn attributes(meta: &Meta) -> impl Iterator<Item = &'static str> {
    let set = meta.attributes;
    let attributes = ATTRIBUTES.iter();
    let set = attributes.filter(move |(attribute, _)| set & attribute.bits() != 0);
    set.map(|(_, name)| *name)
}

/// The device number of a device file.
fn rdev(meta: &Meta) -> Option<Dev> {
    matches!(meta.kind(), FileType::Block | FileType::Char).then_some(meta.rdev)
}

/// The id of the mount, if the kernel reports it.
fn mount(meta: &Meta) -> Option<u64> {
    Some(meta.mount).filter(|id| *id != 0)
}

/// Formats entries as lines in a buffer.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    format: Format,
    /// Complete lines. The caller drains the buffer.
    pub(super) buffer: Vec<u8>,
    /// The path of the current directory, with a slash at its end.
    dir: Vec<u8>,
    /// `dir`, escaped for JSON.
    dir_json: Vec<u8>,
    /// Whether `dir` is valid UTF-8.
    is_utf8: bool,
    /// Whether `dir` needs no quotes in CSV.
    is_plain: bool,
}

impl Lines {
    pub(super) fn new(format: Format) -> Lines {
        Lines {
            format,
            buffer: Vec::new(),
            dir: Vec::new(),
            dir_json: Vec::new(),
            is_utf8: true,
            is_plain: true,
        }
    }

    /// Sets the directory of the following entries.
    pub(super) fn enter(&mut self, path: &[u8]) {
        self.dir.clear();
        self.dir.extend_from_slice(path);
        if !path.is_empty() && !path.ends_with(b"/") {
            self.dir.push(b'/');
        }
        match self.format {
            Format::Ndjson => {
                self.dir_json.clear();
                self.is_utf8 = json_text(&mut self.dir_json, &self.dir);
            }
            Format::Csv => self.is_plain = is_plain(&self.dir),
            _ => {}
        }
    }

    /// Adds a start directory of the walk, by its path.
    pub(super) fn top(&mut self, path: &[u8], meta: &Meta) {
        self.dir.clear();
        self.dir_json.clear();
        (self.is_utf8, self.is_plain) = (true, true);
        self.entry(path, meta);
    }

    /// Adds an entry of the current directory.
    #[inline]
    pub(super) fn entry(&mut self, name: &[u8], meta: &Meta) {
        match self.format {
            Format::Paths | Format::Paths0 => {
                self.buffer.extend_from_slice(&self.dir);
                self.buffer.extend_from_slice(name);
                let end = if self.format == Format::Paths {
                    b'\n'
                } else {
                    0
                };
                self.buffer.push(end);
            }
            Format::Ndjson => self.ndjson(name, meta),
            _ => self.csv(name, meta),
        }
    }

    fn ndjson(&mut self, name: &[u8], meta: &Meta) {
        let out = &mut self.buffer;
        out.extend_from_slice(b"{\"path\":\"");
        out.extend_from_slice(&self.dir_json);
        let is_utf8 = json_text(out, name) && self.is_utf8;
        if !is_utf8 {
            out.extend_from_slice(b"\",\"path_b64\":\"");
            base64(out, &self.dir, name);
        }
        text(out, b"\",\"type\":\"", meta.kind().name());
        number(out, b"\",\"ino\":", meta.ino);
        out.extend_from_slice(b",\"mode\":\"");
        octal(out, meta.mode & 0o7777);
        number(out, b"\",\"nlink\":", meta.nlink.into());
        number(out, b",\"uid\":", meta.uid.into());
        number(out, b",\"gid\":", meta.gid.into());
        number(out, b",\"size\":", meta.size);
        number(out, b",\"blocks\":", meta.blocks);
        match rdev(meta) {
            Some(rdev) => {
                out.extend_from_slice(b",\"rdev\":\"");
                device(out, rdev);
                out.extend_from_slice(b"\",\"dev\":\"");
            }
            None => out.extend_from_slice(b",\"rdev\":null,\"dev\":\""),
        }
        device(out, meta.dev);
        match mount(meta) {
            Some(id) => number(out, b"\",\"mount\":", id),
            None => out.extend_from_slice(b"\",\"mount\":null"),
        }
        out.extend_from_slice(b",\"atime\":\"");
        time(out, meta.atime);
        out.extend_from_slice(b"\",\"mtime\":\"");
        time(out, meta.mtime);
        out.extend_from_slice(b"\",\"ctime\":\"");
        time(out, meta.ctime);
        match meta.btime {
            Some(btime) => {
                out.extend_from_slice(b"\",\"btime\":\"");
                time(out, btime);
                out.extend_from_slice(b"\",\"attributes\":[");
            }
            None => out.extend_from_slice(b"\",\"btime\":null,\"attributes\":["),
        }
        for (at, name) in attributes(meta).enumerate() {
            text(out, if at > 0 { b",\"" } else { b"\"" }, name);
            out.push(b'"');
        }
        match meta.generation {
            Some(generation) => number(out, b"],\"generation\":", generation.into()),
            None => out.extend_from_slice(b"],\"generation\":null"),
        }
        out.extend_from_slice(match meta.xattrs {
            Some(true) => b",\"xattrs\":true}\n",
            Some(false) => b",\"xattrs\":false}\n",
            None => b",\"xattrs\":null}\n",
        });
    }

    fn csv(&mut self, name: &[u8], meta: &Meta) {
        let out = &mut self.buffer;
        if self.is_plain && is_plain(name) {
            out.extend_from_slice(&self.dir);
            out.extend_from_slice(name);
            out.push(b',');
        } else {
            odd_csv_path(out, &self.dir, name);
        }
        text(out, b",", meta.kind().name());
        number(out, b",", meta.ino);
        out.push(b',');
        octal(out, meta.mode & 0o7777);
        for id in [meta.nlink, meta.uid, meta.gid] {
            number(out, b",", id.into());
        }
        number(out, b",", meta.size);
        number(out, b",", meta.blocks);
        out.push(b',');
        if let Some(rdev) = rdev(meta) {
            device(out, rdev);
        }
        out.push(b',');
        device(out, meta.dev);
        out.push(b',');
        if let Some(id) = mount(meta) {
            number(out, b"", id);
        }
        for at in [meta.atime, meta.mtime, meta.ctime] {
            out.push(b',');
            time(out, at);
        }
        out.push(b',');
        if let Some(btime) = meta.btime {
            time(out, btime);
        }
        out.push(b',');
        for (at, name) in attributes(meta).enumerate() {
            text(out, if at > 0 { b" " } else { b"" }, name);
        }
        out.push(b',');
        if let Some(generation) = meta.generation {
            number(out, b"", generation.into());
        }
        out.extend_from_slice(match meta.xattrs {
            Some(true) => b",true\n",
            Some(false) => b",false\n",
            None => b",\n",
        });
    }
}

#[inline]
fn text(out: &mut Vec<u8>, before: &[u8], text: &str) {
    out.extend_from_slice(before);
    out.extend_from_slice(text.as_bytes());
}

/// The CSV fields `path` and `path_b64` of a path that needs quotes or is not UTF-8.
#[cold]
fn odd_csv_path(out: &mut Vec<u8>, dir: &[u8], name: &[u8]) {
    let mut bytes = dir.iter().chain(name);
    let quoted = bytes.any(|b| matches!(b, b'"' | b',' | b'\n' | b'\r'));
    if quoted {
        out.push(b'"');
    }
    let mut is_utf8 = true;
    for chunk in [dir, name].into_iter().flat_map(|part| part.utf8_chunks()) {
        for piece in chunk.valid().split_inclusive('"') {
            text(out, b"", piece);
            if piece.ends_with('"') {
                out.push(b'"');
            }
        }
        if !chunk.invalid().is_empty() {
            is_utf8 = false;
            text(out, b"", "\u{fffd}");
        }
    }
    if quoted {
        out.push(b'"');
    }
    out.push(b',');
    if !is_utf8 {
        base64(out, dir, name);
    }
}

/// Whether a name needs no escapes in JSON and no quotes in CSV.
#[inline]
fn is_plain(name: &[u8]) -> bool {
    name.iter()
        .all(|&b| matches!(b, b' '..=b'~') && b != b'"' && b != b'\\' && b != b',')
}

fn base64(out: &mut Vec<u8>, dir: &[u8], name: &[u8]) {
    out.extend_from_slice(STANDARD.encode([dir, name].concat()).as_bytes());
}

/// Appends a name to a JSON string, lossily if it is not UTF-8. Returns whether it is UTF-8.
#[inline]
fn json_text(out: &mut Vec<u8>, name: &[u8]) -> bool {
    if is_plain(name) {
        out.extend_from_slice(name);
        return true;
    }
    odd_json_text(out, name)
}

#[cold]
fn odd_json_text(out: &mut Vec<u8>, name: &[u8]) -> bool {
    let mut is_utf8 = true;
    for chunk in name.utf8_chunks() {
        escape_json(out, chunk.valid().as_bytes());
        if !chunk.invalid().is_empty() {
            is_utf8 = false;
            text(out, b"", "\u{fffd}");
        }
    }
    is_utf8
}

/// Appends text to a JSON string.
pub(super) fn escape_json(out: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..b' ' | 0x7f => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
}

/// The two digits of every number below 100.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut n = 0;
    while n < 100 {
        pairs[n] = [b'0' + n as u8 / 10, b'0' + n as u8 % 10];
        n += 1;
    }
    pairs
};

/// Writes a number right-aligned into `digits`. Returns the index of its first digit.
#[inline]
fn decimal(digits: &mut [u8; 20], mut n: u64) -> usize {
    let mut at = digits.len();
    while n >= 100 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(n % 100) as usize]);
        n /= 100;
    }
    if n >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[n as usize]);
    } else {
        at -= 1;
        digits[at] = b'0' + n as u8;
    }
    at
}

#[inline]
fn number(out: &mut Vec<u8>, before: &[u8], n: u64) {
    let mut digits = [0; 20];
    let at = decimal(&mut digits, n);
    out.extend_from_slice(before);
    out.extend_from_slice(&digits[at..]);
}

#[inline]
fn octal(out: &mut Vec<u8>, mode: u32) {
    out.extend_from_slice(&[9, 6, 3, 0].map(|shift| b'0' + (mode >> shift & 7) as u8));
}

#[inline]
fn device(out: &mut Vec<u8>, dev: Dev) {
    number(out, b"", dev.major.into());
    number(out, b":", dev.minor.into());
}

#[inline]
fn time(out: &mut Vec<u8>, time: Time) {
    let mut tail = *b".000000000";
    let mut rest = time.nsec % 1_000_000_000;
    for at in [8, 6, 4, 2] {
        tail[at..at + 2].copy_from_slice(&PAIRS[(rest % 100) as usize]);
        rest /= 100;
    }
    tail[1] = b'0' + rest as u8;
    let sign: &[u8] = if time.sec < 0 { b"-" } else { b"" };
    number(out, sign, time.sec.unsigned_abs());
    out.extend_from_slice(&tail);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn meta() -> Meta {
        let time = |sec, nsec| Time { sec, nsec };
        Meta {
            ino: 7,
            mode: 0o104_755,
            nlink: 1,
            uid: 1000,
            gid: 100,
            size: 5,
            blocks: 8,
            dev: Dev::new(8, 1),
            mount: 29,
            atime: time(-2, 500_000_000),
            mtime: time(1_700_000_000, 1),
            attributes: (Attributes::IMMUTABLE | Attributes::NODUMP).bits(),
            xattrs: Some(false),
            ..Meta::default()
        }
    }

    fn line(format: Format, dir: &[u8], name: &[u8], meta: &Meta) -> Vec<u8> {
        let mut lines = Lines::new(format);
        lines.enter(dir);
        lines.entry(name, meta);
        lines.buffer
    }

    /// Parses the fields of a CSV record (RFC 4180).
    fn fields(record: &[u8]) -> Vec<Vec<u8>> {
        let mut fields = vec![Vec::new()];
        let (mut quoted, mut bytes) = (false, record.iter().copied().peekable());
        while let Some(b) = bytes.next() {
            match b {
                b'"' if quoted && bytes.peek() == Some(&b'"') => {
                    fields.last_mut().unwrap().push(bytes.next().unwrap())
                }
                b'"' => quoted = !quoted,
                b',' if !quoted => fields.push(Vec::new()),
                b'\n' if !quoted => assert_eq!(bytes.peek(), None, "more than one record"),
                _ => fields.last_mut().unwrap().push(b),
            }
        }
        fields
    }

    #[test]
    fn ndjson_has_every_field() {
        let value: Value =
            serde_json::from_slice(&line(Format::Ndjson, b"a/", b"b", &meta())).unwrap();
        let expected = json!({
            "path": "a/b", "type": "file", "ino": 7, "mode": "4755", "nlink": 1, "uid": 1000, "gid": 100, "size": 5,
            "blocks": 8, "rdev": null, "dev": "8:1", "mount": 29, "atime": "-2.500000000",
            "mtime": "1700000000.000000001", "ctime": "0.000000000", "btime": null,
            "attributes": ["immutable", "nodump"], "generation": null, "xattrs": false
        });
        assert_eq!(value, expected);
        let device = Meta {
            mode: 0o20_600,
            rdev: Dev::new(1, 3),
            mount: 0,
            btime: Some(Time::new(i64::MIN, 999_999_999)),
            attributes: 0,
            generation: Some(u32::MAX),
            xattrs: None,
            ..meta()
        };
        let value: Value =
            serde_json::from_slice(&line(Format::Ndjson, b"/", b"\xff\n", &device)).unwrap();
        assert_eq!(value["path"], "/\u{fffd}\n");
        assert_eq!(value["path_b64"], STANDARD.encode(b"/\xff\n"));
        assert_eq!(
            (&value["rdev"], &value["generation"]),
            (&json!("1:3"), &json!(u32::MAX))
        );
        assert_eq!(value["btime"], "-9223372036854775808.999999999");
    }

    #[test]
    fn csv_header_matches_the_columns() {
        let record = fields(&line(Format::Csv, b"", b"a,\"b\"", &meta()));
        let head = fields(head(Format::Csv));
        assert_eq!(head.len(), record.len());
        let at =
            |name: &[u8]| record[head.iter().position(|head| head == name).unwrap()].as_slice();
        assert_eq!(
            (at(b"path"), at(b"path_b64"), at(b"mode")),
            (&b"a,\"b\""[..], &b""[..], &b"4755"[..])
        );
        assert_eq!(
            (at(b"atime"), at(b"btime"), at(b"attributes")),
            (&b"-2.500000000"[..], &b""[..], &b"immutable nodump"[..])
        );
    }

    #[test]
    fn top_directory_is_printed_as_given() {
        let mut lines = Lines::new(Format::Paths);
        lines.top(b"a/", &meta());
        lines.enter(b"a/");
        lines.entry(b"x", &meta());
        lines.enter(b"a/x");
        lines.entry(b"y\n", &meta());
        assert_eq!(lines.buffer, b"a/\na/x\na/x/y\n\n");
    }

    #[test]
    fn numbers() {
        for n in [0, 9, 10, 99, 100, 101, 12_345, u64::MAX] {
            let mut out = Vec::new();
            number(&mut out, b"", n);
            assert_eq!(out, n.to_string().as_bytes());
        }
    }

    proptest! {
        #[test]
        fn any_name_can_be_read_back(dir in proptest::collection::vec(any::<u8>(), 0..40),
                            name in proptest::collection::vec(any::<u8>(), 1..40)) {
            let mut path = dir.clone();
            if !dir.is_empty() && !dir.ends_with(b"/") {
                path.push(b'/');
            }
            path.extend(&name);
            let object = line(Format::Ndjson, &dir, &name, &meta());
            prop_assert_eq!(object.iter().position(|&b| b == b'\n'), Some(object.len() - 1));
            let value: Value = serde_json::from_slice(&object).unwrap();
            let record = fields(&line(Format::Csv, &dir, &name, &meta()));
            prop_assert_eq!(record.len(), fields(head(Format::Csv)).len());
            let lossy = [&path[..path.len() - name.len()], &name].map(String::from_utf8_lossy).concat();
            prop_assert_eq!(value["path"].as_str(), Some(&lossy[..]));
            prop_assert_eq!(&record[0], lossy.as_bytes());
            match std::str::from_utf8(&path) {
                Ok(_) => prop_assert!(value.get("path_b64").is_none() && record[1].is_empty()),
                Err(_) => {
                    let exact = STANDARD.encode(&path);
                    prop_assert_eq!(value["path_b64"].as_str(), Some(&exact[..]));
                    prop_assert_eq!(&record[1], exact.as_bytes());
                }
            }
        }

        #[test]
        fn any_time(seconds: i64, nanos in 0..1_000_000_000_u32) {
            let mut out = Vec::new();
            time(&mut out, Time::new(seconds, nanos));
            prop_assert_eq!(String::from_utf8(out).unwrap(), format!("{seconds}.{nanos:09}"));
        }
    }
}
