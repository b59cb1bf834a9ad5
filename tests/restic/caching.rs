//! Tests of downloads from a repository on a server, and of the cache.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mount::MountFlags;
use serde_json::Value;

use crate::restic::copy_fixture;
use crate::restic::interruptions::quiet;
use crate::restic::servers::Place;
use crate::support::build::{bind, dir, unmount_whole};
use crate::support::proxy::{Proxy, Request};
use crate::support::run;
use crate::support::run::{Ran, args};
use crate::support::tool::tool;

pub(crate) fn index_files_are_cached(place: &Place, proxy: &Proxy) {
    let caches = place.at.join("caches");
    let cached = || {
        let repository = fs::read_dir(&caches).unwrap().map(|it| it.unwrap().path());
        let index = repository
            .filter(|path| path.is_dir())
            .map(|path| path.join("index"));
        let dirs = index.flat_map(|path| fs::read_dir(path).unwrap());
        let files = dirs.flat_map(|it| fs::read_dir(it.unwrap().path()).unwrap());
        files.map(|it| it.unwrap().path()).collect::<Vec<_>>()
    };
    let change = AtomicU32::new(0);
    let reads = |words: &[&str]| {
        let nth = change.fetch_add(1, Ordering::SeqCst);
        fs::write(place.at.join("tree/cached"), nth.to_string()).unwrap();
        proxy.take();
        let words = args!["tree"]
            .into_iter()
            .chain(words.iter().map(OsString::from));
        let said = run(&mut place.dump(words)).exits(0);
        let is_read = |it: &Request| {
            let (_, name) = it.target.rsplit_once("/index/").unwrap_or_default();
            it.method == "GET" && !name.is_empty()
        };
        (proxy.take().0.iter().filter(|it| is_read(it)).count(), said)
    };
    let index = || fs::read_dir(place.dir.join("index")).unwrap().count();
    let all = index();
    assert!(all > 2, "{all}");
    assert_eq!(reads(&["--cache-dir", "caches"]).0, all);
    // Files that the last run has written are cached, too.
    assert_eq!(reads(&["--cache-dir", "caches"]).0, 0);
    assert_eq!(cached().len(), all + 2);
    for (nth, path) in cached().iter().enumerate() {
        match nth % 2 {
            0 => fs::write(path, "damaged").unwrap(),
            _ => fs::remove_file(path).unwrap(),
        }
    }
    let unused = cached()[0].with_file_name("").with_file_name("00");
    fs::create_dir_all(&unused).unwrap();
    fs::write(unused.join("0".repeat(64)), "of a removed file").unwrap();
    assert_eq!(reads(&["--cache-dir", "caches"]).0, all + 2);
    assert_eq!(cached().len(), all + 3);
    assert_eq!(reads(&["--cache-dir", "caches"]).0, 0);
    assert_eq!(reads(&["--no-cache"]).0, all + 4);
    // Not even root can create a directory there.
    let (read, said) = reads(&["--cache-dir", "/proc/none/caches"]);
    assert_eq!(read, all + 5);
    assert!(
        said.stderr
            .contains("the cache '/proc/none/caches' cannot be written"),
        "{said}"
    );
    let mut restic = Command::new("restic");
    restic.args([
        "--cache-dir",
        "caches",
        "--repo",
        &place.location,
        "ls",
        "latest",
    ]);
    place.prepare(&mut restic);
    run(&mut restic).exits(0);
    assert!(cached().len() >= all + 5);
}

/// Checks that a repeated snapshot downloads little: requests for files of each directory of the
/// repository, and all bytes.
pub(crate) fn little_is_downloaded_again(place: &Place, proxy: &Proxy) {
    let dump = |words: &[&str]| {
        proxy.take();
        let words = args!["tree"]
            .into_iter()
            .chain(words.iter().map(OsString::from));
        place.made(words);
        let (requests, bytes) = proxy.take();
        let many = |kind: &str| {
            let is_read = |it: &&Request| {
                let (_, name) = it.target.rsplit_once(kind).unwrap_or_default();
                it.method == "GET" && !name.is_empty()
            };
            requests.iter().filter(is_read).count()
        };
        (
            [many("/data/"), many("/index/"), many("/snapshots/")],
            bytes,
        )
    };
    fs::create_dir(place.at.join("nights")).unwrap();
    let path = |nth: u32| place.at.join(format!("tree/many/{}/f{nth}", nth % 100));
    for nth in 0..1000 {
        fs::create_dir_all(path(nth).parent().unwrap()).unwrap();
        fs::write(path(nth), nth.to_string()).unwrap();
    }
    let change = |round: &str| (0..10).for_each(|nth| fs::write(path(nth), round).unwrap());
    let without = ["--no-cache"];
    dump(&without);
    // Without a cache, the run downloads each tree, the index, and all snapshots.
    let (requests, _) = dump(&without);
    assert!(requests[0] > 100, "{requests:?}");
    assert_eq!(requests[1..], [1, 1]);
    assert_eq!(dump(&without).0, [requests[0], 1, 2]);

    // The run downloads the pack of the trees, and the indexes and snapshots that the first three
    // runs have written.
    let with = ["--cache-dir", "caches"];
    assert_eq!(dump(&with).0, [1, 1, 3]);
    let (requests, bytes) = dump(&with);
    assert_eq!(requests, [0, 0, 0]);
    assert!(bytes < 20_000, "{bytes}");
    change("first");
    assert_eq!(dump(&with).0, [0, 0, 0]);
    assert_eq!(dump(&with).0, [0, 0, 0]);
    let nights = ["--cache-dir", "caches", "--state", "nights"];
    for round in ["second", "third"] {
        assert_eq!(dump(&nights).0, [0, 0, 0]);
        change(round);
    }

    // Damaged cache files are downloaded again.
    let mut damage = Command::new("find");
    damage.current_dir(&place.at).args(["caches", "-path"]);
    damage.args(["*/data/*", "-type", "f", "-exec", "truncate", "-s", "-1"]);
    tool(damage.args(["{}", ";"]));
    let (requests, _) = dump(&with);
    assert!(requests[0] > 0 && requests[0] < 10, "{requests:?}");
    assert_eq!(dump(&with).0, [0, 0, 0]);

    // restic uses the same files, and files that it removes from the repository disappear from the
    // cache.
    let mut restic = Command::new("restic");
    restic.args(["--repo", &place.location, "--cache-dir", "caches"]);
    restic.args(["forget", "--keep-last", "1", "--prune"]);
    place.prepare(&mut restic);
    run(&mut restic).exits(0);
    dump(&with);
    assert_eq!(dump(&with).0, [0, 0, 0]);
    let mut find = Command::new("find");
    find.current_dir(&place.at).args(["caches", "-path"]);
    let kept = tool(find.args(["*/snapshots/*", "-type", "f"]));
    assert_eq!(
        kept.iter().filter(|&&byte| byte == b'\n').count(),
        place.snapshots()
    );
}

/// Makes a snapshot with a cache, and checks the repository. Returns the run.
fn with_cache(place: &Place, change: &str) -> Ran {
    fs::write(place.at.join("tree/with cache"), change).unwrap();
    let said = run(&mut place.dump(args!["tree", "--cache-dir", "caches"])).exits(0);
    place.check();
    said
}

/// The cached files of all kinds.
fn files_in(caches: &Path) -> Vec<PathBuf> {
    let mut find = Command::new("find");
    find.arg(caches)
        .args(["-mindepth", "4", "-not", "-type", "d"]);
    let found = String::from_utf8(tool(&mut find)).unwrap();
    found.lines().map(PathBuf::from).collect()
}

/// Checks that a full, read-only or damaged cache costs only time, and that no file outside the
/// cache is touched.
pub(crate) fn bad_caches_are_harmless(place: &Place) {
    let caches = dir(place.at.join("caches"));
    with_cache(place, "first");
    let victims = dir(place.at.join("victims"));
    let name = "0".repeat(64);
    type Damage<'a> = (&'a str, &'a dyn Fn(&Path));
    let resize = |path: &Path, len| {
        let file = File::options().write(true).open(path).unwrap();
        file.set_len(len).unwrap();
    };
    let damages: [Damage<'_>; 7] = [
        ("truncated", &|path| resize(path, 7)),
        // A file much larger than memory.
        ("huge", &|path| resize(path, 1 << 43)),
        ("empty", &|path| fs::write(path, "").unwrap()),
        ("other", &|path| fs::write(path, "something else").unwrap()),
        ("fifo", &|path| {
            fs::remove_file(path).unwrap();
            tool(Command::new("mkfifo").arg(path));
        }),
        ("symlink", &|path| {
            fs::remove_file(path).unwrap();
            fs::write(victims.join("file"), "kept").unwrap();
            symlink(victims.join("file"), path).unwrap();
        }),
        ("away", &|path| {
            fs::remove_file(path).unwrap();
            symlink(victims.join("none"), path).unwrap();
        }),
    ];
    for (how, damage) in damages {
        let files = files_in(&caches);
        assert!(files.len() >= 3, "{files:?}");
        files.iter().for_each(|path| damage(path));
        let said = with_cache(place, how);
        assert!(!said.stderr.contains("the cache"), "{how}: {said}");
        let is_sound = |path: &PathBuf| {
            if path.metadata().is_ok_and(|it| it.len() > 1 << 30) {
                return false;
            }
            let sum = tool(Command::new("sha256sum").arg(path));
            path.is_symlink() || sum.starts_with(path.file_name().unwrap().as_bytes())
        };
        // Damaged packs that were not needed are not replaced.
        let packs = |path: &PathBuf| path.to_str().unwrap().contains("/data/");
        let files = files_in(&caches);
        let (good, bad): (Vec<_>, Vec<_>) = files
            .into_iter()
            .filter(|it| it.is_file())
            .partition(is_sound);
        assert!(good.len() >= 3 && bad.iter().all(packs), "{how}: {bad:?}");
    }
    assert_eq!(fs::read(victims.join("file")).unwrap(), b"kept");
    assert!(!victims.join("none").exists());
    // Directories instead of files, and files instead of directories.
    for path in files_in(&caches) {
        fs::remove_file(&path).unwrap();
        fs::create_dir(path).unwrap();
    }
    let said = with_cache(place, "directories");
    assert!(
        said.stderr
            .contains("the cache 'caches' cannot be written: Is a directory"),
        "{said}"
    );
    fs::remove_dir_all(&caches).unwrap();
    fs::write(&caches, "a file").unwrap();
    let said = with_cache(place, "a file");
    assert!(
        said.stderr
            .contains("the cache 'caches' cannot be written: Not a directory"),
        "{said}"
    );
    fs::remove_file(&caches).unwrap();

    // The cache has a symlink to a directory with the names of cache files, and with other files.
    with_cache(place, "anew");
    let id = fs::read_dir(&caches)
        .unwrap()
        .map(|it| it.unwrap().path())
        .find(|it| it.is_dir())
        .unwrap();
    fs::remove_dir_all(id.join("index")).unwrap();
    fs::write(dir(victims.join("00")).join(&name), "kept").unwrap();
    symlink(&victims, id.join("index")).unwrap();
    fs::write(dir(id.join("snapshots/00")).join("notes"), "kept").unwrap();
    with_cache(place, "away");
    assert_eq!(fs::read(victims.join("00").join(&name)).unwrap(), b"kept");
    assert_eq!(fs::read(id.join("snapshots/00/notes")).unwrap(), b"kept");
    fs::remove_dir_all(&caches).unwrap();

    // A cache on a full file system, and a cache that becomes read-only after files were cached.
    dir(&caches);
    rustix::mount::mount("small", &caches, "tmpfs", MountFlags::empty(), c"size=16k").unwrap();
    let said = with_cache(place, "full");
    assert!(
        said.stderr
            .contains("the cache 'caches' cannot be written: No space left"),
        "{said}"
    );
    let partial = files_in(&caches)
        .into_iter()
        .find(|path| path.file_name().unwrap().len() != 64);
    assert_eq!(partial, None);
    unmount_whole(&caches);
    with_cache(place, "writable");
    bind(&caches, &caches);
    let read_only = MountFlags::BIND | MountFlags::RDONLY;
    rustix::mount::mount_remount(&caches, read_only, "").unwrap();
    let said = with_cache(place, "read-only");
    assert!(
        said.stderr
            .contains("the cache 'caches' cannot be written: Read-only"),
        "{said}"
    );
    unmount_whole(&caches);
}

/// Several processes share a cache, while restic removes cached files from the repository, and a
/// different repository replaces it.
pub(crate) fn caches_follow_the_repository(place: &Place) {
    dir(place.at.join("nights"));
    let restic = |words: &[&str]| {
        let mut restic = Command::new("restic");
        restic
            .args(["--repo", &place.location, "--cache-dir", "caches"])
            .args(words);
        place.prepare(&mut restic);
        run(&mut restic).exits(0);
    };
    let files = |change: &str| {
        for nth in 0..60 {
            let path = place.at.join(format!("tree/shared/{}/{nth}", nth % 20));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{change} {nth}")).unwrap();
        }
    };
    let at_once = |processes: usize| {
        let all: Vec<_> = (0..processes)
            .map(|nth| {
                let sources = [["tree", "tree/shared"], ["tree/shared", "tree/shared/1"]][nth % 2];
                let words = args![sources[0], sources[1], "--cache-dir", "caches"];
                quiet(place.dump(words))
            })
            .collect();
        for mut child in all {
            assert!(child.wait().unwrap().success());
        }
        place.check();
    };
    for round in ["one", "two", "three"] {
        files(round);
        fs::remove_dir_all(place.at.join("caches")).unwrap_or_default();
        at_once(4);
        at_once(4);
    }
    let nightly = |change: &str| {
        files(change);
        let words = args!["tree", "--cache-dir", "caches", "--state", "nights"];
        let made = place.made(words);
        place.check();
        made
    };
    nightly("first");
    assert_eq!(nightly("second")["files_changed"], 60);
    // restic removes everything that the cache and the catalog refer to.
    restic(&["forget", "--keep-last", "1", "--prune"]);
    assert_eq!(nightly("third")["files_changed"], 60);
    let list = run(&mut place.restic(args!["list", "snapshots"])).exits(0);
    let ids = String::from_utf8(list.stdout).unwrap();
    let ids: Vec<&str> = ["forget", "--prune"]
        .into_iter()
        .chain(ids.lines())
        .collect();
    restic(&ids);
    let made = nightly("fourth");
    assert_eq!(
        (&made["parent"], &made["files_unmodified"]),
        (&Value::Null, &0.into())
    );
    // A different repository under the same URL.
    fs::remove_dir_all(&place.dir).unwrap();
    copy_fixture("version1", &place.dir);
    let made = nightly("fifth");
    assert_eq!(
        (&made["parent"], &made["files_unmodified"]),
        (&Value::Null, &0.into())
    );
    assert_eq!(nightly("sixth")["files_changed"], 60);
    let caches = fs::read_dir(place.at.join("caches")).unwrap();
    let caches = caches.filter(|it| it.as_ref().unwrap().path().is_dir());
    assert_eq!(caches.count(), 2);
}
