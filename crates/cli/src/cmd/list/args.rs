//! The flags of `fathom list`.

use std::ffi::OsString;

use clap::Args;

use crate::args::help::{EXIT, ending};

const EXAMPLES: &str = "\
fathom list srv.tar  # every member, a line each
fathom list srv.0.tar.zst srv.1.tar.zst  # of a dump and its increment, compressed
fathom list srv.tar -- srv/www  # what is at or under srv/www
ssh HOST cat srv.tar | fathom list -  # from standard input
fathom list srv.tar --json  # with all that is known of each";

#[derive(Args, Debug)]
#[command(after_help = EXIT, after_long_help = ending(EXAMPLES, "", EXIT))]
pub(crate) struct List {
    /// The archives; - is standard input
    #[arg(required = true, value_name = "ARCHIVE")]
    pub(crate) archives: Vec<OsString>,
    /// The members to list, with all that is under them; all, if there is none
    #[arg(last = true, value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,
}
