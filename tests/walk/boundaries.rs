//! Tests of walks into other mounts, or not; and of the forms of DIR.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::engines::still;
use super::right::{
    census_of, engines, entry, every_engine_is_right, objects, same, summary, totals, walk,
};
use crate::support::build::{bind, dir, file, name, odd_names};
use crate::support::disks::{BTRFS, EXT4, XFS, mounted, subvolume};
use crate::support::reference::{Census, census, depth, one_device, settle, visible};
use crate::support::run::{args, path};
use crate::support::trees::grow;
use crate::support::{Need, fathom, in_namespace, require, run};

const DISK: [Need; 2] = [Need::Root, Need::Loop];

/// Three nested file systems on disks, and bind mounts between them.
pub(super) fn mountains(base: &Path) -> PathBuf {
    let top = still(&base.join("top")).to_owned();
    grow(&dir(top.join("tmpfs")), 1, 50);
    let (ext4, xfs, btrfs) = (top.join("ext4"), top.join("xfs"), base.join("btrfs"));
    assert!(mounted(EXT4[0], &ext4) && mounted(XFS[0], &xfs) && mounted(BTRFS[0], &btrfs));
    for (at, seed) in [(&ext4, 2), (&xfs, 3), (&btrfs, 4)] {
        grow(&dir(at.join("tree")), seed, 100);
    }
    file(ext4.join("tree/covered/beneath"), 10);
    bind(&btrfs, ext4.join("tree/covered"));
    grow(
        still(&dir(btrfs.join("tree/deep/down")).join("new\nline")),
        5,
        30,
    );
    bind(xfs.join("tree/scattered"), ext4.join("tree/from xfs"));
    bind(ext4.join("tree/wide"), ext4.join("tree/again"));
    bind(
        file(ext4.join("data"), 7000),
        file(xfs.join("on a file"), 1),
    );
    bind("/dev/null", file(ext4.join("on a device"), 1));
    still(still(&ext4.join("tree/twice")));
    file(still(&xfs.join("tree/last")).join("file"), 1);
    top
}

fn filtered(census: &Census, keep: impl Fn(&[u8]) -> bool) -> Census {
    census
        .iter()
        .filter(|(path, _)| keep(path))
        .map(|(path, entry)| (path.clone(), entry.clone()))
        .collect()
}

#[test]
fn each_mount_is_walked_by_its_own_engine() {
    if require(&DISK) {
        in_namespace(|base| {
            let top = mountains(base);
            every_engine_is_right(&top, &["stat", "threads"], "several mounts");
            settle(&top);
            let expected = census(&top);
            let lines = objects(&walk(&top, "auto", &["--format", "ndjson"]).exits(0));
            same(&census_of(&lines), &expected, "auto");
            let value = summary(&top, "auto", &[]);
            totals(&value["result"], &top, &expected, "auto");
            assert_eq!(
                value["result"]["digest"],
                summary(&top, "stat", &[])["result"]["digest"]
            );
            let parts = value["result"]["parts"].as_array().unwrap();
            let given: BTreeSet<PathBuf> = parts.iter().map(|part| path(part, "path")).collect();
            let mounts: BTreeSet<PathBuf> =
                visible(&top).into_iter().filter(|at| at.is_dir()).collect();
            assert!(mounts.is_subset(&given), "{mounts:?}\n{given:?}");
            for part in parts {
                let (fstype, engine) = (
                    part["fstype"].as_str().unwrap(),
                    part["engine"].as_str().unwrap(),
                );
                assert!(engines(fstype).contains(&engine), "{part}");
                assert!(part["why"].as_str().unwrap().len() > 5, "{part}");
            }
        });
    }
}

#[test]
fn engines_below_the_file_api_skip_covered_files() {
    if require(&DISK) {
        in_namespace(|base| {
            let top = mountains(base);
            for (at, engine) in [
                ("ext4", "ext4"),
                ("ext4/tree", "ext4"),
                ("xfs", "bulkstat"),
                ("ext4/tree/covered", "btrfs"),
            ] {
                every_engine_is_right(&top.join(at), &["stat", engine], at);
            }
        });
    }
}

#[test]
fn one_file_system_stays_on_the_device() {
    if require(&DISK) {
        in_namespace(|base| {
            let top = mountains(base);
            let btrfs = base.join("btrfs");
            grow(&subvolume(&btrfs.join("tree/volume"), None), 9, 20);
            for (at, engine) in [
                (top.clone(), "threads"),
                (top.join("ext4"), "ext4"),
                (top.join("ext4/tree"), "ext4"),
                (top.join("xfs"), "bulkstat"),
                (btrfs, "btrfs"),
            ] {
                settle(&at);
                let all = census(&at);
                let expected = one_device(&all);
                assert!(expected.len() < all.len());
                let mut digests = BTreeSet::new();
                for engine in ["stat", engine, "auto"] {
                    let what = format!("{engine} -x {}", at.display());
                    let lines = objects(&walk(&at, engine, &["-x", "--format", "ndjson"]).exits(0));
                    same(&census_of(&lines), &expected, &what);
                    let value = summary(&at, engine, &["--one-file-system"]);
                    totals(&value["result"], &at, &expected, &what);
                    digests.insert(value["result"]["digest"].to_string());
                }
                assert_eq!(digests.len(), 1);
            }
            let words = args!["walk", "-x", &top, "--group-by", "dir"];
            let ran = run(&mut fathom(words)).exits(0);
            let told = "-x: other file systems were not entered: ";
            let [ext4, xfs] = ["ext4", "xfs"].map(|name| top.join(name));
            let named = format!("{told}{}, {}\n", ext4.display(), xfs.display());
            assert!(ran.stderr.contains(&named), "{ran}");
            let ran = run(&mut fathom(args!["walk", &top, "--group-by", "dir"])).exits(0);
            assert!(!ran.stderr.contains(told), "{ran}");
        });
    }
}

/// The trees for the tests of filters, and the engines for each.
fn each_kind(base: &Path, look: impl Fn(&Path, &[&str])) {
    let (ext4, xfs, btrfs) = (base.join("ext4"), base.join("xfs"), base.join("btrfs"));
    assert!(mounted(EXT4[0], &ext4) && mounted(XFS[0], &xfs) && mounted(BTRFS[0], &btrfs));
    for (at, kind) in [(ext4, "ext4"), (xfs, "xfs"), (btrfs, "btrfs")] {
        let top = dir(at.join("tree"));
        grow(&top, 7, 300);
        settle(&top);
        look(&top, engines(kind));
    }
}

#[test]
fn max_depth_limits_the_walk() {
    if require(&DISK) {
        in_namespace(|base| {
            each_kind(base, |top, engines| {
                let (all, root) = (census(top), top.as_os_str().as_bytes());
                for most in [0, 1, 2, 5] {
                    let expected = filtered(&all, |path| depth(root, path) <= most);
                    for engine in engines {
                        let most = most.to_string();
                        let lines = objects(
                            &walk(top, engine, &["--max-depth", &most, "--format", "ndjson"])
                                .exits(0),
                        );
                        same(
                            &census_of(&lines),
                            &expected,
                            &format!("{engine} --max-depth {most}"),
                        );
                        let value = summary(top, engine, &["--max-depth", &most]);
                        totals(&value["result"], top, &expected, engine);
                    }
                }
            });
        });
    }
}

#[test]
fn excluded_directories_are_skipped_with_their_content() {
    if require(&DISK) {
        in_namespace(|base| {
            each_kind(base, |top, engines| {
                let root = top.as_os_str().as_bytes();
                let pieces = |path: &[u8]| {
                    path[root.len()..]
                        .split(|&b| b == b'/')
                        .map(<[u8]>::to_vec)
                        .collect::<Vec<_>>()
                };
                let expected = filtered(&census(top), |path| {
                    let pieces = pieces(path);
                    !pieces
                        .iter()
                        .any(|name| name == b"wide" || name.starts_with(b"entry 1"))
                        && !path
                            .windows(18)
                            .any(|window| window == b"/deep/down/down/do")
                });
                let deep = format!("{}/deep/down/down/*", top.display());
                let globs = base.join("globs");
                fs::write(&globs, "wide\n").unwrap();
                for engine in engines {
                    let more = [
                        "--exclude-from",
                        globs.to_str().unwrap(),
                        "--exclude",
                        "entry 1*",
                        "--exclude",
                        &deep,
                        "--format",
                        "ndjson",
                    ];
                    same(
                        &census_of(&objects(&walk(top, engine, &more).exits(0))),
                        &expected,
                        engine,
                    );
                }
            });
        });
    }
}

/// The paths of a walk begin with DIR as given: if DIR is relative, a glob with an absolute path
/// would exclude nothing.
#[test]
fn absolute_globs_below_a_relative_directory_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let at = fs::canonicalize(place.path()).unwrap();
    file(dir(at.join("srv/nfs")).join("f"), 1);
    let glob = at.join("srv/nfs");
    let output = at.join("srv.tar");
    for command in [
        args!["walk", "srv", "--exclude", &glob].to_vec(),
        args!["walk", "./srv/", "--exclude", &glob].to_vec(),
        args!["walk", ".", "--exclude", &glob].to_vec(),
        args!["dump", "srv", "-o", &output, "--exclude", &glob].to_vec(),
    ] {
        let ran = run(fathom(command).current_dir(&at)).exits(2);
        assert!(
            ran.stderr
                .contains("matches nothing, because the paths of this walk begin with"),
            "{ran}"
        );
        assert!(
            ran.stderr.contains(&format!("hint: give {}", at.display())),
            "{ran}"
        );
    }
    for command in [
        args!["walk", &at, "--exclude", &glob].to_vec(),
        args![
            "walk",
            "srv",
            "--exclude",
            "/elsewhere/nfs",
            "--exclude",
            "srv/nfs"
        ]
        .to_vec(),
    ] {
        run(fathom(command).current_dir(&at)).exits(0);
    }
    // Other globs that match nothing, by their beginning, are noted.
    for command in [
        args!["walk", &at, "--exclude", "/www"].to_vec(),
        args!["walk", "srv", "--exclude", "./www"].to_vec(),
        args!["dump", at.join("srv"), "-o", &output, "--exclude", "/www"].to_vec(),
    ] {
        let ran = run(fathom(command).current_dir(&at)).exits(0);
        assert!(
            ran.stderr.contains("www matches nothing: the paths"),
            "{ran}"
        );
    }
}

#[test]
fn several_directories_in_order() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let top = still(base);
            let (a, b) = (dir(top.join("a")), dir(top.join("b")));
            grow(&a, 1, 50);
            grow(&b, 2, 50);
            for engine in ["stat", "threads"] {
                let command = args![
                    "walk",
                    &a,
                    &b,
                    a.join("wide"),
                    "--engine",
                    engine,
                    "--format",
                    "ndjson"
                ];
                let lines = objects(&run(&mut fathom(command)).exits(0));
                let mut given: Vec<Vec<u8>> = lines.iter().map(|line| entry(line).0).collect();
                let firsts: Vec<_> = [&a, &b]
                    .iter()
                    .map(|at| given.iter().position(|g| g == at.as_os_str().as_bytes()))
                    .collect();
                assert_eq!(
                    firsts,
                    [Some(0), Some(census(&a).len())],
                    "each begins with itself"
                );
                let mut expected: Vec<Vec<u8>> = [&a, &b, &a.join("wide")]
                    .into_iter()
                    .flat_map(|at| census(at).into_keys())
                    .collect();
                given.sort();
                expected.sort();
                assert!(given == expected);
            }
        });
    }
}

#[test]
fn paths_begin_with_dir_as_given() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let top = still(base);
            for odd in odd_names() {
                grow(&dir(top.join(name(&odd)).join("sub")), 3, 5);
            }
            rustix::process::chdir(top.join("plain")).unwrap();
            let odd = odd_names().into_iter().map(|odd| top.join(name(&odd)));
            let spelled = [
                ".",
                "./",
                "sub",
                "sub/",
                "./sub//",
                "../plain/sub/.",
                "../-rf",
            ];
            for given in odd.chain(spelled.map(PathBuf::from)) {
                for engine in ["stat", "threads"] {
                    let lines = objects(&walk(&given, engine, &["--format", "ndjson"]).exits(0));
                    same(
                        &census_of(&lines),
                        &census(&given),
                        &given.display().to_string(),
                    );
                    assert_eq!(path(&lines[0], "path"), given);
                }
            }
            rustix::process::chdir(top).unwrap();
            let dashed = run(&mut fathom(args![
                "walk", "--format", "ndjson", "--", "-rf"
            ]))
            .exits(0);
            same(
                &census_of(&objects(&dashed)),
                &census(Path::new("-rf")),
                "-rf",
            );
            let nobody: &Path = OsStr::from_bytes(b"\xff\xfe not UTF-8 \x80").as_ref();
            same(
                &census_of(&objects(
                    &walk(nobody, "auto", &["--format", "ndjson"]).exits(0),
                )),
                &census(nobody),
                "not UTF-8",
            );
            rustix::process::chdir("/").unwrap();
        });
    }
}

#[test]
fn digest_does_not_depend_on_the_path_of_dir() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let top = still(&base.join("top")).to_owned();
            grow(&top, 1, 100);
            let other = bind(&top, base.join("elsewhere"));
            let digest = |at: &Path| summary(at, "stat", &[])["result"]["digest"].clone();
            assert_eq!(digest(&top), digest(&other));
            let before: Value = digest(&top);
            let changed = file(top.join("one more"), 0);
            let after = digest(&top);
            assert_ne!(before, after);
            std::fs::rename(&changed, top.join("one m0re")).unwrap();
            assert_ne!(after, digest(&top));
        });
    }
}
