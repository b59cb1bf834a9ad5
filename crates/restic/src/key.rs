//! The keys of a repository. Each file in `keys` contains the master key, encrypted with a password
//! (`doc/design.rst`, "Keys, Encryption and MAC"). A password is any byte string, and may be empty.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use scrypt::{Params, scrypt};
use serde::Deserialize;

use crate::error::Error;
use crate::repository::RepositoryFiles;
use crate::repository_file::RepositoryFile;
use crate::seal::{Cipher, KEY};

/// The JSON of a key file.
#[derive(Deserialize)]
struct KeyFile {
    kdf: String,
    #[serde(rename = "N")]
    n: u64,
    r: u32,
    p: u32,
    salt: String,
    data: String,
}

/// The master key: the decrypted data of a key file. Its parts are in base64.
#[derive(Deserialize)]
struct MasterKey {
    encrypt: String,
    mac: Mac,
}

/// The parts k and r of the Poly1305-AES key, in base64.
#[derive(Deserialize)]
struct Mac {
    k: String,
    r: String,
}

/// The cipher of a repository, whose master key is in a key file that the password decrypts. Key
/// files whose names begin with `hint` are tried first.
///
/// # Errors
/// If no key file has this password; or one is malformed or cannot be read.
pub(crate) fn open_key(
    files: &RepositoryFiles,
    password: &[u8],
    hint: &str,
) -> Result<Cipher, Error> {
    let mut ids = files.list(RepositoryFile::Key)?;
    if !hint.is_empty() {
        ids.sort_by_key(|id| !id.to_string().starts_with(hint));
    }
    /// Maximum number of keys tried: each may take a minute. restic has the same limit.
    const MOST_KEYS: usize = 20;
    for id in ids.into_iter().take(MOST_KEYS) {
        let bytes = files.read(RepositoryFile::Key, &id)?;
        let bad = || Error::BadKey(RepositoryFile::Key.path(&id));
        let file = serde_json::from_slice::<KeyFile>(&bytes).map_err(|_| bad())?;
        let (cipher, mut data) = file.cipher(password).ok_or_else(bad)?;
        if let Some(json) = cipher.open(&mut data) {
            let key = serde_json::from_slice::<MasterKey>(json).map_err(|_| bad())?;
            return key.cipher().ok_or_else(bad);
        }
    }
    Err(Error::WrongPassword)
}

impl MasterKey {
    /// The cipher with the master key; `None` if a part is not base64, or has a wrong length.
    fn cipher(&self) -> Option<Cipher> {
        let mut key = Vec::with_capacity(KEY);
        for (part, length) in [(&self.encrypt, 32), (&self.mac.k, 16), (&self.mac.r, 16)] {
            let part = STANDARD.decode(part).ok()?;
            key.extend((part.len() == length).then_some(part)?);
        }
        Some(Cipher::new(key.as_slice().try_into().ok()?))
    }
}

impl KeyFile {
    /// The cipher derived from the password, and the encrypted data. `None` if the file is invalid.
    fn cipher(&self, password: &[u8]) -> Option<(Cipher, Vec<u8>)> {
        /// Maximum cost of scrypt for a key file: bytes of memory, and bytes processed, which take
        /// a minute. restic chooses parameters that take half a second.
        const MOST_MEMORY: u64 = 1 << 30;
        const MOST_WORK: u64 = 64 << 30;
        const BLOCK: u64 = 128;
        let memory = self.n.checked_mul(u64::from(self.r))?.checked_mul(BLOCK)?;
        let work = memory.checked_mul(u64::from(self.p))?;
        let is_too_much = memory > MOST_MEMORY || work > MOST_WORK;
        if self.kdf != "scrypt" || !self.n.is_power_of_two() || is_too_much {
            return None;
        }
        let log_n = u8::try_from(self.n.trailing_zeros()).ok()?;
        let parameters = Params::new(log_n, self.r, self.p).ok()?;
        let salt = STANDARD.decode(&self.salt).ok()?;
        let mut key = [0; KEY];
        scrypt(password, &salt, &parameters, &mut key).ok()?;
        Some((Cipher::new(&key), STANDARD.decode(&self.data).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_file(n: u64, r: u32, p: u32) -> KeyFile {
        KeyFile {
            kdf: "scrypt".to_owned(),
            n,
            r,
            p,
            salt: STANDARD.encode(b"salt"),
            data: STANDARD.encode(b"data"),
        }
    }

    #[test]
    fn parameters_that_take_all_memory_are_refused() {
        assert!(key_file(1 << 10, 8, 1).cipher(b"\xff").is_some());
        for (n, r, p) in [
            (1 << 40, 8, 1),
            (1 << 24, 8, 1),
            (1 << 10, 1 << 30, 1),
            (1 << 10, 8, 1 << 30),
            (1 << 63, u32::MAX, u32::MAX),
            (1000, 8, 1),
            (0, 8, 1),
            (1 << 10, 0, 1),
        ] {
            assert!(key_file(n, r, p).cipher(b"").is_none(), "{n} {r} {p}");
        }
        let several = key_file(1 << 4, 2, 3).cipher(b"");
        assert!(several.is_some());
        let mut other = key_file(1 << 10, 8, 1);
        other.kdf = "argon2".to_owned();
        assert!(other.cipher(b"").is_none());
    }

    #[test]
    fn parts_of_a_master_key_have_their_lengths() {
        let key = |encrypt, k, r| {
            let part = |length: usize| STANDARD.encode(vec![7; length]);
            let key = MasterKey {
                encrypt: part(encrypt),
                mac: Mac {
                    k: part(k),
                    r: part(r),
                },
            };
            key.cipher()
        };
        assert!(key(32, 16, 16).is_some());
        for (encrypt, k, r) in [(31, 16, 16), (32, 17, 15), (32, 16, 0)] {
            assert!(key(encrypt, k, r).is_none());
        }
    }
}
