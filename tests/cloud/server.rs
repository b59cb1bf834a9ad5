//! An S3 server, and fathom as its client. `FATHOM_STORE_SERVER` is the program: `versitygw` (the default) or `rclone`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::support::need::tool_path;
use crate::support::proxy::{Proxy, Request, wait_for};
use crate::support::trees::Dice;
use crate::support::{Need, fathom};

pub(crate) const BUCKET: &str = "backups";

const KEY: &str = "AKIDTEST";
const SECRET: &str = "secret of the tests";

pub(crate) const AWS: &str = "venv/bin/aws";

/// The program that serves the objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Software {
    Versitygw,
    Rclone,
}

impl Software {
    fn chosen() -> Software {
        match std::env::var("FATHOM_STORE_SERVER").as_deref() {
            Err(_) | Ok("versitygw") => Software::Versitygw,
            Ok("rclone") => Software::Rclone,
            Ok(other) => panic!("FATHOM_STORE_SERVER={other}: see tests/cloud/server.rs"),
        }
    }

    fn program(self) -> &'static str {
        match self {
            Software::Versitygw => "bin/versitygw",
            Software::Rclone => "bin/rclone",
        }
    }

    /// Serves the buckets in a directory at a socket.
    fn command(self, socket: &Path, objects: &Path, options: ServerOptions) -> Command {
        let mut command = Command::new(tool_path(self.program()));
        if self == Software::Rclone {
            command.args(["serve", "s3"]);
        }
        if let Some([cert, key]) = options.tls {
            command.args(["--cert", cert, "--key", key]);
        }
        match self {
            Software::Versitygw => {
                command.arg("--port").arg(socket);
                command.args(["--access", KEY, "--secret", SECRET, "--quiet"]);
                command.args(options.is_readonly.then_some("--readonly"));
                command.arg("posix");
            }
            Software::Rclone => {
                command
                    .arg("--addr")
                    .arg(format!("unix://{}", socket.display()));
                command.arg("--auth-key").arg(format!("{KEY},{SECRET}"));
                command.args(options.is_readonly.then_some("--read-only"));
                // The tests change the directory behind rclone's back. With 0 it loops, so use 1
                // ms.
                command.args(["--config", "", "--dir-cache-time", "1ms"]);
            }
        }
        command.arg(objects);
        command
    }
}

/// Whether a request uploads the second part of an object.
pub(crate) fn uploads_part(request: &Request) -> bool {
    request.target.contains("partNumber=2")
}

/// Whether a request creates an object, if it succeeds.
pub(crate) fn completes(key: &str, request: &Request) -> bool {
    let (method, target) = (&*request.method, &request.target);
    let is_last = method == "POST" && target.contains(&format!("{key}?uploadId="));
    is_last || method == "PUT" && target.contains(key) && !target.contains('?')
}

/// Options for the start of a server.
#[derive(Clone, Copy, Default)]
pub(crate) struct ServerOptions<'a> {
    pub(crate) is_readonly: bool,
    /// The files of a certificate and its key.
    pub(crate) tls: Option<[&'a str; 2]>,
}

pub(crate) fn needs() -> [Need; 1] {
    [Need::Tool(Software::chosen().program())]
}

/// A server, and a proxy in front of it. Both end when this is dropped.
pub(crate) struct Server {
    place: tempfile::TempDir,
    child: Child,
    pub(crate) proxy: Proxy,
}

impl Server {
    pub(crate) fn start() -> Server {
        Server::with(ServerOptions::default())
    }

    /// Starts a server with an empty bucket.
    pub(crate) fn with(options: ServerOptions) -> Server {
        let place = tempfile::tempdir().unwrap();
        let objects = place.path().join("objects");
        fs::create_dir_all(objects.join(BUCKET)).unwrap();
        let socket = place.path().join("socket");
        let proxy = Proxy::start(socket.clone());
        let log = place.path().join("log");
        let out = File::create(&log).unwrap();
        let child = Software::chosen()
            .command(&socket, &objects, options)
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .unwrap();
        wait_for(&socket, &log);
        Server {
            place,
            child,
            proxy,
        }
    }

    /// An object, if it exists.
    pub(crate) fn content(&self, key: &str) -> Option<Vec<u8>> {
        fs::read(self.object(key)).ok()
    }

    pub(crate) fn remove(&self, key: &str) {
        fs::remove_file(self.object(key)).unwrap();
    }

    /// A directory for files of the test.
    pub(crate) fn place(&self) -> &Path {
        self.place.path()
    }

    /// The file in which the server keeps an object.
    pub(crate) fn object(&self, key: &str) -> PathBuf {
        self.place.path().join("objects").join(BUCKET).join(key)
    }

    /// The files in which the server keeps the parts of unfinished uploads.
    pub(crate) fn unfinished(&self) -> Vec<PathBuf> {
        let is_part = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with(".rclone_temp_")
        };
        let within = |place: &Path| {
            let found = fs::read_dir(place).into_iter().flatten();
            found.map(|entry| entry.unwrap().path())
        };
        match Software::chosen() {
            Software::Versitygw => within(&self.object(".sgwtmp/multipart")).collect(),
            Software::Rclone => within(&self.object("")).filter(is_part).collect(),
        }
    }

    /// fathom with the credentials of the server.
    pub(crate) fn fathom<A: Into<OsString>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = fathom(args);
        self.prepare(&mut command);
        command
    }

    /// Gives a command the credentials of the server.
    pub(crate) fn prepare(&self, command: &mut Command) {
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
    }

    /// The server's answer to a request, as the AWS CLI prints it.
    pub(crate) fn answer(&self, words: &[&str]) -> String {
        let mut aws = Command::new(tool_path(AWS));
        let client = self.fathom([""; 0]);
        let set = client
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?)));
        aws.args(words).envs(set).env("AWS_MAX_ATTEMPTS", "1");
        let output = aws.current_dir(self.place()).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    }

    /// Whether a read-only server refuses a write with status 500, as rclone does, instead of 403.
    /// Status 500 can also mean a temporary error.
    pub(crate) fn is_denied_by_error_500(&self) -> bool {
        let answer = self.answer(&["s3api", "create-bucket", "--bucket", "other"]);
        let is_500 = answer.contains("InternalError");
        assert!(is_500 || answer.contains("AccessDenied"), "{answer}");
        is_500
    }

    /// Stops the server, and waits until it has stopped.
    pub(crate) fn stop(&self) {
        let server = Pid::from_child(&self.child);
        kill_process(server, Signal::STOP).unwrap();
        let (_, status) = waitpid(Some(server), WaitOptions::UNTRACED)
            .unwrap()
            .unwrap();
        assert!(status.stopped(), "{status:?}");
    }

    /// Lets the stopped server continue.
    pub(crate) fn go_on(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
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

/// The files of the small tree.
const FILES: usize = 60;

/// A tree of small files, hard links and symlinks in some directories.
pub(crate) fn small_tree(tree: &Path) {
    for n in 0..FILES as u64 {
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
    let old = match round.checked_sub(FILES) {
        None => tree.join(format!("d{}/f{round}", round % 7)),
        Some(earlier) => tree.join(format!("new {earlier}/file")),
    };
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
