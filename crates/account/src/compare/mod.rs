//! Reads files of measurements, for [`figures`](crate::figures) and for ratios of runs: how many times as much one program takes as another, on each of many systems (J.
//! M. Smith, 1988: the journal paper's Tables 2 to 4, the report's Figures 7 and 10).

pub mod comparison;
mod csv;
pub mod file;
mod json;
pub mod runs;
