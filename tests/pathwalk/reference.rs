//! The reference, compiled from the source beside this.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::support::build::tool;
use crate::support::run;
use crate::support::run::{Ran, program};

static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
    // Two test runs at once must not write the same file.
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

/// The program itself.
pub(crate) fn reference() -> &'static Path {
    &PROGRAM
}

/// Runs it on a tree.
pub(crate) fn by_reference(flags: &str, root: &Path) -> Ran {
    let mut command = program(reference(), flags.split_whitespace());
    run(command.arg("--").arg(root))
}
