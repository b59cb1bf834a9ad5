//! Tests of file systems on servers that are slow, fail, or disappear.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;

use super::right::{census_of, every_engine_is_right, objects, same, walk};
use crate::support::build::{dir, file, unmount, unmount_whole};
use crate::support::disks::{EXT4, attach, image};
use crate::support::fuse::Manner::{Held, Hung};
use crate::support::fuse::serve;
use crate::support::reference::{Census, census};
use crate::support::run::{args, path};
use crate::support::synthetic::{SyntheticTree, serve_synthetic};
use crate::support::trees::grow;
use crate::support::{Need, fathom, in_namespace, require, run};

const FAR: [Need; 2] = [Need::Root, Need::Fuse];

#[test]
fn tree_on_a_fuse_server() {
    if require(&FAR) {
        in_namespace(|base| {
            let at = base.join("remote");
            let _server = serve_synthetic(SyntheticTree::of(30, 150), &at);
            every_engine_is_right(&at, &["stat", "threads"], "FUSE");
            assert_eq!(census(&at).len(), 1 + 30 + 30 * 150);
        });
    }
}

/// The number of requests, the maximum number in flight, and the number of rounds of a walk by an
/// engine: if each request took a millisecond, the walk would take a millisecond for each round.
fn load(at: &Path, engine: &str, (directories, files): (u64, u64)) -> [u64; 3] {
    let tree = SyntheticTree {
        directories,
        files,
        in_rounds: true,
        ..SyntheticTree::default()
    };
    let server = serve_synthetic(tree, at);
    let walked = walk(at, engine, &["--json"]).exits(0).json();
    let entries = 1 + directories + directories * files;
    assert_eq!(walked["result"]["entries"], entries, "{engine}");
    let load = &server.load;
    [&load.requests, &load.most, &load.rounds].map(|count| count.load(Ordering::Relaxed))
}

#[test]
fn threads_keep_many_requests_in_flight() {
    if require(&FAR) {
        in_namespace(|base| {
            let [stat, threads] =
                ["stat", "threads"].map(|engine| load(&base.join(engine), engine, (100, 20)));
            let loads = format!("stat: {stat:?}, threads: {threads:?}");
            let [requests, most, rounds] = stat;
            // Closing a directory does not wait for the server, so a few requests may be in flight
            // even with `stat`.
            assert!(most <= 4 && requests > 2000, "{loads}");
            let [requests_of_threads, most_of_threads, rounds_of_threads] = threads;
            assert!(most_of_threads >= 16, "{loads}");
            assert!(
                rounds >= 8 * rounds_of_threads,
                "eight times as fast: {loads}"
            );
            assert!(
                requests_of_threads <= requests + requests / 10,
                "and no more requests than a plain walk: {loads}"
            );
        });
    }
}

/// A single wide directory has no subdirectories to share: its entries must be looked up in
/// parallel.
#[test]
fn threads_share_a_wide_directory() {
    if require(&FAR) {
        in_namespace(|base| {
            let [requests, _, rounds] = load(&base.join("remote"), "threads", (1, 3000));
            assert!(requests >= 8 * rounds, "{requests} in {rounds} rounds");
        });
    }
}

fn below(census: &Census, top: &Path, at: &str) -> Census {
    let out = top.join(at);
    let inside = |path: &[u8]| {
        Path::new(OsStr::from_bytes(path)).starts_with(&out) && path != out.as_os_str().as_bytes()
    };
    census
        .iter()
        .filter(|(path, _)| !inside(path))
        .map(|(path, entry)| (path.clone(), entry.clone()))
        .collect()
}

#[test]
fn failures_are_warnings_and_the_walk_continues() {
    if require(&FAR) {
        in_namespace(|base| {
            let at = base.join("remote");
            let remote = SyntheticTree {
                directories: 12,
                files: 20,
                lost: vec![
                    ("d1/f2", libc::EIO),
                    ("d3", libc::ESTALE),
                    ("d5/f0", libc::ENOENT),
                ],
                unreadable: vec![("d7", libc::EIO), ("d9", libc::ESTALE)],
                ..SyntheticTree::default()
            };
            let _server = serve_synthetic(remote, &at);
            let expected = [
                ("d1/f2", "EIO"),
                ("d3", "ESTALE"),
                ("d5/f0", "ENOENT"),
                ("d7", "EIO"),
                ("d9", "ESTALE"),
            ];
            for engine in ["stat", "threads", "auto"] {
                let lines = objects(&walk(&at, engine, &["--format", "ndjson"]).exits(1));
                // Missing are the contents of d3, the directories d7 and d9, and two other files.
                assert_eq!(census_of(&lines).len(), 1 + 11 + 9 * 20 - 2, "{engine}");
                let value = walk(&at, engine, &["--json"]).exits(1).json();
                let mut named: Vec<(String, String)> = warnings(&value, &at);
                named.sort();
                assert_eq!(
                    named,
                    expected.map(|(at, errno)| (at.to_owned(), errno.to_owned())),
                    "{engine}"
                );
                assert_eq!(value["result"]["entries"], lines.len());
            }
        });
    }
}

/// If a server does not find an entry that its directories list, that is a fault, not a removal.
#[test]
fn what_is_listed_and_not_found_is_a_fault() {
    if require(&FAR) {
        in_namespace(|base| {
            for errno in [libc::ENOENT, libc::ELOOP, libc::ENOTDIR, libc::ESRCH] {
                let at = base.join(format!("remote{errno}"));
                let faulty = SyntheticTree {
                    directories: 12,
                    files: 20,
                    lost: vec![("d1/f2", errno), ("d1/f3", errno), ("d3", errno)],
                    unopened: vec![("d5", errno)],
                    unreadable: vec![("d7", errno)],
                    ..SyntheticTree::default()
                };
                let _server = serve_synthetic(faulty, &at);
                for engine in ["stat", "threads", "auto"] {
                    let value = walk(&at, engine, &["--json"]).exits(1).json();
                    let mut paths = warnings(&value, &at).into_iter().map(|(path, _)| path);
                    let mut paths: Vec<String> = paths.by_ref().collect();
                    paths.sort();
                    assert_eq!(paths, ["d1/f2", "d1/f3", "d3", "d5", "d7"], "{engine}");
                    assert_eq!(value["result"]["entries"], 1 + 11 + 9 * 20 - 2, "{engine}");
                }
                let value = run(&mut fathom(args!["mounts", &at, "--by", "naive", "--json"]));
                let value = value.exits(1).json();
                let said = value["warnings"].to_string();
                for path in ["d1/f2", "d3", "d5", "d7"] {
                    let path = format!("\"{}/{path}\"", at.display());
                    assert!(said.contains(&path), "{path}: {said}");
                }
            }
        });
    }
}

/// `changed` does not report such an entry as removed either.
#[test]
fn what_is_listed_and_not_found_is_not_reported_as_removed() {
    if require(&FAR) {
        in_namespace(|base| {
            let (at, catalog) = (base.join("remote"), base.join("catalog"));
            let healthy = SyntheticTree::of(6, 20);
            let server = serve_synthetic(healthy.clone(), &at);
            walk(&at, "auto", &["--catalog", catalog.to_str().unwrap()]).exits(0);
            unmount(&at);
            drop(server);
            let faulty = SyntheticTree {
                lost: vec![("d1/f2", libc::ENOENT), ("d3", libc::ENOENT)],
                unopened: vec![("d4", libc::ELOOP)],
                ..healthy
            };
            let _server = serve_synthetic(faulty, &at);
            let mut changed = fathom(args!["changed", &at, "--since", &catalog, "--json"]);
            let value = run(&mut changed).exits(1).json();
            assert_eq!(value["result"]["removed"], 0, "{value}");
            assert_eq!(warnings(&value, &at).len(), 3, "{value}");
        });
    }
}

/// The paths below `top` that have warnings, with their errors.
fn warnings(value: &Value, top: &Path) -> Vec<(String, String)> {
    let warnings = value["warnings"].as_array().unwrap();
    let named = warnings.iter().map(|warning| {
        let path = path(warning, "path");
        (
            path.strip_prefix(top).unwrap().to_str().unwrap().to_owned(),
            warning["errno"].as_str().unwrap().to_owned(),
        )
    });
    named.collect()
}

#[test]
fn server_that_dies_meanwhile_ends_only_its_part() {
    if require(&FAR) {
        in_namespace(|base| {
            let top = dir(base.join("top"));
            grow(&dir(top.join("before")), 1, 50);
            grow(&dir(top.join("zebra")), 2, 50);
            for engine in ["stat", "threads", "auto"] {
                for dies_after in [3, 40, 400] {
                    let at = top.join("remote");
                    let latency = Duration::from_micros(200);
                    let server = serve_synthetic(
                        SyntheticTree {
                            directories: 20,
                            files: 40,
                            latency,
                            dies_after: Some(dies_after),
                            ..SyntheticTree::default()
                        },
                        &at,
                    );
                    let lines = objects(&walk(&top, engine, &["--format", "ndjson"]).exits(1));
                    let given = below(&census_of(&lines), &top, "remote");
                    let mut expected = census(&top);
                    // If the server of a mount has ended, even the root of the mount cannot be
                    // examined.
                    expected.remove(at.as_os_str().as_bytes());
                    let mut given = given;
                    given.remove(at.as_os_str().as_bytes());
                    for entry in given.values_mut().chain(expected.values_mut()) {
                        entry.atime.clear();
                    }
                    same(
                        &given,
                        &expected,
                        &format!("{engine}, dead after {dies_after}"),
                    );
                    drop(server);
                    unmount(&at);
                }
            }
        });
    }
}

/// The image of a mounted ext4 is truncated: reads of uncached blocks fail, and warnings report
/// that.
#[test]
fn disk_that_disappears_meanwhile() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            let (disk, at) = (base.join("image"), dir(base.join("disk")));
            image(EXT4[0], 64, &disk);
            let mount = |flags| {
                let device = attach(&disk);
                rustix::mount::mount(&device.0, &at, "ext4", flags, None).unwrap();
            };
            mount(rustix::mount::MountFlags::empty());
            for n in 0..200 {
                file(at.join(format!("d{n}/file")), 10);
            }
            unmount_whole(&at);
            mount(rustix::mount::MountFlags::RDONLY);
            std::fs::OpenOptions::new()
                .write(true)
                .open(&disk)
                .unwrap()
                .set_len(1 << 20)
                .unwrap();
            for engine in ["ext4", "stat", "threads"] {
                let ran = run(&mut fathom(args![
                    "walk", &at, "--engine", engine, "--json"
                ]));
                let code = ran.code();
                assert!([1, 2].contains(&code), "{ran}");
                if code == 1 {
                    ran.json();
                } else {
                    ran.refused();
                }
            }
        });
    }
}

#[test]
fn walk_that_waits_for_a_server_names_the_mount() {
    if require(&FAR) {
        in_namespace(|base| {
            let tree = dir(base.join("tree"));
            file(tree.join("a"), 1);
            let hung = tree.join("people");
            // Count the requests of the check that the mount answers: the server answers that many.
            let asked = serve(Held, base.join("asked"));
            asked.release(1000);
            run(&mut fathom(args!["mounts", base.join("asked"), "--check"])).exits(0);
            let requests = usize::try_from(asked.requests()).unwrap();
            let expected = format!("waiting for '{}'; fathom mounts --check", hung.display());
            for engine in ["stat", "threads"] {
                let server = serve(Held, &hung);
                server.release(requests);
                let mut walk = fathom(args!["walk", &tree, "--engine", engine])
                    .stdout(Stdio::null())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap();
                let mut line = String::new();
                let stderr = walk.stderr.take().unwrap();
                BufReader::new(stderr).read_line(&mut line).unwrap();
                walk.kill().unwrap();
                // The server has read the request, and its client could not end otherwise.
                drop(server);
                walk.wait().unwrap();
                assert!(line.starts_with(&expected), "{engine}: {line}");
                unmount(&hung);
            }
            let _server = serve(Hung, &hung);
            let ran = run(&mut fathom(args!["walk", &tree, "--exclude", "people"])).exits(0);
            assert!(!ran.stderr.contains("waiting"), "{ran}");
        });
    }
}

/// The names that a walk of a tree with a hung mount prints, and the warning.
#[test]
fn mount_that_does_not_answer_is_skipped() {
    if require(&FAR) {
        in_namespace(|base| {
            let tree = dir(base.join("tree"));
            file(dir(tree.join("near")).join("file"), 1);
            let _server = serve(Hung, tree.join("far/hung"));
            let expected = ["", "/far", "/near", "/near/file"];
            let expected = expected.map(|name| format!("{}{name}", tree.display()));
            for (options, engine) in [
                ("-x", "threads"),
                ("-x", "stat"),
                ("--deadline=1s", "threads"),
            ] {
                let ran = run(&mut fathom(args![
                    "walk", &tree, "--format", "paths", options, "--engine", engine
                ]))
                .exits(1);
                let mut names: Vec<&str> = ran.lines();
                names.sort_unstable();
                assert_eq!(names, expected, "{options} {engine}");
                let warning = "does not answer within";
                assert!(
                    ran.stderr.contains("far/hung") && ran.stderr.contains(warning),
                    "{ran:?}"
                );
            }
            let compared = args![
                "walk",
                &tree,
                "--compare",
                "--trials",
                "1",
                "--deadline",
                "1s"
            ];
            run(&mut fathom(compared)).exits(1);
            // DIR itself does not answer.
            let hung = tree.join("far/hung");
            let refused = run(&mut fathom(args!["walk", &hung, "--deadline", "1s"])).exits(2);
            assert!(
                refused.stderr.contains("does not answer within 1.00 s"),
                "{refused:?}"
            );
            // The mount is not recorded as removed.
            let (catalog, archive) = (base.join("c.parquet"), base.join("a.tar"));
            let dump = |more: &[&str]| {
                let mut command = fathom(args!["dump", &tree, "--deadline", "1s", "-o", &archive]);
                run(command.args(more).arg("--catalog").arg(&catalog)).exits(1)
            };
            let dumped = dump(&[]);
            assert!(
                dumped.stderr.contains("does not answer within"),
                "{dumped:?}"
            );
            // Entries that were known before the server stopped.
            let known = base.join("known.parquet");
            let second = tree.join("far/second");
            file(dir(&second).join("file"), 1);
            let words = args!["walk", &tree, "--exclude", "hung", "--catalog", &known];
            run(&mut fathom(words)).exits(0);
            let _second = serve(Hung, &second);
            let words = args!["changed", &tree, "--since", &known, "--deadline", "1s"];
            let changed = run(&mut fathom(words)).exits(1);
            assert!(!changed.stdout.contains(&b'-'), "{changed:?}");
            assert!(changed.stderr.contains("far/second"), "{changed:?}");
            assert!(!changed.stderr.contains("far/hung"), "{changed:?}");
        });
    }
}
