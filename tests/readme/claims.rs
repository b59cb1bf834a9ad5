//! docs/claims.md: every claim of bench/claims.csv, with a verdict that follows from the figures of the run that it names.

use std::process::Command;

use super::blocks::top;
use crate::support::{Need, require, run};

#[test]
fn the_verdicts_of_docs_claims_follow_from_the_committed_run() {
    if require(&[Need::Program("python3")]) {
        let page = top().join("bench/claimspage.py");
        run(Command::new("python3").arg(page).arg("--check")).exits(0);
    }
}
