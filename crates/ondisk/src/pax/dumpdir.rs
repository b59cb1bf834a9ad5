//! The content of a directory in an incremental archive: the value of `GNU.dumpdir`. Each name is
//! preceded by a letter and followed by a NUL; one more NUL ends the list. [GNU tar's
//! dumpdir](https://www.gnu.org/software/tar/manual/html_section/Dumpdir.html)

/// Maximum length of a dumpdir in bytes. A million names of thirty bytes fit.
pub const MOST: usize = 32 << 20;

/// The letter before a name in a dumpdir.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Code {
    /// The file is in this archive.
    Y = b'Y',
    /// The file is in an earlier archive.
    N = b'N',
    /// The name is a directory.
    D = b'D',
    /// A directory was renamed: its old path in the archive; [`Code::T`] with the new path follows.
    /// An empty path is the temporary directory.
    R = b'R',
    /// The new path of a renamed directory.
    T = b'T',
    /// A temporary directory in this one, for directories that swap names.
    X = b'X',
}

impl Code {
    /// The letter of this code, as a byte.
    pub fn letter(self) -> u8 {
        self as u8
    }

    fn from_letter(letter: u8) -> Option<Code> {
        [Code::Y, Code::N, Code::D, Code::R, Code::T, Code::X]
            .into_iter()
            .find(|code| code.letter() == letter)
    }
}

/// Encodes a `GNU.dumpdir`. Names must not contain NUL.
pub fn encode<'a>(entries: impl IntoIterator<Item = (Code, &'a [u8])>) -> Vec<u8> {
    let mut out = Vec::new();
    for (code, name) in entries {
        out.push(code.letter());
        out.extend_from_slice(name);
        out.push(0);
    }
    out.push(0);
    out
}

/// Decodes a `GNU.dumpdir`; `None` if it has an unknown letter, an invalid file name, an incomplete
/// rename, or no end.
pub fn entries(dumpdir: &[u8]) -> Option<Entries<'_>> {
    let mut entries = Entries { rest: dumpdir };
    let whole = entries.clone();
    let mut is_renamed = false;
    while entries.rest != b"\0" {
        let (code, name) = entries.next()?;
        let is_sound = match code {
            Code::Y | Code::N | Code::D => {
                !name.is_empty() && !name.contains(&b'/') && name != b"." && name != b".."
            }
            Code::R | Code::T | Code::X => true,
        };
        if !is_sound || is_renamed != (code == Code::T) {
            return None;
        }
        is_renamed = code == Code::R;
    }
    (!is_renamed).then_some(whole)
}

/// Iterates over the names in a dumpdir; see [`entries`].
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Entries<'a> {
    type Item = (Code, &'a [u8]);

    fn next(&mut self) -> Option<(Code, &'a [u8])> {
        let (&letter, rest) = self.rest.split_first()?;
        let code = Code::from_letter(letter)?;
        let end = rest.iter().position(|&byte| byte == 0)?;
        self.rest = &rest[end + 1..];
        Some((code, &rest[..end]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_dumpdir_is_encoded_as_by_gnu_tar() {
        let all: [(Code, &[u8]); 5] = [
            (Code::Y, b"new"),
            (Code::N, b"old"),
            (Code::D, b"sub"),
            (Code::R, b"top/a"),
            (Code::T, b"top/b"),
        ];
        let text = encode(all);
        assert_eq!(text, b"Ynew\0Nold\0Dsub\0Rtop/a\0Ttop/b\0\0");
        assert!(entries(&text).unwrap().eq(all));
        assert_eq!(entries(b"\0").unwrap().count(), 0);
    }

    #[test]
    fn malformed_dumpdirs_are_refused() {
        for bad in [
            &b""[..],
            b"Ya\0",
            b"Ya",
            b"Qa\0\0",
            b"Y\0\0",
            b"Ya/b\0\0",
            b"D..\0\0",
            b"Ra\0\0",
            b"Ta\0\0",
            b"Ra\0Yb\0\0",
            b"\0\0",
            b"Ya\0\0Yb\0\0",
        ] {
            assert!(entries(bad).is_none(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), likely in "[YNDRTXab/.\0]{0,40}") {
            for text in [&bytes[..], likely.as_bytes()] {
                if let Some(found) = entries(text) {
                    prop_assert_eq!(encode(found), text);
                }
            }
        }
    }
}
