//! The files of a restic repository on a [rest-server](https://github.com/restic/rest-server), by restic's
//! [REST protocol](https://restic.readthedocs.io/en/stable/REST_backend.html).

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use catalog::StoreError;
use catalog::remote::{Files, MOST_BYTES};
use reqwest::header::{ACCEPT, CONTENT_LENGTH, RANGE};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};

use crate::error::no_connection;
use crate::retry::{Attempts, Notices, Servers};
use crate::runtime::Runtime;
use crate::transport::{http_client, is_repeated, redirection};

/// Version 2 of the protocol, whose lists contain lengths.
const VERSION_2: &str = "application/vnd.x.restic.rest.v2";

/// A repository on a rest-server.
#[derive(Debug)]
pub(crate) struct RestFiles {
    server: Arc<Server>,
    runtime: Arc<Runtime>,
}

#[derive(Debug)]
struct Server {
    client: Client,
    /// The URL of the repository, with a final slash.
    base: Url,
    user: Option<(String, String)>,
    /// Host and port, for messages.
    host: String,
    servers: Servers,
}

/// A file in the server's list.
#[derive(serde::Deserialize)]
struct ListedFile {
    name: String,
    size: u64,
}

impl RestFiles {
    /// The repository at a URL. A user and a password in the URL have priority over those in the
    /// environment.
    pub(crate) fn new(
        url: &str,
        runtime: Arc<Runtime>,
        notices: Notices,
    ) -> Result<RestFiles, StoreError> {
        let mut base = Url::parse(url).map_err(|_| StoreError::BadUrl)?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(StoreError::BadUrl);
        }
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let user = match base.username() {
            "" => variable("RESTIC_REST_USERNAME").map(|user| {
                let password = variable("RESTIC_REST_PASSWORD").unwrap_or_default();
                (user, password)
            }),
            user => Some((decoded(user), decoded(base.password().unwrap_or_default()))),
        };
        let _ = base.set_username("");
        let _ = base.set_password(None);
        let client = http_client().build().map_err(|e| no_connection(&e))?;
        let host = base.host_str().unwrap_or_default();
        let host = match base.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let server = Server {
            client,
            base,
            user,
            host,
            servers: Servers::new(notices),
        };
        Ok(RestFiles {
            server: Arc::new(server),
            runtime,
        })
    }

    /// Makes a request, repeating it as needed, and reads a response of at most `most` bytes.
    fn fetch(
        &self,
        method: Method,
        path: &str,
        most: usize,
        add: impl Fn(RequestBuilder) -> RequestBuilder + Send + 'static,
    ) -> Result<Bytes, StoreError> {
        let (server, path) = (Arc::clone(&self.server), path.to_owned());
        let ask = async move { server.ask(method, &path, most, add).await };
        self.runtime.start_task(ask).wait()
    }
}

impl Server {
    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", url.path()));
        let request = self.client.request(method, url);
        match &self.user {
            Some((user, password)) => request.basic_auth(user, Some(password)),
            None => request,
        }
    }

    /// Sends a request whose body has `bytes` bytes.
    async fn send(&self, request: RequestBuilder, bytes: usize) -> Result<Response, StoreError> {
        let answer = self.servers.watch(&self.host, bytes, request.send()).await;
        let answer = answer.map_err(|e| no_connection(&e))?;
        self.servers.note_answer(&self.host);
        let redirection = redirection(answer.status(), answer.headers());
        let error = redirection.or_else(|| status_error(answer.status()));
        error.map_or(Ok(answer), Err)
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        most: usize,
        add: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Bytes, StoreError> {
        let mut attempts = Attempts::new(&self.servers);
        loop {
            let sent = self.send(add(self.request(method.clone(), path)), 0).await;
            let read = match sent {
                Ok(answer) => body(answer, most).await,
                Err(error) => Err(error),
            };
            match read {
                Err(error) if attempts.wait(&error).await => {}
                other => return other,
            }
        }
    }

    /// Writes a file. If the server refuses an existing file, the response to an earlier attempt
    /// was lost, or another process has written the same bytes: files are named by their hashes.
    async fn write(&self, path: &str, content: Bytes) -> Result<(), StoreError> {
        let mut attempts = Attempts::new(&self.servers);
        loop {
            let request = self.request(Method::POST, path).body(content.clone());
            let Err(error) = self.send(request, content.len()).await else {
                return Ok(());
            };
            let found = self.send(self.request(Method::HEAD, path), 0).await;
            let len = found.ok().and_then(|found| {
                let len = found.headers().get(CONTENT_LENGTH)?.to_str().ok()?;
                len.parse::<usize>().ok()
            });
            match error {
                _ if len == Some(content.len()) => return Ok(()),
                error if attempts.wait(&error).await => {}
                error => return Err(error),
            }
        }
    }
}

impl Files for RestFiles {
    fn read(&self, path: &str, range: Option<(u64, usize)>) -> Result<Bytes, StoreError> {
        let most = range.map_or(MOST_BYTES, |(_, len)| len);
        let bytes = self.fetch(Method::GET, &flat(path), most, move |request| match range {
            Some((_, 0)) | None => request,
            Some((offset, len)) => {
                let last = offset + len as u64 - 1;
                request.header(RANGE, format!("bytes={offset}-{last}"))
            }
        })?;
        match range {
            Some((_, len)) if bytes.len() != len => Err(StoreError::Changed),
            _ => Ok(bytes),
        }
    }

    fn write(&self, path: &str, content: Vec<Bytes>) -> Result<(), StoreError> {
        let (server, path) = (Arc::clone(&self.server), flat(path));
        let content = Bytes::from(content.concat());
        let write = async move { server.write(&path, content).await };
        self.runtime.start_task(write).wait()
    }

    fn remove(&self, path: &str) -> Result<(), StoreError> {
        let (server, path) = (Arc::clone(&self.server), flat(path));
        let remove = async move {
            match server
                .ask(Method::DELETE, &path, MOST_BYTES, |request| request)
                .await
            {
                Err(StoreError::NotFound) => Ok(()),
                other => other.map(drop),
            }
        };
        self.runtime.clean_up(remove)
    }

    fn list(&self, dir: &str) -> Result<Vec<(String, u64)>, StoreError> {
        let list = self.fetch(Method::GET, &format!("{dir}/"), MOST_BYTES, |request| {
            request.header(ACCEPT, VERSION_2)
        });
        let list = match list {
            // A missing directory counts as empty: no file was written into it.
            Err(StoreError::NotFound) => return Ok(Vec::new()),
            other => other?,
        };
        // Go encodes an empty list as `null`.
        let list: Option<Vec<ListedFile>> = serde_json::from_slice(&list)
            .map_err(|_| StoreError::Other("a list is malformed".to_owned()))?;
        let list = list.unwrap_or_default().into_iter();
        Ok(list.map(|it| (it.name, it.size)).collect())
    }
}

/// Reads a response body. Whatever length the header claims, only bytes that have arrived take
/// memory.
async fn body(mut answer: Response, most: usize) -> Result<Bytes, StoreError> {
    let mut body = BytesMut::new();
    while let Some(piece) = answer.chunk().await.map_err(|e| no_connection(&e))? {
        if body.len() + piece.len() > most {
            return Err(StoreError::LongAnswer(most));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body.freeze())
}

/// The path in the protocol, where `data` has no subdirectories.
fn flat(path: &str) -> String {
    match path.split_once('/') {
        Some((dir, rest)) => {
            let name = rest.rsplit('/').next().unwrap_or(rest);
            format!("{dir}/{name}")
        }
        None => path.to_owned(),
    }
}

/// Percent-decodes a user or a password of a URL.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut left = text.as_bytes();
    while let [first, rest @ ..] = left {
        let digits = rest.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        match byte.filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                left = &rest[2..];
            }
            None => {
                bytes.push(*first);
                left = rest;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn status_error(status: StatusCode) -> Option<StoreError> {
    match status {
        _ if status.is_success() => None,
        StatusCode::NOT_FOUND => Some(StoreError::NotFound),
        StatusCode::UNAUTHORIZED => {
            Some(StoreError::WrongCredentials(status.to_string(), Vec::new()))
        }
        StatusCode::FORBIDDEN => Some(StoreError::Denied),
        _ if status.is_redirection() || is_repeated(status) => {
            Some(StoreError::Other(status.to_string()))
        }
        _ => Some(StoreError::Refused(status.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn paths_and_users_are_those_of_the_protocol() {
        assert_eq!(flat("data/ab/abcd"), "data/abcd");
        assert_eq!(flat("locks/abcd"), "locks/abcd");
        assert_eq!(flat("config"), "config");
        assert_eq!(decoded("a%40b%2"), "a@b%2");
    }

    /// Covers a server that sends more bytes than requested, without end.
    #[test]
    fn an_answer_without_an_end_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/repo/", listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let _ = connection.read(&mut [0; 4096]).unwrap();
            let head = b"HTTP/1.1 206 Partial Content\r\nTransfer-Encoding: chunked\r\n\r\n";
            connection.write_all(head).unwrap();
            let piece = [&b"10000\r\n"[..], &[0; 0x1_0000], b"\r\n"].concat();
            let mut sent = 0_u64;
            while connection.write_all(&piece).is_ok() {
                sent += 0x1_0000;
            }
            sent
        });
        let notices = Notices::new(|_| {});
        let files = RestFiles::new(&url, Arc::new(Runtime::start().unwrap()), notices).unwrap();
        let read = files.read("data/ab/abcd", Some((0, 100)));
        assert_eq!(read, Err(StoreError::LongAnswer(100)));
        drop(files);
        assert!(server.join().unwrap() < 256 << 20);
    }
}
