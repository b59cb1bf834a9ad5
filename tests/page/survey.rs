//! Tests of the page of `fathom survey`.

use std::path::PathBuf;

use super::*;
use crate::support::build::{bush, chmod, dir, file, name, tmpfs};
use crate::support::disks::{EXT4, mounted};
use crate::support::run::args;
use crate::support::{fathom, in_namespace, run};

/// The page and the JSON of a survey of the tree that `grow` creates in a mount namespace.
fn survey(grow: impl FnOnce(&Path) -> PathBuf + Send) -> (tempfile::TempDir, PathBuf, Value) {
    let place = tempfile::tempdir().unwrap();
    let page = place.path().join("survey.html");
    let value = in_namespace(|ground| {
        let root = grow(ground);
        let ran = run(fathom(args!["survey", root, "--json", "-o", page]).args(["--limit", "1m"]));
        assert!(ran.code() < 2, "{ran}");
        ran.json()
    });
    (place, page, value)
}

#[test]
fn the_page_and_the_json_have_the_same_findings() {
    if require(&NEEDS) && require(&[Need::Root, Need::Loop]) {
        let (_place, page, value) = survey(|ground| {
            let disk = ground.join("disk");
            assert!(mounted(EXT4[0], &disk));
            bush(&disk, 5, 20);
            file(disk.join("d0/large"), 100_000);
            // A hidden mount always leads to advice.
            tmpfs(tmpfs(tmpfs(ground.join("a")).join("b")));
            ground.to_owned()
        });
        let views = look(&page, "survey");
        sound(&views);
        let text = text(named(&views, "desk-light"), "text");
        for part in ["disk", "ext4", "getmnt3", "readahead", "statx", "PATH"] {
            assert!(text.contains(part), "no {part}: {text}");
        }
        let headings = list(named(&views, "desk-light"), "headings");
        assert_eq!(
            headings
                .iter()
                .filter(|heading| heading.as_str().unwrap().starts_with("h1 "))
                .count(),
            1
        );
        // The page and the JSON have the same findings and advice.
        for what in ["findings", "advice"] {
            let all = value["result"][what].as_array().unwrap();
            assert!(!all.is_empty(), "no {what}: {value}");
            for one in all {
                let said = one["text"].as_str().unwrap();
                assert!(
                    text.contains(said),
                    "{what}: '{said}' is not on the page: {text}"
                );
            }
        }
    }
}

/// Creates names that look like markup, attributes, scripts, or a change of the direction of
/// writing.
fn hostile(ground: &Path) -> PathBuf {
    let root = tmpfs(ground.join("<script>alert(1)<"));
    for odd in [
        &b"</script><script>alert(2)<"[..],
        b"<img src=x onerror=alert(3)>",
        b"\"onfocus=alert(4) autofocus tabindex=0 '",
        b"new\nline\ttab \x1b[31m",
        b"&lt;b&gt; &#x3c;u&#x3e; <!-- ]]>",
        "\u{202e}txt.exe \u{2066}\u{200f}".as_bytes(),
        "שלום مرحبا".as_bytes(),
        b"\xff\xfe not UTF-8",
        b"{{ 7 * 7 }} {% raw %} ${7*7}",
        &[b'W'; 255],
        &[0xf0; 255],
    ] {
        tmpfs(root.join(name(odd)));
    }
    dir(root.join("directory"));
    root
}

#[test]
fn hostile_names_are_escaped_in_the_page() {
    if require(&NEEDS) && require(&[Need::Root]) {
        let (_place, page, _) = survey(hostile);
        let views = look(&page, "hostile");
        sound(&views);
        for view in &views {
            let text = text(view, "text");
            for shown in [
                "<script>alert(1)<",
                "onerror=alert(3)",
                "new\\nline",
                "&lt;b&gt;",
                "{{ 7 * 7 }}",
                "שלום",
            ] {
                assert!(text.contains(shown), "{}: no {shown}: {text}", view["view"]);
            }
            let raw = |c: char| {
                (c.is_control() && !"\n\t".contains(c)) || "\u{202e}\u{2066}\u{200f}".contains(c)
            };
            assert!(!text.contains(raw), "{}: {text:?}", view["view"]);
        }
    }
}

#[test]
fn the_page_of_an_ordinary_user_says_what_root_would_add() {
    if require(&NEEDS) && require(&[Need::Program("setpriv"), Need::Root]) {
        let place = tempfile::tempdir().unwrap();
        let tree = dir(place.path().join("tree"));
        bush(&tree, 3, 10);
        let page = dir(place.path().join("out")).join("survey.html");
        for open in [place.path(), page.parent().unwrap()] {
            chmod(open, 0o777);
        }
        // Other users may not be able to reach the build directory.
        let program = place.path().join("fathom");
        std::fs::copy(env!("CARGO_BIN_EXE_fathom"), &program).unwrap();
        let mut nobody = Command::new("setpriv");
        nobody
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(program)
            .args(args!["survey", tree, "-o", page]);
        let ran = run(&mut nobody);
        assert!(ran.code() < 2, "{ran}");
        let views = look(&page, "nobody");
        sound(&views);
        let text = text(named(&views, "desk-light"), "text");
        assert!(
            text.contains("root"),
            "it does not say what root would add: {text}"
        );
    }
}
