//! Checks README.md and docs/: links and anchors exist, options exist, examples print what is shown, and docs/claims.md is what its run
//! gives.
//!
//! A block with a line that begins with `$ ` is run. A comment before it names the fixture:
//! `<!-- run: srv -->` (see `fixtures`). It runs on a terminal of 80 columns, or with `, piped`, into
//! a pipe. Its output is compared with the block word by word, except for numbers, sizes, times and
//! truncated words (`shape`). `...` matches any words. A block that is not run says why:
//! `<!-- not run: REASON -->`.

mod blocks;
mod claims;
mod fixtures;
mod links;
mod options;
mod shape;

use blocks::{Block, Mark};
use fixtures::Fixture;

/// The number of blocks that state why they are not run. Adding one is a deliberate decision.
const NOT_RUN: usize = 7;

#[test]
fn every_block_with_a_prompt_is_run_or_says_why_not() {
    let blocks = blocks::all();
    assert!(blocks.len() > 20, "{}", blocks.len());
    let unmarked: Vec<String> = blocks
        .iter()
        .filter(|block| block.mark == Mark::None)
        .map(Block::place)
        .collect();
    assert!(
        unmarked.is_empty(),
        "neither run nor said why not: {unmarked:?}"
    );
    for block in &blocks {
        if let Mark::Run { fixture, .. } = &block.mark {
            assert!(
                Fixture::parse(fixture).is_some(),
                "{}: there is no fixture '{fixture}'",
                block.place()
            );
        }
    }
    let reasons: Vec<(String, &str)> = blocks
        .iter()
        .filter_map(|block| Some((block.place(), block.reason()?)))
        .collect();
    assert_eq!(reasons.len(), NOT_RUN, "{reasons:#?}");
    assert!(
        reasons.iter().all(|(_, reason)| reason.len() > 10),
        "{reasons:#?}"
    );
}

#[test]
fn examples_on_mounts_print_what_is_shown() {
    fixtures::check_examples(Fixture::Srv);
}

#[test]
fn examples_on_more_mounts_print_what_is_shown() {
    fixtures::check_examples(Fixture::Mounts);
}

#[test]
fn examples_on_a_tree_print_what_is_shown() {
    fixtures::check_examples(Fixture::Tree);
}

#[test]
fn examples_on_this_repository_print_what_is_shown() {
    fixtures::check_examples(Fixture::Repository);
}
