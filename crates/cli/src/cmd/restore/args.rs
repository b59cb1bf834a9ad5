//! The flags of `fathom restore`.

use std::ffi::OsString;

use clap::Args;

use crate::args::help::{EXIT, ending};

const EXAMPLES: &str = "\
fathom restore full.tar -C /srv  # all of it, beneath /srv
fathom restore full.tar monday.tar tuesday.tar  # the tree of Tuesday
fathom restore full.tar.zst -C /tmp/x home/me  # what is under one name
fathom restore full.tar -- home/me a.tar  # where a name might be taken for an archive
ssh HOST cat full.tar | fathom restore - -C /srv  # from a pipe
fathom restore full.tar --dry-run  # what would be done";

const MORE: &str = "\
Behind -- all arguments are PATHs. Without it, those before the first that is no file are archives, and the rest are PATHs; the \
first is an archive always.";

#[derive(Args, Debug)]
#[command(after_help = EXIT, after_long_help = ending(EXAMPLES, MORE, EXIT),
          override_usage = "fathom restore [OPTIONS] ARCHIVE... [-C DIR] [[--] PATH...]")]
pub(crate) struct Restore {
    /// The archives, in the order in which they were made; - is standard input; a name that is no
    /// file is a PATH, if an archive stands before it
    #[arg(required = true, value_name = "ARCHIVE")]
    pub(crate) archives: Vec<OsString>,
    /// The names in the archives to restore, with all that is below them; all, if there is none
    #[arg(last = true, value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,

    /// Restore into DIR, which must be there
    #[arg(short = 'C', long, value_name = "DIR", default_value = ".")]
    pub(crate) directory: OsString,
    /// Go by the numbers of owners, as root, even where their names are known here
    #[arg(long)]
    pub(crate) numeric_owner: bool,
    /// Print what would be done, a line for each member, and touch nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
}
