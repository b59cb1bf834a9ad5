//! Groups of entries, as `walk` and `query` print them.

mod show;

pub(crate) use show::{NamedGroups, or_number, write_rows};
