//! Command lines that are refused: status 2, one line on stderr that says why, perhaps a hint, and
//! nothing is written.

mod refused;
