//! End-to-end tests of `fathom dump`: other programs restore the archives, and the trees are
//! compared.

mod account;
mod bases;
mod chains;
mod changes;
mod counts;
mod estimates;
mod everything;
mod faults;
mod fire;
mod foreign;
mod full;
mod hostile;
mod incomplete;
mod increments;
mod levels;
mod listed;
mod moved;
mod open_files;
mod read_back;
mod rounds;
mod same;
mod seek;
mod selection;
mod usage;
mod written;
