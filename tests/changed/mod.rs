//! End-to-end tests of `fathom changed` and of its catalogs. Each creates its file systems in its
//! own mount namespace, which requires root.

mod catalogs;
mod diff;
mod kinds;
mod replay;
mod since;
mod times;
mod tools;
