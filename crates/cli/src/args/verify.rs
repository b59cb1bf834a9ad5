//! The flags of `fathom verify`.

use std::ffi::OsString;

use clap::Args;

use super::help::{EXIT, ending};

const EXAMPLES: &[(&str, &str)] = &[
    ("fathom verify srv.tar.zst", "whether it is whole"),
    ("fathom verify srv.tar --against /", "and whether /srv is still as it says"),
    ("ssh HOST cat srv.tar | fathom verify -", "from standard input"),
];

/// The flags of `fathom verify`.
#[derive(Args, Debug)]
#[command(after_help = EXIT, after_long_help = ending(EXAMPLES, "", EXIT))]
pub(crate) struct Verify {
    /// The archive; - is standard input
    #[arg(value_name = "ARCHIVE")]
    pub(crate) archive: OsString,
    /// Compare each member with what has its name below DIR: type, mode, owner, size, time, contents, links, attributes;
    /// what is there and in no member is not looked for
    #[arg(long, value_name = "DIR")]
    pub(crate) against: Option<OsString>,
}
