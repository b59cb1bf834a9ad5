//! Restores members one by one: directories in the reader, and their entries by a [`Maker`], in the
//! reader or a worker.

use std::ffi::{CStr, CString};
use std::os::fd::AsFd;
use std::sync::Arc;

use base::path::split;
use gate::create::mkdirat;
use gate::file::unlinkat;
use gate::fs::Open;
use gate::long::{c_string, open_beneath};
use gate::{Errno, Fd, Gate};
use ondisk::pax::{Member, MemberKind};

use super::attributes::InheritedAttributes;
use super::entry::{NewEntry, UnresolvedLink};
use super::maker::{TRIES, no_target};
use super::name::clean;
use super::not_restored::{Failure, NotRestored, RestoreFailure};
use super::remove::restored;
use super::restorer::Restorer;
use super::rights::ALL;
use crate::input::Input;

impl Restorer<'_> {
    pub(super) fn directory(&mut self, path: &[u8], member: &Member) -> Result<(), Failure> {
        let dumpdir = member.dumpdir.as_deref().filter(|_| self.is_later);
        if let Some(dumpdir) = dumpdir {
            self.renames(path, dumpdir);
        }
        let mut is_added = !self.is_later;
        if path.is_empty() {
            self.leave_all();
            self.workers.wait_for_below(b"");
            let top = Arc::clone(&self.top);
            let how = (InheritedAttributes::default(), self.is_later);
            self.top_state = self.maker.give_early(&top, b".", member, false, how);
        } else {
            let (above, name) = split(path);
            self.enter(above)?;
            self.wait_for(path);
            let here = self.here()?;
            let inherited = self.directory_state().traits.inherits;
            let c_name = c_string(name).map_err(Failure::above)?;
            let (fd, is_new) = self.make_directory(&here, &c_name, path)?;
            is_added |= is_new;
            if is_new {
                self.created.add_directory(path);
            }
            let how = (inherited, self.is_later);
            let state = self.maker.give_early(&fd, path, member, is_new, how);
            self.push(name, fd, state);
            if self.is_later && self.maker.failures.are_any() {
                self.maker.remarks.supersede(path, false);
            }
        }
        self.maker.counts.directories += u64::from(is_added);
        if let Some(dumpdir) = dumpdir {
            let name = clean(&member.path).map_or_else(|_| path.to_vec(), |name| name.path);
            self.purge(path, &name, dumpdir)?;
        }
        Ok(())
    }

    /// Opens a directory, or creates it in place of any other file; also returns whether it is new.
    fn make_directory(
        &mut self,
        here: &Fd,
        name: &CStr,
        path: &[u8],
    ) -> Result<(Fd, bool), Failure> {
        let failed = |gate, errno, reason| Err(Failure::call(gate, errno, reason));
        for _ in 0..TRIES {
            match self.open_directory(here, name, true) {
                Ok((fd, ..)) => return Ok((fd, false)),
                Err(Errno::ENOENT) => {}
                Err(Errno::ELOOP | Errno::ENOTDIR) => {
                    let seen = restored(self.own_files(), path, here, name);
                    match unlinkat(here, name) {
                        Ok(()) => self.maker.remarks.count_gone(seen),
                        Err(Errno::ENOENT | Errno::EISDIR) => {}
                        Err(e) => return failed(Gate::Unlinkat, e, NotRestored::InTheWay),
                    }
                }
                Err(e) => return failed(Gate::Openat2, e, NotRestored::DirectoryNotOpened),
            }
            match mkdirat(here, name, ALL) {
                Ok(()) => match open_beneath(here.as_fd(), name.to_bytes(), Open::SCAN) {
                    Ok(fd) => return Ok((fd, true)),
                    Err(Errno::ENOENT | Errno::ELOOP | Errno::ENOTDIR) => {}
                    Err(e) => return failed(Gate::Openat2, e, NotRestored::NewDirectoryNotOpened),
                },
                Err(Errno::EEXIST) => {}
                Err(e) => return failed(Gate::Mkdirat, e, NotRestored::DirectoryNotMade),
            }
        }
        Err(NotRestored::NameTaken.into())
    }

    /// Restores an entry of the current directory, in the reader or a worker.
    pub(super) fn entry(
        &mut self,
        path: Vec<u8>,
        name: CString,
        member: Member,
        input: &mut Input,
    ) -> Result<(), RestoreFailure> {
        self.workers.wait_for_below(&path);
        self.unlinked.remove(&path);
        let is_replacement = self.created.has(&path);
        if !is_replacement && member.kind != MemberKind::Link {
            self.created.add_entry(&path);
        }
        let mut entry = NewEntry::new(self.number, path, name, member);
        entry.is_replacement = is_replacement;
        match entry.member.kind {
            MemberKind::File if self.workers.is_empty() || !entry.is_small() => {
                self.wait_for(&entry.path);
                return self.file(&entry, input);
            }
            MemberKind::File => {
                let mut contents = input.contents(&entry.member);
                while let Some((_, piece)) = contents.next()? {
                    entry.data.extend_from_slice(piece);
                }
            }
            MemberKind::Link => {
                let target = self.chosen.take_link(&entry.member.link);
                let target = target.map_err(Failure::from)?;
                // A hard link to its own name needs no work if this run has restored the file.
                if target == entry.path && self.created.has(&target) {
                    return Ok(());
                }
                if !self.chosen.has_link(&entry.member.link) || !self.created.has(&target) {
                    let at = input.at();
                    let path = entry.path.clone();
                    self.unlinked
                        .insert(path, UnresolvedLink { entry, target, at });
                    return Ok(());
                }
                self.created.add_entry(&entry.path);
                if split(&target).0 != self.trail.path() {
                    return Ok(self.link_elsewhere(&entry, &target)?);
                }
                entry.target = target;
            }
            MemberKind::Symlink | MemberKind::Char | MemberKind::Block | MemberKind::Fifo => {}
            MemberKind::Directory | MemberKind::Label | MemberKind::Continuation => {
                return Err(Failure::from(NotRestored::Continuation).into());
            }
        }
        if entry.is_small() {
            return Ok(self.defer(entry)?);
        }
        // The link's target, or a file of the same name, may be in a batch that is not done.
        self.finish_here();
        Ok(self.create(&entry)?)
    }

    /// Restores a file while reading its data.
    fn file(&mut self, entry: &NewEntry, input: &mut Input) -> Result<(), RestoreFailure> {
        let here = self.here()?;
        let mut file = self.maker.begin_file(&here, &entry.member)?;
        let mut contents = input.contents(&entry.member);
        while let Some((offset, piece)) = contents.next()? {
            self.maker.write(&mut file, offset, piece)?;
        }
        Ok(self.in_place(|maker, place| maker.finish_file(place, entry, file))?)
    }

    /// Restores a hard link to a file in another directory.
    pub(super) fn link_elsewhere(
        &mut self,
        entry: &NewEntry,
        target: &[u8],
    ) -> Result<(), Failure> {
        let dir = split(target).0;
        self.wait_for(&entry.path);
        self.wait_for(target);
        let here = self.here()?;
        let from = match &self.linked {
            Some((known, fd)) if known == dir => Arc::clone(fd),
            _ => {
                let how = Open::PATH | Open::DIRECTORY;
                let fd = open_beneath(self.top.as_fd(), dir, how);
                let fd = fd.map_err(|e| no_target(target, e))?;
                let (_, fd) = self.linked.insert((dir.to_vec(), Arc::new(fd)));
                Arc::clone(fd)
            }
        };
        self.maker.link(&here, entry, &from, target)
    }
}
