//! Members made.
//!
//! What is made is always a new inode, so that nothing is written through a name that something
//! else has too; what has its name is taken away first.

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
use super::name::{clean, split};
use super::{Doing, Halt, Restorer, Trouble, on_the_way};
use crate::input::Input;
use crate::shown;

/// How often a name is cleared before it is given up: somebody else keeps taking it.
const TRIES: usize = 8;

impl Restorer<'_> {
    pub(super) fn directory(&mut self, path: &[u8], member: &Member) -> Result<(), Trouble> {
        let dumpdir = member.dumpdir.as_deref().filter(|_| self.is_later);
        if let Some(dumpdir) = dumpdir {
            self.renames(path, dumpdir);
        }
        if path.is_empty() {
            self.leave_all();
            let top = Rc::clone(&self.top);
            let late = self.give_early(&top, b".", member, false, false);
            let inherits = member.acl_default.is_some();
            self.top_doing = Doing {
                late: Some(Box::new(late)),
                inherits,
            };
        } else {
            let (above, name) = split(path);
            self.enter(above)?;
            let here = self.here()?;
            let inherited = self.doing().inherits;
            let c_name = c_string(name).map_err(on_the_way)?;
            let (fd, is_new) = self.make_directory(&here, &c_name)?;
            let fd = Rc::new(fd);
            let late = self.give_early(&fd, path, member, is_new, inherited);
            let inherits = member.acl_default.is_some();
            self.trail.push(
                name,
                fd,
                Doing {
                    late: Some(Box::new(late)),
                    inherits,
                },
            );
        }
        self.counts.directories += 1;
        if let Some(dumpdir) = dumpdir {
            let name = clean(&member.path).map_or_else(|_| path.to_vec(), |name| name.path);
            self.purge(path, &name, dumpdir)?;
        }
        Ok(())
    }

    /// Makes a directory in the place of whatever is none; whether it is new.
    fn make_directory(&self, here: &Fd, name: &CStr) -> Result<(Fd, bool), Trouble> {
        for _ in 0..TRIES {
            match self.open_directory(here, name, true) {
                Ok((fd, ..)) => return Ok((fd, false)),
                Err(Errno::ENOENT) => {}
                Err(Errno::ELOOP | Errno::ENOTDIR) => match unlinkat(here, name) {
                    Ok(()) | Err(Errno::ENOENT | Errno::EISDIR) => {}
                    Err(e) => return Err(Trouble::in_the_way(e)),
                },
                Err(e) => {
                    return Err(Trouble::call(
                        Gate::Openat2,
                        e,
                        "not restored: the directory that is there cannot be opened",
                    ));
                }
            }
            match mkdirat(here, name, 0o700) {
                Ok(()) => match open_beneath(here.as_fd(), name.to_bytes(), Open::SCAN) {
                    Ok(fd) => return Ok((fd, true)),
                    Err(Errno::ENOENT | Errno::ELOOP | Errno::ENOTDIR) => {}
                    Err(e) => {
                        return Err(Trouble::call(
                            Gate::Openat2,
                            e,
                            "the new directory cannot be opened",
                        ));
                    }
                },
                Err(Errno::EEXIST) => {}
                Err(e) => {
                    return Err(Trouble::call(
                        Gate::Mkdirat,
                        e,
                        "the directory cannot be made",
                    ));
                }
            }
        }
        Err(taken_again())
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
            made.map_err(|e| Trouble::call(Gate::Openat, e, "the file cannot be made"))?;
        if member.sparse.is_some() {
            ftruncate(fresh.fd(), member.size).map_err(|e| {
                Trouble::call(
                    Gate::Ftruncate,
                    e,
                    "no file can be as large here as the archive says",
                )
            })?;
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
                    Err(e) => {
                        return Err(Trouble::call(
                            Gate::Pwrite64,
                            e,
                            "not restored: it cannot be written",
                        )
                        .into());
                    }
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
    ) -> Result<(), Trouble> {
        for _ in 0..TRIES {
            match make(here, name) {
                Ok(()) => return Ok(()),
                Err(Errno::EEXIST | Errno::EISDIR | Errno::ENOTEMPTY) => self.clear(here, name)?,
                Err(Errno::EPERM) if gate == Gate::Mknodat && !self.rights.is_root => {
                    return Err(Trouble::call(
                        gate,
                        Errno::EPERM,
                        "not restored: only root can make devices",
                    ));
                }
                Err(e) => return Err(Trouble::call(gate, e, "it cannot be made")),
            }
        }
        Err(taken_again())
    }

    pub(super) fn symlink(
        &mut self,
        path: &[u8],
        name: &CStr,
        member: &Member,
    ) -> Result<(), Trouble> {
        let here = self.here()?;
        let target = c_string(&member.link)
            .map_err(|e| Trouble::call(Gate::Symlinkat, e, "there is a NUL in its target"))?;
        self.put(
            &here,
            name,
            |here, name| symlinkat(&target, here, name),
            Gate::Symlinkat,
        )?;
        self.give(On::Name(&here, name), path, member, true, false);
        self.counts.symlinks += 1;
        Ok(())
    }

    pub(super) fn node(
        &mut self,
        path: &[u8],
        name: &CStr,
        member: &Member,
    ) -> Result<(), Trouble> {
        let here = self.here()?;
        let inherits = self.doing().inherits;
        let (major, minor) = (member.rdev.major, member.rdev.minor);
        let node = match member.kind {
            Kind::Char => Node::Char(major, minor),
            Kind::Block => Node::Block(major, minor),
            _ => Node::Fifo,
        };
        let mode = self.rights.mode(member) & 0o777;
        self.put(
            &here,
            name,
            |here, name| mknodat(here, name, node, mode),
            Gate::Mknodat,
        )?;
        self.give(On::Name(&here, name), path, member, true, inherits);
        self.counts.other += 1;
        Ok(())
    }

    pub(super) fn link(
        &mut self,
        path: &[u8],
        name: &CStr,
        member: &Member,
    ) -> Result<(), Trouble> {
        let wrong = |why| {
            Trouble::because(format!(
                "not restored: of the name that it is another one of, {why}"
            ))
        };
        let target = clean(&member.link).map_err(wrong)?.path;
        // What is to be gone in the end is not there.
        let target = self.chosen.place(&target).unwrap_or(target);
        let (dir, file) = split(&target);
        if target == path {
            return Ok(());
        }
        let here = self.here()?;
        let missing = |e| {
            let target = shown(&target);
            let what = format!(
                "not restored: it is another name of '{target}', which is not there; restore that one too"
            );
            Trouble::call(Gate::Linkat, e, what)
        };
        let from = match &self.linked {
            _ if dir == self.trail.path() => Rc::clone(&here),
            Some((known, fd)) if known == dir => Rc::clone(fd),
            _ => {
                let fd = Rc::new(
                    open_beneath(self.top.as_fd(), dir, Open::PATH | Open::DIRECTORY)
                        .map_err(missing)?,
                );
                self.linked = Some((dir.to_vec(), Rc::clone(&fd)));
                fd
            }
        };
        let file = c_string(file).map_err(missing)?;
        // A name that is another one of the same file already must not be taken away: it may be the
        // last.
        let same = |here: &Fd| {
            let of = |dir: &Fd, name: &CStr| {
                statx(dir, name, At::SYMLINK_NOFOLLOW, Want::BASIC_STATS).ok()
            };
            matches!((of(&from, &file), of(here, name)), (Some(a), Some(b)) if (a.dev, a.ino) == (b.dev, b.ino))
        };
        let make = |here: &Fd, name: &CStr| match linkat(&from, &file, here, name, At::empty()) {
            Err(Errno::EEXIST) if same(here) => Ok(()),
            other => other,
        };
        let done = self.put(&here, name, make, Gate::Linkat);
        done.map_err(|trouble| match trouble.errno {
            Some(e @ Errno::ENOENT) => missing(e),
            _ => trouble,
        })?;
        self.counts.links += 1;
        Ok(())
    }
}

fn taken_again() -> Trouble {
    Trouble::because("not restored: somebody else keeps making something of its name")
}
