//! The flags of `fathom list`.

use std::ffi::OsString;

use clap::Args;

use crate::args::help::{EXIT, ending};

const EXAMPLES: &str = "\
fathom list srv.tar  # every member
fathom list srv.0.tar.zst srv.1.tar.zst  # a dump and its increment
fathom list srv.tar -- srv/www  # srv/www and everything below it
ssh HOST cat srv.tar | fathom list -  # from standard input
fathom list srv.tar --json  # with all metadata";

#[derive(Args, Debug)]
#[command(after_help = EXIT, after_long_help = ending(EXAMPLES, "", EXIT))]
pub(crate) struct List {
    /// The archives to list (- for standard input)
    #[arg(required = true, value_name = "ARCHIVE")]
    pub(crate) archives: Vec<OsString>,
    /// The members to list, with everything below them [default: all]
    #[arg(last = true, value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,
}
