//! An S3 server on a directory, and fathom as its client.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::proxy::Proxy;
use crate::support::need::built;
use crate::support::trees::Dice;
use crate::support::{Need, fathom};

pub(crate) const BUCKET: &str = "backups";

const KEY: &str = "AKIDTEST";
const SECRET: &str = "secret of the tests";

const PROGRAM: &str = "tools/bin/versitygw";

pub(crate) const NEEDS: [Need; 1] = [Need::Built(PROGRAM)];

/// A server, and a proxy in front of it. Both end when this is dropped.
pub(crate) struct Server {
    place: tempfile::TempDir,
    child: Child,
    pub(crate) proxy: Proxy,
}

impl Server {
    pub(crate) fn start() -> Server {
        Server::with(&[])
    }

    /// Starts a server that listens at a socket in its own directory, so that no port can be taken.
    pub(crate) fn with(options: &[&str]) -> Server {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("objects").join(BUCKET)).unwrap();
        let socket = place.path().join("socket");
        let log = File::create(place.path().join("log")).unwrap();
        let child = Command::new(built(PROGRAM))
            .arg("--port")
            .arg(&socket)
            .args(["--access", KEY, "--secret", SECRET, "--quiet"])
            .args(options)
            .arg("posix")
            .arg(place.path().join("objects"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let started = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            let log = fs::read_to_string(place.path().join("log")).unwrap();
            assert!(started.elapsed() < Duration::from_secs(60), "{log}");
            std::thread::sleep(Duration::from_millis(10));
        }
        let proxy = Proxy::start(&socket);
        Server {
            place,
            child,
            proxy,
        }
    }

    /// A directory for files of the test.
    pub(crate) fn place(&self) -> &Path {
        self.place.path()
    }

    /// The file in which the server keeps an object.
    pub(crate) fn object(&self, key: &str) -> PathBuf {
        self.place.path().join("objects").join(BUCKET).join(key)
    }

    /// fathom with the credentials of the server.
    pub(crate) fn fathom<A: Into<OsString>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = fathom(args);
        command
            .current_dir(self.place())
            .env("AWS_ENDPOINT_URL", self.proxy.url())
            .env("AWS_ALLOW_HTTP", "true")
            .env("AWS_ACCESS_KEY_ID", KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
            .env("AWS_REGION", "us-east-1")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("NO_PROXY", "127.0.0.1")
            .env_remove("AWS_SESSION_TOKEN");
        command
    }

    /// Sends a signal to the server.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let child = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(child, signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Data that does not compress.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    (0..len / 8)
        .flat_map(|_| dice.roll().to_le_bytes())
        .collect()
}

/// A tree of small files, hard links and symlinks in some directories.
pub(crate) fn small_tree(tree: &Path) {
    for n in 0..60 {
        let within = tree.join(format!("d{}", n % 7));
        fs::create_dir_all(&within).unwrap();
        let file = within.join(format!("f{n}"));
        fs::write(&file, noise(n as usize * 100, n)).unwrap();
        match n % 10 {
            0 => fs::hard_link(&file, within.join(format!("link {n}"))).unwrap(),
            1 => std::os::unix::fs::symlink("target", within.join(format!("symlink {n}"))).unwrap(),
            _ => {}
        }
    }
}

/// Adds, changes, renames and removes some of the files.
pub(crate) fn change(tree: &Path, round: usize) {
    fs::create_dir(tree.join(format!("new {round}"))).unwrap();
    fs::write(tree.join(format!("new {round}/file")), round.to_string()).unwrap();
    let old = tree.join(format!("d{}/f{round}", round % 7));
    match round % 3 {
        0 => fs::write(old, "changed").unwrap(),
        1 => fs::rename(old, tree.join(format!("renamed {round}"))).unwrap(),
        _ => fs::remove_file(old).unwrap(),
    }
}

/// The URL of an object.
pub(crate) fn url(key: &str) -> String {
    format!("s3://{BUCKET}/{key}")
}
