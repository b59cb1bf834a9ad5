//! Tests that every method finds all mounts, on prepared trees and on random ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::{FileFailurePersistence, TestRunner};
use serde_json::Value;

use crate::support::build::{bind, dir, file, name, odd_names, tmpfs};
use crate::support::reference::{Mount, device_changes, table, visible};
use crate::support::run::{args, exact, path, targets};
use crate::support::{Need, fathom, in_namespace, require, run};

/// The methods that know a mount only by its device.
pub(crate) const BY_DEVICE: [&str; 4] = ["naive", "getmnt1", "getmnt2", "getmnt3"];

/// The arguments for a complete run of a method.
pub(crate) fn whole(root: &Path, by: &str) -> Vec<std::ffi::OsString> {
    let mut all = args!["mounts", root, "--json", "--by", by].to_vec();
    if by.starts_with("getmnt") {
        all.extend(args!["--depth", "0"]);
    }
    all
}

fn found(root: &Path, by: &str) -> Value {
    let value = run(&mut fathom(whole(root, by))).exits(0).json();
    assert_eq!(value["result"]["by"], by);
    assert_eq!(value["result"]["complete"], true);
    value
}

/// Compares every method with the reference.
pub(crate) fn every_method_is_right(root: &Path) {
    tables_and_search_are_right(root);
    let expected = device_changes(root);
    for by in BY_DEVICE {
        assert_eq!(unique(targets(&found(root, by))), expected, "{by}");
    }
}

/// Compares the methods that know the ids of mounts with the reference.
pub(crate) fn tables_and_search_are_right(root: &Path) {
    tables_are_right(root);
    search_is_right(root, &found(root, "search"));
    let automatic = run(&mut fathom(args!["mounts", root, "--json"]))
        .exits(0)
        .json();
    let seen = automatic["result"]["mounts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|mount| mount["hidden"] == false);
    assert_eq!(
        unique(seen.map(|mount| path(mount, "target")).collect()),
        visible(root)
    );
}

/// Checks that `kernel` and `mountinfo` give every mount as in mountinfo.
fn tables_are_right(root: &Path) {
    for by in ["kernel", "mountinfo"] {
        let value = found(root, by);
        let mut given: Vec<Mount> = value["result"]["mounts"]
            .as_array()
            .unwrap()
            .iter()
            .map(read)
            .collect();
        let mut expected = table(root);
        given.sort();
        expected.sort();
        assert_eq!(given, expected, "{by}");
    }
}

/// Checks that `search` gives exactly the mounts that a path reaches.
fn search_is_right(root: &Path, value: &Value) {
    let mut expected: BTreeMap<(u64, PathBuf), Mount> = table(root)
        .into_iter()
        .filter(|m| !m.hidden)
        .map(|m| ((m.id, m.target.clone()), m))
        .collect();
    for mount in value["result"]["mounts"].as_array().unwrap() {
        let target = path(mount, "target");
        let known = expected.remove(&(mount["id"].as_u64().unwrap(), target.clone()));
        let known =
            known.unwrap_or_else(|| panic!("search made this up, or gives it twice: {mount}"));
        let status = fs::symlink_metadata(target).unwrap();
        let dev = format!(
            "{}:{}",
            rustix::fs::major(status.dev()),
            rustix::fs::minor(status.dev())
        );
        // On btrfs, the table has one device number, and each subvolume a different one.
        assert!(mount["dev"] == known.dev || mount["dev"] == dev, "{mount}");
        assert_eq!(mount["kind"], if status.is_dir() { "dir" } else { "file" });
        assert_eq!(mount["hidden"], false);
    }
    assert!(expected.is_empty(), "search missed {expected:?}");
}

fn read(mount: &Value) -> Mount {
    let text = |field: &str| mount[field].as_str().unwrap().to_owned();
    Mount {
        id: mount["id"].as_u64().unwrap(),
        parent: mount["parent"].as_u64().unwrap(),
        target: path(mount, "target"),
        source: exact(mount, "source"),
        fstype: text("fstype"),
        dev: text("dev"),
        fsroot: exact(mount, "fsroot"),
        options: mount["options"]
            .as_array()
            .unwrap()
            .iter()
            .map(|o| o.as_str().unwrap().to_owned())
            .collect(),
        internal: mount["class"] == "internal",
        hidden: mount["hidden"].as_bool().unwrap(),
    }
}

fn unique(paths: Vec<PathBuf>) -> BTreeSet<PathBuf> {
    let count = paths.len();
    let set: BTreeSet<PathBuf> = paths.into_iter().collect();
    assert_eq!(set.len(), count, "something is listed twice");
    set
}

#[test]
fn single_mount() {
    if require(&[Need::Root]) {
        in_namespace(every_method_is_right);
    }
}

#[test]
fn root_that_is_no_mount_point() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            tmpfs(base.join("here/a"));
            tmpfs(base.join("elsewhere"));
            dir(base.join("here-is-no-prefix"));
            every_method_is_right(&base.join("here"));
        });
    }
}

#[test]
fn nested_mounts_binds_and_mounts_on_files() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            tmpfs(tmpfs(base.join("a")).join("b/c"));
            let data = file(base.join("a/data/file"), 3);
            bind(base.join("a/data"), base.join("same-device"));
            bind(&data, base.join("file"));
            bind("/dev/null", base.join("null"));
            every_method_is_right(base);
        });
    }
}

#[test]
fn stacked_mounts_and_mounts_over_files() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let place = dir(base.join("place"));
            tmpfs(place.join("covered/deeper"));
            file(place.join("covered/file"), 3);
            tmpfs(&place);
            tmpfs(place.join("inner"));
            tmpfs(&place);
            tmpfs(&place);
            every_method_is_right(base);
        });
    }
}

#[test]
fn odd_names_everywhere() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            for odd in odd_names() {
                let outer = tmpfs(base.join(name(&odd)));
                tmpfs(outer.join("inner").join(name(&odd)));
            }
            every_method_is_right(base);
        });
    }
}

#[test]
fn symlinks_are_not_followed() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            symlink("loop", base.join("loop")).unwrap();
            symlink("there", base.join("back")).unwrap();
            symlink("back", base.join("there")).unwrap();
            symlink("/", base.join("root")).unwrap();
            symlink("..", dir(base.join("d")).join("up")).unwrap();
            symlink("mount", base.join("alias")).unwrap();
            tmpfs(base.join("mount"));
            every_method_is_right(base);
        });
    }
}

#[test]
fn root_given_by_a_symlink_is_canonicalized() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let real = tmpfs(base.join("real"));
            symlink("real", base.join("alias")).unwrap();
            for by in ["kernel", "search", "naive"] {
                let value = run(&mut fathom(whole(&base.join("d/../alias/.").join(""), by)));
                assert_eq!(value.code(), 2, "there is no d: {value}");
                let value = run(&mut fathom(whole(&base.join("alias/."), by)))
                    .exits(0)
                    .json();
                assert_eq!(path(&value["result"], "root"), real);
                assert_eq!(targets(&value), std::slice::from_ref(&real), "{by}");
            }
        });
    }
}

#[test]
fn bind_mounts_of_parent_directories() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let a = dir(base.join("a/b/c"));
            tmpfs(base.join("a/m"));
            bind(base, &a);
            bind(base.join("a"), base.join("a/b"));
            rustix::mount::mount_bind_recursive(base.join("a"), dir(base.join("again"))).unwrap();
            every_method_is_right(base);
        });
    }
}

#[test]
fn depth_bound_of_getmnt_is_reported() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let reached = tmpfs(base.join("1/2/3/4"));
            tmpfs(base.join("1/2/3/4/5"));
            for by in ["getmnt1", "getmnt2", "getmnt3"] {
                let plain = run(&mut fathom(args!["mounts", base, "--json", "--by", by]))
                    .exits(1)
                    .json();
                assert_eq!(plain["result"]["complete"], false, "{by}");
                assert_eq!(
                    unique(targets(&plain)),
                    [base.to_owned(), reached.clone()].into(),
                    "{by}"
                );
                let less = args!["mounts", base, "--json", "--by", by, "--depth", "3"];
                assert_eq!(
                    targets(&run(&mut fathom(less)).exits(1).json()),
                    [base],
                    "{by}"
                );
            }
        });
    }
}

#[test]
fn mounts_of_this_machine() {
    let own = run(&mut fathom(args!["mounts", "--json"])).json();
    assert_eq!(path(&own["result"], "root"), Path::new("/"), "the default");
    tables_are_right(Path::new("/"));
}

/// One step in building a random tree. An index selects one of the paths that exist at that step.
#[derive(Clone, Debug)]
enum Step {
    Dir(Index, Vec<u8>),
    File(Index, Vec<u8>),
    Symlink(Index, Vec<u8>, Index),
    Tmpfs(Index),
    BindDir(Index, Index),
    BindFile(Index, Index),
}

fn a_name() -> impl Strategy<Value = Vec<u8>> {
    let any_byte = any::<u8>().prop_filter("no byte of a name", |b| ![0, b'/'].contains(b));
    prop_oneof![
        4 => "[a-c]".prop_map(String::into_bytes),
        3 => prop::sample::select(odd_names()),
        1 => prop::collection::vec(any_byte, 1..=200).prop_filter("dots", |n| ![&b"."[..], b".."].contains(&&n[..])),
    ]
}

fn a_step() -> impl Strategy<Value = Step> {
    let index = any::<Index>;
    prop_oneof![
        3 => (index(), a_name()).prop_map(|(at, name)| Step::Dir(at, name)),
        1 => (index(), a_name()).prop_map(|(at, name)| Step::File(at, name)),
        1 => (index(), a_name(), index()).prop_map(|(at, name, to)| Step::Symlink(at, name, to)),
        4 => index().prop_map(Step::Tmpfs),
        2 => (index(), index()).prop_map(|(from, to)| Step::BindDir(from, to)),
        2 => (index(), index()).prop_map(|(from, to)| Step::BindFile(from, to)),
    ]
}

/// Executes the steps under `base`. A step at a path that is covered, or that exists already, does
/// nothing.
fn grow(base: &Path, steps: &[Step]) {
    use rustix::mount::{MountFlags, mount, mount_bind};
    /// A bind mount appends one path to a different one: two of this length are less than PATH_MAX.
    const LONGEST: usize = 1900;
    let mut dirs = vec![base.to_owned()];
    let mut files = Vec::new();
    let made = |path: PathBuf, list: &mut Vec<PathBuf>, make: &dyn Fn(&Path) -> bool| {
        if path.as_os_str().len() < LONGEST && make(&path) {
            list.push(path);
        }
    };
    for step in steps {
        match step {
            Step::Dir(at, n) => made(at.get(&dirs).join(name(n)), &mut dirs, &|path| {
                fs::create_dir(path).is_ok()
            }),
            Step::File(at, n) => {
                made(at.get(&dirs).join(name(n)), &mut files, &|path| {
                    fs::File::create_new(path).is_ok()
                });
            }
            Step::Symlink(at, n, to) => {
                let _ = symlink(to.get(&dirs), at.get(&dirs).join(name(n)));
            }
            Step::Tmpfs(at) => {
                let _ = mount(
                    at.get(&dirs),
                    at.get(&dirs),
                    "tmpfs",
                    MountFlags::empty(),
                    c"mode=755",
                );
            }
            Step::BindDir(from, to) => {
                let _ = mount_bind(from.get(&dirs), to.get(&dirs));
            }
            Step::BindFile(from, to) if !files.is_empty() => {
                let _ = mount_bind(from.get(&files), to.get(&files));
            }
            Step::BindFile(..) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 40,
        max_shrink_iters: 60,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_trees(steps in prop::collection::vec(a_step(), 1..80)) {
        if require(&[Need::Root]) {
            in_namespace(|base| {
                grow(base, &steps);
                every_method_is_right(base);
            });
        }
    }
}

#[test]
fn random_tree_of_500_mounts() {
    if require(&[Need::Root]) {
        let many = prop::collection::vec(a_step(), 1000).new_tree(&mut TestRunner::deterministic());
        let many = many.unwrap().current();
        in_namespace(|base| {
            grow(base, &many);
            let missing = 500_usize.saturating_sub(table(base).len());
            for n in 0..missing {
                tmpfs(base.join(format!("more{n}")));
            }
            every_method_is_right(base);
        });
    }
}
