//! What calls through the gates cost, and what other gates would save: the model of the Multics
//! memo of 1974 (R. E. Mullen, *Backup Performance*).
//!
//! Each call costs a fixed price, that of the cheapest call that asks for something: this is
//! *overhead*. What a call takes beyond it is *useful*. A new gate that answers what several others
//! did saves their overhead; the useful work stays.
//!
//! | room | what is in it |
//! |---|---|
//! | [`gates`] | the table of gates: price of a call, calls for each directory and each file |
//! | [`model`] | overhead and useful, what a proposal would make of them, what that saves |
//! | [`memo`] | the memo's own table, and its proposals |
//! | [`call`] | what a meter tells of another program: calls, processes, totals; and what a meter is |
//! | [`syscalls`] | the file-system system calls: numbers, names, what they are for, where their names and descriptors are |
//! | [`meter`] | the meters of other programs |
//! | `records` | comma-separated values |
//! | [`names`] | what descriptors and directories of processes are called |
//! | [`ledger`] | calls by file and by directory |
//! | [`patterns`] | redundant calls |
//! | [`prices`] | what calls cost without a meter |
//! | [`whatif`] | what changes would save |
//! | [`compare`] | ratios of runs on many systems, as in the tables of 1988 |
//!
//! The model is arithmetic: only the meters, the prices, and what a command begins with touch the
//! kernel.
#![forbid(unsafe_code)]

pub mod call;
pub mod compare;
pub mod gates;
pub mod ledger;
pub mod memo;
pub mod meter;
pub mod model;
pub mod names;
pub mod patterns;
pub mod prices;
mod records;
pub mod syscalls;
pub mod whatif;

pub use gates::{Gate, Per, Wrong, parse};
pub use model::{Asked, Cost, Keeps, Proposal, Swap, cost, fixed_price, predict, saves};
