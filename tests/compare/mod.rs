//! End-to-end tests of `fathom compare`.

mod figures;
mod fleet;
mod objects;
mod page;
mod papers;
mod tables;
mod usage;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::run::{Ran, args};
use crate::support::{fathom, run};

/// The CSV file of Figure 7 or 10 of the report.
fn figure(number: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../account/data/getmnt-figure{number}.csv"))
}

/// Creates a file with this name and content in a directory of its own.
fn file(name: &str, content: impl AsRef<[u8]>) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, content).unwrap();
    (dir, path)
}

fn compare(files: &[&Path]) -> Ran {
    run(fathom(["compare"]).args(files))
}

fn compare_json(files: &[&Path]) -> Value {
    run(fathom(["compare", "--json"]).args(files)).json()
}

/// A ratio of the first comparison.
fn ratio<'a>(value: &'a Value, of: &str) -> &'a Value {
    let ratios = value["result"]["comparisons"][0]["ratios"]
        .as_array()
        .unwrap();
    ratios
        .iter()
        .find(|ratio| ratio["of"] == of)
        .unwrap_or_else(|| panic!("no {of}: {value}"))
}
