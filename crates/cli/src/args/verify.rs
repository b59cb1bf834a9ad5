//! The flags of `fathom verify`.

use std::ffi::OsString;

use clap::Args;

const VERIFY_EXAMPLES: &str = concat!(
    "\
Examples:
  fathom verify srv.tar.zst               whether it is whole
  fathom verify srv.tar --against /       and whether /srv is still as it says
  ssh host cat srv.tar | fathom verify -  from standard input

",
    exit!()
);

/// The flags of `fathom verify`.
#[derive(Args, Debug)]
#[command(after_help = exit!(), after_long_help = VERIFY_EXAMPLES)]
pub(crate) struct Verify {
    /// The archive; - is standard input
    #[arg(value_name = "ARCHIVE")]
    pub(crate) archive: OsString,
    /// Compare each member with what has its name below DIR: type, mode, owner, size, time, contents, links, attributes.
    /// What is there and in no member is not looked for
    #[arg(long, value_name = "DIR")]
    pub(crate) against: Option<OsString>,
}
