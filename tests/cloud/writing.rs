//! Tests of writing archives and catalogs to a store.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;

use super::server::{
    AWS, BUCKET, Server, ServerOptions, completes, needs, noise, small_tree, uploads_part, url,
};
use crate::support::proxy::{Fault, Request, kill};
use crate::support::run::args;
use crate::support::snapshot::{kept, same, same_bytes};
use crate::support::tool::tool;
use crate::support::trees::fix_atimes;
use crate::support::{Need, fathom, require, run};

/// A server, and a tree of 40 MiB that does not compress, so that its archive has several parts.
fn with_tree() -> Server {
    let server = Server::start();
    let tree = server.place().join("tree");
    fs::create_dir(&tree).unwrap();
    for n in 0..5 {
        fs::write(tree.join(format!("f{n}")), noise(8 << 20, n)).unwrap();
    }
    fix_atimes(&tree);
    let dump = args!["dump", "tree", "-o", "local.tar"];
    run(fathom(dump).current_dir(server.place())).exits(0);
    server
}

/// Checks that the archive in the store equals that of a local dump, byte for byte.
fn is_like_local(server: &Server, key: &str) {
    let local = fs::read(server.place().join("local.tar")).unwrap();
    let stored = server.content(key).expect(key);
    same_bytes(&local, &stored, key);
    server.remove(key);
    nothing_is_left(server);
}

/// Checks that no upload is unfinished.
fn nothing_is_left(server: &Server) {
    assert_eq!(server.unfinished(), Vec::<PathBuf>::new());
}

fn dump() -> [String; 4] {
    ["dump", "tree", "-o", &url("a.tar")].map(str::to_owned)
}

#[test]
fn a_dump_to_a_store_is_restored_from_it() {
    if !require(&needs()) {
        return;
    }
    let server = Server::start();
    let place = server.place();
    let tree = place.join("tree");
    small_tree(&tree);
    let (first, second) = (url("c.parquet"), url("d/1.tar.zst"));
    let full = args!["dump", "tree", "-o", url("a.tar.gz"), "--catalog", first];
    run(&mut server.fathom(full)).exits(0);
    fs::write(tree.join("new"), "new").unwrap();
    // The new catalog replaces the base.
    let increment = args![
        "dump",
        "tree",
        "-o",
        second,
        "--since",
        first,
        "--catalog",
        first
    ];
    let made = run(&mut server.fathom(increment)).exits(0);
    assert!(made.stderr.contains(&url("d/1.tar.zst")), "{made}");
    let changed = args!["changed", "tree", "--since", first];
    let changed = run(&mut server.fathom(changed)).exits(0);
    assert!(changed.stdout.is_empty(), "{changed}");
    fs::create_dir(place.join("out")).unwrap();
    let restore = args!["restore", url("a.tar.gz"), second, "-C", "out"];
    run(&mut server.fathom(restore)).exits(0);
    same(&kept(&tree), &kept(&place.join("out/tree")), "restored");
    let walk = args!["walk", "tree", "--catalog", url("w.parquet")];
    let walked = run(&mut server.fathom(walk)).exits(0);
    let digest = |text: &[u8]| {
        let text = String::from_utf8(text.to_vec()).unwrap();
        let mut lines = text.lines().map(str::to_owned);
        lines.find(|line| line.starts_with("digest")).unwrap()
    };
    let queried = run(&mut server.fathom(["query", &url("w.parquet")])).exits(0);
    assert_eq!(digest(&walked.stdout), digest(&queried.stdout));
    nothing_is_left(&server);
}

#[test]
fn uploads_survive_resets_errors_lost_answers_and_a_server_that_stops() {
    if !require(&needs()) {
        return;
    }
    let server = with_tree();
    type Plan = fn(&Request) -> Fault;
    let plans: [Plan; 4] = [
        |request| match request.nth % 3 {
            1 => Fault::Error,
            _ => Fault::Pass,
        },
        |request| match request.nth % 3 {
            1 => Fault::CutRequest(1 << 20),
            _ => Fault::Pass,
        },
        |request| match request.nth % 3 {
            1 => Fault::CutAnswer(0),
            _ => Fault::Pass,
        },
        |_| Fault::Slow,
    ];
    for (nth, plan) in plans.into_iter().enumerate() {
        server.proxy.plan(plan);
        server.proxy.take();
        let key = format!("{nth}.tar");
        run(&mut server.fathom(args!["dump", "tree", "-o", url(&key)])).exits(0);
        let (requests, _) = server.proxy.take();
        assert!(requests.len() > 8, "{requests:#?}");
        is_like_local(&server, &key);
    }
    // The response to the request that creates the object is lost: once for a multipart upload,
    // once for a small object.
    let lost = [AtomicBool::new(false), AtomicBool::new(false)];
    server.proxy.plan(move |request| {
        let keys = ["lost.tar", "lost.parquet"].iter().zip(&lost);
        let mut first = keys
            .filter(|(key, lost)| completes(key, request) && !lost.swap(true, Ordering::SeqCst));
        match first.next() {
            Some(_) => Fault::CutAnswer(0),
            None => Fault::Pass,
        }
    });
    let both = args![
        "dump",
        "tree",
        "-o",
        url("lost.tar"),
        "--catalog",
        url("lost.parquet")
    ];
    run(&mut server.fathom(both)).exits(0);
    is_like_local(&server, "lost.tar");
    run(&mut server.fathom(["query", &url("lost.parquet")])).exits(0);
    // The server is stopped when it is about to get a part, and answers a second later.
    let (sender, arrived) = channel();
    let is_stopped = Arc::new(AtomicBool::new(false));
    let wait = Arc::clone(&is_stopped);
    server.proxy.plan(once(uploads_part, move || {
        sender.send(()).unwrap();
        while !wait.load(Ordering::SeqCst) {
            sleep(Duration::from_millis(1));
        }
    }));
    let mut child = server.fathom(dump()).spawn().unwrap();
    arrived.recv_timeout(Duration::from_secs(600)).unwrap();
    server.stop();
    is_stopped.store(true, Ordering::SeqCst);
    sleep(Duration::from_secs(1));
    assert!(child.try_wait().unwrap().is_none());
    server.go_on();
    assert!(child.wait().unwrap().success());
    is_like_local(&server, "a.tar");
}

/// A plan for the proxy that calls a function once, at the first request that matches.
fn once(
    is_it: impl Fn(&Request) -> bool + Send + Sync + 'static,
    act: impl Fn() + Send + Sync + 'static,
) -> impl Fn(&Request) -> Fault + Send + Sync + 'static {
    let is_done = AtomicBool::new(false);
    move |request| {
        if is_it(request) && !is_done.swap(true, Ordering::SeqCst) {
            act();
        }
        Fault::Pass
    }
}

#[test]
fn of_two_that_write_the_same_object_one_fails() {
    if !require(&needs()) {
        return;
    }
    let server = Arc::new(with_tree());
    fs::create_dir(server.place().join("other")).unwrap();
    // A multipart archive, and a small catalog. First the object does not exist, then it is
    // replaced.
    for (round, key) in (0..).zip(["a.tar", "a.tar", "c.parquet", "c.parquet"]) {
        let write = |tree: &str| match key {
            "a.tar" => args!["dump", tree, "-o", url(key)],
            _ => args!["walk", tree, "--catalog", url(key)],
        };
        // The contents differ each time, so that the ETag differs.
        fs::write(server.place().join("other/file"), noise(100, round)).unwrap();
        // The server owns the plan, so the plan must not own the server.
        let (rival, racing) = (Arc::downgrade(&server), write("other"));
        let is_last = move |request: &Request| completes(key, request);
        server.proxy.plan(once(is_last, move || {
            let rival = rival.upgrade().unwrap();
            run(&mut rival.fathom(racing.clone())).exits(0);
        }));
        let late = run(&mut server.fathom(write("tree"))).exits(2);
        assert!(
            late.stderr.contains("another process has replaced"),
            "{late}"
        );
        let read = match key {
            "a.tar" => args!["list", url(key)].to_vec(),
            _ => args!["query", url(key), "--format", "paths"].to_vec(),
        };
        let read = run(&mut server.fathom(read)).exits(0);
        assert_eq!(read.lines().len(), 2, "that of the other: {read}");
        nothing_is_left(&server);
    }
}

#[test]
fn an_interrupted_dump_leaves_nothing() {
    if !require(&needs()) {
        return;
    }
    let server = with_tree();
    for signal in [Signal::INT, Signal::TERM] {
        let process = Arc::new(AtomicU32::new(0));
        let shared = Arc::clone(&process);
        server
            .proxy
            .plan(once(uploads_part, move || kill(&shared, signal)));
        let mut child = server
            .fathom(dump())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        process.store(child.id(), Ordering::SeqCst);
        let status = child.wait().unwrap();
        let ended_by = std::os::unix::process::ExitStatusExt::signal(&status);
        assert_eq!(ended_by, Some(signal.as_raw()), "{status}");
        assert_eq!(server.content("a.tar"), None);
        nothing_is_left(&server);
    }
}

#[test]
fn a_dump_that_cannot_be_written_leaves_nothing() {
    if !require(&needs()) || !require(&[Need::Tool(AWS)]) {
        return;
    }
    let server = with_tree();
    let refused = |command: &mut Command, says: &str| {
        let ran = run(command).refused();
        assert!(ran.stderr.contains(says), "{says}: {ran}");
    };
    let dump_to = |key: &str| server.fathom(args!["dump", "tree", "-o", key]);
    refused(
        &mut dump_to("s3://nowhere/a.tar"),
        "the bucket does not exist",
    );
    refused(&mut dump_to("s3://backups/"), "no bucket and key");
    refused(
        dump_to(&url("a.tar")).env("AWS_SECRET_ACCESS_KEY", "wrong"),
        "SignatureDoesNotMatch",
    );
    let both = args!["dump", "tree", "-o", url("a"), "--catalog", url("a")];
    refused(&mut server.fathom(both), "must be different files");
    // The upload fails in the middle: the catalog is not written either.
    server
        .proxy
        .plan(|request| match request.target.contains("partNumber=3") {
            true => Fault::Denied,
            false => Fault::Pass,
        });
    let both = args![
        "dump",
        "tree",
        "-o",
        url("a.tar"),
        "--catalog",
        url("c.parquet")
    ];
    refused(&mut server.fathom(both), "access denied");
    for key in ["a.tar", "c.parquet"] {
        assert!(!server.object(key).exists(), "{key}");
    }
    nothing_is_left(&server);
    let server = Server::with(ServerOptions {
        is_readonly: true,
        ..ServerOptions::default()
    });
    fs::create_dir(server.place().join("tree")).unwrap();
    if !server.is_denied_by_error_500() {
        refused(&mut server.fathom(dump()), "access denied");
    }
    assert!(Path::new(&server.object("")).exists(), "{BUCKET}");
}

/// Multipart uploads are signed without SHA-256 sums of the data, and have CRCs instead.
#[test]
fn a_dump_may_send_crcs_of_unsigned_data() {
    if !require(&needs()) {
        return;
    }
    let server = with_tree();
    let mut dump = server.fathom(dump());
    dump.envs([
        ("AWS_UNSIGNED_PAYLOAD", "true"),
        ("AWS_CHECKSUM_ALGORITHM", "crc64nvme"),
    ]);
    run(&mut dump).exits(0);
    let verify = args!["verify", url("a.tar"), "--against", "."];
    run(&mut server.fathom(verify)).exits(0);
    nothing_is_left(&server);
}

/// AWS requires a checksum for objects under object lock.
#[test]
fn an_object_under_object_lock_is_not_replaced() {
    if !require(&needs()) || !require(&[Need::Tool(AWS)]) {
        return;
    }
    let server = with_tree();
    let lock = r#"{"Enabled":true,"DefaultRetention":{"Mode":"COMPLIANCE","Days":1},"CreatedAt":"2099-01-01T00:00:00Z"}"#;
    let mut setfattr = Command::new("setfattr");
    setfattr
        .args(["-n", "user.bucket-lock", "-v", lock])
        .arg(server.object(""));
    tool(&mut setfattr);
    let dump_again = || {
        let mut dump = server.fathom(dump());
        dump.env("AWS_CHECKSUM_ALGORITHM", "sha256");
        dump
    };
    run(&mut dump_again()).exits(0);
    let first = fs::read(server.object("a.tar")).unwrap();
    fs::write(server.place().join("tree/f0"), "changed").unwrap();
    let asked = server.answer(&["s3api", "get-object-lock-configuration", "--bucket", BUCKET]);
    if !asked.contains("COMPLIANCE") {
        let has_none = ["ObjectLockConfigurationNotFoundError", "NotImplemented"];
        assert!(has_none.iter().any(|code| asked.contains(code)), "{asked}");
        run(&mut dump_again()).exits(0);
        return;
    }
    let again = run(&mut dump_again()).refused();
    assert!(
        again.stderr.contains("access denied") && again.stderr.contains("object lock"),
        "{again}"
    );
    assert!(fs::read(server.object("a.tar")).unwrap() == first);
    nothing_is_left(&server);
}
