//! The flags of `fathom changed`.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

use crate::args::help::{EXIT, ending};
use crate::args::values::number;
use crate::cmd::walk::args::{Engine, engine};

const EXAMPLES: &str = "\
fathom walk /srv --catalog c.parquet  # the catalog to begin with
fathom changed /srv --since c.parquet  # what is not as it was
fathom changed /srv --since c.parquet --update  # and a new catalog in the place of the old one
fathom changed . --since ../c.parquet --format restic | restic backup --files-from-raw -  # for restic, run in /srv
fathom changed . --since ../c.parquet --format borg | borg create --paths-from-stdin --paths-delimiter '\\0' REPO::NAME  # for borg, run in /srv
fathom changed /srv --since c.parquet --format rsync | rsync -a --from0 --files-from=- /srv/ BACKUP/  # for rsync
fathom changed /srv --since c.parquet --format tar | tar -C /srv --no-recursion --null -T - -cf A.tar  # for tar";

#[derive(Args, Debug)]
#[command(after_help = EXIT, after_long_help = ending(EXAMPLES, "", EXIT))]
pub(crate) struct Changed {
    /// The directory that the catalog is of
    #[arg(value_name = "DIR")]
    pub(crate) dir: OsString,
    /// Compare with this catalog
    #[arg(long, value_name = "CATALOG")]
    pub(crate) since: OsString,
    /// Write a new catalog in the place of the old one, once all is done
    #[arg(long)]
    pub(crate) update: bool,

    /// Walk by this engine, where there must be a walk
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    #[arg(help_heading = "Walking", value_parser = engine())]
    pub(crate) engine: Engine,
    /// Work with N threads [default: as many as are good for the engine]
    #[arg(short, long, value_name = "N", help_heading = "Walking", value_parser = number(1..=65_535_usize))]
    pub(crate) jobs: Option<usize>,
    /// Refuse a catalog that was not made with -x (what was left out of it is left out again
    /// without being told)
    #[arg(short = 'x', long, help_heading = "Walking")]
    pub(crate) one_file_system: bool,

    /// Print in this form
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    #[arg(help_heading = "Output")]
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
