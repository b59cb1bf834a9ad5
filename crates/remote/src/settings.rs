//! The settings of an S3 client: credentials, endpoint, timeouts.

use std::time::Duration;

use catalog::StoreError;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};

use crate::error::store_error;
use crate::retry::{CONNECT, MOST_PATIENCE, SILENCE};
use crate::transport::Transport;
use crate::url::is_url_text;

/// Settings of a store from the environment and the command line.
#[derive(Debug)]
pub(crate) struct Settings {
    endpoint: Option<String>,
    /// The variable or option that gave the endpoint.
    endpoint_from: &'static str,
    /// The name of a variable whose value object_store cannot put into a request.
    bad: Option<String>,
    /// The variable that must be set for credentials, but is not.
    missing: Option<&'static str>,
    /// Whether the endpoint may be without TLS (`http:`).
    allows_http: bool,
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

/// The environment variables of the access key, and of the alternatives to an access key.
const CREDENTIALS: [&str; 6] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];

const ENDPOINT_OPTION: &str = "--endpoint-url";

/// The variables with URLs of services that give credentials.
const OTHER_URLS: [&str; 3] = [
    "AWS_METADATA_ENDPOINT",
    "AWS_ENDPOINT_URL_STS",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];

/// A variable of AWS with a value that object_store panics on, or that no request can contain.
fn bad_variable() -> Option<String> {
    let all =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let mut all = all.filter(|(name, _)| name.starts_with("AWS_"));
    all.find(|(name, value)| is_bad(name, value.as_encoded_bytes()))
        .map(|(name, _)| name)
}

fn is_bad(name: &str, value: &[u8]) -> bool {
    // Variables that must not contain blanks. Secret keys and names of files and profiles may
    // contain blanks.
    const STRICT: [&str; 4] = [
        "AWS_ACCESS_KEY_ID",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_REQUEST_PAYER",
    ];
    match STRICT.contains(&name) || name.contains("ENDPOINT") || name.ends_with("_URI") {
        true => !is_url_text(value),
        false => value.iter().any(u8::is_ascii_control),
    }
}

fn check_endpoint(endpoint: &str, from: &str) -> Result<(), StoreError> {
    if !is_url_text(endpoint.as_bytes()) {
        return Err(StoreError::BadSetting(from.to_owned()));
    }
    let rest = ["http://", "https://"]
        .iter()
        .find_map(|scheme| endpoint.strip_prefix(scheme));
    // The library would mistake a part of the path for the host.
    let has_host = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    // The library appends the bucket and the key.
    let is_base = reqwest::Url::parse(endpoint).is_ok_and(|url| url.query().is_none());
    match has_host && is_base {
        true => Ok(()),
        false => Err(StoreError::BadEndpoint(from.to_owned())),
    }
}

fn is_http(endpoint: &str) -> bool {
    endpoint.starts_with("http://")
}

impl Settings {
    /// Settings from the environment; `endpoint`, from the command line, replaces the
    /// environment's.
    pub(crate) fn from_environment(endpoint: Option<String>) -> Settings {
        let missing = match (has("AWS_ACCESS_KEY_ID"), has("AWS_SECRET_ACCESS_KEY")) {
            (true, true) => None,
            (true, false) => Some("AWS_SECRET_ACCESS_KEY"),
            (false, true) => Some("AWS_ACCESS_KEY_ID"),
            // Without an access key, credentials may come from the role of a pod, a container or a
            // machine, or requests may be unsigned.
            (false, false) => {
                let has_other = CREDENTIALS[3..].iter().any(|name| has(name))
                    || is_true("AWS_SKIP_SIGNATURE")
                    || !is_true("AWS_EC2_METADATA_DISABLED");
                (!has_other).then_some("AWS_ACCESS_KEY_ID")
            }
        };
        const ENDPOINTS: [&str; 3] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
        let from = ENDPOINTS.into_iter().find(|name| has(name));
        let from = from.filter(|_| endpoint.is_none());
        Settings {
            endpoint: endpoint.or_else(|| variable(from?)),
            endpoint_from: from.unwrap_or(ENDPOINT_OPTION),
            bad: bad_variable(),
            missing,
            allows_http: is_true("AWS_ALLOW_HTTP"),
        }
    }

    /// The settings with a different endpoint, which includes its scheme.
    pub(crate) fn at(self, endpoint: String) -> Settings {
        Settings {
            allows_http: self.allows_http || is_http(&endpoint),
            endpoint: Some(endpoint),
            endpoint_from: "the location",
            ..self
        }
    }

    /// Checks the settings that every request needs.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        if let Some(variable) = &self.bad {
            return Err(StoreError::BadSetting(variable.clone()));
        }
        if let Some(endpoint) = &self.endpoint {
            check_endpoint(endpoint, self.endpoint_from)?;
        }
        for name in OTHER_URLS {
            variable(name).map_or(Ok(()), |url| check_endpoint(&url, name))?;
        }
        if let Some(variable) = self.missing {
            return Err(StoreError::NoCredentials(variable));
        }
        match self.endpoint.as_deref().is_some_and(is_http) && !self.allows_http {
            true => Err(StoreError::PlainHttp),
            false => Ok(()),
        }
    }

    /// Creates a client of a bucket.
    pub(crate) fn client(
        &self,
        bucket: &str,
        transport: Transport,
    ) -> Result<AmazonS3, StoreError> {
        let options = ClientOptions::new()
            .with_allow_http(self.allows_http)
            .with_connect_timeout(CONNECT)
            .with_timeout_disabled()
            .with_read_timeout(SILENCE);
        // `Transport` decides when to stop repeating a request.
        let retries = RetryConfig {
            backoff: BackoffConfig {
                init_backoff: Duration::from_millis(100),
                max_backoff: Duration::from_secs(10),
                base: 2.0,
            },
            max_retries: usize::MAX,
            retry_timeout: MOST_PATIENCE,
        };
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            // Remove objects one by one, which every store supports.
            .with_disable_bulk_delete(true)
            .with_client_options(options)
            .with_retry(retries)
            .with_http_connector(transport);
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        builder
            .build()
            .map_err(|e| without_value(store_error(&e), std::env::vars()))
    }
}

/// Names the variable whose value an error quotes: the value may be a secret.
fn without_value(
    error: StoreError,
    mut variables: impl Iterator<Item = (String, String)>,
) -> StoreError {
    let text = error.to_string();
    let is_quoted = |value: &str| !value.is_empty() && text.contains(&format!("\"{value}\""));
    match variables.find(|(name, value)| name.starts_with("AWS_") && is_quoted(value)) {
        Some((name, _)) => StoreError::BadSetting(name),
        None => error,
    }
}

/// Adds the credentials' variables to an error about wrong credentials.
pub(crate) fn name_variables(error: StoreError) -> StoreError {
    match error {
        StoreError::WrongCredentials(code, _) => {
            StoreError::WrongCredentials(code, credential_variables(has))
        }
        error => error,
    }
}

/// The credential variables that are set.
fn credential_variables(has: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let used = match has(CREDENTIALS[0]) && has(CREDENTIALS[1]) {
        true => &CREDENTIALS[..3],
        false => &CREDENTIALS[3..],
    };
    used.iter().copied().filter(|name| has(name)).collect()
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
            ("AWS_ENDPOINT_URL_STS", "http://a\\b", true),
            ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "\\x", true),
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
            "https://host?x=1",
        ] {
            let expected = Err(StoreError::BadEndpoint("X".to_owned()));
            assert_eq!(check_endpoint(endpoint, "X"), expected, "{endpoint}");
        }
    }

    #[test]
    fn values_are_not_quoted() {
        let error = StoreError::Other("failed to parse \"SECRET\" as boolean".to_owned());
        let set = |name: &str| [(name.to_owned(), "SECRET".to_owned())].into_iter();
        let named = without_value(error.clone(), set("AWS_SKIP_SIGNATURE"));
        assert_eq!(
            named,
            StoreError::BadSetting("AWS_SKIP_SIGNATURE".to_owned())
        );
        assert_eq!(without_value(error.clone(), set("OTHER")), error);
    }

    #[test]
    fn only_variables_that_are_used_are_named() {
        let named = |set: &[&str]| credential_variables(|name| set.contains(&name));
        assert_eq!(named(&CREDENTIALS), CREDENTIALS[..3]);
        assert_eq!(named(&CREDENTIALS[..2]), CREDENTIALS[..2]);
        assert_eq!(named(&CREDENTIALS[3..4]), CREDENTIALS[3..4]);
        assert!(named(&[]).is_empty());
    }
}
