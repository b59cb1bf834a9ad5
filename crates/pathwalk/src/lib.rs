//! LLNL's benchmark pathwalk: a tree is made, searched, and removed.
//!
//! The tree ([`Shape`]) has the directories `ROOT/0`, `ROOT/1` and so on, and in the directory `D`
//! the empty files `D.0`, `D.1` and so on. A search looks for a name in one directory after another
//! until it is found: in the last one; or, if it is to fail, in none.
//!
//! | module | what is in it |
//! |---|---|
//! | [`tree`] | the tree: made, and removed |
//! | [`search`] | the timed part |
//! | [`paths`] | the names to look up, counted up in place |
//! | [`histogram`] | how long look-ups take: buckets of at most 3 % |
//! | [`cold`] | having the kernel forget what it knows of the tree |
//! | [`team`] | those that work together: one process, or the ranks of an MPI job |
//! | `mpi` | the ranks of an MPI job; with the feature of that name |
#![forbid(unsafe_code)]

use std::time::Duration;

use mounts::Warning;

pub mod cold;
pub mod histogram;
#[cfg(feature = "mpi")]
pub mod mpi;
pub mod paths;
pub mod search;
pub mod team;
pub mod tree;

pub use cold::{Cold, Forgot};
pub use histogram::Histogram;
pub use search::{Method, Pass, Share, Test, Tested};
pub use team::{Alone, Team, launched};
pub use tree::{Progress, Removed, Shape};

/// What is to be done: each part that is asked for, in this order.
#[derive(Clone, Debug)]
pub struct Question {
    /// Where the tree is, or is to be.
    pub root: Vec<u8>,
    /// Its shape.
    pub shape: Shape,
    /// Whether to make it.
    pub create: bool,
    /// Whether to search it, and how.
    pub test: Option<Test>,
    /// Whether to remove it.
    pub remove: bool,
}

/// What was done. Only rank 0 of a team knows all of it.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// How long it took to make the tree.
    pub created: Option<Duration>,
    /// The searches.
    pub tested: Option<Tested>,
    /// What was removed.
    pub removed: Option<Removed>,
    /// What was skipped or found wrong.
    pub warnings: Vec<Warning>,
}

/// What has just been done: for those who tell of it at once.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The tree is made.
    Created(Duration),
    /// A search is over; `true` for the one file that primes the cache.
    Searched(&'a Pass, bool),
    /// The tree is removed, as far as it could be.
    Removed(Removed),
}

/// Why something was not done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// What was being done: `cannot create`.
    pub doing: String,
    /// To what.
    pub path: Vec<u8>,
    /// What happened, in words.
    pub error: String,
    /// What to do next; may be empty.
    pub next: String,
}

impl Failure {
    pub(crate) fn new(
        doing: &str,
        path: &[u8],
        error: impl std::fmt::Display,
        next: impl Into<String>,
    ) -> Failure {
        Failure {
            doing: doing.to_owned(),
            path: path.to_vec(),
            error: error.to_string(),
            next: next.into(),
        }
    }

    /// That somebody asked this process to stop.
    pub(crate) fn stopped(doing: &str, path: &[u8]) -> Failure {
        Failure::new(doing, path, "interrupted", "")
    }
}

/// Does what is asked, and tells of each part as it is done. Every rank of a team is to ask the
/// same.
///
/// A tree that cannot be made whole is taken away again. One that is made and removed in one go is
/// removed also when its search fails.
///
/// # Errors
/// The first failure of any rank, on all of them.
pub fn run(
    question: &Question,
    team: &dyn Team,
    progress: &Progress,
    tell: &mut dyn FnMut(Event<'_>),
) -> Result<Answer, Failure> {
    let Question { root, shape, .. } = question;
    let mut answer = Answer::default();
    if question.create {
        let took = tree::make(root, *shape, team, progress)?;
        tell(Event::Created(took));
        answer.created = Some(took);
    }
    let tested = match &question.test {
        Some(test) => search::test(root, *shape, test, team, tell, &mut answer.warnings).map(Some),
        None => Ok(None),
    };
    if question.remove && (tested.is_ok() || question.create) {
        // Who has made the tree for this run alone does not leave it behind, whoever asks him to
        // stop.
        let heed = !question.create;
        let removed = tree::remove(root, *shape, team, heed, progress, &mut answer.warnings)?;
        if tested.is_ok() {
            tell(Event::Removed(removed));
        }
        answer.removed = Some(removed);
    }
    answer.tested = tested?;
    Ok(answer)
}
