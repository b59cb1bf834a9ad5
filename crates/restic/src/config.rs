//! The configuration of a repository (`doc/design.rst`, "Repository Format"), with rustic's
//! optional fields.

use serde::Deserialize;

use crate::error::Error;
use crate::id::Id;
use crate::options::RepositoryOptions;
use crate::repository_file::BlobKind;
use crate::seal::Cipher;

/// Maximum size of a pack, whatever the configuration says.
const LARGEST: u64 = 4076 << 20;

/// A configuration, with the options of this run.
#[derive(Deserialize)]
pub(crate) struct Config {
    version: u32,
    /// The id of the repository.
    pub(crate) id: Id,
    chunker_polynomial: String,
    chunker: Option<ChunkerName>,
    chunk_size: Option<usize>,
    chunk_min_size: Option<usize>,
    chunk_max_size: Option<usize>,
    is_hot: Option<bool>,
    compression: Option<i32>,
    datapack_size: Option<u32>,
    datapack_growfactor: Option<u32>,
    datapack_size_limit: Option<u32>,
    treepack_size: Option<u32>,
    treepack_growfactor: Option<u32>,
    treepack_size_limit: Option<u32>,
    extra_verify: Option<bool>,
}

#[derive(Clone, Copy, Deserialize)]
enum ChunkerName {
    Rabin,
    FixedSize,
}

/// The rules by which files are cut into blobs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunking {
    /// The polynomial of the Rabin fingerprints; `None` for blobs of fixed size.
    pub(crate) polynomial: Option<u64>,
    /// The mean size of blobs in bytes.
    pub(crate) size: usize,
    pub(crate) shortest: usize,
    pub(crate) longest: usize,
}

/// The size at which a pack is written; it grows with the repository, to limit the number of packs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackSizes {
    default: u64,
    growth: u64,
    limit: u64,
}

impl Config {
    /// Decrypts and parses a configuration, and applies the options.
    ///
    /// # Errors
    /// If the configuration is damaged, or the repository is not supported.
    pub(crate) fn open(
        sealed: &mut [u8],
        cipher: &Cipher,
        options: &RepositoryOptions,
    ) -> Result<Config, Error> {
        let json = cipher.open_file(sealed).ok_or(Error::BadConfig)?;
        let config = serde_json::from_slice::<Config>(&json).map_err(|_| Error::BadConfig)?;
        if config.is_hot == Some(true) {
            return Err(Error::HotRepository);
        }
        if !(1..=2).contains(&config.version) {
            return Err(Error::Version(config.version));
        }
        Ok(config.with(options))
    }

    fn with(mut self, options: &RepositoryOptions) -> Config {
        self.compression = options.compression.or(self.compression);
        if let Some(size) = options.pack_size {
            self.datapack_size = Some(size << 20);
            self.datapack_growfactor = Some(0);
            self.datapack_size_limit = None;
        }
        self
    }

    /// The zstd level; `None` without compression. Level 0 is zstd's default.
    pub(crate) fn compression_level(&self) -> Option<i32> {
        match (self.version, self.compression) {
            (1, _) | (_, Some(0)) => None,
            (_, level) => Some(level.unwrap_or(0)),
        }
    }

    /// Whether encrypted data is decrypted and compared before it is written.
    pub(crate) fn extra_verify(&self) -> bool {
        self.extra_verify.unwrap_or(true)
    }

    /// The chunking parameters.
    ///
    /// # Errors
    /// If the polynomial is no hexadecimal number.
    pub(crate) fn chunking(&self) -> Result<Chunking, Error> {
        let size = self.chunk_size.unwrap_or(1 << 20);
        match self.chunker {
            Some(ChunkerName::FixedSize) => Ok(Chunking {
                polynomial: None,
                size,
                shortest: size,
                longest: size,
            }),
            Some(ChunkerName::Rabin) | None => {
                let polynomial = u64::from_str_radix(&self.chunker_polynomial, 16);
                Ok(Chunking {
                    polynomial: Some(polynomial.map_err(|_| Error::Chunking)?),
                    size,
                    shortest: self.chunk_min_size.unwrap_or(512 << 10),
                    longest: self.chunk_max_size.unwrap_or(8 << 20),
                })
            }
        }
    }

    /// The sizes of packs with blobs of a kind.
    pub(crate) fn pack_sizes(&self, kind: BlobKind) -> PackSizes {
        const GROWTH: u32 = 32;
        let (size, growth, limit) = match kind {
            BlobKind::Data => (
                self.datapack_size.unwrap_or(32 << 20),
                self.datapack_growfactor,
                self.datapack_size_limit,
            ),
            BlobKind::Tree => (
                self.treepack_size.unwrap_or(4 << 20),
                self.treepack_growfactor,
                self.treepack_size_limit,
            ),
        };
        PackSizes {
            default: size.into(),
            growth: growth.unwrap_or(GROWTH).into(),
            limit: limit.unwrap_or(u32::MAX).into(),
        }
    }
}

impl PackSizes {
    /// The pack size for a repository that stores this many bytes.
    pub(crate) fn pack(&self, stored: u64) -> u64 {
        let grown = stored.isqrt().saturating_mul(self.growth);
        grown
            .saturating_add(self.default)
            .min(self.limit)
            .min(LARGEST)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::seal::tests::cipher;

    /// A configuration with these members in addition to the mandatory ones.
    fn open(members: Value, options: &RepositoryOptions) -> Result<Config, Error> {
        let mut config = json!({
            "version": 2,
            "id": Id::hash(b"repository").to_string(),
            "chunker_polynomial": "3da3358b4dc173",
            "member_of_a_later_version": [1],
        });
        if let (Some(all), Value::Object(members)) = (config.as_object_mut(), members) {
            all.extend(members);
        }
        let cipher = cipher();
        let mut sealed = cipher.seal_file(config.to_string().as_bytes(), None);
        Config::open(sealed.as_mut().unwrap(), &cipher, options)
    }

    #[test]
    fn configurations_have_the_defaults_of_restic() {
        let config = open(json!({}), &RepositoryOptions::default()).unwrap();
        assert_eq!(config.id, Id::hash(b"repository"));
        assert_eq!(config.compression_level(), Some(0));
        assert!(config.extra_verify());
        let chunking = config.chunking().unwrap();
        assert_eq!(chunking.polynomial, Some(0x003D_A335_8B4D_C173));
        let sizes = (chunking.size, chunking.shortest, chunking.longest);
        assert_eq!(sizes, (1 << 20, 512 << 10, 8 << 20));
        assert_eq!(config.pack_sizes(BlobKind::Data).pack(0), 32 << 20);
        assert_eq!(config.pack_sizes(BlobKind::Tree).pack(0), 4 << 20);
    }

    #[test]
    fn options_replace_fields() {
        let options = RepositoryOptions {
            compression: Some(0),
            pack_size: Some(16),
            ..RepositoryOptions::default()
        };
        let fields = json!({ "compression": 5, "datapack_size": 1 << 20 });
        let config = open(fields.clone(), &options).unwrap();
        assert_eq!(config.compression_level(), None);
        assert_eq!(config.pack_sizes(BlobKind::Data).pack(1 << 50), 16 << 20);
        let config = open(fields, &RepositoryOptions::default()).unwrap();
        assert_eq!(config.compression_level(), Some(5));
        assert_eq!(config.pack_sizes(BlobKind::Data).pack(0), 1 << 20);
    }

    #[test]
    fn other_repositories_are_refused() {
        let refused = |members| {
            let opened = open(members, &RepositoryOptions::default());
            opened.and_then(|config| config.chunking()).unwrap_err()
        };
        assert!(matches!(refused(json!({"version": 3})), Error::Version(3)));
        assert!(matches!(refused(json!({"version": 0})), Error::Version(0)));
        assert!(matches!(refused(json!({"id": "1"})), Error::BadConfig));
        let hot = refused(json!({"is_hot": true}));
        assert!(matches!(hot, Error::HotRepository));
        let polynomial = refused(json!({"chunker_polynomial": "x"}));
        assert!(matches!(polynomial, Error::Chunking));
        let options = RepositoryOptions::default();
        let damaged = Config::open(&mut [0; 100], &cipher(), &options);
        assert!(matches!(damaged, Err(Error::BadConfig)));
        let fixed = json!({"chunker": "FixedSize", "chunk_size": 4096, "version": 1});
        let config = open(fixed, &options).unwrap();
        assert_eq!(config.compression_level(), None);
        let chunking = config.chunking().unwrap();
        assert_eq!((chunking.polynomial, chunking.longest), (None, 4096));
    }

    #[test]
    fn packs_grow_with_the_repository() {
        let sizes = PackSizes {
            default: 32 << 20,
            growth: 32,
            limit: 100 << 20,
        };
        assert_eq!(sizes.pack(0), 32 << 20);
        assert_eq!(sizes.pack(1 << 30), (32 << 20) + (1 << 20));
        assert_eq!(sizes.pack(1 << 50), 100 << 20);
    }
}
