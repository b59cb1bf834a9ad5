//! General tools for output to people and programs: names, JSON, tables, units, pages.
//!
//! This crate knows no file system and no command; the texts of a command are in its `show.rs` in
//! the crate `cli`.
//!
//! | module | contents |
//! |---|---|
//! | [`name`] | file names of any bytes, for terminals and for JSON |
//! | [`json`] | the envelope of `--json` |
//! | [`table`] | columns that fit the terminal |
//! | [`units`] | counts, sizes and durations for people |
//! | [`profile`] | the profile table of the 1988 papers |
//! | [`shell`] | file names quoted for shell commands |
//! | [`figure`] | figures as SVG |
//! | [`treemap`](mod@treemap) | treemaps as SVG |
//! | [`html`] | the frame of a self-contained HTML page |
#![forbid(unsafe_code)]

// Used by the expansion of `json_object!`.
#[doc(hidden)]
pub use {serde, serde_json};

pub mod figure;
pub mod html;
pub mod json;
pub mod name;
pub mod profile;
pub mod shell;
pub mod table;
pub mod treemap;
pub mod units;
