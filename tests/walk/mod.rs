//! End-to-end tests of `fathom walk`. Each creates its file systems in its own mount namespace,
//! which requires root.

mod boundaries;
mod compare;
mod counts;
mod damaged;
mod engines;
mod exclusive;
mod find;
mod formats;
mod groups;
mod load;
mod names;
mod ncdu;
mod predicates;
mod query;
mod remote;
mod right;
mod shapes;
mod shards;
mod sizes;
mod usage;
mod writers;
