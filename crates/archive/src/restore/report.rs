//! The result and the progress of a restore.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use gate::Errno;
use gate::sync::Mutex;
use mounts::Warning;

use super::not_restored::{Failure, NotRestored};
use crate::error::{Defect, Error, ErrorKind};

/// How many members were restored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
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

/// Something that the user should know, and that is nothing wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// Names in the archive begin with a slash.
    SlashLeftOut,
    /// Owners cannot be set without root.
    OwnersIgnored,
    /// Extended attributes other than `user.*` cannot be set without root.
    XattrsLeftOut,
    /// The first archive is an increment: files are missing that are in earlier archives.
    FirstIsIncrement,
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
    warnings: Vec<Warning>,
    notes: Vec<Note>,
    /// Bytes in the warnings.
    size: usize,
    /// Warnings that there was no room for.
    left_out: u64,
    warned_once: Vec<(Errno, NotRestored)>,
}

impl Remarks {
    /// An archive can give cause for any number of warnings.
    const MOST: usize = 4 << 20;
    /// Names are given up to here.
    const LONGEST: usize = 4096;

    pub(super) fn warn(&mut self, path: &[u8], failure: impl Into<Failure>) {
        let Failure { call, reason } = failure.into();
        if let Some((_, errno)) = call.filter(|_| reason.is_warned_of_once()) {
            let once = (errno, reason.clone());
            if self.warned_once.contains(&once) {
                return;
            }
            self.warned_once.push(once);
        }
        let path = path.get(..Remarks::LONGEST).unwrap_or(path);
        self.size += path.len() + reason.to_string().len() + size_of::<Warning>();
        if self.size > Remarks::MOST {
            self.left_out += 1;
            return;
        }
        let (gate, errno) = call.unzip();
        self.warnings.push(Warning {
            gate,
            errno,
            ..Warning::about(path, reason)
        });
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
        if self.left_out > 0 {
            let kind = NotRestored::MoreThanFit(self.left_out);
            self.warnings.push(Warning::general(kind));
        }
        RestoreSummary {
            counts,
            warnings: self.warnings,
            notes: self.notes,
            stopped,
        }
    }
}
