//! The flags of `fathom changed`.

use std::ffi::OsString;

use clap::Args;

use crate::args::deadline::DeadlineArgs;
use crate::args::help::{EXIT, ending, first};
use crate::args::load::LoadArgs;
use crate::args::mode::ModeArgs;
use crate::args::output::Format;
use crate::args::predicates::PredicateArgs;
use crate::args::values::number;
use crate::cmd::selection::Globs;
use crate::cmd::walk::args::{Engine, engine};

const EXAMPLES: &str = "\
fathom walk /srv --catalog c.parquet  # write the catalog to compare with
fathom changed /srv --since c.parquet  # list what changed since then
fathom changed /srv --since c.parquet --update  # and replace the catalog with a new one
fathom changed /srv --since c.parquet --type f --size +10M  # list only large files that changed
fathom changed /srv --since c.parquet --format rsync | rsync -a --force --from0 --files-from=- /srv/ COPY/  # update a copy with rsync
fathom changed /srv --since c.parquet --format tar | tar -C /srv --no-recursion --null -T - -cf A.tar  # archive what changed with tar
fathom changed . --since ../c.parquet --format restic | restic backup --files-from-raw -  # a snapshot of the changed files only; run it in /srv
fathom dump /srv --restic REPO  # a complete snapshot";

const FORMATS: &str = "\
table     One change per line: + added, * changed, - removed, > renamed
ndjson    One JSON object per line
paths     One path per line, without removed entries
paths0    The same, separated by NUL characters
restic    For restic backup --files-from-raw: the snapshot has only what changed
borg      For borg create --paths-from-stdin --paths-delimiter '\\0': the archive has only what changed
rsync     For rsync --from0 --files-from
tar       For tar --no-recursion --null -T";

#[derive(Args, Debug)]
#[command(before_help = first(EXAMPLES), after_help = EXIT, after_long_help = ending(EXAMPLES, "", EXIT))]
pub(crate) struct Changed {
    /// The directory that the catalog describes
    #[arg(value_name = "DIR")]
    pub(crate) dir: OsString,
    /// Compare with this catalog, written by fathom walk or fathom dump
    ///
    /// It may be a directory with all parts of one run.
    #[arg(long, value_name = "CATALOG")]
    pub(crate) since: OsString,
    /// Replace the catalog with a new one after the output is written
    ///
    /// The new catalog has all entries, whatever the predicates.
    #[arg(long, conflicts_with_all = ["exclude", "exclude_from"])]
    pub(crate) update: bool,

    #[command(flatten)]
    pub(crate) predicates: PredicateArgs,
    /// Match entries at most N levels deep; DIR is level 0
    #[arg(long, value_name = "N", value_parser = number(0..=u32::MAX))]
    #[arg(help_heading = "Predicates (all must hold)")]
    pub(crate) max_depth: Option<u32>,

    /// Walk with this engine, if a walk is necessary
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    #[arg(help_heading = "Method", value_parser = engine())]
    pub(crate) engine: Engine,
    /// Use N threads [default: depends on the engine]
    #[arg(short, long, value_name = "N", help_heading = "Method", value_parser = number(1..=65_535_usize))]
    pub(crate) jobs: Option<usize>,
    /// Require a catalog that was written with -x
    ///
    /// -x, --exclude and --max-depth of the walk that wrote the catalog apply without being given
    /// again. Changes of entries that a further --exclude skips are not reported.
    #[arg(short = 'x', long, help_heading = "Method")]
    pub(crate) one_file_system: bool,
    #[command(flatten)]
    pub(crate) deadline: DeadlineArgs,

    #[command(flatten)]
    pub(crate) globs: Globs,

    /// Print the changes in this format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    #[arg(help_heading = "Output", value_parser = Format::parser(FORMATS))]
    pub(crate) format: Format,

    #[command(flatten)]
    pub(crate) mode: ModeArgs,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
}
