//! Tests of files that other users put in the place of a SRC, of an output or of a state directory.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, XattrFlags, lremovexattr, lsetxattr, mknodat};

use super::rounds::on;
use crate::support::build::{chmod, dir, file};
use crate::support::disks::EXT4;
use crate::support::fuse::{Manner, serve};
use crate::support::hold::{Hold, Stop};
use crate::support::need::Need;
use crate::support::recipe::{search_path, service};
use crate::support::restrict::fathom_in;
use crate::support::run::args;
use crate::support::snapshot::{kept, same};
use crate::support::wait::wait_until;
use crate::support::{fathom, fathom_path, in_namespace, require, run};

const NEEDS: [Need; 1] = [Need::Root];
/// The attribute that is an access control list.
const ACL: &str = "system.posix_acl_access";
/// The user nobody.
const OTHER: u32 = 65_534;

fn give(path: &Path) {
    std::os::unix::fs::lchown(path, Some(OTHER), Some(OTHER)).unwrap();
}

fn permissions(path: &Path) -> (u32, u32) {
    let seen = path.symlink_metadata().unwrap();
    (seen.uid(), seen.mode() & 0o7777)
}

fn has(archive: &Path, text: &str) -> bool {
    let bytes = fs::read(archive).unwrap();
    bytes
        .windows(text.len())
        .any(|some| some == text.as_bytes())
}

/// While a tree is gathered, its owner replaces it by a symlink to a different tree.
#[test]
fn source_that_is_swapped_meanwhile_is_not_read() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(EXT4[0]), |at, ground| {
        let (home, secret) = (dir(at.join("home")), at.join("secret"));
        give(&home);
        // With few descriptors, only some SRCs can stay open until they are read.
        let many: Vec<_> = (0..64)
            .map(|n| dir(ground.join(format!("many/{n}"))))
            .collect();
        for (nth, (name, before)) in [("", 0), ("", 64), ("a", 0)].into_iter().enumerate() {
            let mut limited = std::process::Command::new("prlimit");
            limited.arg("--nofile=256:256").arg(fathom_path());
            let tree = home.join("tree");
            for (tree, text) in [(&tree, "public"), (&secret, "SECRET")] {
                for name in ["a", "d/b", "d/large", "last/c"] {
                    let path = tree.join(name);
                    dir(path.parent().unwrap());
                    let times = if name == "d/large" { 500_000 } else { 1 };
                    fs::write(&path, text.repeat(times)).unwrap();
                    chmod(&path, if text == "SECRET" { 0o600 } else { 0o644 });
                }
            }
            let archive = ground.join(format!("{nth}.tar"));
            let last = dir(ground.join(format!("extra-{nth}/last")));
            let hold = Hold::new(Stop::Open(&last));
            let words = args!["dump", "--gather", "combined", "-j1", "-o", archive];
            let mut child = limited
                .args(words)
                .args(&many[..before])
                .args([tree.join(name), last.parent().unwrap().to_owned()])
                .stderr(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            hold.wait(&mut child);
            fs::rename(&tree, home.join("moved")).unwrap();
            symlink(&secret, &tree).unwrap();
            drop(hold);
            let ended = child.wait_with_output().unwrap();
            let told = String::from_utf8_lossy(&ended.stderr);
            assert!(!has(&archive, "SECRET"), "{told}");
            let is_open = before == 0 && name.is_empty();
            assert_eq!(ended.status.code(), Some(i32::from(!is_open)), "{told}");
            assert_eq!(
                told.contains("another file has its path now"),
                !is_open,
                "{told}"
            );
            assert_eq!(has(&archive, "public"), is_open, "{told}");
            fs::remove_file(&tree).unwrap();
            fs::remove_dir_all(home.join("moved")).unwrap();
        }
    });
}

/// While listed names are examined, the owner of their directory replaces it by a symlink to a
/// different directory.
#[test]
fn listed_names_in_a_swapped_directory_are_not_examined() {
    if !require(&[Need::Root, Need::Fuse]) {
        return;
    }
    on(Some(EXT4[0]), |at, ground| {
        let (home, secret) = (dir(at.join("home")), dir(at.join("secret")));
        give(&home);
        fs::write(secret.join("f"), "SECRET").unwrap();
        file(home.join("d/f"), 1);
        let (list, archive) = (ground.join("list"), ground.join("listed.tar"));
        let catalog = ground.join("catalog");
        fs::write(&list, "home/d/a\nhome/d/f\n").unwrap();
        let server = serve(Manner::Held, home.join("d/a"));
        let words = args![
            "dump",
            "--files-from",
            list,
            "-o",
            archive,
            "--catalog",
            catalog
        ];
        let child = fathom(words)
            .current_dir(at)
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        wait_until("the first name is examined", || server.requests() > 0);
        fs::rename(home.join("d"), home.join("moved")).unwrap();
        symlink(&secret, home.join("d")).unwrap();
        server.release(1000);
        let ended = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&ended.stderr);
        let told = format!("{:?}: {told}", ended.status);
        // The check of mounts examines the first name, so both names are in the swapped directory
        // when they are dumped: nothing is left.
        assert_eq!(ended.status.code(), Some(2), "{told}");
        assert!(!catalog.exists() && !archive.exists(), "{told}");
    });
}

/// A different user has created a file, symlink or fifo under the name of an output.
#[test]
fn output_is_written_to_nothing_that_others_have_planted() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(EXT4[0]), |at, _ground| {
        let source = dir(at.join("source"));
        file(source.join("f"), 100);
        let victim = file(at.join("victim"), 5);
        // The directory's owner and mode, and whether a different user may write to it.
        for (nth, (owner, mode, is_open)) in [
            (0, 0o777, true),
            (0, 0o1777, true),
            (0, 0o775, true),
            (OTHER, 0o755, true),
            (0, 0o755, false),
        ]
        .into_iter()
        .enumerate()
        {
            let place = dir(at.join(format!("place-{nth}")));
            chmod(&place, mode);
            chown(&place, Some(owner), Some(OTHER)).unwrap();
            let outputs = [
                ("dump", "-o", "archive.tar"),
                ("dump", "--catalog", "catalog"),
                ("dump", "--map", "map"),
                ("walk", "--catalog", "of-walk"),
            ];
            for (command, option, name) in outputs {
                let path = place.join(name);
                let write = || {
                    let mut words = args![command, "-q", option, path, source].to_vec();
                    if option != "-o" && command == "dump" {
                        words.extend(args!["-o", at.join("archive")]);
                    }
                    run(&mut fathom(words))
                };
                let what = format!("{option} in {owner}:{mode:o}");
                symlink(&victim, &path).unwrap();
                give(&path);
                match is_open {
                    true => assert!(write().refused().stderr.contains("another user"), "{what}"),
                    false => drop(write().exits(0)),
                }
                assert_eq!(victim.metadata().unwrap().len() == 5, is_open, "{what}");
                file(&victim, 5);
                fs::remove_file(&path).unwrap();

                mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
                give(&path);
                if is_open {
                    assert!(write().refused().stderr.contains("another user"), "{what}");
                }
                fs::remove_file(&path).unwrap();

                file(&path, 1);
                chmod(&path, 0o666);
                give(&path);
                write().exits(0);
                assert_eq!(permissions(&path), (0, 0o600), "{what}");
                // A file of the user who runs fathom may have any type.
                fs::remove_file(&path).unwrap();
                symlink(&victim, &path).unwrap();
                write().exits(0);
                assert!(
                    path.is_symlink() && victim.metadata().unwrap().len() != 5,
                    "{what}"
                );
                file(&victim, 5);
                fs::remove_file(&path).unwrap();
            }
        }
    });
}

/// Archives, catalogs, lists and records may contain data that other users must not read.
#[test]
fn outputs_are_private_unless_something_else_is_asked_for() {
    let at = tempfile::tempdir().unwrap();
    let at = at.path();
    let source = dir(at.join("source"));
    file(source.join("f"), 100);
    let state = dir(at.join("state"));
    let mode = |name: &str| at.join(name).metadata().unwrap().mode() & 0o7777;
    let write = |mode: &[&str]| {
        let [archive, map, catalog] = ["a.tar", "map", "cat"].map(|it| at.join(it));
        let level = args!["--level", "0", "--state", state];
        let dump = args!["dump", "-q", "-o", archive, "--map", map, source];
        let dump = [&dump[..], &level].concat();
        let walk = args!["walk", "-q", "--catalog", catalog, source].to_vec();
        for words in [dump, walk] {
            run(fathom(words).args(mode)).exits(0);
        }
    };
    let names = [
        "a.tar",
        "map",
        "cat",
        "state/dumps.ndjson",
        "state/level-0.parquet",
    ];
    write(&[]);
    names
        .iter()
        .for_each(|name| assert_eq!(mode(name), 0o600, "{name}"));
    names.iter().for_each(|name| chmod(at.join(name), 0o644));
    write(&[]);
    names
        .iter()
        .for_each(|name| assert_eq!(mode(name), 0o644, "{name} is replaced"));
    write(&["--mode", "640"]);
    names
        .iter()
        .for_each(|name| assert_eq!(mode(name), 0o640, "{name}"));
    for bad in ["rw-r-----", "8", "1777", "077", "-1", ""] {
        let words = args![
            "walk",
            "-q",
            "--catalog",
            at.join("bad"),
            "--mode",
            bad,
            source
        ];
        run(&mut fathom(words)).refused();
    }
}

/// Records of other users must not be trusted: a user who may write to a state directory could have
/// any file removed or restored.
#[test]
fn records_of_other_users_are_not_believed() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(EXT4[0]), |at, _ground| {
        let source = dir(at.join("source"));
        file(source.join("f"), 100);
        let state = dir(at.join("state"));
        let archive = |n: usize| at.join(format!("{n}.tar"));
        let dump = |n: usize| {
            run(&mut fathom(args![
                "dump",
                "-q",
                "-o",
                archive(n),
                "--level",
                "0",
                "--state",
                state,
                source
            ]))
        };
        for n in 0..3 {
            file(source.join(format!("new-{n}")), 10);
            dump(n).exits(0);
        }
        let prune = args![
            "dump",
            "-q",
            "--prune",
            "--yes",
            "--keep-full",
            "1",
            "--state",
            state
        ];
        let to = dir(at.join("to"));
        let uses = [
            prune.to_vec(),
            args!["restore", "-q", "--state", state, "-C", to].to_vec(),
            args!["list", "-q", "--state", state].to_vec(),
            args![
                "dump",
                "-q",
                "-o",
                archive(9),
                "--level",
                "1",
                "--state",
                state,
                source
            ]
            .to_vec(),
            args!["dump", "-q", "-n", "--level", "1", "--state", state, source].to_vec(),
        ];
        let records = state.join("dumps.ndjson");
        let level = state.join("level-0.parquet");
        let refused = |what: &str, uses: &[Vec<std::ffi::OsString>]| {
            for words in uses {
                let told = run(&mut fathom(words.clone())).refused().stderr;
                let is_told = told.contains("another user") || told.contains("others than its");
                assert!(is_told, "{what}: {words:?}: {told}");
            }
            (0..3).for_each(|n| assert!(archive(n).exists(), "{what}"));
            assert!(!archive(9).exists());
        };
        for (path, some) in [(&state, 0..5), (&records, 0..3), (&level, 3..5)] {
            let (owner, mode) = permissions(path);
            chmod(path, mode | 0o002);
            refused("for all", &uses[some.clone()]);
            chmod(path, mode | 0o020);
            chown(path, None, Some(OTHER)).unwrap();
            refused("for a group", &uses[some.clone()]);
            chown(path, None, Some(0)).unwrap();
            chmod(path, mode);
            let acl = [
                (1, 6, u32::MAX),
                (2, 6, OTHER),
                (4, 0, u32::MAX),
                (0x10, 6, u32::MAX),
                (0x20, 0, u32::MAX),
            ];
            let entry = |(tag, permissions, id): (u16, u16, u32)| {
                [
                    &tag.to_le_bytes()[..],
                    &permissions.to_le_bytes(),
                    &id.to_le_bytes(),
                ]
                .concat()
            };
            let acl = [&2_u32.to_le_bytes()[..], &acl.map(entry).concat()].concat();
            lsetxattr(path, ACL, &acl, XattrFlags::empty()).unwrap();
            refused("by a list", &uses[some.clone()]);
            lremovexattr(path, ACL).unwrap();
            chmod(path, mode);
            give(path);
            refused("another owner", &uses[some]);
            chown(path, Some(owner), Some(0)).unwrap();
        }
        // A planted record names a different file, which has the size and time of the archive.
        let text = fs::read_to_string(&records).unwrap();
        let plant = |n: usize| {
            let (archive, victim) = (archive(n), at.join(format!("victim-{n}")));
            let seen = archive.metadata().unwrap();
            fs::write(&victim, vec![b'x'; seen.len() as usize]).unwrap();
            let times = fs::FileTimes::new().set_modified(seen.modified().unwrap());
            let opened = fs::File::options().write(true).open(&victim).unwrap();
            opened.set_times(times).unwrap();
            fs::write(
                &records,
                text.replace(&format!("/{n}.tar"), &format!("/victim-{n}")),
            )
            .unwrap();
            victim
        };
        plant(2);
        let restored = run(&mut fathom(uses[1].clone())).exits(2);
        let told = "victim-2' is another file now";
        assert!(restored.stderr.contains(told), "{restored}");
        let victim = plant(0);
        let pruned = run(&mut fathom(prune)).exits(1);
        assert!(pruned.stderr.contains("victim-0': not removed"), "{pruned}");
        assert!(victim.exists() && archive(0).exists() && !archive(1).exists());
        assert_eq!(
            fs::metadata(&records).unwrap().permissions().mode() & 0o777,
            0o600
        );
    });
}

/// The services of docs/backup.md for a dump and a survey: with their capabilities, an ordinary
/// user reads files that only root may read.
#[test]
fn services_of_the_book_need_few_capabilities() {
    if !require(&[Need::Root, Need::Program("setpriv")]) {
        return;
    }
    in_namespace(|ground| {
        let tree = dir(ground.join("tree"));
        for name in ["private/f", "private/d/g"] {
            let path = file(tree.join(name), 1000);
            chmod(&path, 0);
            chmod(path.parent().unwrap(), 0o700);
        }
        let [backup, state] = ["backup", "state"].map(|name| dir(ground.join(name)));
        for dir in [&backup, &state] {
            chown(dir, Some(1000), Some(1000)).unwrap();
            chmod(dir, 0o700);
        }
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        let paths = [
            ("dump /srv ", &format!("dump {} ", path(&tree))[..]),
            ("survey / ", &format!("survey {} --limit 1s ", path(&tree))),
            ("/backup", &path(&backup)),
            ("/var/lib/fathom", &path(&state)),
        ];
        let program = fathom_in(&ground.join("bin"));
        let programs = search_path(&[&program]);
        for mut command in service("root.md", "fathom-dump.service", &paths, &programs) {
            run(&mut command).exits(0);
        }
        let archive = fs::read_dir(&backup)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        assert_eq!(permissions(&archive), (1000, 0o600));
        let to = dir(ground.join("to"));
        run(&mut fathom(args!["restore", "-q", archive, "-C", to])).exits(0);
        same(
            &kept(&tree),
            &kept(&to.join(tree.strip_prefix("/").unwrap())),
            "the dump",
        );
        for mut command in service("root.md", "A weekly survey", &paths, &programs) {
            let code = run(&mut command).code();
            assert!(code < 2, "a finding is no failure");
        }
        assert!(state.join("survey.html").exists());
    });
}

/// A different user has replaced a state directory by a symlink to the state directory of a
/// different tree.
#[test]
fn state_behind_a_symlink_of_another_user_is_refused() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(EXT4[0]), |at, _ground| {
        let source = dir(at.join("source"));
        file(source.join("f"), 100);
        let (state, home) = (dir(at.join("state")), dir(at.join("home")));
        let archives = [0, 1].map(|nth| at.join(format!("{nth}.tar")));
        for archive in &archives {
            let words = args![
                "dump", "-q", "-o", archive, "--level", "0", "--state", state, source
            ];
            run(&mut fathom(words)).exits(0);
        }
        let link = home.join("state");
        symlink(&state, &link).unwrap();
        let prune = args![
            "dump",
            "-q",
            "--prune",
            "--yes",
            "--keep-full",
            "1",
            "--state",
            link
        ];
        let owners = [
            (OTHER, OTHER, false),
            (0, OTHER, false),
            (OTHER, 0, true),
            (0, 0, true),
        ];
        for (of_home, of_link, is_followed) in owners {
            chown(&home, Some(of_home), None).unwrap();
            std::os::unix::fs::lchown(&link, Some(of_link), None).unwrap();
            let what = format!("{of_home} {of_link}");
            let listed = run(&mut fathom(args!["list", "-q", "--state", link]));
            let is_safe = of_home == 0 || is_followed;
            match is_safe {
                true => drop(listed.exits(0)),
                false => {
                    assert!(listed.refused().stderr.contains("another user"), "{what}");
                    let pruned = run(&mut fathom(prune.clone())).refused().stderr;
                    assert!(pruned.contains("another user"), "{what}: {pruned}");
                }
            }
            assert!(archives.iter().all(|it| it.exists()), "{what}");
        }
        run(&mut fathom(prune)).exits(0);
        assert!(!archives[0].exists());
    });
}

/// During a restore, a different user replaces the archive by one with the same size and time.
#[test]
fn archive_that_is_swapped_meanwhile_is_not_restored() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(EXT4[0]), |at, ground| {
        let (source, state) = (dir(at.join("source")), dir(at.join("state")));
        let place = dir(at.join("archives"));
        give(&place);
        fs::write(source.join("f"), "public").unwrap();
        let (archive, planted) = (place.join("0.tar"), at.join("planted.tar"));
        let words = args![
            "dump", "-q", "-o", archive, "--level", "0", "--state", state, source
        ];
        run(&mut fathom(words)).exits(0);
        fs::write(source.join("f"), "HOSTIL").unwrap();
        run(&mut fathom(args!["dump", "-q", "-o", planted, source])).exits(0);
        let seen = archive.metadata().unwrap();
        assert_eq!(seen.len(), planted.metadata().unwrap().len());
        let times = fs::FileTimes::new().set_modified(seen.modified().unwrap());
        let opened = fs::File::options().write(true).open(&planted).unwrap();
        opened.set_times(times).unwrap();
        give(&planted);
        let original = at.join("original.tar");
        fs::hard_link(&archive, &original).unwrap();
        let mut opens = 0;
        for nth in 0.. {
            let to = dir(ground.join(format!("to-{nth}")));
            fs::remove_file(&archive).unwrap();
            fs::hard_link(&original, &archive).unwrap();
            let mut count = 0;
            let name = archive.clone();
            let hold = Hold::when(Stop::OpenFileIn(&place), move |path| {
                count += usize::from(path == name);
                count == nth + 1
            });
            let words = args!["restore", "-q", "--state", state, "-C", to];
            let mut child = fathom(words).spawn().unwrap();
            let held = hold.wait_unless(|| child.try_wait().unwrap().is_some());
            if held.is_none() {
                assert!(child.wait().unwrap().success());
                opens = nth;
                break;
            }
            let spare = place.join("spare");
            fs::hard_link(&planted, &spare).unwrap();
            fs::rename(&spare, &archive).unwrap();
            drop(hold);
            child.wait().unwrap();
            let restored = to.join(source.strip_prefix("/").unwrap()).join("f");
            let text = fs::read_to_string(restored).unwrap_or_default();
            assert!(["", "public"].contains(&&text[..]), "{nth}: {text}");
        }
        assert!(opens > 1, "{opens}");
    });
}
