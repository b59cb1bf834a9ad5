//! Encryption of everything in a repository except key files: a nonce, the ciphertext by AES-256 in
//! counter mode, and a Poly1305-AES tag (`doc/design.rst`, "Keys, Encryption and MAC").

use std::io::Read;

use aes256ctr_poly1305aes::aead::AeadInPlace;
use aes256ctr_poly1305aes::{Aes256CtrPoly1305Aes, Key, Nonce, Tag};
use catalog::remote::MOST_BYTES;
use gate::Errno;
use rand::Rng;
use zstd::Decoder;
use zstd::bulk;

/// The length of a key in bytes.
pub(crate) const KEY: usize = 64;
const NONCE: usize = 16;
const TAG: usize = 16;
/// The number of bytes that encryption adds.
pub(crate) const OVERHEAD: usize = NONCE + TAG;
/// The first byte of a zstd-compressed file, in repositories of version 2.
const COMPRESSED: u8 = 2;

/// Encrypts and decrypts with the key of a repository.
pub(crate) struct Cipher(Aes256CtrPoly1305Aes);

impl Cipher {
    /// A cipher with the AES key, and the parts k and r of the Poly1305-AES key.
    pub(crate) fn new(key: &[u8; KEY]) -> Cipher {
        Cipher(Aes256CtrPoly1305Aes::new(Key::from_slice(key)))
    }

    /// Appends the encrypted form of `plain`.
    ///
    /// # Errors
    /// If `plain` is longer than the cipher allows.
    pub(crate) fn seal(&self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), Errno> {
        let mut nonce = Nonce::default();
        rand::rng().fill_bytes(&mut nonce);
        out.reserve(plain.len() + OVERHEAD);
        out.extend_from_slice(&nonce);
        let begin = out.len();
        out.extend_from_slice(plain);
        let sealed = &mut out[begin..];
        let tag = self.0.encrypt_in_place_detached(&nonce, &[], sealed);
        out.extend_from_slice(&tag.map_err(|_| Errno::EFBIG)?);
        Ok(())
    }

    /// Decrypts in place. `None` if the bytes were not encrypted with this key.
    pub(crate) fn open<'a>(&self, sealed: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let (nonce, rest) = sealed.split_at_mut_checked(NONCE)?;
        let (bytes, tag) = rest.split_at_mut_checked(rest.len().checked_sub(TAG)?)?;
        let (nonce, tag) = (Nonce::from_slice(nonce), Tag::from_slice(tag));
        let opened = self.0.decrypt_in_place_detached(nonce, &[], bytes, tag);
        opened.is_ok().then_some(bytes)
    }

    /// Encrypts a JSON file; `level` is the zstd level, or `None`.
    ///
    /// # Errors
    /// If the file is too long.
    pub(crate) fn seal_file(&self, json: &[u8], level: Option<i32>) -> Result<Vec<u8>, Errno> {
        let mut sealed = Vec::new();
        match level {
            None => self.seal(json, &mut sealed)?,
            Some(level) => {
                let packed = bulk::compress(json, level).map_err(|_| Errno::ENOMEM)?;
                self.seal(&[&[COMPRESSED], &packed[..]].concat(), &mut sealed)?;
            }
        }
        Ok(sealed)
    }

    /// Decrypts a JSON file. `None` if it is damaged.
    pub(crate) fn open_file(&self, sealed: &mut [u8]) -> Option<Vec<u8>> {
        match self.open(sealed)? {
            [COMPRESSED, packed @ ..] => {
                let mut plain = Vec::new();
                let decoder = Decoder::new(&*packed).ok()?;
                let most = MOST_BYTES as u64 + 1;
                let read = decoder.take(most).read_to_end(&mut plain).ok()?;
                (read <= MOST_BYTES).then_some(plain)
            }
            plain => Some(plain.to_vec()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A cipher with an arbitrary key.
    pub(crate) fn cipher() -> Cipher {
        Cipher::new(&std::array::from_fn(|at| at as u8))
    }

    #[test]
    fn what_was_sealed_is_opened() {
        let cipher = cipher();
        for plain in [&b""[..], b"a", &[7; 100_000]] {
            let mut sealed = b"before".to_vec();
            cipher.seal(plain, &mut sealed).unwrap();
            let sealed = &mut sealed[6..];
            assert_eq!(sealed.len(), plain.len() + OVERHEAD);
            let mut damaged = sealed.to_vec();
            *damaged.last_mut().unwrap() ^= 1;
            assert!(cipher.open(&mut damaged).is_none());
            assert_eq!(cipher.open(sealed).as_deref(), Some(plain));
        }
        assert!(cipher.open(&mut [0; OVERHEAD - 1]).is_none());
    }

    #[test]
    fn files_are_read_with_and_without_compression() {
        let cipher = cipher();
        let json = format!("[{}]", ["1"; 1000].join(","));
        let length = |level| {
            let mut sealed = cipher.seal_file(json.as_bytes(), level).unwrap();
            let length = sealed.len();
            assert_eq!(cipher.open_file(&mut sealed).unwrap(), json.as_bytes());
            length
        };
        assert_eq!(length(None), json.len() + OVERHEAD);
        assert!(length(Some(0)) < 200);
    }
}
