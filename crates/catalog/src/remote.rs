//! Objects of a store, which are named by a URL: `s3://bucket/key`.
//!
//! This crate knows no protocol: the program gives it a [`Client`], which the crate `remote` implements.
//! A program without one refuses such names.

use std::fmt;
use std::io::{Read, Write};
use std::sync::{Arc, OnceLock};

use base::path::split;
use bytes::Bytes;

/// The most that is read at once of what another machine sends, in bytes. The largest files that are read as a whole are the
/// packs of restic, of up to 128 MiB.
pub const MOST_BYTES: usize = 512 << 20;

/// Opens objects.
pub trait Client: fmt::Debug + Send + Sync {
    /// Opens an object for reading.
    fn open(&self, url: &[u8]) -> Result<Arc<dyn Object>, StoreError>;

    /// Begins to write an object. It replaces only the given version, so that of two processes that write
    /// the same object one fails, where the store supports conditional requests.
    fn create(&self, url: &[u8], replaces: &Version) -> Result<Box<dyn Upload>, StoreError>;

    /// Removes an object, if it exists.
    fn remove(&self, url: &[u8]) -> Result<(), StoreError>;

    /// The names of the objects whose keys begin with the key of `url`, without that beginning; not
    /// those with a slash.
    fn names(&self, url: &[u8]) -> Result<Vec<Vec<u8>>, StoreError>;

    /// The files of a restic repository, named as restic names it: `s3:...` or `rest:...`. Nothing is connected yet.
    fn repository(&self, location: &str) -> Result<Arc<dyn Files>, StoreError>;
}

/// The files of a restic repository that is not a local directory, by their paths in it. They do not change.
pub trait Files: fmt::Debug + Send + Sync {
    /// Reads a part of a file, from an offset on so many bytes; all of it without a range.
    fn read(&self, path: &str, range: Option<(u64, usize)>) -> Result<Bytes, StoreError>;

    /// Writes a file, which exists when it is complete and not before.
    fn write(&self, path: &str, content: Vec<Bytes>) -> Result<(), StoreError>;

    /// Removes a file, even when a signal is about to end the process.
    fn remove(&self, path: &str) -> Result<(), StoreError>;

    /// The files in a directory and in those below it: their names, without the directory, and their lengths.
    fn list(&self, dir: &str) -> Result<Vec<(String, u64)>, StoreError>;
}

/// An object that is open for reading. One that is replaced meanwhile gives [`StoreError::Changed`].
pub trait Object: fmt::Debug + Send + Sync {
    /// The length in bytes.
    fn len(&self) -> u64;

    /// Whether the length is 0.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Identifies this version, if the store does.
    fn version(&self) -> Option<&str>;

    /// When it was written: seconds and nanoseconds since the epoch.
    fn modified(&self) -> (i64, u32);

    /// Reads at an offset until the buffer is full or the object ends.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError>;

    /// Reads in order, from an offset on. Its errors contain a [`StoreError`].
    fn stream(&self, offset: u64) -> Box<dyn ObjectStream>;
}

/// The version of an object that another one replaces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Version {
    /// The one that exists now, or none.
    Current,
    /// None: the object must not exist.
    Absent,
    /// [`Object::version`] of one that was read.
    Known(String),
}

/// An object being written. It does not exist before it is published. Dropping it removes what was
/// uploaded. The errors of its `Write` contain a [`StoreError`].
pub trait Upload: Write + fmt::Debug + Send {
    /// Uploads what was written so far, except for a small object, which is uploaded when it is published.
    fn sync(&mut self) -> Result<(), StoreError>;

    /// Uploads the rest, and makes the object exist, atomically.
    fn publish(self: Box<Self>) -> Result<(), StoreError>;
}

/// An object that is read in order.
pub trait ObjectStream: Read + Send {
    /// Skips bytes without requesting them, unless they are on their way.
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
    /// A URL with a scheme other than `s3`.
    #[error("only URLs of S3 stores are supported: s3://BUCKET/KEY")]
    OtherScheme,
    /// With what is wrong about the name of the bucket or the key.
    #[error("the URL cannot be used: {0}")]
    BadKey(&'static str),
    /// With the variable or the option.
    #[error("the value of {0} has a blank or a character that cannot be in a request")]
    BadSetting(String),
    /// With the variable or the option.
    #[error("the endpoint in {0} is no URL with a scheme and a host")]
    BadEndpoint(String),
    #[error("the store says that the clock of this machine is wrong")]
    WrongClock,
    /// With the region of the bucket, if the store says it.
    #[error("the bucket is in another region{}", .0.as_ref().map_or(String::new(), |region| format!(": {region}")))]
    WrongRegion(Option<String>),
    #[error("the store does not support such a request")]
    NotImplemented,
    #[error("no credentials: the variable {0} is not set")]
    NoCredentials(&'static str),
    #[error("the endpoint uses HTTP without TLS, which AWS_ALLOW_HTTP does not permit")]
    PlainHttp,
    /// With the code of the store's answer, and the variables that the credentials are from.
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
    /// More than was asked for, or than [`MOST_BYTES`].
    #[error("the server sends more than {0} bytes")]
    LongAnswer(usize),
    #[error("cannot connect to the store: {0}")]
    NoConnection(String),
    /// The certificate of the endpoint is not accepted.
    #[error("TLS: {0}")]
    Certificate(String),
    /// What the same request will get again.
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

/// The files of a restic repository in an object store or on a rest-server: see [`Client::repository`].
///
/// # Errors
/// The location is malformed, or the build does not support it.
pub fn repository(location: &str) -> Result<Arc<dyn Files>, StoreError> {
    let client = CLIENT.get().ok_or(StoreError::Unsupported)?;
    client.repository(location)
}

/// Whether a name is a URL, and not the name of a file. A URL with a scheme other than `s3` counts, so that it is refused and no
/// file with that name is created.
pub fn is_remote(name: &[u8]) -> bool {
    let Some(end) = name.windows(3).position(|it| it == b"://") else {
        return false;
    };
    let is_permitted = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    name[0].is_ascii_alphabetic() && name[..end].iter().all(is_permitted)
}

/// The bucket of an object, as the beginning of its URL; `None` for the name of a file.
pub fn bucket(name: &[u8]) -> Option<&[u8]> {
    if !is_remote(name) {
        return None;
    }
    let begin = name.iter().position(|&byte| byte == b':')? + 3;
    let end = name[begin..].iter().position(|&byte| byte == b'/');
    Some(&name[..end.map_or(name.len(), |end| begin + end)])
}

/// Whether a name is the beginning of the names of objects, as that of a directory is of files.
pub(crate) fn is_prefix(name: &[u8]) -> bool {
    is_remote(name) && split(name).1.is_empty()
}

/// The client, for a name that is remote; `None` for the name of a file.
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

/// Opens the object that a name means; `None` for the name of a file.
pub fn open(name: &[u8]) -> Result<Option<Arc<dyn Object>>, StoreError> {
    client(name)?.map(|client| client.open(name)).transpose()
}

/// Opens an object, or tells that it does not exist.
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

/// The name of a directory as the beginning of the names of objects: with a slash at its end, if it is remote.
pub fn as_prefix(name: &[u8]) -> Vec<u8> {
    let mut name = name.to_vec();
    if is_remote(&name) && name.last() != Some(&b'/') {
        name.push(b'/');
    }
    name
}

/// The names below a prefix: of a name that ends with a slash; or of one that could, if no object has that name and there is
/// something below it. `None` for the name of a file or an object, which `is_object` recognizes without a request.
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
