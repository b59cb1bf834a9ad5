//! The cost of a command's file-system calls, which of them are redundant, and what fewer calls
//! would save; and the differences between two measurements.
//!
//! Savings are estimated by the model of the Multics memo of 1974 (R. E. Mullen, *Backup
//! Performance*). Each call costs a fixed price, that of the cheapest call that returns information:
//! this is *overhead*. The rest of its cost is *useful*. A call that replaces several others saves
//! their overhead; the useful work stays.
//!
//! | module | contents |
//! |---|---|
//! | [`gates`] | the table of system calls: price, calls per directory and per file |
//! | [`model`] | overhead and useful work, the effect of a proposal on them, and its saving |
//! | [`memo`] | the memo's own table, and its proposals |
//! | `error` | why a table of system calls, or a file of runs, cannot be read |
//! | `records` | comma-separated values |
//! | [`ledger`] | calls by file and by directory |
//! | [`patterns`] | redundant calls |
//! | [`prices`] | the cost of calls without a meter |
//! | `estimate` | calls × price, in place of times that a meter distorts |
//! | [`whatif`] | what changes would save |
//! | `sum` | a number of calls, and the time in them |
//! | [`waits`] | time on pipes, sockets and terminals, and for locks |
//! | [`command`] | runs a command under a meter, and accounts for its calls |
//! | [`report`] | the account of a command, row by row |
//! | [`stacks`] | calls by program, directory and name, for flame graphs |
//! | [`dump`] | the memo's tables for a dump of fathom's own |
//! | [`figures`] | measured values in the common form of all commands, and their comparison |
//! | [`compare`] | ratios of runs on many systems, as in the tables of 1988 |
//!
//! The model is arithmetic: only `prices` and `command` make system calls.
#![forbid(unsafe_code)]

pub mod command;
pub mod compare;
pub mod dump;
mod error;
mod estimate;
pub mod figures;
pub mod gates;
pub mod intervals;
pub mod ledger;
pub mod memo;
pub mod model;
pub mod patterns;
pub mod prices;
mod records;
pub mod report;
pub mod stacks;
mod sum;
pub mod waits;
pub mod whatif;

pub use error::{Error, InputFault};
pub use gates::{Gate, PerKind, fixed_price, parse};
pub use model::{CallReplacement, Cost, GateSet, KeptWork, Proposal, cost, predict, saves};
