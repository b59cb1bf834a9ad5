//! Requests to an S3 bucket.

use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use catalog::StoreError;
use catalog::remote::{MOST_BYTES, Version};
use futures_util::StreamExt;
use object_store::aws::AmazonS3;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, GetOptions, GetRange, GetResult, ListResult, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, UpdateVersion,
};
use reqwest::header::{HeaderValue, IF_MATCH, IF_NONE_MATCH};

use crate::error::store_error;
use crate::retry::{Attempts, Notices, Servers};
use crate::runtime::{ABORT, Pending, Runtime};
use crate::settings::{Settings, name_variables};
use crate::transport::Transport;

/// A bucket of an S3-compatible store.
#[derive(Debug)]
pub(crate) struct Bucket {
    name: String,
    settings: Settings,
    servers: Servers,
    /// Whether a response has shown that the store does not support conditional requests.
    is_unconditional: Arc<AtomicBool>,
    runtime: Arc<Runtime>,
    store: AmazonS3,
}

/// The metadata key of an object that identifies the upload which made it.
const UPLOAD: &str = "fathomupload";
const UPLOAD_ATTRIBUTE: Attribute = Attribute::Metadata(Cow::Borrowed(UPLOAD));

/// The object that an upload writes.
#[derive(Clone, Debug)]
pub(crate) struct UploadTarget {
    path: Path,
    /// The version that the upload may replace.
    mode: PutMode,
    /// An id of the upload, by which the object shows after a lost response whether the upload was
    /// carried out.
    upload: String,
    /// A client for this object only, which adds the condition to the request that completes an
    /// upload.
    client: AmazonS3,
}

impl UploadTarget {
    fn attributes(&self) -> Attributes {
        Attributes::from_iter([(UPLOAD_ATTRIBUTE, self.upload.clone())])
    }

    /// Removes the parts of an upload. The store may still be writing a part whose request was
    /// cancelled, so the request is repeated until the store no longer knows the upload.
    async fn abort(&self, upload: &str) {
        const TRIES: u32 = 5;
        let id = upload.to_owned();
        for _ in 0..TRIES {
            let aborted = self.client.abort_multipart(&self.path, &id).await;
            if aborted.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Whether the object was made by this upload.
    async fn is_done(&self) -> bool {
        let options = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        let got = self.client.get_opts(&self.path, options).await;
        got.is_ok_and(|got| {
            got.attributes
                .get(&UPLOAD_ATTRIBUTE)
                .is_some_and(|upload| **upload == *self.upload)
        })
    }
}

impl Bucket {
    /// Creates a client of a bucket, which opens no connection yet.
    pub(crate) fn new(
        name: &str,
        settings: Settings,
        runtime: Arc<Runtime>,
        notices: Notices,
    ) -> Result<Bucket, StoreError> {
        settings.check()?;
        let servers = Servers::new(notices);
        let is_unconditional = Arc::<AtomicBool>::default();
        let transport = Transport::new(servers.clone(), Arc::clone(&is_unconditional));
        let store = settings.client(name, transport)?;
        Ok(Bucket {
            name: name.to_owned(),
            settings,
            servers,
            is_unconditional,
            runtime,
            store,
        })
    }

    fn start<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Pending<T> {
        self.runtime
            .start_task(async move { request.await.map_err(name_variables) })
    }

    /// Reads the end of an object: its metadata, and up to `bytes` bytes.
    pub(crate) fn tail(&self, key: &str, bytes: u64) -> Result<(ObjectMeta, Bytes), StoreError> {
        let (path, store) = (parse_key(key)?, self.store.clone());
        let servers = self.servers.clone();
        let tail = async move { repeated(&servers, || tail(&store, &path, bytes)).await };
        self.start(tail).wait()
    }

    /// Starts reading a range of an object, or the whole object. The object must have the given
    /// version.
    pub(crate) fn range(
        &self,
        path: &Path,
        version: Option<&String>,
        range: Option<Range<u64>>,
    ) -> Pending<Bytes> {
        let (store, path) = (self.store.clone(), path.clone());
        let asked = range.as_ref().map(|range| range.end - range.start);
        let most = asked.unwrap_or(MOST_BYTES as u64);
        let options = GetOptions {
            range: range.map(GetRange::Bounded),
            if_match: version.cloned(),
            ..GetOptions::default()
        };
        let servers = self.servers.clone();
        self.start(async move {
            let read = || async {
                let got = store.get_opts(&path, options.clone()).await;
                body(got.map_err(|e| store_error(&e))?, most).await
            };
            repeated(&servers, read).await
        })
    }

    /// The target of an upload that replaces a version.
    pub(crate) fn target(&self, key: &str, replaces: &Version) -> Result<UploadTarget, StoreError> {
        let tag = match replaces {
            Version::Absent => None,
            Version::Known(version) => Some(Some(version.clone())),
            // This request also checks that the bucket exists and the credentials are valid.
            Version::Current => match self.tail(key, 1) {
                Ok((meta, _)) => Some(meta.e_tag),
                Err(StoreError::NotFound) => None,
                Err(error) => return Err(error),
            },
        };
        let random = || RandomState::new().build_hasher().finish();
        let upload = format!("{:016x}{:016x}", random(), random());
        let path = parse_key(key)?;
        let (mode, condition) = match tag {
            None => (
                PutMode::Create,
                Some((IF_NONE_MATCH, HeaderValue::from_static("*"))),
            ),
            // Without an ETag, a version of an object cannot be identified.
            Some(None) => (PutMode::Overwrite, None),
            Some(Some(tag)) => {
                let malformed = |_| StoreError::Other("an ETag is malformed".to_owned());
                let value = HeaderValue::from_str(&tag).map_err(malformed)?;
                let version = UpdateVersion {
                    e_tag: Some(tag),
                    version: None,
                };
                (PutMode::Update(version), Some((IF_MATCH, value)))
            }
        };
        let transport = Transport {
            condition,
            ..Transport::new(self.servers.clone(), Arc::clone(&self.is_unconditional))
        };
        Ok(UploadTarget {
            path,
            mode,
            upload,
            client: self.settings.client(&self.name, transport)?,
        })
    }

    /// Writes a small object by one request.
    pub(crate) fn put(&self, target: &UploadTarget, content: Bytes) -> Result<(), StoreError> {
        let (target, servers) = (target.clone(), self.servers.clone());
        let is_unconditional = Arc::clone(&self.is_unconditional);
        let put = async move {
            // object_store itself does not repeat a request that may have been carried out.
            let mut attempts = Attempts::new(&servers);
            loop {
                let mode = match is_unconditional.load(Relaxed) {
                    true => PutMode::Overwrite,
                    false => target.mode.clone(),
                };
                let has_condition = mode != PutMode::Overwrite;
                let options = PutOptions {
                    mode,
                    attributes: target.attributes(),
                    ..PutOptions::default()
                };
                let content = content.clone().into();
                let put = target.client.put_opts(&target.path, content, options);
                let Err(error) = put.await.map_err(|e| store_error(&e)) else {
                    return Ok(());
                };
                if target.is_done().await {
                    return Ok(());
                }
                match error {
                    StoreError::NotImplemented if has_condition => {
                        omit_conditions(&is_unconditional, &servers);
                    }
                    error if attempts.wait(&error).await => {}
                    error => return Err(error),
                }
            }
        };
        self.start(put).wait()
    }

    /// Begins a multipart upload, and returns its id.
    pub(crate) fn begin_multipart(&self, target: &UploadTarget) -> Result<String, StoreError> {
        let (on_its_way, servers) = (target.clone(), self.servers.clone());
        let begin = async move {
            let begin = || async {
                let options = PutMultipartOptions {
                    attributes: on_its_way.attributes(),
                    ..PutMultipartOptions::default()
                };
                let client = &on_its_way.client;
                let begun = client.create_multipart_opts(&on_its_way.path, options);
                begun.await.map_err(|e| store_error(&e))
            };
            repeated(&servers, begin).await
        };
        let id = self.start(begin).wait()?;
        let (target, upload) = (target.clone(), id.clone());
        let abort = async move { target.abort(&upload).await };
        self.runtime.abort_on_signal(&id, Box::pin(abort));
        Ok(id)
    }

    /// Starts to upload a part.
    pub(crate) fn put_part(
        &self,
        target: &UploadTarget,
        id: &str,
        nth: usize,
        part: Bytes,
    ) -> Pending<PartId> {
        let (target, id, servers) = (target.clone(), id.to_owned(), self.servers.clone());
        self.start(async move {
            let put = || async {
                let content = part.clone().into();
                let put = target.client.put_part(&target.path, &id, nth, content);
                put.await.map_err(|e| store_error(&e))
            };
            repeated(&servers, put).await
        })
    }

    /// Completes a multipart upload: the store makes an object of its parts.
    pub(crate) fn complete(
        &self,
        target: &UploadTarget,
        id: &str,
        parts: Vec<PartId>,
    ) -> Result<(), StoreError> {
        let (target, upload) = (target.clone(), id.to_owned());
        let (servers, is_unconditional) =
            (self.servers.clone(), Arc::clone(&self.is_unconditional));
        let complete = async move {
            let mut attempts = Attempts::new(&servers);
            loop {
                let has_condition = !is_unconditional.load(Relaxed);
                let client = &target.client;
                let completing = client.complete_multipart(&target.path, &upload, parts.clone());
                match completing.await.map_err(|e| store_error(&e)) {
                    Err(StoreError::NotImplemented) if has_condition => {
                        omit_conditions(&is_unconditional, &servers);
                    }
                    Err(_) if target.is_done().await => return Ok(()),
                    Err(error) if attempts.wait(&error).await => {}
                    other => return other.map(drop),
                }
            }
        };
        self.start(complete).wait()?;
        self.runtime.is_settled(id);
        Ok(())
    }

    /// Removes the parts of a multipart upload, if the store answers.
    pub(crate) fn abort(&self, target: &UploadTarget, id: &str) {
        let (target, upload) = (target.clone(), id.to_owned());
        let abort = async move {
            let _ = tokio::time::timeout(ABORT, target.abort(&upload)).await;
            Ok(())
        };
        let _ = self.start(abort).wait();
        self.runtime.is_settled(id);
    }

    /// Removes an object. A missing object is no error.
    pub(crate) fn remove(&self, key: &str) -> Result<(), StoreError> {
        let (store, path) = (self.store.clone(), parse_key(key)?);
        let servers = self.servers.clone();
        let remove = async move {
            let remove = || async { store.delete(&path).await.map_err(|e| store_error(&e)) };
            match repeated(&servers, remove).await {
                Err(StoreError::NotFound) => Ok(()),
                other => other,
            }
        };
        self.start(remove).wait()
    }

    /// Removes an object even when a signal is about to end the program.
    pub(crate) fn remove_anyway(&self, path: Path) -> Result<(), StoreError> {
        let store = self.store.clone();
        let remove = async move { store.delete(&path).await.map_err(|e| store_error(&e)) };
        self.runtime.clean_up(remove)
    }

    /// Writes an object unconditionally.
    pub(crate) fn overwrite(&self, path: Path, content: Vec<Bytes>) -> Result<(), StoreError> {
        let (store, servers) = (self.store.clone(), self.servers.clone());
        let content = PutPayload::from_iter(content);
        let put = async move {
            let put = || async {
                let put = store.put(&path, content.clone()).await;
                put.map_err(|e| store_error(&e)).map(drop)
            };
            repeated(&servers, put).await
        };
        self.start(put).wait()
    }

    /// The names of objects below a prefix.
    pub(crate) fn names(&self, prefix: &str) -> Result<Vec<Vec<u8>>, StoreError> {
        let listed = self.list(parse_key(prefix.trim_end_matches('/'))?)?;
        let names = listed
            .objects
            .iter()
            .filter_map(|it| it.location.filename());
        Ok(names.map(|name| name.as_bytes().to_vec()).collect())
    }

    /// The objects directly below a prefix, and the common prefixes there.
    pub(crate) fn list(&self, prefix: Path) -> Result<ListResult, StoreError> {
        let (store, servers) = (self.store.clone(), self.servers.clone());
        let list = async move {
            let prefix = (!prefix.as_ref().is_empty()).then_some(&prefix);
            let list = || async {
                let listed = store.list_with_delimiter(prefix).await;
                listed.map_err(|e| store_error(&e))
            };
            repeated(&servers, list).await
        };
        self.start(list).wait()
    }
}

/// Makes a request that may be made twice until it succeeds. object_store repeats a request without
/// a response, but neither one whose response ends early nor one that conflicts with another.
async fn repeated<T, F: Future<Output = Result<T, StoreError>>>(
    servers: &Servers,
    request: impl Fn() -> F,
) -> Result<T, StoreError> {
    let mut attempts = Attempts::new(servers);
    loop {
        match request().await {
            Err(error) if attempts.wait(&error).await => {}
            other => return other,
        }
    }
}

/// Turns conditional requests off, because the store does not support them, and reports this once.
fn omit_conditions(is_unconditional: &AtomicBool, servers: &Servers) {
    if !is_unconditional.swap(true, Relaxed) {
        servers.notices.report_no_conditions();
    }
}

/// Parses a key without percent-decoding; only `/` separates its parts.
pub(crate) fn parse_key(key: &str) -> Result<Path, StoreError> {
    use object_store::path::Error;
    let why = |error| match error {
        Error::EmptySegment { .. } => "the key has an empty part (//)",
        Error::BadSegment { .. } if key.split('/').any(|part| part == "." || part == "..") => {
            "the key has the part '.' or '..'"
        }
        _ => "the key has a character that keys cannot have here",
    };
    Path::parse(key).map_err(|error| StoreError::BadKey(why(error)))
}

/// Reads a response body: as many bytes as its header announces, at most `most`. If object_store
/// requests the rest of an incomplete body again, the bytes of the new response count towards the
/// limit, too.
async fn body(got: GetResult, most: u64) -> Result<Bytes, StoreError> {
    let length = got.range.end.saturating_sub(got.range.start);
    let too_long = || StoreError::LongAnswer(most as usize);
    if length > most {
        return Err(too_long());
    }
    let (mut body, mut pieces) = (BytesMut::new(), got.into_stream());
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|e| store_error(&e))?;
        if (body.len() + piece.len()) as u64 > length {
            return Err(too_long());
        }
        body.extend_from_slice(&piece);
    }
    match body.len() as u64 == length {
        true => Ok(body.freeze()),
        false => Err(StoreError::NoConnection("the answer ends early".to_owned())),
    }
}

/// Reads the end of an object: its metadata, and up to `bytes` bytes.
async fn tail(
    store: &AmazonS3,
    path: &Path,
    bytes: u64,
) -> Result<(ObjectMeta, Bytes), StoreError> {
    let get = |range| GetOptions {
        range: Some(range),
        ..GetOptions::default()
    };
    // Use GET: its response, unlike the response to HEAD, tells why there is no object.
    let error = match store.get_opts(path, get(GetRange::Suffix(bytes))).await {
        Ok(got) => {
            let meta = got.meta.clone();
            return Ok((meta, body(got, bytes).await?));
        }
        Err(error) => error,
    };
    // An empty object has no range, and some stores refuse a suffix range longer than the object.
    let head = GetOptions {
        head: true,
        ..GetOptions::default()
    };
    let meta = match store.get_opts(path, head).await {
        Ok(got) if got.meta.size == 0 => return Ok((got.meta, Bytes::new())),
        Ok(got) if got.meta.size < bytes => got.meta,
        Ok(_) | Err(_) => return Err(store_error(&error)),
    };
    let rest = GetOptions {
        if_match: meta.e_tag.clone(),
        ..get(GetRange::Bounded(0..meta.size))
    };
    let got = store.get_opts(path, rest).await;
    let got = got.map_err(|e| store_error(&e))?;
    Ok((meta, body(got, bytes).await?))
}
