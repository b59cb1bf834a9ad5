//! The flags of `fathom account`.

use std::ffi::OsString;

use clap::Args;

use super::values::{mix, percent};

const ACCOUNT_EXAMPLES: &str = concat!(
    "\
Examples:
  fathom account --model             the memo's own table, and what it prints
  fathom account --model gates.csv   another, with columns gate, ms_per_call, calls_per_dir,
                                     calls_per_file (or calls_per_seg), for_effect (yes or no)

",
    exit!()
);

/// The flags of `fathom account`.
#[derive(Args, Debug)]
#[command(after_help = ACCOUNT_EXAMPLES)]
pub(crate) struct Account {
    /// The table of gates; without FILE, the memo's
    #[arg(long, value_name = "FILE", required = true, num_args = 0..=1)]
    pub(crate) model: Option<Option<OsString>>,
    /// Directories and files among what is asked about
    #[arg(long, value_name = "DIRS:FILES", default_value = "40:60", value_parser = mix)]
    pub(crate) mix: (f64, f64),
    /// The percentage of the program's CPU time that goes into calls for information
    #[arg(long, value_name = "PERCENT", default_value_t = account::memo::SHARE, value_parser = percent)]
    pub(crate) share: f64,
    /// The percentage of the system's CPU time that the program uses
    #[arg(long, value_name = "PERCENT", default_value_t = account::memo::SYSTEM, value_parser = percent)]
    pub(crate) system: f64,
}
