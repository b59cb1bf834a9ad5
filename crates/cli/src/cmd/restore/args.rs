//! The flags of `fathom restore`.

use std::ffi::OsString;

use archive::restore::RestoredAttributes;
use clap::Args;

use crate::args::deadline::DeadlineArgs;
use crate::args::help::{EXIT, ending, first};
use crate::args::load::LoadArgs;
use crate::args::values::{number, when};
use crate::date::DumpTime;

const EXAMPLES: &str = "\
fathom restore full.tar -C /mnt  # everything, below /mnt: of a dump of /srv, /mnt/srv
fathom restore --state /backup/srv --at yesterday -C /mnt /srv/www  # a directory, by its path on the machine
fathom restore full.tar monday.tar tuesday.tar  # the tree as of Tuesday
fathom restore full.tar.zst -C /tmp/x home/me  # only home/me
fathom restore full.tar 'home/*/.ssh'  # only the directories .ssh
fathom restore full.tar home/me --strip-components 2  # the contents of home/me, without home/me/
fathom restore full.tar -- home/me a.tar  # PATHs that look like archives
ssh HOST cat full.tar | fathom restore - -C /mnt  # from standard input
fathom restore --state /var/lib/fathom --at 2026-11-20 -C /mnt  # the tree as of that day
fathom restore --state /backup/srv --at 2d --to - /srv/etc/hosts  # a file to standard output
fathom restore full.tar --dry-run  # print what would be done";

const MORE: &str = "\
Arguments after -- are PATHs. Without --, the first argument is an archive, and the PATHs begin at the \
first later argument that is not an existing file. If a PATH without -- is not in the archives, nothing is restored. \
The wildcards *, ? and [...] in PATHs match any characters, including slashes.";

/// `fathom restore` has no -x, so the shared text of this flag does not apply.
const DEADLINE: &str = "\
Skip network and FUSE mounts that do not answer within this time [default: 30s]

A child process accesses each of these mounts below DIR first. If a mount does not answer, nothing is \
restored there, and warnings name the members.";

#[derive(Args, Debug)]
#[command(mut_arg("deadline", |arg| arg.long_help(DEADLINE).help_heading(None::<&str>)))]
#[command(before_help = first(EXAMPLES), after_help = EXIT, after_long_help = ending(EXAMPLES, MORE, EXIT),
          override_usage = "fathom restore [OPTIONS] ARCHIVE... [-C DIR] [[--] PATH...]")]
pub(crate) struct Restore {
    /// The archives, oldest first (- for stdin)
    ///
    /// An ARCHIVE may also be a directory with all parts of one dump, written under mpirun.
    #[arg(required_unless_present = "state", value_name = "ARCHIVE")]
    pub(crate) archives: Vec<OsString>,
    /// The members to extract (names or globs), with all below [default: all]
    #[arg(last = true, value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,

    /// Use the archives that a state directory records
    ///
    /// Then all arguments are PATHs: absolute paths on the machine, paths relative to SRC, or names
    /// in the archive. fathom list --state prints the dumps.
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<OsString>,
    /// With --state, use the last dump that began by this time [default: latest]
    ///
    /// TIME is a date in local time (TZ), as fathom list --state prints it (2026-11-20 includes the
    /// whole day, '2026-11-20 03:00' the whole minute); a date with its offset from UTC
    /// (2026-11-20T03:00:00Z); @SECONDS since 1970; today, or yesterday (to the end of that day); a
    /// time before now such as 2d, 12h or 30min; or latest.
    #[arg(long, value_name = "TIME", requires = "state", value_parser = when)]
    pub(crate) at: Option<DumpTime>,
    /// With --state, write one file to standard output (-)
    ///
    /// The only value is -, for standard output. PATH is the path of a regular file. If its checksum is wrong, the exit status is 1.
    #[arg(long, value_name = "-", requires = "state", value_parser = only_stdout)]
    #[arg(conflicts_with_all = ["directory", "strip_components", "dry_run", "sync", "overwrite"])]
    pub(crate) to: Option<String>,

    /// Extract into an existing directory
    #[arg(short = 'C', long, value_name = "DIR", default_value = ".")]
    pub(crate) directory: OsString,
    /// Remove N leading components from the names of members
    ///
    /// Targets of hard links change in the same way; those of symbolic links do not. Members with
    /// no more than N components are skipped. PATHs refer to the names before this change. Only for
    /// a single archive.
    #[arg(long, value_name = "N", default_value = "0", hide_default_value = true)]
    #[arg(value_parser = number(0..=65_535_usize))]
    pub(crate) strip_components: usize,
    /// Set owners by number, even where their names exist
    #[arg(long)]
    pub(crate) numeric_owner: bool,
    /// Restore no owners: all files belong to you
    ///
    /// Set-id bits and capabilities are not restored either.
    #[arg(long, help_heading = "Archives of others")]
    pub(crate) no_same_owner: bool,
    /// Restore no set-id bits and no access control lists; apply the umask
    ///
    /// Sticky bits are not restored either.
    #[arg(long, help_heading = "Archives of others")]
    pub(crate) no_same_permissions: bool,
    /// Skip devices
    #[arg(long, help_heading = "Archives of others")]
    pub(crate) no_devices: bool,
    /// Restore no extended attributes, so no capabilities or access lists
    #[arg(long, help_heading = "Archives of others")]
    pub(crate) no_xattrs: bool,
    /// Restore increments over existing files
    ///
    /// Increments remove files that they do not list. So without this option, several archives are
    /// restored only into a new or empty directory, and so is a single archive of --state, unless
    /// each PATH selects only files. A single archive given by name is always restored. Existing
    /// entries that are not in the archives stay, except in directories that an increment has: a
    /// status message names the removed ones.
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Wait until all data is on disk (syncfs)
    ///
    /// Without it, a power failure within half a minute can leave files empty or missing, as after tar.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) sync: bool,
    /// Use N threads [default: by processors and file system]
    #[arg(short, long, value_name = "N", value_parser = number(1..=256_usize))]
    pub(crate) jobs: Option<usize>,
    /// Print what would be done, and change nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) deadline: DeadlineArgs,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
}

/// Accepts only `-` for `--to`: restore writes files below a directory.
fn only_stdout(text: &str) -> Result<String, &'static str> {
    match text {
        "-" => Ok(text.to_owned()),
        _ => Err("give - for standard output, or -C to restore into a directory"),
    }
}

impl Restore {
    /// The metadata that restored members keep.
    pub(crate) fn kept(&self) -> RestoredAttributes {
        RestoredAttributes {
            owners: !self.no_same_owner,
            permissions: !self.no_same_permissions,
            devices: !self.no_devices,
            xattrs: !self.no_xattrs,
        }
    }
}
