//! Tests of files that change, disappear or are unreadable during a dump; of limits and interrupts.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use super::full::{NEEDS, by_gnu_tar, dump, listed, quiet};
use crate::support::build::{chmod, dir, file, tmpfs};
use crate::support::concurrent::{Done, harass, prey, with_threads};
use crate::support::disks::{BTRFS, EXT4, XFS, mounted};
use crate::support::restrict::{fail_calls, fathom_as_nobody, limit_file_size};
use crate::support::run::{args, exact};
use crate::support::snapshot::{kept, same, snapshot};
use crate::support::strace::with_fault;
use crate::support::tool::tool;
use crate::support::trees::{Dice, grow, mutate};
use crate::support::{Need, fathom, in_namespace, require, run};

#[test]
fn archive_is_valid_while_files_change() {
    if require(&NEEDS) {
        in_namespace(|ground| {
            let mut wrong = 0;
            for (round, make) in [Some(EXT4[0]), Some(XFS[0]), Some(BTRFS[0]), None]
                .into_iter()
                .enumerate()
            {
                let at = ground.join(format!("{round}"));
                match make {
                    Some(make) => assert!(mounted(make, &at)),
                    None => drop(tmpfs(&at)),
                }
                let tree = dir(at.join("tree"));
                prey(&tree);
                with_threads(
                    2,
                    |seed, until| harass(&tree, until, seed),
                    || {
                        for nth in 0..6 {
                            let out = ground.join("archive.tar");
                            let more = [["-j", "1"], ["-j", "4"]][nth % 2];
                            let ran = dump(&tree, &out, &[&more[..], &["--json"]].concat());
                            let value = ran.json();
                            wrong += ran.code();
                            let listed = listed(&out);
                            let members = listed.split(|&b| b == b'\n').count() as u64 - 1;
                            assert_eq!(
                                members,
                                value["result"]["dumped"].as_u64().unwrap(),
                                "{ran}"
                            );
                            quiet(
                                Command::new("bsdtar")
                                    .arg("-tvf")
                                    .arg(&out)
                                    .stdout(std::process::Stdio::null()),
                            );
                            by_gnu_tar(&out, &at.join(format!("restored {nth}")));
                            fs::remove_dir_all(at.join(format!("restored {nth}"))).unwrap();
                            for warning in value["warnings"].as_array().unwrap() {
                                assert!(exact(warning, "path").starts_with(b"tree"), "{warning}");
                            }
                            // Every entry is in the archive or named in a warning.
                            let named = value["warnings"].as_array().unwrap().len() as u64;
                            let entries = value["result"]["entries"].as_u64().unwrap();
                            assert!(members + named >= entries, "{ran}");
                        }
                    },
                );
            }
            assert!(wrong > 0, "nothing was ever changed meanwhile");
        });
    }
}

/// A dump after all changes restores the tree exactly.
#[test]
fn archive_is_valid_during_random_changes() {
    if require(&NEEDS) {
        in_namespace(|ground| {
            let at = ground.join("disk");
            assert!(mounted(EXT4[0], &at));
            let tree = dir(at.join("tree"));
            crate::support::trees::grow(&tree, 11, 500);
            let out = ground.join("archive.tar");
            let changes = |_, done: &Done| {
                let mut dice = Dice::new(5);
                while !done.is_set() {
                    drop(mutate(&tree, &mut dice, 100));
                }
            };
            with_threads(1, changes, || {
                for _ in 0..10 {
                    let ran = dump(&tree, &out, &[]);
                    assert!(ran.code() < 2, "{ran}");
                    listed(&out);
                }
            });
            assert!(dump(&tree, &out, &[]).code() < 2);
            let restored = by_gnu_tar(&out, &at.join("gnu")).join("tree");
            same(&kept(&tree), &snapshot(&restored), "after the storm");
        });
    }
}

#[test]
fn unreadable_files_are_warnings() {
    if require(&NEEDS) {
        in_namespace(|ground| {
            let tree = dir(ground.join("tree"));
            file(tree.join("open"), 10);
            file(tree.join("closed"), 10);
            file(tree.join("none"), 0);
            file(dir(tree.join("shut")).join("f"), 10);
            for (what, mode) in [("closed", 0o600), ("none", 0o600), ("shut", 0o700)] {
                chmod(tree.join(what), mode);
            }
            let out = dir(ground.join("out"));
            chmod(&out, 0o777);
            let mut command = fathom_as_nobody(
                ground,
                args!["dump", "tree", "-o", out.join("archive.tar"), "--json"],
            );
            command.current_dir(ground);
            let ran = run(&mut command).exits(1);
            let value = ran.json();
            let warned: BTreeSet<String> = value["warnings"]
                .as_array()
                .unwrap()
                .iter()
                .map(|warning| {
                    assert_eq!(warning["errno"], "EACCES", "{ran}");
                    assert!(
                        warning["message"].as_str().unwrap().contains("run as root"),
                        "{ran}"
                    );
                    warning["path"].as_str().unwrap().to_owned()
                })
                .collect();
            assert_eq!(
                warned,
                ["tree/closed", "tree/none", "tree/shut"]
                    .map(str::to_owned)
                    .into()
            );
            let listed = listed(&out.join("archive.tar"));
            assert_eq!(
                String::from_utf8(listed).unwrap(),
                "tree/\ntree/open\ntree/shut/\n"
            );
        });
    }
}

#[test]
fn full_disk_leaves_no_files() {
    if require(&NEEDS) {
        in_namespace(|ground| {
            let tree = dir(ground.join("tree"));
            (0..100).for_each(|n| drop(file(tree.join(format!("f{n}")), 20_000)));
            let small = dir(ground.join("small"));
            rustix::mount::mount(
                "small",
                &small,
                "tmpfs",
                rustix::mount::MountFlags::empty(),
                c"size=1m",
            )
            .unwrap();
            let within = || {
                fs::read_dir(&small)
                    .unwrap()
                    .map(|e| e.unwrap().file_name())
                    .collect::<Vec<_>>()
            };
            for jobs in ["1", "4"] {
                let ran = dump(&tree, &small.join("archive.tar"), &["-j", jobs]).refused();
                assert!(
                    ran.stderr.contains("cannot write archive")
                        && ran.stderr.contains("free some space"),
                    "{ran}"
                );
                assert!(within().is_empty(), "{:?}", within());
            }
            // An existing archive stays.
            fs::write(small.join("archive.tar"), b"old").unwrap();
            dump(&tree, &small.join("archive.tar"), &[]).refused();
            assert_eq!(fs::read(small.join("archive.tar")).unwrap(), b"old");
            assert_eq!(within(), ["archive.tar"]);
            // The catalog does not fit either: the archive is written, the catalog is not.
            let _ = fs::write(small.join("filler"), vec![0; 2 << 20]);
            let out = ground.join("archive.tar");
            let ran = dump(
                &tree,
                &out,
                &["--catalog", small.join("c.parquet").to_str().unwrap()],
            )
            .refused();
            assert!(ran.stderr.contains("cannot write catalog"), "{ran}");
            listed(&out);
            let full = fathom(args!["dump", &tree, "-o", "-"])
                .stdout(File::create("/dev/full").unwrap())
                .output()
                .unwrap();
            assert_eq!(full.status.code(), Some(2));
        });
    }
}

/// `ulimit -f` causes EFBIG. The program must handle SIGXFSZ, which would kill it.
#[test]
fn file_size_limit_is_an_error() {
    if require(&NEEDS) {
        in_namespace(|ground| {
            let (tree, out, whole) = (
                dir(ground.join("tree")),
                dir(ground.join("out")),
                ground.join("whole.tar"),
            );
            (0..3).for_each(|n| drop(file(tree.join(format!("f{n}")), 100_000)));
            dump(&tree, &whole, &[]).exits(0);
            let within = || fs::read_dir(&out).unwrap().count();
            for limit in [0, 4096, 150_000] {
                let (archive, catalog) = (out.join("a.tar"), out.join("c.parquet"));
                let mut command = fathom(args!["dump", &tree, "-o", archive, "--catalog", catalog]);
                let ran = run(limit_file_size(&mut command, limit)).refused();
                let says = ["cannot write", "File too large (os error 27)", "ulimit -f"];
                assert!(
                    says.iter().all(|part| ran.stderr.contains(part)) && within() == 0,
                    "{limit}: {ran}"
                );
                let to = dir(ground.join(format!("to {limit}")));
                let ran = run(limit_file_size(
                    &mut fathom(args!["restore", &whole, "-C", to, "--json"]),
                    limit,
                ));
                let short = if limit < 100_000 { 3 } else { 0 };
                assert_eq!(
                    ran.json()["warnings"].as_array().unwrap().len(),
                    short,
                    "{ran}"
                );
            }
        });
    }
}

/// If a limit prevents new threads, one thread does all the work.
#[test]
fn archive_is_the_same_where_no_thread_can_be_started() {
    if require(&NEEDS) {
        in_namespace(|ground| {
            let tree = dir(ground.join("tree"));
            grow(&tree, 5, 200);
            let (catalog, mut made) = (ground.join("c.parquet"), Vec::new());
            for has_threads in [true, false] {
                let alone = |mut command: Command| {
                    if !has_threads {
                        // After EAGAIN from clone3(2), the C library does not try clone(2).
                        fail_calls(&mut command, &[libc::SYS_clone3 as u32], libc::EAGAIN);
                    }
                    run(&mut command)
                };
                let [full, next] =
                    ["full", "next"].map(|name| ground.join(format!("{name} {has_threads}.tar")));
                alone(fathom(args![
                    "dump",
                    &tree,
                    "-q",
                    "-o",
                    full,
                    "--catalog",
                    catalog
                ]));
                file(tree.join("another"), 9);
                let more = ground.join("more.parquet");
                alone(fathom(args![
                    "dump",
                    &tree,
                    "-q",
                    "-o",
                    next,
                    "--since",
                    catalog,
                    "--catalog",
                    more
                ]));
                let changed = alone(fathom(args![
                    "changed", &tree, "-q", "--since", catalog, "--format", "paths"
                ]));
                alone(fathom(args!["verify", full, "-q"])).exits(0);
                fs::remove_file(tree.join("another")).unwrap();
                let names = |archive: &Path| String::from_utf8_lossy(&listed(archive)).into_owned();
                made.push((names(&full), names(&next), changed.exits(0).stdout));
            }
            assert_eq!(made[0], made[1]);
        });
    }
}

/// Signals while the archive is being written, and when it is complete but has no name yet.
#[test]
fn interrupt_leaves_no_files() {
    if require(&NEEDS) && require(&[Need::Program("strace")]) {
        in_namespace(|ground| {
            let tree = dir(ground.join("tree"));
            (0..200).for_each(|n| drop(file(tree.join(format!("f{n}")), 50_000)));
            let out = dir(ground.join("out"));
            let command = fathom(args!["dump", &tree, "-o", out.join("archive.tar")]);
            for (name, number) in [
                ("INT", libc::SIGINT),
                ("TERM", libc::SIGTERM),
                ("KILL", libc::SIGKILL),
            ] {
                for (call, nth) in [("write", 3), ("fsync", 1)] {
                    let fault = format!("signal={name}");
                    let (status, _) = with_fault(&command, (call, &fault), nth);
                    let what = format!("SIG{name} at {call} {nth}");
                    assert_eq!(status.signal(), Some(number), "{what}: {status}");
                    assert_eq!(fs::read_dir(&out).unwrap().count(), 0, "{what}");
                }
            }
        });
    }
}

/// The dumpdir of a directory precedes its files, so it may list a file that then cannot be read.
/// GNU tar keeps the older copy of the file, and the next increment tries again.
#[test]
fn older_copy_stays_where_a_listed_file_cannot_be_read() {
    if require(&NEEDS) {
        in_namespace(|ground| {
            let (tree, out) = (dir(ground.join("tree")), dir(ground.join("out")));
            for name in ["f", "g", "gone"] {
                fs::write(tree.join(name), b"old").unwrap();
            }
            chmod(&out, 0o777);
            let catalog = out.join("catalog");
            let restored = dir(ground.join("restored"));
            let round = |nth: u32, code: i32| {
                let archive = out.join(format!("{nth}.tar"));
                let mut arguments =
                    args!["dump", "tree", "-o", &archive, "--catalog", &catalog].to_vec();
                if nth > 0 {
                    arguments.extend(args!["--since", &catalog]);
                }
                let mut command = fathom_as_nobody(ground, arguments);
                command.current_dir(ground);
                run(&mut command).exits(code);
                quiet(
                    Command::new("tar")
                        .args(["--listed-incremental=/dev/null", "-xpf"])
                        .arg(archive)
                        .arg("-C")
                        .arg(&restored),
                );
            };
            let content = |name: &str| fs::read_to_string(restored.join("tree").join(name)).ok();
            round(0, 0);
            assert_eq!(content("f").as_deref(), Some("old"));
            for name in ["f", "g"] {
                fs::write(tree.join(name), b"new").unwrap();
            }
            fs::write(tree.join("fresh"), b"new").unwrap();
            fs::remove_file(tree.join("gone")).unwrap();
            let closed = |mode| ["f", "fresh"].map(|name| chmod(tree.join(name), mode));
            closed(0o600);
            round(1, 1);
            let seen = ["f", "g", "gone", "fresh"].map(content);
            assert_eq!(
                seen,
                [Some("old".to_owned()), Some("new".to_owned()), None, None]
            );
            // The file becomes readable again: it is dumped, although its contents have not
            // changed.
            closed(0o644);
            round(2, 0);
            assert_eq!(
                ["f", "fresh"].map(content),
                [Some("new".to_owned()), Some("new".to_owned())]
            );
            same(
                &snapshot(&tree),
                &snapshot(&restored.join("tree")),
                "in the end",
            );
        });
    }
}

/// A SRC that its user may list, but whose entries cannot be reached.
#[test]
fn a_source_that_can_only_be_listed_keeps_its_attributes() {
    if require(&NEEDS) {
        in_namespace(|ground| {
            let out = dir(ground.join("out"));
            chmod(&out, 0o777);
            for path in ["own", "in/side"] {
                let tree = dir(ground.join(path));
                let set = ["-n", "user.kept", "-v", "1"];
                tool(Command::new("setfattr").args(set).arg(&tree));
                chmod(&tree, 0o444);
            }
            for source in ["own", "in"] {
                let archive = out.join(format!("{source}.tar"));
                let mut command =
                    fathom_as_nobody(ground, args!["dump", source, "-o", archive, "--json"]);
                command.current_dir(ground);
                let ran = run(&mut command).exits(0);
                assert!(
                    ran.json()["warnings"].as_array().unwrap().is_empty(),
                    "{ran}"
                );
                let words = args!["verify", archive, "--against", "."];
                run(fathom(words).current_dir(ground)).exits(0);
            }
        });
    }
}
