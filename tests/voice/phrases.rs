//! Tests that help, messages and documentation do not contain certain phrases, which readers would
//! have to guess at.

use std::fs;
use std::path::{Path, PathBuf};

use super::commands;
use crate::support::{fathom, run};

/// A phrase, and its replacement.
const PHRASES: &[(&str, &str)] = &[
    ("anew", "again"),
    ("anybody", "any user, any program"),
    ("appears when it is whole", "is written atomically"),
    ("as far as it comes", "until the limit"),
    ("asks no server", "contacts no server"),
    ("at a guess", "estimated"),
    ("catalog lacks", "the catalog has no ..."),
    ("far away", "remote"),
    ("go by", "use, identify by"),
    ("goes by", "uses, identifies by"),
    ("goes on from", "is based on"),
    ("half are within", "interquartile range"),
    ("has it not", "is missing in"),
    ("have the kernel forget", "drop"),
    ("held against", "compared with"),
    ("hold against", "compare with"),
    ("holds against", "compares with"),
    ("how far it is", "progress"),
    ("in any case", "always"),
    ("in vain", "failed lookups"),
    ("is cut short", "is truncated"),
    ("left out", "skipped, excluded"),
    ("leave it out", "skip it"),
    ("look-ups", "lookups"),
    ("looks at the clock", "reads the clock"),
    ("no other door", "no faster interface"),
    ("no talk", "suppress status messages"),
    ("not to be had", "unavailable"),
    ("otherwise than", "changed"),
    ("say nothing to", "cannot be used with"),
    ("says nothing to", "cannot be used with"),
    ("so often", "N times"),
    ("so much", "at most N"),
    ("somebody", "another user, another process"),
    ("the matter with", "diagnose"),
    ("was not there", "does not exist"),
    ("what is there then", "the new file"),
    ("which must be there", "an existing directory"),
    ("whoever", "any program, any user"),
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files below a directory whose names end in `suffix`.
fn files(dir: &Path, suffix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => files(&path, suffix),
            false => vec![path],
        })
        .filter(|path| path.to_string_lossy().ends_with(suffix))
        .collect()
}

/// The phrases in a text, as whole words.
fn phrases(text: &str) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    let words = text.split(|c: char| !c.is_alphanumeric() && !"-_".contains(c));
    let words: Vec<String> = words
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let text = format!(" {} ", words.join(" "));
    PHRASES
        .iter()
        .filter(move |(phrase, _)| text.contains(&format!(" {phrase} ")))
}

/// The lines of a Rust file that may contain output: lines that are no comments, up to its tests.
fn printed(source: &str) -> impl Iterator<Item = &str> {
    let lines = source.lines().take_while(|line| *line != "#[cfg(test)]");
    lines.filter(|line| !line.trim_start().starts_with("//"))
}

#[test]
fn help_has_no_phrase_of_the_list() {
    for command in commands().iter().filter(|command| *command != "help") {
        let help = run(&mut fathom([command.as_str(), "--help"])).exits(0);
        let help = String::from_utf8_lossy(&help.stdout);
        if let Some((phrase, instead)) = phrases(&help).next() {
            panic!("fathom {command} --help: write {instead:?} in place of {phrase:?}");
        }
    }
}

#[test]
fn documentation_has_no_phrase_of_the_list() {
    let mut pages = files(&repository().join("docs"), ".md");
    pages.extend(
        ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(|name| repository().join(name)),
    );
    let mut found = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        for (phrase, instead) in text.split("\n\n").flat_map(phrases) {
            found.push(format!("{}: {phrase:?}, write {instead:?}", page.display()));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn messages_have_no_phrase_of_the_list() {
    let sources = files(&repository().join("crates"), ".rs");
    let sources = sources.iter().filter(|path| {
        let path = path.to_string_lossy();
        path.contains("/src/") && !path.contains("tests")
    });
    let mut found = Vec::new();
    for path in sources {
        let source = fs::read_to_string(path).unwrap();
        for line in printed(&source).filter(|line| line.contains('"')) {
            for (phrase, instead) in phrases(line) {
                found.push(format!(
                    "{}: {phrase:?}, write {instead:?}: {}",
                    path.display(),
                    line.trim()
                ));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
