//! The flags of `fathom verify`.

use std::ffi::OsString;

use clap::Args;

const VERIFY_EXAMPLES: &str = concat!(
    "\
Examples:
  fathom verify srv.tar.zst               whether it is whole
  fathom verify srv.tar --against /       and whether /srv is still as it says
  fathom verify srv.tar --against / --exclude tmp  and nothing else but tmp is there
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
    /// Compare each member with what has its name below DIR: type, mode, owner, size, time, contents, links, attributes;
    /// and tell of what is in the directories that were dumped, and not in the archive
    #[arg(long, value_name = "DIR")]
    pub(crate) against: Option<OsString>,
    /// What need not be in the archive, as it was left out of the dump: names, or with a slash, paths below DIR. May be given
    /// several times
    #[arg(long, value_name = "GLOB", requires = "against")]
    pub(crate) exclude: Vec<String>,
}
