//! README.md and docs/ hold: their links lead somewhere, the options that they name are there, and
//! what they show is what the program prints.
//!
//! A block with a line that begins with `$ ` is run, and stands behind a comment that says where:
//! `<!-- run: srv -->` (see `fixtures`), at a terminal of 80 columns; with `, piped`, into a pipe.
//! Its output is compared with what is shown, word by word, save for what differs from run to run:
//! numbers, sizes, times, what is cut off (`shape`). `...` stands for any words. A block that is
//! not run says why: `<!-- not run: REASON -->`.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the tests build and check past the gate"
)]

#[path = "../support/mod.rs"]
mod support;

mod blocks;
mod fixtures;
mod links;
mod options;
mod shape;

use blocks::{Block, Mark};
use fixtures::Fixture;

/// Blocks that say why they are not run. One more is a decision.
const NOT_RUN: usize = 6;

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
        if let Mark::Run { ground, .. } = &block.mark {
            assert!(
                Fixture::parse(ground).is_some(),
                "{}: there is no ground '{ground}'",
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
fn what_is_shown_on_mounts_is_printed() {
    fixtures::hold(Fixture::Srv);
}

#[test]
fn what_is_shown_on_more_mounts_is_printed() {
    fixtures::hold(Fixture::Mounts);
}

#[test]
fn what_is_shown_on_a_tree_is_printed() {
    fixtures::hold(Fixture::Tree);
}

#[test]
fn what_is_shown_on_this_repository_is_printed() {
    fixtures::hold(Fixture::Repository);
}
