//! Finds the blocks of the pages that show a command and its output.

use std::fs;
use std::path::{Path, PathBuf};

/// A fenced block of a page.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// The path from the top of the repository.
    pub(crate) page: PathBuf,
    /// The line of the opening fence, counted from 1.
    pub(crate) line: usize,
    pub(crate) mark: Mark,
    pub(crate) text: Vec<String>,
}

/// The content of the comment before a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    None,
    Run { fixture: String, piped: bool },
    NotRun(String),
}

impl Block {
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.page.display(), self.line)
    }

    pub(crate) fn reason(&self) -> Option<&str> {
        if let Mark::NotRun(reason) = &self.mark {
            Some(reason)
        } else {
            None
        }
    }

    fn has_prompt(&self) -> bool {
        self.text.iter().any(|line| line.starts_with("$ "))
    }

    /// The commands, as a script.
    pub(crate) fn script(&self) -> String {
        self.parts().0.join("\n")
    }

    /// The output that the block shows.
    pub(crate) fn shown(&self) -> String {
        self.parts().1.join("\n")
    }

    fn parts(&self) -> (Vec<&str>, Vec<&str>) {
        let (mut commands, mut shown) = (Vec::new(), Vec::new());
        let mut goes_on = false;
        for line in &self.text {
            match line.strip_prefix("$ ") {
                Some(command) => commands.push(command),
                None if goes_on => commands.push(line),
                None => shown.push(line.as_str()),
            }
            goes_on = (goes_on || line.starts_with("$ ")) && line.ends_with('\\');
        }
        (commands, shown)
    }
}

pub(crate) fn top() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// README.md, then the pages of docs/.
pub(crate) fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = fs::read_dir(top().join("docs"))
        .unwrap()
        .map(|entry| Path::new("docs").join(entry.unwrap().file_name()))
        .filter(|page| page.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    pages.insert(0, "README.md".into());
    pages
}

pub(crate) fn read(page: &Path) -> String {
    fs::read_to_string(top().join(page)).unwrap_or_else(|e| panic!("{}: {e}", page.display()))
}

/// Every fenced block of every page.
pub(crate) fn fenced() -> Vec<Block> {
    pages()
        .iter()
        .flat_map(|page| blocks(page, &read(page)))
        .collect()
}

/// The blocks with a prompt.
pub(crate) fn all() -> Vec<Block> {
    fenced().into_iter().filter(Block::has_prompt).collect()
}

fn blocks(page: &Path, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    let mut before = "";
    for (at, line) in text.lines().enumerate() {
        if !line.trim_start().starts_with("```") {
            match &mut open {
                Some(block) => block.text.push(line.trim_start_matches("  ").to_owned()),
                None if !line.trim().is_empty() => before = line.trim(),
                None => {}
            }
            continue;
        }
        match open.take() {
            Some(block) => blocks.push(block),
            None => {
                open = Some(Block {
                    page: page.to_owned(),
                    line: at + 1,
                    mark: mark(before),
                    text: Vec::new(),
                })
            }
        }
        before = "";
    }
    assert!(open.is_none(), "{}: a block without an end", page.display());
    blocks
}

fn mark(comment: &str) -> Mark {
    let Some(said) = comment
        .strip_prefix("<!-- ")
        .and_then(|rest| rest.strip_suffix(" -->"))
    else {
        return Mark::None;
    };
    if let Some(reason) = said.strip_prefix("not run: ") {
        return Mark::NotRun(reason.to_owned());
    }
    let Some(fixture) = said.strip_prefix("run: ") else {
        return Mark::None;
    };
    match fixture.strip_suffix(", piped") {
        Some(fixture) => Mark::Run {
            fixture: fixture.to_owned(),
            piped: true,
        },
        None => Mark::Run {
            fixture: fixture.to_owned(),
            piped: false,
        },
    }
}

#[test]
fn blocks_are_taken_apart() {
    let page = "text\n\n<!-- run: srv -->\n```\n$ a \\\n  b\none\n$ c\ntwo\n```\nmore\n```sh\nfathom\n```\n";
    let found = blocks(Path::new("x.md"), page);
    let [first, second] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(
        first.mark,
        Mark::Run {
            fixture: "srv".to_owned(),
            piped: false
        }
    );
    assert_eq!(
        (first.script(), first.shown()),
        ("a \\\nb\nc".to_owned(), "one\ntwo".to_owned())
    );
    assert!(
        first.has_prompt() && !second.has_prompt() && second.mark == Mark::None && first.line == 4
    );
    assert_eq!(
        mark("<!-- not run: no network -->"),
        Mark::NotRun("no network".to_owned())
    );
    assert_eq!(
        mark("<!-- run: srv, piped -->"),
        Mark::Run {
            fixture: "srv".to_owned(),
            piped: true
        }
    );
}
