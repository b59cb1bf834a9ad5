//! Tests of the formats for other programs: every name is exact.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountFlags, mount_remount};

use super::counts::profile;
use crate::support::build::{bind, dir, file, name, odd_names, tmpfs};
use crate::support::fuse::{Manner, serve};
use crate::support::reference::{plain, table, visible};
use crate::support::run::{Ran, args};
use crate::support::terminal::at_terminal;
use crate::support::tool::tool;
use crate::support::{Need, fathom, in_namespace, require, run};

fn format(root: &Path, format: &str) -> Ran {
    run(&mut fathom(args!["mounts", root, "--format", format]))
}

fn odd_mounts(base: &Path) {
    for odd in odd_names() {
        let at = dir(base.join(name(&odd)));
        // The source is as unusual as the target, as far as the kernel's own table can represent
        // it.
        rustix::mount::mount(
            name(&odd),
            &at,
            "tmpfs",
            rustix::mount::MountFlags::empty(),
            None,
        )
        .unwrap();
    }
    bind(file(base.join("a file"), 1), base.join("on a file"));
}

#[test]
fn findmnt_reads_mnttab_and_fstab() {
    if require(&[Need::Root, Need::Program("findmnt")]) {
        in_namespace(|base| {
            let tree = dir(base.join("tree"));
            odd_mounts(&tree);
            let expected: BTreeSet<_> = table(&tree)
                .into_iter()
                .map(|m| (m.target, m.source, m.fstype))
                .collect();
            for kind in ["mnttab", "fstab"] {
                let tab = base.join("tab");
                fs::write(&tab, format(&tree, kind).exits(0).stdout).unwrap();
                let columns = ["--raw", "--noheadings", "--output", "TARGET,SOURCE,FSTYPE"];
                let printed = tool(
                    Command::new("findmnt")
                        .arg("--tab-file")
                        .arg(&tab)
                        .args(columns),
                );
                let given: BTreeSet<_> = printed
                    .split(|&b| b == b'\n')
                    .filter(|line| !line.is_empty())
                    .map(row)
                    .collect();
                if kind == "mnttab" {
                    assert_eq!(given, expected);
                } else {
                    let places = |all: &BTreeSet<ListedMount>| {
                        all.iter().map(|row| row.0.clone()).collect::<BTreeSet<_>>()
                    };
                    assert_eq!(places(&given), places(&expected), "fstab");
                }
            }
        });
    }
}

type ListedMount = (PathBuf, Vec<u8>, String);

/// A row of `findmnt --raw`: unsafe bytes are `\x` and two hexadecimal digits.
fn row(line: &[u8]) -> ListedMount {
    let unhex = |field: &[u8]| {
        let mut out = Vec::new();
        let mut rest = field;
        while let Some(&first) = rest.first() {
            let hex = rest.strip_prefix(b"\\x").and_then(|hex| hex.get(..2));
            match hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()) {
                Some(byte) => {
                    out.push(byte);
                    rest = &rest[4..];
                }
                None => {
                    out.push(first);
                    rest = &rest[1..];
                }
            }
        }
        out
    };
    let fields: Vec<Vec<u8>> = line.split(|&b| b == b' ').map(unhex).collect();
    let [target, source, fstype] =
        <[Vec<u8>; 3]>::try_from(fields).unwrap_or_else(|f| panic!("not three fields: {f:?}"));
    (
        PathBuf::from(OsString::from_vec(target)),
        source,
        String::from_utf8(fstype).unwrap(),
    )
}

#[test]
fn mnttab_equals_proc_mounts() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            odd_mounts(base);
            let written = format(base, "mnttab").exits(0).stdout;
            let kernel = fs::read("/proc/thread-self/mounts").unwrap();
            let ours = |fields: &Vec<Vec<u8>>| fields[1].starts_with(base.as_os_str().as_bytes());
            let expected: BTreeSet<_> = rows(&kernel).filter(ours).collect();
            assert_eq!(rows(&written).collect::<BTreeSet<_>>(), expected);
        });
    }
}

/// The lines of a mount table, each field without its escapes.
fn rows(text: &[u8]) -> impl Iterator<Item = Vec<Vec<u8>>> {
    let lines = text.split(|&b| b == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| line.split(|&b| b == b' ').map(plain).collect())
}

#[test]
fn paths0_is_exact_for_every_byte() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            odd_mounts(base);
            let stdout = format(base, "paths0").exits(0).stdout;
            assert_eq!(stdout.last(), Some(&0));
            let given: BTreeSet<PathBuf> = stdout[..stdout.len() - 1]
                .split(|&b| b == 0)
                .map(|p| PathBuf::from(name(p)))
                .collect();
            assert_eq!(given, visible(base));
        });
    }
}

#[test]
fn paths_prints_one_path_per_line() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            tmpfs(base.join("a"));
            tmpfs(base.join("b"));
            let ran = format(base, "paths").exits(0);
            let given: BTreeSet<PathBuf> = ran.lines().into_iter().map(PathBuf::from).collect();
            assert_eq!(given, visible(base));
        });
    }
}

#[test]
fn table_escapes_control_characters() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            odd_mounts(base);
            let rows = |ran: &Ran| {
                let text = String::from_utf8(ran.stdout.clone()).expect("not UTF-8");
                assert!(
                    !text.contains(|c: char| c.is_control() && c != '\n'),
                    "{text:?}"
                );
                text.lines().count()
            };
            let table = format(base, "table").exits(0);
            assert!(rows(&table) > odd_names().len());
            assert_eq!(
                run(&mut fathom(args!["mounts", base])).stdout,
                table.stdout,
                "table is the default"
            );
            rows(&run(&mut fathom(args!["mounts", base, "--by", "naive"])).exits(0));
            let failing =
                run(&mut fathom(args!["mounts", base.join("\x1b[31mno\nsuch")])).refused();
            assert!(
                !failing
                    .stderr
                    .contains(|c: char| c.is_control() && c != '\n'),
                "{failing}"
            );
        });
    }
}

/// Backup programs read the patterns, and skip only the dead mounts.
#[test]
fn backup_tools_exclude_dead_mounts_only() {
    let programs = ["tar", "restic", "borg"].map(Need::Program);
    if require(&[Need::Root, Need::Fuse]) && require(&programs) {
        in_namespace(|base| {
            let tree = dir(base.join("tree"));
            let dead: [&[u8]; 22] = [
                b"st*le [x]",
                b"-dead",
                b"back\\slash",
                b"q?",
                b"$HOME",
                b"blank ",
                b"tab\t",
                b"new\nline",
                b"end\\",
                b"*",
                b"[a",
                b"#comment",
                b"!not",
                b"~",
                b"{x,y}",
                b"return\rin",
                b"return\r",
                b"newline\n",
                b"unit\x1f",
                b"vertical\x0b",
                b"no-break\xc2\xa0",
                b"odd \xff",
            ];
            let _servers = dead.map(|dead| serve(Manner::Stale, tree.join(name(dead))));
            const ALIVE: [&str; 9] = [
                "stXle x/file",
                "Xdead/file",
                "backXslash/file",
                "qX/file",
                "fine/file",
                "blank/file",
                "a/file",
                "x/file",
                "no-break/file",
            ];
            for alive in ALIVE {
                file(tree.join(alive), 1);
            }
            tmpfs(tree.join("fine"));
            file(tree.join("fine/file"), 1);

            let excludes = base.join("excludes");
            let ran = run(&mut fathom(args![
                "mounts", &tree, "--check", "--format", "exclude"
            ]))
            .exits(1);
            let patterns = ran.stdout.iter().filter(|byte| **byte == b'\n');
            assert_eq!(patterns.count(), dead.len(), "{ran}");
            fs::write(&excludes, &ran.stdout).unwrap();
            let holds = |list: &[u8], program: &str| {
                let list = String::from_utf8_lossy(list);
                let files = list.lines().filter(|line| line.ends_with("/file"));
                let mut files: Vec<_> =
                    files.filter_map(|line| line.split_once("/tree/")).collect();
                files.sort_unstable();
                let mut expected = ALIVE;
                expected.sort_unstable();
                let files: Vec<&str> = files.into_iter().map(|(_, file)| file).collect();
                assert_eq!(files, expected, "{program}: {list}");
                let in_dead =
                    |dead: &&[u8]| list.contains(&format!("/{}/", String::from_utf8_lossy(dead)));
                assert!(!dead.iter().any(in_dead), "{program}: {list}");
            };

            let archive = base.join("archive.tar");
            // In the locale C, tar would match a character of two bytes as two.
            let mut tar = Command::new("env");
            tar.args(["LC_ALL=C.UTF-8", "tar"]);
            tool(
                tar.arg("-cPf")
                    .arg(&archive)
                    .arg("-X")
                    .arg(&excludes)
                    .arg(&tree),
            );
            holds(&tool(Command::new("tar").arg("-tPf").arg(&archive)), "tar");

            let restic = |words: &[&str]| {
                let mut restic = Command::new("restic");
                restic
                    .args(["--no-cache", "-q", "--repo"])
                    .arg(base.join("restic"));
                restic.args(words).env("RESTIC_PASSWORD", "test");
                restic
            };
            tool(&mut restic(&["init"]));
            tool(
                restic(&["backup", "--exclude-file"])
                    .arg(&excludes)
                    .arg(&tree),
            );
            holds(&tool(&mut restic(&["ls", "latest"])), "restic");

            let (repository, one) = (
                base.join("borg"),
                format!("{}::one", base.join("borg").display()),
            );
            let borg = |words: &[&str]| {
                let mut borg = Command::new("borg");
                borg.args(words)
                    .env("BORG_BASE_DIR", base.join("base"))
                    .env("LC_ALL", "C.UTF-8");
                borg
            };
            tool(borg(&["init", "-e", "none"]).arg(&repository));
            tool(
                borg(&["create", "--exclude-from"])
                    .arg(&excludes)
                    .arg(&one)
                    .arg(&tree),
            );
            holds(&tool(borg(&["list", "--short"]).arg(&one)), "borg");
        });
    }
}

#[test]
fn without_dead_mounts_the_excludes_are_empty() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let ran = run(&mut fathom(args![
                "mounts", base, "--check", "--format", "exclude"
            ]))
            .exits(0);
            assert_eq!(ran.stdout, b"");
        });
    }
}

#[test]
fn fstab_keeps_the_options_of_a_bind_mount() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let tree = dir(base.join("tree"));
            let from = dir(tree.join("from"));
            let strict = bind(&from, tree.join("strict"));
            let flags =
                MountFlags::BIND | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
            mount_remount(&strict, flags | MountFlags::RDONLY, c"").unwrap();
            let orphan = bind(dir(tree.join("gone")), tree.join("orphan"));
            fs::remove_dir(tree.join("gone")).unwrap();

            let ran = format(&tree, "fstab").exits(0);
            let line = |at: &Path| {
                let holds = |line: &&str| line.contains(&format!(" {} ", at.display()));
                ran.lines()
                    .into_iter()
                    .find(holds)
                    .unwrap_or_else(|| panic!("no {}: {ran}", at.display()))
                    .to_owned()
            };
            let bound = line(&strict);
            let fields: Vec<&str> = bound.split(' ').collect();
            assert_eq!(
                fields[..3],
                [from.to_str().unwrap(), strict.to_str().unwrap(), "none"]
            );
            let options: BTreeSet<&str> = fields[3].split(',').collect();
            assert!(
                options.is_superset(&["bind", "nosuid", "nodev", "noexec", "ro"].into()),
                "{bound}"
            );
            assert!(line(&orphan).starts_with("# "), "{ran}");
        });
    }
}

#[test]
fn fstab_names_the_original_of_a_bind_mount_outside_of_the_root() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let (shown, tree) = (dir(base.join("shown")), dir(base.join("tree")));
            let (at, own) = (bind(&shown, tree.join("at")), tmpfs(tree.join("own")));
            let bound = format!("{} {} none bind 0 0", shown.display(), at.display());
            for by in ["auto", "kernel"] {
                let ran = run(&mut fathom(args![
                    "mounts", &tree, "--by", by, "--format", "fstab"
                ]))
                .exits(0);
                let written = ran.lines();
                assert_eq!((written.len(), written[0]), (2, &*bound), "{ran}");
                assert!(
                    written[1].contains(&format!(" {} tmpfs ", own.display())),
                    "{ran}"
                );
            }
        });
    }
}

#[test]
fn fstab_of_three_thousand_bind_mounts_reads_the_table_twice() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            const MANY: usize = 3000;
            let tree = dir(base.join("tree"));
            // Every bind mount below the root has its own original.
            let bound = |n| {
                let (from, to) = (base.join(format!("from{n}")), tree.join(format!("to{n}")));
                bind(dir(&from), &to);
                format!("{} {} none bind 0 0", from.display(), to.display())
            };
            let expected: BTreeSet<String> = (0..MANY).map(bound).collect();
            let all = table(Path::new("/")).len() as u64;
            let command = args!["mounts", &tree, "--format", "fstab", "--profile"];
            let ran = run(&mut fathom(command)).exits(0);
            let given: BTreeSet<String> = ran.lines().into_iter().map(str::to_owned).collect();
            assert_eq!((given, ran.lines().len()), (expected, MANY));
            let calls: u64 = profile(&ran.stderr).values().sum();
            // Whether a mount may hang is read from mountinfo, of which a call returns many mounts.
            let most = 2 * all + all / 20 + 200;
            assert!(calls < most, "{calls} calls for {all} mounts");
        });
    }
}

#[test]
fn a_narrow_table_says_which_mounts_are_read_only() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let tree = dir(base.join("tree"));
            tmpfs(tree.join("writable"));
            let from = dir(base.join("a directory with a rather long name for its bind mount"));
            let strict = bind(from, tree.join("strict"));
            mount_remount(&strict, MountFlags::BIND | MountFlags::RDONLY, c"").unwrap();
            let args = args!["mounts", &tree, "-q", "--color", "never"];
            let (text, status) = at_terminal(&mut fathom(args), 80);
            assert!(status.success(), "{text}");
            let has_word = |name: &str| {
                let line = text.lines().find(|line| line.contains(name)).unwrap();
                line.split_whitespace().any(|word| word == "ro")
            };
            assert!(has_word("strict") && !has_word("writable"), "{text}");
        });
    }
}
