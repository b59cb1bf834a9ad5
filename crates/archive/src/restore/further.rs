//! Restores hard links whose targets are not restored: the contents are taken from the archive,
//! never from an existing file of the target's name.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use base::path::split;
use gate::Errno;
use gate::fs::{AtFlags, Open, StatxMask, statx};
use gate::long::{c_string, open_beneath};
use ondisk::pax::Member;

use super::entry::{NewEntry, UnresolvedLink};
use super::maker::no_target;
use super::name_map::{Renames, after};
use super::not_restored::{Failure, NotRestored, RestoreFailure};
use super::restorer::Restorer;
use crate::error::Error;
use crate::input::ChecksumStatus;
use crate::linked::{FoundTarget, HardLinkTarget, Targets, find};
use crate::list::plain;

/// Hard links with the same target.
type LinkGroup = HardLinkTarget<Vec<UnresolvedLink>>;

/// Passes hard-link targets to `find` with each of the `earlier` archives, the last one first, under
/// their names in that archive, and returns those not found. Ends at an archive whose `renames` are
/// unknown.
pub(super) fn find_in_earlier<T>(
    mut targets: Targets<T>,
    earlier: &[Vec<u8>],
    renames: &[Option<Renames>],
    mut find: impl FnMut(&[u8], Targets<T>) -> Result<Targets<T>, Error>,
) -> Result<Targets<T>, Error> {
    for (nth, archive) in earlier.iter().enumerate().rev() {
        let Some(Some(renames)) = renames.get(nth + 1) else {
            break;
        };
        for target in &mut targets {
            target.before = u64::MAX;
            for (old, new) in renames.iter().rev() {
                target.name = after(std::mem::take(&mut target.name), new, old);
            }
        }
        targets = find(archive, targets)?;
    }
    Ok(targets)
}

impl Restorer<'_> {
    /// Restores hard links of the current archive whose targets were not restored.
    ///
    /// # Errors
    /// An archive cannot be read.
    pub(super) fn further_names(&mut self, archives: &[Vec<u8>], nth: usize) -> Result<(), Error> {
        let mut by_target: BTreeMap<Vec<u8>, Vec<UnresolvedLink>> = BTreeMap::new();
        let mut links: Vec<UnresolvedLink> =
            std::mem::take(&mut self.unlinked).into_values().collect();
        links.sort_by_key(|link| link.at);
        for link in links {
            let name = plain(&link.entry.member.link).into_owned();
            by_target.entry(name).or_default().push(link);
        }
        if by_target.is_empty() {
            return Ok(());
        }
        let number = self.number;
        let targets = by_target.into_iter().map(|(name, names)| HardLinkTarget {
            name,
            before: names.first().map_or(0, |first| first.at),
            names,
        });
        let missing = self.find_contents(&archives[nth], targets.collect())?;
        let missing = self.link_to_others(missing);
        let (renames, earlier) = (self.chosen.renames(), &archives[..nth]);
        let find = |archive: &[u8], missing| self.find_contents(archive, missing);
        let missing = find_in_earlier(missing, earlier, &renames, find)?;
        for link in missing.into_iter().flat_map(|target| target.names) {
            let failure = self.no_contents(&link.target);
            self.link_failed(&link, failure);
        }
        self.number = number;
        Ok(())
    }

    /// Restores contents found in an archive under the first selected name of each target, and
    /// links the other names to it.
    fn find_contents(
        &mut self,
        archive: &[u8],
        targets: Vec<LinkGroup>,
    ) -> Result<Vec<LinkGroup>, Error> {
        let (found, missing) = find(archive, targets, |names, found| match (&names[..], found) {
            ([first, ..], FoundTarget::File(member, input)) => {
                self.number = first.entry.number;
                self.maker.remarks.set_member(self.number);
                let NewEntry { path, name, .. } = &first.entry;
                let member = Member {
                    path: first.entry.member.path.clone(),
                    ..*member
                };
                let done = self.enter(split(path).0).map_err(RestoreFailure::One);
                match done.and_then(|()| self.entry(path.clone(), name.clone(), member, input)) {
                    Ok(()) => {}
                    Err(RestoreFailure::One(failure)) => self.link_failed(first, failure),
                    Err(RestoreFailure::All(error)) => {
                        input.skip_damage(error)?;
                        self.has_damaged_data = true;
                        self.link_failed(first, NotRestored::DamagedData.into());
                    }
                }
                self.instead.insert(first.target.clone(), path.clone());
                Ok(())
            }
            ([first, ..], FoundTarget::Checked(ChecksumStatus::Wrong)) => {
                let path = &first.entry.member.path;
                self.maker.remarks.warn(path, NotRestored::WrongChecksum);
                Ok(())
            }
            _ => Ok(()),
        })?;
        for target in found {
            let mut names = target.names.into_iter();
            let first = names
                .next()
                .map(|first| first.entry.path)
                .unwrap_or_default();
            for link in names {
                if let Err(failure) = self.link_to(&link, &first) {
                    self.link_failed(&link, failure);
                }
            }
        }
        Ok(missing)
    }

    /// Links to the name under which an earlier archive has restored a target's contents.
    fn link_to_others(&mut self, targets: Vec<LinkGroup>) -> Vec<LinkGroup> {
        let mut missing = Vec::new();
        for mut target in targets {
            target.names.retain(|link| {
                let first = self.instead.get(&link.target).cloned();
                first.is_none_or(|first| {
                    first != link.entry.path && self.link_to(link, &first).is_err()
                })
            });
            missing.extend((!target.names.is_empty()).then_some(target));
        }
        missing
    }

    fn link_to(&mut self, link: &UnresolvedLink, target: &[u8]) -> Result<(), Failure> {
        self.maker.remarks.set_member(link.entry.number);
        self.enter(split(&link.entry.path).0)?;
        self.link_elsewhere(&link.entry, target)?;
        self.created.add_entry(&link.entry.path);
        Ok(())
    }

    fn link_failed(&mut self, link: &UnresolvedLink, failure: Failure) {
        self.maker.remarks.set_member(link.entry.number);
        self.maker.counts.skipped += 1;
        let entry = &link.entry;
        self.maker.failures.add(&entry.path, entry.is_replacement);
        self.maker.remarks.warn(&link.entry.member.path, failure);
    }

    /// Why a link cannot be restored: its target is in no archive, or in none that can be read
    /// twice.
    fn no_contents(&self, target: &[u8]) -> Failure {
        let (dir, name) = split(target);
        let seen =
            open_beneath(self.top.as_fd(), dir, Open::PATH | Open::DIRECTORY).and_then(|dir| {
                statx(
                    &dir,
                    &c_string(name)?,
                    AtFlags::SYMLINK_NOFOLLOW,
                    StatxMask::TYPE,
                )
            });
        match seen {
            Err(errno @ (Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP)) => {
                no_target(target, errno)
            }
            _ => NotRestored::LinkTarget(target.to_vec()).into(),
        }
    }
}
