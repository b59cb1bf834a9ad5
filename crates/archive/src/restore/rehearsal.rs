//! A dry run. The names that earlier archives of the run would make are kept, so that it can tell
//! which of them a later one would remove.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use gate::Fd;
use gate::fs::{Open, getdents64};
use gate::long::open_beneath;
use ondisk::dirent::{EntryType, entries};
use ondisk::pax::dumpdir::{self, Code};
use ondisk::pax::{Kind, Member};
use walk::entry::joined;

use super::increment::renames;
use super::name::{Chosen, clean, inside, key, starting_with, take_tree};
use super::report::{Counts, Remarks, RestoreProgress, RestoreSummary};
use crate::error::Error;
use crate::input::Input;

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

struct Rehearsal<'a> {
    top: Arc<Fd>,
    /// Whether each name that would have been made is a directory, by [`key`].
    made: BTreeMap<Vec<u8>, bool>,
    chosen: Chosen,
    remarks: Remarks,
    counts: Counts,
    is_later: bool,
    /// Whether there are later archives, for which `made` is kept.
    has_later: bool,
    say: &'a mut dyn FnMut(Step),
}

pub(super) fn rehearse(
    (archives, is_chain): (&[Vec<u8>], bool),
    chosen: Chosen,
    top: Arc<Fd>,
    progress: &RestoreProgress,
    say: &mut dyn FnMut(Step),
) -> RestoreSummary {
    let mut rehearsal = Rehearsal {
        top,
        made: BTreeMap::new(),
        chosen,
        remarks: Remarks::default(),
        counts: Counts::default(),
        is_later: false,
        has_later: archives.len() > 1,
        say,
    };
    let done = archives.iter().enumerate().try_for_each(|(n, archive)| {
        let done = rehearsal.archive(archive, progress);
        let is_last = !is_chain || n + 1 == archives.len();
        done.or_else(|error| rehearsal.remarks.end_of_archive(error, is_last))?;
        rehearsal.is_later = is_chain;
        rehearsal.chosen.next_archive();
        Ok(())
    });
    rehearsal.chosen.warn_of_missed(&mut rehearsal.remarks);
    rehearsal.remarks.into_summary(rehearsal.counts, done.err())
}

impl Rehearsal<'_> {
    fn archive(&mut self, archive: &[u8], progress: &RestoreProgress) -> Result<(), Error> {
        let mut input = Input::open(archive)?;
        loop {
            let next = input.next();
            self.remarks.defects(archive, input.take_defects());
            let Some(member) = next? else { break };
            progress.members.fetch_add(1, Relaxed);
            if member.kind == Kind::Label {
                continue;
            }
            match self.chosen.take_member(&member, &mut self.remarks) {
                Ok(Some(path)) => self.member(&path, &member),
                Ok(None) => self.pass_by(&member),
                Err(failure) => {
                    self.counts.skipped += 1;
                    self.remarks.warn(&member.path, failure);
                }
            }
        }
        Ok(())
    }

    fn member(&mut self, path: &[u8], member: &Member) {
        let target = match member.kind {
            Kind::Link => match self.chosen.take_link(&member.link) {
                // A link to itself exists already.
                Ok(target) if target == path => return,
                Ok(target) => Some(target),
                Err(reason) => {
                    self.counts.skipped += 1;
                    return self.remarks.warn(&member.path, reason);
                }
            },
            Kind::Symlink => Some(member.link.clone()),
            _ => None,
        };
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
            counts.bytes += member.sparse.as_ref().map_or(member.size, |map| map.data());
        }
        self.renames(member);
        self.tell(what, path, target.as_deref());
        if self.has_later {
            self.made.insert(key(path), member.kind == Kind::Directory);
        }
        if let Some(text) = member.dumpdir.as_deref().filter(|_| self.is_later) {
            let name = clean(&member.path).map_or_else(|_| path.to_vec(), |name| name.path);
            self.purge(path, &name, text);
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
            let (from, to) = (key(&from), key(&to));
            for (old, is_directory) in take_tree(&mut self.made, &from) {
                let new = [&to[..], &old[from.len()..]].concat();
                self.made.insert(new, is_directory);
            }
        }
    }

    fn purge(&mut self, path: &[u8], dir: &[u8], text: &[u8]) {
        let inside = inside(path);
        let mut present = self.on_disk(path);
        for (name, is_directory) in starting_with(&self.made, inside.clone()) {
            let name = &name[inside.len()..];
            if !name.is_empty() && !name.contains(&0) {
                present.insert(name.to_vec(), *is_directory);
            }
        }
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
                let is_made = |gone: &[u8]| self.made.contains_key(&key(gone));
                let below = self.chosen.below(&whole);
                let below = below.filter(|gone| is_made(gone) && !self.chosen.is_ahead(gone, &was));
                gone.extend(below.map(<[u8]>::to_vec));
            }
        }
        for whole in gone {
            self.tell("remove", &whole, None);
            self.counts.removed += 1;
            take_tree(&mut self.made, &key(&whole));
        }
    }

    /// Whether each entry of a directory is a directory; empty if it cannot be read.
    fn on_disk(&self, path: &[u8]) -> BTreeMap<Vec<u8>, bool> {
        let mut present = BTreeMap::new();
        let path = if path.is_empty() { b"." } else { path };
        let Ok(dir) = open_beneath(self.top.as_fd(), path, Open::SCAN) else {
            return present;
        };
        let mut buffer = vec![0; 32 << 10];
        while let Ok(n @ 1..) = getdents64(&dir, &mut buffer) {
            for entry in entries(&buffer[..n.min(buffer.len())]) {
                present.insert(
                    entry.name.to_bytes().to_vec(),
                    entry.entry_type == EntryType::Directory,
                );
            }
        }
        present
    }
}
