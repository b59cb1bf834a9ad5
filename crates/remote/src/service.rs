//! The services that have object stores, and their clients: credentials, endpoint, patience.

use std::sync::Arc;
use std::time::Duration;

use archive::StoreError;
use object_store::aws::AmazonS3Builder;
use object_store::azure::{AzureCredentialProvider, MicrosoftAzureBuilder};
use object_store::gcp::{GcpCredential, GcpCredentialProvider, GoogleCloudStorageBuilder};
use object_store::multipart::MultipartStore;
use object_store::{
    BackoffConfig, ClientOptions, ObjectMeta, ObjectStore, RetryConfig, StaticCredentialProvider,
};

use crate::error::{store_error, token_error};
use crate::retry::{CONNECT, MOST_PATIENCE, SILENCE};
use crate::transport::Transport;

/// A service, by the scheme of its URLs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Service {
    /// `s3://`: Amazon S3, and what is compatible with it.
    S3,
    /// `az://`: Azure Blob Storage.
    Azure,
    /// `gs://`: Google Cloud Storage.
    Google,
}

impl Service {
    /// Identifies a version of an object, if the service does.
    pub(crate) fn version(self, meta: &ObjectMeta) -> Option<String> {
        match self {
            Service::S3 | Service::Azure => meta.e_tag.clone(),
            // Conditions of uploads have generations.
            Service::Google => meta.version.clone(),
        }
    }
}

/// What the environment and the command line say about a service.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) service: Service,
    endpoint: Option<String>,
    /// The variable or the option that the endpoint is from.
    endpoint_from: &'static str,
    /// What object_store cannot put into a request.
    bad: Option<String>,
    /// What must be set that is not, if there are no credentials.
    missing: Option<&'static str>,
    /// What was looked at first, if the credentials are those of the machine.
    unset: Option<&'static str>,
    /// The variable that permits an endpoint without TLS, if it is not set.
    forbids_http: Option<&'static str>,
    /// The endpoint is an emulator, which gets no credentials.
    is_emulator: bool,
    /// Of Azure.
    account: String,
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn has(name: &str) -> bool {
    variable(name).is_some()
}

fn is_true(name: &str) -> bool {
    variable(name).is_some_and(|value| value.eq_ignore_ascii_case("true") || value == "1")
}

/// The value of the first variable that is set.
fn first_of(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| variable(name))
}

/// The variables of Azure's own programs come after those of the library.
const AZURE_ACCOUNT: [&str; 2] = ["AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"];
const AZURE_KEY: [&str; 4] = [
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_MASTER_KEY",
    "AZURE_STORAGE_KEY",
];
const AZURE_OTHER: [&str; 8] = [
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_TOKEN",
    "AZURE_CLIENT_ID",
    "AZURE_STORAGE_CLIENT_ID",
    "AZURE_CREDENTIAL_TYPE",
    "AZURE_USE_AZURE_CLI",
    "AZURE_SKIP_SIGNATURE",
];
/// The access key, and what replaces it.
const AWS: [&str; 6] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];
const GOOGLE: [&str; 5] = [
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_PATH",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
    "GOOGLE_BEARER_TOKEN",
];

const ENDPOINT_OPTION: &str = "--endpoint-url";

/// A variable of AWS with a value that object_store panics on, or that no request can have.
fn bad_variable() -> Option<String> {
    let all =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let mut all = all.filter(|(name, _)| name.starts_with("AWS_"));
    all.find(|(name, value)| is_bad(name, value.as_encoded_bytes()))
        .map(|(name, _)| name)
}

fn is_bad(name: &str, value: &[u8]) -> bool {
    // Secret keys, names of files and of profiles may have blanks.
    const STRICT: [&str; 6] = [
        "AWS_ACCESS_KEY_ID",
        "AWS_SESSION_TOKEN",
        "AWS_TOKEN",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_REQUEST_PAYER",
    ];
    match STRICT.contains(&name) || name.contains("ENDPOINT") {
        true => !value.iter().all(u8::is_ascii_graphic),
        false => value.iter().any(u8::is_ascii_control),
    }
}

fn check_endpoint(endpoint: &str, from: &str) -> Result<(), StoreError> {
    if !endpoint.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(StoreError::BadSetting(from.to_owned()));
    }
    let rest = ["http://", "https://"]
        .iter()
        .find_map(|scheme| endpoint.strip_prefix(scheme));
    // The library would take a part of the path for the host.
    let has_host = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    match has_host && reqwest::Url::parse(endpoint).is_ok() {
        true => Ok(()),
        false => Err(StoreError::BadEndpoint(from.to_owned())),
    }
}

impl Settings {
    pub(crate) fn from_environment(service: Service, endpoint: Option<String>) -> Settings {
        match service {
            Service::S3 => Settings::s3(endpoint),
            Service::Azure => Settings::azure(endpoint),
            Service::Google => Settings::google(endpoint),
        }
    }

    fn new(service: Service, endpoint: Option<String>, allow_http: &'static str) -> Settings {
        Settings {
            service,
            endpoint,
            endpoint_from: ENDPOINT_OPTION,
            bad: None,
            missing: None,
            unset: None,
            forbids_http: (!is_true(allow_http)).then_some(allow_http),
            is_emulator: false,
            account: String::new(),
        }
    }

    fn s3(endpoint: Option<String>) -> Settings {
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
        const ENDPOINTS: [&str; 3] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
        let from = ENDPOINTS.into_iter().find(|name| has(name));
        let from = from.filter(|_| endpoint.is_none());
        let endpoint = endpoint.or_else(|| variable(from?));
        Settings {
            missing,
            endpoint_from: from.unwrap_or(ENDPOINT_OPTION),
            bad: bad_variable(),
            ..Settings::new(Service::S3, endpoint, "AWS_ALLOW_HTTP")
        }
    }

    fn azure(endpoint: Option<String>) -> Settings {
        let endpoint = endpoint.or_else(|| first_of(&["AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"]));
        let account = first_of(&AZURE_ACCOUNT);
        let has_credentials = AZURE_KEY.iter().chain(&AZURE_OTHER).any(|name| has(name));
        Settings {
            missing: account.is_none().then_some(AZURE_ACCOUNT[0]),
            unset: (!has_credentials).then_some(AZURE_KEY[0]),
            account: account.unwrap_or_default(),
            ..Settings::new(Service::Azure, endpoint, "AZURE_ALLOW_HTTP")
        }
    }

    fn google(endpoint: Option<String>) -> Settings {
        let emulator = variable("STORAGE_EMULATOR_HOST").filter(|_| endpoint.is_none());
        let is_emulator = emulator.is_some();
        let emulator = emulator.map(|host| match host.contains("://") {
            true => host,
            false => format!("http://{host}"),
        });
        let endpoint = endpoint
            .or(emulator)
            .or_else(|| variable("GOOGLE_BASE_URL"));
        let endpoint = endpoint.map(|url| url.trim_end_matches('/').to_owned());
        let has_credentials = GOOGLE.iter().any(|name| has(name));
        let settings = Settings::new(Service::Google, endpoint, "GOOGLE_ALLOW_HTTP");
        Settings {
            unset: (!has_credentials).then_some(GOOGLE[0]),
            forbids_http: settings.forbids_http.filter(|_| !is_emulator),
            is_emulator,
            ..settings
        }
    }

    /// The same for another endpoint, which has its scheme.
    pub(crate) fn at(self, endpoint: String) -> Settings {
        let is_http = endpoint.starts_with("http://");
        Settings {
            forbids_http: self.forbids_http.filter(|_| !is_http),
            endpoint: Some(endpoint),
            endpoint_from: "the location",
            ..self
        }
    }

    /// Adds the variables that the credentials are from to the error that they are wrong.
    pub(crate) fn name_variables(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::WrongCredentials(code, _) => {
                StoreError::WrongCredentials(code, credential_variables(self.service, has))
            }
            error => error,
        }
    }

    /// Whether something is missing or malformed that every request needs.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        if let Some(variable) = &self.bad {
            return Err(StoreError::BadSetting(variable.clone()));
        }
        let is_s3 = self.service == Service::S3;
        if let Some(endpoint) = self.endpoint.as_ref().filter(|_| is_s3) {
            check_endpoint(endpoint, self.endpoint_from)?;
        }
        if let Some(variable) = self.missing {
            return Err(StoreError::NoCredentials(variable));
        }
        let is_http = |url: &String| url.starts_with("http://");
        match self.forbids_http {
            Some(variable) if self.endpoint.as_ref().is_some_and(is_http) => {
                Err(StoreError::PlainHttp(variable))
            }
            _ => Ok(()),
        }
    }

    /// Where Google's requests go that `object_store` does not make.
    pub(crate) fn google_base(&self) -> &str {
        let base = self.endpoint.as_deref();
        base.unwrap_or("https://storage.googleapis.com")
    }

    pub(crate) fn account(&self) -> &str {
        &self.account
    }

    fn options(&self) -> ClientOptions {
        ClientOptions::new()
            .with_allow_http(self.forbids_http.is_none())
            .with_connect_timeout(CONNECT)
            .with_timeout_disabled()
            .with_read_timeout(SILENCE)
    }

    /// [`Transport`] says when no request is repeated any more.
    fn retries() -> RetryConfig {
        RetryConfig {
            backoff: BackoffConfig {
                init_backoff: Duration::from_millis(100),
                max_backoff: Duration::from_secs(10),
                base: 2.0,
            },
            max_retries: usize::MAX,
            retry_timeout: MOST_PATIENCE,
        }
    }

    /// Makes a client of a bucket, with the credentials of another one if there is one already.
    pub(crate) fn client(
        &self,
        bucket: &str,
        credentials: &Credentials,
        transport: Transport,
    ) -> Result<(Clients, Credentials), StoreError> {
        let retries = Settings::retries();
        match self.service {
            Service::S3 => {
                let mut builder = AmazonS3Builder::from_env()
                    .with_bucket_name(bucket)
                    // One object at a time is removed, which every store can do.
                    .with_disable_bulk_delete(true)
                    .with_client_options(self.options())
                    .with_retry(retries)
                    .with_http_connector(transport);
                if let Some(endpoint) = &self.endpoint {
                    builder = builder.with_endpoint(endpoint);
                }
                let store = builder.build().map_err(|e| store_error(&e))?;
                Ok((Clients::both(store), Credentials::Own))
            }
            Service::Azure => {
                let mut builder = MicrosoftAzureBuilder::from_env()
                    .with_account(&self.account)
                    .with_container_name(bucket)
                    .with_client_options(self.options())
                    .with_retry(retries)
                    .with_http_connector(transport);
                if let Some(endpoint) = &self.endpoint {
                    builder = builder.with_endpoint(endpoint.clone());
                }
                if let Some(key) = first_of(&AZURE_KEY) {
                    builder = builder.with_access_key(key);
                }
                if let Credentials::Azure(shared) = credentials {
                    builder = builder.with_credentials(Arc::clone(shared));
                }
                let variable = self.unset.unwrap_or(AZURE_KEY[0]);
                let store = builder
                    .build()
                    .map_err(|_| StoreError::BadCredentials(variable))?;
                let credentials = Credentials::Azure(Arc::clone(store.credentials()));
                Ok((Clients::both(store), credentials))
            }
            Service::Google => {
                let mut builder = GoogleCloudStorageBuilder::from_env()
                    .with_bucket_name(bucket)
                    .with_client_options(self.options())
                    .with_retry(retries)
                    .with_http_connector(transport);
                if let Some(endpoint) = &self.endpoint {
                    builder = builder.with_base_url(endpoint);
                }
                if self.is_emulator {
                    let bearer = String::new();
                    let none = StaticCredentialProvider::new(GcpCredential { bearer });
                    builder = builder.with_credentials(Arc::new(none));
                }
                if let Credentials::Google(shared) = credentials {
                    builder = builder.with_credentials(Arc::clone(shared));
                }
                let set = GOOGLE.into_iter().find(|name| has(name));
                let variable = set.unwrap_or(GOOGLE[0]);
                let store = builder
                    .build()
                    .map_err(|_| StoreError::BadCredentials(variable))?;
                let credentials = Credentials::Google(Arc::clone(store.credentials()));
                Ok((Clients::both(store), credentials))
            }
        }
    }

    /// Whether the credentials can be had, which for some is a request of its own.
    pub(crate) async fn check_credentials(
        &self,
        credentials: Credentials,
    ) -> Result<(), StoreError> {
        let checked = match credentials {
            Credentials::Own => return Ok(()),
            Credentials::Azure(provider) => provider.get_credential().await.map(drop),
            Credentials::Google(provider) => provider.get_credential().await.map(drop),
        };
        checked.map_err(|error| match self.unset {
            // The machine has no identity.
            Some(variable) if !self.is_emulator => StoreError::NoCredentials(variable),
            _ => self.name_variables(token_error(&error)),
        })
    }
}

/// The variables that are set and that the credentials of a service are from.
fn credential_variables(service: Service, has: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let first = |names: &[&'static str]| names.iter().copied().find(|name| has(name));
    let all = |names: &[&'static str]| -> Vec<&'static str> {
        names.iter().copied().filter(|name| has(name)).collect()
    };
    match service {
        Service::S3 => match has(AWS[0]) && has(AWS[1]) {
            true => all(&AWS[..3]),
            false => all(&AWS[3..]),
        },
        Service::Azure => {
            let mut set: Vec<_> = first(&AZURE_ACCOUNT).into_iter().collect();
            set.extend(first(&AZURE_KEY));
            set.extend(all(&AZURE_OTHER));
            set
        }
        Service::Google => all(&GOOGLE),
    }
}

/// A client, as what reads and writes objects, and as what uploads parts.
#[derive(Clone, Debug)]
pub(crate) struct Clients {
    pub(crate) objects: Arc<dyn ObjectStore>,
    pub(crate) parts: Arc<dyn Parts>,
}

impl Clients {
    fn both<S: ObjectStore + Parts>(store: S) -> Clients {
        let store = Arc::new(store);
        Clients {
            objects: Arc::clone(&store) as Arc<dyn ObjectStore>,
            parts: store,
        }
    }
}

/// Uploads objects in parts.
pub(crate) trait Parts: MultipartStore + std::fmt::Debug {}

impl<S: MultipartStore + std::fmt::Debug> Parts for S {}

/// What signs requests, and is shared by the clients of a bucket so that tokens are requested once.
#[derive(Clone, Debug)]
pub(crate) enum Credentials {
    /// Each client has its own.
    Own,
    Azure(AzureCredentialProvider),
    Google(GcpCredentialProvider),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_no_request_can_have_are_refused() {
        for (name, value, expected) in [
            ("AWS_SECRET_ACCESS_KEY", "abc/+= def", false),
            ("AWS_SECRET_ACCESS_KEY", "abc\n", true),
            ("AWS_REGION", "eu-central-1 ", true),
            ("AWS_ENDPOINT_URL", "http://a b", true),
            ("AWS_PROFILE", "my profile", false),
            ("AWS_PROFILE", "my profile\n", true),
        ] {
            assert_eq!(is_bad(name, value.as_bytes()), expected, "{name} {value}");
        }
        assert_eq!(check_endpoint("https://host:9000/path", "X"), Ok(()));
        for endpoint in [
            "host",
            "host:9000",
            "localhost:9000/x",
            "ftp://host",
            "http://",
            "https:///b",
        ] {
            let expected = Err(StoreError::BadEndpoint("X".to_owned()));
            assert_eq!(check_endpoint(endpoint, "X"), expected, "{endpoint}");
        }
    }

    #[test]
    fn only_variables_that_are_used_are_named() {
        let named =
            |service, set: &[&str]| credential_variables(service, |name| set.contains(&name));
        let all: Vec<&str> = [&AWS[..], &AZURE_ACCOUNT, &AZURE_KEY, &GOOGLE].concat();
        assert_eq!(named(Service::S3, &all), AWS[..3]);
        assert_eq!(named(Service::S3, &AWS[..2]), AWS[..2]);
        assert_eq!(named(Service::S3, &AWS[3..4]), AWS[3..4]);
        assert_eq!(
            named(Service::Azure, &all),
            [AZURE_ACCOUNT[0], AZURE_KEY[0]]
        );
        assert_eq!(
            named(Service::Azure, &[AZURE_ACCOUNT[1], AZURE_OTHER[1]]),
            [AZURE_ACCOUNT[1], AZURE_OTHER[1]]
        );
        assert_eq!(named(Service::Google, &all), GOOGLE);
        assert!(named(Service::Google, &AWS).is_empty());
    }
}
