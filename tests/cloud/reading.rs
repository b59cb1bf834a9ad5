//! Tests of reading archives and catalogs from a store.

use std::fs;
use std::path::Path;

use super::server::{Server, needs, noise, small_tree, url};
use crate::support::proxy::Fault;
use crate::support::run::{Ran, args};
use crate::support::snapshot::{kept, same};
use crate::support::trees::Dice;
use crate::support::{fathom, require, run};

/// A server with an archive of a tree of 96 files of 256 KiB, as `name`, and the catalog of it.
fn with_large_archive(name: &str) -> Server {
    let server = Server::start();
    let tree = server.place().join("tree");
    for n in 0..96 {
        let within = tree.join(format!("d{:02}", n / 16));
        fs::create_dir_all(&within).unwrap();
        fs::write(within.join(format!("f{n:03}")), noise(256 << 10, n)).unwrap();
    }
    fs::write(tree.join("d01/small"), "small").unwrap();
    let object = server.object(name);
    let catalog = server.object("c.parquet");
    let dump = args!["dump", "tree", "-o", object, "--catalog", catalog];
    run(fathom(dump).current_dir(server.place())).exits(0);
    server
}

fn same_as_local(server: &Server, remote: &[&str], local: &[&str]) -> Ran {
    let remote = run(&mut server.fathom(remote.iter().copied()));
    let local = run(fathom(local.iter().copied()).current_dir(server.place()));
    assert_eq!(remote.code(), local.code(), "{remote}\n{local}");
    assert_eq!(remote.stdout, local.stdout, "{remote}\n{local}");
    remote
}

#[test]
fn archives_and_catalogs_in_a_store_are_read_like_files() {
    if !require(&needs()) {
        return;
    }
    let server = Server::start();
    let place = server.place();
    small_tree(&place.join("tree"));
    for name in ["a.tar", "a.tar.gz", "a.tar.zst"] {
        let (object, catalog) = (server.object(name), server.object("c.parquet"));
        let dump = args!["dump", "tree", "-o", object, "--catalog", catalog];
        run(fathom(dump).current_dir(place)).exits(0);
        let local = object.to_str().unwrap();
        same_as_local(&server, &["list", &url(name)], &["list", local]).exits(0);
        let out = place.join("out");
        fs::create_dir(&out).unwrap();
        run(&mut server.fathom(["restore", &url(name), "-C", "out"])).exits(0);
        same(&kept(&place.join("tree")), &kept(&out.join("tree")), name);
        let against = ["verify", &url(name), "--against", "."];
        let verified = run(&mut server.fathom(against)).exits(0);
        assert!(!verified.stdout.is_empty(), "{verified}");
        fs::remove_dir_all(&out).unwrap();
    }
    let catalog = server.object("c.parquet");
    let local = catalog.to_str().unwrap();
    let (remote, parts) = (url("c.parquet"), url("parts/"));
    let query = |name| vec!["query", name, "--format", "ndjson", "--max-depth", "2"];
    same_as_local(&server, &query(&remote), &query(local)).exits(0);
    let changed = |name| vec!["changed", "tree", "--since", name];
    same_as_local(&server, &changed(&remote), &changed(local)).exits(0);
    fs::write(place.join("tree/new file"), "new").unwrap();
    let changes = same_as_local(&server, &changed(&remote), &changed(local)).exits(0);
    assert!(
        changes.lines().iter().any(|line| line.contains("new file")),
        "{changes}"
    );
    // A prefix stands for all catalogs below it.
    fs::create_dir(server.object("parts")).unwrap();
    fs::copy(&catalog, server.object("parts/one.parquet")).unwrap();
    same_as_local(&server, &query(&parts), &query(local)).exits(0);
}

#[test]
fn a_file_of_a_seekable_archive_takes_a_few_requests() {
    if !require(&needs()) {
        return;
    }
    let server = with_large_archive("a.tar.zst");
    let size = fs::metadata(server.object("a.tar.zst")).unwrap().len();
    assert!(size > 24 << 20, "{size}");
    fs::create_dir(server.place().join("out")).unwrap();
    let small = "tree/d01/small";
    for command in ["list", "verify", "restore"] {
        let mut args = vec![command, "s3://backups/a.tar.zst"];
        if command == "restore" {
            args.extend(["-C", "out"]);
        }
        args.extend(["--", small]);
        server.proxy.take();
        run(&mut server.fathom(args)).exits(0);
        let (requests, bytes) = server.proxy.take();
        assert!(requests.len() <= 16, "{command}: {requests:#?}");
        assert!(bytes < size / 4, "{command}: {bytes} bytes of {size}");
    }
    assert_eq!(
        fs::read(server.place().join("out").join(small)).unwrap(),
        b"small"
    );
}

#[test]
fn members_of_a_plain_archive_are_skipped_without_reading_them() {
    if !require(&needs()) {
        return;
    }
    let server = Server::start();
    let tree = server.place().join("tree");
    fs::create_dir(&tree).unwrap();
    for n in 0..4 {
        fs::write(tree.join(format!("f{n}")), noise(24 << 20, n)).unwrap();
    }
    let object = server.object("a.tar");
    run(fathom(args!["dump", "tree", "-o", object]).current_dir(server.place())).exits(0);
    let size = fs::metadata(&object).unwrap().len();
    let listed = run(&mut server.fathom(["list", &url("a.tar")])).exits(0);
    assert_eq!(listed.lines().len(), 5, "{listed}");
    let (requests, bytes) = server.proxy.take();
    assert!(
        requests.len() <= 40 && bytes < size / 4,
        "{bytes} of {size}: {requests:#?}"
    );
}

#[test]
fn a_query_reads_the_footer_and_the_columns_that_it_needs() {
    if !require(&needs()) {
        return;
    }
    let server = Server::start();
    let tree = server.place().join("tree");
    let mut dice = Dice::new(1);
    for n in 0..10_000 {
        let within = tree.join(format!("d{:03}", n / 200));
        if n % 200 == 0 {
            fs::create_dir_all(&within).unwrap();
        }
        let name: [u64; 4] = std::array::from_fn(|_| dice.roll());
        fs::write(
            within.join(name.map(|part| format!("{part:x}")).concat()),
            "",
        )
        .unwrap();
    }
    let catalog = server.object("c.parquet");
    run(fathom(args!["walk", "tree", "--catalog", catalog]).current_dir(server.place())).exits(0);
    let size = fs::metadata(&catalog).unwrap().len();
    let all = [
        "query",
        "s3://backups/c.parquet",
        "--group-by",
        "age",
        "--type",
        "f",
    ];
    run(&mut server.fathom(all)).exits(0);
    let (requests, bytes) = server.proxy.take();
    let ranges = requests.iter().filter(|it| it.range.is_some()).count();
    assert_eq!(ranges, requests.len(), "{requests:#?}");
    assert!(bytes < size / 2, "{bytes} of {size}: {requests:#?}");
}

#[test]
fn reading_survives_resets_errors_and_a_slow_server() {
    if !require(&needs()) {
        return;
    }
    let server = with_large_archive("a.tar");
    let size = fs::metadata(server.object("a.tar")).unwrap().len();
    let verify = ["verify", "s3://backups/a.tar"];
    let plans: [fn(usize) -> Fault; 3] = [
        |nth| {
            if nth % 3 == 1 {
                Fault::Error
            } else {
                Fault::Pass
            }
        },
        |nth| {
            if nth % 3 == 1 {
                Fault::CutAnswer(100_000)
            } else {
                Fault::Pass
            }
        },
        |_| Fault::Slow,
    ];
    for (nth, plan) in plans.into_iter().enumerate() {
        server.proxy.plan(move |request| plan(request.nth));
        server.proxy.take();
        run(&mut server.fathom(verify)).exits(0);
        let (requests, bytes) = server.proxy.take();
        assert!(bytes >= size, "{nth}: {bytes} of {size}: {requests:#?}");
    }
}

/// A read gets one version of an object: if the object is replaced meanwhile, reading fails.
#[test]
fn an_object_that_is_replaced_meanwhile_is_an_error() {
    if !require(&needs()) {
        return;
    }
    let server = with_large_archive("a.tar");
    let object = server.object("a.tar");
    server.proxy.plan(move |request| {
        if request.nth == 3 {
            let other = object.with_extension("other");
            fs::write(&other, noise(30 << 20, 1)).unwrap();
            fs::rename(&other, &object).unwrap();
        }
        Fault::Pass
    });
    let verified = run(&mut server.fathom(["verify", &url("a.tar")]));
    assert_ne!(verified.code(), 0, "{verified}");
}

#[test]
fn what_cannot_be_read_is_one_clear_line() {
    if !require(&needs()) {
        return;
    }
    let server = Server::start();
    fs::write(server.object("empty"), "").unwrap();
    fs::write(server.object("text"), "no archive\n").unwrap();
    let refused = |command: &mut std::process::Command, says: &str, hint: &str| {
        let ran = run(command).refused();
        assert!(ran.stderr.contains(says), "{says}: {ran}");
        assert!(ran.stderr.contains(hint), "{hint}: {ran}");
        assert!(!ran.stderr.contains("secret of"), "{ran}");
    };
    let list = |name: &str| server.fathom(["list", name]);
    refused(
        &mut list("s3://backups/none"),
        "the object does not exist",
        "check the name",
    );
    refused(
        &mut list("s3://nowhere/none"),
        "the bucket does not exist",
        "create the bucket",
    );
    refused(
        &mut list("s3://backups"),
        "no bucket and key",
        "s3://BUCKET/KEY",
    );
    refused(&mut list("s3://backups/empty"), "the file is empty", "");
    refused(&mut list("s3://backups/text"), "not a tar archive", "");
    refused(
        list("s3://backups/none").env("AWS_SECRET_ACCESS_KEY", "wrong"),
        "SignatureDoesNotMatch",
        "check the endpoint, and the values of AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY\n",
    );
    refused(
        list("s3://backups/none").env("AWS_ACCESS_KEY_ID", "wrong"),
        "rejects the access key",
        "AWS_ACCESS_KEY_ID",
    );
    for variable in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
        let says = format!("the variable {variable} is not set");
        refused(
            list("s3://backups/none").env_remove(variable),
            &says,
            "set AWS_ACCESS_KEY_ID",
        );
    }
    refused(
        list("s3://backups/none").env_remove("AWS_ALLOW_HTTP"),
        "without TLS",
        "AWS_ALLOW_HTTP",
    );
    let unused = [
        "list",
        "s3://backups/none",
        "--endpoint-url",
        "http://127.0.0.1:1",
    ];
    refused(
        &mut server.fathom(unused),
        "cannot connect",
        "--endpoint-url",
    );
    for catalog in ["empty", "text"] {
        let says = "not a Parquet file";
        refused(
            &mut server.fathom(["query", &url(catalog)]),
            says,
            "--catalog",
        );
    }
    assert!(Path::new(&server.object("text")).exists());
}
