//! Tests of invalid options, messages and help.

use super::full::dump;
use crate::support::build::{dir, file};
use crate::support::restrict::without_stdout;
use crate::support::run::args;
use crate::support::{fathom, run};

#[test]
fn outputs_are_compared_after_following_symlinks() {
    let place = tempfile::tempdir().unwrap();
    let of = |name: &str| place.path().join(name);
    file(of("f"), 1);
    let dump = |line: &str| run(fathom(line.split(' ')).current_dir(place.path()));
    dump("dump f -q -o 0.tar --catalog c").exits(0);
    std::os::unix::fs::symlink("c", of("to-c")).unwrap();
    std::os::unix::fs::symlink("new.tar", of("to-new")).unwrap();
    std::os::unix::fs::symlink("to-new", of("further")).unwrap();
    let catalog = std::fs::read(of("c")).unwrap();
    for line in [
        "dump f -o to-c --since c",
        "dump f -o c --since to-c",
        "dump f -o new.tar --catalog to-new",
        "dump f -o to-new --catalog new.tar",
        "dump f -o further --map to-new",
    ] {
        let ran = dump(line).refused();
        assert!(
            ran.stderr.contains("must be different files"),
            "{line}: {ran}"
        );
        assert!(
            !of("new.tar").exists() && std::fs::read(of("c")).unwrap() == catalog,
            "{line}"
        );
    }
    dump("dump f -q -o further --since to-c --catalog c").exits(0);
    assert!(of("to-new").is_symlink() && of("new.tar").is_file());
}

#[test]
fn status_messages_and_notes() {
    let place = tempfile::tempdir().unwrap();
    let tree = dir(place.path().join("tree"));
    file(tree.join("f"), 3000);
    let out = place.path().join("x.tar");
    let ran = dump(&tree, &out, &[]).exits(0);
    assert!(ran.stdout.is_empty(), "{ran}");
    assert!(
        ran.stderr.contains("2 entries") && !ran.stderr.contains("metadata read by"),
        "{ran}"
    );
    let ran = dump(&tree, &out, &["-v"]).exits(0);
    assert!(ran.stderr.contains("metadata read by"), "{ran}");
    let ran = dump(&tree, &out, &["-q"]).exits(0);
    assert!(ran.stderr.is_empty(), "{ran}");
    let absolute = run(&mut fathom(args!["dump", &tree, "-o", &out])).exits(0);
    assert!(
        absolute.stderr.contains("'/' is removed from member names"),
        "{absolute}"
    );
    let result = dump(&tree, &out, &["--json"]).exits(0).json()["result"].clone();
    for (field, value) in [
        ("entries", 2),
        ("dumped", 2),
        ("files", 1),
        ("directories", 1),
        ("bytes", 3000),
    ] {
        assert_eq!(result[field], value, "{result}");
    }
    assert_eq!(
        result["archive_bytes"].as_u64().unwrap(),
        std::fs::metadata(&out).unwrap().len()
    );
    assert_eq!(result["archive"].as_str().unwrap(), out.to_str().unwrap());
    let nothing = run(fathom(["dump", "tree", "--no-output", "--json"]).current_dir(place.path()))
        .exits(0)
        .json();
    assert_eq!(nothing["result"]["archive_bytes"], result["archive_bytes"]);
    assert!(nothing["result"]["archive"].is_null());
    let before = std::fs::read(&out).unwrap();
    dump(&tree, &out, &["--no-output", "-q"]).exits(0);
    dump(
        &tree,
        &place.path().join("never.tar"),
        &["--no-output", "-q"],
    )
    .exits(0);
    assert!(std::fs::read(&out).unwrap() == before && !place.path().join("never.tar").exists());
}

#[test]
fn help_is_short_and_long() {
    let short = run(&mut fathom(["dump", "-h"])).exits(0);
    let long = run(&mut fathom(["dump", "--help"])).exits(0);
    assert!(long.stdout.len() > short.stdout.len());
    let text = String::from_utf8(long.stdout).unwrap();
    let words = [
        "Examples",
        "Exit status",
        "--output",
        "--since",
        "--catalog",
        "--level",
        "--state",
        "--gather",
        "percall",
        "combined",
        "batched",
        "raw",
        "--jobs",
        "--one-file-system",
        "--exclude",
        "--map",
        "--no-map",
        "--no-output",
        "--explain",
    ];
    for word in words {
        assert!(text.contains(word), "no {word} in --help");
    }
}

#[test]
fn closed_standard_output_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    let (tree, archive) = (dir(place.path().join("tree")), place.path().join("a.tar"));
    run(&mut fathom(args!["dump", &tree, "-o", archive])).exits(0);
    for words in [
        args!["dump", &tree, "-o-"].to_vec(),
        args!["list", &archive].to_vec(),
        args!["verify", &archive, "--json"].to_vec(),
    ] {
        let ran = run(without_stdout(&mut fathom(words))).exits(2);
        assert!(
            ran.stderr.contains("Bad file descriptor") || ran.stderr.contains("is closed"),
            "{ran}"
        );
    }
    run(without_stdout(&mut fathom(args![
        "dump", &tree, "-o", archive
    ])))
    .exits(0);
}

#[test]
fn unsupported_compression_suffix_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let tree = dir(place.path().join("tree"));
    for (name, more, says) in [
        ("a.tar.bz2", &[][..], "unsupported compression"),
        ("a.tar.lz4", &[], "unsupported compression"),
        ("a.tar.Z", &[], "unsupported compression"),
        ("a.tlz", &[], "unsupported compression"),
        ("a.tar.br", &[], "unsupported compression"),
        (
            "a.tar.gz",
            &["--compress", "none"],
            "its suffix belongs to another",
        ),
        (
            "a.tar.gz",
            &["--compress", "zstd:19"],
            "its suffix belongs to another",
        ),
        (
            "a.tar.bz2",
            &["--compress", "xz"],
            "its suffix belongs to another",
        ),
    ] {
        let archive = place.path().join(name);
        let mut dump = fathom(args!["dump", &tree, "-o", &archive]);
        let ran = run(dump.args(more)).refused();
        assert!(
            ran.stderr.contains(says) && ran.stderr.contains("hint: "),
            "{name}: {ran}"
        );
        assert!(!archive.exists(), "{name}");
    }
    for compress in [
        "bzip2", "gzip:0", "gzip:10", "xz:10", "zstd:20", "none:1", "zstd:", "",
    ] {
        let archive = place.path().join("a.tar");
        let arguments = args!["dump", &tree, "-o", &archive, "--compress", compress];
        run(&mut fathom(arguments)).refused();
        assert!(!archive.exists(), "{compress}");
    }
}

/// A catalog may be of thousands of SRCs, as after `dump *`.
#[test]
fn error_about_many_sources_is_short() {
    let place = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..500).map(|n| format!("f{n:03}")).collect();
    for name in &names {
        file(place.path().join(name), 1);
    }
    let catalog = ["dump", "-o", "0.tar", "--catalog", "c"].map(str::to_owned);
    let run_in = |words: &[String]| run(fathom(words).current_dir(place.path()));
    run_in(&[&catalog[..], &names].concat()).exits(0);
    let since = ["dump", "-o", "1.tar", "--since", "c"].map(str::to_owned);
    let ran = run_in(&[&since[..], &names[1..]].concat()).refused();
    let message = "it describes 'f000', 'f001', 'f002' and 497 more, not the given SRC";
    assert!(ran.stderr.contains(message), "{ran}");
}

/// A missing SRC is a warning, and the others are dumped. A dump with a catalog is refused, and the
/// chain keeps the files of the SRC.
#[test]
fn a_missing_source_of_several_is_a_warning() {
    let place = tempfile::tempdir().unwrap();
    let of = |name: &str| place.path().join(name);
    file(of("a/f"), 1);
    file(of("b/f"), 1);
    dir(of("state"));
    let dump = |line: &str| run(fathom(line.split(' ')).current_dir(place.path()));
    let level = |number: u32| {
        dump(&format!(
            "dump a b -q -o {number}.tar --level {number} --state state"
        ))
    };
    level(0).exits(0);
    std::fs::rename(of("b"), of("elsewhere")).unwrap();
    for more in ["-o x.tar", "--no-output", "--dry-run"] {
        let ran = dump(&format!("dump a b {more} --json")).exits(1).json();
        assert_eq!(ran["warnings"][0]["path"], "b", "{ran}");
    }
    let listed = dump("list x.tar").exits(0).stdout;
    assert!(String::from_utf8(listed).unwrap().contains("a/f"));
    dump("dump none b -o y.tar").refused();
    assert!(!of("y.tar").exists());
    let ran = level(1).refused();
    assert!(
        ran.stderr.contains("'b'") && ran.stderr.contains("every SRC must exist"),
        "{ran}"
    );
    std::fs::rename(of("elsewhere"), of("b")).unwrap();
    file(of("a/g"), 1);
    level(1).exits(0);
    dir(of("to"));
    dump("restore -q --state state -C to").exits(0);
    assert!(of("to/b/f").exists() && of("to/a/g").exists());
}
