//! What to do about a warning, by its reason and errno. The hints stand here, and not in the crates
//! that warn, because many of them name a flag or a command.

use mounts::Warning;

/// What to do about a warning.
pub(crate) fn hint(_warning: &Warning) -> Option<&'static str> {
    None
}
