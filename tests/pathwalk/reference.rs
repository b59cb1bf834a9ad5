//! The reference program, compiled from reference.c.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::support::run;
use crate::support::run::{Ran, program};
use crate::support::tool::tool;

static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/pathwalk/reference.c");
    let mut hash = DefaultHasher::new();
    fs::read(&source).unwrap().hash(&mut hash);
    let program = dir.join(format!("pathwalk-{:016x}", hash.finish()));
    // Each test is a process; several may compile the program at the same time.
    if !program.exists() {
        let new = dir.join(format!("pathwalk-{}", std::process::id()));
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-Wall", "-Werror", "-o"]);
        tool(compiler.arg(&new).arg(source));
        fs::rename(new, &program).unwrap();
    }
    program
});

/// The path of the reference program.
pub(crate) fn reference() -> &'static Path {
    &PROGRAM
}

/// Runs the reference program on a tree.
pub(crate) fn by_reference(flags: &str, root: &Path) -> Ran {
    let mut command = program(reference(), flags.split_whitespace());
    run(command.arg("--").arg(root))
}
