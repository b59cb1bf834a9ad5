//! Tests of refused command lines: exit status 2, one line on stderr with the reason, an optional
//! hint, and no output files.

mod refused;
