//! `fathom dump --restic`: a snapshot in a restic repository.

use super::args::Dump as Args;
use crate::error::Error;

#[cfg(not(feature = "restic"))]
pub(super) fn run(_: &Args, _: &[u8], _: &crate::out::Out) -> crate::error::Outcome {
    Err(
        Error::new("cannot make snapshots: fathom was built without support for restic")
            .and("build it with cargo build --release --features restic"),
    )
}

#[cfg(feature = "restic")]
pub(super) use with_restic::run;

#[cfg(feature = "restic")]
mod with_restic {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::sync::Arc;
    use std::time::Instant;

    use archive::dump::Progress;
    use archive::gather::gather;
    use archive::snapshot::{SnapshotCatalog, TreeState};
    use gate::Errno;
    use gate::file::Reader;
    use restic::{Repository, SnapshotOptions};
    use show::name::printable;
    use walk::Diagnostics;
    use walk::entry::joined;

    use super::super::options::dump_options;
    use super::super::show::snapshot::{Report, note_repository, summary};
    use super::{Args, Error};
    use crate::error::Outcome;
    use crate::out::Out;
    use crate::progress::watch_dump;
    use crate::ranks::host;

    const SCHEMA: &str = "fathom.snapshot/1";
    /// Environment variables that restic, too, looks for the password in: a file with it, and itself.
    const PASSWORD_FILE: &str = "RESTIC_PASSWORD_FILE";
    const PASSWORD: &str = "RESTIC_PASSWORD";

    pub(in crate::cmd::dump) fn run(args: &Args, repository: &[u8], out: &Out) -> Outcome {
        let start = Instant::now();
        let shown = restic::without_password(repository);
        if team::launched_rank().is_some() {
            return Err(
                Error::new("the ranks of an MPI job cannot share a snapshot")
                    .and("run fathom dump --restic without mpirun"),
            );
        }
        let (options, _) = dump_options(args)?;
        let failed = |e| Error::snapshot(&shown, &e);
        let host = host();
        // First, so that a wrong password is noticed before hours of reading.
        let caches = cache_dir(args);
        let opened = Repository::open(repository, &password(args)?, &host, caches.as_deref());
        let opened = opened.map_err(failed)?;
        let (diagnostics, progress) = (Diagnostics::default(), Arc::new(Progress::default()));
        let about = SnapshotOptions {
            tags: args.tag.clone(),
            host,
            program: format!("fathom {}", env!("CARGO_PKG_VERSION")),
        };
        let catalog = args.state.as_ref().map(|state| {
            let name = opened.catalog_name(&options.sources).map_err(failed)?;
            let path = joined(state.as_bytes(), name.as_bytes());
            Ok::<_, Error>(SnapshotCatalog::open(&path, &options)?)
        });
        let catalog = catalog.transpose()?;
        let made = watch_dump(out.messages(), &diagnostics, &progress, || {
            let Some(catalog) = &catalog else {
                let (rows, parts) = gather(&options.collect_options(None), &diagnostics)?;
                let snapshot = opened.back_up(Arc::new(rows), None, &about, progress.clone());
                return Ok::<_, Error>((snapshot.map_err(failed)?, parts));
            };
            let last = catalog.snapshot();
            let kept = last.map(|last| opened.find_kept(last, &options.sources, &about));
            let kept = kept.transpose().map_err(failed)?.flatten();
            match catalog.collect(kept, &diagnostics)? {
                TreeState::Unchanged {
                    kept,
                    parts,
                    renewed,
                } => {
                    let snapshot = opened.keep(kept, &about).map_err(failed)?;
                    catalog.renew(&renewed, &snapshot.record)?;
                    Ok((snapshot, parts))
                }
                TreeState::Collected { rows, parts, last } => {
                    let draft = catalog.draft()?;
                    let (tree, last) = (rows.clone(), last.as_ref());
                    let snapshot = opened.back_up(tree, last, &about, progress.clone());
                    let snapshot = snapshot.map_err(failed)?;
                    let is_complete = snapshot.warnings.is_empty() && !diagnostics.has_warnings();
                    catalog.replace(draft, &rows, snapshot.record.clone(), is_complete)?;
                    Ok((snapshot, parts))
                }
            }
        })?;
        let (snapshot, parts) = made;
        if let Some(errno) = snapshot.cache_failed {
            let dir = caches.unwrap_or_default();
            out.note(format!(
                "the cache '{}' cannot be written: {errno}",
                printable(&dir)
            ));
        }
        let mut warnings = diagnostics.take_warnings();
        warnings.extend(snapshot.warnings.iter().cloned());
        let report = Report {
            repository: &shown,
            method: parts.first(),
            snapshot: &snapshot,
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

    /// Where restic keeps its caches.
    fn cache_dir(args: &Args) -> Option<Vec<u8>> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let below = |name, rest: &str| {
            let mut dir = variable(name)?;
            dir.push(rest);
            Some(dir)
        };
        let dir = || {
            let own = args
                .cache_dir
                .clone()
                .or_else(|| variable("RESTIC_CACHE_DIR"));
            own.or_else(|| below("XDG_CACHE_HOME", "/restic"))
                .or_else(|| below("HOME", "/.cache/restic"))
        };
        let dir = if args.no_cache { None } else { dir() };
        Some(dir?.into_encoded_bytes())
    }

    fn password(args: &Args) -> Result<Vec<u8>, Error> {
        let variable = |name: &str| {
            std::env::var_os(name)
                .map(OsStringExt::into_vec)
                .filter(|value| !value.is_empty())
        };
        let file = args
            .password_file
            .as_ref()
            .map(|file| file.as_bytes().to_vec());
        if let Some(file) = file.or_else(|| variable(PASSWORD_FILE)) {
            return read_password(&file)
                .map_err(|e| Error::read("cannot read the password from", &file, e, ""));
        }
        variable(PASSWORD).ok_or_else(|| {
            Error::new("no password for the repository")
                .and("give --password-file FILE, or set RESTIC_PASSWORD_FILE or RESTIC_PASSWORD")
        })
    }

    /// The first line of a file; restic removes white space around it, too.
    fn read_password(file: &[u8]) -> Result<Vec<u8>, Errno> {
        const LONGEST: usize = 64 << 10;
        let mut bytes = vec![0; LONGEST];
        let len = Reader::open(file)?.read_at(0, &mut bytes)?;
        bytes.truncate(len);
        Ok(bytes.trim_ascii().to_vec())
    }
}
