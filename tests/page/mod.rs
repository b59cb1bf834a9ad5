//! Tests of the pages in a browser: headless Chromium opens the pages of `fathom survey` and
//! `fathom compare`, at four widths, light and dark, on paper and without scripts. The screenshots
//! stay in `screenshots` in the build directory.

mod browser;
mod compare;
mod looking;
mod survey;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{Need, need, require, tool};
use browser::{NEEDS, faults, list, look, named, sound, text};
