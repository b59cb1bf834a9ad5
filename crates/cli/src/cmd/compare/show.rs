//! How `fathom compare` words what it found.

use account::ErrorKind;

/// The flags that give a file what it lacks.
pub(super) fn advice(kind: &ErrorKind) -> String {
    match kind {
        ErrorKind::OtherSchema(_) => {
            ": runs are of mounts --compare, walk --compare, account and pathwalk".to_owned()
        }
        ErrorKind::NotCompared(kind) => format!(": give --compare to fathom {}", kind.name()),
        ErrorKind::NoRun => ": give account a command, and pathwalk -t".to_owned(),
        _ => String::new(),
    }
}
