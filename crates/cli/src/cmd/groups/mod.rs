//! Groups of entries, as `walk` and `query` print them.

mod show;

pub(crate) use show::{Group, group_csv, group_ndjson, group_table, growth_table, named};
