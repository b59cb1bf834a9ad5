//! The result and the progress of a restore.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::Warning;
use base::path::components;
use gate::Errno;
use gate::fs::{FileType, Statx};
use gate::sync::Mutex;
use serde::{Deserialize, Serialize};

use super::not_restored::{Failure, NotRestored};
use crate::error::{Defect, Error, ErrorKind};

/// Numbers of entries restored; those that a later archive removed or replaced do not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the others are the kinds of members")]
pub struct Counts {
    pub files: u64,
    pub directories: u64,
    pub symlinks: u64,
    /// Hard links to files.
    pub links: u64,
    /// FIFOs and devices.
    pub other: u64,
    /// Bytes of data written, without holes.
    pub bytes: u64,
    /// Entries removed because an increment no longer lists them.
    pub removed: u64,
    /// Directories renamed by increments.
    pub renamed: u64,
    /// Members skipped, each with a warning.
    pub skipped: u64,
}

impl Counts {
    /// Adds the counts of another thread or process.
    pub fn add(&mut self, other: Counts) {
        self.files += other.files;
        self.directories += other.directories;
        self.symlinks += other.symlinks;
        self.links += other.links;
        self.other += other.other;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.removed += other.removed;
        self.renamed += other.renamed;
        self.skipped += other.skipped;
    }

    /// Counts a file or directory by its attributes. A name counts as a hard link as long as its
    /// file has further names.
    pub(super) fn add_seen(&mut self, seen: &Statx) {
        match seen.file_type {
            FileType::Directory => self.directories += 1,
            _ if seen.nlink > 1 => self.links += 1,
            FileType::Regular => {
                self.files += 1;
                // The allocated space excludes the holes of a sparse file.
                self.bytes += seen.size.min(seen.blocks.saturating_mul(512));
            }
            FileType::Symlink => self.symlinks += 1,
            _ => self.other += 1,
        }
    }

    /// Subtracts restored entries that no longer exist.
    fn subtract(&mut self, gone: Counts) {
        self.files = self.files.saturating_sub(gone.files);
        self.directories = self.directories.saturating_sub(gone.directories);
        self.symlinks = self.symlinks.saturating_sub(gone.symlinks);
        self.links = self.links.saturating_sub(gone.links);
        self.other = self.other.saturating_sub(gone.other);
        self.bytes = self.bytes.saturating_sub(gone.bytes);
    }
}

/// A note for the user that is no warning.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Note {
    /// Leading slashes were removed from member names.
    SlashLeftOut,
    /// Owners were not restored, which needs root.
    OwnersIgnored,
    /// Extended attributes other than `user.*` were not restored, which needs root.
    XattrsLeftOut,
    /// Devices were skipped, as requested.
    DevicesLeftOut,
    /// The first archive is an increment: files that are only in earlier archives are missing.
    FirstIsIncrement,
    /// The first archive is identical to the second, and is restored only once.
    Repeated(Vec<u8>, Vec<u8>),
    /// Existing entries that an increment removed: their number and the first paths.
    RemovedExisting(u64, Vec<Vec<u8>>),
    /// The archives were given in a wrong order; they are restored in the order of this list.
    Reordered(Vec<Vec<u8>>),
}

/// The result of a restore.
#[derive(Debug, Default)]
pub struct RestoreSummary {
    /// The number of restored entries; in a dry run, the predicted number.
    pub counts: Counts,
    /// Warnings about skipped members and damage.
    pub warnings: Vec<Warning>,
    /// Notes on differences from the dumped tree.
    pub notes: Vec<Note>,
    /// The error that ended the restore early. Members restored before stay.
    pub stopped: Option<Error>,
}

/// The progress of a restore, readable from other threads.
#[derive(Debug, Default)]
pub struct RestoreProgress {
    pub(super) members: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) place: Mutex<Vec<u8>>,
}

impl RestoreProgress {
    /// The number of members read, the number of bytes written, and the current directory.
    pub fn get(&self) -> (u64, u64, Vec<u8>) {
        let place = self.place.lock().clone();
        (self.members.load(Relaxed), self.bytes.load(Relaxed), place)
    }
}

/// Collects warnings and notes, within a memory limit.
#[derive(Debug, Default)]
pub(super) struct RestoreMessages {
    warnings: Vec<(u64, Warning)>,
    notes: Vec<Note>,
    /// Restored entries that a later archive has removed or replaced.
    pub(super) gone: Counts,
    /// Entries removed that existed before this restore: their number and the first paths.
    removed_existing: (u64, Vec<Vec<u8>>),
    /// Approximate memory use of the warnings, in bytes.
    size: usize,
    /// Number of warnings dropped for lack of memory.
    left_out: u64,
    /// Failures that are warned of only once, with the index of the warning.
    warned_once: Vec<((Errno, NotRestored), usize)>,
    /// The number of the current member, by which warnings are sorted.
    member: u64,
    /// Paths that a later archive has restored as directories, or removed, each with the number of
    /// its member. A path that ends with a slash stands for everything below it.
    superseded: HashMap<Vec<u8>, u64>,
}

impl RestoreMessages {
    /// Counts an entry that this restore has created and removed again; `None` for any other entry.
    pub(super) fn count_gone(&mut self, seen: Option<Statx>) {
        if let Some(seen) = seen {
            self.gone.add_seen(&seen);
        }
    }

    /// Maximum bytes of warnings, because a hostile archive could cause any number.
    const MOST: usize = 4 << 20;
    /// Maximum length of a path in a warning.
    const LONGEST: usize = 4096;

    /// Sets the member, by number, to which further warnings belong.
    pub(super) fn set_member(&mut self, number: u64) {
        self.member = number;
    }

    /// Records that a later archive has restored a directory or removed an entry: warnings that a
    /// directory was in the way of an earlier member no longer apply.
    pub(super) fn supersede(&mut self, path: &[u8], is_removal: bool) {
        self.superseded.insert(path.to_vec(), self.member);
        if is_removal {
            self.superseded.insert([path, b"/"].concat(), self.member);
        }
    }

    /// Whether a later archive has restored a directory at the path of a member that a directory was
    /// in the way of, or has removed the path.
    fn is_superseded(&self, member: u64, warning: &Warning) -> bool {
        if warning.reason() != Some(&NotRestored::DirectoryInTheWay) {
            return false;
        }
        let path = components(warning.path.as_deref().unwrap_or_default());
        let path = path.collect::<Vec<_>>().join(&b'/');
        let slashes = (0..path.len()).filter(|&at| path[at] == b'/');
        let above = slashes.map(|at| &path[..=at]);
        let mut keys = above.chain([&path[..]]);
        keys.any(|key| {
            self.superseded
                .get(key)
                .is_some_and(|&later| later >= member)
        })
    }

    pub(super) fn warn(&mut self, path: &[u8], failure: impl Into<Failure>) {
        let Failure { call, reason } = failure.into();
        if let Some((_, errno)) = call.filter(|_| reason.is_warned_of_once()) {
            let once = (errno, reason.clone());
            if self.warned_once.iter().any(|(known, _)| *known == once) {
                return;
            }
            self.warned_once.push((once, self.warnings.len()));
        }
        let path = path.get(..RestoreMessages::LONGEST).unwrap_or(path);
        self.size += path.len() + reason.to_string().len() + size_of::<Warning>();
        if self.size > RestoreMessages::MOST {
            self.left_out += 1;
            return;
        }
        let warning = Failure { call, reason }.into_warning(path);
        self.warnings.push((self.member, warning));
    }

    /// Adds the warnings and notes of another thread.
    pub(super) fn absorb(&mut self, other: RestoreMessages) {
        let mut others: Vec<_> = other.warnings.into_iter().map(Some).collect();
        for (once, theirs) in other.warned_once {
            let Some(other) = others.get_mut(theirs) else {
                continue;
            };
            let known = self.warned_once.iter().find(|(known, _)| *known == once);
            match known.and_then(|(_, ours)| self.warnings.get_mut(*ours)) {
                // Of two warnings with the same reason, keep that of the earlier member.
                Some(ours) => {
                    if let Some(other) = other.take().filter(|other| other.0 < ours.0) {
                        *ours = other;
                    }
                }
                None => {
                    self.warned_once.push((once, self.warnings.len()));
                    self.warnings.extend(other.take());
                }
            }
        }
        self.warnings.extend(others.into_iter().flatten());
        self.left_out += other.left_out;
        self.gone.add(other.gone);
        other.notes.into_iter().for_each(|note| self.note(note));
    }

    /// Records that an entry was removed that existed before this restore.
    pub(super) fn note_removed(&mut self, path: &[u8]) {
        const MOST: usize = 10;
        let (count, first) = &mut self.removed_existing;
        *count += 1;
        if first.len() < MOST {
            let path = path.get(..RestoreMessages::LONGEST).unwrap_or(path);
            first.push(path.to_vec());
        }
    }

    /// Warns of defects found while reading an archive.
    pub(super) fn defects(&mut self, archive: &[u8], defects: Vec<Defect>) {
        for Defect { member, at, damage } in defects {
            let path = member.as_deref().unwrap_or(archive);
            self.warn(path, NotRestored::Damaged { at, damage });
        }
    }

    /// Warns if the last archive is damaged and cannot be read to its end. Other errors are
    /// returned: an increment must not be restored over an incomplete dump.
    pub(super) fn end_of_archive(&mut self, error: Error, is_last: bool) -> Result<(), Error> {
        match error.kind {
            ErrorKind::DamagedArchive { at, damage } if is_last => {
                self.warn(&error.path, NotRestored::ArchiveEnds { at, damage });
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// If members of an archive were lost, the missing target of a hard link may be one of them.
    fn explain_lost_targets(&mut self) {
        let is_loss = |warning: &Warning| match warning.reason() {
            Some(NotRestored::Damaged { damage, .. }) => damage.is_loss(),
            reason => matches!(reason, Some(NotRestored::ArchiveEnds { .. })),
        };
        if !self.warnings.iter().any(|(_, warning)| is_loss(warning)) {
            return;
        }
        for (_, warning) in &mut self.warnings {
            if let Some(NotRestored::NoSuchTarget(target)) = warning.reason() {
                let reason = NotRestored::LostTarget(target.clone());
                let path = warning.path.clone();
                *warning = Warning {
                    path,
                    ..Warning::general(reason)
                };
            }
        }
    }

    pub(super) fn note(&mut self, note: Note) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub(super) fn into_summary(
        mut self,
        mut counts: Counts,
        stopped: Option<Error>,
    ) -> RestoreSummary {
        counts.subtract(self.gone);
        if let (count @ 1.., first) = std::mem::take(&mut self.removed_existing) {
            self.note(Note::RemovedExisting(count, first));
        }
        // After a rename, the path of a warning may be that of a different file.
        if counts.renamed == 0 && !self.superseded.is_empty() {
            let mut warnings = std::mem::take(&mut self.warnings);
            let count = warnings.len();
            warnings.retain(|(member, warning)| !self.is_superseded(*member, warning));
            counts.skipped = counts
                .skipped
                .saturating_sub((count - warnings.len()) as u64);
            self.warnings = warnings;
        }
        self.explain_lost_targets();
        self.warnings.sort_by_key(|(member, _)| *member);
        self.notes.sort_unstable();
        let warnings = self.warnings.into_iter().map(|(_, warning)| warning);
        let more =
            (self.left_out > 0).then(|| Warning::general(NotRestored::MoreThanFit(self.left_out)));
        RestoreSummary {
            counts,
            warnings: warnings.chain(more).collect(),
            notes: self.notes,
            stopped,
        }
    }
}
