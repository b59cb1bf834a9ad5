//! What is downloaded from a repository on a server, and what is cached of it.

use std::ffi::OsString;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::servers::Place;
use crate::support::build::tool;
use crate::support::proxy::{Proxy, Request};
use crate::support::run;
use crate::support::run::args;

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
    // What the last run has written is cached, too.
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
    // No directory can be made there, by root either.
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

/// What a repeated snapshot downloads: requests for files of each directory of the repository, and all bytes.
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
    // Each tree, the index, and all snapshots.
    let (requests, _) = dump(&without);
    assert!(requests[0] > 100, "{requests:?}");
    assert_eq!(requests[1..], [1, 1]);
    assert_eq!(dump(&without).0, [requests[0], 1, 2]);

    // The pack of the trees, and what the first three runs have written beside it.
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

    // What is damaged is downloaded again.
    let mut damage = Command::new("find");
    damage.current_dir(&place.at).args(["caches", "-path"]);
    damage.args(["*/data/*", "-type", "f", "-exec", "truncate", "-s", "-1"]);
    tool(damage.args(["{}", ";"]));
    let (requests, _) = dump(&with);
    assert!(requests[0] > 0 && requests[0] < 10, "{requests:?}");
    assert_eq!(dump(&with).0, [0, 0, 0]);

    // restic uses the same files, and what it removes from the repository disappears from the cache.
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
