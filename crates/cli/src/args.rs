//! The command line: all commands and the global flags. The flags of a command are in
//! `cmd/<command>/args.rs`. The parser, `-h`, `--help`, the man pages and the completions come from
//! these definitions.

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::cmd::{
    account, changed, compare, completions, dump, list, man, mounts, pathsearch, pathwalk, probe,
    query, restore, space, survey, verify, walk,
};

pub(crate) mod deadline;
pub(crate) mod help;
pub(crate) mod load;
pub(crate) mod mode;
pub(crate) mod monitor;
pub(crate) mod output;
pub(crate) mod overview;
pub(crate) mod predicates;
#[cfg(test)]
mod tests;
pub(crate) mod values;

const EXAMPLES: &str = "\
fathom survey  # survey this machine: file systems, costs, advice
fathom mounts --check  # list the mounts, and check that each answers
fathom walk /srv  # count files and bytes with the fastest engine
fathom account make  # count the file-system calls of a command
fathom help walk  # print the manual of one command";

/// Measure the cost of file-system work, and do it with the fewest system calls
#[derive(Parser, Debug)]
#[command(name = "fathom", version, propagate_version = true, max_term_width = 100, after_help = help::EXIT,
          after_long_help = help::ending(EXAMPLES, "", help::EXIT))]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that can be given again: the last value counts. These options change how fathom works
/// or prints, not which data are in the result, so a command line can override the options of a
/// shell alias. All other options either combine their values (`ArgAction::Append`) or are refused
/// if they are given twice, because a lost value would change the result without a message.
const REPLACEABLE: [&str; 18] = [
    "cache-dir",
    "color",
    "compress",
    "deadline",
    "duration",
    "endpoint-url",
    "engine",
    "format",
    "gather",
    "interval",
    "jobs",
    "limit",
    "max-bytes",
    "max-rate",
    "max-seconds",
    "meter",
    "mode",
    "retry-lock",
];

impl Cli {
    /// The definition of the command line. Numeric options accept values that begin with a hyphen,
    /// so that the error names the option and its bounds instead of an unknown option. Flags and
    /// [`REPLACEABLE`] options can be given again.
    pub(crate) fn definition() -> clap::Command {
        const WITH_UNIT: [&str; 6] = ["DURATION", "SIZE", "PERCENT", "RATE", "TIME", "DIRS:FILES"];
        Cli::command()
            .mut_args(replaceable)
            .mut_subcommands(|command| {
                command
                    .mut_args(replaceable)
                    .mut_args(|arg| match value_name(&arg) {
                        Some("N") => arg.allow_negative_numbers(true),
                        Some(name) if WITH_UNIT.contains(&name) => arg.allow_hyphen_values(true),
                        _ => arg,
                    })
            })
    }

    pub(crate) fn from_command_line() -> Result<Cli, clap::Error> {
        let mut definition = overview::lay_out(Cli::definition());
        let matches = definition.try_get_matches_from_mut(std::env::args_os())?;
        Cli::from_arg_matches(&matches).map_err(|e| e.format(&mut definition))
    }
}

/// Lets a flag or a [`REPLACEABLE`] option override its earlier occurrences.
fn replaceable(arg: clap::Arg) -> clap::Arg {
    let is_listed = arg
        .get_long()
        .is_some_and(|long| REPLACEABLE.contains(&long));
    match is_listed || !arg.get_action().takes_values() {
        true => {
            let id = arg.get_id().clone();
            arg.overrides_with(id)
        }
        false => arg,
    }
}

/// The placeholder of an option's value in the help, such as `DURATION`.
fn value_name(arg: &clap::Arg) -> Option<&str> {
    Some(arg.get_value_names()?.first()?.as_str())
}

/// Flags of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Print one JSON object (schemas in docs/schemas)
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print fathom's own system calls and their times on stderr
    ///
    /// The costliest call is first. -v adds percentiles.
    #[arg(long, global = true)]
    pub(crate) profile: bool,
    /// Suppress progress and status messages
    ///
    /// Warnings and errors are still printed.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print more details, and the reasons for each choice, on stderr
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Suppress the progress display
    #[arg(long, global = true)]
    pub(crate) no_progress: bool,
    /// Use this endpoint for s3:// URLs
    ///
    /// Archives, catalogs and state directories can be objects of an S3 store: give s3://BUCKET/KEY
    /// instead of a file. The default is the endpoint in AWS_ENDPOINT_URL, or that of AWS. The
    /// credentials are in the usual environment variables; docs/backup.md lists them.
    #[arg(long, global = true, value_name = "URL", hide_short_help = true)]
    pub(crate) endpoint_url: Option<String>,
    /// Use colours; NO_COLOR in the environment disables `auto`
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColourMode,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ColourMode {
    /// Use colours on a terminal, unless NO_COLOR is set
    Auto,
    /// Use colours in pipes and files, too
    Always,
    /// Do not use colours
    Never,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List mount points, and diagnose them.
    ///
    /// By default, fathom reads the kernel's mount table, through the cheaper of two interfaces.
    /// The table contains all mounts, including hidden ones. If there is no mount table, or if it
    /// is wrong, `--by search` searches the file tree for the mounts that a path reaches. naive and
    /// getmnt1 to getmnt3 are the programs of the papers of 1988, for comparison: they compare
    /// device numbers, and miss bind mounts on the same device and mounts on files.
    ///
    /// fathom triggers no automount and does not wait for dead servers, with one exception: naive,
    /// getmnt1 to getmnt3, and search without a mount table enter every directory.
    Mounts(Box<mounts::args::Mounts>),
    /// Show what takes the space below a directory, or list every entry.
    ///
    /// The summary has totals, and the directories, extensions and files that take most space;
    /// other formats list every entry with its metadata, as statx(2) returns it. An engine is a
    /// method of reading the entries of a mount: `threads` and `stat` call statx(2) for each name;
    /// `bulkstat` (XFS) and `btrfs` read many inodes per call; `ext4` reads the inode tables from
    /// the device. By default, each mount is walked with its cheapest engine. All engines give the
    /// same result.
    Walk(Box<walk::args::Walk>),
    /// List and count the entries of catalogs, like walk.
    ///
    /// Prints the same as `fathom walk`, with the same predicates, groups and formats, but from
    /// catalogs, without reading the file system. Only the columns that are needed are read. For
    /// other queries, use DuckDB, pandas or any reader of Parquet files.
    Query(Box<query::args::Query>),
    /// List what changed in a directory since a catalog was written.
    ///
    /// Lists entries that were added, changed, removed or renamed since `fathom walk --catalog`,
    /// also as input for backup tools. If the file system can prove that nothing has changed, the
    /// tree is not walked. Otherwise it is walked with the cheapest engine. The exclusions of the
    /// walk that wrote the catalog apply again. Paths are relative to DIR.
    Changed(Box<changed::args::Changed>),
    /// Write files into a tar archive: everything, or what changed.
    ///
    /// The archive is a POSIX pax tar, which GNU tar and bsdtar can extract. The metadata of all
    /// files is read first, by the fastest method; then the files are read and written in the order
    /// of their names. The same tree gives the same archive, byte for byte, with any method and
    /// number of threads. If files change during the dump, the archive is still valid, and warnings
    /// name the files that are missing or incomplete.
    Dump(Box<dump::args::Dump>),
    /// Extract an archive and its increments into a directory.
    ///
    /// Nothing outside DIR is created, changed or removed, no matter what the archives contain: names
    /// with '..' are refused, and symbolic links are not followed. Owners, modes, times, links,
    /// holes, extended attributes and access control lists are restored; owners and devices only by
    /// root. Archives of GNU tar and bsdtar can be extracted, too, plain or compressed with gzip,
    /// bzip2, xz, lz4 or zstd.
    ///
    /// The first archive is extracted into DIR, and removes nothing. Each increment repeats the
    /// renames and removals since its base.
    Restore(restore::args::Restore),
    /// List the members of archives, like tar -tv.
    ///
    /// All formats of tar can be read (pax, GNU, ustar, v7), plain or compressed with gzip, bzip2,
    /// xz, lz4 or zstd. Times are in local time (TZ).
    List(list::args::List),
    /// Check an archive, or compare a directory with it.
    ///
    /// Each header, the checksum of each file and the end of the archive are checked. Archives of
    /// fathom dump have a BLAKE3 checksum of the data of each file; those of other programs have
    /// only checksums of headers. After damage, the check continues at the next valid header.
    Verify(verify::args::Verify),
    /// Count and time the file-system calls of a command.
    ///
    /// Runs COMMAND and reports the file-system calls that it and all its child processes make:
    /// number, errors and time by system call, by program or process, by file and by directory. The
    /// report names redundant calls and estimates the savings from avoiding them. The command keeps
    /// its own input, output, terminal and signals.
    ///
    /// `--model` runs no command: it applies the cost model of the Multics memo of 1974 to a table
    /// of calls.
    Account(Box<account::args::Account>),
    /// Compare two measurements, or runs from many machines by ratios.
    ///
    /// Two FILEs with the JSON of the same command are compared figure by figure. A figure has
    /// changed if the two values differ by more than the sum of both spreads, and by more than 10 %
    /// (times) or 1 % (all other figures). The spread of repeated measurements is their maximum
    /// minus their minimum. A single measurement has no spread, and is listed separately. The
    /// commands are `survey`, `probe`, `account`, `pathsearch`, `pathwalk`, `walk` and `mounts
    /// --compare`.
    ///
    /// Runs of several programs, on one machine or many, are compared by ratios, with the tables of
    /// the papers of 1988. The tables show how many times longer one program takes than another:
    /// the ratio of the real, user and system time of each machine, then the mean, median, maximum,
    /// minimum and sample standard deviation of the ratios. Ratios of different machines can be
    /// averaged; times cannot.
    ///
    /// For these tables, a FILE is CSV, with a row per machine and the columns NAME_real, NAME_user
    /// and NAME_sys (and NAME_calls, if calls were counted) for each of two or more programs.
    /// Columns ratio_real, printed_ratio_real and so on are printed ratios to compare with; other
    /// columns are labels. FILE can also be the JSON of `mounts --compare` or `walk --compare`,
    /// named SYSTEM.json, or of a run of `walk`, `account`, `pathsearch` or `pathwalk`, named
    /// SYSTEM.NAME.json. Files with different NAMEs go into different tables. docs/fleet.md shows
    /// how to collect files from many machines.
    Compare(compare::args::Compare),
    /// Measure block size, readahead, page cache and call prices.
    ///
    /// Runs the experiments of the paper "Exploring and Measuring Unix-Based File Systems" in DIR,
    /// and measures the price of each system call. Each result has its confidence and, if there is
    /// one, the value that the kernel reports. If a property cannot be determined, it is reported
    /// as unknown, with the reason. Temporary files are always removed, no other files are read,
    /// and the page cache of other processes is not evicted.
    Probe(probe::args::Probe),
    /// Trace a command's path searches, and the cost of failed lookups.
    ///
    /// Runs COMMAND and counts the lookups by name that it and its child processes make, in each
    /// directory. Lookups are grouped into searches: by shells along PATH, by the dynamic linker,
    /// Python, Perl, Ruby, Node and compilers, for locales and terminals. The report predicts the
    /// requests and the time of the same start on a network file system, with cold and warm caches,
    /// on one node or on many, and proposes changes. docs/pathsearch.md describes the model.
    Pathsearch(pathsearch::args::Pathsearch),
    /// Measure path lookup with LLNL's pathwalk benchmark.
    ///
    /// -c creates a tree of directories with empty files, -t looks up each file of the last
    /// directory in all directories in turn, and -r removes the tree. The options, trees and output
    /// lines are those of the program of Lawrence Livermore National Laboratory, and the timed part
    /// makes the same stat(2) calls; either program can use the trees of the other. With -j,
    /// threads share the files. The ranks of an MPI job each search for all files, at the same
    /// time.
    Pathwalk(pathwalk::args::Pathwalk),
    /// Show what takes the space of a file system, and how to free it.
    ///
    /// Explains why df reports more than du. Lists the files by directory, owner and age, files
    /// hidden beneath mounts, deleted files that a process holds open, reserved blocks, the tables
    /// and the journal of the file system, snapshots, subvolumes and shared extents. Space that is
    /// not accounted for is printed, too. The file system of DIR is read from its root with the
    /// fastest engine. Without root, warnings name the data that fathom cannot read.
    Space(space::args::Space),
    /// Survey a machine: file systems, costs, and advice.
    ///
    /// Runs every measurement that is safe: the mounts, the properties of each file system, the
    /// cost of walks, dumps, program starts and single calls. A summary goes to the terminal and a
    /// self-contained HTML page to a file. A measurement that takes too long is skipped; the page
    /// gives the command that runs it.
    Survey(Box<survey::args::Survey>),
    /// Walk a directory, for fathom survey to account for
    #[command(hide = true)]
    SurveyWalk(survey::args::SurveyWalk),
    /// Print a completion script for a shell
    Completions(completions::args::Completions),
    /// Write the man pages to a directory
    Man(man::args::Man),
}
