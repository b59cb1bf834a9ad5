//! The flags of `fathom changed`.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

use super::walk::Engine;

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
