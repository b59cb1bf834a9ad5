//! Repositories that are no local directories: on a rest-server, in a bucket, and on a host that ssh reaches.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::build::{dir, file, tmpfs, tool};
use crate::support::need::built;
use crate::support::proxy::{Address, Fault, Proxy, Request, wait_for};
use crate::support::recipe::{block_of, search_path, service};
use crate::support::run::{Ran, args};
use crate::support::snapshot::{kept, same};
use crate::support::trees::Dice;
use crate::support::{Need, fathom, fathom_path, in_namespace, require, run};
use crate::{NEEDS, PASSWORD, prepare, quiet, signal, stop_at_lock};

pub(crate) const RCLONE: &str = "tools/bin/rclone";
const SSH: [Need; 2] = [Need::Program("ssh-keygen"), Need::File("/usr/sbin/sshd")];
/// A user `me` with the password `password`.
const USERS: &str = "me:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n";
const PAGE: &str = include_str!("../../docs/backup.md");
const SFTP_SERVER: &str = "/usr/lib/openssh/sftp-server";

/// A repository, and the directory in which its server keeps it.
pub(crate) struct Place {
    at: PathBuf,
    dir: PathBuf,
    location: String,
    environment: Vec<(&'static str, OsString)>,
}

impl Place {
    pub(crate) fn restic(&self, words: impl IntoIterator<Item = OsString>) -> Command {
        let mut command = Command::new("restic");
        command.args(["--no-cache", "--repo", &self.location]);
        command.args(words);
        self.prepare(&mut command);
        command
    }

    fn fathom(&self, location: &str, words: impl IntoIterator<Item = OsString>) -> Command {
        let head = args!["dump", "--restic", location];
        let mut command = fathom(head.into_iter().chain(words));
        self.prepare(&mut command);
        command
    }

    fn dump(&self, words: impl IntoIterator<Item = OsString>) -> Command {
        self.fathom(&self.location, words)
    }

    fn prepare(&self, command: &mut Command) {
        prepare(command, &self.at);
        command.env("NO_PROXY", "127.0.0.1");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
    }

    fn made(&self, words: impl IntoIterator<Item = OsString>) -> Value {
        let words = words.into_iter().chain(args!["--json"]);
        run(&mut self.dump(words)).exits(0).json()["result"].clone()
    }

    fn check(&self) {
        let said = run(&mut self.restic(args!["check", "--read-data"])).exits(0);
        let said = String::from_utf8(said.stdout).unwrap();
        assert!(said.contains("no errors were found"), "{said}");
    }

    fn locks(&self) -> usize {
        // An object store has no empty directories.
        fs::read_dir(self.dir.join("locks")).map_or(0, Iterator::count)
    }

    fn snapshots(&self) -> usize {
        fs::read_dir(self.dir.join("snapshots")).map_or(0, Iterator::count)
    }

    /// `dump` is refused with a line that says why, and a hint.
    fn refuses(&self, dump: &mut Command, why: &str) -> Ran {
        let said = run(dump).refused();
        assert!(said.stderr.contains(why), "{why}: {said}");
        assert!(said.stderr.contains("\nhint: "), "{said}");
        assert_eq!(self.locks(), 0, "{said}");
        said
    }
}

/// A server that ends when this is dropped, and a proxy in front of it.
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

/// Starts a server for repositories in a directory: rclone, or restic's rest-server if `FATHOM_REST_SERVER` names it. With a
/// file of users, they must log in, and nothing is ever removed but locks.
pub(crate) fn rest_server(at: &Path, users: Option<&Path>) -> Running {
    let socket = at.join("socket");
    let _ = fs::remove_file(&socket);
    let log = File::create(at.join("log")).unwrap();
    let served = dir(at.join("served"));
    let mut server = match std::env::var_os("FATHOM_REST_SERVER") {
        None => {
            let mut rclone = Command::new(built(RCLONE));
            rclone.args(["serve", "restic", "--addr"]);
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
    let server = Address::Socket(socket);
    wait_for(&server, &at.join("log"));
    Running {
        child,
        proxy: Proxy::start(server),
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
fn in_bucket(at: &Path, server: &crate::server::Server) -> Place {
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
        location: format!("s3:{}/{}/srv", server.proxy.url(), crate::server::BUCKET),
        environment: names.into_iter().filter_map(set).collect(),
    }
}

/// A host named `backup-server` that ssh reaches: ssh itself starts sshd, as inetd does, so that no port is taken.
fn by_ssh(at: &Path, server: &str) -> Place {
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
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    Place {
        at: at.to_owned(),
        dir: at.join("served"),
        location: format!("sftp://root@backup-server:2222/{}", path("served")),
        environment: vec![("PATH", search_path(&[&ssh]))],
    }
}

fn small_tree(at: &Path) -> PathBuf {
    let tree = dir(at.join("tree"));
    for nth in 0..40 {
        file(tree.join(format!("d{}/f{nth}", nth % 4)), 100 + 1000 * nth);
    }
    fs::write(tree.join("noise"), Dice::new(5).bytes(8 << 20)).unwrap();
    tree
}

/// Snapshots in a place are what restic checks, restores and continues, and errors are one line.
fn place_works(place: &Place) {
    let tree = small_tree(&place.at);
    let refuses = |dump: &mut Command, why: &str| place.refuses(dump, why);
    refuses(&mut place.dump(args!["tree"]), "no restic repository");
    run(&mut place.restic(args!["init"])).exits(0);
    fs::create_dir_all(place.at.join("state")).unwrap();
    let words = || args!["tree", "--state", "state"];
    let first = place.made(words());
    assert_eq!(
        (&first["files_new"], &first["parent"]),
        (&41.into(), &Value::Null)
    );
    fs::write(tree.join("d1/f1"), "changed").unwrap();
    let second = place.made(words());
    assert_eq!(
        (&second["files_changed"], &second["files_unmodified"]),
        (&1.into(), &40.into())
    );
    let third = place.made(words());
    assert_eq!(
        (&third["bytes_added"], &third["tree"]),
        (&0.into(), &second["tree"])
    );
    assert_eq!(place.locks(), 0);
    let said = run(&mut place.restic(args!["backup", "--json", "tree"])).exits(0);
    let said = String::from_utf8(said.stdout).unwrap();
    let of_restic: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&of_restic["files_new"], &of_restic["files_changed"]),
        (&0.into(), &0.into())
    );
    place.check();
    let words = args!["restore", "latest", "--target", "out"];
    run(&mut place.restic(words)).exits(0);
    same(&kept(&tree), &kept(&place.at.join("out/tree")), "restored");

    let mut wrong = place.dump(args!["tree"]);
    refuses(wrong.env("RESTIC_PASSWORD", "wrong"), "wrong password");
    // A lock of restic's is respected, and a signal removes ours.
    let mut prune = quiet(place.restic(args!["prune"]));
    stop_at_lock(&place.dir, &prune);
    let said = run(&mut place.dump(args!["tree"])).refused().stderr;
    assert!(said.contains("locked by process"), "{said}");
    signal(&prune, Signal::CONT);
    assert!(prune.wait().unwrap().success());
    let made = place.snapshots();
    for ends in [Signal::TERM, Signal::INT] {
        let mut ended = quiet(place.dump(args!["tree", "--exclude", "f3"]));
        stop_at_lock(&place.dir, &ended);
        signal(&ended, ends);
        signal(&ended, Signal::CONT);
        let status = ended.wait().unwrap();
        let ended_by = std::os::unix::process::ExitStatusExt::signal(&status);
        assert_eq!(ended_by, Some(ends.as_raw()), "{status}");
        assert_eq!((place.locks(), place.snapshots()), (0, made), "{status}");
    }
    kills_leave_it_sound(place, &tree);
}

/// Kills; a longer campaign sets another number.
fn rounds(usual: u64) -> u64 {
    std::env::var("FATHOM_KILLS").map_or(usual, |many| many.parse().unwrap())
}

fn kills_leave_it_sound(place: &Place, tree: &Path) {
    let rounds = rounds(4);
    for round in 0..rounds {
        for nth in 0..20_u64 {
            let text = format!("{round} {nth} ").repeat(20_000);
            fs::write(tree.join(format!("d{}/{round}-{nth}", nth % 4)), text).unwrap();
        }
        let words = [&args!["tree"][..], &args!["--state", "state"]].concat();
        let words = words.into_iter().take(if round % 2 == 0 { 3 } else { 1 });
        let mut child = quiet(place.dump(words));
        sleep(Duration::from_millis(300 + 1500 * round / rounds));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    run(&mut place.restic(args!["unlock"])).exits(0);
    place.check();
    place.made(args!["tree", "--state", "state"]);
    place.check();
    let words = args!["restore", "latest", "--target", "after"];
    run(&mut place.restic(words)).exits(0);
    same(
        &kept(tree),
        &kept(&place.at.join("after/tree")),
        "after the kills",
    );
}

/// Of some writes that fail, one line tells.
fn failures_are_reported_at_once(place: &Place, proxy: &Proxy) {
    let failed = AtomicU32::new(0);
    proxy.plan(move |request| {
        let is_write = request.method == "POST" && request.target.contains("/data/");
        match is_write && failed.fetch_add(1, Ordering::SeqCst) < 3 {
            true => Fault::Error,
            false => Fault::Pass,
        }
    });
    fs::write(place.at.join("tree/reported"), "reported").unwrap();
    let said = run(&mut place.dump(args!["tree"])).exits(0);
    let lines = said
        .stderr
        .matches("500 Internal Server Error; the request is tried again for");
    assert_eq!(lines.count(), 1, "{said}");
    proxy.plan(|_| Fault::Pass);
}

fn index_files_are_cached(place: &Place, proxy: &Proxy) {
    let caches = place.at.join("caches");
    let cached = || {
        let repository = fs::read_dir(&caches).unwrap().map(|it| it.unwrap().path());
        let index = repository
            .filter(|path| path.is_dir())
            .map(|path| path.join("index"));
        let dirs = index.flat_map(|path| fs::read_dir(path).unwrap());
        let files = dirs.flat_map(|it| fs::read_dir(it.unwrap().path()).unwrap());
        files.map(|it| it.unwrap().path()).collect::<Vec<_>>()
    };
    let change = AtomicU32::new(0);
    let reads = |words: &[&str]| {
        let nth = change.fetch_add(1, Ordering::SeqCst);
        fs::write(place.at.join("tree/cached"), nth.to_string()).unwrap();
        proxy.take();
        let words = args!["tree"]
            .into_iter()
            .chain(words.iter().map(OsString::from));
        let said = run(&mut place.dump(words)).exits(0);
        let is_read = |it: &Request| {
            let (_, name) = it.target.rsplit_once("/index/").unwrap_or_default();
            it.method == "GET" && !name.is_empty()
        };
        (proxy.take().0.iter().filter(|it| is_read(it)).count(), said)
    };
    let index = || fs::read_dir(place.dir.join("index")).unwrap().count();
    let all = index();
    assert!(all > 2, "{all}");
    assert_eq!(reads(&["--cache-dir", "caches"]).0, all);
    // What the last run has written.
    assert_eq!(reads(&["--cache-dir", "caches"]).0, 1);
    assert_eq!(cached().len(), all + 1);
    for (nth, path) in cached().iter().enumerate() {
        match nth % 2 {
            0 => fs::write(path, "damaged").unwrap(),
            _ => fs::remove_file(path).unwrap(),
        }
    }
    let unused = cached()[0].with_file_name("").with_file_name("00");
    fs::create_dir_all(&unused).unwrap();
    fs::write(unused.join("0".repeat(64)), "of a removed file").unwrap();
    assert_eq!(reads(&["--cache-dir", "caches"]).0, all + 2);
    assert_eq!(cached().len(), all + 2);
    assert_eq!(reads(&["--cache-dir", "caches"]).0, 1);
    assert_eq!(reads(&["--no-cache"]).0, all + 4);
    // No directory can be made there, by root either.
    let (read, said) = reads(&["--cache-dir", "/proc/none/caches"]);
    assert_eq!(read, all + 5);
    assert!(
        said.stderr
            .contains("the cache '/proc/none/caches' cannot be written"),
        "{said}"
    );
    let mut restic = Command::new("restic");
    restic.args([
        "--cache-dir",
        "caches",
        "--repo",
        &place.location,
        "ls",
        "latest",
    ]);
    place.prepare(&mut restic);
    run(&mut restic).exits(0);
    assert!(cached().len() >= all + 5);
}

/// Snapshots survive what goes wrong between here and the server; after a kill at any request the next one is whole.
fn faults_lose_nothing(place: &Place, proxy: &Proxy) {
    type Plan = fn(&Request) -> Fault;
    let plans: [Plan; 4] = [
        |request| {
            if request.nth % 3 == 1 {
                Fault::Error
            } else {
                Fault::Pass
            }
        },
        |request| {
            if request.nth % 3 == 1 {
                Fault::CutRequest(100)
            } else {
                Fault::Pass
            }
        },
        |request| {
            if request.nth % 3 == 1 {
                Fault::CutAnswer(0)
            } else {
                Fault::Pass
            }
        },
        |_| Fault::Slow,
    ];
    for (nth, plan) in plans.into_iter().enumerate() {
        fs::write(place.at.join("tree/fault"), vec![nth as u8; 100_000]).unwrap();
        proxy.take();
        proxy.plan(plan);
        let made = place.made(args!["tree"]);
        assert!(made["bytes_added"].as_u64().unwrap() > 0, "{made}");
        assert!(proxy.take().0.len() > 8);
    }
    proxy.plan(|_| Fault::Pass);
    place.check();
    let (mut nth, mut killed) = (0, 0);
    for round in 0..rounds(12) {
        fs::write(place.at.join("tree/fault"), format!("killed {round}")).unwrap();
        let process = Arc::new(AtomicU32::new(0));
        let shared = Arc::clone(&process);
        proxy.take();
        proxy.plan(move |request| {
            if request.nth != nth {
                return Fault::Pass;
            }
            crate::support::proxy::kill(&shared, Signal::KILL);
            match round % 2 {
                0 => Fault::Pass,
                _ => Fault::CutRequest(0),
            }
        });
        let mut child = quiet(place.dump(args!["tree"]));
        process.store(child.id(), Ordering::SeqCst);
        let is_killed = child.wait().unwrap().code().is_none();
        killed += usize::from(is_killed);
        // Behind the last request: from the first again.
        nth = if is_killed { nth + 1 } else { 0 };
    }
    assert!(killed > 6, "{killed}");
    proxy.plan(|_| Fault::Pass);
    run(&mut place.restic(args!["unlock"])).exits(0);
    place.made(args!["tree"]);
    place.check();
}

#[test]
#[cfg(feature = "cloud")]
fn a_rest_server_keeps_snapshots() {
    if !require(&NEEDS) || !require(&[Need::Built(RCLONE)]) {
        return;
    }
    in_namespace(|ground| {
        let server = rest_server(ground, None);
        let place = on_rest_server(ground, &server);
        place_works(&place);
        faults_lose_nothing(&place, &server.proxy);
        failures_are_reported_at_once(&place, &server.proxy);
        index_files_are_cached(&place, &server.proxy);
        let away = "rest:http://127.0.0.1:1/srv";
        place.refuses(&mut place.fathom(away, args!["tree"]), "cannot connect");
        for bad in ["rest:", "rest:host", "rest:ftp://host/"] {
            place.refuses(&mut place.fathom(bad, args!["tree"]), "malformed");
        }
        // Half of an upload is refused, and there is no snapshot.
        let made = place.snapshots();
        fs::write(ground.join("tree/new"), "new").unwrap();
        server
            .proxy
            .plan(|request| match request.target.contains("/data/") {
                true => Fault::Denied,
                false => Fault::Pass,
            });
        place.refuses(&mut place.dump(args!["tree"]), "access denied");
        assert_eq!(place.snapshots(), made);
        drop(server);

        // With users, and nothing is ever removed but locks.
        fs::write(ground.join("users"), USERS).unwrap();
        let server = rest_server(ground, Some(&ground.join("users")));
        let place = on_rest_server(ground, &server);
        place.refuses(&mut place.dump(args!["tree"]), "401");
        let with = |user: &str| place.location.replace("//", &format!("//{user}@"));
        let wrong = with("me:other");
        let said = place.refuses(&mut place.fathom(&wrong, args!["tree"]), "401");
        assert!(
            said.stderr.contains("me:***@") && !said.stderr.contains("other"),
            "{said}"
        );
        run(&mut place.fathom(&with("me:password"), args!["tree"])).exits(0);
        let mut dump = place.dump(args!["tree"]);
        dump.env("RESTIC_REST_USERNAME", "me");
        run(dump.env("RESTIC_REST_PASSWORD", "password")).exits(0);
        assert_eq!((place.locks(), place.snapshots()), (0, made + 2));
    });
}

#[test]
#[cfg(feature = "cloud")]
fn the_service_in_the_book_makes_snapshots_on_a_rest_server() {
    if !require(&NEEDS) || !require(&[Need::Built(RCLONE)]) {
        return;
    }
    in_namespace(|ground| {
        let path = |name: &str| ground.join(name).to_str().unwrap().to_owned();
        fs::write(ground.join("users"), USERS).unwrap();
        fs::write(ground.join("password"), PASSWORD).unwrap();
        let server = rest_server(ground, Some(&ground.join("users")));
        let place = on_rest_server(ground, &server);
        let with_user = |mut command: Command| {
            command.env("RESTIC_REST_USERNAME", "me");
            command.env("RESTIC_REST_PASSWORD", "password");
            run(&mut command).exits(0)
        };
        // As restic before 0.16.1 needs it.
        let mut of_restic = on_rest_server(ground, &server);
        of_restic.location = place.location.replace("//", "//me:password@");
        run(&mut of_restic.restic(args!["init"])).exits(0);
        let tree = small_tree(ground);
        dir(ground.join("state"));
        let paths = [
            ("rest:http://backup-server:8000/srv", &place.location[..]),
            ("/etc/fathom/password", &path("password")),
            ("/var/lib/fathom", &path("state")),
            ("dump /srv ", &format!("dump {} ", path("tree"))),
            ("/mnt", &path("out")),
        ];
        let programs = search_path(&[fathom_path()]);
        service("fathom-restic.service", &paths, &programs)
            .into_iter()
            .for_each(|command| drop(with_user(command)));
        assert_eq!(fs::read_dir(ground.join("state")).unwrap().count(), 1);
        let (_, recipe) = PAGE.split_once("on a rest-server\n").unwrap();
        let restore = block_of(recipe, "To restore:");
        let mut shell = Command::new("sh");
        let restore = restore.replace(paths[0].0, &of_restic.location);
        let restore = paths[1..]
            .iter()
            .fold(restore, |text, (book, test)| text.replace(book, test));
        shell.arg("-ec").arg(restore).current_dir(ground);
        with_user(shell);
        let out = ground.join("out").join(tree.strip_prefix("/").unwrap());
        same(&kept(&tree), &kept(&out), "restored");
    });
}

#[test]
#[cfg(feature = "cloud")]
fn a_bucket_keeps_snapshots() {
    use crate::server::{Server, ServerOptions, needs};
    let needs_aws = [Need::Built(crate::server::AWS)];
    if !require(&NEEDS) || !require(&needs()) || !require(&needs_aws) {
        return;
    }
    in_namespace(|ground| {
        let server = Server::start();
        let place = in_bucket(ground, &server);
        place_works(&place);
        faults_lose_nothing(&place, &server.proxy);
        let refuses = |location: &str, why: &str| {
            place.refuses(&mut place.fathom(location, args!["tree"]), why);
        };
        let nowhere = place.location.replace("/backups/", "/nowhere/");
        refuses(&nowhere, "the bucket does not exist");
        refuses("s3:http://127.0.0.1:1/backups/srv", "cannot connect");
        for bad in ["s3:", "s3:host", "s3:ftp://host/bucket"] {
            refuses(bad, "malformed");
        }
        let dump = || place.dump(args!["tree"]);
        place.refuses(dump().env_remove("AWS_SECRET_ACCESS_KEY"), "is not set");
        let wrong = "SignatureDoesNotMatch";
        place.refuses(dump().env("AWS_SECRET_ACCESS_KEY", "wrong"), wrong);
        let objects = server.object("").join("..");
        let server = Server::with(ServerOptions {
            is_readonly: true,
            ..ServerOptions::default()
        });
        // rclone's answer cannot be told from an error that passes, and is repeated for minutes.
        if server.is_denied_by_error_500() {
            return;
        }
        let copy = server.object("").join("..");
        tool(
            Command::new("cp")
                .arg("-r")
                .arg(objects.join("backups"))
                .arg(copy),
        );
        let place = in_bucket(ground, &server);
        let made = place.snapshots();
        place.refuses(&mut place.dump(args!["tree"]), "access denied");
        assert_eq!(place.snapshots(), made);
    });
}

#[test]
fn a_host_that_ssh_reaches_keeps_snapshots() {
    if !require(&NEEDS) || !require(&SSH) {
        return;
    }
    in_namespace(|ground| {
        let place = by_ssh(ground, SFTP_SERVER);
        place_works(&place);
        // Nothing remains of files that were not complete.
        let mut find = Command::new("find");
        let partial = tool(
            find.arg(&place.dir)
                .args(["-name", "*-restic-temp-*", "-mmin", "+60"]),
        );
        assert!(partial.is_empty(), "{partial:?}");
        let refuses = |location: &str, why: &str| {
            place.refuses(&mut place.fathom(location, args!["tree"]), why);
        };
        refuses("sftp://root@127.0.0.1:1//srv", "Connection refused");
        for bad in ["sftp:", "sftp:host", "sftp:-oProxyCommand=x:/srv"] {
            refuses(bad, "malformed");
        }
        let mut without = place.dump(args!["tree"]);
        place.refuses(without.env("PATH", ground), "cannot run ssh");
        let place = by_ssh(ground, &format!("{SFTP_SERVER} -R"));
        let made = place.snapshots();
        place.refuses(&mut place.dump(args!["tree"]), "access denied");
        assert_eq!(place.snapshots(), made);
    });
}
