//! `fathom query --diff`: lists the changes between two catalogs.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use archive::Users;
use base::Warning;
use catalog::changed::CatalogPair;
use walk::Diagnostics;
use walk::group::{GroupOrder, Groups};
use walk::predicate::Predicates;

use super::SCHEMA;
use super::args::Query as Args;
use super::show::{Difference, summary};
use crate::args::output::{Format, GroupField, SortKey};
use crate::cmd::changed::show::{notes, restic_directories, write};
use crate::cmd::groups::NamedGroups;
use crate::error::{Error, Outcome};
use crate::out::Out;
use crate::progress::watch_walk;

pub(super) fn run(args: &Args, [old, new]: [&OsString; 2], out: &Out) -> Outcome {
    let format = check(args, out)?;
    let start = Instant::now();
    let predicates = Predicates {
        max_depth: args.max_depth,
        ..args.predicates.predicates()?
    };
    let is_detailed = out.json || out.verbose || format == Format::Ndjson;
    let pair = CatalogPair::open(old.as_bytes(), new.as_bytes())?.with_metadata(is_detailed);
    let warnings = pair.warnings();
    if pair.is_reversed() {
        out.note("OLD was written after NEW: what was added appears as removed");
    }
    if let Some(field) = args.output.group_by {
        return groups(args, field, &pair, &predicates, &warnings, out);
    }
    let changes = watch_walk(out.messages(), &Diagnostics::default(), || {
        pair.changes(&predicates)
    })?;
    let directories = restic_directories(format, &changes);
    let empty = pair.empty_directories(&changes, &directories)?;
    let seconds = start.elapsed().as_secs_f64();
    let result = Difference {
        changes: Some(&changes),
        groups: None,
        seconds,
    };
    out.report(SCHEMA, result, &warnings, || {
        out.names(|to| write(format, &changes, &empty, out.verbose, to))?;
        out.note(summary(&changes, seconds));
        notes(format, &changes)
            .iter()
            .for_each(|note| out.note(note));
        Ok(())
    })
}

/// Prints `--group-by`: the growth of groups.
fn groups(
    args: &Args,
    field: GroupField,
    pair: &CatalogPair,
    predicates: &Predicates,
    warnings: &[Warning],
    out: &Out,
) -> Outcome {
    let start = Instant::now();
    let by = field.group_by(args.predicates.time_field());
    let [old, new] = [Groups::new(by), Groups::new(by)];
    let [old_data, new_data] = pair.data_sets();
    watch_walk(out.messages(), &Diagnostics::default(), || {
        old_data.add_up(predicates, &old)?;
        new_data.add_up(predicates, &new)
    })?;
    let order = args.output.sort;
    let order = order.map_or(GroupOrder::Allocated, SortKey::of_groups);
    let growth = new.into_growth(old, order, args.output.top);
    let users = Users::read();
    let groups = NamedGroups {
        by,
        groups: &growth,
        users: &users,
    };
    let result = Difference {
        changes: None,
        groups: Some(groups),
        seconds: start.elapsed().as_secs_f64(),
    };
    out.report(SCHEMA, result, warnings, || match args.format {
        Format::Csv => out.names(|to| groups.write_csv(to)),
        Format::Ndjson => out.names(|to| groups.write_ndjson(to)),
        _ => out.text_pieces(|put| groups.write_table(out.table_style(), put)),
    })
}

/// Checks that the flags can be combined; returns the format of the changes.
fn check(args: &Args, out: &Out) -> Result<Format, Error> {
    let format = args.format();
    let is_table = matches!(format, Format::Summary | Format::Table);
    if out.json && !is_table {
        return Err(Error::new("--json cannot be used with --format")
            .with_hint("use --format ndjson for one JSON object per line"));
    }
    if args.output.group_by.is_some() {
        return match format {
            Format::Csv | Format::Ndjson => Ok(Format::Table),
            _ if is_table => Ok(Format::Table),
            _ => Err(Error::new("--group-by cannot be used with this --format")
                .with_hint("omit --format, or use --format csv or ndjson")),
        };
    }
    if args.output.sort.is_some() || args.output.top.is_some() {
        return Err(
            Error::new("--sort and --top require --group-by with --diff")
                .with_hint("add --group-by dir:2"),
        );
    }
    match format {
        Format::Summary => Ok(Format::Table),
        Format::Du | Format::Csv | Format::Ncdu => Err(Error::new(
            "--diff cannot be used with --format du, csv or ncdu",
        )
        .with_hint("use --format ndjson, or --group-by dir:2 for the growth of directories")),
        format => Ok(format),
    }
}
