//! `fathom restore`: restores a tree from archives.

use std::io::BufWriter;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use archive::increment::history::History;
use archive::increment::record::DumpRecord;
use archive::restore::{RestoreOptions, RestoreProgress, RestoreStep, restore, write_file};
use gate::fs::Time;

use super::show::{self, SCHEMA};
use super::together;
use crate::args::values::bytes;
use crate::cmd::restore::args::Restore as Args;
use crate::date::{When, Zone};
use crate::error::{self, Outcome, not_an_archive};
use crate::input::{Archives, archives_and_paths};
use crate::out::Out;
use crate::progress::watch;
use crate::ranks;

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let start = Instant::now();
    let team = ranks::join(out, "each process restores alone")?;
    if args.dry_run && team.as_ref().is_some_and(|team| team.rank() > 0) {
        return Ok(0); // rank 0 prints it
    }
    let team = team.filter(|_| !args.dry_run);
    if let (Some(_), Some(state)) = (&args.to, &args.state) {
        return write_one(args, state.as_bytes(), out);
    }
    args.load.apply(team.as_ref().map_or(1, |team| team.size()));
    if let Some(team) = team {
        return together::run(args, &*team, out);
    }
    let mut recorded = Vec::new();
    let Archives {
        archives,
        paths,
        are_parts,
    } = match &args.state {
        Some(state) => {
            recorded = archives_at(state.as_bytes(), args.at)?;
            let archives = recorded.iter().filter_map(|dump| dump.archive.clone());
            let archives: Vec<Vec<u8>> = archives.collect();
            out.note(show::chosen(&archives));
            Archives {
                archives,
                paths: paths_in(&recorded, args)?,
                are_parts: false,
            }
        }
        None => archives_and_paths(&args.archives, &args.paths)?,
    };
    let options = RestoreOptions {
        archives,
        recorded,
        dir: args.directory.as_bytes().to_vec(),
        must_have_paths: args.state.is_none() && args.paths.is_empty() && !paths.is_empty(),
        paths,
        strip_components: args.strip_components,
        numeric_owner: args.numeric_owner,
        kept: args.kept(),
        overwrite: args.overwrite,
        dry_run: args.dry_run,
        jobs: args.jobs,
        sync: args.sync,
        are_parts,
        as_it_was: args.state.is_some(),
    };
    let progress = RestoreProgress::default();
    let message = |seconds: f64| show::progress_message(progress.get(), seconds);
    let mut steps = show::Steps::default();
    let mut printed = Ok(());
    let mut emit = |step: RestoreStep| {
        if out.json {
            steps.add(&step);
        } else if printed.is_ok() {
            printed = out.data(show::step_line(&step));
        }
    };
    let done = watch(out.progress, message, || {
        restore(&options, &progress, &mut emit)
    });
    printed?;
    let mut summary = done.map_err(|error| not_an_archive(error, &options.archives))?;
    for note in &summary.notes {
        out.note(show::note(note));
    }
    if let Some(error) = summary.stopped.take() {
        out.warn(&summary.warnings);
        let is_begun = !args.dry_run && progress.get().0 > 0;
        return Err(match is_begun {
            true => error::Error::from(error).with_hint("what was restored so far remains"),
            false => error.into(),
        });
    }
    let report = show::RestoreReport {
        summary: &summary,
        steps: args.dry_run.then_some(&steps),
        are_parts: options.are_parts,
        ranks: None,
        seconds: start.elapsed().as_secs_f64(),
    };
    let print_text = || {
        out.note(show::summary(&report));
        Ok(())
    };
    out.report(SCHEMA, &report, &summary.warnings, print_text)
}

/// The names in the archives of the PATHs, which are those on the machine.
fn paths_in(recorded: &[DumpRecord], args: &Args) -> Result<Vec<Vec<u8>>, error::Error> {
    let given = [bytes(&args.archives), bytes(&args.paths)].concat();
    let Some(last) = recorded.last() else {
        return Ok(given);
    };
    let names = given.iter().map(|path| last.member_names(path));
    let names: Vec<Vec<Vec<u8>>> = names.collect::<archive::Result<_>>()?;
    Ok(names.concat())
}

/// Writes one file to standard output.
fn write_one(args: &Args, state: &[u8], out: &Out) -> Outcome {
    let recorded = archives_at(state, args.at)?;
    let paths = paths_in(&recorded, args)?;
    let [path] = &paths[..] else {
        return Err(error::Error::new("--to - needs the PATH of one file"));
    };
    if out.json {
        return Err(error::Error::new(
            "--json and --to - both write to standard output",
        ));
    }
    let mut stdout = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    let warning = write_file(&recorded, path, &mut stdout)?;
    let warnings: Vec<_> = warning.into_iter().collect();
    out.warn(&warnings);
    Ok(warnings.len())
}

/// The archives that restore the last dump that began by a time; the last of all without one.
fn archives_at(state: &[u8], at: Option<When>) -> Result<Vec<DumpRecord>, error::Error> {
    let now = walk::Moment::now().time().sec;
    let second = at.map(|at| at.last_second(&Zone::local(), now));
    let time = Time {
        sec: second.unwrap_or(i64::MAX),
        nsec: 999_999_999,
    };
    Ok(History::read(state)?.archives_at(time)?)
}
