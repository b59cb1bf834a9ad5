//! How long failed requests are repeated, and who is told.

use std::sync::Arc;
use std::time::{Duration, Instant};

use archive::StoreError;
use gate::sync::Mutex;
use reqwest::StatusCode;

use crate::error::no_connection;

/// How long requests are repeated.
pub(crate) const MOST_PATIENCE: Duration = Duration::from_secs(5 * 60);

/// How long a connection may take.
pub(crate) const CONNECT: Duration = Duration::from_secs(10);

/// A server that accepts a connection and says nothing for so long is given up.
pub(crate) const SILENCE: Duration = Duration::from_secs(5 * 60);

/// What the program does when a request fails and is repeated: it gets the error, and for how long.
pub type OnRetry = fn(&StoreError, Duration);

/// Reports the first failure in a while, since all requests fail while a server is down.
#[derive(Clone, Debug)]
pub(crate) struct Notices {
    on_retry: OnRetry,
    last: Arc<Mutex<Option<Instant>>>,
}

impl Notices {
    pub(crate) fn new(on_retry: OnRetry) -> Notices {
        Notices {
            on_retry,
            last: Arc::default(),
        }
    }

    fn report_error(&self, error: &StoreError) {
        self.report_error_at(error, Instant::now());
    }

    fn report_error_at(&self, error: &StoreError, now: Instant) {
        const PERIOD: Duration = Duration::from_secs(60);
        let mut last = self.last.lock();
        if last.is_none_or(|last| now.saturating_duration_since(last) >= PERIOD) {
            (self.on_retry)(error, MOST_PATIENCE);
            *last = Some(now);
        }
    }

    pub(crate) fn report_status(&self, status: StatusCode) {
        self.report_error(&StoreError::Other(status.to_string()));
    }

    pub(crate) fn report(&self, error: &(dyn std::error::Error + 'static)) {
        self.report_error(&no_connection(error));
    }
}

/// The attempts at one request.
pub(crate) struct Attempts {
    began: Instant,
    wait: Duration,
    most: Duration,
    notices: Option<Notices>,
}

impl Attempts {
    /// Repeats a request for some minutes.
    pub(crate) fn new(notices: &Notices) -> Attempts {
        Attempts::within(MOST_PATIENCE, Some(notices))
    }

    /// Repeats a request that is the first one for two seconds.
    pub(crate) fn first() -> Attempts {
        Attempts::within(Duration::from_secs(2), None)
    }

    fn within(most: Duration, notices: Option<&Notices>) -> Attempts {
        Attempts {
            began: Instant::now(),
            wait: Duration::from_millis(100),
            most,
            notices: notices.cloned(),
        }
    }

    /// Waits before a request is repeated; false if the error will not pass, or the time is over.
    pub(crate) async fn wait(&mut self, error: &StoreError) -> bool {
        const LONGEST: Duration = Duration::from_secs(20);
        let may_pass = matches!(error, StoreError::NoConnection(_) | StoreError::Other(_));
        if !may_pass || self.began.elapsed() + self.wait > self.most {
            return false;
        }
        if let Some(notices) = &self.notices {
            notices.report_error(error);
        }
        tokio::time::sleep(self.wait).await;
        self.wait = (self.wait * 2).min(LONGEST);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    use super::*;

    #[test]
    fn failures_are_reported_once_a_minute() {
        static LINES: AtomicU32 = AtomicU32::new(0);
        let notices = Notices::new(|_, _| {
            LINES.fetch_add(1, SeqCst);
        });
        let (error, begin) = (StoreError::Other("500".to_owned()), Instant::now());
        let report = |seconds| {
            let notices = notices.clone(); // as each request has it
            notices.report_error_at(&error, begin + Duration::from_secs(seconds));
            LINES.load(SeqCst)
        };
        assert_eq!(
            [0, 0, 59, 60, 61, 119, 120].map(report),
            [1, 1, 1, 2, 2, 2, 3]
        );
    }
}
