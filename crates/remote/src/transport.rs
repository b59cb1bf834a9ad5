//! Functions that `object_store` does not have: a condition in the request that completes an
//! upload, and notices about repeated requests.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use catalog::StoreError;
use catalog::remote::MOST_BYTES;
use http_body::{Body, Frame};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, LOCATION, RANGE};
use reqwest::redirect::Policy;
use reqwest::{ClientBuilder, Method, StatusCode, Url};

use crate::retry::{CONNECT, SILENCE, Servers};

/// Sends the requests of a client.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    /// The header with the condition for the request that completes an upload. S3 signatures need
    /// not cover that header.
    pub(crate) condition: Option<(HeaderName, HeaderValue)>,
    pub(crate) servers: Servers,
    /// Whether a response has shown that the store does not support conditional requests.
    pub(crate) is_unconditional: Arc<AtomicBool>,
    /// Bytes received so far of the list being read; the store sends a list in pages.
    pub(crate) listed: Arc<AtomicUsize>,
}

impl Transport {
    pub(crate) fn new(servers: Servers, is_unconditional: Arc<AtomicBool>) -> Transport {
        Transport {
            condition: None,
            servers,
            is_unconditional,
            listed: Arc::default(),
        }
    }
}

#[derive(Debug)]
struct Service {
    client: HttpClient,
    transport: Transport,
}

impl HttpConnector for Transport {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let value = |key| options.get_config_value(&key).unwrap_or_default();
        let client = http_client()
            .https_only(value(ClientConfigKey::AllowHttp) != "true")
            .http1_only();
        // The service of a machine's metadata is asked with less patience.
        let client = match value(ClientConfigKey::ConnectTimeout).strip_suffix('s') {
            Some("1") => client.connect_timeout(Duration::from_secs(1)),
            _ => client,
        };
        let client = client
            .build()
            .map_err(|error| object_store::Error::Generic {
                store: "HTTP",
                source: error.into(),
            })?;
        Ok(HttpClient::new(Service {
            client: HttpClient::new(client),
            transport: self.clone(),
        }))
    }
}

/// The settings of a client. It follows no redirects: a request that writes would become one that
/// reads, and headers with credentials would go to another host.
pub(crate) fn http_client() -> ClientBuilder {
    // Install the only TLS provider of the program explicitly, so that the choice does not depend
    // on crate features.
    let _ = rustls::crypto::ring::default_provider().install_default();
    ClientBuilder::new()
        .connect_timeout(CONNECT)
        .read_timeout(SILENCE)
        .redirect(Policy::none())
}

/// The error of a response that redirects the request.
pub(crate) fn redirection(status: StatusCode, headers: &HeaderMap) -> Option<StoreError> {
    let is_redirection = status.is_redirection() && status != StatusCode::NOT_MODIFIED;
    let location = headers.get(LOCATION).filter(|_| is_redirection)?;
    let url = location
        .to_str()
        .ok()
        .and_then(|text| Url::parse(text).ok());
    let host = url.and_then(|url| url.host_str().map(str::to_owned));
    Some(StoreError::Redirected(host))
}

/// Whether a request completes a multipart upload.
fn completes(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    request.method() == Method::POST && query.starts_with("uploadId=")
}

/// Whether a server error may be temporary; "not implemented" is not.
pub(crate) fn is_repeated(status: StatusCode) -> bool {
    let busy = [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT];
    let is_final = status == StatusCode::NOT_IMPLEMENTED;
    status.is_server_error() && !is_final || busy.contains(&status)
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if let Some((name, value)) = &self.transport.condition
            && completes(&request)
            && !self.transport.is_unconditional.load(Relaxed)
        {
            request.headers_mut().insert(name, value.clone());
        }
        let most = most_bytes(&request);
        let list = page_of_list(&request).map(|is_first| {
            if is_first {
                self.transport.listed.store(0, Relaxed);
            }
            Arc::clone(&self.transport.listed)
        });
        let servers = &self.transport.servers;
        let (host, bytes) = (host_of(&request), request.body().content_length());
        let answer = servers.watch(&host, bytes, self.client.execute(request));
        let answer = match answer.await {
            Ok(answer) => {
                servers.note_answer(&host);
                match answer.status() {
                    // object_store repeats requests after other server errors.
                    StatusCode::NOT_IMPLEMENTED => Err(HttpError::new(
                        HttpErrorKind::Unknown,
                        StoreError::NotImplemented,
                    )),
                    status => {
                        if is_repeated(status) {
                            servers.note_status(status);
                        }
                        match redirection(status, answer.headers()) {
                            Some(error) => Err(HttpError::new(HttpErrorKind::Unknown, error)),
                            None => Ok(answer),
                        }
                    }
                }
            }
            Err(error) if servers.note_failure(&host, &error) => Err(error),
            Err(error) => Err(HttpError::new(HttpErrorKind::Unknown, error)),
        };
        answer.map(|answer| answer.map(|body| Bounded::limit(body, most, list.unwrap_or_default())))
    }
}

/// The host and port of a request.
fn host_of(request: &HttpRequest) -> String {
    // Without the user and the password of the URL.
    let host = request.uri().host().unwrap_or_default();
    match request.uri().port_u16() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Maximum bytes of the response to a request: those of the requested range.
fn most_bytes(request: &HttpRequest) -> usize {
    /// Minimum limit for a response: room for an error text of a few lines, as for an invalid
    /// range.
    const REASON: usize = 64 << 10;
    let range = request.headers().get(RANGE);
    let range = range.and_then(|range| range.to_str().ok()?.strip_prefix("bytes="));
    let bytes = range.and_then(|range| match range.split_once('-')? {
        ("", last) => last.parse().ok(),
        (from, to) => {
            let (from, to) = (from.parse::<usize>().ok()?, to.parse::<usize>().ok()?);
            to.checked_sub(from)?.checked_add(1)
        }
    });
    bytes.map_or(MOST_BYTES, |bytes: usize| bytes.clamp(REASON, MOST_BYTES))
}

/// Whether a list request is for the first page; `None` for other requests.
fn page_of_list(request: &HttpRequest) -> Option<bool> {
    let query = request.uri().query().unwrap_or_default();
    let is_list = query.contains("list-type=");
    is_list.then_some(!query.contains("continuation-token="))
}

/// A response body that fails if it is too long; for a list, together with its earlier pages.
/// Whatever length the header claims, only bytes that have arrived take memory.
struct Bounded {
    body: HttpResponseBody,
    read: Arc<AtomicUsize>,
    most: usize,
}

impl Bounded {
    fn limit(body: HttpResponseBody, most: usize, read: Arc<AtomicUsize>) -> HttpResponseBody {
        HttpResponseBody::new(Bounded { body, read, most })
    }
}

impl Body for Bounded {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        let data = match &frame {
            Some(Ok(frame)) => frame.data_ref(),
            _ => None,
        };
        let length = data.map_or(0, Bytes::len);
        let read = self.read.fetch_add(length, Relaxed).saturating_add(length);
        Poll::Ready(match read <= self.most {
            true => frame,
            false => {
                let error = StoreError::LongAnswer(self.most);
                Some(Err(HttpError::new(HttpErrorKind::Decode, error)))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use object_store::client::HttpRequestBody;

    use super::*;

    #[test]
    fn answers_are_no_longer_than_the_range_that_is_asked_for() {
        let most = |range: &str| {
            let mut request = HttpRequest::new(HttpRequestBody::empty());
            request.headers_mut().insert(RANGE, range.parse().unwrap());
            most_bytes(&request)
        };
        assert_eq!(most("bytes=0-999999"), 1_000_000);
        assert_eq!(most("bytes=-2000000"), 2_000_000);
        assert_eq!(most("bytes=5-5"), 64 << 10);
        for odd in ["bytes=5-", "bytes=9-5", "lines=1-2", "bytes=0-99999999999"] {
            assert_eq!(most(odd), MOST_BYTES, "{odd}");
        }
    }

    #[test]
    fn a_longer_answer_is_an_error() {
        let read = |most| {
            let body = Bytes::from_static(b"12345").into();
            let body = Bounded::limit(body, most, Arc::default());
            let runtime = tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap();
            runtime.block_on(body.bytes()).map_err(|e| e.to_string())
        };
        assert_eq!(read(5).unwrap(), "12345");
        assert!(read(4).unwrap_err().contains("more than 4 bytes"));
    }
}
