//! Starts servers of repositories: a rest-server, a bucket, and a host that ssh reaches.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::restic::prepare;
use crate::support::build::{chmod, dir, tmpfs};
use crate::support::need::tool_path;
use crate::support::proxy::{Proxy, wait_for};
use crate::support::recipe::search_path;
use crate::support::run::{Ran, args};
use crate::support::tool::tool;
use crate::support::{Need, fathom, run};

pub(crate) const RCLONE: &str = "bin/rclone";
pub(crate) const SSH: [Need; 2] = [Need::Program("ssh-keygen"), Need::File("/usr/sbin/sshd")];
/// A user `me` with the password `password`.
pub(crate) const USERS: &str = "me:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n";
pub(crate) const SFTP_SERVER: &str = "/usr/lib/openssh/sftp-server";

/// A repository, and the directory in which its server keeps it.
pub(crate) struct Place {
    pub(crate) at: PathBuf,
    pub(crate) dir: PathBuf,
    pub(crate) location: String,
    pub(crate) environment: Vec<(&'static str, OsString)>,
}

impl Place {
    pub(crate) fn restic(&self, words: impl IntoIterator<Item = OsString>) -> Command {
        let mut command = Command::new("restic");
        command.args(["--no-cache", "--repo", &self.location]);
        command.args(words);
        self.prepare(&mut command);
        command
    }

    pub(crate) fn fathom(
        &self,
        location: &str,
        words: impl IntoIterator<Item = OsString>,
    ) -> Command {
        let head = args!["dump", "--restic", location];
        let mut command = fathom(head.into_iter().chain(words));
        self.prepare(&mut command);
        command
    }

    pub(crate) fn dump(&self, words: impl IntoIterator<Item = OsString>) -> Command {
        self.fathom(&self.location, words)
    }

    pub(crate) fn prepare(&self, command: &mut Command) {
        prepare(command, &self.at);
        command.env("NO_PROXY", "127.0.0.1");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
    }

    pub(crate) fn made(&self, words: impl IntoIterator<Item = OsString>) -> Value {
        let words = words.into_iter().chain(args!["--json"]);
        run(&mut self.dump(words)).exits(0).json()["result"].clone()
    }

    pub(crate) fn check(&self) {
        let said = run(&mut self.restic(args!["check", "--read-data"])).exits(0);
        let said = String::from_utf8(said.stdout).unwrap();
        assert!(said.contains("no errors were found"), "{said}");
    }

    pub(crate) fn locks(&self) -> usize {
        // An object store has no empty directories.
        fs::read_dir(self.dir.join("locks")).map_or(0, Iterator::count)
    }

    pub(crate) fn snapshots(&self) -> usize {
        fs::read_dir(self.dir.join("snapshots")).map_or(0, Iterator::count)
    }

    /// Checks that a dump is refused with a message that has the reason, and a hint.
    pub(crate) fn refuses(&self, dump: &mut Command, why: &str) -> Ran {
        let said = run(dump).refused();
        assert!(said.stderr.contains(why), "{why}: {said}");
        assert!(said.stderr.contains("\nhint: "), "{said}");
        assert_eq!(self.locks(), 0, "{said}");
        said
    }
}

/// A server and a proxy in front of it. Dropping it ends both.
pub(crate) struct Running {
    child: Child,
    pub(crate) proxy: Proxy,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server for repositories in a directory: rclone, or restic's rest-server if
/// `FATHOM_REST_SERVER` names it. With a file of users, the server requires a login, and allows
/// clients to remove only locks.
pub(crate) fn rest_server(at: &Path, users: Option<&Path>) -> Running {
    let socket = at.join("socket");
    let _ = fs::remove_file(&socket);
    let log = File::create(at.join("log")).unwrap();
    let served = dir(at.join("served"));
    let mut server = match std::env::var_os("FATHOM_REST_SERVER") {
        None => {
            let mut rclone = Command::new(tool_path(RCLONE));
            // A test replaces the repository while the server runs, so rclone must not cache
            // objects.
            rclone.args(["serve", "restic", "--cache-objects=false", "--addr"]);
            rclone.arg(format!("unix://{}", socket.display()));
            rclone.env("RCLONE_CONFIG", "/dev/null").arg(served);
            if let Some(users) = users {
                rclone.arg("--append-only").arg("--htpasswd").arg(users);
            }
            rclone
        }
        Some(program) => {
            let mut server = Command::new(program);
            server.arg(format!("--listen=unix:{}", socket.display()));
            server.arg("--path").arg(served);
            match users {
                None => server.arg("--no-auth"),
                Some(users) => server.args(["--append-only", "--htpasswd-file"]).arg(users),
            };
            server
        }
    };
    let child = server
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    wait_for(&socket, &at.join("log"));
    Running {
        child,
        proxy: Proxy::start(socket),
    }
}

pub(crate) fn on_rest_server(at: &Path, server: &Running) -> Place {
    Place {
        at: at.to_owned(),
        dir: at.join("served/srv"),
        location: format!("rest:{}/srv", server.proxy.url()),
        environment: Vec::new(),
    }
}

#[cfg(feature = "cloud")]
pub(crate) fn in_bucket(at: &Path, server: &crate::cloud::server::Server) -> Place {
    let command = server.fathom([""; 0]);
    let set = |name: &'static str| {
        let (_, value) = command.get_envs().find(|(it, _)| *it == OsStr::new(name))?;
        Some((name, value?.to_owned()))
    };
    let names = [
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_EC2_METADATA_DISABLED",
    ];
    Place {
        at: at.to_owned(),
        dir: server.object("srv"),
        location: format!(
            "s3:{}/{}/srv",
            server.proxy.url(),
            crate::cloud::server::BUCKET
        ),
        environment: names.into_iter().filter_map(set).collect(),
    }
}

/// A host named `backup-server` that ssh reaches: ssh itself starts sshd, as inetd does, so that no port is taken.
pub(crate) fn by_ssh(at: &Path, server: &str) -> Place {
    // sshd changes its root to this directory before a login.
    dir(tmpfs("/run").join("sshd"));
    let path = |name: &str| at.join(name).to_str().unwrap().to_owned();
    for key in ["host_key", "key"] {
        if !at.join(key).exists() {
            let mut keygen = Command::new("ssh-keygen");
            tool(keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", &path(key)]));
        }
    }
    let lines = [
        format!("HostKey {}", path("host_key")),
        format!("AuthorizedKeysFile {}", path("key.pub")),
        format!("Subsystem sftp {server}"),
        "PermitRootLogin yes\nStrictModes no\nUsePAM no\nPidFile none\n".to_owned(),
    ];
    fs::write(at.join("sshd_config"), lines.join("\n")).unwrap();
    let lines = [
        "Host backup-server".to_owned(),
        format!("ProxyCommand /usr/sbin/sshd -i -f {}", path("sshd_config")),
        "Host *".to_owned(),
        format!("IdentityFile {}", path("key")),
        "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\nBatchMode yes\n"
            .to_owned(),
    ];
    fs::write(at.join("ssh_config"), lines.join("\n")).unwrap();
    let ssh = dir(at.join("bin")).join("ssh");
    let script = format!(
        "#!/bin/sh\nexec /usr/bin/ssh -F {} \"$@\"\n",
        path("ssh_config")
    );
    fs::write(&ssh, script).unwrap();
    chmod(&ssh, 0o755);
    Place {
        at: at.to_owned(),
        dir: at.join("served"),
        location: format!("sftp://root@backup-server:2222/{}", path("served")),
        environment: vec![("PATH", search_path(&[&ssh]))],
    }
}
