//! Ratios of runs: how many times as much one program takes as another, on each of many systems (J.
//! M. Smith, 1988: the journal paper's Tables 2 to 4, the report's Figures 7 and 10).
//!
//! | module | what is in it |
//! |---|---|
//! | [`runs`] | runs of programs on systems, their ratios, and which runs belong in one table |
//! | [`comparison`] | programs against a base program |
//! | [`mod@file`] | reads runs from a file |
//! | `csv` | ... of comma-separated values |
//! | `json` | ... of fathom's own JSON |

pub mod comparison;
mod csv;
pub mod file;
mod json;
pub mod runs;
