//! End-to-end tests of the installation: by cargo, as a static binary, as a Debian package, with man
//! pages and completions.

mod cargo;
mod deb;
mod man;
mod shells;

use std::path::{Path, PathBuf};

/// The top of the project.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// The commands that are not hidden.
const COMMANDS: [&str; 17] = [
    "mounts",
    "walk",
    "query",
    "changed",
    "dump",
    "restore",
    "list",
    "verify",
    "account",
    "compare",
    "probe",
    "pathsearch",
    "pathwalk",
    "space",
    "survey",
    "completions",
    "man",
];
