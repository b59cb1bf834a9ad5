//! Every flag of every command. The parser, `-h`, `--help`, the man pages and the completions all come from here.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

macro_rules! exit {
    () => {
        "\
Exit status:
  0  done
  1  done, but something was skipped or found wrong; each is named in a warning
  2  not done, or the command line was wrong"
    };
}

/// Measure what file-system work costs, find the cheapest correct way to do it here, and do it that way
#[derive(Parser, Debug)]
#[command(name = "fathom", version, propagate_version = true, max_term_width = 100, after_help = exit!())]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// Print one JSON object: result, gates, warnings (schemas in docs/schemas)
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Time every call, and print what each gate cost on stderr, costliest first; with -v also percentiles
    #[arg(long, global = true)]
    pub(crate) profile: bool,
    /// No progress and no talk on stderr; warnings and errors remain
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say more on stderr
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Show no progress, even on a terminal
    #[arg(long, global = true)]
    pub(crate) no_progress: bool,
    /// When to use colour; the environment variable NO_COLOR turns `auto` off
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: When,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum When {
    /// On a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Find every mount point at or under a directory, and what is the matter with it.
    ///
    /// By default the kernel's mount table is read, in the way that is cheaper here; it shows every mount, hidden ones too.
    /// Where there is no table, or it is not to be trusted, `--by search` finds the mounts that a path reaches in the file tree
    /// itself. naive and getmnt1 to getmnt3 are the programs of the papers of 1988, for comparison: they go by device numbers,
    /// and see neither bind mounts of one device nor mounts on files.
    ///
    /// No automount is set off and no dead server waited for, save that naive and getmnt1 to getmnt3 go into every directory,
    /// as does search where it has no table to go by.
    Mounts(Box<Mounts>),
    /// Find everything under directories, with all that statx(2) says of it, by the engine that costs least here.
    ///
    /// An engine is a way to learn of every file in a mount: `threads` and `stat` ask for each by name, the others ask the file
    /// system for many at a time (`bulkstat`: XFS, `btrfs`) or read its tables from the device (`ext4`). By default each mount
    /// that the tree crosses is walked by the one that is cheapest there. All give the same answer.
    Walk(Box<Walk>),
    /// Find what was added, changed, removed or renamed since a catalog (fathom walk --catalog) was written.
    ///
    /// Where the file system keeps count of its changes, and has counted none, that is the answer. Else the tree is walked by the
    /// engine that costs least, with what the catalog's walk left out left out again. Names are relative to DIR.
    Changed(Changed),
    /// Write trees into an archive that tar restores: a POSIX pax tar, whole, or what has changed since the last one.
    ///
    /// First all that statx(2) says of every file is gathered, by the way that costs least here; then the files are read and
    /// written, in the order of their names. The same tree gives the same archive, byte for byte, whatever the gathering and the
    /// number of threads. A file that is changed meanwhile leaves the archive sound; what is wrong then is named in a warning.
    Dump(Box<Dump>),
    /// Make a tree from archives: a full dump, and its increments in the order in which they were made.
    ///
    /// All is made beneath DIR, and nothing outside it is touched, whatever an archive says: names with '..' are refused, and no
    /// symlink is followed. Owners, modes, times, links, holes, extended attributes and access control lists become as they were;
    /// owners and devices only for root. The archives of GNU tar and bsdtar are restored as well, plain or compressed with zstd.
    ///
    /// The first archive is laid over what is in DIR and takes nothing away. Each increment after it renames and removes what was
    /// renamed and removed before it was made.
    Restore(Restore),
    /// List what is in archives, as tar -tv does.
    ///
    /// Any tar archive is read (pax, GNU tar's, ustar, v7), plain or compressed with zstd. Times are in UTC.
    List(List),
    /// See whether an archive is whole: every header, the checksum of every file, and the end.
    ///
    /// What fathom dump writes has a checksum (BLAKE3) of the data of each file; archives of other programs have only those of
    /// the headers. What is damaged is named, and what follows it is looked at, too.
    Verify(Verify),
    /// Say what other gates would save, by the model of the Multics memo of 1974.
    ///
    /// Of each call, the price of the cheapest one is overhead, and the rest useful work. A proposal replaces gates by others:
    /// fewer calls, the same work. Of FILE are computed today's costs, those of the memo's three proposals (the first only if
    /// the gates that it replaces are there), and what they save. To meter another command's calls is not built yet.
    Account(Account),
    /// Find out by experiment what a file system is: its block, readahead, cache and extents, and what each call costs.
    ///
    /// After the paper "Exploring and Measuring Unix-Based File Systems". Each finding stands beside what the kernel itself says,
    /// with how it was found and how sure it is; what cannot be told is said to be so. Files that are made for it have no name,
    /// or go in any case; nobody else's files are read, and nobody else's cache is emptied.
    Probe(Probe),
    /// One page on this machine: its mounts, how they were found, and what each way of finding them costs here
    Survey(Survey),
    /// Print completions for a shell
    #[command(after_help = concat!("Example:\n  fathom completions bash > /usr/share/bash-completion/completions/fathom\n\n", exit!()))]
    Completions(Completions),
    /// Write the man pages into a directory
    #[command(after_help = concat!("Example:\n  fathom man /usr/local/share/man/man1\n\n", exit!()))]
    Man(Man),
}

const MOUNTS_EXAMPLES: &str = concat!(
    "\
Examples:
  fathom mounts                           every mount point, as a tree
  fathom mounts --by search --hints none  found in the file tree itself, with no mount table
  fathom mounts --check                   which mounts answer within 2 seconds
  fathom mounts --beneath /srv            what lies hidden under the mount points below /srv
  fathom mounts --format mnttab           what rebuilds a lost /etc/mtab
  fathom mounts --format exclude          mounts that do not answer, for tar -X, restic, borg
  fathom mounts --compare /usr            what each method costs on this tree

",
    exit!(),
    "\n\n--assert succeeds only if each path is a mount point; it exits with 1 otherwise."
);

/// The flags of `fathom mounts`.
#[derive(Args, Debug)]
#[command(after_help = exit!(), after_long_help = MOUNTS_EXAMPLES)]
pub(crate) struct Mounts {
    /// Where to begin
    #[arg(default_value = "/", value_name = "ROOT")]
    pub(crate) root: OsString,

    /// How to find them
    #[arg(long, value_name = "METHOD", default_value = "auto", help_heading = "Finding")]
    pub(crate) by: By,
    /// getmnt1 to getmnt3: look at entries this deep at most; 0 for no bound
    /// [default: 4]
    #[arg(long, value_name = "N", help_heading = "Finding")]
    pub(crate) depth: Option<usize>,
    /// Extra information to go by: auto (the mount table), none; for search also ids (the table without its names) or a
    /// file (an old mount table, or paths: where to look first)
    #[arg(long, value_name = "WHICH", default_value = "auto", help_heading = "Finding")]
    pub(crate) hints: OsString,
    /// Run every method on this tree, each in a process of its own, and compare them
    #[arg(long, help_heading = "Finding", conflicts_with_all = ["by", "check", "beneath", "boundaries", "servers", "names", "watch", "assert"])]
    pub(crate) compare: bool,
    /// With --compare: how often
    #[arg(long, value_name = "N", default_value_t = 5, requires = "compare", help_heading = "Finding",
          value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) trials: u16,

    /// Touch each mount from a child that can be killed: ok, slow, hung, stale, denied, hidden
    #[arg(long, help_heading = "Asking")]
    pub(crate) check: bool,
    /// With --check: how long a mount may take, as 2s, 500ms, 1m [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Asking")]
    pub(crate) deadline: Option<Duration>,
    /// Count the files and bytes that lie hidden under each mount point
    #[arg(long, help_heading = "Asking")]
    pub(crate) beneath: bool,
    /// Find where the file system changes and the mount table says nothing: subvolumes, snapshots, automounts
    #[arg(long, help_heading = "Asking")]
    pub(crate) boundaries: bool,
    /// Name the machines behind network mounts
    #[arg(long, help_heading = "Asking")]
    pub(crate) servers: bool,
    /// Name block devices from a scan of /dev, or from sysfs
    #[arg(long, value_name = "FROM", help_heading = "Asking")]
    pub(crate) names: Option<Names>,
    /// Succeed only if each of these is a mount point
    #[arg(long, value_name = "PATH", num_args = 1.., help_heading = "Asking",
          conflicts_with_all = ["by", "depth", "hints", "check", "beneath", "boundaries", "servers", "names", "watch"])]
    pub(crate) assert: Vec<OsString>,
    /// Show attaches and detaches as they happen, until interrupted
    #[arg(long, help_heading = "Asking", conflicts_with_all = ["by", "depth", "hints", "check", "beneath", "boundaries", "servers", "names"])]
    pub(crate) watch: bool,

    /// How to print them
    #[arg(long, value_name = "FORMAT", conflicts_with = "json")]
    pub(crate) format: Option<Format>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// kernel or mountinfo, whichever is cheaper here, or search if there is neither
    Auto,
    /// listmount(2) and statmount(2)
    Kernel,
    /// /proc/self/mountinfo
    Mountinfo,
    /// The file tree: the names in the table first, then directory by directory; sees bind mounts and mounts on files
    Search,
    /// The paper's third program: breadth first, the tree of mounted devices
    Getmnt3,
    /// The paper's second: depth first, leaves of the table of devices left out
    Getmnt2,
    /// The paper's first: depth first, relative names, a bound on the depth
    Getmnt1,
    /// Full names, everything, as `find / -depth`
    Naive,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Names {
    /// A scan of /dev
    Dev,
    /// /sys/dev/block
    Sys,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// For people
    Table,
    /// As --json
    Json,
    /// A name a line; hidden mounts left out
    Paths,
    /// Names ended by NUL; hidden mounts left out
    Paths0,
    /// As /etc/mtab
    Mnttab,
    /// For /etc/fstab
    Fstab,
    /// Mounts that are hung, stale or denied, as patterns for tar, restic, borg (does --check)
    Exclude,
}

const WALK_EXAMPLES: &str = concat!(
    "\
Examples:
  fathom walk /srv                        how much there is, and how long it took to find out
  fathom walk /srv --top 10               and the ten largest files
  fathom walk /srv --format du --top 20   the directories that hold most
  fathom walk -x / --format paths0        every name, for xargs -0
  fathom walk /srv --format ndjson        every file with all that is known of it, an object a line
  fathom walk /srv --exclude '*.o'        without what ends in .o
  fathom walk /srv --catalog srv.parquet  and a table of it all, for fathom changed, DuckDB, pandas
  fathom walk /srv --explain              which engine, why, and why not another
  fathom walk /srv --compare              what each engine costs on this tree

",
    exit!()
);

/// The flags of `fathom walk`.
#[derive(Args, Debug)]
#[command(after_help = exit!(), after_long_help = WALK_EXAMPLES)]
pub(crate) struct Walk {
    /// Where to begin; a symlink to a directory is followed
    #[arg(required = true, value_name = "DIR")]
    pub(crate) dirs: Vec<OsString>,

    /// How to walk
    #[arg(long, value_name = "ENGINE", default_value = "auto", help_heading = "Walking")]
    pub(crate) engine: Engine,
    /// Threads to work with [default: as many as are good for the engine]
    #[arg(short, long, value_name = "N", help_heading = "Walking", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Stay on the file system (the device number) of each DIR
    #[arg(short = 'x', long, help_heading = "Walking")]
    pub(crate) one_file_system: bool,
    /// Go down N levels at most; DIR itself is at 0. With --format du: print no directory that is deeper, but count all
    #[arg(long, value_name = "N", help_heading = "Walking")]
    pub(crate) max_depth: Option<u32>,
    /// Leave out what matches, and everything in it: by name, or by path if there is a slash in GLOB
    #[arg(long, value_name = "GLOB", help_heading = "Walking")]
    pub(crate) exclude: Vec<String>,

    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "summary", help_heading = "Output")]
    pub(crate) format: WalkFormat,
    /// The N largest plain files as well; with --format du, the N largest directories only
    #[arg(long, value_name = "N", help_heading = "Output", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) top: Option<u32>,

    /// Write a Parquet catalog as well, a row for each entry: for fathom changed, DuckDB, pandas, Spark
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) catalog: Option<OsString>,

    /// Walk nothing: print which engine would, why, and whether the others could
    #[arg(long, help_heading = "Asking", conflicts_with_all = ["format", "top", "catalog", "compare"])]
    pub(crate) explain: bool,
    /// Walk by every engine that can work here, each in a process of its own, and compare them
    #[arg(long, help_heading = "Asking", conflicts_with_all = ["engine", "format", "top", "catalog"])]
    pub(crate) compare: bool,
    /// With --compare: how often
    #[arg(long, value_name = "N", default_value_t = 5, requires = "compare", help_heading = "Asking",
          value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) trials: u16,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Engine {
    /// The cheapest for each mount
    Auto,
    /// statx(2) of every name, by threads that share the directories
    Threads,
    /// XFS: many inodes a call, joined with the names
    Bulkstat,
    /// btrfs: its trees, searched
    Btrfs,
    /// ext2, ext3, ext4: its tables, read from the device
    Ext4,
    /// statx(2) of every name, one after the other
    Stat,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WalkFormat {
    /// How many entries of each kind, bytes, a hash over all
    Summary,
    /// A line for each directory, as du -k: KiB allocated, KiB in files and symlinks, name; a file with several names once
    Du,
    /// A path a line, as find prints it
    Paths,
    /// Paths ended by NUL
    Paths0,
    /// A JSON object a line, with all that is known
    Ndjson,
    /// The same as comma-separated values
    Csv,
}

const CHANGED_EXAMPLES: &str = concat!(
    "\
Examples:
  fathom walk /srv --catalog /var/lib/srv.parquet        the catalog to begin with
  fathom changed /srv --since /var/lib/srv.parquet       what is not as it was
  fathom changed . --since ../c.parquet --update         and a new catalog in the place of the old one
  cd /srv && fathom changed . --since C --format restic | restic backup --files-from-raw -
  cd /srv && fathom changed . --since C --format borg | borg create --paths-from-stdin --paths-delimiter '\\0' R::A
  fathom changed /srv --since C --format rsync | rsync -a --from0 --files-from=- /srv/ BACKUP/
  fathom changed /srv --since C --format tar | tar -C /srv --no-recursion --null -T - -cf A.tar

",
    exit!()
);

/// The flags of `fathom changed`.
#[derive(Args, Debug)]
#[command(after_help = exit!(), after_long_help = CHANGED_EXAMPLES)]
pub(crate) struct Changed {
    /// The directory that the catalog is of
    #[arg(value_name = "DIR")]
    pub(crate) dir: OsString,
    /// The catalog
    #[arg(long, value_name = "CATALOG")]
    pub(crate) since: OsString,
    /// Write a new catalog in the place of the old one, once all is done
    #[arg(long)]
    pub(crate) update: bool,

    /// How to walk, where that must be
    #[arg(long, value_name = "ENGINE", default_value = "auto", help_heading = "Walking")]
    pub(crate) engine: Engine,
    /// Threads to work with [default: as many as are good for the engine]
    #[arg(short, long, value_name = "N", help_heading = "Walking", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Refuse a catalog that was not made with -x (what was left out of it is left out again without being told)
    #[arg(short = 'x', long, help_heading = "Walking")]
    pub(crate) one_file_system: bool,

    /// How to print it
    #[arg(long, value_name = "FORMAT", default_value = "table", help_heading = "Output")]
    pub(crate) format: ChangedFormat,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChangedFormat {
    /// For people: + added, * changed, - removed, > renamed
    Table,
    /// A JSON object a line
    Ndjson,
    /// Names of what is there, a line each; removed ones left out
    Paths,
    /// The same, ended by NUL
    Paths0,
    /// For restic backup --files-from-raw
    Restic,
    /// For borg create --paths-from-stdin --paths-delimiter '\0'
    Borg,
    /// For rsync --from0 --files-from
    Rsync,
    /// For tar --no-recursion --null -T
    Tar,
}

const DUMP_EXAMPLES: &str = concat!(
    "\
Examples:
  fathom dump /srv -o /backup/srv.tar               everything, for GNU tar, bsdtar or fathom restore
  fathom dump -x / -o /backup/root.tar.zst          compressed, without other file systems
  fathom dump /srv -o - | ssh HOST 'cat >srv.tar'   to standard output
  fathom dump /srv -o full.tar --catalog c.parquet  and a catalog, for increments
  fathom dump /srv -o i.tar --since c.parquet --catalog c.parquet
                                                    what has changed since, and a new catalog
  fathom dump /srv -o 1.tar --level 1 --state /var/lib/fathom
                                                    levels, as dump(8) has them
  fathom dump /srv -o srv.tar --map srv.txt         and a list of what was dumped
  fathom dump /srv --no-output --account            where the time goes
  fathom dump /srv --explain                        how it would be gathered, and why

",
    exit!()
);

/// The flags of `fathom dump`.
#[derive(Args, Debug)]
#[command(after_help = exit!(), after_long_help = DUMP_EXAMPLES)]
pub(crate) struct Dump {
    /// What to dump: directories with all that is in them, and files. A symlink is dumped itself, unless a slash follows it
    #[arg(required = true, value_name = "SRC")]
    pub(crate) sources: Vec<OsString>,

    /// The archive, which appears under its name when it is whole and on the disk; - for standard output. A name that ends in
    /// .zst compresses
    #[arg(short, long, value_name = "ARCHIVE", required_unless_present_any = ["no_output", "explain"])]
    pub(crate) output: Option<OsString>,

    /// Write what has changed since this catalog
    #[arg(long, value_name = "CATALOG", help_heading = "Increments", conflicts_with = "level")]
    pub(crate) since: Option<OsString>,
    /// Write a catalog of what there is now, once the archive is on the disk; it may be the one of --since
    #[arg(long, value_name = "FILE", help_heading = "Increments", conflicts_with_all = ["level", "no_output"])]
    pub(crate) catalog: Option<OsString>,
    /// Write what has changed since the last dump of a lower level; 0 is everything
    #[arg(long, value_name = "N", help_heading = "Increments", requires = "state", conflicts_with = "no_output",
          value_parser = clap::value_parser!(u8).range(0..=9))]
    pub(crate) level: Option<u8>,
    /// Where the catalogs of the levels are
    #[arg(long, value_name = "DIR", help_heading = "Increments", requires = "level")]
    pub(crate) state: Option<OsString>,

    /// How to gather what is known of the files. All ways give the same archive
    #[arg(long, value_name = "HOW", default_value = "auto", help_heading = "Gathering")]
    pub(crate) gather: Gathering,
    /// Threads to work with; with 1, gathering, reading and writing take turns [default: as many as are good]
    #[arg(short, long, value_name = "N", help_heading = "Gathering", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Stay on the file system (the device number) of each SRC
    #[arg(short = 'x', long, help_heading = "Gathering")]
    pub(crate) one_file_system: bool,
    /// Leave out what matches, and everything in it: by name, or by path if there is a slash in GLOB
    #[arg(long, value_name = "GLOB", help_heading = "Gathering")]
    pub(crate) exclude: Vec<String>,

    /// Write a readable list of what was dumped, a line each: type, mode, owner, size, time, name; - for stderr
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) map: Option<OsString>,
    /// Write no list, whatever --map says
    #[arg(long, help_heading = "Output")]
    pub(crate) no_map: bool,
    /// Do everything but write the archive; -o need not be given, and is not written if it is
    #[arg(long, help_heading = "Output")]
    pub(crate) no_output: bool,

    /// Print where the CPU time went, what each gate cost, and what each way of gathering costs here, by the model of the Multics
    /// memo of 1974 and measured: each gathers the tree once more. Works with one thread
    #[arg(long, help_heading = "Asking", conflicts_with_all = ["explain", "jobs"])]
    pub(crate) account: bool,
    /// Dump nothing: print how it would be gathered, why, and whether the other ways are possible
    #[arg(long, help_heading = "Asking", conflicts_with_all = ["catalog", "since", "level", "map"])]
    pub(crate) explain: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gathering {
    /// The cheapest for each mount
    Auto,
    /// One call for each attribute of each file
    Percall,
    /// One statx(2) for each file
    Combined,
    /// Many files a call, where the file system offers that (XFS, btrfs); else combined
    Batched,
    /// The file system's own tables, read from the device (ext2, ext3, ext4); else batched
    Raw,
}

const RESTORE_EXAMPLES: &str = concat!(
    "\
Examples:
  fathom restore full.tar -C /srv                     all of it, beneath /srv
  fathom restore full.tar monday.tar tuesday.tar      the tree of Tuesday
  fathom restore full.tar.zst -C /tmp/x home/me       what is under one name
  fathom restore full.tar monday.tar -- home/me a.tar the same, where a name might be taken for an archive
  ssh host cat full.tar | fathom restore - -C /srv    from a pipe
  fathom restore full.tar --dry-run                   what would be done

Behind -- all arguments are PATHs. Without it, those before the first that is no file are archives, and the rest are PATHs; the
first is an archive always.

",
    exit!()
);

/// The flags of `fathom restore`.
#[derive(Args, Debug)]
#[command(after_help = exit!(), after_long_help = RESTORE_EXAMPLES,
          override_usage = "fathom restore [OPTIONS] ARCHIVE... [-C DIR] [[--] PATH...]")]
pub(crate) struct Restore {
    /// The archives, in the order in which they were made; - is standard input. A name that is no file is a PATH, if an archive
    /// stands before it
    #[arg(required = true, value_name = "ARCHIVE")]
    pub(crate) archives: Vec<OsString>,
    /// Restore only what has these names in the archives, and what is below them
    #[arg(last = true, value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,

    /// Restore into DIR, which must be there
    #[arg(short = 'C', long, value_name = "DIR", default_value = ".")]
    pub(crate) directory: OsString,
    /// As root: go by the numbers of owners, even where their names are known here
    #[arg(long)]
    pub(crate) numeric_owner: bool,
    /// Print what would be done, a line for each member, and touch nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
}

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

const ACCOUNT_EXAMPLES: &str = concat!(
    "\
Examples:
  fathom account --model             the memo's own table, and what it prints
  fathom account --model gates.csv   another, with columns gate, ms_per_call, calls_per_dir,
                                     calls_per_file (or calls_per_seg), for_effect (yes or no)

",
    exit!()
);

/// The flags of `fathom account`.
#[derive(Args, Debug)]
#[command(after_help = ACCOUNT_EXAMPLES)]
pub(crate) struct Account {
    /// The table of gates; without FILE, the memo's
    #[arg(long, value_name = "FILE", required = true, num_args = 0..=1)]
    pub(crate) model: Option<Option<OsString>>,
    /// Directories and files among what is asked about
    #[arg(long, value_name = "DIRS:FILES", default_value = "40:60", value_parser = mix)]
    pub(crate) mix: (f64, f64),
    /// The percentage of the program's CPU time that goes into calls for information
    #[arg(long, value_name = "PERCENT", default_value_t = account::memo::SHARE, value_parser = percent)]
    pub(crate) share: f64,
    /// The percentage of the system's CPU time that the program uses
    #[arg(long, value_name = "PERCENT", default_value_t = account::memo::SYSTEM, value_parser = percent)]
    pub(crate) system: f64,
}

const PROBE_EXAMPLES: &str = concat!(
    "\
Examples:
  fathom probe /srv                         every experiment, with up to 1 GiB of reads and writes
  fathom probe /srv block readahead         two of them
  fathom probe /srv gates --json            what each call costs, for other programs
  fathom probe /srv --plot figs --csv figs  with figures and samples, in a directory that is there
  fathom probe --replay figs/extent-syncs-1048576.csv   judge samples again
  fathom probe /srv cache --method paper    the page cache by reading a file twice, as in the paper

",
    exit!()
);

/// The flags of `fathom probe`.
#[derive(Args, Debug)]
#[command(after_help = exit!(), after_long_help = PROBE_EXAMPLES)]
pub(crate) struct Probe {
    /// A directory on the file system, in which files can be made
    #[arg(value_name = "DIR", required_unless_present = "replay", conflicts_with = "replay")]
    pub(crate) dir: Option<OsString>,
    /// What to find out [default: all]
    #[arg(value_name = "EXPERIMENT", conflicts_with = "replay")]
    pub(crate) experiments: Vec<Experiment>,

    /// Read and write no more than so much, as 64M, 2G
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size, help_heading = "Bounds")]
    pub(crate) max_bytes: u64,
    /// Take no longer than this
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration, help_heading = "Bounds")]
    pub(crate) max_seconds: Duration,

    /// How the size of the page cache is found
    #[arg(long, value_name = "METHOD", default_value = "holes", help_heading = "Cache")]
    pub(crate) method: CacheMethod,
    /// Fill the page cache in a group (cgroup) that is made with this limit, 16M to 4G [default: the group's own limit, where
    /// there is one; else 256M]
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Cache")]
    pub(crate) cache_limit: Option<u64>,

    /// Draw each series of samples into a directory, as SVG and PNG
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) plot: Option<OsString>,
    /// Keep the samples in a directory, a file for each series, and the prices
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) csv: Option<OsString>,
    /// Measure nothing: judge the samples of a file that --csv has kept, or of the paper
    #[arg(long, value_name = "CSV", help_heading = "Output")]
    pub(crate) replay: Option<OsString>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Experiment {
    /// Which clock to go by, and whether the processor's counter may be trusted
    Timer,
    /// Block, cluster, page-cache granule, alignment of direct I/O
    Block,
    /// Every window of the readahead
    Readahead,
    /// How much the page cache holds
    Cache,
    /// How a file lies on the device, and how whole free space is
    Extent,
    /// What each call costs: warm, cold, on one thread and on all
    Gates,
    /// All of them
    All,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CacheMethod {
    /// The holes of a file fill it, without asking the disk
    Holes,
    /// A file is read twice, at lengths that a search chooses
    Paper,
}

#[derive(Args, Debug)]
#[command(
    after_help = concat!("Examples:\n  fathom survey\n  fathom survey /srv --json\n\n", exit!())
)]
pub(crate) struct Survey {
    /// Where to begin
    #[arg(default_value = "/", value_name = "DIR")]
    pub(crate) dir: OsString,
    /// How long one run of one method, and the experiments on one file system, may take before they are stopped
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) limit: Duration,
    /// Draw what the experiments on each file system measured into a directory, as SVG and PNG
    #[arg(long, value_name = "DIR")]
    pub(crate) plot: Option<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// Which shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args, Debug)]
pub(crate) struct Man {
    /// Where to write them
    pub(crate) dir: PathBuf,
}

/// A time: a number with `ms`, `s` or `m` behind it, or of seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.find(|c: char| c.is_ascii_alphabetic()) {
        Some(at) => text.split_at(at),
        None => (text, "s"),
    };
    let factor = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        _ => return Err("give a time as 2s, 500ms or 1m".to_owned()),
    };
    let seconds: f64 = number.trim().parse().map_err(|_| "give a time as 2s, 500ms or 1m".to_owned())?;
    Duration::try_from_secs_f64(seconds * factor)
        .ok()
        .filter(|time| !time.is_zero() && time.as_secs() < 1_000_000)
        .ok_or_else(|| "give a time over 0 and under 11 days".to_owned())
}

/// Two shares, as 40:60.
fn mix(text: &str) -> Result<(f64, f64), String> {
    let share = |text: &str| text.trim().parse().ok().filter(|share: &f64| (0.0..=1e9).contains(share));
    text.split_once(':')
        .and_then(|(dirs, files)| Some((share(dirs)?, share(files)?)))
        .filter(|(dirs, files)| dirs + files > 0.0)
        .ok_or_else(|| "give two shares as 40:60".to_owned())
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim().parse().ok();
    number.filter(|share| (0.0..=100.0).contains(share)).ok_or_else(|| "give a number from 0 to 100".to_owned())
}

/// A size in bytes: a number, with `K`, `M`, `G` or `T` behind it for powers of 1024.
fn size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (number, unit) = match text.find(|c: char| c.is_ascii_alphabetic()) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let shift = match unit.to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err("give a size as 64K, 1M or 2G".to_owned()),
    };
    let number: u64 = number.trim().parse().map_err(|_| "give a size as 64K, 1M or 2G".to_owned())?;
    number.checked_mul(1 << shift).filter(|size| *size < 1 << 60).ok_or_else(|| "that is too large a size".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn sizes() {
        for (text, bytes) in
            [("0", 0), ("512", 512), ("64K", 64 << 10), ("2g", 2 << 30), ("1MiB", 1 << 20), ("3KB", 3072)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for bad in ["", "K", "-1", "1.5G", "2X", "99999999T", "18446744073709551616"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_definitions_hold_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times() {
        assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["", "s", "-1s", "2h", "0", "nan", "inf"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shares() {
        assert_eq!(mix("40:60"), Ok((40.0, 60.0)));
        assert_eq!(mix("0 : 1"), Ok((0.0, 1.0)));
        for bad in ["", "40", "0:0", "-1:2", "nan:1", "1:inf", "1:2:3"] {
            assert!(mix(bad).is_err(), "{bad}");
        }
        assert_eq!((percent("51"), percent("51%")), (Ok(51.0), Ok(51.0)));
        for bad in ["", "-1", "101", "nan", "x"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
    }
}
