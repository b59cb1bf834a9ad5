//! What walking costs, and dumping, and which calls a walk makes.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use ::mounts::compare::{Alone, NoRun, alone_within};
use account::call::{Ended, Failure};
use archive::dump::{Plan, Step as Stage};
use archive::gather::{self, Gather};
use gate::fs::{At, Want};
use gate::long::statx_long;
use report::nightly::{Expected, Nightly};
use walk::{By, Type};

use super::Ground;
use super::found::{Found, Not};
use super::mounts::TRIALS;
use super::steps::Ration;
use crate::args::Tread;
use crate::cmd::account::command;
use crate::cmd::walk::{compare, refused};
use crate::out::{Done, Failed};

/// Calls that are looked at one by one.
const ACCOUNTED_CALLS: u64 = 1 << 18;
/// Bytes of patterns in a command line.
const MOST_OF_A_LINE: usize = 64 << 10;

/// A walk by every engine, without going into other mounts.
pub(super) fn engines(ground: &Ground<'_>, found: &mut Found, ration: &Ration, _: usize) -> Result<(), Not> {
    let filter = filter(&found.answering()?.excludes)?;
    let dirs = vec![ground.dir().to_vec()];
    let question = walk::Question { dirs, one_file_system: true, filter, ..walk::Question::default() };
    let compared = compare::engines(&question, TRIALS, &ration.bounds(), ration.progress());
    let mut compared = compared.map_err(|Failed(why)| Not::wrong(why))?;
    if let Some(inodes) = inodes(ground.dir()) {
        reckon(&mut compared, inodes);
    }
    if !gate::process::is_root() && compared.warnings.iter().any(|warning| warning.message.contains("skipped")) {
        found
            .lacking
            .push("what is in directories that this user may not read is missing from walks and dumps".to_owned());
    }
    found.engines = Some(compared);
    Ok(())
}

/// How many files the file system says that it has, if it says so.
fn inodes(dir: &[u8]) -> Option<u64> {
    let statfs = probe::place::Place::unasked(dir).ok()?.statfs;
    Some(statfs.files.saturating_sub(statfs.files_free)).filter(|inodes| *inodes > 0)
}

/// Says of engines that were stopped how long they would take, if all that the file system has were in DIR.
fn reckon(compared: &mut compare::Compared, inodes: u64) {
    for (engine, after, seen) in &compared.stopped {
        let rate = *seen as f64 / after.as_secs_f64();
        // Not every inode is an entry, and some are several.
        if *seen > inodes || !rate.is_finite() || rate < 1.0 {
            continue;
        }
        let left = compared.left_out.iter_mut().find(|left| left.engine == *engine);
        let whole = inodes as f64 / rate;
        left.into_iter().for_each(|left| {
            left.why +=
                &format!(" ({rate:.0} a second); all {inodes} files of its file system would take some {whole:.0} s");
        });
    }
}

fn filter(excludes: &[String]) -> Result<walk::Filter, Not> {
    walk::Filter::new(excludes, None).map_err(|e| Not::wrong(format!("cannot keep out of network mounts: {e}")))
}

/// What a nightly dump would cost, from gathering what it would. Other mounts are left out, as in the walk.
pub(super) fn dump(ground: &Ground<'_>, found: &mut Found, ration: &Ration, _: usize) -> Result<(), Not> {
    let part = found.walked(ration)?;
    let dir = ground.dir();
    let question = gather::Question {
        sources: vec![[dir.strip_suffix(b"/").unwrap_or(dir), b"/"].concat()],
        one_file_system: true,
        excludes: found.answering()?.excludes.clone(),
        ..gather::Question::default()
    };
    let ran = alone_within(&ration.bounds(), || {
        let (rows, answer) = gather::gather(&question, &walk::Desk::default()).ok()?;
        let engine = answer.parts.first()?.engine;
        let plan = Plan::full(&rows);
        let files = (0..rows.len()).filter(|&row| rows.kind(row) == Type::File && plan.step(row) == Stage::Whole);
        let (files, bytes) = files.fold((0, 0_u64), |(n, sum), row| (n + 1, sum.saturating_add(rows.meta(row).size)));
        let engine = By::ALL.iter().position(|by| *by == engine)?;
        Some([rows.len() as u64, files, bytes, engine as u64])
    });
    let ran = ran.map_err(|e| Not::wrong(format!("cannot make a process to gather in: {e}")))?;
    let Alone { real, user, sys, tally, gave: [entries, files, bytes, engine] } = ran.map_err(|why| match why {
        NoRun::Stopped(_) => Not::late(ration.each),
        NoRun::Moved(..) => Not::chosen(why.to_string() + ", which is all that it may; --deep lets it do more"),
        NoRun::Refused => Not::wrong("gathering has failed"),
    })?;
    let engine = usize::try_from(engine).ok().and_then(|at| By::ALL.get(at));
    let engine = engine.ok_or_else(|| Not::wrong("gathering has failed"))?;
    let none = Expected { files: 0, bytes: 0, calls: 0, cpu_seconds: 0.0 };
    let nightly = Nightly {
        gather: Gather::of(*engine).name(),
        engine: engine.name(),
        why: part,
        entries,
        files,
        bytes,
        seconds: real.as_secs_f64(),
        cpu_seconds: (user + sys).as_secs_f64(),
        calls: tally.calls(),
        call_seconds: call_seconds(ground.dir()),
        first: none,
        unchanged: none,
        changed: none,
    };
    found.dump = Some(nightly.expect());
    Ok(())
}

impl Found {
    /// Why DIR is walked as it is; or that it takes too long to do so.
    fn walked(&self, ration: &Ration) -> Result<String, Not> {
        self.answering()?;
        let Some(walked) = &self.engines else { return Err(Not::chosen("walking was not done either")) };
        // Where every engine takes too long, gathering does.
        let part = walked.parts.first().filter(|_| !walked.engines.is_empty());
        part.map(|part| part.why.clone()).ok_or_else(|| Not::late(ration.each))
    }
}

/// What a call costs here: statx(2) of DIR, over and over.
fn call_seconds(dir: &[u8]) -> f64 {
    const ROUNDS: u32 = 1000;
    let before = gate::process::cpu_time();
    for _ in 0..ROUNDS {
        let _ = statx_long(dir, At::empty(), Want::BASIC_STATS);
    }
    gate::process::cpu_time().saturating_sub(before).as_secs_f64() / f64::from(ROUNDS)
}

/// Has a walk of DIR, one call after the other as find has it, accounted for by the cheapest meter that works.
pub(super) fn account(ground: &Ground<'_>, found: &mut Found, ration: &Ration, _: usize) -> Result<(), Not> {
    const SIGALRM: i32 = 14;
    found.nearby(ground)?;
    found.walked(ration)?;
    // It is the only one that nobody holds to its bytes while it runs: it is known from the walk just done that it keeps within them.
    let plain = By::Stat.name();
    if !found.engines.as_ref().is_some_and(|walked| walked.engines.iter().any(|engine| engine.engine == plain)) {
        return Err(Not::late(ration.each));
    }
    let limit = format!("{}ms", ration.each.as_millis().max(1));
    let mut words: Vec<OsString> = ["/proc/self/exe", "tread", "--limit", &limit].map(OsString::from).to_vec();
    let excludes = &found.answering()?.excludes;
    if excludes.iter().map(String::len).sum::<usize>() > MOST_OF_A_LINE {
        return Err(Not::chosen("there are too many network mounts to be kept out of"));
    }
    words.extend(excludes.iter().map(|pattern| format!("--exclude={pattern}").into()));
    words.extend([OsString::from("--"), OsStr::from_bytes(ground.dir()).to_owned()]);
    let taken = command::take(&words, "auto", ACCOUNTED_CALLS, None).map_err(|failure| match failure {
        Failure::Command(why, _) | Failure::Meter(why) => Not::chosen(why),
    })?;
    heard(taken.metered.ended);
    match taken.metered.ended {
        Ended::Exited(0) => found.account = Some(taken),
        Ended::Killed(SIGALRM) => return Err(Not::late(ration.each)),
        _ => return Err(Not::chosen("the walk was ended before it was done")),
    }
    Ok(())
}

/// While a command runs, signals are passed on to it. One that has asked it to stop has asked us.
pub(super) fn heard(ended: Ended) {
    const SIGHUP: i32 = 1;
    const SIGINT: i32 = 2;
    const SIGTERM: i32 = 15;
    if let Ended::Killed(signal @ (SIGHUP | SIGINT | SIGTERM)) = ended
        && gate::interrupt::asked().is_none()
    {
        gate::process::raise(signal);
    }
}

/// What [`account()`] has accounted for.
pub(crate) fn tread(args: &Tread) -> Done {
    gate::process::end_after(args.limit);
    let dirs = vec![args.dir.as_bytes().to_vec()];
    let filter = walk::Filter::new(&args.exclude, None).map_err(|e| Failed(format!("--exclude: {e}")))?;
    let question =
        walk::Question { dirs, by: Some(By::Stat), one_file_system: true, filter, ..walk::Question::default() };
    let summary = walk::Summary::default();
    walk::walk(&question, &summary, &walk::Desk::default()).map_err(refused)?;
    Ok(0)
}
