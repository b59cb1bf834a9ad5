//! A bucket: credentials, endpoint, requests.

use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use archive::StoreError;
use archive::remote::Version;
use bytes::Bytes;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, BackoffConfig, ClientOptions, GetOptions, GetRange, GetResult,
    ListResult, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions,
    PutPayload, RetryConfig, UpdateVersion,
};
use reqwest::header::{HeaderValue, IF_MATCH, IF_NONE_MATCH};

use crate::conditional::Conditional;
use crate::error::store_error;
use crate::runtime::{ABORT, Pending, Runtime};

/// What the environment and the command line say about the store.
#[derive(Debug)]
pub(crate) struct Settings {
    endpoint: Option<String>,
    /// What must be set that is not, if there are no credentials.
    missing: Option<&'static str>,
    allows_http: bool,
}

impl Settings {
    pub(crate) fn from_environment(endpoint: Option<String>) -> Settings {
        let get = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let is_true = |name: &str| {
            get(name).is_some_and(|value| value.eq_ignore_ascii_case("true") || value == "1")
        };
        let has = |name: &str| get(name).is_some();
        let missing = match (has("AWS_ACCESS_KEY_ID"), has("AWS_SECRET_ACCESS_KEY")) {
            (true, true) => None,
            (true, false) => Some("AWS_SECRET_ACCESS_KEY"),
            (false, true) => Some("AWS_ACCESS_KEY_ID"),
            // The role of a pod, a container or a machine; or no signature at all.
            (false, false) => {
                let has_other = has("AWS_WEB_IDENTITY_TOKEN_FILE")
                    || has("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
                    || has("AWS_CONTAINER_CREDENTIALS_FULL_URI")
                    || is_true("AWS_SKIP_SIGNATURE")
                    || !is_true("AWS_EC2_METADATA_DISABLED");
                (!has_other).then_some("AWS_ACCESS_KEY_ID")
            }
        };
        let endpoint = endpoint
            .or_else(|| get("AWS_ENDPOINT_URL_S3"))
            .or_else(|| get("AWS_ENDPOINT_URL"));
        Settings {
            endpoint,
            missing,
            allows_http: is_true("AWS_ALLOW_HTTP"),
        }
    }

    /// The same for another endpoint, which has its scheme.
    pub(crate) fn at(&self, endpoint: String) -> Settings {
        Settings {
            allows_http: endpoint.starts_with("http://"),
            endpoint: Some(endpoint),
            missing: self.missing,
        }
    }
}

/// How long to wait, and how often to try again.
#[derive(Clone, Copy)]
enum Patience {
    /// For the first request, where a wrong endpoint is more likely than a server that restarts.
    Little,
    /// Some minutes: a backup survives a server that restarts.
    Much,
}

impl Patience {
    /// Exponential back-off with jitter.
    fn retries(self) -> RetryConfig {
        let max_retries = match self {
            Patience::Little => 4,
            Patience::Much => 14,
        };
        RetryConfig {
            backoff: BackoffConfig {
                init_backoff: Duration::from_millis(100),
                max_backoff: Duration::from_secs(20),
                base: 3.0,
            },
            max_retries,
            retry_timeout: Duration::from_secs(15 * 60),
        }
    }
}

/// A bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    name: String,
    settings: Arc<Settings>,
    runtime: Arc<Runtime>,
    first: AmazonS3,
    store: AmazonS3,
}

/// The key in the metadata of an object that identifies the upload that made it.
const UPLOAD: Attribute = Attribute::Metadata(Cow::Borrowed("fathom-upload"));

/// Where an upload goes.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    path: Path,
    /// What is replaced.
    mode: PutMode,
    /// Identifies the upload: after an answer was lost, whether it was carried out.
    upload: String,
    /// A client for this target only, which completes uploads on the condition.
    store: AmazonS3,
}

impl Target {
    fn attributes(&self) -> Attributes {
        Attributes::from_iter([(UPLOAD, self.upload.clone())])
    }

    /// Removes the parts of an upload. The store may still be writing a part whose request was cancelled:
    /// so it is asked until it no longer knows the upload.
    async fn abort(&self, upload: &str) {
        const TRIES: u32 = 5;
        let id = upload.to_owned();
        for _ in 0..TRIES {
            if self.store.abort_multipart(&self.path, &id).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Whether the object is that of this upload.
    async fn is_done(&self) -> bool {
        let options = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        let got = self.store.get_opts(&self.path, options).await;
        got.is_ok_and(|got| {
            got.attributes
                .get(&UPLOAD)
                .is_some_and(|upload| **upload == *self.upload)
        })
    }
}

impl Bucket {
    /// A client of a bucket. No request is made.
    pub(crate) fn new(
        name: &str,
        settings: &Arc<Settings>,
        runtime: Arc<Runtime>,
    ) -> Result<Bucket, StoreError> {
        if let Some(variable) = settings.missing {
            return Err(StoreError::NoCredentials(variable));
        }
        let is_http = settings
            .endpoint
            .iter()
            .any(|url| url.starts_with("http://"));
        if is_http && !settings.allows_http {
            return Err(StoreError::PlainHttp);
        }
        // The only provider in the program, so that no choice depends on the features of the crates.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Bucket {
            name: name.to_owned(),
            settings: Arc::clone(settings),
            first: build(builder(name, settings, Patience::Little))?,
            store: build(builder(name, settings, Patience::Much))?,
            runtime,
        })
    }

    /// Reads the end of an object: its description, and up to so many bytes.
    pub(crate) fn tail(&self, key: &str, bytes: u64) -> Result<(ObjectMeta, Bytes), StoreError> {
        let (path, store) = (parse_key(key)?, self.first.clone());
        let tail = async move {
            let options = GetOptions {
                range: Some(GetRange::Suffix(bytes)),
                ..GetOptions::default()
            };
            match store.get_opts(&path, options).await {
                Ok(got) => {
                    let meta = got.meta.clone();
                    Ok((meta, body(got).await?))
                }
                Err(error) => {
                    // An empty object has no range, and some stores refuse one that is longer than the object.
                    let head = GetOptions {
                        head: true,
                        ..GetOptions::default()
                    };
                    match store.get_opts(&path, head).await {
                        Ok(got) if got.meta.size == 0 => Ok((got.meta, Bytes::new())),
                        Ok(got) if got.meta.size < bytes => {
                            let whole = GetOptions {
                                if_match: got.meta.e_tag.clone(),
                                ..GetOptions::default()
                            };
                            let read = store.get_opts(&path, whole).await;
                            let read = read.map_err(|e| store_error(&e))?;
                            Ok((got.meta, body(read).await?))
                        }
                        Ok(_) | Err(_) => Err(store_error(&error)),
                    }
                }
            }
        };
        self.runtime.start_task(tail).wait()
    }

    /// Begins to read a range of an object, or all of it, of this version only.
    pub(crate) fn range(
        &self,
        path: &Path,
        version: Option<&String>,
        range: Option<Range<u64>>,
    ) -> Pending<Bytes> {
        let (store, path) = (self.store.clone(), path.clone());
        let options = GetOptions {
            range: range.map(GetRange::Bounded),
            if_match: version.cloned(),
            ..GetOptions::default()
        };
        self.runtime.start_task(async move {
            // object_store repeats a request that gets no answer, and not one whose answer ends early.
            let mut waits = WAITS.into_iter();
            loop {
                let got = store.get_opts(&path, options.clone()).await;
                match body(got.map_err(|e| store_error(&e))?).await {
                    Err(StoreError::NoConnection(text)) => match waits.next() {
                        Some(wait) => tokio::time::sleep(Duration::from_millis(wait)).await,
                        None => return Err(StoreError::NoConnection(text)),
                    },
                    other => return other,
                }
            }
        })
    }

    /// Where an upload goes that replaces a version.
    pub(crate) fn target(&self, key: &str, replaces: &Version) -> Result<Target, StoreError> {
        let tag = match replaces {
            Version::Absent => None,
            Version::Known(version) => Some(Some(version.clone())),
            // This also shows that the bucket exists and the credentials are right.
            Version::Current => match self.tail(key, 1) {
                Ok((meta, _)) => Some(meta.e_tag),
                Err(StoreError::NotFound) => None,
                Err(error) => return Err(error),
            },
        };
        let (mode, header) = match tag {
            None => (
                PutMode::Create,
                Some((IF_NONE_MATCH, HeaderValue::from_static("*"))),
            ),
            // An object without ETag cannot be told from another version.
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
        let builder = builder(&self.name, &self.settings, Patience::Much);
        let random = || RandomState::new().build_hasher().finish();
        Ok(Target {
            path: parse_key(key)?,
            mode,
            upload: format!("{:016x}{:016x}", random(), random()),
            store: build(builder.with_http_connector(Conditional { header }))?,
        })
    }

    /// Writes a small object.
    pub(crate) fn put(&self, target: &Target, content: Bytes) -> Result<(), StoreError> {
        let target = target.clone();
        let put = async move {
            let mut mode = target.mode.clone();
            // object_store itself does not repeat a request that may have been carried out.
            for wait in WAITS {
                let options = PutOptions {
                    mode: mode.clone(),
                    attributes: target.attributes(),
                    ..PutOptions::default()
                };
                let put = target
                    .store
                    .put_opts(&target.path, content.clone().into(), options)
                    .await;
                let Err(error) = put.map_err(|e| store_error(&e)) else {
                    return Ok(());
                };
                if target.is_done().await {
                    return Ok(());
                }
                match error {
                    // The store has no conditional requests.
                    StoreError::Other(code) if code == "NotImplemented" => {
                        mode = PutMode::Overwrite
                    }
                    StoreError::NoConnection(_) | StoreError::Other(_) if wait > 0 => {
                        tokio::time::sleep(Duration::from_millis(wait)).await;
                    }
                    error => return Err(error),
                }
            }
            Err(StoreError::Changed)
        };
        self.runtime.start_task(put).wait()
    }

    /// Begins a multipart upload.
    pub(crate) fn begin_multipart(&self, target: &Target) -> Result<String, StoreError> {
        let on_its_way = target.clone();
        let begin = async move {
            let options = PutMultipartOptions {
                attributes: on_its_way.attributes(),
                ..PutMultipartOptions::default()
            };
            let begun = on_its_way
                .store
                .create_multipart_opts(&on_its_way.path, options)
                .await;
            begun.map_err(|e| store_error(&e))
        };
        let id = self.runtime.start_task(begin).wait()?;
        let (target, upload) = (target.clone(), id.clone());
        let abort = async move { target.abort(&upload).await };
        self.runtime.abort_on_signal(&id, Box::pin(abort));
        Ok(id)
    }

    /// Begins to upload a part.
    pub(crate) fn put_part(
        &self,
        target: &Target,
        id: &str,
        nth: usize,
        part: Bytes,
    ) -> Pending<PartId> {
        let (target, id) = (target.clone(), id.to_owned());
        self.runtime.start_task(async move {
            let put = target
                .store
                .put_part(&target.path, &id, nth, part.into())
                .await;
            put.map_err(|e| store_error(&e))
        })
    }

    /// Makes an object of the parts of a multipart upload.
    pub(crate) fn complete(
        &self,
        target: &Target,
        id: &str,
        parts: Vec<PartId>,
    ) -> Result<(), StoreError> {
        let (target, upload) = (target.clone(), id.to_owned());
        let complete = async move {
            let completed = target
                .store
                .complete_multipart(&target.path, &upload, parts)
                .await;
            match completed.map_err(|e| store_error(&e)) {
                Err(_) if target.is_done().await => Ok(()),
                other => other.map(drop),
            }
        };
        self.runtime.start_task(complete).wait()?;
        self.runtime.is_settled(id);
        Ok(())
    }

    /// Removes the parts of a multipart upload, if the store answers.
    pub(crate) fn abort(&self, target: &Target, id: &str) {
        let (target, upload) = (target.clone(), id.to_owned());
        let abort = async move {
            let _ = tokio::time::timeout(ABORT, target.abort(&upload)).await;
            Ok(())
        };
        let _ = self.runtime.start_task(abort).wait();
        self.runtime.is_settled(id);
    }

    /// Removes an object. One that does not exist is no error.
    pub(crate) fn remove(&self, key: &str) -> Result<(), StoreError> {
        let (store, path) = (self.store.clone(), parse_key(key)?);
        let remove = async move {
            match store.delete(&path).await.map_err(|e| store_error(&e)) {
                Err(StoreError::NotFound) => Ok(()),
                other => other,
            }
        };
        self.runtime.start_task(remove).wait()
    }

    /// The same, even when a signal is about to end the program.
    pub(crate) fn remove_anyway(&self, path: Path) -> Result<(), StoreError> {
        let store = self.first.clone();
        let remove = async move { store.delete(&path).await.map_err(|e| store_error(&e)) };
        self.runtime.clean_up(remove)
    }

    /// Writes an object, whatever is there.
    pub(crate) fn overwrite(&self, path: Path, content: Vec<Bytes>) -> Result<(), StoreError> {
        let store = self.store.clone();
        let put = async move {
            let put = store.put(&path, PutPayload::from_iter(content)).await;
            put.map_err(|e| store_error(&e)).map(drop)
        };
        self.runtime.start_task(put).wait()
    }

    /// The names below a prefix.
    pub(crate) fn names(&self, prefix: &str) -> Result<Vec<Vec<u8>>, StoreError> {
        let listed = self.list(parse_key(prefix.trim_end_matches('/'))?)?;
        let names = listed
            .objects
            .iter()
            .filter_map(|it| it.location.filename());
        Ok(names.map(|name| name.as_bytes().to_vec()).collect())
    }

    /// The objects directly below a prefix, and the prefixes there.
    pub(crate) fn list(&self, prefix: Path) -> Result<ListResult, StoreError> {
        let store = self.first.clone();
        let list = async move {
            let prefix = (!prefix.as_ref().is_empty()).then_some(&prefix);
            let listed = store.list_with_delimiter(prefix).await;
            listed.map_err(|e| store_error(&e))
        };
        self.runtime.start_task(list).wait()
    }
}

/// The key as it is: only `/` separates its parts.
pub(crate) fn parse_key(key: &str) -> Result<Path, StoreError> {
    Path::parse(key).map_err(|_| StoreError::BadUrl)
}

async fn body(got: GetResult) -> Result<Bytes, StoreError> {
    got.bytes().await.map_err(|e| store_error(&e))
}

/// Milliseconds to wait before a small object is uploaded again: 2 minutes in all.
const WAITS: [u64; 11] = [
    100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 40_000, 40_000, 0,
];

fn build(builder: AmazonS3Builder) -> Result<AmazonS3, StoreError> {
    builder.build().map_err(|e| store_error(&e))
}

fn builder(bucket: &str, settings: &Settings, patience: Patience) -> AmazonS3Builder {
    /// A server that accepts a connection and says nothing for so long is given up.
    const SILENCE: Duration = Duration::from_secs(5 * 60);
    let options = ClientOptions::new()
        .with_allow_http(settings.allows_http)
        .with_connect_timeout(Duration::from_secs(10))
        .with_timeout_disabled()
        .with_read_timeout(SILENCE);
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        // One object at a time is removed, which every store can do.
        .with_disable_bulk_delete(true)
        .with_client_options(options)
        .with_retry(patience.retries());
    if let Some(endpoint) = &settings.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    builder
}
