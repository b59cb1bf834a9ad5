//! The files of a repository on an SSH host, by SFTP ([version
//! 3](https://datatracker.ietf.org/doc/html/draft-ietf-secsh-filexfer-02)): ssh makes the
//! connection, with its configuration, keys and known hosts, and starts the SFTP server on the
//! host.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, sync_channel};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use catalog::StoreError;
use catalog::remote::{Files, MOST_BYTES};
use gate::sync::Mutex;
use rand::Rng;

use crate::connection::Connection;
use crate::local::{CONFIG, Modes};
use crate::options::OnSilence;

/// A repository directory on an SSH host.
#[derive(Debug)]
pub(crate) struct SftpFiles {
    dir: String,
    modes: Modes,
    requests: Mutex<Sender<Request>>,
    host: Host,
}

/// The remote host, and the callback for its silence.
#[derive(Debug)]
struct Host {
    name: String,
    /// The time of the last packet in either direction.
    last: Arc<Mutex<Instant>>,
    on_silence: Option<OnSilence>,
}

impl Host {
    /// Waits for a response, and calls the callback while no packet comes or goes.
    fn wait<T>(&self, answer: &Receiver<Result<T, StoreError>>) -> Result<T, StoreError> {
        const FIRST: Duration = Duration::from_secs(10);
        const LATER: Duration = Duration::from_secs(60);
        let mut patience = FIRST;
        loop {
            match answer.recv_timeout(FIRST) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(StoreError::NoConnection("ssh has ended".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let silent = self.last.lock().elapsed();
            if silent < FIRST {
                patience = FIRST;
            } else if silent >= patience
                && let Some(on_silence) = self.on_silence
            {
                on_silence(&self.name, silent);
                patience = silent + LATER;
            }
        }
    }
}

type Request = Box<dyn FnOnce(&mut Connection) + Send>;

/// The parts of an `sftp:` location.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Location<'a> {
    user: Option<&'a str>,
    /// A name or an address, without brackets.
    host: &'a str,
    port: Option<&'a str>,
    /// The repository directory: relative to the user's home directory, unless absolute.
    dir: &'a str,
}

impl<'a> Location<'a> {
    /// Parses `sftp:USER@HOST:DIR` and `sftp://USER@HOST:PORT/DIR`, in which an absolute DIR has a
    /// second slash.
    fn parse(location: &'a str) -> Option<Location<'a>> {
        let rest = location.strip_prefix("sftp:")?;
        let (host, port, dir) = match rest.strip_prefix("//") {
            None => {
                let (host, dir) = rest.split_once(':')?;
                (host, None, dir)
            }
            Some(rest) => {
                let (authority, dir) = rest.split_once('/')?;
                // The colons of an IPv6 address are in brackets.
                match authority.rsplit_once(':') {
                    Some((host, port)) if !port.ends_with(']') => (host, Some(port), dir),
                    _ => (authority, None, dir),
                }
            }
        };
        let is_number = |port: &str| port.parse::<u16>().is_ok();
        let (user, host) = match host.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, host),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        // ssh would parse a host with a leading dash as an option.
        let is_name = |name: &str| !name.is_empty() && !name.starts_with('-');
        let is_well = is_name(host) && user.is_none_or(is_name) && !dir.is_empty();
        let is_well = is_well && port.is_none_or(is_number);
        let dir = if dir.len() > 1 {
            dir.trim_end_matches('/')
        } else {
            dir
        };
        is_well.then_some(Location {
            user,
            host,
            port,
            dir,
        })
    }

    /// The arguments for ssh.
    fn words(&self) -> Vec<String> {
        let option =
            |name: &str, value: Option<&str>| value.map(|it| [name.to_owned(), it.to_owned()]);
        let options = [option("-p", self.port), option("-l", self.user)];
        let mut words: Vec<String> = options.into_iter().flatten().flatten().collect();
        words.extend(["-s", "--", self.host, "sftp"].map(str::to_owned));
        words
    }
}

impl SftpFiles {
    /// Connects to a host.
    ///
    /// # Errors
    /// If the location is malformed, or ssh cannot connect.
    pub(crate) fn connect(
        location: &str,
        on_silence: Option<OnSilence>,
    ) -> Result<Arc<dyn Files>, StoreError> {
        let place = Location::parse(location).ok_or(StoreError::BadUrl)?;
        let words = place.words();
        let host = Host {
            name: place.host.to_owned(),
            last: Arc::new(Mutex::new(Instant::now())),
            on_silence,
        };
        let last = Arc::clone(&host.last);
        let (sender, requests) = mpsc::channel::<Request>();
        let (connected, connection) = sync_channel(1);
        thread::spawn(move || {
            // Block SIGPIPE in this thread, where a dead ssh must only be an error. In other
            // threads, a closed standard output must still end the program by SIGPIPE.
            gate::process::block_sigpipe();
            match Connection::start(&words, last) {
                Ok(mut connection) => {
                    let _ = connected.send(Ok(()));
                    requests.iter().for_each(|request| request(&mut connection));
                }
                Err(error) => drop(connected.send(Err(error))),
            }
        });
        host.wait(&connection)?;
        let mut files = SftpFiles {
            host,
            dir: place.dir.to_owned(),
            modes: Modes::of_repository(0),
            requests: Mutex::new(sender),
        };
        let config = files.path(CONFIG);
        if let Ok(mode) = files.request(move |connection| connection.mode(&config)) {
            files.modes = Modes::of_repository(mode);
        }
        // Like restic, keep files writable over SFTP.
        files.modes.file |= (files.modes.file & 0o440) >> 1;
        Ok(Arc::new(files))
    }

    fn path(&self, path: &str) -> String {
        format!("{}/{path}", self.dir)
    }

    /// Runs `work` on the thread of the connection.
    fn request<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (sender, result) = sync_channel(1);
        let request: Request = Box::new(move |connection| drop(sender.send(work(connection))));
        let ended = |_| StoreError::NoConnection("ssh has ended".to_owned());
        self.requests.lock().send(request).map_err(ended)?;
        self.host.wait(&result)
    }
}

impl Files for SftpFiles {
    fn read(&self, path: &str, range: Option<(u64, usize)>) -> Result<Bytes, StoreError> {
        let path = self.path(path);
        self.request(move |connection| connection.read_file(&path, range).map(Bytes::from))
    }

    fn write(&self, path: &str, content: Vec<Bytes>) -> Result<(), StoreError> {
        // The parent directories, outermost first.
        let dirs = path
            .match_indices('/')
            .map(|(end, _)| self.path(&path[..end]));
        let dirs: Vec<String> = dirs.collect();
        let path = self.path(path);
        // Named like restic's own temporary files, which restic prune skips.
        let modes = self.modes;
        let temporary = format!("{path}-restic-temp-{:016x}", rand::rng().next_u64());
        self.request(move |connection| {
            let mut written = connection.write_file(&temporary, &content, modes.file);
            if let Err(StoreError::NotFound) = written {
                // Errors are ignored: most directories exist, which has no error code of its own.
                dirs.iter()
                    .for_each(|dir| drop(connection.mkdir(dir, modes.dir)));
                written = connection.write_file(&temporary, &content, modes.file);
            }
            let written = written.and_then(|()| connection.rename(&temporary, &path));
            if written.is_err() {
                let _ = connection.remove(&temporary);
            }
            written
        })
    }

    fn remove(&self, path: &str) -> Result<(), StoreError> {
        let path = self.path(path);
        self.request(move |connection| connection.remove(&path))
    }

    fn list(&self, dir: &str) -> Result<Vec<(String, u64)>, StoreError> {
        let dir = self.path(dir);
        self.request(move |connection| {
            let (mut left, mut found) = (vec![dir], Vec::new());
            let mut room = MOST_BYTES;
            while let Some(dir) = left.pop() {
                let entries = match connection.read_dir(&dir, &mut room) {
                    Err(StoreError::NotFound) => continue,
                    entries => entries?,
                };
                for entry in entries {
                    match entry.is_dir {
                        true => left.push(format!("{dir}/{}", entry.name)),
                        false => found.push((entry.name, entry.size)),
                    }
                }
            }
            Ok(found)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_those_of_restic() {
        let words = |location| {
            let place = Location::parse(location)?;
            Some((place.words().join(" "), place.dir))
        };
        let is = |words: &str, dir| Some((words.to_owned(), dir));
        assert_eq!(words("sftp:host:/repo/"), is("-s -- host sftp", "/repo"));
        assert_eq!(
            words("sftp:me@host:repo"),
            is("-l me -s -- host sftp", "repo")
        );
        let with_port = is("-p 2222 -l me -s -- host sftp", "/srv/repo");
        assert_eq!(words("sftp://me@host:2222//srv/repo"), with_port);
        assert_eq!(words("sftp://host/repo"), is("-s -- host sftp", "repo"));
        let address = is("-p 22 -l me -s -- ::1 sftp", "/r");
        assert_eq!(words("sftp://me@[::1]:22//r"), address);
        for bad in [
            "sftp:host",
            "sftp:-oProxy:/r",
            "sftp:me@-oProxy:/r",
            "sftp:[-oProxy]:/r",
            "sftp:-me@host:/r",
            "sftp://me@[-oProxy]:22//r",
            "sftp://host",
            "sftp://h:x/r",
        ] {
            assert_eq!(words(bad), None, "{bad}");
        }
    }
}
