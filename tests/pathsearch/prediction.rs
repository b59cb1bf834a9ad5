//! Tests of predictions, compared with a file system that counts its requests: the tree of this
//! machine, served by FUSE.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::mount::{UnmountFlags, mount_bind_recursive, unmount};
use serde_json::Value;

use super::{searched, searched_with, sh};
use crate::support::build::chmod;
use crate::support::restrict::fail_calls;
use crate::support::run::args;
use crate::support::slow_mirror::{Mirror, Slowness, serve_mirror};
use crate::support::{Need, in_namespace, require, run};

const PATH: &str = "/nowhere/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The predicted requests of a start: `cold` or `warm`.
fn predicted(value: &Value, when: &str) -> BTreeMap<String, u64> {
    let rows = value["result"]["predicted"]["requests"].as_array().unwrap();
    let all = rows.iter().map(|row| {
        (
            row["request"].as_str().unwrap().to_owned(),
            row[when].as_u64().unwrap(),
        )
    });
    all.filter(|(_, n)| *n > 0).collect()
}

/// Runs a command in the served tree at `root`, and returns the requests it made.
fn count(root: &Path, mirror: &Mirror, command: &[OsString]) -> BTreeMap<String, u64> {
    mirror.counts();
    let mut program = Command::new("chroot");
    program
        .env_remove("LD_LIBRARY_PATH")
        .arg(root)
        .arg("/usr/bin/env")
        .arg("-i")
        .arg(format!("PATH={PATH}"))
        .args(["LC_ALL=C.UTF-8"])
        .args(command);
    run(&mut program).exits(0);
    mirror
        .counts()
        .into_iter()
        .map(|(name, n)| (name.to_owned(), n))
        .collect()
}

/// Checks that the total of the requests that are waited for is predicted within 20 %.
fn compare(what: &str, predicted: &BTreeMap<String, u64>, counted: &BTreeMap<String, u64>) {
    let waited = |counts: &BTreeMap<String, u64>| -> u64 {
        counts
            .iter()
            .filter(|(name, _)| !["RELEASE", "IOCTL"].contains(&name.as_str()))
            .map(|(_, n)| n)
            .sum()
    };
    let (expected, found) = (waited(predicted), waited(counted));
    println!("{what}: predicted {expected} {predicted:?}\n{what}: counted   {found} {counted:?}");
    let ratio = expected as f64 / found as f64;
    assert!(
        (0.8..=1.2).contains(&ratio),
        "{what}: {ratio:.2}\npredicted {predicted:?}\ncounted   {counted:?}"
    );
}

/// Serves the tree of this machine at `root` with empty caches; /proc, /dev and /tmp are
/// bind-mounted. The latency of a request distinguishes it from calls without a request, even on a
/// loaded machine.
fn with_mirror<T>(root: &Path, work: impl FnOnce(&Mirror) -> T) -> T {
    let how = Slowness {
        latency: Duration::from_millis(1),
        ..Slowness::default()
    };
    let mirror = serve_mirror(Path::new("/"), root, how);
    for dir in ["proc", "dev", "tmp"] {
        mount_bind_recursive(Path::new("/").join(dir), root.join(dir)).unwrap();
    }
    let done = work(&mirror);
    for dir in ["proc", "dev", "tmp"] {
        let _ = unmount(root.join(dir), UnmountFlags::DETACH);
    }
    let _ = unmount(root, UnmountFlags::DETACH);
    done
}

/// Predicts the requests of a command on the served tree; fathom measures the client's caching
/// there.
fn cold_and_warm(what: &str, command: &[OsString]) {
    in_namespace(|scratch| {
        let place = tempfile::tempdir_in("/tmp").unwrap();
        let command_line: Vec<OsString> = args![
            "/usr/bin/env",
            "-i",
            format!("PATH={PATH}"),
            "LC_ALL=C.UTF-8"
        ]
        .into_iter()
        .chain(command.iter().cloned())
        .collect();
        let root = scratch.join("root");
        let value = with_mirror(&root, |_| {
            let (value, _) = searched(place.path(), &command_line, |command| {
                let root = root.clone();
                command.env("PATH", PATH).current_dir("/");
                // SAFETY: chroot(2) and chdir(2) may be called between fork and exec.
                unsafe {
                    command.pre_exec(move || {
                        rustix::process::chroot(&root)?;
                        Ok(rustix::process::chdir("/")?)
                    });
                }
            });
            value
        });
        assert_eq!(value["result"]["predicted"]["about"], "network");
        with_mirror(&root, |mirror| {
            let cold = count(&root, mirror, command);
            compare(&format!("{what}, cold"), &predicted(&value, "cold"), &cold);
            let warm = count(&root, mirror, command);
            compare(&format!("{what}, warm"), &predicted(&value, "warm"), &warm);
        });
    });
}

/// A script with twenty commands.
fn script() -> Vec<OsString> {
    let commands = [
        "ls",
        "cat /dev/null",
        "id -u",
        "uname",
        "date",
        "true",
        "head -c0 /dev/null",
        "tail -c0 /dev/null",
        "wc -c /dev/null",
        "sort /dev/null",
        "cut -c1 /dev/null",
        "tr a b </dev/null",
        "uniq /dev/null",
        "basename x",
        "dirname x",
        "env",
        "expr 1 + 1",
        "seq 1",
        "nproc",
        "tty",
    ];
    sh(
        "sh",
        &(commands
            .map(|command| format!("{command} >/dev/null; "))
            .concat()
            + "exit 0"),
    )
}

#[test]
fn the_requests_of_python_are_predicted() {
    if require(&[Need::Root, Need::Fuse, Need::File("/usr/bin/python3")]) {
        cold_and_warm(
            "python3",
            &args!["/usr/bin/python3", "-c", "import json, decimal"],
        );
    }
}

#[test]
fn the_requests_of_a_shell_script_are_predicted() {
    if require(&[Need::Root, Need::Fuse]) {
        cold_and_warm("script", &script());
    }
}

#[test]
fn on_a_network_file_system_the_round_trip_is_measured_and_only_its_lookups_are_predicted() {
    if require(&[Need::Root, Need::Fuse, Need::Program("dash")]) {
        in_namespace(|scratch| {
            let tree = scratch.join("tree");
            for dir in 0..6 {
                std::fs::create_dir_all(tree.join(format!("bin{dir}"))).unwrap();
            }
            for tool in 0..20 {
                let file = tree.join(format!("bin5/tool{tool}"));
                std::fs::write(&file, "#!/bin/sh\nexit 0\n").unwrap();
                chmod(&file, 0o755);
            }
            let root = scratch.join("far");
            let latency = Duration::from_millis(5);
            let dirs: Vec<String> = (0..6)
                .map(|n| format!("{}/bin{n}", root.display()))
                .collect();
            let path = format!("{}:/usr/bin:/bin", dirs.join(":"));
            let script = (0..20).map(|n| format!("tool{n};")).collect::<String>();
            for (forgets_misses, forgets_pages, quick_others) in [
                (false, false, false),
                (true, true, false),
                (false, true, true),
            ] {
                let how = Slowness {
                    latency,
                    forgets_misses,
                    forgets_pages,
                    quick_others,
                };
                let mirror = serve_mirror(&tree, &root, how);
                let place = tempfile::tempdir().unwrap();
                mirror.counts();
                let (value, ran) = searched_with(
                    place.path(),
                    &["--rtt", "auto"],
                    &sh("dash", &script),
                    |command| {
                        command.env("PATH", &path);
                    },
                );
                mirror.counts();
                let predicted_ = &value["result"]["predicted"];
                assert_eq!(
                    (&predicted_["about"], &predicted_["rtt_source"]),
                    (&"network".into(), &"measured".into())
                );
                let rtt = predicted_["rtt"].as_f64().unwrap();
                // The RTT is the median of 15 lookups, so at least 8 of them take as long.
                let seconds = ran.elapsed.as_secs_f64();
                assert!(
                    latency.as_secs_f64() <= rtt && 8.0 * rtt <= seconds,
                    "{rtt}"
                );
                // Each kind of request is measured: without a measurement it costs a round trip.
                let each = |request: &str| {
                    let rows = predicted_["requests"].as_array().unwrap();
                    let row = rows.iter().find(|row| row["request"] == request).unwrap();
                    row["seconds"].as_f64().unwrap() / row["cold"].as_f64().unwrap()
                };
                assert!((each("LOOKUP") / rtt - 1.0).abs() < 1e-9, "{predicted_}");
                for request in ["OPEN", "READ"] {
                    let differs = (each(request) / rtt - 1.0).abs() > 1e-9;
                    assert!(differs, "{request}: {predicted_}");
                }
                let least = if quick_others { latency / 10 } else { latency };
                assert!(each("OPEN") >= least.as_secs_f64(), "{predicted_}");
                unmount(&root, UnmountFlags::DETACH).unwrap();
                drop(mirror);

                let mirror = serve_mirror(&tree, &root, how);
                run(Command::new("dash")
                    .arg("-c")
                    .arg(&script)
                    .env("PATH", &path))
                .exits(0);
                let counts: BTreeMap<String, u64> = mirror
                    .counts()
                    .into_iter()
                    .map(|(name, n)| (name.to_owned(), n))
                    .collect();
                let manner = [
                    "keeps_names",
                    "keeps_misses",
                    "keeps_pages",
                    "opens",
                    "reads",
                    "flushes",
                ]
                .map(|name| predicted_["manner"][name].as_bool().unwrap());
                assert_eq!(
                    manner,
                    [true, !forgets_misses, !forgets_pages, true, true, false],
                    "{predicted_}"
                );
                compare("on the mount", &predicted(&value, "cold"), &counts);
                for dir in 0..5 {
                    let name = format!("{}/bin{dir}", root.display());
                    let row = value["result"]["directories"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .find(|row| row["dir"] == name);
                    let row = row.unwrap_or_else(|| panic!("no {name}"));
                    assert_eq!(
                        (&row["misses"], &row["network"], &row["fstype"]),
                        (&20.into(), &true.into(), &"fuse.far".into())
                    );
                    // Each of the 20 failed lookups waits for the server.
                    assert!(row["seconds"].as_f64().unwrap() > 0.075, "{row}");
                }
                unmount(&root, UnmountFlags::DETACH).unwrap();
            }
        });
    }
}

#[test]
fn pages_that_stay_cached_do_not_mean_that_reads_need_no_requests() {
    const CACHESTAT: u32 = 451;
    if require(&[Need::Root, Need::Fuse, Need::Program("dash")]) {
        in_namespace(|scratch| {
            let (tree, root) = (scratch.join("tree"), scratch.join("far"));
            std::fs::create_dir(&tree).unwrap();
            std::fs::write(tree.join("mapped"), vec![1; 100_000]).unwrap();
            std::fs::write(tree.join("small"), "text").unwrap();
            let how = Slowness {
                latency: Duration::from_millis(5),
                ..Slowness::default()
            };
            let _mirror = serve_mirror(&tree, &root, how);
            // posix_fadvise(2) does not drop the pages of the largest file.
            let mapped = std::fs::File::open(root.join("mapped")).unwrap();
            // SAFETY: a new mapping, which is not used.
            let pages = unsafe {
                let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
                let fd = mapped.as_raw_fd();
                libc::mmap(std::ptr::null_mut(), 100_000, libc::PROT_READ, flags, fd, 0)
            };
            assert_ne!(pages, libc::MAP_FAILED);
            let script = format!("cd {}; cat mapped small >/dev/null", root.display());
            for fails in [&[][..], &[CACHESTAT]] {
                let place = tempfile::tempdir().unwrap();
                let flags = ["--rtt", "auto"];
                let (value, _) =
                    searched_with(place.path(), &flags, &sh("dash", &script), |command| {
                        fail_calls(command, fails, libc::ENOSYS);
                    });
                assert_eq!(value["result"]["predicted"]["rtt_source"], "measured");
                assert!(
                    predicted(&value, "cold").contains_key("READ"),
                    "{fails:?}: {value}"
                );
            }
            unmount(&root, UnmountFlags::DETACH).unwrap();
        });
    }
}
