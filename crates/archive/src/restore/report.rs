//! The result and the progress of a restore.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::Warning;
use gate::Errno;
use gate::sync::Mutex;
use serde::{Deserialize, Serialize};

use super::not_restored::{Failure, NotRestored};
use crate::error::{Defect, Error, ErrorKind};

/// How many members were restored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the others are the kinds of members")]
pub struct Counts {
    pub files: u64,
    pub directories: u64,
    pub symlinks: u64,
    /// Further names of files.
    pub links: u64,
    /// Fifos and devices.
    pub other: u64,
    /// Bytes of data that were written; holes are none.
    pub bytes: u64,
    /// Entries that an increment does not list any more, and that were removed.
    pub removed: u64,
    /// Directories that were renamed as an increment says.
    pub renamed: u64,
    /// Members that were skipped, each with a warning.
    pub skipped: u64,
}

impl Counts {
    /// Adds those of another thread or process.
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
}

/// Something that the user should know, and that is nothing wrong.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Note {
    /// Names in the archive begin with a slash.
    SlashLeftOut,
    /// Owners cannot be set without root.
    OwnersIgnored,
    /// Extended attributes other than `user.*` cannot be set without root.
    XattrsLeftOut,
    /// Devices are skipped, as was asked for.
    DevicesLeftOut,
    /// The first archive is an increment: files are missing that are in earlier archives.
    FirstIsIncrement,
    /// The first archive is the same as the second one: it is restored once.
    Repeated(Vec<u8>, Vec<u8>),
    /// The archives were not given in the order in which they were made, which is this.
    Reordered(Vec<Vec<u8>>),
}

/// The result of a restore.
#[derive(Debug, Default)]
pub struct RestoreSummary {
    /// How much was done; in a dry run, would have been.
    pub counts: Counts,
    /// What was skipped or found wrong.
    pub warnings: Vec<Warning>,
    /// What is not as it was where the archive was made.
    pub notes: Vec<Note>,
    /// Why the archives were not restored to their end. What was restored until then stays.
    pub stopped: Option<Error>,
}

/// The progress of a restore, for another thread to read.
#[derive(Debug, Default)]
pub struct RestoreProgress {
    pub(super) members: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) place: Mutex<Vec<u8>>,
}

impl RestoreProgress {
    /// Members read, bytes written, and the directory that is being restored.
    pub fn get(&self) -> (u64, u64, Vec<u8>) {
        let place = self.place.lock().clone();
        (self.members.load(Relaxed), self.bytes.load(Relaxed), place)
    }
}

/// Collects warnings and notes, within a limit of memory.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    warnings: Vec<(u64, Warning)>,
    notes: Vec<Note>,
    /// Bytes in the warnings.
    size: usize,
    /// Warnings that there was no room for.
    left_out: u64,
    /// What is warned of once for all members, and the index of its warning.
    warned_once: Vec<((Errno, NotRestored), usize)>,
    /// The number of the member that is restored.
    member: u64,
}

impl Remarks {
    /// An archive can give cause for any number of warnings.
    const MOST: usize = 4 << 20;
    /// Names are given up to here.
    const LONGEST: usize = 4096;

    /// What is warned of from now on belongs to a member. Members have numbers in their order.
    pub(super) fn set_member(&mut self, number: u64) {
        self.member = number;
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
        let path = path.get(..Remarks::LONGEST).unwrap_or(path);
        self.size += path.len() + reason.to_string().len() + size_of::<Warning>();
        if self.size > Remarks::MOST {
            self.left_out += 1;
            return;
        }
        let warning = Failure { call, reason }.into_warning(path);
        self.warnings.push((self.member, warning));
    }

    /// Adds those of another thread.
    pub(super) fn absorb(&mut self, other: Remarks) {
        let mut others: Vec<_> = other.warnings.into_iter().map(Some).collect();
        for (once, theirs) in other.warned_once {
            let Some(other) = others.get_mut(theirs) else {
                continue;
            };
            let known = self.warned_once.iter().find(|(known, _)| *known == once);
            match known.and_then(|(_, ours)| self.warnings.get_mut(*ours)) {
                // The earlier member is named.
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
        other.notes.into_iter().for_each(|note| self.note(note));
    }

    /// Warns of what was found wrong while an archive was read.
    pub(super) fn defects(&mut self, archive: &[u8], defects: Vec<Defect>) {
        for Defect { member, at, damage } in defects {
            let path = member.as_deref().unwrap_or(archive);
            self.warn(path, NotRestored::Damaged { at, damage });
        }
    }

    /// Warns if the last archive cannot be read to its end because it is damaged. Other errors are
    /// returned: an increment must not be restored over the part of a dump.
    pub(super) fn end_of_archive(&mut self, error: Error, is_last: bool) -> Result<(), Error> {
        match error.kind {
            ErrorKind::DamagedArchive { at, damage } if is_last => {
                self.warn(&error.path, NotRestored::ArchiveEnds { at, damage });
                Ok(())
            }
            _ => Err(error),
        }
    }

    pub(super) fn note(&mut self, note: Note) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub(super) fn into_summary(mut self, counts: Counts, stopped: Option<Error>) -> RestoreSummary {
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
