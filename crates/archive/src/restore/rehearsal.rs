//! A dry run. The names that earlier archives of the run would make are kept, so that it can tell
//! which of them a later one would remove.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use gate::Fd;
use gate::fs::{Open, getdents64};
use gate::long::open_beneath;
use ondisk::dirent::{EntryType, entries};
use ondisk::pax::dumpdir::{self, Code};
use ondisk::pax::{Kind, Member};
use walk::entry::{append, joined};

use super::archives::Archives;
use super::further::in_archive_before;
use super::increment::renames;
use super::name::{Chosen, clean};
use super::name_tree::NameTree;
use super::not_restored::NotRestored;
use super::report::{Counts, Remarks, RestoreProgress, RestoreSummary};
use crate::error::Error;
use crate::input::Input;
use crate::linked::{Found, Target, find};
use crate::list::plain;
use crate::split;

/// A step of a restore.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The kind of member that is restored, or `remove` or `rename`.
    pub what: &'static str,
    /// The path below DIR; empty for DIR itself.
    pub path: Vec<u8>,
    /// The target of a symlink, the other name of a link, the new name of a directory.
    pub other: Option<Vec<u8>>,
}

/// The names that link to a target, and the path of that.
struct Names {
    target: Vec<u8>,
    paths: Vec<Vec<u8>>,
}

struct Rehearsal<'a> {
    top: Arc<Fd>,
    /// Whether each name that would have been made is a directory.
    made: NameTree<bool>,
    /// What is on the disk, and would have been removed or renamed.
    gone: NameTree<()>,
    chosen: Chosen,
    remarks: Remarks,
    counts: Counts,
    /// Links of the current archive whose targets are not chosen, by the names of these in it.
    unlinked: BTreeMap<Vec<u8>, Target<Names>>,
    /// As in a restore, the first name under which the contents of a target would be restored.
    instead: HashMap<Vec<u8>, Vec<u8>>,
    is_later: bool,
    /// Whether there are later archives, for which `made` is kept.
    has_later: bool,
    say: &'a mut dyn FnMut(Step),
}

pub(super) fn rehearse(
    mut archives: Archives,
    chosen: Chosen,
    top: Arc<Fd>,
    progress: &RestoreProgress,
    say: &mut dyn FnMut(Step),
) -> RestoreSummary {
    let mut rehearsal = Rehearsal {
        top,
        made: NameTree::default(),
        gone: NameTree::default(),
        chosen,
        remarks: Remarks::default(),
        counts: Counts::default(),
        unlinked: BTreeMap::new(),
        instead: HashMap::new(),
        is_later: false,
        has_later: archives.names().len() > 1,
        say,
    };
    let count = archives.names().len();
    let done = (0..count).try_for_each(|nth| {
        let done = rehearsal.archive(&mut archives, nth, progress);
        let is_last = !archives.are_chain || nth + 1 == count;
        done.or_else(|error| rehearsal.remarks.end_of_archive(error, is_last))?;
        rehearsal.is_later = archives.are_chain;
        rehearsal.chosen.next_archive();
        Ok(())
    });
    rehearsal.chosen.warn_of_missed(&mut rehearsal.remarks);
    let mut summary = rehearsal.remarks.into_summary(rehearsal.counts, done.err());
    summary.notes.append(&mut archives.take_notes());
    summary
}

impl Rehearsal<'_> {
    fn archive(
        &mut self,
        archives: &mut Archives,
        nth: usize,
        progress: &RestoreProgress,
    ) -> Result<(), Error> {
        let mut input = archives.input(nth, &self.chosen)?;
        let done = self.members(&archives.names()[nth], &mut input, progress);
        let linked = self.further_names(archives.names(), nth);
        done.and(linked)
    }

    fn members(
        &mut self,
        archive: &[u8],
        input: &mut Input,
        progress: &RestoreProgress,
    ) -> Result<(), Error> {
        loop {
            let next = input.next();
            self.remarks.defects(archive, input.take_defects());
            let Some(member) = next? else { break };
            progress.members.fetch_add(1, Relaxed);
            if member.kind == Kind::Label {
                continue;
            }
            match self.chosen.take_member(&member, &mut self.remarks) {
                Ok(Some(path)) => self.member(&path, &member, input.at()),
                Ok(None) => self.pass_by(&member),
                Err(failure) => {
                    self.counts.skipped += 1;
                    self.remarks.warn(&member.path, failure);
                }
            }
        }
        Ok(())
    }

    fn member(&mut self, path: &[u8], member: &Member, at: u64) {
        let target = match member.kind {
            Kind::Link => match self.chosen.take_link(&member.link) {
                // A link to itself exists already.
                Ok(target) if target == path => return,
                Ok(target) if !self.chosen.has_link(&member.link) => {
                    let name = plain(&member.link).into_owned();
                    let new = || Target {
                        name: name.clone(),
                        before: at,
                        names: Names {
                            target,
                            paths: Vec::new(),
                        },
                    };
                    let known = self.unlinked.entry(name.clone()).or_insert_with(new);
                    return known.names.paths.push(path.to_vec());
                }
                Ok(target) => Some(target),
                Err(reason) => {
                    self.counts.skipped += 1;
                    return self.remarks.warn(&member.path, reason);
                }
            },
            Kind::Symlink => Some(member.link.clone()),
            _ => None,
        };
        self.renames(member);
        self.make(path, member, target.as_deref());
        if let Some(text) = member.dumpdir.as_deref().filter(|_| self.is_later) {
            let name = clean(&member.path).map_or_else(|_| path.to_vec(), |name| name.path);
            self.purge(path, &name, text);
        }
    }

    fn make(&mut self, path: &[u8], member: &Member, target: Option<&[u8]>) {
        let counts = &mut self.counts;
        let (what, count) = match member.kind {
            Kind::File => ("file", &mut counts.files),
            Kind::Directory => ("directory", &mut counts.directories),
            Kind::Symlink => ("symlink", &mut counts.symlinks),
            Kind::Link => ("link", &mut counts.links),
            Kind::Char => ("character device", &mut counts.other),
            Kind::Block => ("block device", &mut counts.other),
            Kind::Fifo => ("fifo", &mut counts.other),
            Kind::Label | Kind::Continuation => ("skip", &mut counts.skipped),
        };
        *count += 1;
        if member.kind == Kind::File {
            let data = member.sparse.as_ref().map_or(member.size, |map| map.data());
            counts.bytes = counts.bytes.saturating_add(data);
        }
        self.tell(what, path, target);
        if self.has_later {
            // A restore makes missing directories above a member.
            let is_directory = member.kind == Kind::Directory;
            self.made.insert(path, is_directory, Some(true));
        }
    }

    /// Takes the links of the current archive whose targets are not chosen.
    fn further_names(&mut self, archives: &[Vec<u8>], nth: usize) -> Result<(), Error> {
        let targets = std::mem::take(&mut self.unlinked).into_values().collect();
        let mut missing = self.find_contents(&archives[nth], targets)?;
        missing.retain(|target| {
            let Names { target, paths } = &target.names;
            let first = self.instead.get(target).cloned();
            let first = first.filter(|first| self.made.get(first).is_some());
            first.iter().for_each(|first| self.link(paths, first));
            first.is_none()
        });
        let renames = self.chosen.renames();
        let mut archive = nth;
        while let Some(earlier) = in_archive_before(&mut missing, archive, &renames) {
            archive = earlier;
            missing = self.find_contents(&archives[archive], missing)?;
        }
        for Names { target, paths } in missing.into_iter().map(|target| target.names) {
            for path in paths {
                self.counts.skipped += 1;
                let reason = NotRestored::LinkTarget(target.clone());
                self.remarks.warn(&path, reason);
            }
        }
        Ok(())
    }

    fn find_contents(
        &mut self,
        archive: &[u8],
        targets: Vec<Target<Names>>,
    ) -> Result<Vec<Target<Names>>, Error> {
        let (found, missing) = find(archive, targets, |names, found| {
            if let (Found::File(member, _), Some(path)) = (found, names.paths.first()) {
                let target = (member.kind == Kind::Symlink).then_some(&member.link[..]);
                self.make(path, &member, target);
            }
            Ok(())
        })?;
        for Names { target, paths } in found.into_iter().map(|target| target.names) {
            if let Some((first, others)) = paths.split_first() {
                self.link(others, first);
                self.instead.insert(target, first.clone());
            }
        }
        Ok(missing)
    }

    fn link(&mut self, paths: &[Vec<u8>], first: &[u8]) {
        for path in paths.iter().filter(|path| *path != first) {
            let link = Member {
                kind: Kind::Link,
                ..Member::default()
            };
            self.make(path, &link, Some(first));
        }
    }

    fn tell(&mut self, what: &'static str, path: &[u8], other: Option<&[u8]>) {
        let (path, other) = (path.to_vec(), other.map(<[u8]>::to_vec));
        (self.say)(Step { what, path, other });
    }

    /// Takes what an increment has of a directory that was not chosen, as far as it is about what
    /// was.
    fn pass_by(&mut self, member: &Member) {
        self.renames(member);
        if let Some(text) = member.dumpdir.as_deref().filter(|_| self.is_later)
            && let Ok(name) = clean(&member.path)
            && let Some(place) = self.chosen.place(&name.path)
        {
            self.purge(&place, &name.path, text);
        }
    }

    fn renames(&mut self, member: &Member) {
        let Some(text) = member.dumpdir.as_deref().filter(|_| self.is_later) else {
            return;
        };
        for (from, to) in renames(text) {
            if from != b"\0" && !self.chosen.has_in(&from) {
                continue;
            }
            self.tell("rename", &from, Some(&to));
            self.counts.renamed += 1;
            self.gone.insert(&from, (), None);
            self.made.rename(&from, &to);
        }
    }

    fn purge(&mut self, path: &[u8], dir: &[u8], text: &[u8]) {
        let mut present = self.on_disk(path);
        // The temporary directory of renames is no entry.
        let made = self.made.children(path);
        let made = made.filter(|(name, _)| *name != b"\0");
        present.extend(made.map(|(name, is_directory)| (name.to_vec(), *is_directory)));
        // By the names that the list has.
        let listed = |(name, is_directory): (Vec<u8>, bool)| {
            Some((self.chosen.listed(dir, path, &name)?, (name, is_directory)))
        };
        let mut present: BTreeMap<_, _> = present.into_iter().filter_map(listed).collect();
        for (code, name) in dumpdir::entries(text).into_iter().flatten() {
            let is_directory = present.get(name).map(|(_, is_directory)| *is_directory);
            let stays = match code {
                Code::Y => is_directory == Some(false),
                Code::D => is_directory == Some(true),
                Code::N => true,
                Code::R | Code::T | Code::X => false,
            };
            if stays {
                present.remove(name);
            }
        }
        let mut gone: Vec<Vec<u8>> = Vec::new();
        for (listed, (name, _)) in present {
            let (whole, was) = (joined(path, &name), joined(dir, &listed));
            if self.chosen.has(&whole) {
                gone.extend((!self.chosen.has_ahead(&whole, &was)).then_some(whole));
            } else {
                let is_made = |gone: &[u8]| self.made.get(gone).is_some();
                let below = self.chosen.below(&whole);
                let below = below.filter(|gone| is_made(gone) && !self.chosen.is_ahead(gone, &was));
                gone.extend(below.map(<[u8]>::to_vec));
            }
        }
        for whole in gone {
            self.tell("remove", &whole, None);
            let on_disk = self.count_on_disk(&whole);
            self.counts.removed += 1 + on_disk + self.made.remove(&whole);
            self.gone.insert(&whole, (), None);
        }
    }

    /// The number of names below a directory that would be removed with it and are only on the disk.
    fn count_on_disk(&self, dir: &[u8]) -> u64 {
        let mut count = 0;
        // Directories to be read, each with the length of the path of the one that it is in: the last path begins with it.
        let (above, name) = split(dir);
        let mut path = above.to_vec();
        let mut left = vec![(path.len(), name.to_vec())];
        while let Some((len, name)) = left.pop() {
            path.truncate(len);
            append(&mut path, &name);
            for (name, is_directory) in self.on_disk(&path) {
                count += u64::from(self.made.get(&joined(&path, &name)).is_none());
                left.extend(is_directory.then_some((path.len(), name)));
            }
        }
        count
    }

    /// Whether each entry of a directory is a directory; empty if it cannot be read, or would be gone.
    fn on_disk(&self, path: &[u8]) -> BTreeMap<Vec<u8>, bool> {
        let mut present = BTreeMap::new();
        if self.gone.get_along(path).next().is_some() {
            return present;
        }
        let open = if path.is_empty() { b"." } else { path };
        let Ok(dir) = open_beneath(self.top.as_fd(), open, Open::SCAN) else {
            return present;
        };
        let mut buffer = vec![0; 32 << 10];
        while let Ok(n @ 1..) = getdents64(&dir, &mut buffer) {
            for entry in entries(&buffer[..n.min(buffer.len())]) {
                let name = entry.name.to_bytes();
                if self.gone.get(&joined(path, name)).is_none() {
                    let is_directory = entry.entry_type == EntryType::Directory;
                    present.insert(name.to_vec(), is_directory);
                }
            }
        }
        present
    }
}
