//! Chooses the dumps of a state directory to keep, and removes the others.

use std::sync::Arc;

use base::Warning;
use catalog::destination::remove_if;
use catalog::{Reader, remote, trusted};
use gate::{Errno, Fd};
use walk::Moment;
use walk::entry::Time;

use crate::error::{Action, Error, ErrorKind, Result};
use crate::increment::history::History;
use crate::increment::levels::{Level, MOST};
use crate::increment::record::{ArchiveStatus, DumpRecord, catalog_id, catalog_of};
use crate::increment::retention::{KeepReason, Local, NextDump, Policy, RetainedDumps};
use crate::increment::unread::last_with_data;
use crate::warning::WarningKind;

/// The dumps that can be removed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RemovableDumps {
    /// Indexes of the removable dumps in the history.
    pub dumps: Vec<usize>,
    /// Number of older dumps kept because later ones could not read everything.
    pub spared: usize,
}

impl DumpRecord {
    /// Removes the catalog kept beside the archive, if it belongs to this dump.
    fn remove_catalog(&self, archive: &[u8]) -> std::result::Result<(), ErrorKind> {
        let path = catalog_of(archive);
        let has_its_id = |reader: Reader| catalog_id(reader.about()) == self.catalog;
        if remote::is_remote(&path) {
            if Reader::open(&path).is_ok_and(has_its_id) {
                remote::remove(&path)?;
            }
            return Ok(());
        }
        let is_own = |file: &Arc<Fd>| -> std::result::Result<bool, catalog::ErrorKind> {
            trusted::check(&**file)?;
            Ok(Reader::open(&path).is_ok_and(has_its_id))
        };
        match remove_if(&path, is_own) {
            Err(kind) if kind.errno() == Some(Errno::ENOENT) => Ok(()),
            removed => Ok(removed.map(drop)?),
        }
    }

    /// Removes the archive; `false` if the file is a different one.
    fn remove_archive(&self, path: &[u8]) -> std::result::Result<bool, ErrorKind> {
        if !remote::is_remote(path) {
            return remove_if(path, |file| self.is_archive(path, Some(file)));
        }
        let is_archive = self.is_archive(path, None)?;
        if is_archive {
            remote::remove(path)?;
        }
        Ok(is_archive)
    }
}

impl History {
    /// The dumps that can be removed when keeping the last `keep_full` full dumps, and all dumps
    /// that are newer or based on them. A full dump whose archive is missing or damaged does not
    /// count.
    ///
    /// The last complete dump is always kept, and so is the last one with the data of an entry that
    /// later dumps could not read. `statuses` are from [`History::statuses`].
    pub fn unneeded(&self, keep_full: usize, statuses: &[ArchiveStatus]) -> RemovableDumps {
        let full =
            |at: &usize| self.dumps[*at].base.is_none() && statuses[*at] == ArchiveStatus::Present;
        let newest_first = || (0..self.dumps.len()).rev();
        let Some(oldest) = newest_first().filter(full).nth(keep_full.max(1) - 1) else {
            return RemovableDumps::default();
        };
        let mut is_needed = vec![false; self.dumps.len()];
        for at in oldest..self.dumps.len() {
            is_needed[at] = true;
            self.need(at, &mut is_needed);
        }
        let count = |is_needed: &[bool]| is_needed.iter().filter(|is_needed| **is_needed).count();
        let wanted = count(&is_needed);
        let is_restorable = self.restorable(statuses);
        let restorable = newest_first().filter(|&at| is_restorable[at]);
        for at in last_with_data(restorable.map(|at| (at, &self.dumps[at].unread))) {
            self.need(at, &mut is_needed);
        }
        RemovableDumps {
            spared: count(&is_needed) - wanted,
            dumps: (0..oldest).filter(|&at| !is_needed[at]).collect(),
        }
    }

    /// The dumps that a policy keeps: of the restorable ones, those of [`Policy::apply`] and others
    /// that they need. A dump that needs a missing or damaged archive, of which a copy may exist,
    /// is kept until it is older than all of these, or as long as the policy would keep it. `next`
    /// is a dump about to be made: it counts as the newest, and as complete. `statuses` are from
    /// [`History::statuses`].
    pub fn retain(
        &self,
        policy: &Policy,
        next: Option<NextDump>,
        local: &dyn Fn(Time) -> Local,
        statuses: &[ArchiveStatus],
    ) -> RetainedDumps {
        let is_restorable = self.restorable(statuses);
        let candidates: Vec<usize> = (0..self.dumps.len())
            .rev()
            .filter(|&at| is_restorable[at])
            .collect();
        let dates = next.map(|next| next.date);
        let dates = dates
            .into_iter()
            .chain(candidates.iter().map(|&at| self.dumps[at].date));
        let dates: Vec<Local> = dates.map(local).collect();
        let now = Moment::now().time().sec;
        let mut kept = policy.apply(&dates, now).into_iter();
        let new = next.and_then(|_| kept.next()).unwrap_or_default();
        let mut reasons = vec![Vec::new(); self.dumps.len()];
        for (&at, why) in candidates.iter().zip(kept) {
            reasons[at] = why;
        }
        // The next dump, which counts as complete, replaces the last complete one.
        let candidates = candidates.iter().filter(|_| next.is_none());
        let unread = candidates.map(|&at| (at, &self.dumps[at].unread));
        for at in last_with_data(unread) {
            reasons[at].push(match self.dumps[at].unread.is_empty() {
                true => KeepReason::LastComplete,
                false => KeepReason::LastData,
            });
        }
        for at in self.bases_of_next(next) {
            reasons[at].push(KeepReason::NextBase);
        }
        for (at, why) in self.absent(policy, now, next, local, &is_restorable) {
            reasons[at].push(why);
        }
        for at in 0..self.dumps.len() {
            if reasons[at]
                .iter()
                .any(|reason| !matches!(reason, KeepReason::BaseOf(_)))
            {
                let chain = self
                    .chain(at)
                    .into_iter()
                    .flatten()
                    .filter(|&base| base != at);
                chain.for_each(|base| reasons[base].push(KeepReason::BaseOf(at)));
            }
        }
        let oldest = reasons.iter().position(|reasons| !reasons.is_empty());
        for at in oldest.unwrap_or(0)..self.dumps.len() {
            if !is_restorable[at] && reasons[at].is_empty() {
                reasons[at].push(KeepReason::Unrestorable);
            }
        }
        RetainedDumps { new, reasons }
    }

    /// Dumps with missing or damaged archives that a policy would keep if they were restorable.
    fn absent(
        &self,
        policy: &Policy,
        now: i64,
        next: Option<NextDump>,
        local: &dyn Fn(Time) -> Local,
        is_restorable: &[bool],
    ) -> Vec<(usize, KeepReason)> {
        let newest_first = (0..self.dumps.len()).rev();
        let all = newest_first.clone().map(|at| self.dumps[at].date);
        let dates = next.into_iter().map(|next| next.date).chain(all);
        let dates: Vec<Local> = dates.map(local).collect();
        let kept = policy.apply(&dates, now).into_iter();
        let kept = newest_first.zip(kept.skip(usize::from(next.is_some())));
        let absent = kept.filter(|(at, why)| !is_restorable[*at] && !why.is_empty());
        absent
            .map(|(at, _)| (at, KeepReason::Unrestorable))
            .collect()
    }

    /// Removes archives left by a killed dump or removal. The directory must be locked.
    ///
    /// # Errors
    /// An archive cannot be removed.
    pub fn finish_removal(&mut self) -> Result<()> {
        match self.leaving.is_empty() {
            true => Ok(()),
            false => self.remove_leaving().map(drop),
        }
    }

    /// The dumps whose catalogs can be the base of the next dump, or of the one after `next`.
    fn bases_of_next(&self, next: Option<NextDump>) -> Vec<usize> {
        let most = match next {
            None => MOST,
            Some(next) if next.is_full => return Vec::new(),
            Some(_) => 0,
        };
        let level = |number| Level {
            number,
            state: self.state.clone(),
        };
        let catalogs = (0..=most).filter_map(|number| Reader::open(&level(number).catalog()).ok());
        let ids: Vec<String> = catalogs.map(|reader| catalog_id(reader.about())).collect();
        let find = |id: &String| self.dumps.iter().position(|dump| dump.catalog == *id);
        ids.iter().filter_map(find).collect()
    }

    /// Marks a dump and its bases as needed.
    fn need(&self, dump: usize, is_needed: &mut [bool]) {
        let chain = self.chain(dump).into_iter().flatten();
        chain.for_each(|at| is_needed[at] = true);
    }

    /// Removes dumps, with their archives, catalogs and records. A file that was replaced, or is
    /// also the archive of another dump, is kept. A file of the same size and time with a different
    /// id is kept with its record, with a warning. Returns the removed dumps, and the warnings.
    ///
    /// In a directory, the records are marked first, so that even after a kill no dump is listed
    /// without its archive.
    pub fn remove(&mut self, dumps: &[usize]) -> Result<(Vec<usize>, Vec<Warning>)> {
        let mut at = 0;
        let (leaving, stay): (Vec<DumpRecord>, Vec<DumpRecord>) =
            std::mem::take(&mut self.dumps).into_iter().partition(|_| {
                at += 1;
                dumps.contains(&(at - 1))
            });
        self.dumps = stay;
        self.leaving.extend(leaving.into_iter().map(|mut dump| {
            dump.is_leaving = true;
            dump
        }));
        let first = self.leaving.len() - dumps.len();
        let is_local = !remote::is_remote(&self.state);
        if is_local && !dumps.is_empty() {
            self.write()?;
        }
        let (stayed, warnings) = self.remove_leaving()?;
        let removed = dumps.iter().enumerate();
        let removed = removed.filter(|(nth, _)| !stayed.contains(&(first + nth)));
        Ok((removed.map(|(_, &at)| at).collect(), warnings))
    }

    /// Removes the archives marked as leaving, newest first, so that no increment remains without
    /// its base. Returns the indexes of archives kept after all, which count as dumps again.
    ///
    /// # Errors
    /// That of the first archive that cannot be removed: it stays marked. All others are removed.
    fn remove_leaving(&mut self) -> Result<(Vec<usize>, Vec<Warning>)> {
        let (mut warnings, mut stayed) = (Vec::new(), Vec::new());
        let (mut left, mut again, mut failed) = (Vec::new(), Vec::new(), None);
        let leaving = std::mem::take(&mut self.leaving);
        for (at, mut dump) in leaving.into_iter().enumerate().rev() {
            let removed = self.remove_file_of(&dump);
            let archive = dump.archive.clone().unwrap_or_default();
            match removed {
                Ok(true) if dump.is_elsewhere => {
                    warnings.push(Warning::about(&archive, WarningKind::ArchiveElsewhere));
                }
                Ok(true) => {}
                Ok(false) => {
                    warnings.push(Warning::about(&archive, WarningKind::OtherArchive));
                    stayed.push(at);
                    dump.is_leaving = false;
                    again.extend((!dump.catalog.is_empty()).then_some(dump));
                }
                Err(kind) => {
                    failed = Some(Error::new(Action::RemoveArchive, &archive, kind));
                    left.insert(0, dump);
                }
            }
        }
        warnings.reverse();
        self.leaving = left;
        for dump in again {
            let later = self.dumps.iter().position(|other| other.date > dump.date);
            self.dumps.insert(later.unwrap_or(self.dumps.len()), dump);
        }
        self.write()?;
        failed.map_or(Ok((stayed, warnings)), Err)
    }

    /// Removes the archive and the catalog of a dump, unless the file was replaced or another dump
    /// has the same path; `false` if size and time match but the id does not.
    fn remove_file_of(&self, dump: &DumpRecord) -> std::result::Result<bool, ErrorKind> {
        let is_used = self.dumps.iter().any(|other| other.archive == dump.archive);
        let Some(archive) = dump
            .archive
            .as_deref()
            .filter(|_| !is_used && !dump.is_elsewhere)
        else {
            return Ok(true);
        };
        // The record of an archive that was only announced has an id, but no size and time.
        let is_announced = dump.modified == Time::default();
        if is_announced || dump.status().exists() {
            match dump.remove_archive(archive) {
                Err(kind) if kind.errno() == Some(Errno::ENOENT) => {}
                Ok(true) => {}
                other => return other,
            }
        }
        if dump.is_named {
            dump.remove_catalog(archive)?;
        }
        Ok(true)
    }
}
