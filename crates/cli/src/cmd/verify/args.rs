//! The flags of `fathom verify`.

use std::ffi::OsString;

use archive::verify::IgnoredMetadata;
use clap::Args;
use clap::builder::TypedValueParser;

use crate::args::deadline::DeadlineArgs;
use crate::args::help::{EXIT, ending, first};
use crate::args::monitor::MonitorArgs;
use crate::args::values::named;
use crate::cmd::selection::Excludes;

const EXAMPLES: &str = "\
fathom verify srv.tar.zst  # check all checksums
fathom verify --state /backup/srv --against /  # check all dumps, and compare the newest with the tree
fathom verify srv.0.tar.zst srv.1.tar.zst  # two archives
fathom verify srv.tar.zst -- srv/www  # only the members with this name or below it
fathom verify srv.tar.zst -- '*.db'  # only the members whose names end with .db
fathom verify srv.tar --against /  # and compare the members with /srv
fathom verify a.tar --against B --ignore mtime,owner,mode,xattrs,links  # compare only contents
fathom verify srv.tar --against / --exclude tmp  # except for files named tmp
ssh HOST cat srv.tar | fathom verify -  # from standard input";

const MORE: &str = "\
Arguments after -- are PATHs. Without --, the first argument is an archive, and the PATHs begin at the \
first later argument that is not an existing file. The wildcards *, ? and [...] in PATHs match any characters, including slashes.";

/// `fathom verify` has no -x, so the shared text of this flag does not apply.
const DEADLINE: &str = "\
Skip network and FUSE mounts that do not answer within this time [default: 30s]

With --against, a child process accesses each of these mounts below DIR first. If a mount does not answer, \
the members on it are not compared, and a warning names it if there are any.";

const IGNORED: &str = "\
mtime   Modification times
owner   Users and groups
mode    Permission bits
xattrs  Extended attributes and access control lists
links   Which names are hard links of one file";

fn ignored() -> impl TypedValueParser<Value = IgnoredMetadata> {
    use IgnoredMetadata::{Links, Mode, Mtime, Owner, Xattrs};
    named(IGNORED, [Mtime, Owner, Mode, Xattrs, Links])
}

#[derive(Args, Debug)]
#[command(before_help = first(EXAMPLES), after_help = EXIT, after_long_help = ending(EXAMPLES, MORE, EXIT),
          override_usage = "fathom verify [OPTIONS] ARCHIVE... [[--] PATH...]\n       fathom verify [OPTIONS] --state DIR")]
#[command(group = clap::ArgGroup::new("excluded").multiple(true).requires("against")
    .args(["exclude", "exclude_from", "exclude_caches", "exclude_if_present", "deadline"]))]
#[command(mut_arg("deadline", |arg| arg.long_help(DEADLINE)))]
pub(crate) struct Verify {
    /// The archives to check (- for stdin)
    ///
    /// An ARCHIVE may also be a directory with all parts of one dump, written under mpirun. The
    /// numbers of several archives are added up.
    #[arg(value_name = "ARCHIVE", required_unless_present = "state")]
    pub(crate) archives: Vec<OsString>,
    /// The members to check (names or globs), with all below [default: all]
    #[arg(last = true, value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,
    /// Compare each member with the file of its name below DIR
    ///
    /// Type, mode, owner, size, modification time, contents, links and attributes are compared.
    /// Files of archived directories that are not in the archive are reported, too. Members of an
    /// archive of /srv have names such as srv/www: compare it with --against /. Each of several
    /// archives is compared with DIR, not the tree that the chain restores: verify --state DIR
    /// checks chains, and with --against compares the newest tree.
    #[arg(long, value_name = "DIR")]
    pub(crate) against: Option<OsString>,
    /// With --against, ignore differences of these metadata
    ///
    /// Give a list, such as mtime,owner. With all of them, only names, types, contents, symlink
    /// targets and device numbers are compared. With links, the contents of hard links are compared
    /// with those of their target in DIR.
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "against", value_parser = ignored())]
    pub(crate) ignore: Vec<IgnoredMetadata>,
    /// Require only the files that FILE names to be archived (- for stdin)
    ///
    /// Give the list with which the archive was dumped: other files of the directories above the
    /// names are not in the archive.
    #[arg(long, value_name = "FILE", help_heading = "Selection")]
    #[arg(requires = "against")]
    pub(crate) files_from: Vec<OsString>,
    /// With --files-from, names end with a NUL, not a newline
    #[arg(short = '0', long, help_heading = "Selection", requires = "files_from")]
    pub(crate) null: bool,
    /// Check all dumps of a state directory instead
    ///
    /// Every archive is read, and every chain checked. Damaged archives are recorded in DIR: no later
    /// dump is based on them. With --against, the newest dump is compared by its catalog: names,
    /// types, permissions, owners, sizes, modification times, and contents by their checksums.
    #[arg(long, value_name = "DIR")]
    #[arg(conflicts_with_all = ["archives", "exclude", "exclude_from", "exclude_caches", "exclude_if_present", "files_from"])]
    pub(crate) state: Option<OsString>,
    #[command(flatten)]
    pub(crate) excludes: Excludes,
    #[command(flatten)]
    pub(crate) deadline: DeadlineArgs,
    #[command(flatten)]
    pub(crate) monitor: MonitorArgs,
}
