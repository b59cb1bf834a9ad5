//! The flags of `fathom verify`.

use std::ffi::OsString;

use clap::Args;

use crate::args::help::{EXIT, ending};

const EXAMPLES: &str = "\
fathom verify srv.tar.zst  # whether it is whole
fathom verify srv.tar --against /  # and whether /srv is still as it says
fathom verify srv.tar --against / --exclude tmp  # and nothing else but tmp is there
ssh HOST cat srv.tar | fathom verify -  # from standard input";

#[derive(Args, Debug)]
#[command(after_help = EXIT, after_long_help = ending(EXAMPLES, "", EXIT))]
pub(crate) struct Verify {
    /// The archive; - is standard input
    #[arg(value_name = "ARCHIVE")]
    pub(crate) archive: OsString,
    /// Compare each member with what has its name below DIR: type, mode, owner, size, time,
    /// contents, links, attributes; and tell of what is in the directories that were dumped, and
    /// not in the archive
    #[arg(long, value_name = "DIR")]
    pub(crate) against: Option<OsString>,
    /// Leave out of it what matches, as it was left out of the dump: by name, or by path below DIR
    /// if there is a slash in GLOB
    #[arg(long, value_name = "GLOB", requires = "against")]
    pub(crate) exclude: Vec<String>,
}
