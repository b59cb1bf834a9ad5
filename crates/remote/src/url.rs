//! The parts of a URL.

use catalog::StoreError;

/// The bucket and key of an `s3://` URL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Url<'a> {
    pub(crate) bucket: &'a str,
    /// The key; empty for a prefix of the whole bucket.
    pub(crate) key: &'a str,
}

impl<'a> Url<'a> {
    /// Parses `s3://BUCKET` with an optional key.
    pub(crate) fn parse(url: &'a [u8]) -> Result<Url<'a>, StoreError> {
        let url = std::str::from_utf8(url).ok();
        let rest = url.and_then(|url| url.strip_prefix("s3://"));
        let rest = rest.ok_or(StoreError::BadUrl)?;
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        check_bucket(bucket)?;
        match key.starts_with('/') {
            true => Err(StoreError::BadKey("the key begins with a slash")),
            false => Ok(Url { bucket, key }),
        }
    }

    /// Parses the URL of an object, whose key is not empty.
    pub(crate) fn parse_object(url: &'a [u8]) -> Result<Url<'a>, StoreError> {
        let url = Url::parse(url)?;
        match url.key.is_empty() || url.key.ends_with('/') {
            true => Err(StoreError::BadUrl),
            false => Ok(url),
        }
    }
}

/// Whether text can be part of a URL as it is.
pub(crate) fn is_url_text(text: &[u8]) -> bool {
    let is_of_urls = |byte: &u8| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(byte);
    text.iter().all(is_of_urls)
}

/// Fails if no store permits this bucket name.
fn check_bucket(bucket: &str) -> Result<(), StoreError> {
    match is_url_text(bucket.as_bytes()) {
        _ if bucket.is_empty() => Err(StoreError::BadUrl),
        true => Ok(()),
        false => Err(StoreError::BadKey(
            "the name of the bucket has a blank or a character that no bucket has",
        )),
    }
}

/// The location of a restic repository in a bucket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RepositoryUrl<'a> {
    pub(crate) endpoint: String,
    pub(crate) bucket: &'a str,
    /// The key of the repository's directory; empty for the root of the bucket.
    pub(crate) prefix: &'a str,
}

impl<'a> RepositoryUrl<'a> {
    /// Parses restic's `s3:HOST/BUCKET/PREFIX`, where HOST may have a scheme.
    pub(crate) fn parse(location: &'a str) -> Result<RepositoryUrl<'a>, StoreError> {
        let rest = location.strip_prefix("s3:").ok_or(StoreError::BadUrl)?;
        let (scheme, rest) = match rest.split_once("://") {
            Some((scheme @ ("http" | "https"), rest)) => (scheme, rest),
            Some(_) => return Err(StoreError::BadUrl),
            None => ("https", rest.trim_start_matches('/')),
        };
        let (host, rest) = rest.split_once('/').ok_or(StoreError::BadUrl)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        check_bucket(bucket)?;
        match host.is_empty() {
            true => Err(StoreError::BadUrl),
            false => Ok(RepositoryUrl {
                endpoint: format!("{scheme}://{host}"),
                bucket,
                prefix,
            }),
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
            "b/k",
            "http://b/k",
        ] {
            assert_eq!(
                Url::parse_object(bad.as_bytes()),
                Err(StoreError::BadUrl),
                "{bad}"
            );
        }
        assert_eq!(Url::parse_object(b"s3://b/\xff"), Err(StoreError::BadUrl));
        for bad in ["s3://b//k", "s3://a b/k", "s3://a\n/k", "s3://a<b>/k"] {
            let refused = Url::parse_object(bad.as_bytes());
            assert!(matches!(refused, Err(StoreError::BadKey(_))), "{bad}");
        }
    }

    #[test]
    fn repositories_have_an_endpoint_and_a_bucket() {
        let parse = |location| {
            let url = RepositoryUrl::parse(location).ok()?;
            Some((url.endpoint, url.bucket, url.prefix))
        };
        let is = |endpoint: &str, bucket, prefix| Some((endpoint.to_owned(), bucket, prefix));
        let amazon = "https://s3.amazonaws.com";
        assert_eq!(parse("s3:s3.amazonaws.com/b"), is(amazon, "b", ""));
        assert_eq!(
            parse("s3://s3.amazonaws.com/b/c/d/"),
            is(amazon, "b", "c/d")
        );
        let local = "http://localhost:9000";
        assert_eq!(parse("s3:http://localhost:9000/b/c"), is(local, "b", "c"));
        for bad in [
            "s3:",
            "s3:host",
            "s3:host/",
            "s3:ftp://host/b",
            "s3:https:///b",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
