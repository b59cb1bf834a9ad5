//! Tests of invalid input and exit statuses: one clear line each, and no partial output files.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use super::engines::still;
use super::right::walk;
use crate::support::build::{bush, chmod, dir, file};
use crate::support::disks::{BTRFS, EXT4, XFS, mounted};
use crate::support::restrict::fathom_as_nobody;
use crate::support::run::args;
use crate::support::synthetic::{SyntheticTree, serve_synthetic};
use crate::support::{Need, fathom, in_namespace, require, run};

/// With predicates, the selected entries are only a part of those that were walked.
#[test]
fn rate_is_that_of_all_entries() {
    in_namespace(|base| {
        let top = dir(base.join("top"));
        file(top.join("a"), 1);
        let note = |more: &[&str]| {
            let mut command = fathom([&["walk", top.to_str().unwrap()][..], more].concat());
            run(&mut command).exits(0).stderr
        };
        assert!(note(&[]).contains("2 entries with ") && note(&[]).contains(" entries/s)"));
        let selected = note(&["--type", "f"]);
        assert!(selected.contains("1 entry with "), "{selected}");
        assert!(!selected.contains("entries/s"), "{selected}");
    });
}

#[test]
fn directory_without_read_permission() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let closed = dir(base.join("closed"));
            chmod(&closed, 0o700);
            for engine in ["auto", "stat", "threads"] {
                let mut command =
                    fathom_as_nobody(base, args!["walk", &closed, "--engine", engine]);
                let ran = run(&mut command).refused();
                assert!(
                    ran.stderr.contains("Permission denied (os error 13)"),
                    "{ran}"
                );
            }
        });
    }
}

/// The names in the directory can be read, but not examined.
#[test]
fn directory_without_search_permission() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let top = dir(base.join("top"));
            for name in ["a", "b", "c"] {
                file(top.join(name), 1);
            }
            chmod(&top, 0o444);
            for engine in ["auto", "stat", "threads"] {
                let line = args!["walk", &top, "--engine", engine, "--json"];
                let mut command = fathom_as_nobody(base, line);
                let value = run(&mut command).exits(1).json();
                let warnings = value["warnings"].as_array().unwrap();
                let paths = warnings.iter().map(|it| it["path"].as_str().unwrap());
                let names: BTreeSet<&str> = paths.filter_map(|it| it.rsplit('/').next()).collect();
                assert_eq!(names, BTreeSet::from(["a", "b", "c"]), "{engine}: {value}");
                assert_eq!(value["result"]["entries"], 1, "{engine}: {value}");
            }
        });
    }
}

#[test]
fn every_output_of_an_incomplete_walk_exits_with_1() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let top = dir(base.join("top"));
            file(top.join("open/f"), 10);
            let closed = dir(top.join("closed"));
            let mode = |at: &Path, mode| chmod(at, mode);
            mode(&closed, 0o700);
            let out = dir(base.join("out"));
            mode(&out, 0o777);
            let catalog = out.join("catalog");
            let mut outputs: Vec<Vec<&str>> =
                ["summary", "du", "paths", "paths0", "ndjson", "csv", "ncdu"]
                    .map(|format| vec!["--format", format])
                    .to_vec();
            outputs.extend([
                vec!["--json"],
                vec!["--group-by", "type"],
                vec!["--top", "2"],
                vec!["--format", "du", "--top", "2", "--json"],
                vec!["--name", "f"],
                vec!["--compare"],
                vec!["--catalog", catalog.to_str().unwrap()],
            ]);
            for output in outputs {
                let mut command = fathom_as_nobody(base, args!["walk", &top]);
                command.args(&output);
                let ran = run(&mut command);
                let said = match output[0] {
                    "--compare" => "skipped entries",
                    _ => closed.to_str().unwrap(),
                };
                assert!(
                    ran.code() == 1 && ran.stderr.contains(said),
                    "{output:?}: {ran}"
                );
            }
        });
    }
}

#[test]
fn engine_that_cannot_work_is_refused() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            let (ext4, xfs, btrfs) = (base.join("ext4"), base.join("xfs"), base.join("btrfs"));
            assert!(mounted(EXT4[0], &ext4) && mounted(XFS[0], &xfs) && mounted(BTRFS[0], &btrfs));
            let tmpfs = still(&base.join("tmpfs")).to_owned();
            for (at, kind, wrong) in [
                (&ext4, "ext4", ["bulkstat", "btrfs"]),
                (&xfs, "xfs", ["ext4", "btrfs"]),
                (&btrfs, "btrfs", ["ext4", "bulkstat"]),
                (&tmpfs, "tmpfs", ["ext4", "bulkstat"]),
            ] {
                for engine in wrong {
                    let ran = walk(at, engine, &[]).refused();
                    assert!(
                        ran.stderr.contains(engine) && ran.stderr.len() > 100,
                        "{kind}, why: {ran}"
                    );
                    assert!(ran.stderr.contains("--explain"), "what would: {ran}");
                }
            }
        });
    }
}

/// Creates a tree whose output exceeds the buffer of a pipe many times.
fn much(base: &Path) -> PathBuf {
    let top = still(&base.join("much")).to_owned();
    bush(&top, 50, 200);
    top
}

#[test]
fn closed_pipe_ends_it_by_sigpipe() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let top = much(base);
            for format in ["paths", "paths0", "ndjson", "csv", "du"] {
                for engine in ["stat", "threads"] {
                    let (reader, writer) = std::io::pipe().unwrap();
                    // The output of du fits into the pipe.
                    let mut reader = Some(reader).filter(|_| format != "du");
                    let arguments = args!["walk", &top, "--format", format, "--engine", engine];
                    let mut child = fathom(arguments)
                        .stdout(writer)
                        .stderr(Stdio::piped())
                        .spawn()
                        .unwrap();
                    if let Some(reader) = &mut reader {
                        reader.read_exact(&mut [0; 100]).unwrap();
                    }
                    drop(reader);
                    let status = child.wait().unwrap();
                    assert_eq!(
                        status.signal(),
                        Some(libc::SIGPIPE),
                        "{format} by {engine}: {status}"
                    );
                    let said = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
                    assert!(said.is_empty(), "{format}: {said}");
                }
            }
        });
    }
}

#[test]
fn closed_or_full_stdout_is_an_error() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let top = much(base);
            for more in [
                "--format=paths",
                "--format=paths0",
                "--format=ndjson",
                "--format=csv",
                "--format=du",
                "--json",
            ] {
                let full = fs::OpenOptions::new()
                    .write(true)
                    .open("/dev/full")
                    .unwrap();
                let child = fathom(args!["walk", &top, more])
                    .stdout(full)
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap();
                let out = child.wait_with_output().unwrap();
                let said = String::from_utf8_lossy(&out.stderr);
                assert_eq!(out.status.code(), Some(2), "{more}: {said}");
                assert!(
                    said.contains("No space left on device")
                        && said.trim_end().lines().count() == 2,
                    "{more}: {said}"
                );
            }
        });
    }
}

/// The names in a directory.
fn within(at: &Path) -> Vec<Vec<u8>> {
    let mut names: Vec<_> = fs::read_dir(at)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().as_bytes().to_vec())
        .collect();
    names.sort();
    names
}

#[test]
fn failed_catalog_leaves_the_old_one() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let top = much(base);
            let small = dir(base.join("small"));
            rustix::mount::mount(
                "small",
                &small,
                "tmpfs",
                rustix::mount::MountFlags::empty(),
                c"size=64k",
            )
            .unwrap();
            let catalog = file(small.join("catalog"), 1000);
            assert!(fs::write(small.join("filler"), [0; 1 << 17]).is_err());
            let old = fs::read(&catalog).unwrap();
            for engine in ["stat", "threads"] {
                let ran = walk(&top, engine, &["--catalog", catalog.to_str().unwrap()]).refused();
                assert!(
                    ran.stderr.contains("No space left on device (os error 28)"),
                    "{ran}"
                );
                assert!(ran.stderr.contains("catalog'"), "{ran}");
                assert_eq!(within(&small), [&b"catalog"[..], b"filler"]);
                assert_eq!(fs::read(&catalog).unwrap(), old);
            }
            for nowhere in ["missing/catalog", "small", "much/d0/f0/catalog"] {
                let ran = walk(
                    &top,
                    "auto",
                    &["--catalog", base.join(nowhere).to_str().unwrap()],
                )
                .refused();
                assert!(ran.stderr.contains(nowhere), "{ran}");
            }
        });
    }
}

#[test]
fn interrupt_leaves_no_temporary_files() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|base| {
            let at = base.join("remote");
            let latency = Duration::from_millis(20);
            let server = serve_synthetic(
                SyntheticTree {
                    directories: 100,
                    files: 100,
                    latency,
                    ..SyntheticTree::default()
                },
                &at,
            );
            let out = dir(base.join("out"));
            file(out.join("catalog"), 10);
            for signal in [libc::SIGINT, libc::SIGTERM] {
                let before = server
                    .load
                    .requests
                    .load(std::sync::atomic::Ordering::Relaxed);
                let arguments = args![
                    "walk",
                    &at,
                    "--catalog",
                    out.join("catalog"),
                    "--engine",
                    "threads"
                ];
                let mut child = fathom(arguments)
                    .stdout(Stdio::null())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap();
                while server
                    .load
                    .requests
                    .load(std::sync::atomic::Ordering::Relaxed)
                    < before + 200
                {
                    assert_eq!(child.try_wait().unwrap(), None, "it has ended by itself");
                    std::thread::sleep(Duration::from_millis(1));
                }
                // SAFETY: the child has not been waited for.
                unsafe { libc::kill(child.id().cast_signed(), signal) };
                let status = child.wait().unwrap();
                assert!(
                    status.signal() == Some(signal) || status.code() == Some(128 + signal),
                    "{status}"
                );
                assert_eq!(within(&out), [b"catalog"]);
                assert_eq!(fs::metadata(out.join("catalog")).unwrap().len(), 10);
            }
        });
    }
}

#[test]
fn help_is_short_and_long() {
    let short = run(&mut fathom(["walk", "-h"])).exits(0);
    let long = run(&mut fathom(["walk", "--help"])).exits(0);
    assert!(long.stdout.len() > short.stdout.len());
    let text = String::from_utf8(long.stdout).unwrap();
    let words = [
        "Examples",
        "Exit status",
        "--engine",
        "--jobs",
        "--one-file-system",
        "--max-depth",
        "--exclude",
        "--format",
        "--top",
        "--catalog",
        "--explain",
        "--compare",
        "threads",
        "bulkstat",
        "btrfs",
        "ext4",
        "stat",
        "ndjson",
        "paths0",
        "csv",
        "du",
    ];
    for word in words {
        assert!(text.contains(word), "no {word} in --help");
    }
}
