//! `fathom pathsearch`: traces the path searches of a command, predicts their cost on a network
//! file system, and proposes changes.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use ::show::shell::single_quoted;
use ::show::table::TableStyle;
use base::Warning;
use meter::call::Command;
use mounts::check::ANSWER_WITHIN;
use pathsearch::{Environment, RoundTrip, SearchOptions, search};

use super::args::{Pathsearch as Args, Rtt};
use super::show;
use crate::cmd::metered::{ReportTarget, not_metered};
use crate::error::{Error, Outcome};
use crate::out::{Out, envelope};

const SCHEMA: &str = "fathom.pathsearch/1";

/// Runs the command; returns its exit status.
pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let output = args.output.as_deref();
    let to_stdout = output == Some(OsStr::new("-")) || out.json && output.is_none();
    for (given, option) in [(args.apply_path, "--apply-path"), (args.files0, "--files0")] {
        if given && to_stdout {
            let message = format!("{option} and the report cannot both go to standard output");
            return Err(Error::new(message).with_hint("write the report to a file with -o FILE"));
        }
    }
    // Check all options before the command runs.
    let options = options(args)?;
    let to = match output {
        None if args.apply_path || args.files0 => None,
        output => Some(ReportTarget::begin("pathsearch", output, out.json)?),
    };
    let environment = Environment::of_this_process();
    let report = Command::find(&args.command)
        .and_then(|command| search(&command, &args.meter, &environment, &options))
        .map_err(|why| not_metered(why, out))?;
    let status = report.metered.ended.status();
    let of_meter = report.metered.warnings.iter().cloned();
    let mut warnings: Vec<Warning> = of_meter.map(Warning::general).collect();
    warnings.extend(report.warnings.iter().cloned());
    if let Some(to) = to {
        // A report in a file is complete, because details cannot be requested later.
        let extent = match () {
            () if out.verbose || matches!(to, ReportTarget::File(..)) => show::ReportExtent::All,
            () if args.full => show::ReportExtent::Full,
            () => show::ReportExtent::Brief,
        };
        let text = |style: TableStyle| match out.json {
            true => {
                let figures = Some(show::figures(&report));
                envelope(SCHEMA, show::Report(&report), figures, &warnings).to_line()
            }
            false => show::report(&report, style, extent),
        };
        to.end(text, status, out)?;
    }
    if args.files0 {
        out.names(|to| {
            let mut files = report.files().into_iter();
            files.try_for_each(|file| to.write_all(&[file, b"\0"].concat()))
        })?;
    }
    if args.apply_path {
        let better = report.better_path.as_ref().map(|better| &better.path);
        if let Some(path) = better.or(environment.path.as_ref()) {
            let line = [b"PATH=", &single_quoted(path)[..], b"; export PATH\n"].concat();
            out.names(|to| to.write_all(&line))?;
        }
    }
    out.warn(&warnings);
    out.exit_with(status);
    Ok(0)
}

fn options(args: &Args) -> Result<SearchOptions, Error> {
    // Lookups report absolute paths without symbolic links, so resolve the directories of
    // --network.
    let resolve = |dir: &OsString| {
        let root = mounts::check::open_root(dir.as_bytes(), ANSWER_WITHIN)?;
        Ok(root.into_path())
    };
    let remote = args.network.iter().map(resolve);
    Ok(SearchOptions {
        remote: remote.collect::<Result<_, Error>>()?,
        rtt: match args.rtt {
            None => RoundTrip::Assume,
            Some(Rtt::Auto) => RoundTrip::Measure,
            Some(Rtt::Given(rtt)) => RoundTrip::Given(rtt.as_secs_f64()),
        },
        nodes: args.nodes,
        server_rate: args.server_rate,
    })
}
