//! Objects in a store, named by a URL: `s3://bucket/key`.
//!
//! This crate implements no protocol: the program sets a [`Client`], implemented by the crate
//! `remote`. A program without a client rejects such names.

use std::fmt;
use std::io::{Read, Write};
use std::sync::{Arc, OnceLock};

use base::path::split;
use bytes::Bytes;

/// Maximum bytes read at once from another machine. The largest files read as a whole are pack
/// files of restic, up to 128 MiB.
pub const MOST_BYTES: usize = 512 << 20;

/// A client of object stores.
pub trait Client: fmt::Debug + Send + Sync {
    /// Opens an object for reading.
    fn open(&self, url: &[u8]) -> Result<Arc<dyn Object>, StoreError>;

    /// Starts writing an object, which replaces only the given version: if two processes write the
    /// same object, one fails, where the store supports conditional requests.
    fn create(&self, url: &[u8], replaces: &Version) -> Result<Box<dyn Upload>, StoreError>;

    /// Removes an object, if it exists.
    fn remove(&self, url: &[u8]) -> Result<(), StoreError>;

    /// Names of the objects whose keys begin with the key of `url`. The names do not include this
    /// prefix; names with a slash are omitted.
    fn names(&self, url: &[u8]) -> Result<Vec<Vec<u8>>, StoreError>;

    /// The files of a restic repository at a location such as `s3:...` or `rest:...`. Does not
    /// connect yet.
    fn repository(&self, location: &str) -> Result<Arc<dyn Files>, StoreError>;
}

/// The files of a remote restic repository, by path. Files never change once written.
pub trait Files: fmt::Debug + Send + Sync {
    /// Reads a range of a file, as offset and length; the whole file if `None`.
    fn read(&self, path: &str, range: Option<(u64, usize)>) -> Result<Bytes, StoreError>;

    /// Writes a file atomically.
    fn write(&self, path: &str, content: Vec<Bytes>) -> Result<(), StoreError>;

    /// Removes a file, even while a signal is about to end the process.
    fn remove(&self, path: &str) -> Result<(), StoreError>;

    /// Lists the files below a directory, recursively: names without the directory, and lengths.
    fn list(&self, dir: &str) -> Result<Vec<(String, u64)>, StoreError>;
}

/// An object open for reading. If it is replaced meanwhile, reads fail with
/// [`StoreError::Changed`].
pub trait Object: fmt::Debug + Send + Sync {
    /// Length in bytes.
    fn len(&self) -> u64;

    /// Whether the length is 0.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The version id, if the store has one.
    fn version(&self) -> Option<&str>;

    /// Modification time: seconds and nanoseconds since the epoch.
    fn modified(&self) -> (i64, u32);

    /// Reads at an offset until the buffer is full or the object ends.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError>;

    /// Reads sequentially from an offset. Errors contain a [`StoreError`].
    fn stream(&self, offset: u64) -> Box<dyn ObjectStream>;
}

/// The version of an object that a new one may replace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Version {
    /// The version that exists now, if any.
    Current,
    /// No version: the object must not exist.
    Absent,
    /// The [`Object::version`] of an object that was read.
    Known(String),
}

/// An object being written. The object appears when it is published; dropping this value removes
/// the uploaded data. Errors of its `Write` contain a [`StoreError`].
pub trait Upload: Write + fmt::Debug + Send {
    /// Uploads the bytes written so far. A small object is uploaded only on publishing.
    fn sync(&mut self) -> Result<(), StoreError>;

    /// Uploads the rest, and makes the object appear atomically.
    fn publish(self: Box<Self>) -> Result<(), StoreError>;
}

/// A sequential reader of an object.
pub trait ObjectStream: Read + Send {
    /// Skips bytes without requesting them, unless they are already being sent.
    fn skip(&mut self, bytes: u64);
}

/// Why an operation on an object failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each one means")]
pub enum StoreError {
    #[error("this build does not support object stores")]
    Unsupported,
    #[error("the URL has no bucket and key")]
    BadUrl,
    /// The URL has a scheme other than `s3`.
    #[error("only URLs of S3 stores are supported: s3://BUCKET/KEY")]
    OtherScheme,
    /// The bucket name or key is invalid. The field has the reason.
    #[error("the URL cannot be used: {0}")]
    BadKey(&'static str),
    /// An environment variable or option has invalid characters.
    #[error("the value of {0} has a blank or a character that cannot be in a request")]
    BadSetting(String),
    /// The endpoint in an environment variable or option is invalid.
    #[error("the endpoint in {0} is no URL with a scheme and a host")]
    BadEndpoint(String),
    #[error("the store says that the clock of this machine is wrong")]
    WrongClock,
    /// The bucket is in a different region, which is included if the store reports it.
    #[error("the bucket is in another region{}", .0.as_ref().map_or(String::new(), |region| format!(": {region}")))]
    WrongRegion(Option<String>),
    #[error("the store does not support such a request")]
    NotImplemented,
    #[error("no credentials: the variable {0} is not set")]
    NoCredentials(&'static str),
    #[error("the endpoint uses HTTP without TLS, which AWS_ALLOW_HTTP does not permit")]
    PlainHttp,
    /// The store rejects the credentials. The fields are the store's error code, and the names of
    /// the environment variables that contain the credentials.
    #[error("the store rejects the access key ({0})")]
    WrongCredentials(String, Vec<&'static str>),
    #[error("access denied")]
    Denied,
    #[error("the bucket does not exist")]
    NoBucket,
    #[error("the object does not exist")]
    NotFound,
    #[error("another process has replaced the object")]
    Changed,
    #[error("the object would be larger than {0} GiB")]
    TooLarge(u64),
    /// The response refers to a URL, with this host.
    #[error("the server redirects the request{}", .0.as_ref().map_or(String::new(), |host| format!(" to {host}")))]
    Redirected(Option<String>),
    /// The answer is longer than requested, or than [`MOST_BYTES`].
    #[error("the server sends more than {0} bytes")]
    LongAnswer(usize),
    #[error("cannot connect to the store: {0}")]
    NoConnection(String),
    /// The certificate of the endpoint is rejected.
    #[error("TLS: {0}")]
    Certificate(String),
    /// The store refuses the request, and would refuse it again.
    #[error("the store refuses the request: {0}")]
    Refused(String),
    #[error("the store reports an error: {0}")]
    Other(String),
}

static CLIENT: OnceLock<Box<dyn Client>> = OnceLock::new();

/// Sets the client of this process. Only the first call has an effect.
pub fn set_client(client: Box<dyn Client>) {
    let _ = CLIENT.set(client);
}

/// The files of a remote restic repository: see [`Client::repository`].
///
/// # Errors
/// The location is malformed, or the build does not support it.
pub fn repository(location: &str) -> Result<Arc<dyn Files>, StoreError> {
    let client = CLIENT.get().ok_or(StoreError::Unsupported)?;
    client.repository(location)
}

/// Whether a name is a URL, not a file name. Schemes other than `s3` count as URLs, too, so that
/// such a name is rejected instead of creating a file.
pub fn is_remote(name: &[u8]) -> bool {
    let Some(end) = name.windows(3).position(|it| it == b"://") else {
        return false;
    };
    let is_permitted = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    name[0].is_ascii_alphabetic() && name[..end].iter().all(is_permitted)
}

/// The URL prefix of an object up to its bucket; `None` for a file name.
pub fn bucket(name: &[u8]) -> Option<&[u8]> {
    if !is_remote(name) {
        return None;
    }
    let begin = name.iter().position(|&byte| byte == b':')? + 3;
    let end = name[begin..].iter().position(|&byte| byte == b'/');
    Some(&name[..end.map_or(name.len(), |end| begin + end)])
}

/// Whether a URL is a prefix of object names, ending with a slash like a directory.
pub(crate) fn is_prefix(name: &[u8]) -> bool {
    is_remote(name) && split(name).1.is_empty()
}

/// The client for a URL; `None` for a file name.
pub(crate) fn client(name: &[u8]) -> Result<Option<&'static dyn Client>, StoreError> {
    if !is_remote(name) {
        return Ok(None);
    }
    if !name.starts_with(b"s3://") {
        return Err(StoreError::OtherScheme);
    }
    let client = CLIENT.get().ok_or(StoreError::Unsupported)?;
    Ok(Some(&**client))
}

/// Opens the object of a URL; `None` for a file name.
pub fn open(name: &[u8]) -> Result<Option<Arc<dyn Object>>, StoreError> {
    client(name)?.map(|client| client.open(name)).transpose()
}

/// Opens an object; `None` if it does not exist.
pub fn find(url: &[u8]) -> Result<Option<Arc<dyn Object>>, StoreError> {
    match open(url) {
        Err(StoreError::NotFound) => Ok(None),
        other => other,
    }
}

/// Removes an object, if it exists.
pub fn remove(url: &[u8]) -> Result<(), StoreError> {
    client(url)?.map_or(Ok(()), |client| client.remove(url))
}

/// Appends a slash to a URL, unless it has one; file names are unchanged.
pub fn as_prefix(name: &[u8]) -> Vec<u8> {
    let mut name = name.to_vec();
    if is_remote(&name) && name.last() != Some(&b'/') {
        name.push(b'/');
    }
    name
}

/// Names below a URL prefix. A URL without a final slash counts as a prefix if no object has
/// exactly this name, and there are objects below it. `None` for a file name or an object;
/// `is_object` recognizes an object by its name, without a request.
pub fn names(
    name: &[u8],
    is_object: impl Fn(&[u8]) -> bool,
) -> Result<Option<Vec<Vec<u8>>>, StoreError> {
    let Some(client) = client(name)? else {
        return Ok(None);
    };
    let prefix = as_prefix(name);
    if is_prefix(name) {
        return client.names(&prefix).map(Some);
    }
    if is_object(name) || find(name)?.is_some() {
        return Ok(None);
    }
    let names = client.names(&prefix)?;
    Ok((!names.is_empty()).then_some(names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_from_names_of_files() {
        for url in [&b"s3://b/k"[..], b"gs://b", b"azure://c/k", b"x+y-1.2://"] {
            assert!(is_remote(url), "{}", url.escape_ascii());
        }
        for file in [
            &b"./s3://b/k"[..],
            b"/s3://b",
            b"s3:/b",
            b"s3",
            b"://b",
            b"3s://b",
            b"a b://c",
            b"a:b://c",
            b"",
        ] {
            assert!(!is_remote(file), "{}", file.escape_ascii());
        }
        assert_eq!(bucket(b"s3://b/k"), Some(&b"s3://b"[..]));
        assert_eq!(client(b"gs://b/k").err(), Some(StoreError::OtherScheme));
    }
}
