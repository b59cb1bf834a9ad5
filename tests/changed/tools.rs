//! Tests of the formats for other tools: applied to an old copy of the tree, the listed changes
//! give the current tree.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::since::{catalog, changed};
use crate::support::build::{bush, chmod, dir, file, name, odd_names, tmpfs};
use crate::support::run::{args, exact};
use crate::support::tool::tool;
use crate::support::{Need, fathom, in_namespace, require, run};

/// Names that are special at the beginning of a line to a program that reads a list of names.
const SPECIAL: [&[u8]; 20] = [
    b"-x",
    b"--delete",
    b"-",
    b"-C",
    b"#comment",
    b";comment",
    b"!not",
    b"+ included",
    b"- excluded",
    b"@archive",
    b"~",
    b"$HOME",
    b" blank ",
    b"\ttab\t",
    b"new\nline",
    b"\\#",
    b"back\\",
    b"*[a]?{b}",
    b"\xff",
    b"TRAILER!!!",
];

/// A tree, its catalog and a copy of it; then changes of every kind.
fn scene(ground: &Path) -> (PathBuf, PathBuf, PathBuf) {
    let top = tmpfs(ground.join("top"));
    bush(&top.join("calm"), 3, 5);
    for odd in odd_names() {
        file(top.join("odd").join(name(&odd)), 10);
    }
    file(top.join("to be moved/inner/file"), 20);
    file(top.join("goes"), 20);
    file(top.join("turns/file"), 20);
    file(top.join("turns/directory/file"), 20);
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
    fs::remove_file(top.join("turns/file")).unwrap();
    dir(top.join("turns/file"));
    fs::remove_dir_all(top.join("turns/directory")).unwrap();
    file(top.join("turns/directory"), 30);
    for special in SPECIAL {
        file(top.join(name(special)), 40);
    }
    (top, to, copy)
}

/// Removes from the copy what a tool that only adds does not replace.
fn make_way(copy: &Path) {
    fs::remove_dir_all(copy.join("turns")).unwrap();
}

/// Checks that everything in `top` is in `copy` too, with the same contents.
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

/// Passes the output of `--format` to a tool on its standard input; returns the output of the tool.
fn feed(list: &[u8], command: &mut Command) -> Vec<u8> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
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
    out.stdout
}

fn list(top: &Path, to: &Path, format: &str) -> Vec<u8> {
    let ran = changed(top, to, &["--format", format]).exits(0);
    let is_partial = ran.stderr.contains("only what has changed");
    assert_eq!(is_partial, matches!(format, "restic" | "borg"), "{ran}");
    let list = ran.stdout;
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
            make_way(&copy);
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
fn cpio_reads_the_list_of_tar() {
    if require(&[Need::Root, Need::Program("cpio")]) {
        in_namespace(|ground| {
            let (top, to, _) = scene(ground);
            // To cpio, this name ends an archive.
            fs::remove_file(top.join("TRAILER!!!")).unwrap();
            let list = list(&top, &to, "tar");
            let mut cpio = Command::new("cpio");
            cpio.args(["-0", "-o", "--quiet", "-H", "newc"])
                .current_dir(&top);
            let archive = feed(&list, &mut cpio);
            let out = dir(ground.join("out"));
            let mut cpio = Command::new("cpio");
            cpio.args(["-i", "-d", "--quiet", "--no-absolute-filenames"]);
            feed(&archive, cpio.current_dir(&out));
            assert!(out.join("moved/inner/file").exists());
            for path in list
                .split(|&byte| byte == 0)
                .filter(|path| !path.is_empty())
            {
                let [is, was] = [&out, &top].map(|at| at.join(name(path)));
                if was.is_file() {
                    assert_eq!(fs::read(is).unwrap(), fs::read(was).unwrap());
                }
            }
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
                    .args(["-a", "--force", "--from0", "--files-from=-"])
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
            // restic restores absolute paths, or paths relative to its working directory.
            let inside = out.join(top.strip_prefix("/").unwrap());
            let restored = if inside.is_dir() { inside } else { out };
            make_way(&copy);
            tool(
                Command::new("cp")
                    .arg("-a")
                    .arg(restored.join("."))
                    .arg(&copy),
            );
            is_there(&top, &copy);
            // restic refuses an empty list.
            let to = catalog(&top, &ground.join("catalog"));
            fs::write(&names, list(&top, &to, "restic")).unwrap();
            tool(restic().args(["backup", "--files-from-raw"]).arg(&names));
        });
    }
}

/// If only the metadata of a directory has changed, the list for restic has it only if it is empty:
/// otherwise restic would read all of its contents. Two catalogs give the same list as the tree.
#[test]
fn restic_gets_empty_directories_only() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            for name in ["emptied", "turned", "chmod"] {
                file(top.join(name).join("file"), 1);
            }
            file(top.join("file"), 1);
            let to = catalog(&top, &ground.join("catalog"));
            fs::remove_file(top.join("emptied/file")).unwrap();
            fs::remove_file(top.join("file")).unwrap();
            dir(top.join("file"));
            fs::remove_dir_all(top.join("turned")).unwrap();
            dir(top.join("turned/empty"));
            chmod(top.join("chmod"), 0o700);
            fs::rename(top.join("chmod"), top.join("renamed")).unwrap();
            let expected = b"emptied\0file\0turned/empty\0renamed/file\0";
            assert_eq!(
                list(&top, &to, "restic").escape_ascii().to_string(),
                expected.escape_ascii().to_string()
            );
            let new = catalog(&top, &ground.join("new"));
            let diff = run(&mut fathom(args![
                "query", "--diff", &to, &new, "--format", "restic"
            ]));
            assert_eq!(diff.exits(0).stdout, expected);
        });
    }
}

/// borg reads a carriage return as a newline.
#[test]
fn names_that_borg_misreads_are_reported() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            let to = catalog(&top, &ground.join("catalog"));
            file(top.join("a\rb"), 1);
            let ran = changed(&top, &to, &["--format", "borg"]).exits(0);
            let says = "borg will not find 1 name with a carriage return";
            assert!(ran.stderr.contains(says), "{ran}");
            let ran = changed(&top, &to, &["--format", "restic"]).exits(0);
            assert!(!ran.stderr.contains("borg"), "{ran}");
        });
    }
}

/// xargs, find and tar get each path from `paths0`, from a walk as well as from a catalog.
#[test]
fn names_ended_by_nul_are_exact_for_other_programs() {
    if require(&[Need::Root, Need::Program("find"), Need::Program("tar")]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            let to = catalog(&top, &ground.join("catalog"));
            for special in SPECIAL.iter().copied().chain([&b"cr\r"[..]]) {
                file(top.join(name(special)), 1);
            }
            let print = |words: &[OsString]| {
                run(fathom(words.iter().cloned()).current_dir(&top))
                    .exits(0)
                    .stdout
            };
            let walked = print(&args![
                "walk",
                ".",
                "--min-depth",
                "1",
                "--format",
                "paths0"
            ]);
            let new = catalog(&top, &ground.join("new"));
            let queried = print(&args!["query", &new, "--min-depth", "1", "--print0"]);
            let changed = print(&args![
                "changed", ".", "--since", &to, "--type", "f", "--format", "paths0"
            ]);
            let archive = ground.join("a.tar");
            for (list, from) in [(walked, "walk"), (queried, "query"), (changed, "changed")] {
                let names = |bytes: &[u8]| {
                    let names = bytes.split(|&b| b == 0).filter(|name| !name.is_empty());
                    let base = |name: &[u8]| name.rsplit(|&b| b == b'/').next().unwrap().to_vec();
                    names.map(base).collect::<BTreeSet<Vec<u8>>>()
                };
                let expected = names(&list);
                assert_eq!(expected.len(), SPECIAL.len() + 1, "{from}");
                let given = |program: &str, words: &[&str]| {
                    let mut command = Command::new(program);
                    let command = command.args(words).current_dir(&top);
                    names(&feed(&list, command))
                };
                assert!(
                    given("xargs", &["-0", "stat", "--printf", r"%n\0", "--"]) == expected,
                    "{from}"
                );
                let find = ["-files0-from", "-", "-maxdepth", "0", "-print0"];
                assert!(given("find", &find) == expected, "{from}");
                let path = archive.to_str().unwrap();
                given("tar", &["--null", "-T", "-", "-cf", path]);
                let listed = run(&mut fathom(args!["list", &archive, "--json"]))
                    .exits(0)
                    .json();
                let members = listed["result"]["members"].as_array().unwrap();
                let members = members.iter().map(|member| exact(member, "path"));
                assert!(
                    names(&members.collect::<Vec<_>>().join(&0)) == expected,
                    "{from}"
                );
            }
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
            make_way(&copy);
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
