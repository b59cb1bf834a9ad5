//! Tests of remote repositories: on a rest-server, in a bucket, and on a host that ssh reaches.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mount::mount_bind;
use rustix::process::Signal;
use serde_json::Value;

use crate::restic::caching::{
    bad_caches_are_harmless, caches_follow_the_repository, index_files_are_cached,
    little_is_downloaded_again,
};
use crate::restic::interruptions::{end_held, hold_with_lock, kill_snapshots, quiet};
use crate::restic::servers::{
    Place, RCLONE, SFTP_SERVER, SSH, USERS, by_ssh, on_rest_server, rest_server,
};
use crate::restic::{NEEDS, PASSWORD, copy_fixture};
use crate::support::build::{dir, file};
use crate::support::effort::effort;
use crate::support::proxy::{Fault, Proxy, Request};
use crate::support::recipe::{block_of, search_path, service};
use crate::support::run::args;
use crate::support::snapshot::{kept, same};
use crate::support::tool::tool;
use crate::support::trees::Dice;
use crate::support::{Need, fathom_path, in_namespace, require, run};

const PAGE: &str = include_str!("../../docs/backup.md");

fn small_tree(at: &Path) -> PathBuf {
    let tree = dir(at.join("tree"));
    for nth in 0..40 {
        file(tree.join(format!("d{}/f{nth}", nth % 4)), 100 + 1000 * nth);
    }
    fs::write(tree.join("noise"), Dice::new(5).bytes(8 << 20)).unwrap();
    tree
}

/// Checks that restic accepts, restores and continues the snapshots in a place, and that errors are
/// one line.
fn place_works(place: &Place) {
    let tree = small_tree(&place.at);
    let refuses = |dump: &mut Command, why: &str| place.refuses(dump, why);
    refuses(&mut place.dump(args!["tree"]), "no restic repository");
    copy_fixture("version2", &place.dir);
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
    // A lock of restic is respected, and a signal removes our own.
    let hold = hold_with_lock(&place.dir);
    let mut prune = quiet(place.restic(args!["prune"]));
    hold.wait(&mut prune);
    assert_eq!(place.locks(), 1);
    let said = run(&mut place.dump(args!["tree"])).refused().stderr;
    assert!(said.contains("locked by process"), "{said}");
    drop(hold);
    assert!(prune.wait().unwrap().success());
    let made = place.snapshots();
    for ends in [Signal::TERM, Signal::INT] {
        let hold = hold_with_lock(&place.dir);
        let mut ended = quiet(place.dump(args!["tree", "--exclude", "f3"]));
        hold.wait(&mut ended);
        assert_eq!(place.locks(), 1);
        let status = end_held(ended, hold, ends);
        assert_eq!(status.signal(), Some(ends.as_raw()), "{status}");
        assert_eq!((place.locks(), place.snapshots()), (0, made), "{status}");
    }
    kills_leave_it_sound(place, &tree);
}

fn kills_leave_it_sound(place: &Place, tree: &Path) {
    kill_snapshots(&place.at, &place.dir, |round| {
        for nth in 0..20_u64 {
            let text = format!("{round} {nth} ").repeat(20_000);
            fs::write(tree.join(format!("d{}/{round}-{nth}", nth % 4)), text).unwrap();
        }
        let words = [&args!["tree"][..], &args!["--state", "state"]].concat();
        let words = words.into_iter().take(if round % 2 == 0 { 3 } else { 1 });
        place.dump(words)
    });
    run(&mut place.restic(args!["unlock", "--remove-all"])).exits(0);
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

/// Checks that a message reports failed writes. (`remote` tests how many must fail.)
fn failures_are_reported(place: &Place, proxy: &Proxy) {
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
    let line = "500 Internal Server Error; the request is tried again for";
    assert!(said.stderr.contains(line), "{said}");
    proxy.plan(|request| match request.method == "DELETE" {
        true => Fault::Denied,
        false => Fault::Pass,
    });
    let said = run(&mut place.dump(args!["tree"])).exits(0);
    let line = "restic unlock removes this lock in half an hour";
    assert!(said.stderr.contains(line), "{said}");
    assert!(said.stderr.contains("cannot remove 'locks/"), "{said}");
    proxy.plan(|_| Fault::Pass);
    run(&mut place.restic(args!["unlock", "--remove-all"])).exits(0);
}

/// Checks that snapshots survive network faults, and that after a kill at any request the next
/// snapshot is complete.
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
    let (mut nth, mut killed, rounds) = (0, 0, effort(6, 150));
    for round in 0..rounds {
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
        // After the last request, begin again with the first.
        nth = if is_killed { nth + 1 } else { 0 };
    }
    assert!(killed > rounds / 2, "{killed} of {rounds}");
    proxy.plan(|_| Fault::Pass);
    run(&mut place.restic(args!["unlock", "--remove-all"])).exits(0);
    place.made(args!["tree"]);
    place.check();
}

#[test]
#[cfg(feature = "cloud")]
fn a_rest_server_keeps_snapshots() {
    if !require(&NEEDS) || !require(&[Need::Tool(RCLONE)]) {
        return;
    }
    in_namespace(|ground| {
        let server = rest_server(ground, None);
        let place = on_rest_server(ground, &server);
        place_works(&place);
        faults_lose_nothing(&place, &server.proxy);
        failures_are_reported(&place, &server.proxy);
        index_files_are_cached(&place, &server.proxy);
        let away = "rest:http://127.0.0.1:1/srv";
        place.refuses(&mut place.fathom(away, args!["tree"]), "cannot connect");
        for bad in ["rest:", "rest:host", "rest:ftp://host/"] {
            place.refuses(&mut place.fathom(bad, args!["tree"]), "malformed");
        }
        // The server refuses some uploads, and so there is no snapshot.
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

        // A server with a password file. It allows clients to remove locks, and nothing else.
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

/// Runs a test with a small tree, and with a new repository on a server.
#[cfg(feature = "cloud")]
fn with_a_small_tree(test: impl FnOnce(&Place, &crate::restic::servers::Running) + Send) {
    if !require(&NEEDS) || !require(&[Need::Tool(RCLONE)]) {
        return;
    }
    in_namespace(|ground| {
        let server = rest_server(ground, None);
        let place = on_rest_server(ground, &server);
        copy_fixture("version2", &place.dir);
        small_tree(ground);
        test(&place, &server);
    });
}

#[test]
#[cfg(feature = "cloud")]
fn a_repeated_snapshot_downloads_little() {
    with_a_small_tree(|place, server| {
        little_is_downloaded_again(place, &server.proxy);
        place.check();
    });
}

#[test]
#[cfg(feature = "cloud")]
fn a_cache_is_never_needed_and_never_trusted() {
    with_a_small_tree(|place, _server| {
        bad_caches_are_harmless(place);
        caches_follow_the_repository(place);
    });
}

#[test]
#[cfg(feature = "cloud")]
fn the_service_in_the_book_makes_snapshots_on_a_rest_server() {
    if !require(&NEEDS) || !require(&[Need::Tool(RCLONE)]) {
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
        // restic before 0.16.1 needs the password in the URL.
        let mut of_restic = on_rest_server(ground, &server);
        of_restic.location = place.location.replace("//", "//me:password@");
        copy_fixture("version2", &place.dir);
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
        for day in 0..effort(2, 30) {
            fs::write(tree.join(format!("of day {day}")), "new").unwrap();
            service("backup.md", "fathom-restic.service", &paths, &programs)
                .into_iter()
                .for_each(|command| drop(with_user(command)));
        }
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
    use crate::cloud::server::{Server, ServerOptions, needs};
    use crate::restic::servers::in_bucket;
    let needs_aws = [Need::Tool(crate::cloud::server::AWS)];
    if !require(&NEEDS) || !require(&needs()) || !require(&needs_aws) {
        return;
    }
    in_namespace(|ground| {
        let server = Server::start();
        // A mount of its own, because `Hold` watches a mount.
        let bucket = server.object("");
        mount_bind(&bucket, &bucket).unwrap();
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
        // rclone refuses with status 500, which can also be a temporary error, so fathom repeats
        // the request for minutes.
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
        // Remove the incomplete files of killed uploads. Many copies of repositories have no empty
        // directories.
        let mut find = Command::new("find");
        find.arg(&place.dir).args(["-mindepth", "1", "("]);
        find.args(["-name", "*-restic-temp-*", "-o", "-empty", "-type", "d"]);
        tool(find.args([")", "-delete"]));
        assert!(!place.dir.join("locks").exists());
        fs::write(ground.join("tree/new"), Dice::new(6).bytes(20 << 20)).unwrap();
        assert_eq!(place.made(args!["tree"])["files_new"], 1);
        place.check();
        // No incomplete file is left.
        let mut find = Command::new("find");
        let partial = tool(find.arg(&place.dir).args(["-name", "*-restic-temp-*"]));
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
