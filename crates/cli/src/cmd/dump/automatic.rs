//! `fathom dump SRC --state DIR`: the choice of a dump's name and level from the state directory,
//! and the removal of dumps that are no longer needed.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use archive::compression::{Compress, Compression};
use archive::dump::DumpOptions;
use archive::increment::automatic::{Automatic, AutomaticOptions, FullReason, create_state};
use archive::increment::history::History;
use archive::increment::record::ArchiveStatus;
use archive::increment::retention::{NextDump, Policy, RetainedDumps, not_pruned};
use base::Warning;
use walk::Moment;

use super::show::retention::KeptDump;
use super::show::{self, PruneResult};
use crate::cmd::dump::args::Dump as Args;
use crate::cmd::levels::Dump as LevelDump;
use crate::date::Zone;
use crate::error::Error;
use crate::out::Out;

/// Default of `--full-every`: one of N consecutive dumps is full.
const FULL_EVERY: u32 = 7;

/// The state directory, if fathom chooses the name and level of the dump; `None` if an option such
/// as `-o` or `--level` gives them.
fn state(args: &Args) -> Option<&[u8]> {
    let is_chosen =
        args.output.is_some() || args.level.is_some() || args.prune || args.restic.is_some();
    args.state
        .as_deref()
        .filter(|_| !is_chosen)
        .map(OsStrExt::as_bytes)
}

/// Refuses combinations of options that have no meaning.
pub(super) fn check(args: &Args) -> Result<(), Error> {
    let refuse = |message: &str, hint: &str| Err(Error::new(message).with_hint(hint));
    if args.level.is_some() && args.output.is_none() && !args.dry_run {
        return refuse(
            "--level requires -o",
            "omit both, and fathom chooses the name and the level",
        );
    }
    let is_plain = !args.prune && args.restic.is_none() && !args.dry_run;
    if args.state.is_some() && args.output.is_some() && args.level.is_none() && is_plain {
        return refuse(
            "--state with -o requires --level",
            "omit -o, and fathom chooses the name and the level",
        );
    }
    let keeps = args.keep.policy().is_some();
    if args.restic.is_some() && keeps {
        return refuse(
            "--keep-daily and the like cannot be used with --restic",
            "restic forget removes snapshots by such a policy",
        );
    }
    if args.restic.is_some() && args.full_every.is_some() {
        return refuse(
            "--full-every cannot be used with --restic",
            "omit it: every snapshot is complete",
        );
    }
    if keeps && args.state.is_none() {
        return refuse("missing: --state DIR", "see fathom dump -h");
    }
    if args.prune && !keeps && args.keep_full.is_none() {
        return refuse(
            "--prune requires --keep-full, or --keep-daily and the like",
            "see fathom dump -h",
        );
    }
    if state(args).is_none() {
        return match (args.full_every, keeps && !args.prune) {
            (None, false) => Ok(()),
            (Some(_), _) => refuse(
                "--full-every cannot be used with -o or --level",
                "omit these",
            ),
            (None, true) => refuse(
                "--keep-daily and the like cannot be used with -o or --level",
                "omit these, or give --prune",
            ),
        };
    }
    let conflicts = [
        (args.since.is_some(), "--since"),
        (args.catalog.is_some(), "--catalog"),
        (args.no_output, "--no-output"),
        (args.explain, "--explain"),
        (args.resume, "--resume"),
    ];
    if let Some((_, option)) = conflicts.iter().find(|(is_given, _)| *is_given) {
        return refuse(
            &format!("{option} cannot be used with --state without -o and --level"),
            "see fathom dump -h",
        );
    }
    Ok(())
}

/// The file name suffix of an archive with this compression.
pub(super) fn suffix(compress: Compress) -> &'static str {
    match compress {
        Compress::No => ".tar",
        Compress::With(Compression::Gzip, _) => ".tar.gz",
        Compress::With(Compression::Xz, _) => ".tar.xz",
        Compress::BySuffix | Compress::With(..) => ".tar.zst",
    }
}

fn dumps_in<'a>(state: &'a [u8], args: &Args, sources: &'a [Vec<u8>]) -> AutomaticOptions<'a> {
    AutomaticOptions {
        state,
        sources,
        full_every: args.full_every.unwrap_or(FULL_EVERY),
        suffix: suffix(args.compress.unwrap_or_default()),
    }
}

/// Makes the chosen name and level those of the dump.
fn take(chosen: Automatic, options: &mut DumpOptions) {
    options.archive = Some(chosen.archive.clone());
    options.level = Some(chosen.level.clone());
    options.automatic = Some(Arc::new(chosen));
}

/// If no option gives the name and level of the dump, chooses both from the state directory. Creates
/// a missing state directory, also with `--level`.
pub(super) fn choose(args: &Args, options: &mut DumpOptions, out: &Out) -> Result<(), Error> {
    let Some(state) = state(args) else {
        if let Some(level) = &options.level
            && create_state(&level.state)?
        {
            out.note(show::created(&level.state));
        }
        return Ok(());
    };
    let chosen = dumps_in(state, args, &options.sources).choose()?;
    if chosen.is_created {
        out.note(show::created(state));
    }
    // Users expect a full dump that is the first or is due by `--full-every`, so print no note.
    let is_news = !matches!(
        chosen.full,
        None | Some(FullReason::First | FullReason::Due { .. })
    );
    if is_news || out.verbose {
        out.note(show::retention::choice(&chosen));
    }
    take(chosen, options);
    Ok(())
}

/// If a dump failed because its base catalog is damaged or is of another SRC, changes the options to
/// a full dump and returns true: the caller then tries again.
pub(super) fn retry_in_full(
    error: &archive::Error,
    args: &Args,
    options: &mut DumpOptions,
    out: &Out,
) -> Result<bool, Error> {
    let is_increment = options.level.as_ref().is_some_and(|level| level.number > 0);
    let (Some(state), Some(why), true) = (
        state(args),
        FullReason::from_error(&error.kind),
        is_increment,
    ) else {
        return Ok(false);
    };
    let Some(chosen) = options.automatic.take().and_then(Arc::into_inner) else {
        return Ok(false);
    };
    let chosen = dumps_in(state, args, &options.sources).choose_full_instead(chosen, why)?;
    out.note(show::retention::choice(&chosen));
    take(chosen, options);
    Ok(true)
}

/// What `--dry-run` predicts about levels and retention.
pub(super) struct DryRunForecast {
    /// Whether the state directory has catalogs on which an increment can be based.
    pub(super) has_levels: bool,
    /// Whether the last dump was made without `-o` and `--level`. Such dumps have levels 0 and 1
    /// only.
    pub(super) is_nightly: bool,
    /// The dumps that the retention policy would remove, and those that it would keep.
    pub(super) pruning: Option<PruningPlan>,
}

/// Predicts name and level of the next dump, and which dumps the retention policy would keep.
pub(super) fn forecast(
    args: &Args,
    options: &DumpOptions,
    out: &Out,
) -> Result<DryRunForecast, Error> {
    let Some(state) = state(args) else {
        return Ok(DryRunForecast {
            has_levels: true,
            is_nightly: false,
            pruning: None,
        });
    };
    let chosen = dumps_in(state, args, &options.sources).predict_next()?;
    out.note(show::foreseen(&chosen));
    let history = History::read(state).unwrap_or_default();
    let is_nightly = history.dumps().last().is_some_and(|dump| dump.is_named);
    let pruning = args.keep.policy().map(|policy| {
        let next = NextDump {
            date: Moment::now().time(),
            is_full: chosen.full.is_some(),
        };
        PruningPlan::keep(history, &policy, Some(next))
    });
    let unusable = matches!(
        chosen.full,
        Some(FullReason::First | FullReason::OtherSources { .. } | FullReason::DamagedCatalog)
    );
    Ok(DryRunForecast {
        has_levels: !unusable,
        is_nightly,
        pruning,
    })
}

/// After a dump, removes the dumps that the retention policy does not keep. A failure becomes a
/// warning.
pub(super) fn prune(
    args: &Args,
    options: &DumpOptions,
    warnings: &mut Vec<Warning>,
) -> Option<PruningPlan> {
    let automatic = options.automatic.as_ref()?;
    let policy = args.keep.policy()?;
    let history = History::read(&automatic.level.state);
    let pruned =
        history.and_then(|history| PruningPlan::keep(history, &policy, None).remove(warnings));
    pruned
        .map_err(|error| warnings.push(not_pruned(error)))
        .ok()
}

/// The dumps to remove from a state directory, and those to keep.
pub(super) struct PruningPlan {
    /// All dumps before the removal.
    history: History,
    /// Whether the archive of each dump existed before the removal.
    statuses: Vec<ArchiveStatus>,
    removed: Vec<usize>,
    spared: usize,
    is_removed: bool,
    /// The dumps that a policy keeps; `None` with `--keep-full`.
    retained: Option<RetainedDumps>,
    is_foreseen: bool,
}

impl PruningPlan {
    /// Keeps the last `keep_full` full dumps, and all dumps that are newer or based on them.
    pub(super) fn keep_full(history: History, keep_full: usize) -> PruningPlan {
        let statuses = history.statuses();
        let unneeded = history.unneeded(keep_full, &statuses);
        PruningPlan {
            statuses,
            history,
            removed: unneeded.dumps,
            spared: unneeded.spared,
            is_removed: false,
            retained: None,
            is_foreseen: false,
        }
    }

    /// Keeps the dumps that a policy selects. If `next` is given, the policy treats this future
    /// dump as one that exists.
    pub(super) fn keep(history: History, policy: &Policy, next: Option<NextDump>) -> PruningPlan {
        let zone = Zone::local();
        let statuses = history.statuses();
        let retained = history.retain(policy, next, &|time| zone.periods(time), &statuses);
        PruningPlan {
            statuses,
            removed: retained.unneeded(),
            spared: retained.count_kept_as_needed(),
            history,
            is_removed: false,
            retained: Some(retained),
            is_foreseen: next.is_some(),
        }
    }

    /// Deletes the archives and records of the selected dumps.
    pub(super) fn remove(mut self, warnings: &mut Vec<Warning>) -> archive::Result<PruningPlan> {
        let mut changed = self.history.clone();
        changed.finish_removal()?;
        let (removed, found) = changed.remove(&self.removed)?;
        warnings.extend(found);
        (self.removed, self.is_removed) = (removed, true);
        Ok(self)
    }

    /// The kept and the removed dumps, for printing.
    pub(super) fn report(&self) -> PruneResult<'_> {
        let dump = |at: usize| LevelDump::with_status(&self.history, at, self.statuses[at]);
        let kept_dumps = self.retained.as_ref().map(|retained| {
            let all = retained.reasons.iter().enumerate();
            let kept = all.filter(|(at, _)| !self.removed.contains(at));
            kept.map(|(at, reasons)| KeptDump {
                dump: dump(at),
                reasons,
            })
            .collect()
        });
        PruneResult {
            kept: self.history.dumps().len() - self.removed.len(),
            spared: self.spared,
            dumps: self.removed.iter().map(|&at| dump(at)).collect(),
            is_removed: self.is_removed,
            kept_dumps,
            is_foreseen: self.is_foreseen,
        }
    }
}
