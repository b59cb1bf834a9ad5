//! `fathom dump --restic`: writes a snapshot into a restic repository.

use super::args::Dump as Args;
use crate::error::Error;

#[cfg(not(feature = "restic"))]
pub(super) fn run(_: &Args, _: &[u8], _: &crate::out::Out) -> crate::error::Outcome {
    Err(
        Error::new("cannot make snapshots: fathom was built without support for restic")
            .with_hint("build it with cargo build --release --features restic"),
    )
}

#[cfg(feature = "restic")]
pub(super) use with_restic::run;

#[cfg(feature = "restic")]
mod with_restic {
    use std::os::unix::ffi::OsStrExt;
    use std::sync::Arc;
    use std::time::Instant;

    use archive::WarningKind;
    use archive::dump::Progress;
    use archive::gather::gather;
    use archive::increment::unread::UnreadEntries;
    use archive::snapshot::{SnapshotCatalog, TreeState};
    use base::Warning;
    use catalog::since::GoneMount;
    use restic::{DeviceIds, Repository, SnapshotOptions};
    use show::name::printable;
    use walk::{Diagnostics, Moment};

    use super::super::environment::{repository_options, snapshot_host};
    use super::super::options::{dump_options, find_silent_mounts, take_absent};
    use super::super::show::snapshot::{SnapshotReport, note_repository, summary};
    use super::{Args, Error};
    use crate::error::Outcome;
    use crate::monitor::add_complete_snapshot;
    use crate::out::Out;
    use crate::progress::watch_dump;
    use crate::ranks::may_be_several;

    const SCHEMA: &str = "fathom.snapshot/1";

    pub(in crate::cmd::dump) fn run(args: &Args, repository: &[u8], out: &Out) -> Outcome {
        let (start, begun) = (Instant::now(), Moment::now().time());
        let shown = restic::without_password(repository);
        if may_be_several() {
            return Err(
                Error::new("the ranks of an MPI job cannot share a snapshot").with_hint(
                    "run fathom dump --restic without mpirun, or with env -u PMIX_RANK -u PMI_RANK",
                ),
            );
        }
        let (mut options, _) = dump_options(args)?;
        args.excludes.globs.note_unmatched(&options.sources, out);
        find_silent_mounts(args, &mut options)?;
        options.sources = restic::distinct_sources(options.sources);
        let absent = take_absent(&mut options.sources);
        let failed = |e| Error::snapshot(&shown, &e);
        if let Some(host) = restic::host_of_plain_password(repository) {
            out.note(format_args!(
                "the password of the URL is sent to '{}' without encryption: use rest:https://",
                printable(&host)
            ));
        }
        gate::process::hide_memory();
        let repository_options = repository_options(args)?;
        // Open the repository first, so that a wrong password is noticed before hours of reading.
        let opened = Repository::open(repository, &repository_options).map_err(failed)?;
        opened.check_sources(&options.sources).map_err(failed)?;
        let (diagnostics, progress) = (Diagnostics::default(), Arc::new(Progress::default()));
        let about = SnapshotOptions {
            tags: args.tag.clone(),
            host: snapshot_host(args),
            program: format!("fathom {}", env!("CARGO_PKG_VERSION")),
            threads: options.threads,
        };
        let catalog = args.state.as_ref().map(|state| {
            let name = opened
                .catalog_name(&options.sources, &about)
                .map_err(failed)?;
            let (state, name) = (state.as_bytes(), name.as_bytes());
            let has_devices = repository_options.device_ids == DeviceIds::All;
            Ok::<_, Error>(SnapshotCatalog::open(state, name, &options, has_devices)?)
        });
        let catalog = catalog.transpose()?;
        // The snapshot exists even if its catalog cannot be written.
        let (mut missed, mut unkept) = (Vec::new(), None);
        let made = watch_dump(out.messages(), &diagnostics, &progress, || {
            let Some(catalog) = &catalog else {
                let (rows, parts) = gather(&options.collect_options(None), &diagnostics)?;
                let snapshot = opened.back_up(Arc::new(rows), None, &about, progress.clone());
                return Ok::<_, Error>((snapshot.map_err(failed)?, parts));
            };
            let last = catalog.snapshot();
            let kept = last.map(|last| opened.find_last(last, &options.sources, &about));
            let kept = kept.transpose().map_err(failed)?.flatten();
            match catalog.collect(kept, &diagnostics)? {
                TreeState::Unchanged {
                    kept,
                    parts,
                    renewed,
                } => {
                    let snapshot = opened.keep(kept, &about).map_err(failed)?;
                    if !args.dry_run {
                        unkept = catalog.renew(&renewed, &snapshot.record).err();
                    }
                    missed = catalog.gone_mounts().to_vec();
                    Ok((snapshot, parts))
                }
                TreeState::Collected {
                    rows,
                    parts,
                    last,
                    gone,
                } => {
                    let draft = (!args.dry_run).then(|| catalog.draft()).transpose()?;
                    let (tree, last) = (rows.clone(), last.as_ref());
                    let snapshot = opened.back_up(tree, last, &about, progress.clone());
                    let snapshot = snapshot.map_err(failed)?;
                    let is_complete = snapshot.is_complete && !diagnostics.has_warnings();
                    missed.clone_from(&gone);
                    if let Some(draft) = draft {
                        let record = snapshot.record.clone();
                        let replaced = catalog.replace(draft, (&rows, gone), record, is_complete);
                        unkept = replaced.err();
                    }
                    Ok((snapshot, parts))
                }
            }
        })?;
        let (snapshot, parts) = made;
        if let Some(error) = &snapshot.left_lock {
            out.note(format!(
                "{}: restic unlock removes this lock in half an hour; until then, restic prune and forget wait for it",
                printable(error.to_string().as_bytes())
            ));
        }
        if let Some(errno) = snapshot.cache_failed {
            let dir = repository_options.caches.unwrap_or_default();
            out.note(format!(
                "the cache '{}' cannot be written: {errno}",
                printable(&dir)
            ));
        }
        let mut warnings = diagnostics.take_warnings();
        warnings.extend(snapshot.warnings.iter().cloned());
        warnings.extend(missed.iter().map(GoneMount::warning));
        warnings.extend(unkept.map(|error| {
            let kind = WarningKind::SnapshotCatalogNotKept(error.kind);
            Warning::about(&error.path, kind)
        }));
        let is_whole = absent.is_empty() && !args.dry_run;
        warnings.extend(absent);
        if is_whole && UnreadEntries::from_warnings(&warnings).is_empty() {
            add_complete_snapshot(begun, &out.facts);
        }
        let report = SnapshotReport {
            repository: &shown,
            method: parts.first(),
            snapshot: &snapshot,
            is_dry: args.dry_run,
            seconds: start.elapsed().as_secs_f64(),
        };
        if snapshot.skips_repository {
            out.note(note_repository(&shown));
        }
        out.report(SCHEMA, &report, &warnings, || {
            out.note(summary(&report));
            Ok(())
        })
    }
}
