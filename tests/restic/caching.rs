//! What is downloaded from a repository on a server, and what is cached of it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::servers::Place;
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
    // What the last run has written.
    assert_eq!(reads(&["--cache-dir", "caches"]).0, 1);
    assert_eq!(cached().len(), all + 1);
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
    assert_eq!(cached().len(), all + 2);
    assert_eq!(reads(&["--cache-dir", "caches"]).0, 1);
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

/// What a repeated snapshot downloads: for each directory of a repository, requests.
pub(crate) fn little_is_downloaded_again(place: &Place, proxy: &Proxy) {
    let downloads = |words: &[&str]| {
        proxy.take();
        let words = args!["tree", "--cache-dir", "caches"]
            .into_iter()
            .chain(words.iter().map(OsString::from));
        place.made(words);
        let (requests, bytes) = proxy.take();
        let mut counts = BTreeMap::new();
        for request in requests.iter().filter(|it| it.method == "GET") {
            let parts: Vec<&str> = request.target.rsplit('/').collect();
            let kind = match parts[0].len() {
                64 => parts[1].to_owned(),
                _ => format!("{}/", parts.iter().find(|it| !it.is_empty()).unwrap()),
            };
            *counts.entry(kind).or_insert(0) += 1;
        }
        (counts, bytes)
    };
    fs::create_dir(place.at.join("nights")).unwrap();
    for nth in 0..1000 {
        let dir = place.at.join(format!("tree/many/{}", nth % 100));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("f{nth}")), format!("{nth}")).unwrap();
    }
    let state = ["--state", "nights"];
    for words in [&[][..], &state] {
        eprintln!("first {words:?} {:?}", downloads(words));
        eprintln!("unchanged {words:?} {:?}", downloads(words));
        for nth in 0..10 {
            let path = place.at.join(format!("tree/many/{nth}/f{nth}"));
            fs::write(path, format!("changed {words:?}")).unwrap();
        }
        eprintln!("1 % {words:?} {:?}", downloads(words));
        eprintln!("unchanged {words:?} {:?}", downloads(words));
    }
}
