//! The data of a survey: its sections, and the difference of two saved surveys. Words, tables and
//! pages are made of it elsewhere.
//!
//! | module | contents |
//! |---|---|
//! | [`section`] | the sections of a survey |
//! | [`saved`] | a survey as `fathom survey --json` wrote it, read back |
//! | [`diff`] | what differs between two saved surveys |
//! | [`error`] | why a document is not a survey |
#![forbid(unsafe_code)]

pub mod diff;
pub mod error;
pub mod saved;
pub mod section;

pub use error::Error;
pub use section::Section;
