//! A dry run of a restore. Records the names that would be created, and the current paths of
//! directories that would be renamed, so that it can report what a later archive would remove, and
//! what would fail.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::directory::each_entry;
use base::path::{or_dot, split};
use gate::fs::{AtFlags, FileType, Open, StatxMask, statx};
use gate::long::{c_string, open_beneath};
use gate::{Errno, Fd, Gate};
use ondisk::pax::dumpdir;
use ondisk::pax::{Member, MemberKind};
use walk::entry::{append, joined};

use super::archives::Archives;
use super::further::find_in_earlier;
use super::increment::{ExistingEntry, find_unlisted, not_renamed, renames};
use super::maker::no_target;
use super::name::clean;
use super::name_tree::NameTree;
use super::not_restored::{Failure, NotRestored};
use super::report::{Counts, RestoreMessages, RestoreProgress, RestoreSummary};
use super::selected::SelectedPaths;
use crate::error::Error;
use crate::input::Input;
use crate::linked::{FoundTarget, HardLinkTarget, Targets, find};
use crate::list::plain;

/// A step of a dry run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RestoreStep {
    /// The kind of member restored, or `remove` or `rename`.
    pub what: &'static str,
    /// The path below DIR; empty for DIR itself.
    pub path: Vec<u8>,
    /// The target of a symlink or hard link, or the new name of a directory.
    pub other: Option<Vec<u8>>,
}

/// A name that would be created.
#[derive(Clone, Copy)]
struct MadeName {
    is_directory: bool,
    /// Index of its file in `inodes`; `None` for a directory that existed before, or that no member
    /// describes.
    inode: Option<usize>,
}

/// A file or directory that would be created.
struct MadeInode {
    kind: MemberKind,
    /// Bytes of data, without holes.
    bytes: u64,
    /// Number of names.
    links: u64,
}

/// The hard links to a target, and the target's path.
struct LinkingNames {
    target: Vec<u8>,
    paths: Vec<Vec<u8>>,
}

struct Rehearsal<'a> {
    top: Arc<Fd>,
    /// The names that would be created.
    made: NameTree<MadeName>,
    /// The files and directories that would be created.
    inodes: Vec<MadeInode>,
    /// Names that cannot be created.
    failed: NameTree<()>,
    /// Directories that would be renamed, by new path, as indexes of `origins`. `None` for paths
    /// that would be removed or renamed away.
    places: NameTree<Option<usize>>,
    /// Current paths on disk of renamed directories.
    origins: Vec<Vec<u8>>,
    /// The parent directory of the last member.
    above: Option<(Vec<u8>, ParentState)>,
    /// A rename of this archive would fail, so nothing would be removed.
    keeps_all: bool,
    chosen: SelectedPaths,
    remarks: RestoreMessages,
    counts: Counts,
    /// Hard links of the current archive whose targets are not selected, by the target's name in
    /// the archive.
    unlinked: BTreeMap<Vec<u8>, HardLinkTarget<LinkingNames>>,
    /// As in a restore: for each target, the first name under which its contents would be restored.
    instead: HashMap<Vec<u8>, Vec<u8>>,
    is_later: bool,
    /// Existing entries that would be removed, also those that would be replaced before.
    removed: Vec<Vec<u8>>,
    say: &'a mut dyn FnMut(RestoreStep),
}

/// The state of the directory that a member would be in.
enum ParentState {
    /// The directory is on disk.
    Open(Fd),
    /// The directory would be created.
    New,
    /// No entry can be created in the directory.
    Unusable(Errno),
}

/// Simulates a restore. Returns its summary, and the existing entries that would be removed.
pub(super) fn rehearse(
    mut archives: Archives,
    chosen: SelectedPaths,
    top: Arc<Fd>,
    progress: &RestoreProgress,
    say: &mut dyn FnMut(RestoreStep),
) -> (RestoreSummary, Vec<Vec<u8>>) {
    let mut rehearsal = Rehearsal {
        top,
        made: NameTree::default(),
        inodes: Vec::new(),
        failed: NameTree::default(),
        places: NameTree::default(),
        origins: Vec::new(),
        above: None,
        keeps_all: false,
        chosen,
        remarks: RestoreMessages::default(),
        counts: Counts::default(),
        unlinked: BTreeMap::new(),
        instead: HashMap::new(),
        is_later: false,
        removed: Vec::new(),
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
    let (made, mut removed) = (&rehearsal.made, rehearsal.removed);
    removed.retain(|path| made.get(path).is_none());
    rehearsal.chosen.warn_of_missed(&mut rehearsal.remarks);
    let mut summary = rehearsal.remarks.into_summary(rehearsal.counts, done.err());
    summary.notes.append(&mut archives.take_notes());
    (summary, removed)
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
        self.keeps_all &= input.is_by_fathom();
        done.and(linked)
    }

    fn members(
        &mut self,
        archive: &[u8],
        input: &mut Input,
        progress: &RestoreProgress,
    ) -> Result<(), Error> {
        let mut has_directory = false;
        loop {
            let next = input.next_or_resume();
            let (chosen, remarks) = (&mut self.chosen, &mut self.remarks);
            let may_rename = chosen.take_losses(input, archive, has_directory, remarks);
            chosen.is_incomplete |= next.is_err();
            if may_rename && self.is_later && !self.keeps_all {
                self.keeps_all = true;
                self.remarks.warn(archive, NotRestored::RenamesLost);
            }
            let Some(member) = next? else { break };
            has_directory |= member.kind == MemberKind::Directory;
            let number = progress.members.fetch_add(1, Relaxed);
            self.remarks.set_member(number);
            if member.kind == MemberKind::Label {
                continue;
            }
            match self.chosen.take_member(&member, &mut self.remarks) {
                Ok(Some(path)) => self.member(&path, &member, input.at()),
                Ok(None) => self.pass_by(&member),
                Err(failure) => self.skip(&member.path, failure),
            }
        }
        Ok(())
    }

    fn member(&mut self, path: &[u8], member: &Member, at: u64) {
        let target = match member.kind {
            MemberKind::Link => match self.chosen.take_link(&member.link) {
                // A hard link to its own name needs no work if this run would have restored the
                // file.
                Ok(target) if target == path && self.made.get(path).is_some() => return,
                Ok(target)
                    if self.chosen.has_link(&member.link) && self.failed.get(&target).is_some() =>
                {
                    let reason = NotRestored::LinkTarget(target);
                    return self.skip(&member.path, reason);
                }
                Ok(target)
                    if !self.chosen.has_link(&member.link) || self.made.get(&target).is_none() =>
                {
                    let name = plain(&member.link).into_owned();
                    let new = || HardLinkTarget {
                        name: name.clone(),
                        before: at,
                        names: LinkingNames {
                            target,
                            paths: Vec::new(),
                        },
                    };
                    let known = self.unlinked.entry(name.clone()).or_insert_with(new);
                    return known.names.paths.push(path.to_vec());
                }
                Ok(target) => Some(target),
                Err(reason) => return self.skip(&member.path, reason),
            },
            MemberKind::Label | MemberKind::Continuation => {
                self.failed.insert(path, (), None);
                return self.skip(&member.path, NotRestored::Continuation);
            }
            MemberKind::Symlink => Some(member.link.clone()),
            _ => None,
        };
        self.renames(member);
        self.make(path, member, target.as_deref());
        if let Some(text) = member.dumpdir.as_deref().filter(|_| self.is_later) {
            let name = clean(&member.path).map_or_else(|_| path.to_vec(), |name| name.path);
            self.purge(path, &name, member, text);
        }
    }

    fn make(&mut self, path: &[u8], member: &Member, target: Option<&[u8]>) {
        let is_directory = member.kind == MemberKind::Directory;
        let is_new = !is_directory || self.is_directory(path) != Some(true);
        if let Some(failure) = self.obstacle(path, is_directory) {
            if member.kind != MemberKind::Link {
                self.failed.insert(path, (), None);
            }
            return self.skip(&member.path, failure);
        }
        self.failed.remove(path);
        if is_directory && self.is_later {
            self.remarks.supersede(path, false);
        }
        let counts = &mut self.counts;
        let (what, count) = match member.kind {
            MemberKind::File => ("file", &mut counts.files),
            MemberKind::Directory => ("directory", &mut counts.directories),
            MemberKind::Symlink => ("symlink", &mut counts.symlinks),
            MemberKind::Link => ("link", &mut counts.links),
            MemberKind::Char => ("character device", &mut counts.other),
            MemberKind::Block => ("block device", &mut counts.other),
            MemberKind::Fifo => ("fifo", &mut counts.other),
            MemberKind::Label | MemberKind::Continuation => return,
        };
        let known = self.made.get(path).copied();
        let linked = target.filter(|_| member.kind == MemberKind::Link);
        let linked = linked.and_then(|target| self.made.get(target)?.inode);
        // Neither an existing directory nor a link to the same file is created again.
        let is_same = linked.is_some() && known.is_some_and(|known| known.inode == linked);
        *count += u64::from(!is_same && (is_new || !self.is_later));
        let mut bytes = 0;
        if member.kind == MemberKind::File {
            bytes = member.sparse.as_ref().map_or(member.size, |map| map.data());
            counts.bytes = counts.bytes.saturating_add(bytes);
        }
        self.report_step(what, path, target);
        if is_same || !is_new && known.is_some() {
            return;
        }
        known.into_iter().for_each(|known| self.remove_name(known));
        let inode = match linked {
            Some(inode) => {
                self.inodes[inode].links += 1;
                Some(inode)
            }
            None => is_new.then(|| self.add_inode(member.kind, bytes)),
        };
        let made = MadeName {
            is_directory,
            inode,
        };
        self.add_parents(path);
        // A restore creates missing parent directories of a member.
        let above = MadeName {
            is_directory: true,
            inode: None,
        };
        self.made.insert(path, made, Some(above));
    }

    fn add_inode(&mut self, kind: MemberKind, bytes: u64) -> usize {
        let links = 1;
        self.inodes.push(MadeInode { kind, bytes, links });
        self.inodes.len() - 1
    }

    /// Counts the missing parent directories that a later archive would create.
    fn add_parents(&mut self, path: &[u8]) {
        let mut above = split(path).0;
        while self.is_later && !above.is_empty() && self.is_directory(above).is_none() {
            self.counts.directories += 1;
            let inode = Some(self.add_inode(MemberKind::Directory, 0));
            let made = MadeName {
                is_directory: true,
                inode,
            };
            self.made.insert(above, made, None);
            above = split(above).0;
        }
    }

    /// Counts a name of this run that would be removed or replaced.
    fn remove_name(&mut self, made: MadeName) {
        let Some(inode) = made.inode.and_then(|inode| self.inodes.get_mut(inode)) else {
            return;
        };
        let gone = &mut self.remarks.gone;
        inode.links -= 1;
        match inode.kind {
            _ if inode.links > 0 => gone.links += 1,
            MemberKind::File => {
                gone.files += 1;
                gone.bytes = gone.bytes.saturating_add(inode.bytes);
            }
            MemberKind::Directory => gone.directories += 1,
            MemberKind::Symlink => gone.symlinks += 1,
            MemberKind::Link => gone.links += 1,
            _ => gone.other += 1,
        }
    }

    /// Why a member cannot be restored, as far as can be predicted. Records that an existing file
    /// would be replaced.
    fn obstacle(&mut self, path: &[u8], is_directory: bool) -> Option<Failure> {
        if path.is_empty() {
            return None;
        }
        let (above, name) = split(path);
        if self.above.as_ref().is_none_or(|(last, _)| last != above) {
            self.above = Some((above.to_vec(), self.look_above(above)));
        }
        let seen = match (&self.above, self.places.get(path)) {
            (Some((_, ParentState::Unusable(errno))), _) => return Some(Failure::above(*errno)),
            (_, Some(_)) => self.existing_type(path),
            (Some((_, ParentState::Open(dir))), None) => {
                let name = c_string(name).ok()?;
                let seen = statx(dir, &name, AtFlags::SYMLINK_NOFOLLOW, StatxMask::TYPE).ok();
                seen.map(|seen| seen.file_type)
            }
            _ => None,
        };
        let on_disk = seen.map(|kind| kind == FileType::Directory);
        let made = self.made.get(path).map(|made| made.is_directory);
        let is_dir = made.or(on_disk)?;
        if is_dir && !is_directory && !self.is_empty(path) {
            let (call, reason) = (Gate::Unlinkat, NotRestored::DirectoryInTheWay);
            return Some(Failure::call(call, Errno::ENOTEMPTY, reason));
        }
        if is_dir != is_directory {
            self.places.insert(path, None, None);
        }
        None
    }

    fn look_above(&self, dir: &[u8]) -> ParentState {
        if self.made.get(dir).is_some_and(|made| !made.is_directory) {
            return ParentState::Unusable(Errno::ENOTDIR);
        }
        let Some(dir) = self.on_disk(dir) else {
            return ParentState::New;
        };
        let how = Open::PATH | Open::DIRECTORY;
        match open_beneath(self.top.as_fd(), &dir, how) {
            Ok(fd) => ParentState::Open(fd),
            Err(errno @ (Errno::ELOOP | Errno::ENOTDIR)) => ParentState::Unusable(errno),
            Err(_) => ParentState::New,
        }
    }

    /// The current path on disk of a file that would have this path; `None` if it would be removed,
    /// or is on a mount that does not answer.
    fn on_disk(&self, path: &[u8]) -> Option<Vec<u8>> {
        let path = match self.places.nearest(path) {
            None => path.to_vec(),
            Some((place, rest)) => joined(&self.origins[(*place)?], rest),
        };
        self.chosen.check_mount(&path).is_ok().then_some(path)
    }

    /// The type of the existing file that would have this path.
    fn existing_type(&self, path: &[u8]) -> Option<FileType> {
        let path = self.on_disk(path)?;
        let (above, name) = split(&path);
        let how = Open::PATH | Open::DIRECTORY;
        let dir = open_beneath(self.top.as_fd(), above, how).ok()?;
        let name = c_string(or_dot(name)).ok()?;
        let seen = statx(&dir, &name, AtFlags::SYMLINK_NOFOLLOW, StatxMask::TYPE).ok()?;
        Some(seen.file_type)
    }

    /// Whether a path would be a directory; `None` if it would not exist.
    fn is_directory(&self, path: &[u8]) -> Option<bool> {
        let on_disk = || {
            self.existing_type(path)
                .map(|kind| kind == FileType::Directory)
        };
        let made = self.made.get(path).map(|made| made.is_directory);
        made.or_else(on_disk)
    }

    fn is_empty(&self, dir: &[u8]) -> bool {
        self.made.children(dir).next().is_none() && self.entries(dir).is_empty()
    }

    /// Simulates restoring hard links of the current archive whose targets are not selected.
    fn further_names(&mut self, archives: &[Vec<u8>], nth: usize) -> Result<(), Error> {
        let targets = std::mem::take(&mut self.unlinked).into_values().collect();
        let mut missing = self.find_contents(&archives[nth], targets)?;
        missing.retain(|target| {
            let LinkingNames { target, paths } = &target.names;
            let first = self.instead.get(target).cloned();
            let first = first.filter(|first| self.made.get(first).is_some());
            first.iter().for_each(|first| self.link(paths, first));
            first.is_none()
        });
        let (renames, earlier) = (self.chosen.renames(), &archives[..nth]);
        let find = |archive: &[u8], missing| self.find_contents(archive, missing);
        let missing = find_in_earlier(missing, earlier, &renames, find)?;
        for LinkingNames { target, paths } in missing.into_iter().map(|target| target.names) {
            for path in paths {
                let failure = match self.existing_type(&target) {
                    None => no_target(&target, Errno::ENOENT),
                    Some(_) => NotRestored::LinkTarget(target.clone()).into(),
                };
                self.skip(&path, failure);
            }
        }
        Ok(())
    }

    fn find_contents(
        &mut self,
        archive: &[u8],
        targets: Targets<LinkingNames>,
    ) -> Result<Targets<LinkingNames>, Error> {
        let (found, missing) = find(archive, targets, |names, found| {
            if let (FoundTarget::File(member, _), Some(path)) = (found, names.paths.first()) {
                let target = (member.kind == MemberKind::Symlink).then(|| member.link.clone());
                let member = Member {
                    path: path.clone(),
                    ..*member
                };
                self.make(path, &member, target.as_deref());
            }
            Ok(())
        })?;
        for LinkingNames { target, paths } in found.into_iter().map(|target| target.names) {
            if let Some((first, others)) = paths.split_first() {
                self.link(others, first);
                self.instead.insert(target, first.clone());
            }
        }
        Ok(missing)
    }

    fn skip(&mut self, path: &[u8], failure: impl Into<Failure>) {
        self.counts.skipped += 1;
        self.remarks.warn(path, failure);
    }

    fn link(&mut self, paths: &[Vec<u8>], first: &[u8]) {
        for path in paths.iter().filter(|path| *path != first) {
            let link = Member {
                kind: MemberKind::Link,
                ..Member::default()
            };
            self.make(path, &link, Some(first));
        }
    }

    fn report_step(&mut self, what: &'static str, path: &[u8], other: Option<&[u8]>) {
        let (path, other) = (path.to_vec(), other.map(<[u8]>::to_vec));
        (self.say)(RestoreStep { what, path, other });
    }

    /// Simulates an increment's dumpdir of a directory that was not selected, as far as it affects
    /// selected entries.
    fn pass_by(&mut self, member: &Member) {
        self.renames(member);
        if let Some(text) = member.dumpdir.as_deref().filter(|_| self.is_later)
            && let Ok(name) = clean(&member.path)
            && let Some(place) = self.chosen.place(&name.path)
            && self.chosen.below(&place).next().is_some()
            && self.is_directory(&place) == Some(true)
        {
            self.purge(&place, &name.path, member, text);
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
            let seen = (self.is_directory(&from), self.is_directory(&to));
            let errno = match seen {
                _ if from == b"\0" => None,
                // A missing directory is no error if it was not selected, or would move with a
                // renamed parent.
                (None, to) if !self.chosen.is_all() || to == Some(true) => continue,
                (None, _) => Some(Errno::ENOENT),
                (Some(true), Some(true)) if !self.is_empty(&to) => Some(Errno::ENOTEMPTY),
                (Some(true), Some(false)) => Some(Errno::ENOTDIR),
                _ => None,
            };
            if let Some(errno) = errno {
                self.keeps_all = true;
                let failure = not_renamed(&from, Gate::Renameat2, errno, self.counts.skipped > 0);
                self.remarks.warn(&to, failure);
                continue;
            }
            self.report_step("rename", &from, Some(&to));
            self.counts.renamed += 1;
            self.above = None;
            let place = self.on_disk(&from).map(|origin| {
                self.origins.push(origin);
                self.origins.len() - 1
            });
            self.places.remove(&to);
            self.places.rename(&from, &to);
            if self.places.get(&to).is_none() {
                self.places.insert(&to, place, None);
            }
            self.places.insert(&from, None, None);
            self.add_parents(&to);
            // An empty directory of the new name is replaced.
            if self.made.children(&to).next().is_none() {
                let replaced = self.made.remove(&to).0;
                replaced.into_iter().for_each(|it| self.remove_name(it));
            }
            self.made.rename(&from, &to);
        }
    }

    fn purge(&mut self, path: &[u8], dir: &[u8], member: &Member, text: &[u8]) {
        let Some(said) = dumpdir::entries(text) else {
            return self.skip(&member.path, NotRestored::BadDumpdir);
        };
        let mut present = self.entries(path);
        // The temporary directory of renames is not in any dumpdir.
        let made = self.made.children(path);
        let made = made.filter(|(name, _)| *name != b"\0");
        present.extend(made.map(|(name, made)| (name.to_vec(), made.is_directory)));
        let present = present.into_iter();
        let present = present.map(|(name, is_directory)| ExistingEntry::new(name, is_directory));
        let (names, chosen, remarks) = ((path, dir), &self.chosen, &mut self.remarks);
        let unlisted = find_unlisted(present.collect(), said, names, chosen, |_| false, remarks);
        let mut gone: Vec<Vec<u8>> = Vec::new();
        for ExistingEntry { name, listed, .. } in unlisted {
            let (whole, was) = (joined(path, &name), joined(dir, &listed));
            let removed = self.chosen.removed_with(&whole, &was).into_iter();
            gone.extend(removed.filter(|it| *it == whole || self.made.get(it).is_some()));
        }
        for whole in gone {
            if self.keeps_all {
                self.remarks.warn(&whole, NotRestored::KeptAfterRename);
                continue;
            }
            if self.existing_type(&whole).is_some() {
                let made = self.made.get(&whole);
                let is_ours = made.is_some_and(|made| made.inode.is_some());
                if self.chosen.keeps_existing && !is_ours {
                    self.remarks.warn(&whole, NotRestored::KeptExisting);
                    continue;
                }
                self.removed.push(whole.clone());
            }
            self.report_step("remove", &whole, None);
            self.remarks.supersede(&whole, true);
            let on_disk = self.count_on_disk(&whole);
            let (own, below) = self.made.remove(&whole);
            self.counts.removed += 1 + on_disk + below.len() as u64;
            let names = own.into_iter().chain(below);
            names.for_each(|made| self.remove_name(made));
            self.chosen.forget(&whole);
            self.places.remove(&whole);
            self.places.insert(&whole, None, None);
            self.above = None;
        }
    }

    /// Number of entries below a directory that are only on disk and would be removed with it.
    fn count_on_disk(&self, dir: &[u8]) -> u64 {
        let mut count = 0;
        // A stack of directories to read, each with the length of its parent's path, which is a
        // prefix of the last path.
        let (above, name) = split(dir);
        let mut path = above.to_vec();
        let mut left = vec![(path.len(), name.to_vec())];
        while let Some((len, name)) = left.pop() {
            path.truncate(len);
            append(&mut path, &name);
            for (name, is_directory) in self.entries(&path) {
                count += u64::from(self.made.get(&joined(&path, &name)).is_none());
                left.extend(is_directory.then_some((path.len(), name)));
            }
        }
        count
    }

    /// The existing entries that a directory would have, true for directories; empty if it cannot
    /// be read, or would be removed.
    fn entries(&self, path: &[u8]) -> BTreeMap<Vec<u8>, bool> {
        let moved = self.places.children(path);
        let moved = moved.filter(|(name, _)| self.existing_type(&joined(path, name)).is_some());
        let mut present: BTreeMap<_, _> = moved.map(|(name, _)| (name.to_vec(), true)).collect();
        let Some(origin) = self.on_disk(path) else {
            return present;
        };
        let Ok(dir) = open_beneath(self.top.as_fd(), &origin, Open::SCAN) else {
            return present;
        };
        let _ = each_entry(&dir, |entry| {
            let name = entry.name.to_bytes();
            if self.places.get(&joined(path, name)).is_none() {
                let is_directory = entry.file_type == FileType::Directory;
                present.insert(name.to_vec(), is_directory);
            }
        });
        present
    }
}
