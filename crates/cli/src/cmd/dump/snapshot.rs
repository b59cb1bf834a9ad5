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
    use gate::fs::{Open, read};
    use gate::long::open_long;
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
                    let is_complete = snapshot.is_complete && !diagnostics.has_warnings();
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
            let read = read_password(&file);
            let password =
                read.map_err(|e| Error::read("cannot read the password from", &file, e, ""))?;
            return match password.is_empty() {
                true => Err(Error::new(format!("no password in '{}'", printable(&file)))
                    .and("give a file with the password of the repository")),
                false => Ok(password),
            };
        }
        variable(PASSWORD).ok_or_else(|| {
            Error::new("no password for the repository")
                .and("give --password-file FILE, or set RESTIC_PASSWORD_FILE or RESTIC_PASSWORD")
        })
    }

    /// The contents of a file, which may be a pipe.
    fn read_password(file: &[u8]) -> Result<Vec<u8>, Errno> {
        const LONGEST: usize = 64 << 10;
        let fd = open_long(file, Open::empty())?;
        let (mut bytes, mut have) = (vec![0; LONGEST], 0);
        while have < LONGEST {
            match read(&fd, &mut bytes[have..]) {
                Ok(0) => break,
                Ok(n) => have += n,
                Err(Errno::EINTR) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(password_in(&bytes[..have]))
    }

    /// The password in a file. As restic does: a byte order mark gives the encoding, and white space around the password
    /// does not count.
    fn password_in(bytes: &[u8]) -> Vec<u8> {
        let utf16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
            let (units, _) = bytes.as_chunks();
            let units: Vec<u16> = units.iter().map(|&pair| unit(pair)).collect();
            String::from_utf16_lossy(&units).into_bytes()
        };
        let bytes = match bytes {
            [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
            [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
            [0xef, 0xbb, 0xbf, rest @ ..] => rest.to_vec(),
            _ => bytes.to_vec(),
        };
        match std::str::from_utf8(&bytes) {
            Ok(text) => text.trim().into(),
            Err(_) => bytes,
        }
    }

    #[cfg(test)]
    mod tests {
        use super::password_in;

        #[test]
        fn passwords_are_those_that_restic_reads() {
            let files: [(&[u8], &str); 7] = [
                (b"", ""),
                (b" a b\n", "a b"),
                (b"\r\na\r\n", "a"),
                (b"a\nb\n", "a\nb"),
                (b"\xef\xbb\xbfa\r\n", "a"),
                (b"\xff\xfea\0\xe4\0\n\0", "a\u{e4}"),
                (b"\xfe\xff\0a\0\xe4\0\n", "a\u{e4}"),
            ];
            for (file, password) in files {
                assert_eq!(password_in(file), password.as_bytes(), "{file:?}");
            }
            assert_eq!(password_in(b"\xe4\n"), b"\xe4\n");
        }
    }
}
