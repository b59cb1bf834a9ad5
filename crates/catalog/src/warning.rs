//! Warnings that entries are missing, or that a catalog was not replaced.

use base::WarningReason;

/// The reason for a warning about a catalog, or about a comparison with one.
#[derive(Clone, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each one means")]
pub enum WarningKind {
    /// The base catalog has this many entries of a mount that has disappeared.
    #[error("{}", were_on_a_mount(*.entries))]
    MountGone { entries: u64 },
    #[error("not replaced: it has {0} entries that may exist, but could not be read")]
    CatalogKept(u64),
    /// This many entries have no path, because their directories were moved during the walk.
    #[error("{0} entries skipped: their directories were moved during the dump")]
    EntriesLost(u64),
    #[error("more than {0} entries; the rest is skipped")]
    TooManyEntries(usize),
}

fn were_on_a_mount(entries: u64) -> String {
    let were = if entries == 1 {
        "entry was"
    } else {
        "entries were"
    };
    format!("{entries} {were} on a mount that is no longer there")
}

impl WarningReason for WarningKind {
    fn hides_entries(&self) -> bool {
        matches!(
            self,
            WarningKind::EntriesLost(_) | WarningKind::TooManyEntries(_)
        )
    }
}
