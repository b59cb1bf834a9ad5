//! The flags of `fathom walk`.

use std::ffi::OsString;

use clap::Args;
use clap::builder::TypedValueParser;
use walk::{EngineKind, Shard};

use crate::args::deadline::DeadlineArgs;
use crate::args::help::{EXIT, ending, first};
use crate::args::load::LoadArgs;
use crate::args::mode::ModeArgs;
use crate::args::output::{Format, OutputArgs};
use crate::args::predicates::PredicateArgs;
use crate::args::values::{choice, number, seekable, shard};
use crate::cmd::selection::Excludes;

const EXAMPLES: &str = "\
fathom walk /srv  # what takes the space: totals, directories, extensions, files
fathom walk /srv --top 10  # print the ten largest files as well
fathom walk /srv --format du --top 20  # list the 20 largest directories
fathom walk /srv --format du --exclusive  # print the space that deleting each directory would free
fathom walk /home --group-by owner  # print entries and space by owner
fathom walk /srv --group-by dir:2 --top 20  # print the 20 largest directories down to level 2
fathom walk -x / --format paths0  # print all paths for xargs -0
fathom walk /srv --format ndjson  # print all metadata, one JSON object per line
fathom walk /srv --exclude '*.o'  # skip object files
fathom mounts / --check --format exclude | fathom walk / --exclude-from -  # skip mounts that do not answer
fathom walk /srv --size +100M --changed-before 1y --format paths  # list large files not modified for a year
fathom walk /home --type f --owner '!root' --perm /022  # count files that others can write to
fathom walk /srv --catalog srv.parquet  # write a catalog for fathom changed
fathom walk /srv --shard 0/4 --catalog parts  # write the first of four parts of a catalog
mpirun -np 16 fathom walk /srv --catalog parts  # walk with 16 ranks (built with MPI)
mpirun -np 16 fathom walk /srv --catalog parts --resume  # the same; repeat it to continue after a failure
fathom walk /srv --explain  # print which engine would be used, and why
fathom walk /srv --compare  # compare the cost of all engines on this tree";

const ENGINES: &str = "\
auto      Use the cheapest engine for each mount
threads   Call statx(2) for each name, with threads that share the directories
bulkstat  XFS: read many inodes per call, and join them with the names
btrfs     btrfs: search its trees
ext4      ext2, ext3, ext4: read the inode tables from the device
stat      Call statx(2) for each name, with one thread";

const FORMATS: &str = "\
summary   Totals (each name counts), what takes most space, and a digest; nothing with -q
du        The disk usage of each directory, as du counts it; SIZE is that of files and symlinks
paths     One path per line, as find prints it
paths0    The same, separated by NUL characters
ndjson    All metadata, one JSON object per line
csv       All metadata, as comma-separated values
ncdu      The tree as JSON that ncdu -f and gdu -f load";

/// The engine of `--engine`; `None` to choose one for each mount.
pub(crate) type Engine = Option<EngineKind>;

pub(crate) fn engine() -> impl TypedValueParser<Value = Engine> {
    choice(ENGINES, EngineKind::SELECTABLE, EngineKind::name)
}

#[derive(Args, Debug)]
#[command(before_help = first(EXAMPLES), after_help = EXIT, after_long_help = ending(EXAMPLES, "", EXIT))]
pub(crate) struct Walk {
    /// The directories to start from; symbolic links are followed
    #[arg(required = true, value_name = "DIR")]
    pub(crate) dirs: Vec<OsString>,

    /// Walk with this engine
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    #[arg(help_heading = "Method", value_parser = engine())]
    pub(crate) engine: Engine,
    /// Use N threads [default: depends on the engine]
    #[arg(short, long, value_name = "N", help_heading = "Method", value_parser = number(1..=65_535_usize))]
    pub(crate) jobs: Option<usize>,
    /// Run all engines that work here, and compare their costs
    ///
    /// Each run is a separate process. The digests show whether the engines agree.
    #[arg(long, help_heading = "Method", conflicts_with_all = ["engine", "format", "sort", "top", "group_by", "catalog", "shard", "PredicateArgs", "LoadArgs"])]
    pub(crate) compare: bool,
    /// Run N trials per engine, with --compare
    #[arg(long, value_name = "N", default_value_t = 5, requires = "compare", help_heading = "Method",
          value_parser = number(1..=65_535_usize))]
    pub(crate) trials: usize,
    /// Print which engine would be used and why, without walking
    ///
    /// The choice depends on the predicates and --format: if only names are needed, a different
    /// engine may be the cheapest.
    #[arg(long, help_heading = "Method", conflicts_with_all = ["sort", "top", "group_by", "catalog", "compare"])]
    pub(crate) explain: bool,

    /// Stay on the file system of each DIR, as find -xdev does
    #[arg(short = 'x', long, help_heading = "Selection")]
    pub(crate) one_file_system: bool,
    #[command(flatten)]
    pub(crate) deadline: DeadlineArgs,
    /// Descend at most N levels; DIR is level 0
    ///
    /// With --format du, deeper directories are counted, but not printed.
    #[arg(long, value_name = "N", help_heading = "Selection", value_parser = number(0..=u32::MAX))]
    pub(crate) max_depth: Option<u32>,
    #[command(flatten)]
    pub(crate) excludes: Excludes,

    /// Walk only shard I of N, numbered from 0
    ///
    /// N processes, on any hosts, walk a tree together. Directories three levels below DIR are
    /// assigned to shards by a hash of their paths, each with everything below it; entries above
    /// that level are assigned individually. With --catalog, FILE is a directory, to which each
    /// process writes part-I-of-N.parquet; fathom query reads the directory. The digest of the tree
    /// is the sum of the digests of all shards.
    #[arg(long, value_name = "I/N", help_heading = "Selection", value_parser = shard)]
    pub(crate) shard: Option<Shard>,
    /// Name the run that a part belongs to [default: $SLURM_ARRAY_JOB_ID]
    ///
    /// Parts of different runs are never read as one data set. Requires --shard or mpirun; under
    /// mpirun, the default is a random name.
    #[arg(long, value_name = "NAME", help_heading = "Selection")]
    pub(crate) run: Option<String>,

    #[command(flatten)]
    pub(crate) predicates: PredicateArgs,

    /// Print the result in this format
    #[arg(long, value_name = "FORMAT", default_value = "summary")]
    #[arg(help_heading = "Output", value_parser = Format::parser(FORMATS))]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// With --format du, print the space that deleting each would free
    ///
    /// On btrfs and XFS, files can share extents with copies and snapshots. An extent counts once,
    /// in the deepest directory that contains all files that refer to it, or not at all if one of
    /// them is outside DIR. fathom reads the list of extents of each file. Only root can find out
    /// which files refer to an extent.
    #[arg(long)]
    pub(crate) exclusive: bool,
    /// Write a catalog (Parquet), with one row per entry, to FILE
    ///
    /// fathom changed and fathom dump compare a tree with it. DuckDB, pandas and Spark read it, too. Under
    /// mpirun, FILE is a directory, to which each rank writes part-RANK-of-N.parquet.
    #[arg(long, value_name = "FILE", help_heading = "Output", value_parser = seekable())]
    pub(crate) catalog: Option<OsString>,

    /// Keep the finished parts of an earlier attempt, and walk the rest
    ///
    /// The first attempt must have it, too: the ranks then walk the tree in 16 slices, one after
    /// the other. After a failure, the same command continues. A slice is kept if all ranks have
    /// finished it and nothing was skipped. With --shard, a finished part of the shard is kept.
    /// Needs --catalog, and the same DIR, options and number of ranks.
    #[arg(long, help_heading = "Output", requires = "catalog", conflicts_with_all = ["PredicateArgs", "explain"])]
    pub(crate) resume: bool,

    #[command(flatten)]
    pub(crate) mode: ModeArgs,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
}
