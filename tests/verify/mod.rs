//! End-to-end tests of `fathom verify`.

mod against;
mod damaged;
