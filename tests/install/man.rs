//! Tests of the man pages.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::process::{Command, Stdio};

use super::*;
use crate::support::run::args;
use crate::support::{Need, fathom, require, run};

/// The output and warnings of a formatter for a page. The page is passed on standard input, because
/// man(1) drops its privileges and may not be able to read the file.
fn formatted(page: &Path, words: &[&str]) -> (String, String) {
    let out = Command::new(words[0])
        .args(&words[1..])
        .stdin(File::open(page).unwrap())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .envs([
            ("MANWIDTH", "80"),
            ("LC_ALL", "C.UTF-8"),
            ("MANROFFOPT", "-c"),
            ("GROFF_NO_SGR", "1"),
        ])
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{words:?} {}: {out:?}",
        page.display()
    );
    (
        String::from_utf8(out.stdout).unwrap(),
        String::from_utf8(out.stderr).unwrap(),
    )
}

/// Text without overstrikes (a character, a backspace, a character).
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        match c {
            '\u{8}' => {
                plain.truncate(plain.len() - plain.chars().next_back().map_or(0, char::len_utf8))
            }
            c => plain.push(c),
        }
    }
    plain
}

#[test]
fn every_page_is_whole_and_formats_without_a_warning() {
    if require(&[Need::Program("man"), Need::Program("groff")]) {
        let place = tempfile::tempdir().unwrap();
        run(&mut fathom(args!["man", place.path()])).exits(0);
        let made: BTreeSet<String> = fs::read_dir(&place)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let expected: BTreeSet<String> = COMMANDS
            .iter()
            .map(|command| format!("fathom-{command}.1"))
            .chain(["fathom.1".to_owned()])
            .collect();
        assert_eq!(made, expected);
        for name in made {
            let page = place.path().join(&name);
            let (shown, warnings) = formatted(&page, &["man", "--warnings=w", "--local-file", "-"]);
            assert_eq!(warnings, "", "{name}");
            assert_eq!(
                formatted(&page, &["groff", "-ww", "-man", "-Tutf8", "-z"]).1,
                "",
                "{name}"
            );
            let shown = plain(&shown);
            let sections: Vec<&str> = shown
                .lines()
                .filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()))
                .collect();
            for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "EXIT STATUS"] {
                assert!(sections.contains(&section), "{name}: no {section}: {shown}");
            }
            let spoken = name.trim_end_matches(".1");
            let words: Vec<&str> = shown.split_whitespace().collect();
            assert!(
                words.join(" ").contains(&format!("NAME {spoken} - ")),
                "{name}: {shown}"
            );
            let foot = shown.trim_end().lines().next_back().unwrap();
            assert!(
                foot.starts_with(&format!("fathom {}", env!("CARGO_PKG_VERSION"))),
                "{name}: {foot}"
            );
            // An example is a line of its own, as it is typed.
            let command = spoken.replacen('-', " ", 1);
            assert!(
                shown
                    .lines()
                    .any(|line| line.trim().starts_with(&command) && line.starts_with("       ")),
                "{name}: {shown}"
            );
        }
    }
}

#[test]
fn unwritable_directory_is_an_error() {
    let ran = run(&mut fathom(["man", "/dev/null/man"])).refused();
    assert!(ran.stderr.contains("/dev/null/man"), "{ran}");
}

#[test]
fn directory_is_created_with_its_parents() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("share//man/man1/");
    for _ in 0..2 {
        run(&mut fathom(args!["man", &dir])).exits(0);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), COMMANDS.len() + 1);
    }
    run(fathom(["man", "made"]).current_dir(&place)).exits(0);
    assert!(place.path().join("made/fathom.1").is_file());
    fs::write(place.path().join("file"), "").unwrap();
    let ran = run(&mut fathom(args!["man", place.path().join("file")])).refused();
    assert!(ran.stderr.contains("file/fathom.1'"), "{ran}");
}
