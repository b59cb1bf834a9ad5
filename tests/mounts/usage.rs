//! Tests of invalid input, help, and exit statuses: one clear line each.

use std::fs;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::METHODS;
use crate::support::build::{bind, chmod, dir, file, tmpfs, unmount};
use crate::support::holder::Holder;
use crate::support::restrict::{fail_calls, fathom_as_nobody};
use crate::support::run::args;
use crate::support::{Need, fathom, in_namespace, require, run};

#[test]
fn root_without_read_permission() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let closed = dir(base.join("closed"));
            chmod(&closed, 0o700);
            for by in ["naive", "getmnt1", "getmnt2", "getmnt3"] {
                let mut command = fathom_as_nobody(base, args!["mounts", &closed, "--by", by]);
                let ran = run(&mut command).refused();
                assert!(
                    ran.stderr.contains("Permission denied (os error 13)"),
                    "{ran}"
                );
            }
        });
    }
}

/// The path of a container in /proc exists, but is not in the mount table of this process.
#[test]
fn a_different_mount_namespace_is_named() {
    if require(&[Need::Root, Need::Program("unshare")]) {
        in_namespace(|base| {
            let at = dir(base.join("at"));
            let there = Holder::shell_elsewhere("mount -t tmpfs there \"$0\"", &at);
            let root = format!("/proc/{}/root", there.id());
            let inside = format!("{root}{}", at.display());
            let namespace = format!(
                "a different mount namespace, that of process {}",
                there.id()
            );
            let enter = format!("hint: nsenter -t {} -m fathom", there.id());
            for (command, path, code, hint) in [
                ("mounts", &root, 2, format!("{enter} COMMAND /\n")),
                (
                    "survey",
                    &inside,
                    2,
                    format!("{enter} COMMAND {}\n", at.display()),
                ),
                (
                    "space",
                    &inside,
                    1,
                    format!("{enter} space {}\n", at.display()),
                ),
            ] {
                let ran = run(&mut fathom([command, path])).exits(code);
                assert!(
                    ran.stderr.contains(&namespace) && ran.stderr.contains(&hint),
                    "{command}: {ran}"
                );
            }
            drop(there);
            // No mount table has a detached mount.
            let detached = fs::File::open(tmpfs(&at)).unwrap();
            unmount(&at);
            let path = format!("/proc/{}/fd/{}", std::process::id(), detached.as_raw_fd());
            let ran = run(&mut fathom(["mounts", &path])).refused();
            assert!(!ran.stderr.contains("namespace"), "{ran}");
        });
    }
}

#[test]
fn last_of_repeated_options_counts() {
    // As with a shell alias: alias fathom='fathom --color=always -q'.
    let ran = run(&mut fathom(
        "--color always -q mounts -q --color never --format table --format paths".split(' '),
    ));
    let ran = ran.exits(0);
    assert!(
        ran.stdout.starts_with(b"/") && ran.stderr.is_empty(),
        "{ran}"
    );
    let ran = run(&mut fathom(
        "mounts --assert / --assert /proc/self".split(' '),
    ))
    .exits(1);
    assert!(
        ran.stdout.starts_with(b"/ is a mount point") && ran.stderr.contains("/proc/self"),
        "{ran}"
    );
}

#[test]
fn without_a_command_prints_help_with_status_2() {
    let ran = run(&mut fathom([""; 0])).exits(2);
    assert!(
        ran.stdout.is_empty() && ran.stderr.contains("mounts"),
        "{ran}"
    );
}

#[test]
fn help_is_short_and_long() {
    let short = run(&mut fathom(["mounts", "-h"])).exits(0);
    let long = run(&mut fathom(["mounts", "--help"])).exits(0);
    assert!(long.stdout.len() > short.stdout.len());
    let text = String::from_utf8(long.stdout).unwrap();
    let words = "Examples|Exit status|--by|--check|--beneath|--watch|--json|--profile".split('|');
    for word in words.chain(METHODS) {
        assert!(text.contains(word), "no {word} in --help");
    }
}

#[test]
fn completions_and_man_pages() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = run(&mut fathom(["completions", shell])).exits(0);
        assert!(
            String::from_utf8(ran.stdout).unwrap().contains("beneath"),
            "{shell}"
        );
    }
    let place = tempfile::tempdir().unwrap();
    run(&mut fathom(args!["man", place.path()])).exits(0);
    let page = fs::read_to_string(place.path().join("fathom-mounts.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("beneath"));
}

#[test]
fn closed_pipe_ends_it_by_sigpipe() {
    for more in [
        "--format=paths",
        "--format=mnttab",
        "--format=table",
        "--json",
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut child = fathom(["mounts", "--by", "mountinfo", more])
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGPIPE), "{more}: {status}");
        let said = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn full_disk_is_an_error() {
    for more in ["--format=paths", "--json"] {
        let full = fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let child = fathom(["mounts", "--by", "mountinfo", more])
            .stdout(full)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{more}");
        assert!(
            String::from_utf8_lossy(&out.stderr).contains("No space left on device"),
            "{more}: {out:?}"
        );
    }
}

#[test]
fn closed_stdout_does_not_panic() {
    let full = || {
        fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap()
    };
    let lines = [
        ("mounts", 0),
        ("mounts --json --profile", 0),
        ("mounts /no/such/directory", 2),
        ("mounts --nonsense", 2),
        ("completions bash", 0),
        ("--help", 0),
        ("mounts --help", 0),
        ("--version", 0),
    ];
    for (line, code) in lines {
        let fathom = || fathom(line.split(' '));
        let status = |command: &mut Command| command.status().unwrap().code();
        assert_eq!(
            status(fathom().stdout(full()).stderr(full())),
            Some(2),
            "{line}"
        );
        assert_eq!(
            status(fathom().stdout(full()).stderr(Stdio::null())),
            Some(2),
            "{line} >/dev/full"
        );
        assert_eq!(
            status(fathom().stdout(Stdio::null()).stderr(full())),
            Some(code),
            "{line} 2>/dev/full"
        );
    }
}

/// Changes the working directory to `place`, removes its path by `lose`, and runs `look`.
fn nowhere(place: &Path, lose: impl FnOnce(), look: impl FnOnce()) {
    rustix::process::chdir(place).unwrap();
    lose();
    look();
    rustix::process::chdir("/").unwrap();
}

/// Runs in directories that have been removed, unmounted and covered.
fn from_lost_places(base: &Path, look: impl Fn()) {
    let at = |name: &str| base.join(name);
    nowhere(
        &dir(at("removed")),
        || fs::remove_dir(at("removed")).unwrap(),
        &look,
    );
    let inside = dir(tmpfs(at("unmounted")).join("inside"));
    nowhere(&inside, || unmount(at("unmounted")), &look);
    let inside = dir(at("covered/inside"));
    nowhere(
        &inside,
        || drop(dir(tmpfs(at("covered")).join("inside"))),
        &look,
    );
    unmount(at("covered"));
}

#[test]
fn unreachable_root_is_refused() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let every_method_refuses = || {
                for by in METHODS {
                    run(&mut fathom(["mounts", ".", "--by", by])).refused();
                }
                run(&mut fathom(["mounts", ".", "--check"])).refused();
            };
            from_lost_places(base, every_method_refuses);
            // The old path of the working directory leads to the same directory, but on a different
            // mount.
            let twice = dir(base.join("twice"));
            nowhere(&twice, || drop(bind(&twice, &twice)), every_method_refuses);
            tmpfs("/proc"); // then getcwd is used instead
            from_lost_places(base, every_method_refuses);
        });
    }
}

#[test]
fn unreachable_root_is_refused_without_statx() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            from_lost_places(base, || {
                for by in METHODS {
                    let mut command = fathom(["mounts", ".", "--by", by]);
                    fail_calls(
                        &mut command,
                        &[u32::try_from(libc::SYS_statx).unwrap()],
                        libc::ENOSYS,
                    );
                    run(&mut command).refused();
                }
            });
        });
    }
}

#[test]
fn root_in_another_mount_namespace_is_refused() {
    if require(&[Need::Root, Need::Program("unshare")]) {
        in_namespace(|base| {
            tmpfs(base.join("m"));
            let mut there = Command::new("unshare");
            there.args(["--mount", "--", "sh", "-c"]);
            there
                .arg("mount -t tmpfs there \"$0\" && mkdir -p \"$0/m/n\" && echo ready && read end")
                .arg(base);
            let mut there = there
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut ready = [0; 6];
            there
                .stdout
                .as_mut()
                .unwrap()
                .read_exact(&mut ready)
                .unwrap();
            let top = PathBuf::from(format!("/proc/{}/root", there.id()));
            let below = top.join(base.strip_prefix("/").unwrap());
            for root in [&top, &below, &below.join("m")] {
                for by in METHODS {
                    run(&mut fathom(args!["mounts", root, "--by", by])).refused();
                }
            }
            drop(there.stdin.take());
            there.wait().unwrap();
        });
    }
}

#[test]
fn without_statx_no_plain_directory_is_a_mount_point() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let (yes, no) = (tmpfs(base.join("yes")), dir(base.join("no")));
            let alias = base.join("alias");
            symlink(&no, &alias).unwrap();
            let nothing = base.join("nothing");
            for errno in [libc::ENOSYS, libc::EPERM] {
                let assert = |path: &Path| {
                    let mut command = fathom(args!["mounts", "--assert", path]);
                    fail_calls(
                        &mut command,
                        &[u32::try_from(libc::SYS_statx).unwrap()],
                        errno,
                    );
                    run(&mut command)
                };
                for path in [&yes, &yes.join("."), base, Path::new("/")] {
                    assert(path).exits(0);
                }
                for path in [&no, &alias, &file(no.join("file"), 1)] {
                    let ran = assert(path);
                    assert!(
                        ran.code() == 2 || ran.stderr.contains("cannot tell"),
                        "{ran}"
                    );
                    assert!(ran.stdout.is_empty(), "{ran}");
                }
                assert!(assert(&nothing).exits(1).stdout.is_empty());
            }
        });
    }
}

#[test]
fn quiet_suppresses_status_messages_only() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            tmpfs(base.join("1/2/3/4/5/6"));
            let run = |more: &[&str]| {
                run(fathom(args!["mounts", base, "--by", "getmnt1"]).args(more)).exits(1)
            };
            let (plain, quiet) = (run(&[]), run(&["-q"]));
            assert_eq!(plain.stdout, quiet.stdout);
            assert!(
                quiet
                    .stderr
                    .lines()
                    .all(|line| line.starts_with("fathom: ") || line.starts_with("hint: ")),
                "warnings and hints only: {quiet}"
            );
            assert!(!quiet.stderr.is_empty(), "warnings remain");
        });
    }
}

#[test]
fn json_names_the_mount_that_contains_the_directory() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let at = tmpfs(base.join("disk"));
            let below = dir(at.join("a/b"));
            for by in ["kernel", "mountinfo"] {
                let ran = run(&mut fathom(args!["mounts", &below, "--json", "--by", by]));
                let value = ran.exits(0).json();
                let mount = &value["result"]["root_mount"];
                assert_eq!(mount["target"], at.to_str().unwrap(), "{value}");
                assert_eq!(mount["fstype"], "tmpfs", "{value}");
            }
        });
    }
}
