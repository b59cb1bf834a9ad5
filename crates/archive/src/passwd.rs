//! Reads users and groups from /etc/passwd and /etc/group. Other name services need the C library,
//! whose system calls fathom cannot count.

use gate::file::Reader;

/// The users in the first `most` bytes of /etc/passwd, and the groups in those of /etc/group; none
/// if the file cannot be read.
pub(crate) fn read(most: u64) -> [Vec<(Vec<u8>, u32)>; 2] {
    [b"/etc/passwd".as_slice(), b"/etc/group"].map(|path| parse(&read_head(path, most)))
}

/// The first `most` bytes of a file; empty if the file cannot be read.
pub(crate) fn read_head(path: &[u8], most: u64) -> Vec<u8> {
    let Ok(reader) = Reader::open(path) else {
        return Vec::new();
    };
    let mut bytes = vec![0; reader.len().min(most) as usize];
    let read = reader.read_at(0, &mut bytes).unwrap_or(0);
    bytes.truncate(read);
    bytes
}

/// Parses /etc/passwd or /etc/group: the first field of a line is the name, the third the number.
fn parse(text: &[u8]) -> Vec<(Vec<u8>, u32)> {
    let entry = |line: &[u8]| {
        let mut fields = line.split(|&b| b == b':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        let number = std::str::from_utf8(fields.nth(1)?).ok()?.parse().ok()?;
        Some((name.to_vec(), number))
    };
    text.split(|&b| b == b'\n').filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn lines_of_passwd() {
        let text = b"root:x:0:0:root:/root:/bin/sh\n# a comment\ntoor:x:0:0::/:\nodd\nbad:x:many:\n\n:x:5:\nx:*:7";
        let expected = [("root", 0), ("toor", 0), ("x", 7)];
        assert_eq!(
            parse(text),
            expected.map(|(name, number)| (name.as_bytes().to_vec(), number))
        );
    }
}
