//! A proxy between fathom and a server. It counts requests and injects faults. Each request gets
//! its own connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::wait::{LIMIT, wait_until};

/// A request, without its body.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The number of requests before it.
    pub(crate) nth: usize,
    pub(crate) method: String,
    /// The path and the query.
    pub(crate) target: String,
    pub(crate) range: Option<String>,
    /// Whether the request has the header If-Match or If-None-Match.
    pub(crate) is_conditional: bool,
}

/// The proxy's treatment of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    Pass,
    /// Answers with status 500, without asking the server.
    Error,
    /// Answers with status 403, without asking the server.
    Denied,
    /// Answers with this status and body, without asking the server.
    Answer(u16, &'static str),
    /// Refers with this status to [`ELSEWHERE`], without asking the server.
    Redirect(u16),
    /// Never answers.
    Silence,
    /// Closes the connection after this number of bytes of the request's body.
    CutRequest(u64),
    /// Closes the connection after this number of bytes of the answer.
    CutAnswer(u64),
    /// Waits before each piece of the answer.
    Slow,
}

/// The path to which requests are redirected.
pub(crate) const ELSEWHERE: &str = "/elsewhere";

type Plan = dyn Fn(&Request) -> Fault + Send + Sync;

#[derive(Default)]
struct State {
    requests: Vec<Request>,
    plan: Option<Arc<Plan>>,
    /// Bytes of all answers.
    answered: u64,
}

pub(crate) struct Proxy {
    port: u16,
    state: Arc<Mutex<State>>,
}

impl Proxy {
    /// Listens at a port that the kernel chooses, for a server that is about to be started at a
    /// Unix socket. Its threads end with the process.
    pub(crate) fn start(server: PathBuf) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (shared, server) = (Arc::clone(&shared), server.clone());
                // Errors are ignored: tests break connections on purpose.
                thread::spawn(move || client.and_then(|client| serve(client, &server, &shared)));
            }
        });
        Proxy { port, state }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Sets a function that chooses the treatment of each request from now on.
    pub(crate) fn plan(&self, plan: impl Fn(&Request) -> Fault + Send + Sync + 'static) {
        self.state.lock().unwrap().plan = Some(Arc::new(plan));
    }

    /// The requests since the last call, and the bytes of their answers.
    pub(crate) fn take(&self) -> (Vec<Request>, u64) {
        let mut state = self.state.lock().unwrap();
        let State {
            requests, answered, ..
        } = &mut *state;
        (std::mem::take(requests), std::mem::take(answered))
    }
}

/// Forwards one request, and the answer.
fn serve(client: TcpStream, server: &Path, shared: &Mutex<State>) -> io::Result<()> {
    let mut from = BufReader::new(client.try_clone()?);
    let (mut head, mut length, mut range) = (String::new(), 0_u64, None);
    let mut is_conditional = false;
    if from.read_line(&mut head)? == 0 {
        return Ok(());
    }
    let mut words = head.split(' ').map(str::to_owned);
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    loop {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if line == "\r\n" {
            break;
        }
        let (name, value) = line.split_once(':').unwrap();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap(),
            "range" => range = Some(value.trim().to_owned()),
            "if-match" | "if-none-match" => is_conditional = true,
            "connection" => continue,
            _ => {}
        }
        head += &line;
    }
    head += "Connection: close\r\n\r\n";
    let (request, plan) = {
        let mut state = shared.lock().unwrap();
        let request = Request {
            nth: state.requests.len(),
            method,
            target,
            range,
            is_conditional,
        };
        state.requests.push(request.clone());
        (request, state.plan.clone())
    };
    // Call the plan without holding the lock, because a plan may run fathom.
    let fault = plan.map_or(Fault::Pass, |plan| plan(&request));
    let answer = match fault {
        Fault::Error => Some((500, "")),
        Fault::Denied => Some((403, "")),
        Fault::Redirect(status) => Some((status, "")),
        Fault::Answer(status, body) => Some((status, body)),
        Fault::Silence => {
            // Wait until the client closes the connection.
            return io::copy(&mut from, &mut io::sink()).map(drop);
        }
        _ => None,
    };
    if let Some((status, body)) = answer {
        // Read the body first: closing a socket with unread data resets the connection.
        io::copy(&mut from.by_ref().take(length), &mut io::sink())?;
        let length = body.len();
        let location = match fault {
            Fault::Redirect(_) => format!("Location: {ELSEWHERE}\r\n"),
            _ => String::new(),
        };
        let answer = format!(
            "HTTP/1.1 {status} Fault\r\n{location}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        return (&client).write_all(answer.as_bytes());
    }
    let mut upstream = UnixStream::connect(server)?;
    upstream.write_all(head.as_bytes())?;
    let passed = match fault {
        Fault::CutRequest(most) => most.min(length),
        _ => length,
    };
    io::copy(&mut from.by_ref().take(passed), &mut upstream)?;
    if passed < length {
        return Ok(());
    }
    let mut left = match fault {
        Fault::CutAnswer(most) => most,
        _ => u64::MAX,
    };
    let mut piece = vec![0; 64 << 10];
    loop {
        if fault == Fault::Slow {
            thread::sleep(Duration::from_millis(2));
        }
        let n = upstream.read(&mut piece)?.min(left as usize);
        if n == 0 {
            break;
        }
        (&client).write_all(&piece[..n])?;
        shared.lock().unwrap().answered += n as u64;
        left -= n as u64;
    }
    client.shutdown(Shutdown::Both)
}

/// Waits until a server, which was started at a Unix socket with a log, accepts connections.
pub(crate) fn wait_for(server: &Path, log: &Path) {
    let started = Instant::now();
    while UnixStream::connect(server).is_err() {
        let log = std::fs::read_to_string(log).unwrap();
        assert!(started.elapsed() < LIMIT, "{log}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a signal to a process whose number will be stored soon.
pub(crate) fn kill(process: &AtomicU32, signal: Signal) {
    let id = || Pid::from_raw(process.load(Ordering::SeqCst).cast_signed());
    wait_until("the number of a process is known", || id().is_some());
    kill_process(id().unwrap(), signal).unwrap();
}
