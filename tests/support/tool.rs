//! Other programs.

use std::process::Command;

/// Runs a tool that must succeed, and returns its output.
pub(crate) fn tool(command: &mut Command) -> Vec<u8> {
    let out = command
        .env("LC_ALL", "C")
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        out.status.success(),
        "{command:?}: {}\n{}",
        out.status,
        String::from_utf8_lossy(&out.stderr)
    );
    out.stdout
}
