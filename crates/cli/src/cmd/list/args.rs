//! The flags of `fathom list`.

use std::ffi::OsString;

use clap::Args;

use crate::args::help::{EXIT, ending, first};

const EXAMPLES: &str = "\
fathom list srv.tar  # every member
fathom list --state /backup/srv -- nginx.conf  # the versions of a file in all dumps
fathom list srv.0.tar.zst srv.1.tar.zst  # a dump and its increment
fathom list srv.tar srv/www  # srv/www and everything below it
fathom list srv.tar '*.conf'  # all members whose names end with .conf
ssh HOST cat srv.tar | fathom list -  # from standard input
fathom list srv.tar --json  # with all metadata
fathom list --state /var/lib/fathom  # the dumps of a state directory, and the archives that restore each";

const MORE: &str = "\
Arguments after -- are PATHs. Without --, the first argument is an archive, and the PATHs begin at the \
first later argument that is not an existing file. The wildcards *, ? and [...] in PATHs match any characters, including slashes. \
Control characters, backslashes and invalid UTF-8 in names are escaped; --json has the exact names.";

#[derive(Args, Debug)]
#[command(before_help = first(EXAMPLES), after_help = EXIT, after_long_help = ending(EXAMPLES, MORE, EXIT),
          override_usage = "fathom list [OPTIONS] ARCHIVE... [[--] PATH...]\n       fathom list [OPTIONS] --state DIR [[--] PATH...]")]
pub(crate) struct List {
    /// The archives to list (- for stdin)
    ///
    /// An ARCHIVE may also be a directory with all parts of one dump, written under mpirun.
    #[arg(required_unless_present = "state", value_name = "ARCHIVE")]
    pub(crate) archives: Vec<OsString>,
    /// The members to list (names or globs), with all below [default: all]
    #[arg(last = true, value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,

    /// List the dumps in a state directory, or find PATHs in all of them
    ///
    /// With PATHs, each version of each file is printed: its mode, size and time, the number of dumps
    /// that have it, and the time of the last of these dumps, for fathom restore --at. This reads
    /// the catalogs, which are kept for dumps that were made without -o. A PATH is an absolute path
    /// on the machine, a path relative to SRC, or a name in the archive, and may have wildcards. A
    /// PATH without a slash also matches files with this name in any directory.
    ///
    /// Without PATHs, the dumps are printed. RESTORE has the numbers of the archives to restore, in
    /// order, for the tree of that dump. STATUS says whether its archive is unchanged, is missing,
    /// was replaced by a different file, was streamed to a pipe, or was found damaged by fathom
    /// verify --state; and whether the dump is incomplete, because entries could not be read. The table is followed by the names of these
    /// entries.
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<OsString>,
}
