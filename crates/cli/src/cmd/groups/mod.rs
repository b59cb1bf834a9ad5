//! Groups of entries, as `walk` and `query` print them.

mod show;

pub(crate) use show::{NamedGroups, write_rows};
