//! What feeds other tools, fed to them: with what has changed, an old copy becomes as the tree is
//! now.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::since::{catalog, changed};
use crate::support::build::{bush, dir, file, name, odd_names, tmpfs};
use crate::support::tool::tool;
use crate::support::{Need, in_namespace, require};

/// A tree, its catalog and a copy of it; then changes of every kind.
fn scene(ground: &Path) -> (PathBuf, PathBuf, PathBuf) {
    let top = tmpfs(ground.join("top"));
    bush(&top.join("calm"), 3, 5);
    for odd in odd_names() {
        file(top.join("odd").join(name(&odd)), 10);
    }
    file(top.join("to be moved/inner/file"), 20);
    file(top.join("goes"), 20);
    let copy = ground.join("copy");
    tool(Command::new("cp").arg("-a").arg(&top).arg(&copy));
    let to = catalog(&top, &ground.join("catalog"));
    for odd in odd_names() {
        file(top.join("odd").join(name(&odd)), 11);
        file(top.join("new").join(name(&odd)), 12);
    }
    std::os::unix::fs::symlink("odd", top.join("link")).unwrap();
    dir(top.join("empty"));
    fs::rename(top.join("to be moved"), top.join("moved")).unwrap();
    fs::remove_file(top.join("goes")).unwrap();
    (top, to, copy)
}

/// Holds that everything in `top` is in `copy` too, as it is.
fn is_there(top: &Path, copy: &Path) {
    let mut unread = vec![PathBuf::new()];
    let mut files = 0;
    while let Some(below) = unread.pop() {
        for entry in fs::read_dir(top.join(&below)).unwrap() {
            let path = below.join(entry.unwrap().file_name());
            let (old, new) = (
                top.join(&path).symlink_metadata().unwrap(),
                copy.join(&path).symlink_metadata(),
            );
            let new = new.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert_eq!(old.mode(), new.mode(), "{}", path.display());
            if old.is_dir() {
                unread.push(path);
            } else if old.is_file() {
                assert_eq!(
                    fs::read(top.join(&path)).unwrap(),
                    fs::read(copy.join(&path)).unwrap(),
                    "{}",
                    path.display()
                );
                files += 1;
            }
        }
    }
    assert!(files > 50, "{files}");
}

/// What `--format` prints, given to a tool on its standard input.
fn feed(list: &[u8], command: &mut Command) {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(list).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(
        out.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
}

fn list(top: &Path, to: &Path, format: &str) -> Vec<u8> {
    let list = changed(top, to, &["--format", format]).exits(0).stdout;
    assert!(
        !list.windows(4).any(|window| window == b"goes"),
        "what was removed is in the list"
    );
    assert!(
        !list.windows(4).any(|window| window == b"calm"),
        "what has not changed is in the list"
    );
    list
}

#[test]
fn tar_reads_the_list() {
    if require(&[Need::Root, Need::Program("tar")]) {
        in_namespace(|ground| {
            let (top, to, copy) = scene(ground);
            let archive = ground.join("archive.tar");
            let list = list(&top, &to, "tar");
            let mut tar = Command::new("tar");
            feed(
                &list,
                tar.arg("-C").arg(&top).arg("-cf").arg(&archive).args([
                    "--no-recursion",
                    "--null",
                    "-T",
                    "-",
                ]),
            );
            tool(
                Command::new("tar")
                    .arg("-C")
                    .arg(&copy)
                    .arg("-xpf")
                    .arg(&archive),
            );
            is_there(&top, &copy);
        });
    }
}

#[test]
fn rsync_reads_the_list() {
    if require(&[Need::Root, Need::Program("rsync")]) {
        in_namespace(|ground| {
            let (top, to, copy) = scene(ground);
            let list = list(&top, &to, "rsync");
            feed(
                &list,
                Command::new("rsync")
                    .args(["-a", "--from0", "--files-from=-"])
                    .arg(&top)
                    .arg(&copy),
            );
            is_there(&top, &copy);
        });
    }
}

#[test]
fn restic_reads_the_list() {
    if require(&[Need::Root, Need::Program("restic")]) {
        in_namespace(|ground| {
            let (top, to, copy) = scene(ground);
            let (repository, names) = (ground.join("repository"), ground.join("names"));
            fs::write(&names, list(&top, &to, "restic")).unwrap();
            let restic = || {
                let mut restic = Command::new("restic");
                restic
                    .arg("--no-cache")
                    .arg("-q")
                    .arg("--repo")
                    .arg(&repository)
                    .env("RESTIC_PASSWORD", "test")
                    .current_dir(&top);
                restic
            };
            tool(restic().arg("init"));
            tool(restic().args(["backup", "--files-from-raw"]).arg(&names));
            let out = dir(ground.join("restored"));
            tool(restic().args(["restore", "latest", "--target"]).arg(&out));
            // restic keeps whole names, or those below where it ran.
            let inside = out.join(top.strip_prefix("/").unwrap());
            let restored = if inside.is_dir() { inside } else { out };
            tool(
                Command::new("cp")
                    .arg("-a")
                    .arg(restored.join("."))
                    .arg(&copy),
            );
            is_there(&top, &copy);
        });
    }
}

#[test]
fn borg_reads_the_list() {
    if require(&[Need::Root, Need::Program("borg")]) {
        in_namespace(|ground| {
            let (top, to, copy) = scene(ground);
            let repository = ground.join("repository");
            let borg = |at: &Path| {
                let mut borg = Command::new("borg");
                borg.env("BORG_BASE_DIR", ground.join("borg"))
                    .env("LC_ALL", "C.UTF-8")
                    .current_dir(at);
                borg
            };
            let to_archive = format!("{}::one", repository.display());
            let done = borg(&top)
                .args(["init", "-e", "none"])
                .arg(&repository)
                .status()
                .unwrap();
            assert!(done.success());
            let mut create = borg(&top);
            create
                .args(["create", "--paths-from-stdin", "--paths-delimiter", r"\0"])
                .arg(&to_archive);
            feed(&list(&top, &to, "borg"), &mut create);
            assert!(
                borg(&copy)
                    .arg("extract")
                    .arg(&to_archive)
                    .status()
                    .unwrap()
                    .success()
            );
            is_there(&top, &copy);
        });
    }
}
