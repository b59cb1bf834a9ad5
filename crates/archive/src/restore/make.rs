//! Makes members. Each is a new inode, so that nothing is written through another hard link of a
//! file that has its name; that file is removed first.

use std::ffi::CStr;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use gate::create::{Node, ftruncate, mkdirat, mknodat, pwrite64, symlinkat};
use gate::file::{Fresh, linkat, unlinkat};
use gate::fs::{At, Open, Want, statx};
use gate::long::{c_string, open_beneath};
use gate::{Errno, Fd, Gate};
use ondisk::pax::{Kind, Member};
use std::os::fd::AsFd;

use super::attributes::On;
use super::name::clean;
use super::not_restored::{Failure, Halt, NotRestored};
use super::restorer::{ALL, Restorer};
use crate::input::Input;
use crate::split;

/// Attempts to clear a name that another program keeps taking.
const TRIES: usize = 8;

impl Restorer<'_> {
    pub(super) fn directory(&mut self, path: &[u8], member: &Member) -> Result<(), Failure> {
        let dumpdir = member.dumpdir.as_deref().filter(|_| self.is_later);
        if let Some(dumpdir) = dumpdir {
            self.renames(path, dumpdir);
        }
        if path.is_empty() {
            self.leave_all();
            let top = Rc::clone(&self.top);
            self.top_doing = self.give_early(&top, b".", member, false, false);
        } else {
            let (above, name) = split(path);
            self.enter(above)?;
            let here = self.here()?;
            let inherited = self.doing().inherits;
            let c_name = c_string(name).map_err(Failure::above)?;
            let (fd, is_new) = self.make_directory(&here, &c_name)?;
            let doing = self.give_early(&fd, path, member, is_new, inherited);
            self.trail.push(name, Rc::new(fd), doing);
        }
        self.counts.directories += 1;
        if let Some(dumpdir) = dumpdir {
            let name = clean(&member.path).map_or_else(|_| path.to_vec(), |name| name.path);
            self.purge(path, &name, dumpdir)?;
        }
        Ok(())
    }

    /// Opens a directory, or makes it in the place of any other file; also whether it is new.
    fn make_directory(&self, here: &Fd, name: &CStr) -> Result<(Fd, bool), Failure> {
        let opening = |reason| move |e| Failure::call(Gate::Openat2, e, reason);
        for _ in 0..TRIES {
            match self.open_directory(here, name, true) {
                Ok((fd, ..)) => return Ok((fd, false)),
                Err(Errno::ENOENT) => {}
                Err(Errno::ELOOP | Errno::ENOTDIR) => match unlinkat(here, name) {
                    Ok(()) | Err(Errno::ENOENT | Errno::EISDIR) => {}
                    Err(e) => return Err(Failure::call(Gate::Unlinkat, e, NotRestored::InTheWay)),
                },
                Err(e) => return Err(opening(NotRestored::DirectoryNotOpened)(e)),
            }
            match mkdirat(here, name, ALL) {
                Ok(()) => match open_beneath(here.as_fd(), name.to_bytes(), Open::SCAN) {
                    Ok(fd) => return Ok((fd, true)),
                    Err(Errno::ENOENT | Errno::ELOOP | Errno::ENOTDIR) => {}
                    Err(e) => return Err(opening(NotRestored::NewDirectoryNotOpened)(e)),
                },
                Err(Errno::EEXIST) => {}
                Err(e) => {
                    return Err(Failure::call(
                        Gate::Mkdirat,
                        e,
                        NotRestored::DirectoryNotMade,
                    ));
                }
            }
        }
        Err(NotRestored::NameTaken.into())
    }

    pub(super) fn file(
        &mut self,
        path: &[u8],
        name: &CStr,
        member: &Member,
        input: &mut Input,
    ) -> Result<(), Halt> {
        let here = self.here()?;
        let inherits = self.doing().inherits;
        let mode = self.rights.mode(member) & 0o777;
        // Its owner must be allowed to set attributes.
        let is_exact = self.rights.is_root || member.xattrs.is_empty();
        let made = match self.has_unnamed {
            true => Fresh::unnamed(&here, if is_exact { mode } else { mode | 0o600 }),
            false => Ok(None),
        };
        let made = made.and_then(|made| match made {
            Some(fresh) => Ok((fresh, is_exact)),
            None => {
                self.has_unnamed = false;
                Ok((Fresh::named(&here)?, false))
            }
        });
        let (mut fresh, is_exact) =
            made.map_err(|e| Failure::call(Gate::Openat, e, NotRestored::FileNotMade))?;
        if member.sparse.is_some() {
            ftruncate(fresh.fd(), member.size)
                .map_err(|e| Failure::call(Gate::Ftruncate, e, NotRestored::TooLarge))?;
        }
        let mut contents = input.contents(member);
        let mut bytes = 0;
        while let Some((mut offset, mut piece)) = contents.next()? {
            bytes += piece.len() as u64;
            self.progress.bytes.fetch_add(piece.len() as u64, Relaxed);
            while !piece.is_empty() {
                match pwrite64(fresh.fd(), piece, offset) {
                    Ok(n) => {
                        offset += n as u64;
                        piece = &piece[n..];
                    }
                    Err(Errno::EINTR) => {}
                    Err(e) => Err(Failure::call(Gate::Pwrite64, e, NotRestored::NotWritten))?,
                }
            }
        }
        self.give(On::Open(fresh.fd()), path, member, is_exact, inherits);
        self.put(
            &here,
            name,
            |here, name| fresh.publish(here, name),
            Gate::Linkat,
        )?;
        self.counts.files += 1;
        self.counts.bytes += bytes;
        Ok(())
    }

    /// Gives something its name, in the place of whatever has it.
    fn put(
        &self,
        here: &Fd,
        name: &CStr,
        mut make: impl FnMut(&Fd, &CStr) -> gate::Result<()>,
        gate: Gate,
    ) -> Result<(), Failure> {
        for _ in 0..TRIES {
            match make(here, name) {
                Ok(()) => return Ok(()),
                Err(Errno::EEXIST | Errno::EISDIR | Errno::ENOTEMPTY) => self.clear(here, name)?,
                Err(e @ Errno::EPERM) if gate == Gate::Mknodat && !self.rights.is_root => {
                    return Err(Failure::call(gate, e, NotRestored::DeviceTakesRoot));
                }
                Err(e) => return Err(Failure::call(gate, e, NotRestored::NotMade)),
            }
        }
        Err(NotRestored::NameTaken.into())
    }

    pub(super) fn symlink(
        &mut self,
        path: &[u8],
        name: &CStr,
        member: &Member,
    ) -> Result<(), Failure> {
        let here = self.here()?;
        let target = c_string(&member.link)
            .map_err(|e| Failure::call(Gate::Symlinkat, e, NotRestored::BadTarget))?;
        let make = |here: &Fd, name: &CStr| symlinkat(&target, here, name);
        self.put(&here, name, make, Gate::Symlinkat)?;
        self.give(On::Name(&here, name), path, member, true, false);
        self.counts.symlinks += 1;
        Ok(())
    }

    pub(super) fn node(
        &mut self,
        path: &[u8],
        name: &CStr,
        member: &Member,
    ) -> Result<(), Failure> {
        let here = self.here()?;
        let inherits = self.doing().inherits;
        let (major, minor) = (member.rdev.major, member.rdev.minor);
        // The kernel has 12 bits for the one and 20 for the other, and drops the rest.
        if major >= 1 << 12 || minor >= 1 << 20 {
            return Err(NotRestored::ImpossibleDevice { major, minor }.into());
        }
        let node = match member.kind {
            Kind::Char => Node::Char(major, minor),
            Kind::Block => Node::Block(major, minor),
            _ => Node::Fifo,
        };
        let mode = self.rights.mode(member) & 0o777;
        let make = |here: &Fd, name: &CStr| mknodat(here, name, node, mode);
        self.put(&here, name, make, Gate::Mknodat)?;
        self.give(On::Name(&here, name), path, member, true, inherits);
        self.counts.other += 1;
        Ok(())
    }

    pub(super) fn link(
        &mut self,
        path: &[u8],
        name: &CStr,
        member: &Member,
    ) -> Result<(), Failure> {
        let target = clean(&member.link).map_err(NotRestored::BadLink)?.path;
        // A file that is removed by a later archive may not have been restored.
        let target = self.chosen.place(&target).unwrap_or(target);
        let (dir, file) = split(&target);
        if target == path {
            return Ok(());
        }
        let here = self.here()?;
        let missing = |e| Failure::call(Gate::Linkat, e, NotRestored::NoSuchTarget(target.clone()));
        let from = match &self.linked {
            _ if dir == self.trail.path() => Rc::clone(&here),
            Some((known, fd)) if known == dir => Rc::clone(fd),
            _ => {
                let how = Open::PATH | Open::DIRECTORY;
                let fd = open_beneath(self.top.as_fd(), dir, how).map_err(missing)?;
                let (_, fd) = self.linked.insert((dir.to_vec(), Rc::new(fd)));
                Rc::clone(fd)
            }
        };
        let file = c_string(file).map_err(missing)?;
        // A name that is a link to the same file already must not be removed: it may be the last.
        let is_same = |here: &Fd| {
            let inode = |dir: &Fd, name: &CStr| {
                let seen = statx(dir, name, At::SYMLINK_NOFOLLOW, Want::BASIC_STATS).ok()?;
                Some((seen.dev, seen.ino))
            };
            inode(&from, &file).is_some_and(|target| inode(here, name) == Some(target))
        };
        let make = |here: &Fd, name: &CStr| match linkat(&from, &file, here, name, At::empty()) {
            Err(Errno::EEXIST) if is_same(here) => Ok(()),
            other => other,
        };
        let done = self.put(&here, name, make, Gate::Linkat);
        done.map_err(|failure| match failure.call {
            Some((_, e @ Errno::ENOENT)) => missing(e),
            _ => failure,
        })?;
        self.counts.links += 1;
        Ok(())
    }
}
