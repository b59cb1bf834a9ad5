//! How long failed requests are repeated, and notices about slow or failing servers.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::StoreError;
use gate::sync::Mutex;
use reqwest::StatusCode;

use crate::error::no_connection;

/// Maximum time for which requests are repeated.
pub(crate) const MOST_PATIENCE: Duration = Duration::from_secs(5 * 60);
/// Maximum time for which requests to a server that has never answered are repeated: a wrong URL is
/// more likely than a restart.
const LEAST_PATIENCE: Duration = Duration::from_secs(2);

/// Maximum time to connect to a server.
pub(crate) const CONNECT: Duration = Duration::from_secs(10);

/// Maximum time that a server may accept a connection without sending anything.
pub(crate) const SILENCE: Duration = Duration::from_secs(5 * 60);

/// A notice about a store, if a request takes long.
#[derive(Debug)]
pub enum Notice<'a> {
    /// A request has failed, and is repeated for up to this time.
    Failed(&'a StoreError, Duration),
    /// A server has not answered for this time.
    Silent(&'a str, Duration),
    /// The store does not support conditional requests.
    NoConditions,
}

/// Receives notices.
pub type OnNotice = fn(Notice<'_>);

/// Limits the rate of notices, since all requests fail while a server is down.
#[derive(Clone, Debug)]
pub(crate) struct Notices {
    on_notice: OnNotice,
    last_failure: Arc<Mutex<Option<Instant>>>,
    last_silence: Arc<Mutex<Option<Instant>>>,
}

impl Notices {
    pub(crate) fn new(on_notice: OnNotice) -> Notices {
        Notices {
            on_notice,
            last_failure: Arc::default(),
            last_silence: Arc::default(),
        }
    }

    fn report_error(&self, error: &StoreError) {
        self.report_error_at(error, Instant::now());
    }

    fn report_error_at(&self, error: &StoreError, now: Instant) {
        if is_due(&self.last_failure, now) {
            (self.on_notice)(Notice::Failed(error, MOST_PATIENCE));
        }
    }

    fn report_silence(&self, host: &str, since: Duration) {
        if is_due(&self.last_silence, Instant::now()) {
            (self.on_notice)(Notice::Silent(host, since));
        }
    }

    pub(crate) fn report_no_conditions(&self) {
        (self.on_notice)(Notice::NoConditions);
    }
}

/// Whether a notice of a kind is due; each kind is reported at most once a minute.
fn is_due(last: &Mutex<Option<Instant>>, now: Instant) -> bool {
    const PERIOD: Duration = Duration::from_secs(60);
    let mut last = last.lock();
    let is_due = last.is_none_or(|last| now.saturating_duration_since(last) >= PERIOD);
    if is_due {
        *last = Some(now);
    }
    is_due
}

/// The servers of a store: which of them have answered, and the receiver of notices.
#[derive(Clone, Debug)]
pub(crate) struct Servers {
    pub(crate) notices: Notices,
    state: Arc<Mutex<RetryState>>,
}

#[derive(Debug, Default)]
struct RetryState {
    /// The hosts that have answered, even with an error.
    have_answered: HashSet<String>,
    /// The time of the first failed request, if no request was answered before.
    failing_since: Option<Instant>,
}

impl Servers {
    pub(crate) fn new(notices: Notices) -> Servers {
        Servers {
            notices,
            state: Arc::default(),
        }
    }

    /// Records that a host has answered.
    pub(crate) fn note_answer(&self, host: &str) {
        let answered = &mut self.state.lock().have_answered;
        if !answered.contains(host) {
            answered.insert(host.to_owned());
        }
    }

    /// Records a response with a temporary error.
    pub(crate) fn note_status(&self, status: StatusCode) {
        let error = StoreError::Other(status.to_string());
        self.notices.report_error(&error);
    }

    /// Records that a host has not answered a request; returns whether to repeat the request.
    pub(crate) fn note_failure(
        &self,
        host: &str,
        error: &(dyn std::error::Error + 'static),
    ) -> bool {
        let mut state = self.state.lock();
        if state.have_answered.contains(host) {
            drop(state);
            self.notices.report_error(&no_connection(error));
            return true;
        }
        let since = *state.failing_since.get_or_insert_with(Instant::now);
        since.elapsed() < LEAST_PATIENCE
    }

    fn has_answered(&self) -> bool {
        !self.state.lock().have_answered.is_empty()
    }

    /// Awaits the response of a host to a request of `bytes` bytes, with notices while the host is
    /// silent.
    pub(crate) async fn watch<T>(
        &self,
        host: &str,
        bytes: usize,
        answer: impl Future<Output = T>,
    ) -> T {
        const FIRST: Duration = Duration::from_secs(10);
        const LATER: Duration = Duration::from_secs(60);
        /// Minimum assumed rate of sending a request, in bytes per second.
        const SLOW: u64 = 128 << 10;
        let (began, mut answer) = (Instant::now(), pin!(answer));
        let mut patience = FIRST + Duration::from_secs(bytes as u64 / SLOW);
        loop {
            match tokio::time::timeout(patience, &mut answer).await {
                Ok(answer) => return answer,
                Err(_) => self.notices.report_silence(host, began.elapsed()),
            }
            patience = LATER;
        }
    }
}

/// The attempts at one request.
pub(crate) struct Attempts {
    began: Instant,
    wait: Duration,
    servers: Servers,
}

impl Attempts {
    /// Repeats a request for some minutes; for two seconds if the server has never answered.
    pub(crate) fn new(servers: &Servers) -> Attempts {
        Attempts {
            began: Instant::now(),
            wait: Duration::from_millis(100),
            servers: servers.clone(),
        }
    }

    /// Waits before a request is repeated; false if the error is permanent, or the time for
    /// repetitions is over.
    pub(crate) async fn wait(&mut self, error: &StoreError) -> bool {
        const LONGEST: Duration = Duration::from_secs(20);
        let may_pass = matches!(error, StoreError::NoConnection(_) | StoreError::Other(_));
        let has_answered = self.servers.has_answered();
        let most = if has_answered {
            MOST_PATIENCE
        } else {
            LEAST_PATIENCE
        };
        if !may_pass || self.began.elapsed() + self.wait > most {
            return false;
        }
        if has_answered {
            self.servers.notices.report_error(error);
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
        let notices = Notices::new(|_| {
            LINES.fetch_add(1, SeqCst);
        });
        let (error, begin) = (StoreError::Other("500".to_owned()), Instant::now());
        let report = |seconds| {
            let notices = notices.clone(); // every request has a clone
            notices.report_error_at(&error, begin + Duration::from_secs(seconds));
            LINES.load(SeqCst)
        };
        assert_eq!(
            [0, 0, 59, 60, 61, 119, 120].map(report),
            [1, 1, 1, 2, 2, 2, 3]
        );
    }

    #[test]
    fn patience_is_short_until_a_server_has_answered() {
        let servers = Servers::new(Notices::new(|_| {}));
        let error = std::io::Error::other("refused");
        assert!(servers.note_failure("host", &error));
        let past = Instant::now().checked_sub(LEAST_PATIENCE);
        servers.state.lock().failing_since = past;
        assert!(!servers.note_failure("host", &error));
        servers.note_answer("metadata");
        assert!(!servers.note_failure("host", &error));
        servers.note_answer("host");
        assert!(servers.note_failure("host", &error));
    }
}
