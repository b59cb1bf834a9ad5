//! Applies an increment's `GNU.dumpdir` to a directory: renames directories, and removes unlisted
//! entries.
//!
//! The first archive renames and removes nothing.

use std::ffi::CString;
use std::os::fd::AsFd;
use std::sync::Arc;

use base::directory::each_entry;
use base::path::{or_dot, split};
use gate::file::renameat2;
use gate::fs::{AtFlags, FileType, Open, StatxMask, fstat, statx};
use gate::long::{c_string, open_beneath};
use gate::{Errno, Fd, Gate};
use ondisk::dirent::Entry;
use ondisk::pax::dumpdir::{self, Code};
use ondisk::pax::{Member, MemberKind};
use walk::entry::joined;

use super::maker::attributes;
use super::name::clean;
use super::name_map::{Renames, after};
use super::not_restored::{Failure, NotRestored};
use super::remove::restored;
use super::report::RestoreMessages;
use super::restorer::Restorer;
use super::rights::ALL;
use super::selected::SelectedPaths;
use crate::input::{Input, is_regular};

/// An existing entry of a directory.
pub(super) struct ExistingEntry {
    pub(super) name: Vec<u8>,
    is_directory: bool,
    /// The dumpdir lists the entry, so it is not removed.
    stays: bool,
    /// Name of the entry in the dumpdir.
    pub(super) listed: Vec<u8>,
}

impl ExistingEntry {
    pub(super) fn new(name: Vec<u8>, is_directory: bool) -> ExistingEntry {
        ExistingEntry {
            name,
            is_directory,
            stays: false,
            listed: Vec::new(),
        }
    }
}

impl Restorer<'_> {
    /// Carries out the renames of a dumpdir, in order.
    pub(super) fn renames(&mut self, path: &[u8], text: &[u8]) {
        // `purge` warns of an unreadable dumpdir.
        let entries = dumpdir::entries(text).into_iter().flatten();
        let (mut temporary, mut from) = (None, None);
        for (code, name) in entries {
            let done = match code {
                Code::X => {
                    let dir = clean(or_dot(name));
                    dir.map_err(|why| NotRestored::BadRename(why).into())
                        .and_then(|dir| self.free_name(&dir.path))
                        .map(|free| temporary = Some(free))
                }
                Code::R => {
                    from = Some(name);
                    continue;
                }
                Code::T => self.rename(from.unwrap_or_default(), name, temporary.as_deref()),
                Code::Y | Code::N | Code::D => continue,
            };
            if let Err(failure) = done {
                self.keeps_all = true;
                let path = if name.is_empty() { path } else { name };
                self.maker.remarks.warn(path, failure);
            }
        }
    }

    /// A free name in a directory, for the temporary directory of cyclic renames.
    fn free_name(&mut self, dir: &[u8]) -> Result<Vec<u8>, Failure> {
        const TRIES: u32 = 1000;
        let here = open_beneath(self.top.as_fd(), dir, Open::PATH | Open::DIRECTORY)
            .map_err(Failure::above)?;
        for n in 0..TRIES {
            let name = format!(".fathom-renamed-{n}");
            let c_name = c_string(name.as_bytes()).map_err(Failure::above)?;
            if statx(&here, &c_name, AtFlags::SYMLINK_NOFOLLOW, StatxMask::TYPE).is_err() {
                return Ok(joined(dir, name.as_bytes()));
            }
        }
        Err(NotRestored::NoFreeName.into())
    }

    fn rename(&mut self, from: &[u8], to: &[u8], temporary: Option<&[u8]>) -> Result<(), Failure> {
        let whole = |name: &[u8]| match name {
            b"" => temporary
                .map(<[u8]>::to_vec)
                .ok_or(NotRestored::NoTemporary),
            name => clean(name)
                .map(|name| name.path)
                .map_err(NotRestored::BadRename),
        };
        let last = |name: Vec<u8>| self.chosen.place(&name).unwrap_or(name);
        let (from, to) = (last(whole(from)?), last(whole(to)?));
        if from.is_empty() || to.is_empty() {
            return Err(NotRestored::RenamedRoot.into());
        }
        self.chosen.check_mount(&from)?;
        self.chosen.check_mount(&to)?;
        let is_temporary = temporary == Some(&from[..]);
        if !is_temporary && !self.chosen.has_in(&from) {
            return Ok(());
        }
        // Close the open directories, whose paths the rename would change.
        self.leave_all();
        self.workers.wait_for_below(b"");
        self.linked = None;
        let has_failed = self.maker.counts.skipped > 0 || self.maker.failures.are_any();
        let failed = |gate, errno| not_renamed(&from, gate, errno, has_failed);
        // A missing directory to rename is no error if it was not selected, or has the new name
        // already: GNU tar also lists directories that move with a renamed parent.
        let is_needless = |own: &Self| {
            let is_there =
                || open_beneath(own.top.as_fd(), &to, Open::PATH | Open::DIRECTORY).is_ok();
            !own.chosen.is_all() || is_there()
        };
        let ((old_dir, old), (new_dir, new)) = (split(&from), split(&to));
        let old_dir = match open_beneath(self.top.as_fd(), old_dir, Open::SCAN) {
            Err(Errno::ENOENT) if is_needless(self) => return Ok(()),
            other => other.map_err(|e| failed(Gate::Openat2, e))?,
        };
        let names = c_string(old)
            .and_then(|old| Ok((old, c_string(new)?)))
            .map_err(|e| failed(Gate::Renameat2, e))?;
        let seen = match attributes(&old_dir, &names.0) {
            Err(Errno::ENOENT) if is_needless(self) => return Ok(()),
            other => other.map_err(|e| failed(Gate::Statx, e))?,
        };
        // Create the parent of the new name, if it does not exist yet.
        self.enter(new_dir)?;
        let new_dir = self.here()?;
        let replaced = restored(self.own_files(), &to, &new_dir, &names.1);
        let mut done = renameat2(&old_dir, &names.0, &new_dir, &names.1);
        if done == Err(Errno::EACCES) && !self.maker.rights.is_root {
            let is_directory = seen.file_type == FileType::Directory;
            done = self.rename_own(&old_dir, &new_dir, &names, is_directory);
        }
        done.map_err(|e| failed(Gate::Renameat2, e))?;
        self.maker.remarks.count_gone(replaced);
        self.created.rename(&from, &to);
        self.maker.counts.renamed += 1;
        Ok(())
    }

    /// Renames an entry, with those directories temporarily writable that belong to the restoring
    /// user.
    fn rename_own(
        &self,
        old_dir: &Fd,
        new_dir: &Fd,
        names: &(CString, CString),
        is_directory: bool,
    ) -> gate::Result<()> {
        let itself = is_directory
            .then(|| open_beneath(old_dir.as_fd(), names.0.to_bytes(), Open::SCAN))
            .transpose()?;
        let mut changed = Vec::new();
        for dir in [old_dir, new_dir].into_iter().chain(&itself) {
            let seen = fstat(dir, StatxMask::BASIC_STATS)?;
            if seen.uid == self.maker.rights.uid && seen.mode & ALL != ALL {
                gate::create::fchmod(dir, seen.mode | ALL)?;
                changed.push((dir, seen.mode));
            }
        }
        let done = renameat2(old_dir, &names.0, new_dir, &names.1);
        for (dir, mode) in changed.into_iter().rev() {
            gate::create::fchmod(dir, mode)?;
        }
        done
    }

    /// Applies an increment's dumpdir of a directory that was not selected, as far as it affects
    /// selected entries.
    pub(super) fn pass_by(&mut self, member: &Member, text: &[u8]) -> Result<(), Failure> {
        self.renames(&member.path, text);
        let Ok(name) = clean(&member.path) else {
            return Ok(());
        };
        let Some(place) = self.chosen.place(&name.path) else {
            return Ok(());
        };
        let how = Open::PATH | Open::DIRECTORY;
        if self.chosen.below(&place).next().is_none()
            || self.chosen.check_mount(&place).is_err()
            || open_beneath(self.top.as_fd(), &place, how).is_err()
        {
            return Ok(());
        }
        self.enter(&place)?;
        self.purge(&place, &name.path, text)
    }

    /// Removes entries of the current directory that the increment's dumpdir does not list. In the
    /// archive the directory has the name `dir`.
    pub(super) fn purge(&mut self, path: &[u8], dir: &[u8], text: &[u8]) -> Result<(), Failure> {
        let said = dumpdir::entries(text).ok_or(NotRestored::BadDumpdir)?;
        self.workers.wait_for_below(path);
        let here = self.here()?;
        let (has_damaged_data, failures) = (self.has_damaged_data, self.maker.failures);
        // Warnings already name the files whose data is damaged, and the hard links to them.
        let is_damaged = |path: &[u8]| has_damaged_data && failures.has(path);
        let (present, remarks) = (list(&here)?, &mut self.maker.remarks);
        let chosen = &self.chosen;
        let unlisted = find_unlisted(present, said, (path, dir), chosen, is_damaged, remarks);
        let most_open = self.trail.most_open();
        for entry in unlisted {
            let whole = joined(path, &entry.name);
            let was = joined(dir, &entry.listed);
            if self.keeps_all {
                self.maker
                    .remarks
                    .warn(&whole, NotRestored::KeptAfterRename);
                continue;
            }
            self.linked = None;
            for gone in self.chosen.removed_with(&whole, &was) {
                let (above, name) = split(&gone);
                let above = match gone == whole {
                    true => Ok(Arc::clone(&here)),
                    false if self.chosen.check_mount(&gone).is_err() => continue,
                    false => open_beneath(self.top.as_fd(), above, Open::SCAN).map(Arc::new),
                };
                if self.chosen.keeps_existing && !self.own_files().has(&gone) {
                    self.maker.remarks.warn(&gone, NotRestored::KeptExisting);
                    continue;
                }
                if let (Ok(above), Ok(name)) = (above, c_string(name)) {
                    self.maker
                        .remove(&above, most_open, &name, &gone, &self.created);
                }
                self.chosen.forget(&gone);
            }
        }
        Ok(())
    }
}

/// The failure of renaming a directory. `has_failed`: an entry could not be restored before.
pub(super) fn not_renamed(from: &[u8], gate: Gate, errno: Errno, has_failed: bool) -> Failure {
    let consequence = match errno {
        Errno::ENOENT if has_failed => "it could not be restored before",
        Errno::ENOENT => "is an earlier archive of the chain missing?",
        Errno::ENOTEMPTY | Errno::EEXIST => "the new name exists; restore into an empty directory",
        _ => "its entries may be missing under the new name",
    };
    let from = from.to_vec();
    Failure::call(gate, errno, NotRestored::NotRenamed { from, consequence })
}

/// Finds the entries of the directory `path` that its dumpdir does not list, and warns of files that
/// it lists as unchanged, but that do not exist. The directory is named `dir` in the archive.
/// `is_explained`: whether a warning already names a file.
pub(super) fn find_unlisted<'a>(
    mut present: Vec<ExistingEntry>,
    said: impl Iterator<Item = (Code, &'a [u8])>,
    (path, dir): (&[u8], &[u8]),
    chosen: &SelectedPaths,
    is_explained: impl Fn(&[u8]) -> bool,
    remarks: &mut RestoreMessages,
) -> Vec<ExistingEntry> {
    present.retain_mut(|entry| {
        let listed = chosen.listed(dir, path, &entry.name);
        listed.map(|listed| entry.listed = listed).is_some()
    });
    present.sort_unstable_by(|a, b| a.listed.cmp(&b.listed));
    let is_whole = chosen.has(path);
    let mut missing = Vec::new();
    for (code, name) in said {
        let at = present
            .binary_search_by(|entry| entry.listed[..].cmp(name))
            .ok();
        match (code, at.and_then(|at| present.get_mut(at))) {
            (Code::Y, Some(entry)) => entry.stays = !entry.is_directory,
            (Code::D, Some(entry)) => entry.stays = entry.is_directory,
            // GNU tar uses code N for some directories, too.
            (Code::N, Some(entry)) => entry.stays = true,
            // A missing entry is only reported if no later archive renames it.
            (Code::N, None)
                if is_whole && chosen.place(&joined(dir, name)) == Some(joined(path, name)) =>
            {
                missing.push(name);
            }
            (Code::Y | Code::N | Code::D | Code::R | Code::T | Code::X, _) => {}
        }
    }
    missing.retain(|name| !is_explained(&joined(path, name)));
    if let Some((first, others)) = missing.split_first() {
        let (first, others) = (first.to_vec(), others.len() as u64);
        let reason = match chosen.is_incomplete {
            true => NotRestored::LostEntries { first, others },
            false => NotRestored::MissingEntries { first, others },
        };
        remarks.warn(or_dot(path), reason);
    }
    present.retain(|entry| !entry.stays);
    present
}

/// Reads the entries of an open directory.
fn list(here: &Arc<Fd>) -> Result<Vec<ExistingEntry>, Failure> {
    let failed = |e| Failure::call(Gate::Getdents64, e, NotRestored::NotListed);
    let mut present = Vec::new();
    // A separate descriptor, so that reading starts at the first entry.
    let dir = open_beneath(here.as_fd(), b".", Open::SCAN).map_err(failed)?;
    let is_directory = |entry: &Entry<'_>| match entry.file_type {
        FileType::Directory => true,
        FileType::Unknown => statx(&dir, entry.name, AtFlags::SYMLINK_NOFOLLOW, StatxMask::TYPE)
            .is_ok_and(|seen| seen.file_type == FileType::Directory),
        _ => false,
    };
    let listed = each_entry(&dir, |entry| {
        let name = entry.name.to_bytes().to_vec();
        present.push(ExistingEntry::new(name, is_directory(entry)));
    });
    listed.map(|()| present).map_err(failed)
}

/// The renames of each archive, from the dumpdir of its first directory. `None` for the first
/// archive, which renames nothing, and for an archive that cannot be read twice.
pub(super) fn read_renames(archives: &[Vec<u8>]) -> Vec<Option<Renames>> {
    let read = |archive: &Vec<u8>| {
        if !is_regular(archive) {
            return None;
        }
        let mut input = Input::open(archive).ok()?;
        loop {
            let next = input.next().ok()?;
            // A lost member may have been the directory with the renames.
            if input.take_defects().iter().any(|it| it.damage.is_loss()) {
                return None;
            }
            match next {
                None => return Some(Renames::new()),
                Some(first) if first.kind == MemberKind::Directory => {
                    return Some(first.dumpdir.as_deref().map_or_else(Renames::new, renames));
                }
                Some(_) => {}
            }
        }
    };
    let later = archives.iter().skip(1).map(read);
    std::iter::once(None).chain(later).collect()
}

/// The renames in a dumpdir. Directories that move with a renamed parent, which GNU tar also lists,
/// are skipped.
pub(super) fn renames(text: &[u8]) -> Renames {
    /// Maximum number of renames kept, to trace selected names.
    const MOST: usize = 50_000;
    /// Maximum bytes of names kept.
    const BYTES: usize = 4 << 20;
    /// Beyond this many renames, redundant ones are not skipped, because finding them takes
    /// quadratic time.
    const FEW: usize = 1000;
    let (mut renames, mut bytes) = (Renames::new(), 0);
    let mut from = Vec::new();
    // A NUL, which no name contains, denotes the temporary directory.
    let key = |name: &[u8]| clean(name).map_or(b"\0".to_vec(), |name| name.path);
    for (code, name) in dumpdir::entries(text).into_iter().flatten() {
        match code {
            Code::R => from = key(name),
            Code::T => {
                let (old, new) = (std::mem::take(&mut from), key(name));
                let renamed = |name, (old, new): &(Vec<u8>, Vec<u8>)| after(name, old, new);
                let is_known =
                    renames.len() < FEW && renames.iter().fold(old.clone(), renamed) == new;
                let size = bytes + old.len() + new.len();
                if !is_known && renames.len() < MOST && size <= BYTES {
                    bytes = size;
                    renames.push((old, new));
                }
            }
            Code::X | Code::Y | Code::N | Code::D => {}
        }
    }
    renames
}
