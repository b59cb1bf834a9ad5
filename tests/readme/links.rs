//! Tests that every link of every page leads to an existing file, and to a heading in it.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::blocks::{pages, read, top};

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_are_there() {
    let mut all: Vec<PathBuf> = pages();
    all.extend(["CONTRIBUTING.md", "CHANGELOG.md", "bench/README.md"].map(PathBuf::from));
    let (mut broken, mut followed) = (Vec::new(), 0);
    for page in &all {
        for target in links(&read(page)) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            followed += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let file = if file.is_empty() {
                page.clone()
            } else {
                beside(page, file)
            };
            let is_there = top().join(&file).exists();
            let is_said = || anchor.is_empty() || headings(&read(&file)).contains(anchor);
            if !is_there || !is_said() {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(followed > 100, "{followed} links were followed");
}

#[test]
fn every_page_is_in_the_book_once() {
    let listed: Vec<PathBuf> = links(&read(Path::new("docs/SUMMARY.md")))
        .iter()
        .map(PathBuf::from)
        .collect();
    let once: BTreeSet<&PathBuf> = listed.iter().collect();
    assert_eq!(
        once.len(),
        listed.len(),
        "a page stands in docs/SUMMARY.md twice"
    );
    let there: BTreeSet<PathBuf> = pages()
        .iter()
        .filter_map(|page| page.strip_prefix("docs").ok())
        .filter(|page| *page != Path::new("SUMMARY.md"))
        .map(Path::to_owned)
        .collect();
    assert_eq!(once.into_iter().cloned().collect::<BTreeSet<_>>(), there);
}

/// The targets of the links of a page, except links inside code.
fn links(text: &str) -> Vec<String> {
    let prose = without_code(text);
    let targets = prose
        .match_indices("](")
        .filter_map(|(at, _)| prose[at + 2..].split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

fn without_code(text: &str) -> String {
    let mut in_block = false;
    let mut out = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            // Every second piece between backticks is code. The text of a link may be code, too.
            let pieces = line.split('`').enumerate();
            let kept = pieces.map(|(at, piece)| if at % 2 == 1 { "" } else { piece });
            out.extend(kept);
        }
        out.push('\n');
    }
    out
}

/// A path relative to a page, converted to a path from the top of the repository.
fn beside(page: &Path, name: &str) -> PathBuf {
    let mut path = page.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(name).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            part => path.push(part),
        }
    }
    path
}

/// The anchors of headings: lower-case letters, digits, dashes for blanks.
fn headings(text: &str) -> BTreeSet<String> {
    let mut in_block = false;
    let mut names = BTreeSet::new();
    for line in text.lines() {
        in_block ^= line.trim_start().starts_with("```");
        if in_block || !line.starts_with('#') {
            continue;
        }
        let heading = line.trim_start_matches('#').trim();
        let kept = heading
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let name: String = kept
            .map(|c| if c == ' ' { '-' } else { c })
            .flat_map(char::to_lowercase)
            .collect();
        let again = (1..).map(|n| format!("{name}-{n}"));
        let free = std::iter::once(name.clone())
            .chain(again)
            .find(|name| !names.contains(name));
        names.extend(free);
    }
    names
}

#[test]
fn links_and_headings_are_found() {
    let text = "# A `b` (c)\n[x](y.md#z) `[no](no)` [`code`](c.md)\n```\n# no\n[no](no)\n```\n## --check\n## --check\n";
    assert_eq!(links(text), ["y.md#z", "c.md"]);
    assert_eq!(
        headings(text),
        ["a-b-c", "--check", "--check-1"].map(str::to_owned).into()
    );
    assert_eq!(
        beside(Path::new("docs/x.md"), "../bench/y"),
        Path::new("bench/y")
    );
}
