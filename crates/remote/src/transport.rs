//! What `object_store` has no option for: completes an upload on a condition, and tells that a request is repeated.

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::azure::{AzureAuthorizer, AzureCredential, AzureCredentialProvider};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};

use crate::retry::Notices;

/// Sends requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transport {
    /// Headers that are added to the request that completes an upload.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// Signs that request again: the signature of Azure covers these headers, which that of S3 need not.
    pub(crate) signer: Option<AzureSigner>,
    /// Where a request is reported that fails for the first time.
    pub(crate) notices: Option<Notices>,
}

/// The account and its credentials.
#[derive(Clone, Debug)]
pub(crate) struct AzureSigner {
    pub(crate) account: String,
    pub(crate) credentials: AzureCredentialProvider,
}

impl AzureSigner {
    async fn sign(&self, request: &mut HttpRequest) -> object_store::Result<()> {
        let credential = self.credentials.get_credential().await?;
        // Tokens are not signatures.
        if let AzureCredential::AccessKey(_) = *credential {
            request.headers_mut().remove(AUTHORIZATION);
            AzureAuthorizer::new(&credential, &self.account).try_authorize(request)?;
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Service {
    client: HttpClient,
    transport: Transport,
}

impl HttpConnector for Transport {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Service {
            client: ReqwestConnector::default().connect(options)?,
            transport: self.clone(),
        }))
    }
}

/// Whether a request makes an object of parts.
fn completes(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    match *request.method() {
        Method::POST => query.starts_with("uploadId="),
        Method::PUT => query.split('&').any(|it| it == "comp=blocklist"),
        _ => false,
    }
}

/// Whether an error of the server may pass.
pub(crate) fn is_repeated(status: StatusCode) -> bool {
    let busy = [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT];
    status.is_server_error() || busy.contains(&status)
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if !self.transport.headers.is_empty() && completes(&request) {
            for (name, value) in &self.transport.headers {
                request.headers_mut().insert(name, value.clone());
            }
            if let Some(signer) = &self.transport.signer {
                let signed = signer.sign(&mut request).await;
                signed.map_err(|e| HttpError::new(HttpErrorKind::Unknown, e))?;
            }
        }
        let answer = self.client.execute(request).await;
        if let Some(notices) = &self.transport.notices {
            match &answer {
                Ok(answer) if is_repeated(answer.status()) => {
                    notices.report_status(answer.status());
                }
                Err(error) => notices.report(error),
                Ok(_) => {}
            }
        }
        answer
    }
}
