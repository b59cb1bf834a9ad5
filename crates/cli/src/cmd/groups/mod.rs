//! Groups of entries, in the output of `walk` and `query`.

mod show;

pub(crate) use show::{NamedGroups, or_number, write_rows};
