//! End-to-end tests of `fathom changed`, and of the catalogs that it goes by. Each builds what it
//! needs in a mount namespace of its own, which takes root.

mod catalogs;
mod diff;
mod kinds;
mod replay;
mod since;
mod times;
mod tools;
