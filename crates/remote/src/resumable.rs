//! Uploads to Google Cloud Storage by its
//! [resumable uploads](https://cloud.google.com/storage/docs/performing-resumable-uploads): a multipart upload, which
//! `object_store` has, cannot be completed on a condition there.

use async_trait::async_trait;
use bytes::Bytes;
use object_store::gcp::GcpCredentialProvider;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{Error, MultipartId, PutPayload, PutResult, Result};
use reqwest::header::{CONTENT_RANGE, CONTENT_TYPE, LOCATION, RANGE};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use tokio::sync::{Mutex, Notify};

use archive::StoreError;

use crate::error::{no_connection, one_line};
use crate::rest::body;
use crate::retry::{Attempts, CONNECT, SILENCE, Servers};
use crate::transport::is_repeated;

/// All pieces but the last are multiples of this.
const UNIT: usize = 256 << 10;

/// The upload of one object. Its parts are sent one after the other, in their order.
#[derive(Debug)]
pub(crate) struct Resumable {
    client: Client,
    credentials: GcpCredentialProvider,
    /// Begins an upload.
    begin: Url,
    /// The name of the upload, in the metadata of the object.
    metadata: String,
    servers: Servers,
    progress: Mutex<Progress>,
    has_moved: Notify,
}

#[derive(Debug, Default)]
struct Progress {
    /// The part that is next.
    part: usize,
    /// Bytes that the service has.
    sent: u64,
    /// What is not yet a unit.
    rest: Bytes,
    is_broken: bool,
}

/// What the service says about an upload.
enum State {
    Done,
    /// It has so many bytes.
    Has(u64),
}

impl Resumable {
    /// An upload to a bucket that replaces a generation: 0 if there must be no object, and any object without one.
    pub(crate) fn new(
        base: &str,
        bucket: &str,
        key: &Path,
        replaces: Option<&str>,
        (name, upload): (&str, &str),
        credentials: GcpCredentialProvider,
        servers: Servers,
    ) -> Result<Resumable, StoreError> {
        let begin = format!("{base}/upload/storage/v1/b/{bucket}/o?uploadType=resumable");
        let mut begin = Url::parse(&begin).map_err(|_| StoreError::BadUrl)?;
        let mut query = begin.query_pairs_mut();
        query.append_pair("name", key.as_ref());
        if let Some(generation) = replaces {
            query.append_pair("ifGenerationMatch", generation);
        }
        drop(query);
        let client = Client::builder()
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            // Status 308 has another meaning here.
            .redirect(Policy::none())
            .build();
        Ok(Resumable {
            client: client.map_err(|e| no_connection(&e))?,
            credentials,
            begin,
            metadata: serde_json::json!({ "metadata": { name: upload } }).to_string(),
            servers,
            progress: Mutex::default(),
            has_moved: Notify::new(),
        })
    }

    /// Begins the upload, and gives the URL of its session.
    async fn begin(&self) -> Result<String, StoreError> {
        let mut attempts = Attempts::new(&self.servers);
        loop {
            let credential = self.credentials.get_credential().await;
            let bearer = &credential
                .map_err(|e| crate::error::token_error(&e))?
                .bearer;
            let request = self.client.post(self.begin.clone()).bearer_auth(bearer);
            let request = request.header(CONTENT_TYPE, "application/json");
            match send(request.body(self.metadata.clone())).await {
                Ok(answer) => {
                    let session = answer.headers().get(LOCATION);
                    let session = session.and_then(|url| url.to_str().ok());
                    return session.map(str::to_owned).ok_or_else(malformed);
                }
                Err(StoreError::NotFound) => return Err(StoreError::NoBucket),
                Err(error) if attempts.wait(&error).await => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn put(&self, session: &str, range: String, body: Bytes) -> Result<State, StoreError> {
        let request = self.client.put(session).header(CONTENT_RANGE, range);
        let answer = send(request.body(body)).await?;
        if answer.status() != StatusCode::PERMANENT_REDIRECT {
            return Ok(State::Done);
        }
        let range = answer.headers().get(RANGE);
        let last =
            range.and_then(|range| range.to_str().ok()?.strip_prefix("bytes=0-")?.parse().ok());
        Ok(State::Has(last.map_or(0, |last: u64| last + 1)))
    }

    /// Sends the rest of an object, or only whole units of it.
    async fn send(
        &self,
        session: &str,
        progress: &mut Progress,
        is_last: bool,
    ) -> Result<(), StoreError> {
        let mut attempts = Attempts::new(&self.servers);
        loop {
            let from = progress.sent;
            let units = progress.rest.len() / UNIT * UNIT;
            let body = match is_last {
                true => progress.rest.clone(),
                false => progress.rest.slice(..units),
            };
            let to = from + body.len() as u64;
            let range = match (body.is_empty(), is_last) {
                (true, false) => return Ok(()),
                (true, true) => format!("bytes */{to}"),
                (false, false) => format!("bytes {from}-{}/*", to - 1),
                (false, true) => format!("bytes {from}-{}/{to}", to - 1),
            };
            let mut state = self.put(session, range, body).await;
            while let Err(error) = state {
                if !attempts.wait(&error).await {
                    return Err(error);
                }
                // How much has arrived is not known.
                state = self
                    .put(session, "bytes */*".to_owned(), Bytes::new())
                    .await;
            }
            let has = match state? {
                State::Done if is_last => return Ok(()),
                State::Has(has) if (from..=to).contains(&has) => has,
                State::Done | State::Has(_) => return Err(malformed()),
            };
            let _ = progress.rest.split_to((has - from) as usize);
            progress.sent = has;
            if has > from {
                attempts = Attempts::new(&self.servers);
            } else if !attempts.wait(&malformed()).await {
                return Err(malformed());
            }
        }
    }
}

/// Makes a request that is answered by success, or by what is left to send.
async fn send(request: RequestBuilder) -> Result<Response, StoreError> {
    let answer = request.send().await.map_err(|e| no_connection(&e))?;
    let status = answer.status();
    Err(match status {
        _ if status.is_success() => return Ok(answer),
        StatusCode::PERMANENT_REDIRECT => return Ok(answer),
        StatusCode::NOT_FOUND => StoreError::NotFound,
        StatusCode::PRECONDITION_FAILED | StatusCode::CONFLICT => StoreError::Changed,
        StatusCode::UNAUTHORIZED => StoreError::WrongCredentials(status.to_string(), Vec::new()),
        StatusCode::FORBIDDEN => StoreError::Denied,
        _ if is_repeated(status) => StoreError::Other(status.to_string()),
        _ => {
            /// Bytes of the reason.
            const MOST: usize = 64 << 10;
            let text = body(answer, MOST).await.unwrap_or_default();
            StoreError::Refused(one_line(&String::from_utf8_lossy(&text)))
        }
    })
}

fn malformed() -> StoreError {
    StoreError::Other("an answer is malformed".to_owned())
}

/// Takes an error through the types of `object_store`: see [`crate::error::store_error`].
fn passed(error: StoreError) -> Error {
    Error::Generic {
        store: "GCS",
        source: Box::new(error),
    }
}

#[async_trait]
impl MultipartStore for Resumable {
    async fn create_multipart(&self, _: &Path) -> Result<MultipartId> {
        self.begin().await.map_err(passed)
    }

    async fn put_part(
        &self,
        _: &Path,
        id: &MultipartId,
        part: usize,
        data: PutPayload,
    ) -> Result<PartId> {
        let mut progress = loop {
            let moved = self.has_moved.notified();
            let progress = self.progress.lock().await;
            if progress.is_broken {
                return Err(passed(StoreError::NoConnection(
                    "the upload is broken".to_owned(),
                )));
            }
            if progress.part == part {
                break progress;
            }
            drop(progress);
            moved.await;
        };
        let data = Bytes::from(data);
        progress.rest = match progress.rest.is_empty() {
            true => data,
            false => [&progress.rest[..], &data].concat().into(),
        };
        let sent = self.send(id, &mut progress, false).await;
        progress.part += 1;
        progress.is_broken = sent.is_err();
        self.has_moved.notify_waiters();
        let content_id = part.to_string();
        sent.map(|()| PartId { content_id }).map_err(passed)
    }

    async fn complete_multipart(
        &self,
        _: &Path,
        id: &MultipartId,
        _: Vec<PartId>,
    ) -> Result<PutResult> {
        let mut progress = self.progress.lock().await;
        self.send(id, &mut progress, true).await.map_err(passed)?;
        Ok(PutResult {
            e_tag: None,
            version: None,
            extensions: Default::default(),
        })
    }

    /// The service answers status 499 when the upload no longer exists, so that it is asked once.
    async fn abort_multipart(&self, _: &Path, id: &MultipartId) -> Result<()> {
        let _ = self.client.delete(id.as_str()).send().await;
        Err(passed(StoreError::NotFound))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex, PoisonError};

    use object_store::StaticCredentialProvider;
    use object_store::gcp::GcpCredential;

    use super::*;

    /// The service: it keeps only a part of some pieces, and loses some answers.
    #[derive(Default)]
    struct Service {
        requests: usize,
        content: Vec<u8>,
        /// Once it is complete.
        total: Option<u64>,
        begun_with: String,
    }

    impl Service {
        /// The answer to a request, and none when the connection breaks.
        fn answer(&mut self, head: &str, range: &str, body: &[u8]) -> Option<String> {
            self.requests += 1;
            if head.starts_with("POST") {
                self.begun_with = head.to_owned();
                return Some("200 OK\r\nLocation: http://HOST/session".to_owned());
            }
            let (bytes, total) = range
                .strip_prefix("bytes ")
                .unwrap()
                .split_once('/')
                .unwrap();
            if let Some((from, to)) = bytes.split_once('-') {
                let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
                assert_eq!(to + 1 - from, body.len());
                assert_eq!(from, self.content.len(), "a gap, or bytes that it has");
                assert!(total != "*" || body.len().is_multiple_of(UNIT));
                let kept = match self.requests % 5 {
                    1 => body.len() / 2 / UNIT * UNIT,
                    2 => 0,
                    _ => body.len(),
                };
                self.content.extend(&body[..kept]);
            }
            if total.parse() == Ok(self.content.len() as u64) {
                self.total = Some(self.content.len() as u64);
            }
            match self.requests % 5 {
                2 => return Some("503 Service Unavailable".to_owned()),
                3 => return None,
                _ => {}
            }
            Some(match (self.total, self.content.len()) {
                (Some(_), _) => "200 OK".to_owned(),
                (None, 0) => "308 Resume Incomplete".to_owned(),
                (None, len) => format!("308 Resume Incomplete\r\nRange: bytes=0-{}", len - 1),
            })
        }
    }

    fn serve(listener: &TcpListener, service: &Mutex<Service>) -> std::io::Result<()> {
        let host = listener.local_addr()?.to_string();
        for client in listener.incoming() {
            let mut client = client?;
            let mut from = BufReader::new(client.try_clone()?);
            let (mut head, mut length, mut range) = (String::new(), 0, String::new());
            from.read_line(&mut head)?;
            loop {
                let mut line = String::new();
                from.read_line(&mut line)?;
                match line.trim_end().split_once(": ") {
                    Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                        length = value.parse().unwrap();
                    }
                    Some((name, value)) if name.eq_ignore_ascii_case("content-range") => {
                        value.clone_into(&mut range);
                    }
                    Some(_) => {}
                    None => break,
                }
            }
            let mut body = vec![0; length];
            from.read_exact(&mut body)?;
            let mut service = service.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(answer) = service.answer(&head, &range, &body) {
                let answer = answer.replace("HOST", &host);
                let end = "Content-Length: 0\r\nConnection: close\r\n\r\n";
                write!(client, "HTTP/1.1 {answer}\r\n{end}")?;
            }
        }
        Ok(())
    }

    /// No emulator keeps a part of a piece, or tells how much has arrived.
    #[test]
    fn nothing_is_lost_or_sent_twice() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let service = Arc::new(Mutex::new(Service::default()));
        let shared = Arc::clone(&service);
        std::thread::spawn(move || serve(&listener, &shared));
        let bearer = "token".to_owned();
        let credentials = Arc::new(StaticCredentialProvider::new(GcpCredential { bearer }));
        let key = Path::parse("a/b c").unwrap();
        let servers = Servers::new(crate::retry::Notices::new(|_| {}));
        let (replaces, upload) = (Some("7"), ("name", "upload"));
        let upload = Resumable::new(
            &base,
            "bucket",
            &key,
            replaces,
            upload,
            credentials,
            servers,
        )
        .unwrap();
        let upload = Arc::new(upload);
        // The second part is not a multiple of a unit, as before a sync.
        let lens = [3 * UNIT, UNIT + 100, 2 * UNIT, 5];
        let parts = lens.iter().zip(1..).map(|(len, byte)| vec![byte; *len]);
        let parts: Vec<Vec<u8>> = parts.collect();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let id = upload.create_multipart(&key).await.unwrap();
            // Parts are begun in any order.
            let tasks = [0, 2, 1, 3].map(|nth| {
                let (upload, key, id) = (Arc::clone(&upload), key.clone(), id.clone());
                let part = parts[nth].clone();
                tokio::spawn(async move { upload.put_part(&key, &id, nth, part.into()).await })
            });
            for task in tasks {
                task.await.unwrap().unwrap();
            }
            upload
                .complete_multipart(&key, &id, Vec::new())
                .await
                .unwrap();
        });
        let service = service.lock().unwrap();
        assert!(service.content == parts.concat());
        assert_eq!(service.total, Some(service.content.len() as u64));
        let begun = &service.begun_with;
        assert!(
            begun.contains("name=a%2Fb+c") && begun.contains("ifGenerationMatch=7"),
            "{begun}"
        );
    }
}
