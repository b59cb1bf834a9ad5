//! `fathom pathsearch`: the path searches of a command, what they would cost on a network file
//! system, and what would help.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use meter::call::{Command, Metered};
use mounts::Warning;
use pathsearch::fixes::Surroundings;
use pathsearch::path::quoted;
use pathsearch::trace::Trace;
use pathsearch::tree::Far;
use pathsearch::{Judged, Question};
use report::pathsearch as shown;
use show::table::TableStyle;

use crate::cmd::metered::{Report, not_metered};
use crate::cmd::pathsearch::args::{Pathsearch as Args, Rtt};
use crate::error::{Error, Outcome};
use crate::out::{Out, envelope_line, seconds};

const SCHEMA: &str = "fathom.pathsearch/1";

/// The exit status is the command's own.
pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let output = args.output.as_deref();
    if args.apply_path && (output == Some(OsStr::new("-")) || out.json && output.is_none()) {
        return Err(Error::new(
            "--apply-path and the report both go to standard output; give -o FILE for the report"
                .to_owned(),
        ));
    }
    // What can be refused is refused before anything runs.
    let question = question(args)?;
    let report = match output {
        None if args.apply_path => None,
        output => Some(Report::begin(output, out)?),
    };
    let around = surroundings();
    let (metered, mut judged) =
        watch(args, &around, &question).map_err(|why| not_metered(why, out))?;
    let status = metered.ended.status();
    judged
        .warnings
        .splice(0..0, metered.warnings.iter().cloned().map(Warning::general));
    let result = result(&judged, &metered, &question);
    // A file is for reading again: it has all.
    let all = out.verbose || matches!(report, Some(Report::File(..)));
    let text = |style: TableStyle| match out.json {
        true => envelope_line(SCHEMA, &result, &judged.warnings),
        false => result.to_text(style, all),
    };
    if let Some(report) = report {
        report.end(text, status, out)?;
    }
    if args.apply_path {
        let path = judged
            .better
            .as_ref()
            .map(|better| better.path.as_slice())
            .or(around.path.as_deref());
        if let Some(path) = path {
            out.data(&[b"PATH=", &quoted(path)[..], b"; export PATH\n"].concat())?;
        }
    }
    out.warn(&judged.warnings);
    out.exit_with(status);
    Ok(0)
}

fn watch(
    args: &Args,
    around: &Surroundings,
    question: &Question,
) -> Result<(Metered, Judged), meter::Error> {
    let command = Command::find(&args.command)?;
    let mut run =
        |command: &Command, trace: &mut Trace| meter::run_exact(args.meter.name(), command, trace);
    pathsearch::search(&command, around, question, &mut run)
}

fn question(args: &Args) -> Result<Question, Error> {
    let far = args
        .network
        .iter()
        .map(|dir| absolute(dir.as_bytes()))
        .collect::<Result<_, _>>()?;
    let rtt = match args.rtt {
        None => pathsearch::Rtt::Assumed,
        Some(Rtt::Auto) => pathsearch::Rtt::Auto,
        Some(Rtt::Given(time)) => pathsearch::Rtt::Given(time.as_secs_f64()),
    };
    Ok(Question {
        far,
        rtt,
        nodes: args.nodes,
        rate: args.server_rate,
    })
}

/// A directory's absolute name, without links: names are compared with it that have none.
fn absolute(dir: &[u8]) -> Result<Vec<u8>, Error> {
    let root = crate::cmd::mounts::run::open_root(OsStr::from_bytes(dir))?;
    Ok(root.into_path())
}

/// What the environment says, which the command inherits.
pub(crate) fn surroundings() -> Surroundings {
    let of = |name: &str| std::env::var_os(name).map(OsString::into_vec);
    Surroundings {
        path: of("PATH"),
        library_path: of("LD_LIBRARY_PATH"),
        python_path: of("PYTHONPATH"),
    }
}

/// What was found, as it is shown.
pub(crate) fn result<'a>(
    judged: &'a Judged,
    metered: &'a Metered,
    question: &Question,
) -> shown::Pathsearch<'a> {
    let traced = &judged.traced;
    let count = |kind: pathsearch::kind::Kind, count: pathsearch::trace::Count| shown::Count {
        kind: kind.name(),
        hits: count.hits,
        misses: count.misses,
    };
    shown::Pathsearch {
        searches: traced
            .searches
            .iter()
            .map(|search| shown::Search {
                kind: search.kind.name(),
                name: &search.name,
                pid: search.pid,
                program: &search.program,
                tried: search
                    .tried
                    .iter()
                    .map(|tried| tried.path.as_slice())
                    .collect(),
                found: search.found.as_deref(),
                misses: search.misses(),
                seconds: seconds(search.nanos),
            })
            .collect(),
        directories: judged
            .rows
            .iter()
            .map(|row| {
                let total = row.directory.total();
                let kinds = pathsearch::kind::Kind::ALL
                    .into_iter()
                    .zip(row.directory.counts);
                shown::Directory {
                    dir: &row.dir,
                    kind: row.directory.kind().name(),
                    fstype: row.fstype.as_deref(),
                    network: row.network,
                    hits: total.hits,
                    misses: total.misses,
                    seconds: seconds(row.directory.nanos),
                    kinds: kinds
                        .filter(|(_, n)| *n != Default::default())
                        .map(|(kind, n)| count(kind, n))
                        .collect(),
                }
            })
            .collect(),
        totals: shown::Totals {
            lookups: traced.totals.lookups,
            misses: traced.totals.misses,
            seconds: seconds(traced.totals.nanos),
        },
        kinds: pathsearch::by_kind(&judged.rows)
            .into_iter()
            .map(|(kind, n)| count(kind, n))
            .collect(),
        predicted: predicted(judged, question),
        fixes: fixes(judged),
        better_path: judged.better.as_ref().map(|better| better.path.as_slice()),
        meter: metered.meter,
        why: metered.why(),
        lost: metered.lost,
        seconds: metered.real.as_secs_f64(),
        overhead_seconds: metered.overhead.as_secs_f64(),
        exit: metered.ended.status(),
    }
}

fn predicted<'a>(judged: &'a Judged, question: &Question) -> shown::Predicted<'a> {
    let it = &judged.predicted;
    let (about, dirs) = match &it.far {
        Far::Network => ("network", Vec::new()),
        Far::Everything => ("everything", Vec::new()),
        Far::Dirs(dirs) => ("directories", dirs.iter().map(Vec::as_slice).collect()),
    };
    let requests = it
        .requests
        .cold
        .iter()
        .map(|(request, cold)| shown::Requests {
            request: request.name(),
            cold,
            warm: it.requests.warm.of(request),
            waited_for: request.is_waited_for(),
            seconds: it.prices.seconds_of(request, &it.requests.cold),
        });
    let manner = &it.manner;
    shown::Predicted {
        rtt: it.rtt,
        rtt_source: it.rtt_source,
        about,
        dirs,
        nodes: question.nodes,
        server_rate: question.rate,
        seconds: it.cold.seconds,
        seconds_warm: it.warm.seconds,
        seconds_at_least: it.cold.at_least,
        seconds_own: it.own,
        server_busy: it.cold.busy,
        requests: requests.collect(),
        manner: shown::Manner {
            keeps_names: manner.keeps_names,
            keeps_misses: manner.keeps_misses,
            keeps_links: manner.keeps_links,
            keeps_pages: manner.keeps_pages,
            stats_after_read: manner.stats_after_read,
            opens: manner.opens,
            flushes: manner.flushes,
            reads: manner.reads,
            lists: manner.lists,
            window: manner.window,
        },
    }
}

/// What would help, with what it saves where the prediction is for.
pub(crate) fn fixes(judged: &Judged) -> Vec<shown::Fix> {
    judged
        .fixes
        .iter()
        .map(|fix| shown::Fix {
            kind: fix.kind.name(),
            change: fix.change.clone(),
            saves_misses: fix.misses,
            saves_requests: fix.requests,
            saves_seconds: fix.seconds,
            saves_seconds_here: fix.here,
        })
        .collect()
}
