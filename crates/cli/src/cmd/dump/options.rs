//! Converts the flags of `fathom dump` to the options of the library.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use archive::WarningKind;
use archive::dump::DumpOptions;
use archive::increment::levels::Level;
use base::Warning;
use catalog::Options;
use gate::Errno;
use gate::fs::StatxMask;
use gate::long::lstat_long;
use mounts::listed::is_gone;
use walk::ReachableMounts;
use walk::entry::relative;

use crate::args::values::bytes;
use crate::cmd::dump::args::Dump as Args;
use crate::cmd::selection::read_list;
use crate::error::Error;

pub(super) const SCHEMA: &str = "fathom.dump/1";

/// Converts the flags to the options of the dump. Also returns the file of `--map`, if any.
pub(super) fn dump_options(args: &Args) -> Result<(DumpOptions, Option<Vec<u8>>), Error> {
    refuse_shard(args)?;
    let name = |name: &Option<OsString>| name.as_ref().map(|name| name.as_bytes().to_vec());
    let map = name(&args.map).filter(|_| !args.no_map);
    let level = args.level.zip(name(&args.state));
    let (sources, listed) = match args.files_from.is_empty() {
        true => (bytes(&args.sources), None),
        false => {
            let (source, listed) = read_list(&args.files_from, args.null, &args.sources)?;
            (vec![source], listed.map(Arc::new))
        }
    };
    let excludes = args.excludes.read(&sources)?;
    let options = DumpOptions {
        sources,
        archive: name(&args.output).filter(|_| !args.no_output),
        compress: args.compress.unwrap_or_default(),
        since: name(&args.since),
        catalog: name(&args.catalog),
        level: level.map(|(number, state)| Level { number, state }),
        automatic: None,
        gather: args.gather,
        threads: if args.account { Some(1) } else { args.jobs },
        selection: Options {
            one_file_system: args.one_file_system,
            files_from: listed.is_some(),
            ..excludes
        },
        own: map.iter().cloned().collect(),
        listed,
        around: None,
    };
    Ok((options, map))
}

/// Finds mounts that do not answer, by child processes. Must be called before the first thread
/// starts.
pub(super) fn find_silent_mounts(args: &Args, options: &mut DumpOptions) -> Result<(), Error> {
    let deadline = args.deadline.get();
    let Options {
        one_file_system, ..
    } = options.selection;
    let filter = options.selection.filter();
    let around = ReachableMounts::find(&options.sources, one_file_system, &filter, deadline)?;
    let around = match (&options.listed, &options.sources[..]) {
        (Some(listed), [source]) => around.retain_silent(|path| listed.has(relative(source, path))),
        _ => around,
    };
    options.around = Some(Arc::new(around));
    Ok(())
}

/// Removes SRCs that do not exist and returns a warning for each, like restic. If no SRC exists, all
/// are kept, so that the dump fails.
pub(super) fn take_absent(sources: &mut Vec<Vec<u8>>) -> Vec<Warning> {
    let is_absent = |path: &[u8]| lstat_long(path, StatxMask::TYPE).is_err_and(is_gone);
    let (absent, present): (Vec<_>, Vec<_>) =
        sources.iter().cloned().partition(|path| is_absent(path));
    if present.is_empty() {
        return Vec::new();
    }
    *sources = present;
    let warning = |path: &Vec<u8>| Warning::about(path, WarningKind::DoesNotExist);
    absent.iter().map(warning).collect()
}

/// Removes SRCs that do not exist from a dump without catalogs, and returns a warning for each.
///
/// # Errors
/// A dump with a catalog lacks a SRC: increments based on the catalog would remove its files, or be
/// refused.
pub(super) fn skip_absent(options: &mut DumpOptions, args: &Args) -> Result<Vec<Warning>, Error> {
    let absent = take_absent(&mut options.sources);
    let has_catalog = options.since.is_some() || options.catalog.is_some() || args.state.is_some();
    match absent.first().and_then(|warning| warning.path.as_deref()) {
        Some(path) if has_catalog => {
            let hint = "with --state, --since or --catalog every SRC must exist, because an \
                        increment cannot record that a SRC is missing: omit it, or dump it separately";
            Err(Error::read("cannot dump", path, Errno::ENOENT, hint))
        }
        _ => Ok(absent),
    }
}

/// Refuses `--shard`, by which fathom walk divides a tree. A renamed entry can belong to a
/// different shard in the next dump, so that no archive contains the entry, or two archives do.
fn refuse_shard(args: &Args) -> Result<(), Error> {
    if args.shard.is_none() {
        return Ok(());
    }
    let message = "--shard cannot be used with dump, because hard links may lead to other shards";
    Err(Error::new(message).with_hint("use mpirun, or dump the directories one by one"))
}
