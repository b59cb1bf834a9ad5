//! The parts of a URL.

use archive::StoreError;

/// A bucket, and a key in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Url<'a> {
    pub(crate) bucket: &'a str,
    /// May be empty, for a prefix.
    pub(crate) key: &'a str,
}

impl<'a> Url<'a> {
    /// Parses `s3://bucket` and what may follow.
    pub(crate) fn parse(url: &'a [u8]) -> Result<Url<'a>, StoreError> {
        let url = std::str::from_utf8(url).ok();
        let rest = url.and_then(|url| url.strip_prefix("s3://"));
        let rest = rest.ok_or(StoreError::BadUrl)?;
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        match bucket.is_empty() || key.starts_with('/') {
            true => Err(StoreError::BadUrl),
            false => Ok(Url { bucket, key }),
        }
    }

    /// Parses the URL of an object, which has a key.
    pub(crate) fn parse_object(url: &'a [u8]) -> Result<Url<'a>, StoreError> {
        let url = Url::parse(url)?;
        match url.key.is_empty() || url.key.ends_with('/') {
            true => Err(StoreError::BadUrl),
            false => Ok(url),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_bucket_and_a_key() {
        let url = Url::parse_object(b"s3://b/dir/k.tar").unwrap();
        assert_eq!((url.bucket, url.key), ("b", "dir/k.tar"));
        let url = Url::parse(b"s3://b").unwrap();
        assert_eq!((url.bucket, url.key), ("b", ""));
        for bad in [
            "s3://",
            "s3:///k",
            "s3://b",
            "s3://b/",
            "s3://b/dir/",
            "s3://b//k",
            "b/k",
        ] {
            assert_eq!(
                Url::parse_object(bad.as_bytes()),
                Err(StoreError::BadUrl),
                "{bad}"
            );
        }
        assert_eq!(Url::parse_object(b"s3://b/\xff"), Err(StoreError::BadUrl));
    }
}
