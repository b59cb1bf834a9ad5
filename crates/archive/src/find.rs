//! Finds files in all dumps of a state directory, reading only the catalogs kept beside the
//! archives.

use std::collections::HashMap;

use base::Warning;
use catalog::Reader;
use catalog::columns::{DIR, MODE, MTIME, NAME, SIZE, TOP};
use catalog::since::index::each_group;
use walk::entry::{Time, joined};
use walk::predicate::glob::Glob;

use crate::error::Result;
use crate::increment::history::History;
use crate::increment::record::ArchiveStatus;
use crate::list::MemberSelection;
use crate::plan::in_archive;
use crate::warning::WarningKind;

/// One version of a file, contained in one or more dumps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileVersion {
    /// Absolute path on the dumped machine, or the member name if that is unknown.
    pub path: Vec<u8>,
    /// File type and permissions, as in `st_mode`.
    pub mode: u32,
    /// Size in bytes.
    pub size: u64,
    /// Modification time.
    pub mtime: Time,
    /// Indexes, in the history, of the dumps with this version, ascending.
    pub dumps: Vec<usize>,
}

/// The files found in the dumps of a state directory.
#[derive(Debug, Default)]
pub struct FoundFiles {
    /// File versions by path, newest version first.
    pub versions: Vec<FileVersion>,
    /// Warnings about dumps without a catalog, and PATHs that no dump contains.
    pub warnings: Vec<Warning>,
}

/// The fields that distinguish versions of a file.
type Version = (Vec<u8>, u32, u64, Time);

/// Finds files by PATHs, which may have wildcards.
/// [`DumpRecord::member_names`](crate::increment::record::DumpRecord::member_names) converts a PATH
/// to member names. A PATH without a slash is also the name of a file in any directory.
///
/// # Errors
/// A PATH is outside of the dumped trees, or a catalog cannot be read. A damaged catalog gives a
/// warning.
pub fn find(history: &History, paths: &[Vec<u8>]) -> Result<FoundFiles> {
    let mut versions: HashMap<Version, Vec<usize>> = HashMap::new();
    let (mut warnings, mut is_found) = (Vec::new(), vec![false; paths.len()]);
    let mut without_catalog: Vec<&[u8]> = Vec::new();
    for (at, dump) in history.dumps().iter().enumerate() {
        if dump.status() == ArchiveStatus::Missing {
            continue;
        }
        let Some((catalog, reader)) = dump.open_catalog(history.state()) else {
            without_catalog.push(dump.archive.as_deref().unwrap_or(b"-"));
            continue;
        };
        for (path, is_found) in paths.iter().zip(&mut is_found) {
            let names = dump.member_names(path)?;
            let file_name = (!path.contains(&b'/')).then(|| Glob::new(path, false));
            let found = match find_in(&reader, &names, file_name.as_ref()) {
                Err(error) if error.kind.is_unusable_catalog() => {
                    let kind = WarningKind::Damaged(error.kind);
                    warnings.push(Warning::about(&catalog, kind));
                    break;
                }
                found => found?,
            };
            for version in found {
                *is_found = true;
                let dumps = versions.entry(version).or_default();
                if dumps.last() != Some(&at) {
                    dumps.push(at);
                }
            }
        }
    }
    let unmet = paths.iter().zip(is_found).filter(|(_, is_found)| !is_found);
    let is_everything_read = warnings.is_empty() && without_catalog.is_empty();
    warnings.extend(match without_catalog[..] {
        [] => None,
        [archive] => Some(Warning::about(archive, WarningKind::NoCatalog)),
        [..] => {
            let (dumps, all) = (without_catalog.len(), history.dumps().len());
            Some(Warning::general(WarningKind::NoCatalogs { dumps, all }))
        }
    });
    let reason = match is_everything_read {
        true => WarningKind::InNoDump,
        false => WarningKind::InNoCatalog,
    };
    warnings.extend(unmet.map(|(path, _)| Warning::about(path, reason.clone())));
    let version = |((path, mode, size, mtime), dumps)| FileVersion {
        path,
        mode,
        size,
        mtime,
        dumps,
    };
    let mut versions: Vec<FileVersion> = versions.into_iter().map(version).collect();
    versions.sort_by(|a, b| (&a.path, b.dumps.last()).cmp(&(&b.path, a.dumps.last())));
    Ok(FoundFiles { versions, warnings })
}

/// The entries of a catalog with a matching member name or file name.
fn find_in(reader: &Reader, names: &[Vec<u8>], file_name: Option<&Glob>) -> Result<Vec<Version>> {
    let roots = &reader.about().roots;
    let prefixes: Vec<&[u8]> = roots.iter().map(|root| in_archive(&root.path)).collect();
    let wanted = MemberSelection::new(names);
    let read = |group: usize| {
        let (dirs, files) = (reader.read(DIR, group)?, reader.read(NAME, group)?);
        let tops = reader.read(TOP, group)?;
        let mut here = Vec::new();
        for row in 0..reader.rows(group) {
            let (top, below) = (tops[row] as usize, joined(&dirs[row], &files[row]));
            let name = joined(prefixes.get(top).copied().unwrap_or_default(), &below);
            let is_named = file_name.is_some_and(|glob| glob.is_match(&files[row]));
            if is_named || wanted.includes(&name) {
                let place = roots.get(top).and_then(|root| root.absolute.as_ref());
                here.push((row, place.map_or(name, |place| joined(place, &below))));
            }
        }
        if here.is_empty() {
            return Ok(Vec::new());
        }
        let (modes, sizes) = (reader.read(MODE, group)?, reader.read(SIZE, group)?);
        let times = reader.read(MTIME, group)?;
        let version = |(row, path): (usize, Vec<u8>)| (path, modes[row], sizes[row], times.at(row));
        Ok(here.into_iter().map(version).collect())
    };
    let mut found = Vec::new();
    each_group(reader, read, |_, mut here: Vec<Version>| {
        found.append(&mut here)
    })?;
    Ok(found)
}
