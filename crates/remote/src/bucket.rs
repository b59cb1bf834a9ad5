//! A bucket: requests.

use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use archive::StoreError;
use archive::remote::{MOST_BYTES, Version};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use object_store::multipart::PartId;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error, GetOptions, GetRange, GetResult, ListResult, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    UpdateVersion,
};
use reqwest::header::{HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH};

use crate::error::store_error;
use crate::resumable::Resumable;
use crate::retry::{Attempts, Notices, Servers};
use crate::runtime::{ABORT, Pending, Runtime};
use crate::service::{Clients, Credentials, Service, Settings};
use crate::transport::{AzureSigner, Transport};

/// A bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    name: String,
    settings: Arc<Settings>,
    credentials: Credentials,
    servers: Servers,
    /// The store has no conditional requests.
    is_unconditional: Arc<AtomicBool>,
    runtime: Arc<Runtime>,
    store: Arc<dyn ObjectStore>,
}

/// The key in the metadata of an object that identifies the upload that made it. Azure permits no hyphen.
const UPLOAD: &str = "fathomupload";
const UPLOAD_ATTRIBUTE: Attribute = Attribute::Metadata(Cow::Borrowed(UPLOAD));

/// Where an upload goes.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    service: Service,
    path: Path,
    /// What is replaced.
    mode: PutMode,
    /// Identifies the upload: after an answer was lost, whether it was carried out.
    upload: String,
    /// Clients for this target only, which complete uploads on the condition.
    clients: Clients,
}

impl Target {
    fn attributes(&self) -> Attributes {
        Attributes::from_iter([(UPLOAD_ATTRIBUTE, self.upload.clone())])
    }

    /// Removes the parts of an upload. The store may still be writing a part whose request was cancelled:
    /// so it is asked until it no longer knows the upload. Azure removes them after a week, and not before.
    async fn abort(&self, upload: &str) {
        const TRIES: u32 = 5;
        if self.service == Service::Azure {
            return;
        }
        let id = upload.to_owned();
        for _ in 0..TRIES {
            if self
                .clients
                .parts
                .abort_multipart(&self.path, &id)
                .await
                .is_err()
            {
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
        let got = self.clients.objects.get_opts(&self.path, options).await;
        got.is_ok_and(|got| {
            got.attributes
                .get(&UPLOAD_ATTRIBUTE)
                .is_some_and(|upload| **upload == *self.upload)
        })
    }
}

impl Bucket {
    /// A client of a bucket. The only request that may be made is for a token.
    pub(crate) fn new(
        name: &str,
        settings: Settings,
        runtime: Arc<Runtime>,
        notices: Notices,
    ) -> Result<Bucket, StoreError> {
        settings.check()?;
        // The only provider in the program, so that no choice depends on the features of the crates.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let servers = Servers::new(notices);
        let is_unconditional = Arc::<AtomicBool>::default();
        let transport = Transport::new(servers.clone(), Arc::clone(&is_unconditional));
        let (store, credentials) = settings.client(name, &Credentials::Own, transport)?;
        let settings = Arc::new(settings);
        let (checked, shared) = (Arc::clone(&settings), credentials.clone());
        let check = async move { checked.check_credentials(shared).await };
        runtime.start_task(check).wait()?;
        Ok(Bucket {
            name: name.to_owned(),
            settings,
            credentials,
            servers,
            is_unconditional,
            runtime,
            store: store.objects,
        })
    }

    pub(crate) fn service(&self) -> Service {
        self.settings.service
    }

    fn start<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Pending<T> {
        let settings = Arc::clone(&self.settings);
        let named = async move { request.await.map_err(|e| settings.name_variables(e)) };
        self.runtime.start_task(named)
    }

    /// Reads the end of an object: its description, and up to so many bytes.
    pub(crate) fn tail(&self, key: &str, bytes: u64) -> Result<(ObjectMeta, Bytes), StoreError> {
        let (path, store) = (parse_key(key)?, Arc::clone(&self.store));
        let tail = async move { tail(&*store, &path, bytes).await };
        self.start(tail).wait()
    }

    /// Begins to read a range of an object, or all of it, of this version only.
    pub(crate) fn range(
        &self,
        path: &Path,
        version: Option<&String>,
        range: Option<Range<u64>>,
    ) -> Pending<Bytes> {
        let (store, path) = (Arc::clone(&self.store), path.clone());
        let asked = range.as_ref().map(|range| range.end - range.start);
        let most = asked.unwrap_or(MOST_BYTES as u64);
        let is_google = self.service() == Service::Google;
        let options = GetOptions {
            range: range.map(GetRange::Bounded),
            if_match: version.filter(|_| !is_google).cloned(),
            version: version.filter(|_| is_google).cloned(),
            ..GetOptions::default()
        };
        let is_versioned = options.version.is_some();
        let servers = self.servers.clone();
        self.start(async move {
            // object_store repeats a request that gets no answer, and not one whose answer ends early.
            let mut attempts = Attempts::new(&servers);
            loop {
                let got = store.get_opts(&path, options.clone()).await;
                let got = got.map_err(|e| match store_error(&e) {
                    StoreError::NotFound if is_versioned => StoreError::Changed,
                    error => error,
                });
                match body(got?, most).await {
                    Err(error) if attempts.wait(&error).await => {}
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
                Ok((meta, _)) => Some(self.service().version(&meta)),
                Err(StoreError::NotFound) => None,
                Err(error) => return Err(error),
            },
        };
        let random = || RandomState::new().build_hasher().finish();
        let upload = format!("{:016x}{:016x}", random(), random());
        let path = parse_key(key)?;
        if let Credentials::Google(credentials) = &self.credentials {
            let parts = Resumable::new(
                self.settings.google_base(),
                &self.name,
                &path,
                tag.as_ref().map_or(Some("0"), |tag| tag.as_deref()),
                (UPLOAD, &upload),
                Arc::clone(credentials),
                self.servers.clone(),
            )?;
            return Ok(Target {
                service: Service::Google,
                path,
                mode: PutMode::Overwrite,
                upload,
                clients: Clients {
                    objects: Arc::clone(&self.store),
                    parts: Arc::new(parts),
                },
            });
        }
        let malformed = |_| StoreError::Other("an ETag is malformed".to_owned());
        let (mode, header) = match tag {
            None => (
                PutMode::Create,
                Some((IF_NONE_MATCH, HeaderValue::from_static("*"))),
            ),
            // An object without ETag cannot be told from another version.
            Some(None) => (PutMode::Overwrite, None),
            Some(Some(tag)) => {
                let value = HeaderValue::from_str(&tag).map_err(malformed)?;
                let version = UpdateVersion {
                    e_tag: Some(tag),
                    version: None,
                };
                (PutMode::Update(version), Some((IF_MATCH, value)))
            }
        };
        let mut transport = Transport {
            headers: Vec::from_iter(header),
            ..Transport::new(self.servers.clone(), Arc::clone(&self.is_unconditional))
        };
        if let Credentials::Azure(credentials) = &self.credentials {
            // object_store has no attributes for the parts of Azure.
            let name = HeaderName::from_static("x-ms-meta-fathomupload");
            let value = HeaderValue::from_str(&upload).map_err(malformed)?;
            transport.headers.push((name, value));
            transport.signer = Some(AzureSigner {
                account: self.settings.account().to_owned(),
                credentials: Arc::clone(credentials),
            });
        }
        let credentials = &self.credentials;
        let made = self.settings.client(&self.name, credentials, transport)?;
        Ok(Target {
            service: self.service(),
            path,
            mode,
            upload,
            clients: made.0,
        })
    }

    /// Writes a small object.
    pub(crate) fn put(&self, target: &Target, content: Bytes) -> Result<(), StoreError> {
        if target.service == Service::Google {
            let id = self.begin_multipart(target)?;
            let part = self.put_part(target, &id, 0, content).wait();
            return match part.and_then(|part| self.complete(target, &id, vec![part])) {
                Ok(()) => Ok(()),
                Err(error) => {
                    self.abort(target, &id);
                    Err(error)
                }
            };
        }
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
                let objects = &target.clients.objects;
                let put = objects.put_opts(&target.path, content.clone().into(), options);
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

    /// Begins a multipart upload.
    pub(crate) fn begin_multipart(&self, target: &Target) -> Result<String, StoreError> {
        let on_its_way = target.clone();
        let begin = async move {
            let (parts, path) = (&on_its_way.clients.parts, &on_its_way.path);
            let begun = match on_its_way.service {
                Service::S3 => {
                    let options = PutMultipartOptions {
                        attributes: on_its_way.attributes(),
                        ..PutMultipartOptions::default()
                    };
                    parts.create_multipart_opts(path, options).await
                }
                // What completes the upload has the attributes, and parts need no name that they share.
                Service::Azure => Ok(on_its_way.upload.clone()),
                Service::Google => parts.create_multipart(path).await,
            };
            begun.map_err(|e| store_error(&e))
        };
        let id = self.start(begin).wait()?;
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
        self.start(async move {
            let put = target
                .clients
                .parts
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
        let (servers, is_unconditional) =
            (self.servers.clone(), Arc::clone(&self.is_unconditional));
        let complete = async move {
            let mut attempts = Attempts::new(&servers);
            loop {
                let has_condition = !is_unconditional.load(Relaxed);
                let completing =
                    target
                        .clients
                        .parts
                        .complete_multipart(&target.path, &upload, parts.clone());
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
    pub(crate) fn abort(&self, target: &Target, id: &str) {
        let (target, upload) = (target.clone(), id.to_owned());
        let abort = async move {
            let _ = tokio::time::timeout(ABORT, target.abort(&upload)).await;
            Ok(())
        };
        let _ = self.start(abort).wait();
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
        self.start(remove).wait()
    }

    /// The same, even when a signal is about to end the program.
    pub(crate) fn remove_anyway(&self, path: Path) -> Result<(), StoreError> {
        let store = self.store.clone();
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
        self.start(put).wait()
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
        let store = self.store.clone();
        let list = async move {
            let prefix = (!prefix.as_ref().is_empty()).then_some(&prefix);
            let listed = store.list_with_delimiter(prefix).await;
            listed.map_err(|e| store_error(&e))
        };
        self.start(list).wait()
    }
}

/// From now on, requests have no conditions: the store does not know them. That is said once.
fn omit_conditions(is_unconditional: &AtomicBool, servers: &Servers) {
    if !is_unconditional.swap(true, Relaxed) {
        servers.notices.report_no_conditions();
    }
}

/// The key as it is: only `/` separates its parts.
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

/// Reads an answer of at most so many bytes: as many as it says that it has. What a server sends in place of the end of an answer is
/// counted, too, when the library asks for the rest again.
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

/// Reads the end of an object: its description, and up to so many bytes.
async fn tail(
    store: &dyn ObjectStore,
    path: &Path,
    bytes: u64,
) -> Result<(ObjectMeta, Bytes), StoreError> {
    let get = |range| GetOptions {
        range: Some(range),
        ..GetOptions::default()
    };
    let first = match store.get_opts(path, get(GetRange::Suffix(bytes))).await {
        Ok(got) => {
            let meta = got.meta.clone();
            return Ok((meta, body(got, bytes).await?));
        }
        // Azure has no such ranges. Unlike that to HEAD, this answer says why there is no object.
        Err(Error::NotSupported { .. }) => {
            let first = store.get_opts(path, get(GetRange::Bounded(0..1))).await;
            first.map(|got| got.meta)
        }
        Err(error) => Err(error),
    };
    let meta = match first {
        Ok(meta) => meta,
        Err(error) => {
            // An empty object has no range, and some stores refuse one that is longer than the object.
            let head = GetOptions {
                head: true,
                ..GetOptions::default()
            };
            match store.get_opts(path, head).await {
                Ok(got) if got.meta.size == 0 => return Ok((got.meta, Bytes::new())),
                Ok(got) if got.meta.size < bytes => got.meta,
                Ok(_) | Err(_) => return Err(store_error(&error)),
            }
        }
    };
    let range = meta.size.saturating_sub(bytes)..meta.size;
    let rest = GetOptions {
        if_match: meta.e_tag.clone(),
        ..get(GetRange::Bounded(range))
    };
    let got = store.get_opts(path, rest).await;
    let got = got.map_err(|e| store_error(&e))?;
    Ok((meta, body(got, bytes).await?))
}
