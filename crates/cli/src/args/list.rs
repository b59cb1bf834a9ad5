//! The flags of `fathom list`.

use std::ffi::OsString;

use clap::Args;

const LIST_EXAMPLES: &str = concat!(
    "\
Examples:
  fathom list srv.tar                     every member, a line each
  fathom list srv.0.tar.zst srv.1.tar.zst of a dump and its increment, compressed
  fathom list srv.tar -- srv/www          what is at or under srv/www
  ssh host cat srv.tar | fathom list -    from standard input
  fathom list srv.tar --json              with all that is known of each

",
    exit!()
);

/// The flags of `fathom list`.
#[derive(Args, Debug)]
#[command(after_help = exit!(), after_long_help = LIST_EXAMPLES)]
pub(crate) struct List {
    /// Archives; - is standard input
    #[arg(required = true, value_name = "ARCHIVE")]
    pub(crate) archives: Vec<OsString>,
    /// Only these members, and what is under them
    #[arg(last = true, value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,
}
