//! The flags of `fathom dump`.

use std::ffi::OsString;
use std::time::Duration;

use archive::compression::Compress;
use archive::gather::Gather;
use archive::increment::retention::{Policy, Within};
use clap::Args;

use crate::args::deadline::DeadlineArgs;
use crate::args::help::{EXIT, ending, first};
use crate::args::load::LoadArgs;
use crate::args::mode::ModeArgs;
use crate::args::monitor::MonitorArgs;
use crate::args::values::{choice, compress, duration, number, seekable, within};
use crate::cmd::selection::Excludes;

const EXAMPLES: &str = "\
fathom dump /srv -o srv.tar  # everything; fathom restore and tar can extract it
fathom dump /srv --state /backup/srv --keep-daily 7 --keep-weekly 4  # nightly, from cron: chooses name and level, and prunes
fathom dump -x / -o root.tar.zst  # the root file system only, compressed
fathom dump /srv -o - | ssh HOST 'cat >srv.tar'  # to another host
fathom dump /srv -o 0.tar --catalog c.parquet  # a full dump, and a catalog for increments
fathom dump /srv -o 1.tar --since c.parquet --catalog c.parquet  # what changed since then, and a new catalog
fathom dump /srv -o 1.tar --level 1 --state /var/lib/fathom  # an increment by levels, as in dump(8)
fathom dump --state /var/lib/fathom --prune --keep-full 2  # print the archives that are no longer needed
fathom dump /srv -o srv.tar --map srv.txt  # and a list of the archived entries
fathom dump /home -o home.tar.zst --exclude-caches --exclude '*.tmp'  # without caches and some files
mpirun -np 16 fathom dump srv -o parts --resume  # with 16 ranks (built with MPI); can be continued
fathom dump /srv --restic /backup/repo --password-file pw  # a snapshot in a restic repository
find . -newer stamp -print0 | fathom dump -0 --files-from - -o new.tar  # the files that find selects
fathom dump /srv --no-output --account  # measure the cost, write nothing
fathom dump /srv -n --state /var/lib/fathom  # how much a dump of each level would archive
fathom dump /srv --explain  # how metadata would be read, and why";

/// The heading of the options of snapshots.
const RESTIC: &str = "Snapshots in restic repositories";

const METHODS: &str = "\
auto      The fastest for each mount
percall   One system call for each attribute of each file
combined  One statx(2) for each file
batched   One call for many files (XFS, btrfs); elsewhere combined
raw       The file system's tables, read from the device (ext2, ext3, ext4); elsewhere batched";

/// The method of `--gather` for reading metadata; `None` to choose one for each mount.
type GatherMethod = Option<Gather>;

#[derive(Args, Debug)]
#[command(before_help = first(EXAMPLES), after_help = EXIT, after_long_help = ending(EXAMPLES, "", EXIT))]
pub(crate) struct Dump {
    /// The files and directories to archive
    ///
    /// Directories are archived with everything below them. A symbolic link is archived itself,
    /// unless a slash follows it. If one of several SRCs does not exist, a warning says so, and the
    /// others are archived; with --state, --since or --catalog the dump fails.
    #[arg(required_unless_present_any = ["prune", "keep_full", "yes", "files_from"])]
    #[arg(conflicts_with = "prune", value_name = "SRC")]
    pub(crate) sources: Vec<OsString>,

    /// Write the archive to this file (- for stdout)
    ///
    /// The file is written atomically: it gets its name when it is complete and on disk. A name
    /// that ends in .gz, .tgz, .xz, .txz, .zst or .tzst compresses it. Under mpirun, ARCHIVE is a
    /// directory, to which each rank writes part-RANK-of-N.tar.zst.
    #[arg(short, long, value_name = "ARCHIVE", required_unless_present_any = ["no_output", "explain", "prune", "dry_run", "keep_full", "yes", "restic", "state"])]
    pub(crate) output: Option<OsString>,

    /// Make a snapshot in this restic repository
    ///
    /// REPO must exist. It is a local directory, rest:URL, s3:HOST/BUCKET/PREFIX,
    /// sftp:USER@HOST:DIR or sftp://USER@HOST:PORT/DIR, as in restic. restic lists, checks, mounts
    /// and restores the snapshot. Files with the same size and times as in the last snapshot of the
    /// same host and SRCs are not read. With --state DIR, nothing is read if the catalog in DIR
    /// proves that nothing has changed. fathom locks the repository like restic backup. Needs
    /// fathom built with --features restic; rest: and s3: also need --features cloud.
    #[arg(long, value_name = "REPO", help_heading = RESTIC)]
    #[arg(conflicts_with_all = ["output", "since", "catalog", "level", "prune", "compress", "map", "no_output",
          "account", "explain", "files_from"])]
    pub(crate) restic: Option<OsString>,
    /// With --restic, add this tag (repeatable)
    #[arg(long, value_name = "TAG", help_heading = RESTIC, requires = "restic")]
    pub(crate) tag: Vec<String>,
    /// With --restic, use NAME as the host of the snapshot
    ///
    /// Parents and catalogs are those of this host. The default is that of RESTIC_HOST, or the name of this machine.
    #[arg(long, value_name = "NAME", help_heading = RESTIC, requires = "restic")]
    pub(crate) host: Option<String>,
    /// With --restic, wait this long for a process that has locked REPO
    ///
    /// For example 5m or 2h. Without it, fathom fails at once.
    #[arg(long, value_name = "DURATION", help_heading = RESTIC, requires = "restic", value_parser = duration)]
    pub(crate) retry_lock: Option<Duration>,
    /// With --restic, store device numbers only of files with several names
    ///
    /// A snapshot of LVM or btrfs has a new device number each time. With this option, its
    /// unchanged directories are not stored again. RESTIC_FEATURES=device-id-for-hardlinks has the
    /// same effect, also for restic.
    #[arg(long, help_heading = RESTIC, requires = "restic")]
    pub(crate) device_id_for_hardlinks: bool,
    /// With --restic, read the password from this file
    ///
    /// The default is that of RESTIC_PASSWORD_FILE. With neither file nor command, RESTIC_PASSWORD has the password.
    #[arg(long, value_name = "FILE", help_heading = RESTIC, requires = "restic")]
    pub(crate) password_file: Option<OsString>,
    /// With --restic, read the password from the output of COMMAND
    ///
    /// COMMAND is split into words at white space outside quotation marks, and run without a shell.
    /// The default is that of RESTIC_PASSWORD_COMMAND.
    #[arg(long, value_name = "COMMAND", help_heading = RESTIC, requires = "restic", conflicts_with = "password_file")]
    pub(crate) password_command: Option<OsString>,
    /// With --restic, use an empty password
    #[arg(long, help_heading = RESTIC, requires = "restic", conflicts_with_all = ["password_file", "password_command"])]
    pub(crate) insecure_no_password: bool,
    /// With --restic, cache index files, snapshots and trees in DIR
    ///
    /// Later snapshots do not download them again. A local directory is not cached. The default is
    /// the cache of restic, which both programs use: RESTIC_CACHE_DIR, or restic in XDG_CACHE_HOME
    /// or ~/.cache.
    #[arg(long, value_name = "DIR", help_heading = RESTIC, requires = "restic", conflicts_with = "no_cache")]
    pub(crate) cache_dir: Option<OsString>,
    /// With --restic, use no cache
    #[arg(long, help_heading = RESTIC, requires = "restic")]
    pub(crate) no_cache: bool,

    /// Archive what changed since this catalog was written
    ///
    /// It may be a directory with all parts of one run.
    #[arg(long, value_name = "CATALOG", help_heading = "Increments")]
    #[arg(conflicts_with = "level")]
    pub(crate) since: Option<OsString>,
    /// Write a catalog, for later increments with --since
    ///
    /// It is written after the archive, and may replace the catalog of --since. Under mpirun, FILE is a
    /// directory, to which each rank writes part-RANK-of-N.parquet.
    #[arg(long, value_name = "FILE", help_heading = "Increments", conflicts_with_all = ["level", "no_output"],
          value_parser = seekable())]
    pub(crate) catalog: Option<OsString>,
    /// Archive what changed since the last dump of a lower level
    ///
    /// Level 0 archives everything. Other levels do the same if there is no dump of a lower level,
    /// or if SRC is now on a different file system.
    #[arg(long, value_name = "N", help_heading = "Increments", requires = "state", conflicts_with = "no_output",
          value_parser = number(0..=9_u8))]
    pub(crate) level: Option<u8>,
    /// Keep archives, catalogs and records of dumps in this directory
    ///
    /// Without -o and --level, fathom names the archive in DIR after SRC, the time in UTC and the
    /// level, and chooses the level: 0 (everything), or 1 (what changed since the last dump of
    /// level 0). DIR is created if the directory above it exists. Only one dump at a time can use
    /// it. With -o and --level, it has the catalogs of the levels. With --restic, DIR must exist, and
    /// has the catalog of the last snapshot.
    #[arg(long, value_name = "DIR", help_heading = "Increments")]
    pub(crate) state: Option<OsString>,
    /// Make every Nth dump full, the others incremental [default: 7]
    ///
    /// This applies without -o and --level. The other dumps are based on the last full dump, so
    /// restoring one needs only two archives. With 1, every dump is full. A dump is also full if
    /// there is no valid base for an increment; a message says why.
    #[arg(long, value_name = "N", help_heading = "Increments", requires = "state", value_parser = number(1..=65_535_u32))]
    pub(crate) full_every: Option<u32>,
    #[command(flatten)]
    pub(crate) keep: RetentionArgs,
    /// Print the archives of the state directory that are no longer needed
    ///
    /// Nothing is dumped. With --keep-full, the last full dumps and every dump based on them or
    /// newer are kept. A full dump whose archive is missing or damaged does not count. The other --keep
    /// options have the same meaning as for a dump. Also kept are the last complete dump and, for
    /// each entry that later dumps could not read, the last dump that has it.
    #[arg(long, help_heading = "Increments", requires = "state")]
    #[arg(conflicts_with_all = ["full_every", "level", "output", "since", "catalog", "map", "account", "explain", "dry_run",
          "exclude", "exclude_from", "exclude_caches", "exclude_if_present", "one_file_system", "compress", "gather"])]
    pub(crate) prune: bool,
    /// With --prune, keep the last N full dumps
    #[arg(long, value_name = "N", help_heading = "Increments", value_parser = number(1..=65_535_usize))]
    #[arg(conflicts_with_all = ["keep_last", "keep_hourly", "keep_daily", "keep_weekly", "keep_monthly", "keep_yearly", "keep_within"])]
    pub(crate) keep_full: Option<usize>,
    /// With --prune, remove these archives
    #[arg(long, help_heading = "Increments")]
    pub(crate) yes: bool,

    /// Archive the files and directories named in FILE (- for stdin)
    ///
    /// One name per line; empty lines are ignored. Names are all relative to the current directory,
    /// or all absolute. Each SRC is added to the names. The directories above a name are also
    /// archived, without their other entries. A name that does not exist is skipped, and a warning
    /// says so. A name that an --exclude option matches is skipped without a warning.
    #[arg(long, value_name = "FILE", help_heading = "Selection", conflicts_with_all = ["prune", "explain", "account"])]
    pub(crate) files_from: Vec<OsString>,
    /// With --files-from, names end with a NUL, not a newline
    #[arg(short = '0', long, help_heading = "Selection", requires = "files_from")]
    pub(crate) null: bool,
    #[command(flatten)]
    pub(crate) excludes: Excludes,
    /// Stay on the file system of each SRC, as find -xdev does
    #[arg(short = 'x', long, help_heading = "Selection")]
    pub(crate) one_file_system: bool,

    /// Read metadata by this method
    ///
    /// All methods give the same archive.
    #[arg(long, value_name = "HOW", default_value = "auto")]
    #[arg(help_heading = "Metadata", value_parser = choice(METHODS, Gather::ALL, Gather::name))]
    pub(crate) gather: GatherMethod,
    /// Use N threads [default: chosen by the number of processors]
    ///
    /// With 1, a single thread reads metadata and files, and writes the archive.
    #[arg(short, long, value_name = "N", help_heading = "Metadata", value_parser = number(1..=65_535_usize))]
    pub(crate) jobs: Option<usize>,

    #[command(flatten)]
    pub(crate) deadline: DeadlineArgs,

    /// Compress with none, gzip, xz or zstd [default: by the suffix]
    ///
    /// A level may follow: gzip:1 to gzip:9, xz:0 to xz:9, zstd:1 to zstd:19.
    #[arg(long, value_name = "NAME[:LEVEL]", help_heading = "Output", value_parser = compress)]
    pub(crate) compress: Option<Compress>,
    /// Write a list of the archived entries (- for stderr)
    ///
    /// Each line has the type, mode, owner, size, modification time and name of an entry.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) map: Option<OsString>,
    /// Write no list, even with --map
    #[arg(long, help_heading = "Output")]
    pub(crate) no_map: bool,
    /// Do everything except writing the archive
    ///
    /// -o may be omitted; its file is not written.
    #[arg(long, help_heading = "Output")]
    pub(crate) no_output: bool,

    /// Print how much would be archived; dump nothing
    ///
    /// With --state and without --level, there is a row for each level. The tree is read once, and
    /// no file is opened: extended attributes do not count, and sparse files count with their
    /// allocated space. With --restic, files are read and compared with REPO, but nothing is
    /// written, not even a lock.
    #[arg(short = 'n', long, help_heading = "Reports", conflicts_with_all = ["account", "explain", "map", "no_output"])]
    pub(crate) dry_run: bool,
    /// Print the CPU time by function, system call and method
    ///
    /// The tables are those of the Multics memo of 1974. For each method, they have the cost that
    /// the memo's model predicts, and the measured cost. To measure it, each method reads the
    /// metadata again. The dump uses one thread.
    #[arg(long, help_heading = "Reports", conflicts_with_all = ["explain", "jobs"])]
    pub(crate) account: bool,
    /// Print how metadata would be read, and why; dump nothing
    ///
    /// For each SRC, the output has the possible methods, and the reasons why the others do not
    /// work.
    #[arg(long, help_heading = "Reports", conflicts_with_all = ["catalog", "since", "level", "map", "exclude_caches",
          "exclude_if_present"])]
    pub(crate) explain: bool,

    /// Keep the finished parts of an earlier attempt, and dump the rest
    ///
    /// The first attempt must have it, too: the ranks then dump the tree in 16 slices, one after
    /// the other. After a failure, the same command continues. A slice is kept if all ranks have
    /// finished it and nothing in it has changed since. The catalogs of the slices show this;
    /// without --catalog, they are in ARCHIVE/.catalog. Needs mpirun, and the same SRCs, options
    /// and number of ranks.
    #[arg(long, help_heading = "Output", requires = "output",
          conflicts_with_all = ["no_output", "dry_run", "explain", "account", "map"])]
    pub(crate) resume: bool,
    /// Refuse to dump a shard, which fathom walk can walk
    #[arg(long, value_name = "I/N", hide = true)]
    pub(crate) shard: Option<OsString>,

    #[command(flatten)]
    pub(crate) mode: ModeArgs,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    pub(crate) monitor: MonitorArgs,
}

/// Which dumps of a state directory are kept, with the meanings of restic.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Retention")]
pub(crate) struct RetentionArgs {
    /// With --state, keep the last N dumps, and remove others
    ///
    /// After a successful dump, fathom removes the dumps that no --keep option keeps; with -n, it
    /// only prints them. Also kept are the full dumps on which kept dumps are based, the last
    /// complete dump and, for each entry that later dumps could not read, the last dump that has
    /// it.
    #[arg(long, value_name = "N", value_parser = number(1..=65_535_usize))]
    pub(crate) keep_last: Option<usize>,
    /// Keep the last dump of each of the last N hours with dumps
    #[arg(long, value_name = "N", value_parser = number(1..=65_535_usize))]
    pub(crate) keep_hourly: Option<usize>,
    /// Keep the last dump of each of the last N days with dumps
    ///
    /// Days are in local time (TZ). If fewer than N days have a dump, the oldest dump is also kept,
    /// as in restic. The same applies to the other periods.
    #[arg(long, value_name = "N", value_parser = number(1..=65_535_usize))]
    pub(crate) keep_daily: Option<usize>,
    /// Keep the last dump of each of the last N weeks with dumps
    ///
    /// Weeks begin on Monday.
    #[arg(long, value_name = "N", value_parser = number(1..=65_535_usize))]
    pub(crate) keep_weekly: Option<usize>,
    /// Keep the last dump of each of the last N months with dumps
    #[arg(long, value_name = "N", value_parser = number(1..=65_535_usize))]
    pub(crate) keep_monthly: Option<usize>,
    /// Keep the last dump of each of the last N years with dumps
    #[arg(long, value_name = "N", value_parser = number(1..=65_535_usize))]
    pub(crate) keep_yearly: Option<usize>,
    /// Keep the dumps of the last DURATION before the newest dump
    ///
    /// As in restic, DURATION has the units y (years), m (months), d (days) and h (hours), such as
    /// 30d or 1y6m.
    #[arg(long, value_name = "DURATION", value_parser = within)]
    pub(crate) keep_within: Option<Within>,
}

impl RetentionArgs {
    /// The retention policy; `None` unless one of its options was given.
    pub(crate) fn policy(self) -> Option<Policy> {
        let policy = Policy {
            last: self.keep_last.unwrap_or_default(),
            hourly: self.keep_hourly.unwrap_or_default(),
            daily: self.keep_daily.unwrap_or_default(),
            weekly: self.keep_weekly.unwrap_or_default(),
            monthly: self.keep_monthly.unwrap_or_default(),
            yearly: self.keep_yearly.unwrap_or_default(),
            within: self.keep_within,
        };
        (!policy.is_empty()).then_some(policy)
    }
}
