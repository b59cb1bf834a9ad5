//! Tests of snapshots that are refused.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::restic::{
    NEEDS, PASSWORD, check, copy_fixture, dump, dump_command, init, prepare, restic, trees,
};
use crate::support::build::{chmod, dir, file, name};
use crate::support::hold::{Hold, Stop};
use crate::support::restrict::fathom_as_nobody;
use crate::support::run::args;
use crate::support::snapshot::{kept, same};
use crate::support::tool::tool;
use crate::support::{Need, fathom, fathom_path, in_namespace, require, run};

#[test]
fn what_cannot_be_done_is_said_in_one_line() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        file(dir(ground.join("tree/below")).join("file"), 100);
        fs::write(ground.join("wrong"), "another\n").unwrap();
        fs::write(ground.join("right"), format!("{PASSWORD}\n")).unwrap();
        let refused = |words: &[OsString], why: &str| {
            let said = run(&mut dump_command(ground, words.to_vec()))
                .refused()
                .stderr;
            assert!(said.contains(why), "{said}");
        };
        refused(&args!["tree", "--password-file", "wrong"], "wrong password");
        refused(
            &args!["tree", "--password-file", "missing"],
            "cannot read the password",
        );
        fs::write(ground.join("blank"), "\u{feff} \r\n").unwrap();
        refused(&args!["tree", "--password-file", "blank"], "no password in");
        let skipped = "'tree/below' lies below another SRC, but was skipped there";
        refused(&args!["tree", "tree/below", "--exclude", "below"], skipped);
        dir(ground.join("proc"));
        let same = "'/proc' and 'proc' have the same path in a snapshot";
        refused(&args!["proc", "/proc"], same);
        refused(&args!["none"], "none");
        refused(&args!["tree", "-o", "x.tar"], "--restic");
        let other = |repository: &str, why: &str| {
            let mut command = fathom(args!["dump", "tree", "--restic", repository]);
            prepare(&mut command, ground);
            let said = run(&mut command).refused().stderr;
            assert!(said.contains(why), "{said}");
        };
        other("tree", "no restic repository");
        other("gone", "no restic repository");
        other("", "no restic repository");
        other("right", "no restic repository");
        for (repository, scheme) in [
            ("azure:container:/repo", "azure:"),
            ("gs:bucket:/repo", "gs:"),
            ("b2:bucket:/repo", "b2:"),
            ("rclone:remote:repo", "rclone:"),
        ] {
            other(repository, &format!("'{scheme}' is not supported"));
            other(repository, "give a directory");
            other(repository, "rclone serve");
        }
        let mut none = dump_command(ground, args!["tree"]);
        none.env_remove("RESTIC_PASSWORD");
        assert!(run(&mut none).refused().stderr.contains("no password"));
        assert!(!ground.join("x.tar").exists());
        assert_eq!(trees(ground).len(), 0);

        // A repository inside SRC is excluded from the snapshot.
        let mut all = dump_command(ground, args![".", "--password-file", "right"]);
        let said = run(&mut all).exits(0).stderr;
        assert!(said.contains("is the repository"), "{said}");
        let listed = crate::restic::said(ground, args!["ls", "latest"]);
        assert!(
            listed.contains("/tree/below/file") && !listed.contains("/repo"),
            "{listed}"
        );
    });
}

/// A FIFO in place of the metrics, which a failed run reads for the time of the last snapshot, must
/// not block the run.
#[test]
fn planted_metrics_are_not_read() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        fs::remove_file(ground.join("repo/config")).unwrap();
        let metrics = dir(ground.join("metrics")).join("m.prom");
        chmod(metrics.parent().unwrap(), 0o1777);
        tool(Command::new("mkfifo").arg(&metrics));
        chown(&metrics, Some(65534), None).unwrap();
        dir(ground.join("tree"));
        let words = args!["tree", "--metrics", metrics];
        let ran = run(&mut dump_command(ground, words)).exits(2);
        assert!(ran.stderr.contains("cannot write metrics"), "{ran}");
    });
}

/// The snapshot exists already when its catalog cannot be written.
#[test]
fn a_full_state_directory_is_a_warning() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        let tree = dir(ground.join("tree"));
        (0..2000).for_each(|nth| drop(file(tree.join(format!("{nth:0200}")), 1)));
        let state = dir(ground.join("state"));
        let mut mount = Command::new("mount");
        tool(
            mount
                .args(["-t", "tmpfs", "-o", "size=16k,mode=755", "tmpfs"])
                .arg(&state),
        );
        let ran = run(&mut dump_command(ground, args!["tree", "--state", "state"])).exits(1);
        assert!(ran.stderr.contains("cannot write the catalog"), "{ran}");
        assert!(ran.stderr.contains("snapshot"), "{ran}");
        assert_eq!(trees(ground).len(), 1);
    });
}

#[test]
fn a_full_disk_makes_no_snapshot() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        let small = dir(ground.join("small"));
        tool(
            Command::new("mount")
                .args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"])
                .arg(&small),
        );
        init(&small);
        symlink(small.join("repo"), ground.join("repo")).unwrap();
        let tree = dir(ground.join("tree"));
        let mut bytes = vec![0; 4 << 20];
        let mut state = 1_u64;
        for byte in &mut bytes {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
        fs::write(tree.join("random"), &bytes).unwrap();
        let said = run(&mut dump_command(ground, args!["tree"]))
            .exits(2)
            .stderr;
        assert!(said.contains("No space left on device"), "{said}");
        assert_eq!(trees(ground).len(), 0);
        assert_eq!(fs::read_dir(ground.join("repo/locks")).unwrap().count(), 0);
        let partial = |path: &Path| path.file_name().unwrap().as_bytes().len() != 64;
        for sub in fs::read_dir(ground.join("repo/data")).unwrap() {
            for pack in fs::read_dir(sub.unwrap().path()).unwrap() {
                let path = pack.unwrap().path();
                assert!(
                    !partial(&path) && path.metadata().unwrap().size() > 0,
                    "{path:?}"
                );
            }
        }
    });
}

/// The fixture has the password of the tests, and version 3 of the format.
#[test]
fn a_repository_of_another_version_is_left_alone() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        copy_fixture("version3", &ground.join("repo"));
        let before = kept(&ground.join("repo"));
        file(dir(ground.join("tree")).join("file"), 100);
        let said = run(&mut dump_command(ground, args!["tree"]))
            .refused()
            .stderr;
        assert!(said.contains("version `3` not supported"), "{said}");
        assert!(said.contains("versions 1 and 2"), "{said}");
        same(&before, &kept(&ground.join("repo")), "the repository");
    });
}

/// Files and pipes that contain a password, in all forms that restic accepts.
#[test]
fn passwords_come_from_files_of_any_form() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        file(dir(ground.join("tree")).join("file"), 100);
        let utf16 = PASSWORD.encode_utf16().flat_map(u16::to_le_bytes);
        let forms: [Vec<u8>; 4] = [
            format!("{PASSWORD}\r\n").into(),
            format!("\u{feff}{PASSWORD}\r\n").into(),
            format!("\n {PASSWORD}").into(),
            [0xff, 0xfe].into_iter().chain(utf16).collect(),
        ];
        for form in forms {
            fs::write(ground.join("password"), &form).unwrap();
            for file in ["password", "/dev/stdin"] {
                let piped = r#"cat password | "$0" dump tree --restic repo --password-file "$1""#;
                let mut shell = Command::new("sh");
                shell.args(["-c", piped]).arg(fathom_path()).arg(file);
                prepare(&mut shell, ground);
                run(shell.env_remove("RESTIC_PASSWORD")).exits(0);
            }
        }
        let mut theirs = Command::new("restic");
        theirs.args([
            "--no-cache",
            "-r",
            "repo",
            "--password-file",
            "password",
            "snapshots",
        ]);
        prepare(&mut theirs, ground);
        run(theirs.env_remove("RESTIC_PASSWORD")).exits(0);
        assert_eq!(trees(ground).len(), 8);
    });
}

/// SRC names and tags in all forms that restic accepts, and files that an ordinary user cannot
/// read.
#[test]
fn odd_sources_and_tags_are_those_of_restic() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        for at in ["a/same/one", "b/same/two"] {
            let path = ground.join(at);
            dir(path.parent().unwrap());
            file(path, 100);
        }
        // The path is relative: the metadata of an absolute path's parent directories would be
        // changed by other tests.
        let odd = name(b"odd\xff");
        file(dir(ground.join(odd)).join("three"), 100);
        let words = || args!["a/same", "b/same", odd, "--tag", "one, two,,", "--tag", ""];
        dump(ground, words());
        check(ground);
        restic(ground, args!["backup"].into_iter().chain(words())).exits(0);
        let seen = trees(ground);
        assert_eq!(seen[0], seen[1]);
        let listed = crate::restic::said(ground, args!["snapshots", "--json"]);
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        assert_eq!(listed[0]["tags"], listed[1]["tags"]);
        assert_eq!(listed[0]["paths"], listed[1]["paths"]);

        // A SRC inside the repository, and a repository inside SRC.
        dump(ground, args!["repo/keys"]);
        fs::create_dir(ground.join("outer")).unwrap();
        fs::rename(ground.join("repo"), ground.join("outer/repo")).unwrap();
        symlink("outer/repo", ground.join("repo")).unwrap();
        dump(ground, args!["outer"]);
        check(ground);
        let listed = crate::restic::said(ground, args!["ls", "latest"]);
        assert!(!listed.contains("/repo/keys"), "{listed}");
    });
}

/// The snapshot contains the other files, and the exit status reports that it is incomplete.
#[test]
fn files_that_a_user_cannot_read_are_warnings() {
    if !require(&NEEDS) || !require(&[Need::Program("setpriv")]) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        let tree = dir(ground.join("tree"));
        file(tree.join("open"), 100);
        file(tree.join("closed"), 100);
        chmod(tree.join("closed"), 0o600);
        tool(
            Command::new("chmod")
                .arg("-R")
                .arg("a+rwX")
                .arg(ground.join("repo")),
        );
        chmod(ground, 0o755);
        let mut user = fathom_as_nobody(ground, ["dump", "tree", "--restic", "repo"]);
        prepare(&mut user, ground);
        let said = run(&mut user).exits(1);
        assert!(said.stderr.contains("closed"), "{said}");
        check(ground);
        let listed = crate::restic::said(ground, args!["ls", "latest"]);
        assert!(listed.contains("/tree/open"), "{listed}");
        dump(ground, args!["tree"]);
        check(ground);
        let copy = crate::restic::restored(ground, "copy").join("tree");
        same(&kept(&tree), &kept(&copy), "read by root");
    });
}

/// The metrics of a failed run have the time of the last complete snapshot.
#[test]
fn the_time_of_the_last_complete_snapshot_is_kept() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        file(ground.join("tree/f"), 10);
        let words = || args!["tree", "--metrics", "m.prom"];
        let last = || {
            let text = fs::read_to_string(ground.join("m.prom")).unwrap();
            let name = "fathom_dump_last_complete_dump_timestamp_seconds{";
            let line = text.lines().find(|line| line.starts_with(name));
            line.map(str::to_owned)
        };
        let mut failing = dump_command(ground, words());
        failing.env("RESTIC_PASSWORD", "wrong");
        run(&mut failing).exits(2);
        assert_eq!(last(), None);
        dump(ground, words());
        let first = last();
        assert!(first.is_some());
        run(&mut failing).exits(2);
        assert_eq!(last(), first);
    });
}

/// A core dump does not contain the password, and a debugger of the same user cannot read it.
#[test]
fn memory_with_a_password_is_hidden() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        file(ground.join("tree/f"), 10);
        run(Command::new("chown").args(["-R", "1000:1000"]).arg(ground)).exits(0);
        let hold = Hold::new(Stop::Open(&ground.join("repo/keys")));
        let mut command = fathom_as_nobody(ground, args!["dump", "--restic", "repo", "tree"]);
        prepare(&mut command, ground);
        command
            .env("HOME", ground)
            .stderr(Stdio::null())
            .stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let held = hold.wait(&mut child);
        let memory = fs::metadata(format!("/proc/{held}/mem")).unwrap();
        assert_eq!(memory.uid(), 0, "the user could read it");
        let limits = fs::read_to_string(format!("/proc/{held}/limits")).unwrap();
        let core = limits
            .lines()
            .find(|line| line.starts_with("Max core file size"));
        let core: Vec<&str> = core.unwrap().split_whitespace().collect();
        assert_eq!(core[4..6], ["0", "0"]);
        drop(hold);
        assert!(child.wait().unwrap().success());
    });
}

/// A foreign catalog must be refused: it decides which files are not read again.
#[test]
fn state_of_another_user_is_refused() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        file(dir(ground.join("tree")).join("file"), 100);
        let state = dir(ground.join("state"));
        let dump = || run(&mut dump_command(ground, args!["tree", "--state", "state"]));
        dump().exits(0);
        let catalog = std::fs::read_dir(&state)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        for path in [&state, &catalog] {
            std::os::unix::fs::chown(path, Some(65_534), None).unwrap();
            let told = dump().refused().stderr;
            assert!(told.contains("another user"), "{told}");
            std::os::unix::fs::chown(path, Some(0), None).unwrap();
            let mode = if path.is_dir() { 0o777 } else { 0o666 };
            chmod(path, mode);
            let told = dump().refused().stderr;
            assert!(told.contains("others than its"), "{told}");
            chmod(path, mode & 0o700);
        }
        dump().exits(0);
    });
}
