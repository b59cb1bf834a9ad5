//! Tests that the commands in the pages have existing options.

use std::collections::BTreeMap;

use super::blocks::fenced;
use crate::support::{fathom, run};

/// The command lines of fathom in a line of a page: the text after its name, up to the end of the
/// command.
fn command_lines(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("fathom ")
        .filter(|(at, _)| !line[..*at].ends_with(|c: char| c.is_alphanumeric()))
        .map(|(at, name)| {
            let rest = &line[at + name.len()..];
            rest.split(['|', ';', '>', '<', ')', '#', '&'])
                .next()
                .unwrap_or(rest)
        })
}

#[test]
fn every_option_that_a_page_names_is_one() {
    let mut helps: BTreeMap<String, String> = BTreeMap::new();
    let mut help = |command: &str| {
        let known = helps.entry(command.to_owned()).or_insert_with(|| {
            let ran = run(&mut fathom([command, "--help"]));
            if ran.code() == 0 {
                String::from_utf8(ran.stdout).unwrap()
            } else {
                String::new()
            }
        });
        known.clone()
    };
    let (mut unknown, mut seen) = (Vec::new(), 0);
    for block in fenced() {
        for line in block.text.iter().flat_map(|line| command_lines(line)) {
            let mut words = line.split_whitespace();
            let Some(command) = words
                .next()
                .filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase()))
            else {
                continue;
            };
            let help = help(command);
            if help.is_empty() {
                continue; // a sentence about fathom
            }
            seen += 1;
            for word in words
                .take_while(|word| *word != "--")
                .filter(|word| word.starts_with("--"))
            {
                let option = word.split(['=', ']', ',']).next().unwrap_or(word);
                if !help.contains(option) {
                    unknown.push(format!("{}: fathom {command} {option}", block.place()));
                }
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
    assert!(seen > 80, "{seen} command lines were seen");
}
