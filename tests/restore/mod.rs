//! End-to-end tests of `fathom restore`: archives of other programs are restored, and the trees are
//! compared.

mod foreign;
mod further;
mod hostile;
mod increments;
mod order;
mod others;
mod rehearsed;
mod safety;
mod strip;
mod threads;
mod untrusted;
mod usage;
