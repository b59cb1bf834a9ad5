//! Ids of blobs and files: the SHA-256 of their contents.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

/// The SHA-256 of a blob or file.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Id([u8; 32]);

pub(crate) type IdSet = HashSet<Id, BuildHasherDefault<FirstBytes>>;
/// A map with ids as keys.
pub(crate) type IdMap<T> = HashMap<Id, T, BuildHasherDefault<FirstBytes>>;

impl Id {
    /// The id of a blob or file with these contents.
    pub(crate) fn hash(contents: &[u8]) -> Id {
        Id(Sha256::digest(contents).into())
    }

    /// Parses an id in hexadecimal digits.
    pub(crate) fn parse(digits: &[u8]) -> Option<Id> {
        let (pairs, []) = digits.as_chunks::<2>() else {
            return None;
        };
        let mut id = Id::default();
        if pairs.len() != id.0.len() {
            return None;
        }
        let mut wrong = 0;
        for (byte, [high, low]) in id.0.iter_mut().zip(pairs) {
            let (high, low) = (VALUES[usize::from(*high)], VALUES[usize::from(*low)]);
            wrong |= high | low;
            *byte = high << 4 | low & 15;
        }
        (wrong < 16).then_some(id)
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Appends the id in hexadecimal digits.
    pub(crate) fn write_hex(&self, out: &mut Vec<u8>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        out.extend(self.0.iter().flat_map(|byte| {
            [
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 15)],
            ]
        }));
    }
}

impl From<Sha256> for Id {
    fn from(hash: Sha256) -> Id {
        Id(hash.finalize().into())
    }
}

/// The values of hexadecimal digits, 16 for other bytes. A table makes parsing fast: an index has
/// two million digits per 30,000 blobs.
const VALUES: [u8; 256] = {
    let mut values = [16; 256];
    let mut value = 0;
    while value < 16 {
        values[b"0123456789abcdef"[value] as usize] = value as u8;
        values[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    values
};

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Hash for Id {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0);
    }
}

/// Hashes an id by its first bytes, which are uniformly distributed already.
#[derive(Default)]
pub(crate) struct FirstBytes(u64);

impl Hasher for FirstBytes {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            self.0 = u64::from_le_bytes(*first);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
        struct Digits;

        impl Visitor<'_> for Digits {
            type Value = Id;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("64 hexadecimal digits")
            }

            fn visit_str<E: Error>(self, digits: &str) -> Result<Id, E> {
                Id::parse(digits.as_bytes()).ok_or_else(|| E::custom("no id"))
            }
        }

        deserializer.deserialize_str(Digits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_hashes_in_hexadecimal() {
        let digits = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let id = Id::hash(b"abc");
        assert_eq!(id.to_string(), digits);
        let mut written = Vec::new();
        id.write_hex(&mut written);
        assert_eq!(written, digits.as_bytes());
        assert_eq!(Id::parse(digits.as_bytes()), Some(id));
        let json = format!("\"{digits}\"");
        assert_eq!(serde_json::from_str::<Id>(&json).ok(), Some(id));
        assert_eq!(serde_json::to_string(&id).ok(), Some(json));
        assert_eq!(Id::parse(&digits.as_bytes()[1..]), None);
        assert_eq!(Id::parse(&[b'g'; 64]), None);
    }
}
