//! `fathom changed`: what is not as a catalog says.

use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use archive::catalog::Reader;
use archive::changed::{Change as Was, ChangedOptions, changed};
use report::changed::{Change, Changes, Entry, Form, to_bytes};

use crate::cmd::changed::args::{Changed as Args, ChangedFormat as Format};
use crate::cmd::walk::run::by;
use crate::error::{Error, Outcome};
use crate::out::Out;
use crate::progress::watch_walk;

const SCHEMA: &str = "fathom.changed/1";

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let form = match args.format {
        Format::Table => Form::Text,
        Format::Ndjson => Form::Ndjson,
        Format::Paths => Form::Paths,
        Format::Paths0 => Form::Paths0,
        Format::Restic => Form::Restic,
        Format::Borg => Form::Borg,
        Format::Rsync => Form::Rsync,
        Format::Tar => Form::Tar,
    };
    if out.json && form != Form::Text {
        return Err(Error::new(
            "--json is a format of its own; leave out --format".to_owned(),
        ));
    }
    let start = Instant::now();
    let since = args.since.as_bytes();
    if args.one_file_system && !Reader::open(since)?.about().options.one_file_system {
        let next = "leave -x away, or make a new one with fathom walk -x --catalog";
        return Err(Error::read(
            "cannot use catalog",
            since,
            "it was made without -x",
            next,
        ));
    }
    let options = ChangedOptions {
        dir: args.dir.as_bytes().to_vec(),
        since: since.to_vec(),
        by: by(args.engine),
        threads: args.jobs.map(usize::from),
        update: args.update,
    };
    let desk = walk::Diagnostics::default();
    let answer = watch_walk(out.progress, &desk, || changed(&options, &desk))?;
    let entries: Vec<Entry<'_>> = answer
        .entries
        .iter()
        .map(|entry| Entry {
            path: &entry.path,
            change: match entry.change {
                Was::Added => Change::Added,
                Was::Changed => Change::Changed,
                Was::Removed => Change::Removed,
                Was::Renamed => Change::Renamed,
            },
            from: entry.from.as_deref(),
            is_dir: entry.is_dir,
        })
        .collect();
    let seconds = start.elapsed().as_secs_f64();
    let (engine, why) = (answer.engine.name(), answer.reason.to_string());
    let changes = Changes::of(engine, &why, &entries, seconds);
    if out.json {
        out.envelope(SCHEMA, &changes, &answer.warnings)?;
    } else {
        let carried: Vec<(&[u8], bool)> = answer
            .carried
            .iter()
            .map(|(path, is_dir)| (&path[..], *is_dir))
            .collect();
        out.data(&to_bytes(form, &entries, &carried))?;
        let Changes {
            added,
            changed,
            removed,
            renamed,
            ..
        } = changes;
        let what = match entries.is_empty() {
            true => "nothing has changed".to_owned(),
            false => {
                format!("{added} added, {changed} changed, {removed} removed, {renamed} renamed")
            }
        };
        out.note(format_args!(
            "{what}; found by {engine} in {seconds:.3} s: {why}"
        ));
    }
    // Only now: who did not get the answer can ask again.
    answer.update.map(|sealed| sealed.publish()).transpose()?;
    out.warn(&answer.warnings);
    Ok(answer.warnings.len())
}
