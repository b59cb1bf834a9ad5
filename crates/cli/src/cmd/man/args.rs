//! The flags of `fathom man`.

use std::ffi::OsString;

use clap::Args;

use crate::args::help::{EXIT, ending};

const EXAMPLES: &str = "fathom man /usr/local/share/man/man1  # for everybody: man fathom-walk";

#[derive(Args, Debug)]
#[command(after_help = EXIT, after_long_help = ending(EXAMPLES, "", EXIT))]
pub(crate) struct Man {
    /// The directory to write them into, which is made if need be
    pub(super) dir: OsString,
}
