//! The flags of `fathom man`.

use std::ffi::OsString;

use clap::Args;

use crate::args::help::{EXIT, ending, first};

const EXAMPLES: &str = "fathom man /usr/local/share/man/man1  # then: man fathom-walk";

#[derive(Args, Debug)]
#[command(before_help = first(EXAMPLES), after_help = EXIT, after_long_help = ending(EXAMPLES, "", EXIT))]
pub(crate) struct Man {
    /// The directory for the man pages, created if it does not exist
    pub(super) dir: OsString,
}
