//! `fathom pathwalk`: LLNL's benchmark of path search.

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use mounts::table::{Door, Table};
use pathwalk::{
    Alone, Answer, Cold, Event, Failure, Histogram, Method, Progress, Question, Shape, Team, Test,
    launched, run as bench,
};
use report::pathwalk::{
    Bucket, Created, Forgot, Latency, Pass, Pathwalk, Rank, Removed, Test as Shown, created_line,
    figures, found_line, removed_line,
};

use crate::cmd::pathwalk::args::{Forget, Lookup, Pathwalk as Args};
use crate::cmd::probe::run::{is_there, keep_figure};
use crate::error::{Error, Outcome};
use crate::out::{Out, seconds};
use crate::progress::watch;

const SCHEMA: &str = "fathom.pathwalk/1";

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    // Before the others are joined: who fails afterwards must tell them, or they would wait for
    // ever.
    let question = question(args)?;
    if let Some(dir) = args
        .plot
        .as_deref()
        .filter(|_| launched().is_none_or(|rank| rank == 0))
    {
        is_there(dir)?;
    }
    let team = team(out)?;
    let shape = question.shape;
    let objects = shape.objects().unwrap_or(u64::MAX);
    let progress = Progress::default();
    let speaks = team.rank() == 0;
    let mut said = Ok(());
    let mut tell = |event: Event<'_>| {
        if speaks && !out.json && said.is_ok() {
            said = out.data(line(event, shape, objects).as_bytes());
        }
    };
    // Who makes or removes something has it put right before he ends; a search alone may end at
    // once.
    let held = (question.create || question.remove).then(gate::interrupt::hold);
    let shows = out.progress && speaks && held.is_some();
    let far = |_| format!("{} of {objects} objects", progress.far());
    let answer = watch(shows, far, || {
        bench(&question, &*team, &progress, &mut tell)
    });
    let answer = answer.map_err(
        |Failure {
             doing,
             path,
             error,
             next,
         }| Error::read(&doing, &path, error, &next),
    );
    if let Err(failed) = &answer
        && gate::interrupt::asked().is_some()
        && speaks
    {
        out.failed(failed); // the signal ends this process before anybody else could say it
    }
    drop(held);
    if !speaks {
        return Ok(0); // rank 0 says also what went wrong elsewhere
    }
    let answer = answer?;
    said?;
    let shown = shown(&question, &answer);
    if let (Some(dir), Some(test)) = (args.plot.as_deref(), &shown.test) {
        figures(test)
            .iter()
            .try_for_each(|(name, figure)| keep_figure(dir, name, figure))?;
    }
    if out.json {
        out.envelope(SCHEMA, &shown, &answer.warnings)?;
    } else if out.verbose || goes_beyond(args) || team.size() > 1 {
        out.data(shown.to_text(out.table_style()).as_bytes())?;
    }
    out.warn(&answer.warnings);
    Ok(answer.warnings.len())
}

/// Those that this process works with: the ranks of an MPI job, where a launcher has started it as
/// one.
#[cfg(feature = "mpi")]
fn team(_: &Out) -> Result<Box<dyn Team>, Error> {
    if launched().is_none() {
        return Ok(Box::new(Alone));
    }
    match pathwalk::mpi::Ranks::join() {
        Some(ranks) => Ok(Box::new(ranks)),
        None => Err(Error::new(
            "cannot join the MPI job: it has been begun before in this process".to_owned(),
        )),
    }
}

#[cfg(not(feature = "mpi"))]
fn team(out: &Out) -> Result<Box<dyn Team>, Error> {
    if launched() == Some(0) {
        out.note("each process searches for itself: this fathom was built without MPI (cargo build --features mpi)");
    }
    Ok(Box::new(Alone))
}

fn question(args: &Args) -> Result<Question, Error> {
    let root = args.root.as_bytes().to_vec();
    let shape = Shape {
        length: args.length,
        files: args.files,
    };
    if shape.objects().is_none() {
        let error = format!(
            "{} directories of {} files are more than can be counted",
            shape.length, shape.files
        );
        return Err(Error::read(
            "cannot work on",
            &root,
            error,
            "give fewer with -l and -f",
        ));
    }
    let method = match args.method {
        Lookup::Stat => Method::Stat,
        Lookup::Statx => Method::Statx,
        Lookup::Access => Method::Access,
        Lookup::Open => Method::Open,
        Lookup::Dirfd => Method::Dirfd,
    };
    let test = args.test.then(|| Test {
        fail: args.failsearch,
        prime: args.primecache,
        method,
        threads: args.threads.into(),
        passes: args.repeat,
        latency: args.latency || args.plot.is_some(),
        cold: args.cold.map(cold),
    });
    Ok(Question {
        root,
        shape,
        create: args.create,
        test,
        remove: args.remove,
    })
}

fn cold(what: Forget) -> Cold {
    if what == Forget::Host {
        return Cold::Host;
    }
    let table = Table::read(Door::Mountinfo)
        .map(|table| table.mounts)
        .unwrap_or_default();
    match probe::cgroup::Group::own(&table) {
        Some(group) => {
            let (file, value) = group.forgets();
            Cold::Group(file, value)
        }
        None => Cold::NoGroup,
    }
}

/// Whether anything was asked for that LLNL's program does not have.
fn goes_beyond(args: &Args) -> bool {
    let Args {
        threads,
        method,
        repeat,
        cold,
        latency,
        plot,
        ..
    } = args;
    *threads > 1
        || *method != Lookup::Stat
        || *repeat > 1
        || cold.is_some()
        || *latency
        || plot.is_some()
}

/// The line of LLNL's program.
fn line(event: Event<'_>, shape: Shape, objects: u64) -> String {
    match event {
        Event::Created(took) => created_line(objects, took),
        Event::Searched(pass, _) => found_line(
            pass.found,
            pass.files,
            shape.length,
            Duration::from_nanos(pass.nanos),
        ),
        Event::Removed(removed) => removed_line(removed.objects, removed.elapsed),
    }
}

fn shown<'a>(question: &'a Question, answer: &Answer) -> Pathwalk<'a> {
    let Shape { length, files } = question.shape;
    let created = answer.created.map(|took| Created {
        objects: question.shape.objects().unwrap_or(u64::MAX),
        seconds: took.as_secs_f64(),
    });
    let removed = answer.removed.map(|removed| Removed {
        objects: removed.objects,
        left: removed.left,
        seconds: removed.elapsed.as_secs_f64(),
    });
    let test = question
        .test
        .as_ref()
        .zip(answer.tested.as_ref())
        .map(|(test, tested)| Shown {
            method: match test.method {
                Method::Stat => "stat",
                Method::Statx => "statx",
                Method::Access => "access",
                Method::Open => "open",
                Method::Dirfd => "dirfd",
            },
            threads: test.threads,
            fails: test.fail,
            forgot: tested.forgot.map(|forgot| Forgot {
                what: forgot.what,
                kept: forgot.kept,
            }),
            primed: tested.primed.as_ref().map(pass),
            passes: tested.passes.iter().map(pass).collect(),
        });
    Pathwalk {
        root: &question.root,
        directories: length,
        files,
        created,
        test,
        removed,
    }
}

fn pass(pass: &pathwalk::Pass) -> Pass {
    let latency = pass.latency.as_ref().map(|[hits, misses]| {
        let mut all = hits.clone();
        all.add(misses);
        [&all, hits, misses].map(latency)
    });
    let rank = |share: &pathwalk::Share| Rank {
        found: share.found,
        lookups: share.lookups,
        seconds: seconds(share.nanos),
    };
    Pass {
        files: pass.files,
        found: pass.found,
        lookups: pass.lookups,
        misses: pass.misses(),
        failed: pass.failed,
        seconds: seconds(pass.nanos),
        latency,
        ranks: pass.ranks.iter().map(rank).collect(),
    }
}

fn latency(of: &Histogram) -> Latency {
    let bucket = |(from, to, calls)| Bucket { from, to, calls };
    Latency {
        calls: of.calls(),
        min: of.min(),
        mean: of.mean(),
        p50: of.percentile(0.5),
        p90: of.percentile(0.9),
        p99: of.percentile(0.99),
        p999: of.percentile(0.999),
        max: of.max(),
        histogram: of.buckets().map(bucket).collect(),
    }
}
