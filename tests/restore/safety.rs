//! Tests that parts of an archive that cannot be restored exactly are reported, and that nothing is
//! lost or exposed by that.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountFlags, mount};

use crate::support::build::{chmod, dir, file, tmpfs};

use crate::support::fuse::Manner::Hung;
use crate::support::fuse::serve;
use crate::support::pack::{end, extended, member, raw};
use crate::support::restrict::fathom_as_nobody;
use crate::support::run::{Ran, args};
use crate::support::snapshot::kept;
use crate::support::tool::tool;
use crate::support::{Need, fathom, in_namespace, require, run};

/// A full dump of `s/a/f`, and an increment in which `s/a` was renamed to `s/b`.
fn renamed(ground: &Path) -> [PathBuf; 2] {
    chmod(ground, 0o755);
    dir(ground.join("s/a/deep"));
    fs::write(ground.join("s/a/f"), "precious").unwrap();
    file(ground.join("s/a/deep/g"), 10);
    let dump = |to: &str, more: &[&str]| {
        let arguments = [&["dump", "s", "-o", to][..], more].concat();
        run(fathom(arguments).current_dir(ground)).exits(0);
    };
    dump("0.tar", &["--catalog", "c"]);
    fs::rename(ground.join("s/a"), ground.join("s/b")).unwrap();
    fs::write(ground.join("s/b/new"), "new").unwrap();
    dump("1.tar", &["--since", "c", "--catalog", "c"]);
    // A later dump lists the directory by its new name only.
    fs::write(ground.join("s/later"), "later").unwrap();
    dump("2.tar", &["--since", "c"]);
    ["0.tar", "1.tar"].map(|archive| ground.join(archive))
}

fn is_kept(to: &Path, ran: &Ran) {
    let kept = fs::read_to_string(to.join("s/a/f"));
    assert_eq!(kept.ok().as_deref(), Some("precious"), "{ran}");
    assert!(to.join("s/a/deep/g").exists(), "{ran}");
    assert!(ran.stderr.contains("cannot rename 's/a'"), "{ran}");
    assert!(ran.stderr.contains("not removed, because"), "{ran}");
    assert!(to.join("s/b/new").exists(), "{ran}");
    assert!(to.join("s/later").exists(), "{ran}");
}

/// A directory that cannot be renamed keeps its old name and its contents: the new name exists, or
/// is on a different file system.
#[test]
fn failed_rename_removes_nothing() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|ground| {
        let [full, next] = renamed(ground);
        let last = ground.join("2.tar");
        let to = dir(ground.join("not empty"));
        file(to.join("s/b/x"), 1);
        let arguments = args!["restore", &full, &next, &last, "-C", &to, "--overwrite"];
        is_kept(&to, &run(&mut fathom(arguments)).exits(1));
        assert!(to.join("s/b/x").exists());

        let to = dir(ground.join("mount"));
        tmpfs(dir(to.join("s/b")));
        let arguments = args!["restore", &full, &next, &last, "-C", &to, "--overwrite"];
        is_kept(&to, &run(&mut fathom(arguments)).exits(1));
    });
}

/// Archives of GNU tar list all directories, so after a failed rename, the next increment restores
/// its tree.
#[test]
fn archives_of_gnu_tar_go_on_after_a_failed_rename() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|ground| {
        let top = tmpfs(ground.join("top"));
        let archive = |number: usize| ground.join(format!("{number}.tar"));
        let dump = |number: usize| {
            // GNU tar compares some times in whole seconds.
            std::thread::sleep(std::time::Duration::from_millis(1100));
            let mut tar = Command::new("tar");
            tar.args(["--format=posix", "-g"])
                .arg(ground.join("snapshot"));
            tool(
                tar.arg("-cf")
                    .arg(archive(number))
                    .arg("-C")
                    .arg(&top)
                    .arg("."),
            );
        };
        file(top.join("a/f"), 1);
        file(top.join("gone/g"), 1);
        dump(0);
        fs::rename(top.join("a"), top.join("b")).unwrap();
        fs::remove_dir_all(top.join("gone")).unwrap();
        dump(1);
        file(top.join("b/new"), 1);
        dump(2);
        let archives = [0, 1, 2].map(archive);
        let [by_tar, by_fathom] = ["tar", "fathom"].map(|name| dir(ground.join(name)));
        file(by_fathom.join("b/in the way"), 1);
        for archive in &archives {
            let mut tar = Command::new("tar");
            tar.args(["--listed-incremental=/dev/null", "-xpf"])
                .arg(archive);
            let _ = tar.arg("-C").arg(&by_tar).output().unwrap();
            if archive == &archives[0] {
                // With the first archive, tar removes the file already.
                file(by_tar.join("b/in the way"), 1);
            }
        }
        let mut command = fathom(args!["restore", "-C", &by_fathom, "--overwrite"]);
        let ran = run(command.args(&archives[..2])).exits(1);
        assert!(ran.stderr.contains("cannot rename 'a'"), "{ran}");
        assert!(by_fathom.join("a/f").exists() && by_fathom.join("gone/g").exists());
        fs::remove_dir_all(&by_fathom).unwrap();
        file(by_fathom.join("b/in the way"), 1);
        let mut command = fathom(args!["restore", "-C", &by_fathom, "--overwrite"]);
        let ran = run(command.args(&archives)).exits(1);
        assert!(ran.stderr.contains("cannot rename 'a'"), "{ran}");
        let names = |top: &Path| kept(top).into_keys().collect::<Vec<_>>();
        assert_eq!(names(&by_fathom), names(&by_tar), "{ran}");
        assert!(by_fathom.join("b/new").exists() && !by_fathom.join("gone").exists());
    });
}

/// A user cannot rename a directory of a different user.
#[test]
fn rename_without_permission_removes_nothing() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|ground| {
        let [full, next] = renamed(ground);
        let last = ground.join("2.tar");
        let to = dir(ground.join("to"));
        run(&mut fathom(args!["restore", &full, "-C", &to])).exits(0);
        // The parent directory is not writable, so its entries can be neither renamed nor removed.
        tool(Command::new("chmod").arg("-R").arg("a+rwX").arg(&to));
        chmod(to.join("s"), 0o755);
        [&full, &next, &last]
            .into_iter()
            .for_each(|archive| chmod(archive, 0o644));
        let restore = args!["restore", &full, &next, &last, "-C", &to, "--overwrite"];
        let ran = run(&mut fathom_as_nobody(ground, restore)).exits(1);
        let kept = fs::read_to_string(to.join("s/a/f"));
        assert_eq!(kept.ok().as_deref(), Some("precious"), "{ran}");
    });
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

fn access_list(path: &Path) -> String {
    let listed = tool(Command::new("getfacl").args(["-cpn"]).arg(path));
    String::from_utf8(listed).unwrap()
}

/// GNU tar stores access control lists as extended attributes if it archives only these.
#[test]
fn lists_in_extended_attributes_are_restored() {
    if !require(&[Need::Root, Need::Program("setfacl")]) {
        return;
    }
    in_namespace(|ground| {
        let top = tmpfs(ground.join("top"));
        let (tree, to) = (dir(top.join("t")), dir(top.join("to")));
        let (one, inner) = (file(tree.join("f"), 10), dir(tree.join("d")));
        chmod(&one, 0o640);
        tool(Command::new("setfacl").args(["-m", "u:1000:rwx"]).arg(&one));
        let default = ["-d", "-m", "u:1000:rx,g::-"];
        tool(Command::new("setfacl").args(default).arg(&inner));
        let archive = top.join("t.tar");
        let how = ["--xattrs", "--xattrs-include=*", "-C"];
        tool(
            Command::new("tar")
                .args(how)
                .arg(&top)
                .arg("-cf")
                .arg(&archive)
                .arg("t"),
        );
        run(&mut fathom(args!["restore", &archive, "-C", &to])).exits(0);
        for name in ["t/f", "t/d"] {
            let (was, is) = (access_list(&top.join(name)), access_list(&to.join(name)));
            assert_eq!(is, was, "{name}");
        }
        let verify = |at: &Path| run(&mut fathom(args!["verify", &archive, "--against", at]));
        verify(&to).exits(0);
        verify(&top).exits(0);
        tool(Command::new("setfacl").arg("-b").arg(to.join("t/f")));
        verify(&to).exits(1);
    });
}

/// If an access control list cannot be set, nobody gets more permissions: the group's permissions
/// are in the list, and the mode contains the mask.
#[test]
fn lists_that_cannot_be_set_do_not_widen_the_mode() {
    let ground = tempfile::tempdir().unwrap();
    let lists = [
        (
            "named",
            "user::rwx,user:nobody-has-this-name:rwx,group::r--,mask::rwx,other::---",
            0o740,
        ),
        (
            "masked",
            "user::rwx,user:nobody-has-this-name:rwx,group::rwx,mask::r-x,other::---",
            0o750,
        ),
        ("malformed", "what is this", 0o700),
    ];
    let mut archive = Vec::new();
    for (name, list, _) in lists {
        archive.extend(extended(b'x', &[("SCHILY.acl.access", list.as_bytes())]));
        archive.extend(raw(name, b'0', 0, &[(100, b"0000770\0")]));
        let directory = format!("{name} directory/");
        archive.extend(extended(b'x', &[("SCHILY.acl.access", list.as_bytes())]));
        archive.extend(raw(&directory, b'5', 0, &[(100, b"0000770\0")]));
    }
    end(&mut archive);
    let at = ground.path().join("a.tar");
    fs::write(&at, archive).unwrap();
    let ran = run(&mut fathom(args!["restore", &at, "-C", ground.path()])).exits(1);
    assert!(ran.stderr.contains("access control list"), "{ran}");
    for (name, _, wanted) in lists {
        let is = mode(&ground.path().join(name));
        assert_eq!(is, wanted, "{name}: {is:o}");
        let is = mode(&ground.path().join(format!("{name} directory")));
        assert_eq!(is, wanted, "{name} directory: {is:o}");
    }
}

/// Attributes that cannot be set are named, whatever their namespace.
#[test]
fn attributes_that_cannot_be_set_are_named() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|ground| {
        let top = tmpfs(ground.join("top"));
        for (number, name) in ["system.nfs4_acl", "btrfs.compression", "other.name"]
            .into_iter()
            .enumerate()
        {
            let record = format!("SCHILY.xattr.{name}");
            let mut archive = [
                extended(b'x', &[(&record, b"zstd")]),
                member("f", b'0', b"data"),
            ]
            .concat();
            end(&mut archive);
            let at = top.join(format!("{number}.tar"));
            fs::write(&at, archive).unwrap();
            let ran = run(&mut fathom(args!["restore", &at, "-C", &top])).exits(1);
            assert!(
                ran.stderr.contains("cannot set extended attributes"),
                "{name}: {ran}"
            );
        }
        let mut archive = [
            extended(
                b'x',
                &[("RHT.security.selinux", b"system_u:object_r:etc_t:s0")],
            ),
            member("labelled", b'0', b"data"),
        ]
        .concat();
        end(&mut archive);
        let at = top.join("label.tar");
        fs::write(&at, archive).unwrap();
        let ran = run(&mut fathom(args!["restore", &at, "-C", &top]));
        let label = selinux_label(&top.join("labelled"));
        assert!(label.is_some() || ran.code() == 1, "{ran}");
    });
}

/// An NFSv4 access control list that is equivalent to the mode may be dropped on other file systems
/// without a warning.
#[test]
fn nfs4_lists_of_the_mode_are_not_missed() {
    if !require(&[Need::Root]) {
        return;
    }
    let entry = |who: &str| {
        let mut bytes = Vec::new();
        for word in [0, 0, 0x0016_01a7, who.len() as u32] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(who.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    let list = |whose: &[&str]| {
        let entries = whose.iter().flat_map(|who| entry(who));
        let count = (whose.len() as u32).to_be_bytes();
        count.into_iter().chain(entries).collect::<Vec<u8>>()
    };
    in_namespace(|ground| {
        let top = tmpfs(ground.join("top"));
        let minimal = list(&["OWNER@", "GROUP@", "EVERYONE@"]);
        let more = list(&["OWNER@", "GROUP@", "EVERYONE@", "ann@example.org"]);
        for (name, list, code) in [("minimal", minimal, 0), ("more", more, 1)] {
            let mut archive = [
                extended(b'x', &[("SCHILY.xattr.system.nfs4_acl", &list)]),
                member(name, b'0', b"data"),
            ]
            .concat();
            end(&mut archive);
            let at = top.join(format!("{name}.tar"));
            fs::write(&at, archive).unwrap();
            run(&mut fathom(args!["restore", &at, "-C", &top])).exits(code);
            let compare = args!["verify", &at, "--against", &top, "--", name];
            let compared = run(&mut fathom(compare)).exits(code);
            assert_eq!(
                compared.stderr.contains("nfs4_acl"),
                code == 1,
                "{compared}"
            );
        }
    });
}

fn selinux_label(path: &Path) -> Option<Vec<u8>> {
    let mut value = vec![0; 256];
    let n = rustix::fs::lgetxattr(path, "security.selinux", &mut value[..]).ok()?;
    value.truncate(n);
    Some(value)
}

/// A device number that is too large for Linux is refused, not truncated.
#[test]
fn devices_that_linux_does_not_have_are_refused() {
    if !require(&[Need::Root]) {
        return;
    }
    let ground = tempfile::tempdir().unwrap();
    let mut archive = Vec::new();
    for (name, major, minor) in [
        ("a", "1", "16777216"),
        ("b", "4096", "0"),
        ("c", "1", "1048576"),
    ] {
        let records = [
            ("SCHILY.devmajor", major.as_bytes()),
            ("SCHILY.devminor", minor.as_bytes()),
        ];
        archive.extend(extended(b'x', &records));
        archive.extend(raw(name, b'3', 0, &[]));
    }
    archive.extend(member("after", b'0', b"data"));
    end(&mut archive);
    let at = ground.path().join("a.tar");
    fs::write(&at, archive).unwrap();
    let ran = run(&mut fathom(args!["restore", &at, "-C", ground.path()])).exits(1);
    assert!(
        ran.stderr.contains("Linux has no device 1:16777216"),
        "{ran}"
    );
    for name in ["a", "b", "c"] {
        assert!(!ground.path().join(name).exists(), "{name}");
    }
    assert!(ground.path().join("after").exists());
}

/// A file that is not restored has no checksum to compare.
#[test]
fn damaged_file_on_a_full_disk_is_reported_once() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|ground| {
        let (from, archive) = (dir(ground.join("from")), ground.join("a.tar"));
        file(from.join("large"), 900_000);
        run(&mut fathom(args!["dump", &from, "-o", &archive])).exits(0);
        let mut bytes = fs::read(&archive).unwrap();
        bytes[500_000] ^= 1;
        fs::write(&archive, bytes).unwrap();
        let small = dir(ground.join("small"));
        mount("small", &small, "tmpfs", MountFlags::empty(), c"size=100k").unwrap();
        let ran = run(&mut fathom(args!["restore", &archive, "-C", &small])).exits(1);
        assert!(ran.stderr.contains("not restored: cannot write"), "{ran}");
        assert!(!ran.stderr.contains("data is damaged"), "{ran}");
        let ran = run(&mut fathom(args!["restore", &archive, "-C", ground])).exits(1);
        assert!(ran.stderr.contains("data is damaged"), "{ran}");
    });
}

/// A chain is not restored over existing files, because its increments would remove files that they
/// do not list. Single archives are.
#[test]
fn chain_is_not_restored_over_existing_files() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|ground| {
        let [full, next] = renamed(ground);
        let to = dir(ground.join("to"));
        file(to.join("beside"), 1);
        let chain = |more: &[&str]| {
            let arguments = args!["restore", &full, &next, "-C", &to];
            run(fathom(arguments).args(more))
        };
        chain(&[]).exits(0);
        fs::write(to.join("s/own"), "own").unwrap();
        for more in [&[][..], &["--", "s/b"], &["--dry-run"]] {
            let ran = chain(more).refused();
            assert!(ran.stderr.contains("exists and is not empty"), "{ran}");
        }
        assert!(to.join("s/own").exists());
        // The directory that the increment renames exists already, so the rename fails.
        chain(&["--dry-run", "--overwrite"]).exits(1);
        // Into a directory without the tree, the chain is restored.
        fs::rename(to.join("s"), to.join("elsewhere")).unwrap();
        chain(&[]).exits(0);
        for archive in [&full, &next] {
            let to = dir(ground.join("one by one"));
            let ran = run(&mut fathom(args!["restore", archive, "-C", to])).exits(0);
            let is_noted = ran.stderr.contains("the first archive is an increment");
            assert_eq!(is_noted, archive == &next, "{ran}");
        }
        chain(&["--overwrite"]).exits(1);
        assert!(!to.join("s/own").exists());
    });
}

/// A member of an earlier archive that an existing directory is in the way of needs no warning if a
/// later archive has a directory of its name, or removes the name.
#[test]
fn directories_in_the_way_of_outdated_members_are_no_failure() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let dump = |archive: &str, more: &[&str]| {
        let words = ["dump", "s", "-q", "-o", archive, "--catalog", "c"];
        run(fathom(words).args(more).current_dir(place.path())).exits(0);
    };
    for name in ["s/becomes", "s/goes", "s/above/goes", "s/stays"] {
        dir(at(name).parent().unwrap());
        std::os::unix::fs::symlink("target", at(name)).unwrap();
        file(at("to").join(name).join("own"), 1);
    }
    dump("0.tar", &[]);
    for name in ["s/becomes", "s/goes"] {
        fs::remove_file(at(name)).unwrap();
    }
    fs::remove_dir_all(at("s/above")).unwrap();
    file(at("s/becomes/inner"), 1);
    dump("1.tar", &["--since", "c"]);
    let restore = |more: &str| {
        let words = args![
            "restore",
            "0.tar",
            "1.tar",
            "-C",
            "to",
            "--overwrite",
            "--json",
            more
        ];
        run(fathom(words).current_dir(place.path())).exits(1)
    };
    for more in ["--dry-run", "-j1"] {
        let value = restore(more).json();
        let warnings = value["warnings"].as_array().unwrap();
        assert_eq!(warnings.len(), 1, "{more}: {value}");
        assert_eq!(warnings[0]["path"], "s/stays", "{more}");
        assert_eq!(value["result"]["skipped"], 1, "{more}");
    }
    assert!(at("to/s/becomes/inner").exists() && !at("to/s/goes").exists());
}

/// A second archive after the end of the first, as `cat` makes, is not skipped silently.
#[test]
fn concatenated_archives_are_reported() {
    let ground = tempfile::tempdir().unwrap();
    let mut both = Vec::new();
    for name in ["one", "two"] {
        both.extend(member(name, b'0', b"data"));
        end(&mut both);
    }
    let at = ground.path().join("both.tar");
    fs::write(&at, both).unwrap();
    for command in ["list", "restore", "verify"] {
        let mut command = fathom(args![command, &at]);
        let ran = run(command.current_dir(ground.path())).exits(1);
        assert!(ran.stderr.contains("data follows the end"), "{ran}");
    }
    assert!(ground.path().join("one").exists());
}

/// Members on a mount that does not answer are not restored; all others are.
#[test]
fn mounts_that_do_not_answer_are_skipped() {
    if !require(&[Need::Root, Need::Fuse]) {
        return;
    }
    in_namespace(|ground| {
        file(ground.join("s/far/x"), 10);
        file(ground.join("s/near"), 10);
        fs::hard_link(ground.join("s/far/x"), ground.join("s/link")).unwrap();
        let dump = |to: &str, more: &[&str]| {
            let arguments = [&["dump", "s", "-o", to][..], more].concat();
            run(fathom(arguments).current_dir(ground)).exits(0);
        };
        dump("0.tar", &["--catalog", "c"]);
        file(ground.join("s/new"), 10);
        fs::remove_file(ground.join("s/near")).unwrap();
        dump("1.tar", &["--since", "c"]);
        let to = ground.join("to");
        let _server = serve(Hung, to.join("s/far"));
        let restore = |words: &str| {
            let mut command = fathom(args!["restore", "--deadline", "1s"]);
            run(command.args(words.split(' ')).current_dir(ground))
        };
        for words in [
            "0.tar -C to -n",
            "0.tar -C to",
            "0.tar 1.tar -C to --overwrite",
        ] {
            let ran = restore(words).exits(1);
            let warning = "'s/far/x': not restored: its mount does not answer";
            assert!(ran.stderr.contains(warning), "{words}: {ran}");
            let is_restored = |name: &str| to.join("s").join(name).exists();
            assert_eq!(
                is_restored("near"),
                words == "0.tar -C to",
                "{words}: {ran}"
            );
            assert_eq!(
                is_restored("new"),
                words.contains("1.tar"),
                "{words}: {ran}"
            );
        }
        restore("0.tar -C to -- s/near").exits(0);
        let refused = restore("0.tar -C to/s/far").refused();
        assert!(
            refused.stderr.contains("does not answer within 1.00 s"),
            "{refused}"
        );
    });
}
