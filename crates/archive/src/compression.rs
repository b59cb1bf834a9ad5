//! Compression formats of archives, recognized by magic bytes when reading and by file name suffix
//! when writing.

use std::ops::RangeInclusive;

/// A compression format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Compression {
    #[error("gzip")]
    Gzip,
    #[error("bzip2")]
    Bzip2,
    #[error("xz")]
    Xz,
    #[error("lz4")]
    Lz4,
    #[error("zstd")]
    Zstd,
}

impl Compression {
    /// The formats that can be written.
    pub const WRITTEN: [Compression; 3] = [Compression::Gzip, Compression::Xz, Compression::Zstd];

    /// The format whose magic bytes begin `head`. Skippable frames look alike in lz4 and zstd, and
    /// count as zstd.
    pub(crate) fn from_magic(head: &[u8]) -> Option<Compression> {
        Some(match head {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Compression::Bzip2,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
            [0x04, 0x22, 0x4d, 0x18, ..] => Compression::Lz4,
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..0x60, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
            _ => return None,
        })
    }

    /// The compression levels at which archives can be written in this format.
    pub fn levels(self) -> RangeInclusive<u32> {
        match self {
            Compression::Gzip => 1..=9,
            Compression::Xz => 0..=9,
            // Levels above 19 need windows larger than the decompressor accepts.
            Compression::Zstd => 1..=19,
            Compression::Bzip2 | Compression::Lz4 => RangeInclusive::new(1, 0),
        }
    }

    /// The default level of the program of this name (gzip, xz, zstd).
    fn default_level(self) -> u32 {
        match self {
            Compression::Zstd => zstd::DEFAULT_COMPRESSION_LEVEL.unsigned_abs(),
            _ => 6,
        }
    }
}

/// Why the name of an archive does not suit its compression.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadSuffix {
    /// The suffix asks for a format that cannot be written.
    #[error("unsupported compression")]
    Unsupported,
    /// The suffix belongs to a different format than the one given.
    #[error("its suffix belongs to another compression format")]
    Other,
}

/// How an archive is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compress {
    /// By the suffix of the archive's name.
    #[default]
    BySuffix,
    /// Uncompressed.
    No,
    /// In this format, at this level or the format's default level.
    With(Compression, Option<u32>),
}

impl Compress {
    /// The format and the level for an archive of this name.
    ///
    /// # Errors
    /// The name has the suffix of another format, or of one that is not supported.
    pub(crate) fn resolve(self, name: &[u8]) -> Result<Option<(Compression, u32)>, BadSuffix> {
        match (self, Suffix::from_name(name)) {
            (Compress::BySuffix | Compress::No, Suffix::None) => Ok(None),
            (Compress::BySuffix, Suffix::Written(format)) => {
                Ok(Some((format, format.default_level())))
            }
            (Compress::BySuffix, Suffix::Other) => Err(BadSuffix::Unsupported),
            (Compress::With(format, level), suffix)
                if [Suffix::None, Suffix::Written(format)].contains(&suffix) =>
            {
                Ok(Some((format, level.unwrap_or(format.default_level()))))
            }
            (Compress::No | Compress::With(..), _) => Err(BadSuffix::Other),
        }
    }
}

/// The compression format that a file name's suffix implies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Suffix {
    None,
    Written(Compression),
    /// A compression format that cannot be written.
    Other,
}

impl Suffix {
    fn from_name(name: &[u8]) -> Suffix {
        const WRITTEN: [(&[u8], Compression); 6] = [
            (b".gz", Compression::Gzip),
            (b".tgz", Compression::Gzip),
            (b".xz", Compression::Xz),
            (b".txz", Compression::Xz),
            (b".zst", Compression::Zstd),
            (b".tzst", Compression::Zstd),
        ];
        const OTHERS: [&[u8]; 16] = [
            b".bz2", b".tbz", b".tbz2", b".tz2", b".lz4", b".z", b".taz", b".lz", b".tlz",
            b".lzma", b".lzo", b".br", b".zip", b".7z", b".rar", b".zstd",
        ];
        let name = name.to_ascii_lowercase();
        let known = WRITTEN.into_iter().find(|(end, _)| name.ends_with(end));
        match known {
            Some((_, format)) => Suffix::Written(format),
            None if OTHERS.iter().any(|end| name.ends_with(end)) => Suffix::Other,
            None => Suffix::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_choose_the_format() {
        let gzip = Some((Compression::Gzip, 6));
        let ends = |name: &str| Compress::BySuffix.resolve(name.as_bytes()).ok();
        for name in ["a.tar.gz", "a.tgz", "A.TGZ"] {
            assert_eq!(ends(name), Some(gzip), "{name}");
        }
        assert_eq!(ends("a.txz"), Some(Some((Compression::Xz, 6))));
        assert_eq!(ends("a.tar.zst"), Some(Some((Compression::Zstd, 3))));
        assert_eq!(ends("a.tar"), Some(None));
        assert_eq!(ends("-"), Some(None));
        for name in ["a.tar.bz2", "a.tar.lz4", "a.tar.Z", "a.lzma", "a.tar.br"] {
            assert_eq!(ends(name), None, "{name}");
        }
    }

    #[test]
    fn a_name_does_not_promise_another_format() {
        let with = |compress: Compress, name: &str| compress.resolve(name.as_bytes()).ok();
        let gzip = Compress::With(Compression::Gzip, Some(9));
        assert_eq!(with(gzip, "-"), Some(Some((Compression::Gzip, 9))));
        assert_eq!(with(gzip, "a.tgz"), Some(Some((Compression::Gzip, 9))));
        assert_eq!(with(gzip, "a.txz"), None);
        assert_eq!(with(gzip, "a.bz2"), None);
        assert_eq!(with(Compress::No, "a.gz"), None);
        assert_eq!(with(Compress::No, "a.tar"), Some(None));
    }
}
