//! The rows that a dump gathers before it reads files: the same by all four methods.

mod same;
mod sources;
