//! `--dry-run`: what would be done, and nothing of it.
//!
//! What earlier archives of the same run would have made is kept by name, so that what a later one
//! would take away of it can be said. What is on the disk goes by its names as they are.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::os::fd::AsFd;
use std::rc::Rc;

use gate::Fd;
use gate::fs::{Open, getdents64};
use gate::long::open_beneath;
use ondisk::dirent::{EntryType, entries};
use ondisk::pax::dumpdir::{self, Code};
use ondisk::pax::{Kind, Member};

use super::increment::pairs;
use super::name::{Chosen, clean, join, key};
use super::{Counts, Remarks, RestoreOptions, RestoreProgress, RestoreSummary, missed, taken};
use crate::error::Error;
use crate::input::Input;

/// One thing that would be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// What, in a word: `file`, `remove`.
    pub what: &'static str,
    /// The name that it is done to, beneath DIR; empty for DIR itself.
    pub path: Vec<u8>,
    /// The target of a symlink, the other name of a link, the new name of a directory.
    pub other: Option<Vec<u8>>,
}

/// The tree as it would be.
struct Rehearsal<'a> {
    top: Rc<Fd>,
    /// What would have been made, and whether it is a directory, by names in which NUL stands for
    /// the slash: so all that is in a directory follows it.
    made: BTreeMap<Vec<u8>, bool>,
    chosen: Chosen,
    remarks: Remarks,
    counts: Counts,
    is_later: bool,
    /// Whether there are later archives, for which `made` is kept.
    has_later: bool,
    say: &'a mut dyn FnMut(Step),
}

/// Says what a restore would do.
pub(super) fn rehearse(
    options: &RestoreOptions,
    chosen: Chosen,
    top: Rc<Fd>,
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
        has_later: options.archives.len() > 1,
        say,
    };
    let done = options.archives.iter().try_for_each(|archive| {
        rehearsal.archive(archive, progress)?;
        rehearsal.is_later = true;
        rehearsal.chosen.next_archive();
        Ok(())
    });
    let Rehearsal {
        chosen,
        mut remarks,
        counts,
        ..
    } = rehearsal;
    missed(chosen, &mut remarks);
    let (warnings, notes) = remarks.into_parts();
    RestoreSummary {
        counts,
        warnings,
        notes,
        stopped: done.err(),
    }
}

impl Rehearsal<'_> {
    fn archive(&mut self, archive: &[u8], progress: &RestoreProgress) -> Result<(), Error> {
        let mut input = Input::open(archive)?;
        while let Some(member) = input.next()? {
            progress.count_member();
            if member.kind == Kind::LABEL {
                continue;
            }
            match taken(&member, &mut self.chosen, &mut self.remarks) {
                Ok(Some(path)) => self.member(&path, &member),
                Ok(None) => self.pass_by(&member),
                Err(trouble) => {
                    self.counts.skipped += 1;
                    self.remarks.warn(&member.path, trouble);
                }
            }
        }
        Ok(())
    }

    fn member(&mut self, path: &[u8], member: &Member) {
        // A name that is to be another one of itself is there by then.
        if member.kind == Kind::Link && clean(&member.link).is_ok_and(|link| link.path == path) {
            return;
        }
        let counts = &mut self.counts;
        let (what, count) = match member.kind {
            Kind::File => ("file", &mut counts.files),
            Kind::Directory => ("directory", &mut counts.directories),
            Kind::Symlink => ("symlink", &mut counts.symlinks),
            Kind::Link => ("link", &mut counts.links),
            Kind::Char => ("character device", &mut counts.other),
            Kind::Block => ("block device", &mut counts.other),
            Kind::Fifo => ("fifo", &mut counts.other),
            Kind::Unknown(_) => ("leave out", &mut counts.skipped),
        };
        *count += 1;
        if member.kind == Kind::File {
            counts.bytes += member.sparse.as_ref().map_or(member.size, |map| map.data());
        }
        self.renames(member);
        let other = matches!(member.kind, Kind::Symlink | Kind::Link).then_some(&member.link[..]);
        (self.say)(Step {
            what,
            path: path.to_vec(),
            other: other.map(<[u8]>::to_vec),
        });
        if self.has_later {
            self.made.insert(key(path), member.kind == Kind::Directory);
        }
        if let Some(text) = member.dumpdir.as_deref().filter(|_| self.is_later) {
            let name = clean(&member.path).map_or_else(|_| path.to_vec(), |name| name.path);
            self.purge(path, &name, text);
        }
    }

    /// What an increment says of a directory that was not chosen, as far as it is about what was.
    fn pass_by(&mut self, member: &Member) {
        self.renames(member);
        let place = clean(&member.path)
            .ok()
            .and_then(|name| Some((self.chosen.place(&name.path)?, name.path)));
        if let Some(text) = member.dumpdir.as_deref().filter(|_| self.is_later)
            && let Some((place, name)) = place
        {
            self.purge(&place, &name, text);
        }
    }

    fn renames(&mut self, member: &Member) {
        let Some(text) = member.dumpdir.as_deref().filter(|_| self.is_later) else {
            return;
        };
        for (from, to) in pairs(text)
            .iter()
            .filter(|(from, _)| from == b"\0" || self.chosen.has_in(from))
        {
            (self.say)(Step {
                what: "rename",
                path: from.to_vec(),
                other: Some(to.to_vec()),
            });
            self.counts.renamed += 1;
            let (from, to) = (key(from), key(to));
            for (old, is_directory) in self.below(&from) {
                self.made.remove(&old);
                self.made
                    .insert([&to[..], &old[from.len()..]].concat(), is_directory);
            }
        }
    }

    /// What would have been made under a name and below it.
    fn below(&self, key: &[u8]) -> Vec<(Vec<u8>, bool)> {
        let from = self
            .made
            .range::<[u8], _>((Bound::Included(key), Bound::Unbounded));
        let is_below = |name: &[u8]| matches!(name.strip_prefix(key), Some([] | [0, ..]));
        from.take_while(|(name, _)| name.starts_with(key))
            .filter(|(name, _)| is_below(name))
            .map(|(name, is_directory)| (name.clone(), *is_directory))
            .collect()
    }

    fn purge(&mut self, path: &[u8], dir: &[u8], text: &[u8]) {
        let inside = if path.is_empty() {
            Vec::new()
        } else {
            [&key(path)[..], b"\0"].concat()
        };
        let mut present = self.on_disk(path);
        let from = self
            .made
            .range::<[u8], _>((Bound::Included(&inside[..]), Bound::Unbounded));
        for (name, is_directory) in from.take_while(|(name, _)| name.starts_with(&inside)) {
            let name = &name[inside.len()..];
            if !name.is_empty() && !name.contains(&0) {
                present.insert(name.to_vec(), *is_directory);
            }
        }
        // By the names that a list has them by.
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
        let gone = present.into_iter().flat_map(|(listed, (name, _))| {
            let (whole, was) = (join(path, &name), join(dir, &listed));
            let is_chosen = self.chosen.has(&whole);
            let is_gone = |gone: &&[u8]| {
                self.made.contains_key(&key(gone)) && !self.chosen.is_ahead(gone, &was)
            };
            let below: Vec<Vec<u8>> = match is_chosen {
                true => Vec::new(),
                false => self
                    .chosen
                    .below(&whole)
                    .filter(is_gone)
                    .map(<[u8]>::to_vec)
                    .collect(),
            };
            let is_ahead = self.chosen.has_ahead(&whole, &was);
            Some(whole)
                .filter(|_| is_chosen && !is_ahead)
                .into_iter()
                .chain(below)
        });
        for whole in gone.collect::<Vec<_>>() {
            (self.say)(Step {
                what: "remove",
                path: whole.clone(),
                other: None,
            });
            self.counts.removed += 1;
            for (gone, _) in self.below(&key(&whole)) {
                self.made.remove(&gone);
            }
        }
    }

    /// What is in a directory now, and whether it is a directory; nothing, where it cannot be read.
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
