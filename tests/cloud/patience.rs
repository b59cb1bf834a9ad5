//! Tests of repeated requests, of final errors, and of stores without conditional requests.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::server::{Server, completes, needs, noise, small_tree, uploads_part, url};
use crate::support::proxy::{ELSEWHERE, Fault, Request};
use crate::support::run::args;
use crate::support::snapshot::same_bytes;
use crate::support::trees::fix_atimes;
use crate::support::{fathom, require, run};

/// Makes `many` requests fail, from the first one on for which `begins` is true.
fn outage(server: &Server, begins: fn(&Request) -> bool, many: usize) -> Arc<AtomicUsize> {
    let (left, failed) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&failed);
    let is_begun = AtomicUsize::new(0);
    server.proxy.plan(move |request| {
        if is_begun.load(SeqCst) == 0 {
            if begins(request) {
                is_begun.store(1, SeqCst);
                left.store(many, SeqCst);
            }
            return Fault::Pass;
        }
        match left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => {
                counted.fetch_add(1, SeqCst);
                Fault::CutRequest(0)
            }
            Err(_) => Fault::Pass,
        }
    });
    failed
}

/// The store fails for some seconds when the archive is complete and about to be recorded.
#[test]
fn an_outage_at_the_end_of_a_dump_costs_time_only() {
    if !require(&needs()) {
        return;
    }
    let server = Server::start();
    small_tree(&server.place().join("tree"));
    let failed = outage(&server, |request| completes("a.tar", request), 6);
    let state = url("state/");
    let words = args![
        "dump",
        "tree",
        "-o",
        url("a.tar"),
        "--level",
        "0",
        "--state",
        state
    ];
    let ran = run(&mut server.fathom(words)).exits(0);
    assert_eq!(failed.load(SeqCst), 6);
    assert!(
        ran.stderr
            .contains("the request is tried again for up to 5 minutes"),
        "{ran}"
    );
    let listed = run(&mut server.fathom(args!["list", "--state", state])).exits(0);
    assert!(listed.to_string().contains("a.tar"), "{listed}");
}

/// A busy store has answered, so the URL is right.
#[test]
fn a_busy_store_at_the_start_is_asked_again() {
    if !require(&needs()) {
        return;
    }
    let server = Server::start();
    small_tree(&server.place().join("tree"));
    const BUSY: &str = "<Error><Code>SlowDown</Code></Error>";
    server.proxy.plan(|request| match request.nth {
        0..6 => Fault::Answer(503, BUSY),
        _ => Fault::Pass,
    });
    run(&mut server.fathom(args!["dump", "tree", "-o", url("a.tar")])).exits(0);
    // If no server answers at all, fathom fails soon.
    let mut command = server.fathom(args!["dump", "tree", "-o", url("a.tar")]);
    command.env("AWS_ENDPOINT_URL", "http://127.0.0.1:1");
    let refused = run(&mut command).refused();
    assert!(refused.stderr.contains("cannot connect"), "{refused}");
    assert!(!refused.stderr.contains("5 minutes"), "{refused}");
}

/// A server accepts connections, and sends nothing.
#[test]
fn a_silent_server_is_named() {
    if !require(&needs()) {
        return;
    }
    let server = Server::start();
    small_tree(&server.place().join("tree"));
    server.proxy.plan(|_| Fault::Silence);
    let mut command = server.fathom(args!["dump", "tree", "-o", url("a.tar")]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("has not answered for 10"), "{line}");
    assert!(line.contains("127.0.0.1:"), "{line}");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A store that does not implement conditional requests: its first refusal is final, for small
/// objects and for parts.
#[test]
fn a_store_without_conditional_requests_gets_others_at_once() {
    if !require(&needs()) {
        return;
    }
    let server = Server::start();
    let tree = server.place().join("tree");
    small_tree(&tree);
    fs::write(tree.join("large"), noise(20 << 20, 1)).unwrap();
    fix_atimes(&tree);
    const MISSING: &str = "<Error><Code>NotImplemented</Code></Error>";
    let refused = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&refused);
    server.proxy.plan(move |request| {
        // Conditional reads are supported everywhere.
        let is_write = request.method != "GET" && request.method != "HEAD";
        match is_write && request.is_conditional {
            true => {
                counted.fetch_add(1, SeqCst);
                Fault::Answer(501, MISSING)
            }
            false => Fault::Pass,
        }
    });
    run(fathom(args!["dump", "tree", "-o", "local.tar"]).current_dir(server.place())).exits(0);
    let words = args![
        "dump",
        "tree",
        "-o",
        url("a.tar"),
        "--catalog",
        url("c.parquet")
    ];
    let ran = run(&mut server.fathom(words)).exits(0);
    let told = ran.stderr.matches("has no conditional requests").count();
    assert_eq!((refused.load(SeqCst), told), (1, 1), "{ran}");
    let local = fs::read(server.place().join("local.tar")).unwrap();
    same_bytes(&local, &server.content("a.tar").unwrap(), "the archive");
    run(&mut server.fathom(args!["query", url("c.parquet")])).exits(0);
    // The same for a small object.
    refused.store(0, SeqCst);
    let words = args!["walk", "-q", "tree", "--catalog", url("small.parquet")];
    run(&mut server.fathom(words)).exits(0);
    assert_eq!(refused.load(SeqCst), 1);
}

/// A client that follows a redirect writes nothing, and believes that it has: the request becomes a
/// GET.
#[test]
fn redirected_requests_write_nothing_and_fail() {
    if !require(&needs()) {
        return;
    }
    let server = Server::start();
    small_tree(&server.place().join("tree"));
    for status in [301, 302, 303, 307, 308] {
        server.proxy.plan(move |request| match &request.method[..] {
            _ if request.target == ELSEWHERE => Fault::Answer(200, ""),
            "PUT" => Fault::Redirect(status),
            _ => Fault::Pass,
        });
        let dump = run(&mut server.fathom(args!["dump", "tree", "-o", url("a.tar")])).refused();
        assert!(
            dump.stderr.contains("redirects the request"),
            "{status}: {dump}"
        );
        let (requests, _) = server.proxy.take();
        assert!(requests.iter().all(|it| it.target != ELSEWHERE), "{status}");
    }
}

/// Answers that end early, and two statuses that are final for other reasons.
#[test]
fn one_lost_answer_costs_time_only() {
    if !require(&needs()) {
        return;
    }
    let server = Server::start();
    let tree = server.place().join("tree");
    small_tree(&tree);
    fs::write(tree.join("large"), noise(20 << 20, 1)).unwrap();
    const SLOW: &str = "<Error><Code>RequestTimeout</Code></Error>";
    const CONFLICT: &str = "<Error><Code>OperationAborted</Code></Error>";
    let once = |is_it: fn(&Request) -> bool, fault| {
        let left = AtomicUsize::new(1);
        server.proxy.plan(move |request| {
            let is_left = || {
                left.fetch_update(SeqCst, SeqCst, |it| it.checked_sub(1))
                    .is_ok()
            };
            match is_it(request) && is_left() {
                true => fault,
                false => Fault::Pass,
            }
        });
    };
    for (is_it, fault) in [
        (
            uploads_part as fn(&Request) -> bool,
            Fault::Answer(400, SLOW),
        ),
        (uploads_part, Fault::Answer(409, CONFLICT)),
    ] {
        once(is_it, fault);
        run(&mut server.fathom(args!["dump", "tree", "-o", url("a.tar")])).exits(0);
    }
    let words = "walk -q tree --shard 0/1 --run one --catalog".split(' ');
    let words = words.map(OsString::from).chain(args![url("parts")]);
    run(&mut server.fathom(words.collect::<Vec<_>>())).exits(0);
    once(
        |request| request.target.contains("list-type="),
        Fault::CutAnswer(300),
    );
    run(&mut server.fathom(args!["query", url("parts")])).exits(0);
}

/// An error of the store is printed with a hint.
#[test]
fn errors_of_the_store_have_hints() {
    if !require(&needs()) {
        return;
    }
    let server = Server::start();
    small_tree(&server.place().join("tree"));
    let dump = || {
        run(&mut server.fathom(args!["dump", "tree", "-o", url("a.tar")]))
            .refused()
            .stderr
    };
    for (status, body, message, hint) in [
        (
            403,
            "<Error><Code>RequestTimeTooSkewed</Code></Error>",
            "the clock of this machine is wrong",
            "set the clock",
        ),
        (
            400,
            "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-central-1</Region></Error>",
            "in another region: eu-central-1",
            "AWS_REGION",
        ),
        (301, "", "another region", "AWS_REGION"),
        (403, "", "access denied", "permission"),
    ] {
        server.proxy.plan(move |_| Fault::Answer(status, body));
        let told = dump();
        assert!(
            told.contains(message) && told.contains(hint),
            "{status} {body}: {told}"
        );
    }
    // A store may answer one of two simultaneous requests with this error: fathom repeats the
    // request, as nothing was replaced.
    const CONFLICT: &str = "<Error><Code>ConditionalRequestConflict</Code></Error>";
    let left = AtomicUsize::new(2);
    server.proxy.plan(move |request| {
        let is_write = completes("a.tar", request);
        match is_write
            && left
                .fetch_update(SeqCst, SeqCst, |it| it.checked_sub(1))
                .is_ok()
        {
            true => Fault::Answer(409, CONFLICT),
            false => Fault::Pass,
        }
    });
    run(&mut server.fathom(args!["dump", "tree", "-o", url("a.tar")])).exits(0);
    for (key, why) in [
        ("a//b.tar", "an empty part"),
        ("a/../b.tar", "the part '.' or '..'"),
        ("./b.tar", "the part '.' or '..'"),
        ("/b.tar", "begins with a slash"),
    ] {
        let refused = run(&mut server.fathom(args!["dump", "tree", "-o", url(key)])).refused();
        assert!(refused.stderr.contains(why), "{key}: {refused}");
    }
}

/// Settings that no request can contain are named, but not printed: they may be secret.
#[test]
fn malformed_settings_are_named() {
    if !require(&needs()) {
        return;
    }
    let server = Server::start();
    small_tree(&server.place().join("tree"));
    for (variable, value) in [
        ("AWS_SECRET_ACCESS_KEY", "secret\n"),
        ("AWS_ACCESS_KEY_ID", "key secret"),
        ("AWS_SESSION_TOKEN", "secret\r\n"),
        ("AWS_REGION", "secret-1 "),
        ("AWS_REGION", "secret-1\n"),
        ("AWS_ENDPOINT_URL", "secret:9000"),
        ("AWS_ENDPOINT_URL", "secret"),
        ("AWS_ENDPOINT_URL", "http://secret host"),
        ("AWS_ENDPOINT_URL_S3", "https:///secret"),
        ("AWS_PROFILE", "secret\n"),
    ] {
        let mut command = server.fathom(args!["dump", "tree", "-o", url("a.tar")]);
        let told = run(command.env(variable, value)).refused().stderr;
        assert!(told.contains(variable), "{variable}={value:?}: {told}");
        assert!(
            !told.contains("secret") && !told.contains("panicked"),
            "{told}"
        );
    }
    let words = args![
        "dump",
        "tree",
        "-o",
        url("a.tar"),
        "--endpoint-url",
        "host:9000"
    ];
    let told = run(&mut server.fathom(words)).refused().stderr;
    assert!(told.contains("--endpoint-url"), "{told}");
    let told = run(&mut server.fathom(args!["dump", "tree", "-o", "s3://a b/c"]))
        .refused()
        .stderr;
    assert!(told.contains("the name of the bucket"), "{told}");
}

/// A walk by several processes writes its parts to a store. The prefix stands for all parts.
#[test]
fn shards_are_written_to_a_store() {
    if !require(&needs()) {
        return;
    }
    let server = Server::start();
    let tree = server.place().join("tree");
    small_tree(&tree);
    for nth in 0..3 {
        let shard = format!("{nth}/3");
        let words = args![
            "walk",
            "-q",
            "tree",
            "--shard",
            shard,
            "--run",
            "one",
            "--catalog",
            url("parts")
        ];
        run(&mut server.fathom(words)).exits(0);
    }
    assert!(!server.place().join("s3:").exists());
    let count = |words: &[std::ffi::OsString]| {
        let ran = run(&mut server.fathom(words.to_vec())).exits(0);
        ran.lines().len()
    };
    let whole = count(&args!["walk", "tree", "--format", "paths"]);
    for name in [url("parts"), url("parts/")] {
        assert_eq!(count(&args!["query", name, "--format", "paths"]), whole);
        assert_eq!(count(&args!["changed", "tree", "--since", name]), 0);
    }
    let other = args![
        "walk",
        "-q",
        "tree",
        "--shard",
        "0/2",
        "--catalog",
        url("parts")
    ];
    let refused = run(&mut server.fathom(other)).refused();
    assert!(refused.stderr.contains("of another run"), "{refused}");
}
