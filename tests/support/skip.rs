//! Tests that cannot run on a machine. Unit tests of crates include this file, too.

use std::fmt::Display;
use std::io::Write;

/// Says that a test is skipped because the machine lacks something: on stderr, and in the list that
/// `tools/test` prints at its end, because cargo-nextest shows the output of failed tests only. Fails the
/// test under `CI=true`.
#[track_caller]
#[allow(
    clippy::disallowed_types,
    reason = "crates that include this file work past the gate in tests"
)]
pub(crate) fn skip(lacking: impl Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let is_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    assert!(!is_ci, "{test} cannot run: {lacking}");
    let _ = writeln!(std::io::stderr(), "\n*** SKIPPED {test}: {lacking}");
    if let Some(list) = std::env::var_os("FATHOM_SKIPPED") {
        let list = std::fs::OpenOptions::new().append(true).open(list);
        let _ = list.and_then(|mut list| writeln!(list, "{test}: {lacking}"));
    }
}
