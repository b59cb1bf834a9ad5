//! The reference program, compiled from reference.c.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::support::build::tool;
use crate::support::run;
use crate::support::run::{Ran, program};

static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
    // Two test runs at a time must not write the same file.
    let program =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pathwalk-{}", std::process::id()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/pathwalk/reference.c");
    tool(
        Command::new("cc")
            .args(["-O2", "-Wall", "-Werror", "-o"])
            .arg(&program)
            .arg(source),
    );
    program
});

/// The file of the program.
pub(crate) fn reference() -> &'static Path {
    &PROGRAM
}

/// Runs it on a tree.
pub(crate) fn by_reference(flags: &str, root: &Path) -> Ran {
    let mut command = program(reference(), flags.split_whitespace());
    run(command.arg("--").arg(root))
}
