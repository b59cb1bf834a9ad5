//! Catalogs: foreign ones, broken ones, full disks, sudden ends; and what others read in them.

use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::mount::{MountFlags, mount};

use super::since::{catalog, changed};
use crate::support::build::{bush, dir, file, tmpfs, tool};
use crate::support::reference::{Census, census};
use crate::support::run::args;
use crate::support::synthetic::{SyntheticTree, serve_synthetic};
use crate::support::trees::{Dice, grow};
use crate::support::{Need, fathom, in_namespace, require, run};

fn within(at: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(at)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn file_that_is_not_a_catalog_is_refused() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let (top, out) = (tmpfs(ground.join("top")), dir(ground.join("out")));
            grow(&top, 1, 100);
            let whole = fs::read(catalog(&top, &out.join("whole"))).unwrap();
            let bad = out.join("bad");
            let mut tries: Vec<(String, Vec<u8>)> = vec![
                ("nothing".to_owned(), Vec::new()),
                ("text".to_owned(), b"not a catalog\n".repeat(100)),
                ("the magic alone".to_owned(), b"PAR1PAR1".to_vec()),
                (
                    "a footer of great length".to_owned(),
                    b"PAR1\xff\xff\xff\x7fPAR1".to_vec(),
                ),
                (
                    "no magic at the end".to_owned(),
                    [&whole[..whole.len() - 4], b"PARX"].concat(),
                ),
            ];
            for part in 1..8 {
                tries.push((
                    format!("{part} eighths of it"),
                    whole[..whole.len() * part / 8].to_vec(),
                ));
            }
            for (what, bytes) in &tries {
                fs::write(&bad, bytes).unwrap();
                for more in [&["--json"][..], &["--update"]] {
                    let ran = changed(&top, &bad, more).refused();
                    assert!(ran.stderr.contains("/bad'"), "{what}: {ran}");
                    assert_eq!(&fs::read(&bad).unwrap(), bytes, "{what}");
                }
            }
            for missing in ["missing", "whole/below"] {
                changed(&top, &out.join(missing), &[]).refused();
            }
            changed(&top, &out, &[]).refused();
            assert_eq!(within(&out), ["bad", "whole"]);
        });
    }
}

/// Bytes that somebody has changed: refused, or read as whatever they now say; never a panic, and
/// never gigabytes.
#[test]
fn random_bytes_in_a_catalog_do_not_panic() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let (top, bad) = (tmpfs(ground.join("top")), ground.join("bad"));
            grow(&top, 1, 100);
            let whole = fs::read(catalog(&top, &ground.join("whole"))).unwrap();
            let mut dice = Dice::new(3);
            for round in 0..60 {
                let mut bytes = whole.clone();
                for _ in 0..=dice.below(20) {
                    // Half of them in the footer, which says where everything is.
                    let from = if round % 2 == 0 {
                        bytes.len() - bytes.len().min(4000)
                    } else {
                        0
                    };
                    let at = from + dice.below(bytes.len() - from);
                    bytes[at] = dice.roll().to_le_bytes()[0];
                }
                fs::write(&bad, &bytes).unwrap();
                let mut command = fathom(args!["changed", &top, "--since", &bad, "--json"]);
                crate::support::restrict::limit_memory(&mut command, 512);
                let ran = run(&mut command);
                if ran.code() == 2 {
                    ran.refused();
                } else {
                    ran.json();
                }
            }
        });
    }
}

#[test]
fn catalog_of_another_tree_is_refused() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let (one, other, to) = (
                tmpfs(ground.join("one")),
                tmpfs(ground.join("other")),
                ground.join("catalog"),
            );
            grow(&one, 1, 20);
            grow(&other, 2, 20);
            let old = fs::read(catalog(&one, &to)).unwrap();
            for more in [&["--json"][..], &["--update"]] {
                let ran = changed(&other, &to, more).refused();
                assert!(ran.stderr.contains("catalog"), "{ran}");
            }
            changed(&one.join("missing"), &to, &[]).refused();
            assert_eq!(fs::read(&to).unwrap(), old);
        });
    }
}

#[test]
fn full_disk_leaves_the_old_catalog() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let (top, small) = (tmpfs(ground.join("top")), dir(ground.join("small")));
            bush(&top, 1, 3);
            mount("small", &small, "tmpfs", MountFlags::empty(), c"size=128k").unwrap();
            let to = catalog(&top, &small.join("catalog"));
            let old = fs::read(&to).unwrap();
            for n in 0..30 {
                bush(&top.join(format!("more {n}")), 10, 50);
            }
            assert!(fs::write(small.join("filler"), vec![0; 1 << 20]).is_err());
            let ran = changed(&top, &to, &["--update"]).refused();
            assert!(
                ran.stderr.contains("No space left on device (os error 28)"),
                "{ran}"
            );
            assert_eq!(fs::read(&to).unwrap(), old);
            assert_eq!(within(&small), ["catalog", "filler"]);
        });
    }
}

#[test]
fn killed_process_leaves_the_old_catalog() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            let (at, out) = (ground.join("far"), dir(ground.join("out")));
            let far = SyntheticTree {
                directories: 300,
                files: 50,
                latency: Duration::from_millis(1),
                ..SyntheticTree::default()
            };
            let server = serve_synthetic(far, &at);
            let to = catalog(&at, &out.join("catalog"));
            let old = fs::read(&to).unwrap();
            for (n, signal) in [libc::SIGKILL, libc::SIGINT, libc::SIGTERM, libc::SIGKILL]
                .into_iter()
                .enumerate()
            {
                let before = server.load.requests.load(Ordering::Relaxed);
                let arguments = args![
                    "changed", &at, "--since", &to, "--update", "--engine", "stat"
                ];
                let mut child = fathom(arguments)
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap();
                let enough = before + 20 + 10 * n as u64;
                while server.load.requests.load(Ordering::Relaxed) < enough
                    && child.try_wait().unwrap().is_none()
                {
                    std::thread::sleep(Duration::from_micros(100));
                }
                // SAFETY: the child has not been waited for, unless it has ended: then nobody gets
                // the signal.
                unsafe { libc::kill(child.id().cast_signed(), signal) };
                let status = child.wait().unwrap();
                assert!(
                    status.signal() == Some(signal) || status.code() == Some(128 + signal),
                    "{status}"
                );
                assert_eq!(fs::read(&to).unwrap(), old);
                assert_eq!(within(&out), ["catalog"]);
            }
        });
    }
}

#[test]
fn closed_pipe_ends_it_by_sigpipe() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let (top, to) = (tmpfs(ground.join("top")), ground.join("catalog"));
            catalog(&top, &to);
            bush(&top, 20, 300);
            for format in ["paths", "paths0", "ndjson", "tar"] {
                let (reader, writer) = std::io::pipe().unwrap();
                drop(reader);
                let arguments = args!["changed", &top, "--since", &to, "--format", format];
                let mut child = fathom(arguments)
                    .stdout(writer)
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap();
                let status = child.wait().unwrap();
                assert_eq!(status.signal(), Some(libc::SIGPIPE), "{format}: {status}");
                assert_eq!(
                    std::io::read_to_string(child.stderr.take().unwrap()).unwrap(),
                    ""
                );
            }
        });
    }
}

/// A stream that breaks after the answer was found must not have moved the catalog on: the change
/// would be lost.
#[test]
fn failed_output_leaves_the_old_catalog() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let (top, to) = (tmpfs(ground.join("top")), ground.join("catalog"));
            let old = fs::read(catalog(&top, &to)).unwrap();
            bush(&top, 20, 300);
            let full = fs::OpenOptions::new()
                .write(true)
                .open("/dev/full")
                .unwrap();
            let arguments = args![
                "changed", &top, "--since", &to, "--format", "paths", "--update"
            ];
            let out = fathom(arguments)
                .stdout(full)
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
                .wait_with_output()
                .unwrap();
            assert_eq!(out.status.code(), Some(2), "{out:?}");
            assert!(fs::read(&to).unwrap() == old, "the catalog has moved on");
        });
    }
}

#[test]
fn invalid_combinations_of_options_are_refused() {
    let place = tempfile::tempdir().unwrap();
    file(place.path().join("catalog"), 0);
    for line in [
        "changed",
        "changed .",
        "changed . --since",
        "changed --since x",
        "changed . . --since x",
        "changed . --since x --format nonsense",
    ] {
        let ran = run(&mut fathom(line.split(' '))).refused();
        assert!(ran.stderr.len() > "fathom: ".len() + 5, "{ran}");
    }
}

/// The Python of the virtual environment that tools/setup makes beside what is built, if it has
/// some modules.
pub(crate) fn python(modules: &str) -> Option<std::path::PathBuf> {
    let built = Path::new(env!("CARGO_BIN_EXE_fathom")).parent()?.parent()?;
    let python = built.join("venv/bin/python");
    let mut import = Command::new(&python);
    import
        .args(["-c", &format!("import {modules}")])
        .stderr(Stdio::null());
    if python.is_file() && import.status().is_ok_and(|status| status.success()) {
        return Some(python);
    }
    let wanted = format!("{modules} ({}, from tools/setup test)", python.display());
    assert!(
        std::env::var_os("CI").is_none_or(|ci| ci != "true"),
        "a test needs {wanted}"
    );
    let _ = writeln!(
        std::io::stderr(),
        "\n*** SKIPPED a test of catalogs: it needs {wanted}"
    );
    None
}

const QUESTION: &str = r#"
import duckdb, sys
rows = duckdb.sql("SELECT dir, name, ino, mode, nlink, uid, gid, size, blocks, mtime, mtime_ns, ctime, ctime_ns FROM '%s'" % sys.argv[1])
for row in rows.fetchall():
    print(row[0].hex(), row[1].hex(), *row[2:])
"#;

#[test]
fn duckdb_reads_the_metadata_of_every_entry() {
    let Some(python) = python("duckdb") else {
        return;
    };
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let (top, to) = (tmpfs(ground.join("top")), ground.join("catalog.parquet"));
            grow(&top, 1, 300);
            let expected: Census = census(&top);
            catalog(&top, &to);
            let printed = tool(Command::new(python).args(["-c", QUESTION]).arg(&to));
            let mut found: Vec<String> = String::from_utf8(printed)
                .unwrap()
                .lines()
                .map(str::to_owned)
                .collect();
            let hex = |bytes: &[u8]| {
                bytes
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect::<String>()
            };
            let root = top.as_os_str().as_bytes();
            let mut lines: Vec<String> = expected
                .iter()
                .map(|(path, e)| {
                    // Names are below DIR: what DIR is called is no part of them.
                    let below = path[root.len()..].strip_prefix(b"/").unwrap_or_default();
                    let (dir, name) = match below.iter().rposition(|&b| b == b'/') {
                        Some(slash) => (&below[..slash], &below[slash + 1..]),
                        None => (&b""[..], below),
                    };
                    let mode = u32::from_str_radix(&e.mode, 8).unwrap() | kind(&e.kind);
                    let time = |time: &str| {
                        let (seconds, nanos) = time.split_once('.').unwrap();
                        format!("{seconds} {}", nanos.parse::<u32>().unwrap())
                    };
                    let (dir, name) = (hex(dir), hex(name));
                    let (mtime, ctime) = (time(&e.mtime), time(&e.ctime));
                    format!(
                        "{dir} {name} {} {mode} {} {} {} {} {} {mtime} {ctime}",
                        e.ino, e.nlink, e.uid, e.gid, e.size, e.blocks
                    )
                })
                .collect();
            found.sort();
            lines.sort();
            assert_eq!(found.len(), lines.len());
            for (found, expected) in found.iter().zip(&lines) {
                assert_eq!(found, expected);
            }
        });
    }
}

fn kind(kind: &str) -> u32 {
    match kind {
        "file" => libc::S_IFREG,
        "directory" => libc::S_IFDIR,
        "symlink" => libc::S_IFLNK,
        "fifo" => libc::S_IFIFO,
        "socket" => libc::S_IFSOCK,
        "block" => libc::S_IFBLK,
        _ => libc::S_IFCHR,
    }
}

/// The examples of docs/catalog.md, in one of its languages.
fn examples(language: &str) -> Vec<&'static str> {
    let text = include_str!("../../docs/catalog.md");
    let begin = format!("```{language}\n");
    let blocks = text
        .split(&begin[..])
        .skip(1)
        .filter_map(|rest| Some(rest.split_once("```")?.0));
    blocks
        .filter(|block| !block.contains("spark.read"))
        .collect()
}

#[test]
fn duckdb_examples_of_the_docs_work() {
    let Some(python) = python("duckdb, pandas, pyarrow") else {
        return;
    };
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let top = dir(tmpfs(ground.join("top")).join("directory"));
            bush(&top, 3, 20);
            file(top.join("the largest.txt"), 123_456);
            catalog(&top, &ground.join("c.parquet"));
            let ran = |script: &str| {
                let printed = tool(
                    Command::new(&python)
                        .args(["-c", script])
                        .current_dir(ground),
                );
                String::from_utf8(printed).unwrap()
            };
            for example in examples("sql") {
                for query in example.split(';').filter(|query| !query.trim().is_empty()) {
                    let printed = ran(&format!(
                        "import duckdb\nprint(duckdb.sql(\"\"\"{query}\"\"\"))"
                    ));
                    assert!(
                        !query.contains("size DESC") || printed.contains("the largest.txt"),
                        "{query}\n{printed}"
                    );
                    assert!(!printed.trim().is_empty(), "{query}");
                }
            }
            let [pandas] = examples("python")[..] else {
                panic!("one example for pandas")
            };
            let printed = ran(pandas);
            assert!(
                printed.contains("the largest.txt") && printed.contains("123456"),
                "{printed}"
            );
        });
    }
}

const CHECK: &str = r#"
import pyarrow.parquet, sys
print(pyarrow.parquet.read_table(sys.argv[1], page_checksum_verification=True).num_rows)
"#;

/// Each page has a checksum that others know, too.
#[test]
fn pyarrow_detects_a_damaged_page() {
    let Some(python) = python("pyarrow") else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let (top, to) = (
        dir(place.path().join("top")),
        place.path().join("catalog.parquet"),
    );
    for n in 1..=500u64 {
        file(
            top.join(format!("{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
            0,
        );
    }
    catalog(&top, &to);
    let check = || {
        Command::new(&python)
            .args(["-c", CHECK])
            .arg(&to)
            .output()
            .unwrap()
    };
    let sound = check();
    assert_eq!(
        String::from_utf8_lossy(&sound.stdout).trim(),
        "501",
        "{sound:?}"
    );
    // Among the names, which nothing makes much smaller.
    let mut bytes = fs::read(&to).unwrap();
    bytes[3000] ^= 1;
    fs::write(&to, bytes).unwrap();
    let damaged = check();
    assert!(
        !damaged.status.success() && String::from_utf8_lossy(&damaged.stderr).contains("CRC"),
        "{damaged:?}"
    );
}
