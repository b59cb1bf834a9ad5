//! Completes a multipart upload on a condition, which `object_store` has no option for.

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use reqwest::Method;
use reqwest::header::{HeaderName, HeaderValue};

/// Adds a header to requests that complete a multipart upload. The signature does not cover it, as it need
/// not.
#[derive(Clone, Debug)]
pub(crate) struct Conditional {
    pub(crate) header: Option<(HeaderName, HeaderValue)>,
}

#[derive(Debug)]
struct Service {
    client: HttpClient,
    header: Option<(HeaderName, HeaderValue)>,
}

impl HttpConnector for Conditional {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Service {
            client: ReqwestConnector::default().connect(options)?,
            header: self.header.clone(),
        }))
    }
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let query = request.uri().query().unwrap_or_default();
        let is_last = *request.method() == Method::POST && query.starts_with("uploadId=");
        if let Some((name, value)) = self.header.clone().filter(|_| is_last) {
            request.headers_mut().insert(name, value);
        }
        self.client.execute(request).await
    }
}
