//! Checks all dumps of a state directory: every archive, every chain, and the newest dump against a
//! tree.

use base::Warning;
use base::path::{or_dot, trim_slashes};
use catalog::RowColumns;
use catalog::columns::{DIR, NAME, TOP};
use gate::Errno;
use gate::fs::StatxMask;
use gate::long::stat_long;
use ondisk::pax::{Base, Member};
use walk::entry::joined;
use walk::{Fields, Meta};

use super::known::ArchivedFiles;
use super::lost::name_lost;
use super::{MISSING_AT_FIRST, Tree, VerifyReport, verify};
use crate::dump::member::member_kind;
use crate::error::{Action, Error, ErrorKind, Result};
use crate::increment::history::History;
use crate::increment::record::ArchiveStatus;
use crate::input::Input;
use crate::list::{MemberSelection, unreadable};
use crate::plan::in_archive;
use crate::warning::WarningKind;

/// The result of checking one dump.
#[derive(Debug, Default)]
pub struct CheckedDump {
    /// The result of verifying the dump's archive, if that is readable.
    pub archive: Option<VerifyReport>,
    /// Whether all archives needed for the dump exist, are the recorded ones, and are undamaged.
    pub is_restorable: bool,
    /// Whether the dump's archive is damaged; `None` if the archive was not read.
    is_damaged: Option<bool>,
}

/// The result of comparing the newest dump with a tree.
#[derive(Clone, Copy, Debug, Default)]
pub struct TreeComparison {
    /// Number of entries compared.
    pub entries: u64,
    /// Number of entries that differ or are missing.
    pub different: u64,
    /// Number of files in dumped directories that are not in the dump.
    pub unknown: u64,
}

/// The result of checking a state directory.
#[derive(Debug, Default)]
pub struct ChainsReport {
    /// One result per dump, oldest first.
    pub dumps: Vec<CheckedDump>,
    /// The comparison of the newest dump with a tree, if one was given.
    pub compared: Option<TreeComparison>,
    /// Warnings about damage and differences.
    pub warnings: Vec<Warning>,
}

impl ChainsReport {
    /// Uncompressed bytes read of all archives.
    pub fn bytes(&self) -> u64 {
        let archives = self.dumps.iter().filter_map(|dump| dump.archive.as_ref());
        archives.fold(0, |sum, archive| sum.saturating_add(archive.bytes))
    }
}

/// Reads every archive of a state directory, and checks every chain. `watch` is called with the
/// index of the dump, the bytes read of its archive, and the name of a member.
///
/// Afterwards the records of the dumps tell which archives are damaged, so that no later dump is
/// based on a damaged one, and pruning keeps an intact dump. A failure to write the records is a
/// warning.
///
/// # Errors
/// No dump is recorded.
pub fn verify_chains(
    history: &History,
    mut watch: impl FnMut(usize, u64, &[u8]),
) -> Result<ChainsReport> {
    if history.dumps().is_empty() {
        return Err(Error::new(
            Action::FindDump,
            history.state(),
            ErrorKind::NoDump,
        ));
    }
    let mut report = ChainsReport::default();
    for at in 0..history.dumps().len() {
        let mut checked = CheckedDump::default();
        let problems = &mut report.warnings;
        match check_archive(history, at, |bytes, name| watch(at, bytes, name)) {
            Ok(mut archive) => {
                checked.is_restorable = archive.damaged == 0;
                checked.is_damaged = Some(archive.damaged > 0);
                problems.append(&mut archive.warnings);
                problems.append(&mut name_lost(history, at, &archive.lost));
                checked.archive = Some(archive);
            }
            Err(problem) => {
                checked.is_damaged = is_damage(&problem).then_some(true);
                problems.push(*problem);
            }
        }
        let base = match history.chain(at) {
            None => false,
            Some(chain) => match chain[..] {
                [.., base, _] => report
                    .dumps
                    .get(base)
                    .is_some_and(|base| base.is_restorable),
                _ => true,
            },
        };
        if checked.is_restorable && !base {
            let archive = history.dumps()[at].archive.as_deref().unwrap_or(b"-");
            problems.push(Warning::about(archive, WarningKind::NotRestorable));
        }
        checked.is_restorable &= base;
        report.dumps.push(checked);
    }
    let damage = report.dumps.iter().map(|dump| dump.is_damaged);
    let damage: Vec<Option<bool>> = damage.collect();
    if let Err(error) = history.record_damage(&damage) {
        let kind = WarningKind::DamageNotRecorded(error.kind);
        report.warnings.push(Warning::about(&error.path, kind));
    }
    Ok(report)
}

/// Whether an archive that cannot be checked is at its path, but damaged. A failed system call does
/// not prove that, except EIO.
fn is_damage(problem: &Warning) -> bool {
    match problem.reason::<WarningKind>() {
        Some(
            WarningKind::ArchiveMissing
            | WarningKind::ArchiveStreamed
            | WarningKind::ArchiveReplaced,
        ) => false,
        Some(WarningKind::ArchiveEnds(kind)) => {
            kind.store().is_none() && matches!(kind.errno(), None | Some(Errno::EIO))
        }
        _ => matches!(problem.errno, None | Some(Errno::EIO)),
    }
}

/// Reads an archive to its end. The error is a warning, ready to be reported.
fn check_archive(
    history: &History,
    at: usize,
    mut watch: impl FnMut(u64, &[u8]),
) -> std::result::Result<VerifyReport, Box<Warning>> {
    let dump = &history.dumps()[at];
    let about = |kind| {
        let archive = dump.archive.as_deref().unwrap_or(b"-");
        Box::new(Warning::about(archive, kind))
    };
    let failed = |error: Error| match error.kind {
        // The file has the recorded size, and time or id, so it is the archive, and its first bytes
        // are damaged.
        kind @ ErrorKind::ArchiveGone { .. } => about(WarningKind::Damaged(kind)),
        _ => Box::new(unreadable(&error)),
    };
    let Some(archive) = dump.archive.as_ref() else {
        return Err(about(WarningKind::ArchiveStreamed));
    };
    match dump.status() {
        ArchiveStatus::Present | ArchiveStatus::Damaged => {}
        ArchiveStatus::Streamed => return Err(about(WarningKind::ArchiveStreamed)),
        ArchiveStatus::Missing => return Err(about(WarningKind::ArchiveMissing)),
        ArchiveStatus::Replaced => return Err(about(WarningKind::ArchiveReplaced)),
    }
    let file = dump.open(archive).map_err(failed)?;
    let mut input = Input::from_file(archive, file).map_err(failed)?;
    let origin = input.origin().map_err(failed)?;
    let chain = history.chain(at).unwrap_or_default();
    if let ([.., base, _], Some(lineage)) = (&chain[..], origin.lineage)
        && let (Base::Archive(id), Some(wanted)) = (lineage.base, history.dumps()[*base].id)
        && id != wanted
    {
        return Err(about(WarningKind::OtherBase));
    }
    let mut wanted = MemberSelection::new(&[]);
    let opened = vec![(&archive[..], input)];
    verify(opened, &mut wanted, None, |_, bytes, name| {
        watch(bytes, name)
    })
    .map_err(failed)
}

/// Compares the newest dump with a tree, by its catalog: names, types, permissions, owners, sizes,
/// modification times, and contents by checksum. Entries on mounts that do not answer are skipped.
///
/// # Errors
/// No catalog of the dump is kept, or it cannot be read; or the entries of the dump are in a
/// different directory.
pub fn compare_newest(
    history: &History,
    mut tree: Tree,
    mut watch: impl FnMut(u64, &[u8]),
) -> Result<(TreeComparison, Vec<Warning>)> {
    let Some(newest) = history.dumps().last() else {
        return Ok(Default::default());
    };
    let archive = newest.archive.as_deref().unwrap_or(b"-");
    let (_, reader) = newest
        .open_catalog(history.state())
        .ok_or_else(|| Error::new(Action::CompareWith, archive, ErrorKind::NoCatalogKept))?;
    tree.filter = reader.about().options.filter();
    let (mut known, mut report) = (ArchivedFiles::default(), VerifyReport::default());
    let is_below_root = tree.dir.starts_with(b"/") && trim_slashes(&tree.dir).is_empty();
    let prefixes = reader.about().roots.iter();
    // A relative SRC is below / at its absolute path.
    let prefixes = prefixes.map(|root| match &root.absolute {
        Some(absolute) if is_below_root => in_archive(absolute),
        _ => in_archive(&root.path),
    });
    let prefixes: Vec<&[u8]> = prefixes.collect();
    for group in 0..reader.groups() {
        let (dirs, names, tops) = (
            reader.read(DIR, group)?,
            reader.read(NAME, group)?,
            reader.read(TOP, group)?,
        );
        let columns = RowColumns::new(&reader, group);
        let (metas, hashes) = (columns.metas(Fields::all())?, reader.hashes(group)?);
        for row in 0..reader.rows(group) {
            let prefix = prefixes
                .get(tops[row] as usize)
                .copied()
                .unwrap_or_default();
            let path = joined(prefix, &joined(&dirs[row], &names[row]));
            let meta = metas(row);
            let had_holes = meta.blocks.saturating_mul(512) < meta.size;
            let Some(member) = as_member(&path, &meta) else {
                continue;
            };
            watch(report.compared, &path);
            let mut differences = Vec::new();
            tree.compare_by_hash(
                &member,
                hashes[row],
                had_holes,
                &mut known,
                &mut differences,
            );
            if !report.count(&tree, &path, differences) {
                continue;
            }
            known.add_first(&path);
            if report.compared == MISSING_AT_FIRST {
                tree.check_members(&known)?;
            }
        }
    }
    tree.check_members(&known)?;
    let state = stat_long(history.state(), StatxMask::BASIC_STATS);
    tree.archives = state.map(|seen| (seen.dev, seen.ino)).into_iter().collect();
    if !reader.about().options.files_from {
        tree.find_unknown(&known, |warning| report.unknown(warning));
    }
    for warning in tree.silent_warnings() {
        report.warn(warning);
    }
    let compared = TreeComparison {
        entries: report.compared,
        different: report.different,
        unknown: report.unknown,
    };
    Ok((compared, report.found.take_all(WarningKind::MoreOfThese)))
}

/// Converts an entry of a catalog to an archive member; `None` for a socket.
fn as_member(path: &[u8], meta: &Meta) -> Option<Member> {
    let kind = member_kind(meta.kind())?;
    Some(Member {
        path: or_dot(path).to_vec(),
        kind,
        mode: meta.mode,
        uid: meta.uid,
        gid: meta.gid,
        size: meta.size,
        rdev: meta.rdev,
        mtime: meta.mtime,
        ..Member::default()
    })
}
