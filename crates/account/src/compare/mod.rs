//! Reads files of measurements, to compare [`figures`](crate::figures) and to compute the ratios of
//! two programs' times on many systems (J. M. Smith, 1988: the journal paper's Tables 2 to 4, the
//! report's Figures 7 and 10).

pub mod comparison;
mod csv;
pub mod file;
mod json;
pub mod runs;

pub use json::ACCOUNT;
