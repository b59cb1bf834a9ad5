//! The number of rounds of a campaign of tests. Unit tests of crates include this file, too.

/// The number of rounds, kills or seeds of a campaign: `few`, or `all` with `FATHOM_EFFORT=all`.
pub(crate) fn effort(few: usize, all: usize) -> usize {
    if std::env::var_os("FATHOM_EFFORT").is_some_and(|effort| effort == "all") {
        all
    } else {
        few
    }
}
