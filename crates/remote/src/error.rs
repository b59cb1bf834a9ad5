//! Converts the store's responses to [`StoreError`]s.

use std::error::Error as _;

use catalog::StoreError;
use object_store::Error;

/// Converts an error of object_store.
pub(crate) fn store_error(error: &Error) -> StoreError {
    let mut source = error.source();
    while let Some(within) = source {
        // An error of this crate that object_store has passed on.
        if let Some(error) = within.downcast_ref::<StoreError>() {
            return error.clone();
        }
        source = within.source();
    }
    let text = deepest(error);
    let (code, status) = (element(&text, "Code"), status_of(&text));
    match code {
        Some("RequestTimeTooSkewed") => return StoreError::WrongClock,
        Some("AuthorizationHeaderMalformed" | "PermanentRedirect") => {
            if let Some(region) = element(&text, "Region") {
                return StoreError::WrongRegion(Some(one_line(region)));
            }
        }
        Some("NoSuchBucket") => return StoreError::NoBucket,
        // Statuses 400 and 409 that a repetition can mend.
        Some(code @ ("RequestTimeout" | "OperationAborted")) => {
            return StoreError::Other(code.to_owned());
        }
        Some(
            // The last code is from Versity's S3 gateway.
            code @ ("InvalidAccessKeyId"
            | "SignatureDoesNotMatch"
            | "InvalidToken"
            | "ExpiredToken"
            | "XAdminUserNotFound"),
        ) => {
            return StoreError::WrongCredentials(code.to_owned(), Vec::new());
        }
        _ => {}
    }
    match error {
        Error::NotFound { .. } if matches!(code, None | Some("NoSuchKey" | "NotFound")) => {
            StoreError::NotFound
        }
        // Status 409 is the response to one of two simultaneous requests, and says nothing about
        // the object.
        Error::AlreadyExists { .. } if status == Some(409) => {
            StoreError::Other(code.unwrap_or("409 Conflict").to_owned())
        }
        Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotModified { .. } => {
            StoreError::Changed
        }
        Error::PermissionDenied { .. } => StoreError::Denied,
        Error::Unauthenticated { .. } => StoreError::WrongCredentials("401".to_owned(), Vec::new()),
        _ if code.is_none() && is_connection(error) => match certificate_error(error) {
            Some(text) => StoreError::Certificate(text),
            None => StoreError::NoConnection(text),
        },
        _ if text.contains("incorrectly configured region") => StoreError::WrongRegion(None),
        _ => {
            let text = code.map_or_else(|| one_line(&text), str::to_owned);
            // Repeating the request would give the same response.
            match status {
                Some(408 | 409 | 429) | None => StoreError::Other(text),
                Some(status) if (400..500).contains(&status) => StoreError::Refused(text),
                Some(_) => StoreError::Other(text),
            }
        }
    }
}

/// Why a request got no response.
pub(crate) fn no_connection(error: &(dyn std::error::Error + 'static)) -> StoreError {
    match certificate_error(error) {
        Some(text) => StoreError::Certificate(text),
        None => StoreError::NoConnection(one_line(&deepest(error))),
    }
}

/// Whether a request failed because there was no response.
fn is_connection(error: &Error) -> bool {
    let mut source = error.source();
    while let Some(error) = source {
        if error.is::<object_store::client::HttpError>() || error.is::<std::io::Error>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// The error of the endpoint's TLS certificate, if a rejected certificate is the reason for a
/// missing response.
fn certificate_error(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    if let Some(tls @ rustls::Error::InvalidCertificate(_)) = error.downcast_ref() {
        return Some(one_line(&tls.to_string()));
    }
    // `io::Error::source` skips the error that it wraps, so use `get_ref`.
    let within = error.downcast_ref::<std::io::Error>();
    match within.and_then(|e| e.get_ref()) {
        Some(within) => certificate_error(within),
        None => certificate_error(error.source()?),
    }
}

/// The text of the root cause; the errors above it repeat the URL and the number of attempts.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

/// The text of an element in the XML of a response.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0)
}

/// The HTTP status at the beginning of the library's error text.
fn status_of(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("status code: ")?;
    rest.get(..3)?.parse().ok()
}

fn one_line(text: &str) -> String {
    const MOST: usize = 200;
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(body: &str) -> StoreError {
        store_error(&Error::Generic {
            store: "S3",
            source: body.into(),
        })
    }

    #[test]
    fn codes_of_the_store_are_told_apart() {
        let xml =
            |code: &str| format!("403: <?xml version=\"1.0\"?><Error><Code>{code}</Code></Error>");
        assert_eq!(answered(&xml("NoSuchBucket")), StoreError::NoBucket);
        let wrong = "SignatureDoesNotMatch";
        assert_eq!(
            answered(&xml(wrong)),
            StoreError::WrongCredentials(wrong.to_owned(), Vec::new())
        );
        let passed = Error::Generic {
            store: "S3",
            source: Box::new(StoreError::Denied),
        };
        assert_eq!(store_error(&passed), StoreError::Denied);
        let status = |status: u16, code: &str| {
            let text = format!(
                "Server returned non-2xx status code: {status} X: {}",
                xml(code)
            );
            Error::AlreadyExists {
                path: "k".to_owned(),
                source: text.into(),
            }
        };
        let changed = store_error(&status(412, "PreconditionFailed"));
        assert_eq!(changed, StoreError::Changed);
        for code in ["ConditionalRequestConflict", "OperationAborted"] {
            let other = StoreError::Other(code.to_owned());
            assert_eq!(store_error(&status(409, code)), other);
        }
        let malformed = "<Code>AuthorizationHeaderMalformed</Code><Region>eu-central-1</Region>";
        let region = StoreError::WrongRegion(Some("eu-central-1".to_owned()));
        assert_eq!(answered(malformed), region);
        assert_eq!(
            answered(&xml("RequestTimeTooSkewed")),
            StoreError::WrongClock
        );
        let refused = StoreError::Refused("EntityTooSmall".to_owned());
        assert_eq!(
            answered(&format!(
                "status code: 400 Bad Request: {}",
                xml("EntityTooSmall")
            )),
            refused
        );
        let slow = format!("status code: 400 Bad Request: {}", xml("RequestTimeout"));
        let expected = StoreError::Other("RequestTimeout".to_owned());
        assert_eq!(answered(&slow), expected);
        assert_eq!(
            answered(&xml("SlowDown")),
            StoreError::Other("SlowDown".to_owned())
        );
        assert_eq!(answered("a\n b"), StoreError::Other("a b".to_owned()));
    }
}
