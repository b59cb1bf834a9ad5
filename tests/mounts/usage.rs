//! Bad input, help, and how a run ends: one clear line, the right status.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use crate::support::build::{dir, file, tmpfs};
use crate::support::jail::{as_nobody, fathom_in};
use crate::support::run::{args, program};
use crate::support::{Need, fathom, in_namespace, require, run};

#[test]
fn a_root_that_is_missing_or_no_directory() {
    let place = tempfile::tempdir().unwrap();
    let plain = file(place.path().join("plain"), 1);
    for by in ["auto", "kernel", "search", "naive"] {
        let missing = run(&mut fathom(args!["mounts", place.path().join("missing"), "--by", by])).refused();
        assert!(missing.stderr.contains("No such file or directory (os error 2)"), "{missing}");
        assert!(missing.stderr.contains("/missing'"), "{missing}");
        let wrong = run(&mut fathom(args!["mounts", &plain, "--by", by])).refused();
        assert!(wrong.stderr.contains("Not a directory (os error 20)"), "{wrong}");
    }
    run(&mut fathom(["mounts", ""])).refused();
}

#[test]
fn a_root_that_may_not_be_read() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let here = fathom_in(&ground.join("bin"));
            let closed = dir(ground.join("closed"));
            fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
            for by in ["naive", "getmnt1", "getmnt2", "getmnt3"] {
                let mut command = program(&here, args!["mounts", &closed, "--by", by]);
                as_nobody(&mut command);
                let ran = run(&mut command).refused();
                assert!(ran.stderr.contains("Permission denied (os error 13)"), "{ran}");
            }
        });
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let senseless = [
        "mounts --by nonsense",
        "mounts --format nonsense",
        "mounts --names nonsense",
        "mounts --color nonsense",
        "mounts --nonsense",
        "mounts / /",
        "nonsense",
        "mounts --by search --depth 4",
        "mounts --by getmnt1 --depth -1",
        "mounts --by getmnt1 --depth many",
        "mounts --by naive --hints none",
        "mounts --by search --hints /no/such/file",
        "mounts --trials 3",
        "mounts --compare --trials 0",
        "mounts --compare --watch",
        "mounts --compare --by search",
        "mounts --deadline 1s",
        "mounts --check --deadline soon",
        "mounts --check --deadline -1s",
        "mounts --json --format paths",
        "mounts --watch --check",
        "mounts --watch --format fstab",
        "mounts --watch --assert /",
        "mounts --assert",
        "completions nonsense",
    ];
    for line in senseless {
        let ran = run(&mut fathom(line.split(' '))).refused();
        assert!(ran.stderr.len() > "fathom: ".len() + 5, "{ran}");
    }
}

#[test]
fn an_unknown_method_is_answered_with_the_known_ones() {
    let ran = run(&mut fathom(["mounts", "--by", "nonsense"])).refused();
    for by in ["nonsense", "kernel", "mountinfo", "search", "getmnt3", "getmnt2", "getmnt1", "naive"] {
        assert!(ran.stderr.contains(by), "{ran}");
    }
}

#[test]
fn without_a_command_there_is_help_and_status_2() {
    let ran = run(&mut fathom([""; 0])).exits(2);
    assert!(ran.stdout.is_empty() && ran.stderr.contains("mounts"), "{ran}");
}

#[test]
fn help_is_short_and_long() {
    let short = run(&mut fathom(["mounts", "-h"])).exits(0);
    let long = run(&mut fathom(["mounts", "--help"])).exits(0);
    assert!(long.stdout.len() > short.stdout.len());
    let text = String::from_utf8(long.stdout).unwrap();
    for word in ["Examples", "Exit status", "--by", "--check", "--beneath", "--watch", "--json", "--profile"] {
        assert!(text.contains(word), "no {word} in --help");
    }
    for method in ["auto", "kernel", "mountinfo", "search", "getmnt3", "getmnt2", "getmnt1", "naive"] {
        assert!(text.contains(method), "no {method} in --help");
    }
}

#[test]
fn completions_and_man_pages() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = run(&mut fathom(["completions", shell])).exits(0);
        assert!(String::from_utf8(ran.stdout).unwrap().contains("beneath"), "{shell}");
    }
    let place = tempfile::tempdir().unwrap();
    run(&mut fathom(args!["man", place.path()])).exits(0);
    let page = fs::read_to_string(place.path().join("fathom-mounts.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("beneath"));
}

#[test]
fn who_reads_no_more_ends_it_as_it_ends_other_tools() {
    for more in ["--format=paths", "--format=mnttab", "--format=table", "--json"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut child =
            fathom(["mounts", "--by", "mountinfo", more]).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGPIPE), "{more}: {status}");
        let said = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn a_full_disk_is_no_success() {
    for more in ["--format=paths", "--json"] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let child = fathom(["mounts", "--by", "mountinfo", more]).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{more}");
        assert!(String::from_utf8_lossy(&out.stderr).contains("No space left on device"), "{more}: {out:?}");
    }
}

#[test]
fn quiet_says_nothing_and_loses_nothing() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            tmpfs(ground.join("1/2/3/4/5/6"));
            let run = |more: &[&str]| run(fathom(args!["mounts", ground, "--by", "getmnt1"]).args(more)).exits(1);
            let (plain, quiet) = (run(&[]), run(&["-q"]));
            assert_eq!(plain.stdout, quiet.stdout);
            assert!(quiet.stderr.lines().all(|line| line.starts_with("fathom: ")), "warnings only: {quiet}");
            assert!(!quiet.stderr.is_empty(), "warnings remain");
        });
    }
}
