//! `fathom query`: prints the same as `fathom walk`, from catalogs instead of the file system.

use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use ::show::name::printable;
use ::show::units::{duration, plural};
use base::Warning;
use catalog::query::DataSet;
use clap::ValueEnum;
use team::SingleProcess;
use walk::group::Groups;
use walk::predicate::Predicates;
use walk::{Diagnostics, Sink, Totals};

use super::args::Query as Args;
use super::{SCHEMA, diff};
use crate::args::output::Format;
use crate::args::values::bytes;
use crate::cmd::walk::output::{EmitReport, OutputRequest, Source, check};
use crate::error::{Error, Outcome};
use crate::out::{Messages, Out};
use crate::progress::watch_walk;

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    args.predicates.check_time(args.output.group_by)?;
    if let Some([old, new]) = args.diff.as_deref() {
        return diff::run(args, [old, new], out);
    }
    let format = args.format();
    if let Format::Table | Format::Restic | Format::Borg | Format::Rsync | Format::Tar = format {
        let value = format.to_possible_value();
        let name = value.as_ref().map_or("", |value| value.get_name());
        return Err(Error::new(format!("--format {name} requires --diff"))
            .with_hint("use --diff OLD NEW, or fathom changed"));
    }
    check(format, &args.output, out)?;
    let predicates = Predicates {
        max_depth: args.max_depth.filter(|_| format != Format::Du),
        ..args.predicates.predicates()?
    };
    let view = OutputRequest {
        format,
        args: &args.output,
        schema: SCHEMA,
        time: args.predicates.time_field(),
        max_depth: args.max_depth,
        is_exclusive: false,
        is_all: predicates.is_all(),
        team: &SingleProcess::NoJob,
    };
    args.mode.apply();
    let data = DataSet::open(&bytes(&args.catalogs))?;
    if let Some(file) = &args.compact {
        data.compact(file.as_bytes())?;
    }
    let source = Catalogs { data, predicates };
    view.print(&source, out)
}

/// The catalogs, with the predicates that select entries.
struct Catalogs {
    data: DataSet,
    predicates: Predicates,
}

impl Source for Catalogs {
    fn emit(&self, sink: &dyn Sink, wanted: Messages) -> Result<EmitReport, Error> {
        self.read(wanted, || Ok(self.data.emit(&self.predicates, sink)?))
    }

    fn add_up(&self, groups: &Groups, wanted: Messages) -> Result<EmitReport, Error> {
        self.read(wanted, || Ok(self.data.add_up(&self.predicates, groups)?))
    }

    fn roots(&self) -> &[Vec<u8>] {
        self.data.roots()
    }

    fn note(&self, totals: &Totals, emitted: &EmitReport, out: &Out) {
        let all: u64 = self.data.abouts().map(|about| about.entries).sum();
        let (catalogs, entries) = (self.data.abouts().count() as u64, totals.entries);
        out.note(format_args!(
            "{} of {} in {}, read in {}",
            plural(entries, "entry", "entries"),
            ::show::units::count(all),
            plural(catalogs, "catalog", "catalogs"),
            duration(emitted.seconds)
        ));
        let incomplete = self.data.abouts().filter(|about| !about.complete).count();
        if incomplete > 0 {
            out.note("some entries are missing: the walk that wrote the catalog skipped them");
        }
    }

    fn note_sums(&self, out: &Out) {
        for root in self.data.repeated_roots() {
            out.note(format_args!(
                "several catalogs list '{}': entries that are in more than one count several times",
                printable(root)
            ));
        }
    }
}

impl Catalogs {
    /// Reads the catalogs, and adds the warnings about them.
    fn read(
        &self,
        wanted: Messages,
        read: impl FnOnce() -> Result<(), archive::Error> + Send,
    ) -> Result<EmitReport, Error> {
        let start = Instant::now();
        watch_walk(wanted, &Diagnostics::default(), read)?;
        let missing = self.data.missing().iter();
        let missing = missing.map(|(path, parts)| Warning::about(path, parts.clone()));
        Ok(EmitReport {
            parts: Vec::new(),
            warnings: missing.collect(),
            seconds: start.elapsed().as_secs_f64(),
            kept: None,
        })
    }
}
