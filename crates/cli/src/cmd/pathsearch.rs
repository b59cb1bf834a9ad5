//! `fathom pathsearch`: the path searches of a command, what they would cost on a network file system, and what would help.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitCode;

use account::call::{Command, Failure, Metered, Want};
use account::meter;
use gate::file::Writer;
use mounts::Warning;
use pathsearch::search::fixes::Surroundings;
use pathsearch::search::model::Manner;
use pathsearch::search::path::quoted;
use pathsearch::search::tree::Far;
use pathsearch::search::{self, Judged, Question};
use report::pathsearch as shown;

use crate::args::{Pathsearch as Args, Rtt};
use crate::cmd::walk::look;
use crate::out::{Failed, Out};

const SCHEMA: &str = "fathom.pathsearch/1";

/// The exit status is the command's own.
pub(crate) fn run(args: &Args, out: &Out) -> ExitCode {
    match watch(args, out) {
        Ok(status) => out.pass_on(status),
        Err(failed) => out.end(Err(failed)),
    }
}

fn watch(args: &Args, out: &Out) -> Result<i32, Failed> {
    if args.apply_path && out.json && args.output.is_none() {
        return Err(Failed("--apply-path and --json both write to standard output; give -o FILE for the object".to_owned()));
    }
    let question = question(args)?;
    let mut file = args.output.as_deref().map(|path| create(path.as_bytes())).transpose()?;
    let around = surroundings();
    let found = Command::find(&args.command).and_then(|command| {
        let mut meter = |command: &Command, trace: &mut search::trace::Trace| {
            meter::run(&args.meter, command, Want::Detail { calls: u64::MAX }, trace)
        };
        search::search(&command, &around, &question, &mut meter)
    });
    let (metered, mut judged) = match found {
        Ok(found) => found,
        Err(Failure::Meter(why)) => return Err(Failed(format!("cannot watch the command: {why}"))),
        Err(Failure::Command(why, status)) => {
            out.error(&why);
            return Ok(status);
        }
    };
    judged.warnings.splice(0..0, metered.warnings.iter().cloned().map(Warning::general));
    let status = metered.ended.status();
    let result = result(&judged, &metered, &question);
    if out.json {
        match &mut file {
            Some(file) => write(file, out.envelope_line(SCHEMA, &result, &judged.warnings).as_bytes(), args)?,
            None => out.envelope(SCHEMA, &result, &judged.warnings)?,
        }
    } else {
        match &mut file {
            Some(file) => write(file, result.to_text(report::mounts::Look::default(), true).as_bytes(), args)?,
            None => out.talk_table(|width| {
                let look = report::mounts::Look { width, ..look(out) };
                result.to_text(look, out.verbose)
            }),
        }
    }
    if let Some(file) = file {
        file.publish().map_err(|e| cannot_write(args, &e))?;
    }
    if args.apply_path {
        let path = judged.better.as_ref().map(|better| better.path.as_slice()).or(around.path.as_deref());
        if let Some(path) = path {
            out.data(&[b"PATH=", &quoted(path)[..], b"; export PATH\n"].concat())?;
        }
    }
    out.warn(&judged.warnings);
    Ok(status)
}

fn question(args: &Args) -> Result<Question, Failed> {
    let far = args.network.iter().map(|dir| absolute(dir.as_bytes())).collect::<Result<_, _>>()?;
    let rtt = match args.rtt {
        None => search::Rtt::Assumed,
        Some(Rtt::Auto) => search::Rtt::Auto,
        Some(Rtt::Given(time)) => search::Rtt::Given(time.as_secs_f64()),
    };
    Ok(Question { far, rtt, nodes: args.nodes, rate: args.server_rate })
}

/// A directory's absolute name, without links: names are compared with it that have none.
fn absolute(dir: &[u8]) -> Result<Vec<u8>, Failed> {
    let root = crate::cmd::mounts::open_root(std::ffi::OsStr::from_bytes(dir))?;
    Ok(root.into_path())
}

/// What the environment says, which the command inherits.
pub(crate) fn surroundings() -> Surroundings {
    let of = |name: &str| std::env::var_os(name).map(OsString::into_vec);
    Surroundings { path: of("PATH"), library_path: of("LD_LIBRARY_PATH"), python_path: of("PYTHONPATH") }
}

fn create(path: &[u8]) -> Result<Writer, Failed> {
    Writer::create(path).map_err(|e| Failed::at("cannot write", path, e, "give a name in a directory that you may write to"))
}

fn cannot_write(args: &Args, e: &dyn std::fmt::Display) -> Failed {
    let path = args.output.as_deref().unwrap_or_default().as_bytes();
    Failed::at("cannot write", path, e, "is there room, and may you write there?")
}

fn write(file: &mut Writer, bytes: &[u8], args: &Args) -> Result<(), Failed> {
    file.write_all(bytes).map_err(|e| cannot_write(args, &e))
}

/// What was found, as it is shown.
pub(crate) fn result<'a>(judged: &'a Judged, metered: &'a Metered, question: &Question) -> shown::Pathsearch<'a> {
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    let traced = &judged.traced;
    let count = |kind: search::kind::Kind, count: search::trace::Count| shown::Count {
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
                tried: search.tried.iter().map(|tried| tried.path.as_slice()).collect(),
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
                let kinds = search::kind::Kind::ALL.into_iter().zip(row.directory.counts);
                shown::Directory {
                    dir: &row.dir,
                    kind: row.directory.kind().name(),
                    fstype: row.fstype.as_deref(),
                    network: row.network,
                    hits: total.hits,
                    misses: total.misses,
                    seconds: seconds(row.directory.nanos),
                    kinds: kinds.filter(|(_, n)| *n != Default::default()).map(|(kind, n)| count(kind, n)).collect(),
                }
            })
            .collect(),
        totals: shown::Totals {
            lookups: traced.totals.lookups,
            misses: traced.totals.misses,
            seconds: seconds(traced.totals.nanos),
        },
        kinds: search::by_kind(&judged.rows).into_iter().map(|(kind, n)| count(kind, n)).collect(),
        predicted: predicted(judged, question),
        fixes: fixes(judged),
        better_path: judged.better.as_ref().map(|better| better.path.as_slice()),
        meter: metered.meter,
        why: &metered.why,
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
    let requests = it.requests.cold.iter().map(|(request, cold)| shown::Requests {
        request: request.name(),
        cold,
        warm: it.requests.warm.of(request),
        waited_for: request.is_waited_for(),
    });
    let Manner { keeps_misses, keeps_links, keeps_pages, stats_after_read, opens, reads, window } = it.manner;
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
        manner: shown::Manner { keeps_misses, keeps_links, keeps_pages, stats_after_read, opens, reads, window },
    }
}

/// What would help, with what it saves where the prediction is for.
pub(crate) fn fixes(judged: &Judged) -> Vec<shown::Fix> {
    let rtt = judged.predicted.rtt;
    judged
        .fixes
        .iter()
        .map(|fix| shown::Fix {
            kind: fix.kind.name(),
            change: fix.change.clone(),
            saves_misses: fix.misses,
            saves_requests: fix.requests,
            saves_seconds: fix.requests as f64 * rtt,
            saves_seconds_here: fix.here,
        })
        .collect()
}
