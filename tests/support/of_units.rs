//! Modules that unit tests of crates share with the end-to-end tests.

#[path = "../page/browser.rs"]
pub(crate) mod browser;
pub(crate) mod need;
pub(crate) mod skip;
pub(crate) mod tool;
