//! Groups of entries, in the output of `walk` and `query`.

mod show;

pub(crate) use show::{NamedGroups, at_most_64_bits, or_number, write_rows};
