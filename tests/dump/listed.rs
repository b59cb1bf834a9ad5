//! Tests of `--files-from`, compared with GNU tar's `-T`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::changes::change;
use super::full::{NEEDS, quiet};
use super::rounds::{by_gnu_tar, grown, on};
use super::selection::{of_names, same_data};
use crate::support::build::{chmod, dir, file, tmpfs};
use crate::support::disks::{BTRFS, EXT4, XFS};
use crate::support::effort::effort;
use crate::support::fuse::Manner::Hung;
use crate::support::fuse::serve;
use crate::support::reference::settle;
use crate::support::restrict::fathom_as_nobody;
use crate::support::run::{Ran, args, calls};
use crate::support::snapshot::{ignore_inherited, kept, snapshot};
use crate::support::tool::tool;
use crate::support::trees::Dice;
use crate::support::{Need, fathom, in_namespace, require, run};

/// Runs a dump in a directory.
fn dump(at: &Path, line: &str) -> Ran {
    let arguments = line.split(' ').filter(|word| !word.is_empty());
    run(fathom(["dump"].into_iter().chain(arguments)).current_dir(at))
}

/// Names of random entries of a tree, in any order: files and directories, some below others.
fn random_names(at: &Path, dice: &mut Dice) -> Vec<Vec<u8>> {
    let found = tool(Command::new("find").current_dir(at).args([
        "tree",
        "-mindepth",
        "1",
        "!",
        "-type",
        "s",
        "-print0",
    ]));
    let found: Vec<&[u8]> = found.split(|&b| b == 0).filter(|n| !n.is_empty()).collect();
    let many = [1, 4, 40][dice.below(3)];
    (0..many).map(|_| dice.pick(&found).to_vec()).collect()
}

/// The names that are not below any other name, each once: GNU tar would archive the others twice.
fn outermost(names: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let all: BTreeSet<&[u8]> = names.iter().map(|name| &name[..]).collect();
    let is_covered = |name: &&[u8]| {
        let mut slashes = (0..name.len()).filter(|&at| name[at] == b'/');
        slashes.any(|at| all.contains(&name[..at]))
    };
    let outermost = all.iter().filter(|name| !is_covered(name));
    outermost.map(|name| name.to_vec()).collect()
}

fn write_list(list: &Path, names: &[Vec<u8>]) {
    let lines = names.iter().flat_map(|name| [&name[..], b"\0"]);
    fs::write(list, lines.collect::<Vec<_>>().concat()).unwrap();
}

/// Adds unusual spellings and duplicates of the names, and nonexistent names.
fn obscured(names: &[Vec<u8>], dice: &mut Dice) -> (Vec<Vec<u8>>, usize) {
    let mut list = names.to_vec();
    for name in names {
        match dice.below(6) {
            0 => list.push([b"./", &name[..]].concat()),
            1 => list.push(name[..].to_vec()),
            2 => list.push([&b"tree/"[..], b"/./", &name[5..]].concat()),
            _ => {}
        }
    }
    let missing = dice.below(3);
    list.extend((0..missing).map(|n| format!("tree/no such directory {n}/x").into_bytes()));
    (list, missing)
}

/// The list changes between the levels: a name that is no longer listed is removed by a restore, as
/// GNU tar would not archive it.
#[test]
fn increments_with_changing_lists_restore_what_gnu_tar_selects() {
    if !require(&NEEDS) {
        return;
    }
    for (seed, make) in [
        (91, Some(EXT4[0])),
        (92, Some(XFS[0])),
        (93, Some(BTRFS[0])),
        (94, None),
    ] {
        on(make, |at, ground| {
            let (tree, mut dice) = (dir(at.join("tree")), Dice::new(seed));
            let tars = dir(at.join("by tar"));
            grown(&tree, seed);
            let mut archives: Vec<PathBuf> = Vec::new();
            let mut names = random_names(at, &mut dice);
            for round in 0..effort(2, 50) {
                change(&tree, &mut dice, [1, 10, 30][round % 3]);
                names.retain(|name| {
                    at.join(crate::support::build::name(name))
                        .symlink_metadata()
                        .is_ok()
                });
                if names.is_empty() || dice.one_in(2) {
                    names = random_names(at, &mut dice);
                }
                if dice.one_in(2) {
                    settle(at);
                }
                let (list, missing) = obscured(&names, &mut dice);
                write_list(&ground.join("list"), &list);
                let archive = ground.join(format!("{round}.tar"));
                let (ground_path, out) = (ground.display(), archive.display());
                let since = match round {
                    0 => String::new(),
                    _ => format!("--since {ground_path}/catalog"),
                };
                let line = format!(
                    "-0 --files-from {ground_path}/list -o {out} --catalog {ground_path}/catalog {since}"
                );
                let ran = dump(at, &line).exits(i32::from(missing > 0));
                let warnings = ran.stderr.matches("does not exist").count();
                assert_eq!(warnings, missing, "{ran}");
                by_gnu_tar(&archive, &tars);
                archives.push(archive);

                write_list(&ground.join("list"), &outermost(&names));
                let reference = ground.join("reference.tar");
                let mut tar = Command::new("tar");
                tar.args(["--xattrs", "--xattrs-include=*", "--acls", "--format=pax"]);
                tar.args(["--atime-preserve=system", "--sparse", "--null", "-cf"]);
                tar.arg(&reference).arg("-C").arg(at).arg("-T");
                quiet(tar.arg(ground.join("list")));
                let expected = dir(at.join("expected"));
                by_gnu_tar(&reference, &expected);
                let wanted = of_names(kept(&tree), snapshot(&expected.join("tree")));
                fs::remove_dir_all(&expected).unwrap();

                let what = format!("round {round} of {seed}");
                let mut is = snapshot(&tars.join("tree"));
                ignore_inherited(&wanted, &mut is);
                same_data(&wanted, &is, &what);
                let fathoms = dir(at.join("by fathom"));
                run(fathom(args!["restore", "--numeric-owner", "-C", &fathoms]).args(&archives))
                    .exits(0);
                let is = snapshot(&fathoms.join("tree"));
                same_data(&wanted, &is, &what);
                assert_eq!(fs::read_dir(&fathoms).unwrap().count(), 1, "{what}");
                fs::remove_dir_all(&fathoms).unwrap();
            }
        });
    }
}

/// For a list of files, the only cost is one call per name: no directory is read.
#[test]
fn listed_files_cost_one_statx_each() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path();
    (0..2000).for_each(|n| drop(file(at.join(format!("d{}/f{n}", n % 4)), 1)));
    let gates = |count: usize| {
        let names = (0..count).map(|n| format!("d{}/f{n}\n", n % 4));
        fs::write(at.join("list"), names.collect::<String>()).unwrap();
        calls(&dump(at, "--files-from list -n --json").exits(0).json()["gates"])
    };
    let (few, many) = (gates(100), gates(1100));
    assert_eq!(many["statx"] - few["statx"], 1000, "{few:?} {many:?}");
    let sum = |gates: &std::collections::BTreeMap<String, u64>| gates.values().sum::<u64>();
    // Some calls read the list itself.
    assert!(sum(&many) - sum(&few) < 1010, "{few:?} {many:?}");
}

/// The names in an archive, as GNU tar lists them.
fn members(archive: &Path) -> Vec<String> {
    let listed = tool(Command::new("tar").arg("-tf").arg(archive));
    let listed = String::from_utf8(listed).unwrap();
    listed.lines().map(str::to_owned).collect()
}

#[test]
fn lists_of_all_kinds() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path();
    for path in ["s/a/f", "s/a/b/g", "s/c/h", "t/i", "top"] {
        file(at.join(path), 1);
    }
    symlink("s/a", at.join("link")).unwrap();
    let out = at.join("a.tar");
    fs::write(
        at.join("list"),
        "s/a/b\n\n./top\ns//c/h\ns/a/b/g\nlink/f\nlink\nno\ntop/x\n",
    )
    .unwrap();
    let ran = dump(at, "--files-from list -o a.tar").exits(1);
    let warned = |name: &str| {
        ran.stderr
            .lines()
            .filter(|line| line.contains(name))
            .count()
    };
    assert_eq!(
        ["'link/f'", "'no'", "'top/x'", "skipped"].map(warned),
        [1, 1, 1, 3],
        "{ran}"
    );
    let expected = [
        "link", "s/", "s/a/", "s/a/b/", "s/a/b/g", "s/c/", "s/c/h", "top",
    ];
    assert_eq!(members(&out), expected);
    let estimate = dump(at, "--files-from list -n --json").exits(1).json();
    let estimate = &estimate["result"]["estimates"][0]["archive_bytes"];
    assert_eq!(*estimate, fs::metadata(&out).unwrap().len(), "{estimate}");

    // The list comes from standard input; it has absolute names, and a directory with all its
    // entries.
    let piped = |names: &str, options: &str| {
        let command = format!("printf '{names}' | \"$0\" dump --files-from - -o a.tar {options}");
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &command])
            .arg(env!("CARGO_BIN_EXE_fathom"));
        run(shell.current_dir(at))
    };
    piped("t\\0top\\0", "--null").exits(0);
    assert_eq!(members(&out), ["t/", "t/i", "top"]);
    piped(&format!("{}/t\\n", at.display()), "").exits(0);
    assert!(members(&out).last().unwrap().ends_with("/t/i"));
    piped(".\\nt\\n", "--exclude a.tar").exits(0);
    assert!(members(&out).contains(&"./s/a/f".to_owned()));
    piped("t\\n", "--exclude i").exits(0);
    assert_eq!(members(&out), ["t/"]);

    // A carriage return belongs to the name.
    fs::write(at.join("end\r"), "").unwrap();
    let ran = piped("end\\r\\nt\\r\\n", "").exits(1);
    assert_eq!(members(&out).len(), 1);
    assert!(ran.stderr.contains("tr -d '\\r'"), "{ran}");

    // Several lists, like several `-T` options of GNU tar.
    fs::write(at.join("list 2"), "t\n").unwrap();
    fs::write(at.join("list 3"), "top\n").unwrap();
    let lists = "dump --files-from=list 2|--files-from|list 3|-o|a.tar";
    run(fathom(lists.replacen(' ', "|", 1).split('|')).current_dir(at)).exits(0);
    assert_eq!(members(&out), ["t/", "t/i", "top"]);

    let before = fs::read(&out).unwrap();
    for (names, message) in [
        ("", "'-': it contains no names"),
        ("\\n\\n", "'-': it contains no names"),
        ("s/a\\n/s\\n", "'/s' is absolute, and 's/a' is not"),
        ("s/../t\\n", "'s/../t' contains '..'"),
        ("a\\0b\\n", "line 1 contains a NUL"),
        ("gone\\nno/x\\n", "'gone': No such file"),
        ("top/x\\n", "'top/x': No such file"),
        ("top\\r\\nt\\r\\n", "carriage returns of CRLF lines"),
    ] {
        let ran = piped(names, "").refused();
        assert!(ran.stderr.contains(message), "{ran}");
    }
    fs::write(at.join("globs"), "*.o\r\n").unwrap();
    for (line, message) in [
        (
            "s --exclude-from globs -o a.tar",
            "line 1 ends with a carriage return",
        ),
        ("-0 s -o a.tar", "--files-from"),
        ("--files-from nowhere -o a.tar", "'nowhere': No such file"),
    ] {
        let ran = dump(at, line).refused();
        assert!(ran.stderr.contains(message), "{ran}");
    }
    assert_eq!(fs::read(&out).unwrap(), before, "an archive was replaced");
}

/// A catalog of a list cannot be used like that of a whole tree.
#[test]
fn catalogs_of_lists_are_of_the_listed_names_only() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path();
    for path in ["d/a", "d/b", "e/a"] {
        file(at.join(path), 1);
    }
    fs::write(at.join("list"), "d/a\n").unwrap();
    let state = dir(at.join("state"));
    dump(at, "--files-from list -o 0.tar --level 0 --state state").exits(0);
    fs::write(at.join("list"), "d/b\n").unwrap();
    dump(at, "--files-from list -o 1.tar --level 1 --state state").exits(0);
    let to = dir(at.join("to"));
    run(fathom(args!["restore", "--state", &state, "-C", &to]).current_dir(at)).exits(0);
    assert!(to.join("d/b").exists() && !to.join("d/a").exists());

    dump(at, "--files-from list -o 2.tar --catalog c").exits(0);
    let only = "it describes only the names of a list";
    let ran = dump(at, "d -o 3.tar --since c").refused();
    assert!(ran.stderr.contains(only), "{ran}");
    let ran = run(fathom(["changed", ".", "--since", "c"]).current_dir(at)).refused();
    assert!(ran.stderr.contains(only), "{ran}");
    // The same names relative to a different directory are different files.
    fs::copy(at.join("list"), at.join("d/list")).unwrap();
    file(at.join("d/d/b"), 1);
    let ran = dump(&at.join("d"), "--files-from list -o 3.tar --since ../c").refused();
    assert!(ran.stderr.contains("'.' is now another directory"), "{ran}");
}

/// A restore does not remove names that could not be examined, and `-x` applies to each listed
/// directory.
#[test]
fn unreadable_and_mounted_names() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|ground| {
        let at = dir(tmpfs(ground.join("at")).join("here"));
        for path in ["d/a", "d/b", "top"] {
            file(at.join(path), 1);
        }
        let mounted = tmpfs(at.join("d/mounted"));
        file(mounted.join("x/y"), 1);
        fs::write(at.join("list"), "d\ntop\n").unwrap();
        dump(&at, "-x --files-from list -o 0.tar").exits(0);
        let names = ["d/", "d/a", "d/b", "d/mounted/", "top"];
        assert_eq!(members(&at.join("0.tar")), names);
        fs::write(at.join("list"), "d\ntop\nd/mounted/x\n").unwrap();
        dump(&at, "-x --files-from list -o 0.tar").exits(0);
        assert!(members(&at.join("0.tar")).contains(&"d/mounted/x/y".to_owned()));

        dump(&at, "--files-from list -o 0.tar --catalog c").exits(0);
        let to = dir(ground.join("to"));
        fs::write(at.join("list"), "d\n").unwrap();
        dump(&at, "--files-from list -o 1.tar --since c").exits(0);
        run(&mut fathom(args![
            "restore",
            at.join("0.tar"),
            at.join("1.tar"),
            "-C",
            &to
        ]))
        .exits(0);
        assert!(to.join("d/mounted/x/y").exists() && !to.join("top").exists());
    });
}

/// Listed names together with SRCs, and patterns for both, as in GNU tar.
#[test]
fn sources_and_patterns_count_for_listed_names_as_with_gnu_tar() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path();
    for path in ["d/x/y/f", "d/x/g", "d/a", "s/b", "s/x", "x", "sub/d/x/g"] {
        file(at.join(path), 1);
    }
    for list in ["d\nd/x\n", "d/x\n", "d/x/g\nd/a\n", "x\nsub/d\n"] {
        fs::write(at.join("list"), list).unwrap();
        for source in ["", "s", "s d/x"] {
            for pattern in ["x", "d/x", "*x", "y", "d/*/f", "?/x", "[sx]", "none["] {
                let words = |more: &str| {
                    let words = format!("--exclude {pattern} {source} {more}");
                    words
                        .split(' ')
                        .filter(|w| !w.is_empty())
                        .map(str::to_owned)
                        .collect::<Vec<_>>()
                };
                let mut tar = Command::new("tar");
                tar.current_dir(at)
                    .args(["-cf", "t.tar"])
                    .args(words("-T list"));
                tool(&mut tar);
                dump(at, &words("--files-from list -o a.tar").join(" ")).exits(0);
                // Archives of tar do not contain the directories above a listed name.
                let is_selected = |name: &&String| !name.ends_with('/');
                let select = |archive: &str| -> BTreeSet<String> {
                    members(&at.join(archive))
                        .iter()
                        .filter(is_selected)
                        .cloned()
                        .collect()
                };
                assert_eq!(
                    select("a.tar"),
                    select("t.tar"),
                    "{list:?} {source:?} {pattern}"
                );
                let against = format!("--against . --files-from - --exclude '{pattern}'");
                let names = [list, &source.replace(' ', "\n")].concat();
                let command = format!("printf '{names}' | \"$0\" verify a.tar {against}");
                let mut shell = Command::new("sh");
                shell
                    .args(["-c", &command])
                    .arg(env!("CARGO_BIN_EXE_fathom"));
                if !select("a.tar").is_empty() {
                    run(shell.current_dir(at)).exits(0);
                }
            }
        }
    }
}

/// If all names lead through symlinks, the error says so.
#[test]
fn names_behind_symlinks_exist() {
    in_namespace(|at| {
        file(at.join("a/file"), 1);
        symlink("a", at.join("link")).unwrap();
        write_list(&at.join("list"), &[b"link/file".to_vec()]);
        let ran = dump(at, "-0 --files-from list -o archive.tar").exits(2);
        let hint = "give a path without symbolic links";
        assert!(
            ran.stderr.contains(hint) && !ran.stderr.contains("No such file"),
            "{ran}"
        );
    });
}

/// If a directory above listed names cannot be searched, all names below it may exist: an increment
/// removes none of them.
#[test]
fn names_in_a_directory_that_cannot_be_searched_are_kept() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|at| {
        let ground = dir(at.join("ground"));
        for name in ["t/a/x", "t/d/y", "t/d/e/z"] {
            file(ground.join(name), 1);
        }
        write_list(
            &at.join("list"),
            &[&b"t/a/x"[..], b"t/d/y", b"t/d/e/z"].map(<[u8]>::to_vec),
        );
        for path in [at, &ground] {
            chmod(path, 0o777);
        }
        let night = |number: usize, code: i32| {
            let archive = at.join(format!("{number}.tar"));
            let (list, catalog) = (at.join("list"), at.join("catalog"));
            let words = args![
                "dump",
                "-0",
                "--files-from",
                list,
                "-o",
                archive,
                "--catalog",
                catalog
            ];
            let mut command = fathom_as_nobody(at, words);
            if number > 0 {
                command.args(args!["--since", catalog]);
            }
            run(command.current_dir(&ground)).exits(code)
        };
        night(0, 0);
        chmod(ground.join("t/d"), 0o0);
        let ran = night(1, 1);
        assert!(
            ran.stderr.contains("'t/d/e'") && ran.stderr.contains(" 0 removed"),
            "{ran}"
        );
        let words = args!["restore", "0.tar", "1.tar", "-C", "out"];
        dir(at.join("out"));
        run(fathom(words).current_dir(at)).exits(0);
        for name in ["t/a/x", "t/d/y", "t/d/e/z"] {
            assert!(at.join("out").join(name).exists(), "{name}");
        }
    });
}

/// Listed names on a mount that does not answer are skipped. A mount without listed names does not
/// matter.
#[test]
fn listed_names_on_a_server_that_does_not_answer_are_skipped() {
    if !require(&[Need::Root, Need::Fuse]) {
        return;
    }
    in_namespace(|ground| {
        file(ground.join("tree/near"), 10);
        let _servers = ["tree/far", "other"].map(|at| serve(Hung, ground.join(at)));
        fs::write(ground.join("near"), "tree/near\n").unwrap();
        fs::write(ground.join("both"), "tree/far/file\ntree/near\n").unwrap();
        fs::write(ground.join("all"), "tree\n").unwrap();
        for (list, silent) in [
            ("near", &[][..]),
            ("both", &["tree/far"][..]),
            ("all", &["tree/far"][..]),
        ] {
            let line = format!("--files-from {list} -o {list}.tar --deadline 1s --json");
            let ran = dump(ground, &line).exits(i32::from(!silent.is_empty()));
            let value = ran.json();
            let warnings = value["warnings"].as_array().unwrap().iter();
            let paths: Vec<&str> = warnings.map(|it| it["path"].as_str().unwrap()).collect();
            assert_eq!(paths, silent, "{list}: {value}");
            assert_eq!(value["result"]["files"], 1, "{list}: {value}");
        }
    });
}
