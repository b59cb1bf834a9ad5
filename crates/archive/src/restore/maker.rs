//! Creates directory entries. Each file is a new inode, so that nothing is written through other
//! hard links of an existing file, which is removed first.

use std::cell::Cell;
use std::ffi::CStr;
use std::sync::atomic::Ordering::Relaxed;

use base::path::split;
use gate::create::{Node, ftruncate, mknodat, pwrite64, symlinkat, unlinkat_directory};
use gate::file::{NewFile, linkat, unlinkat};
use gate::fs::{AtFlags, Statx, StatxMask, statx, syncfs};
use gate::long::c_string;
use gate::{Errno, Fd, Gate};
use ondisk::Dev;
use ondisk::pax::{Member, MemberKind};

use super::attributes::AttributeTarget;
use super::created::Failures;
use super::entry::{NewEntry, OpenDirectory};
use super::not_restored::{Failure, NotRestored};
use super::owners::Owners;
use super::report::{Counts, RestoreMessages, RestoreProgress};
use super::rights::RestoringUser;

/// Maximum number of attempts to remove a name that another program keeps creating.
pub(super) const TRIES: usize = 8;

/// Creates directory entries; one per thread.
pub(super) struct Maker<'a> {
    pub(super) rights: RestoringUser,
    pub(super) owners: &'a Owners,
    pub(super) progress: &'a RestoreProgress,
    pub(super) failures: &'a Failures,
    pub(super) remarks: RestoreMessages,
    pub(super) counts: Counts,
    /// Whether O_TMPFILE works on this file system; true until it fails.
    has_unnamed: bool,
    /// Whether the file system is full, even after syncfs(2).
    is_full: Cell<bool>,
}

/// A file that has no name yet.
pub(super) struct UnnamedFile {
    fresh: NewFile,
    /// Whether the file's mode is already final.
    is_exact: bool,
    bytes: u64,
}

impl<'a> Maker<'a> {
    pub(super) fn new(
        rights: RestoringUser,
        owners: &'a Owners,
        progress: &'a RestoreProgress,
        failures: &'a Failures,
    ) -> Maker<'a> {
        Maker {
            rights,
            owners,
            progress,
            failures,
            remarks: RestoreMessages::default(),
            counts: Counts::default(),
            has_unnamed: true,
            is_full: Cell::new(false),
        }
    }

    /// Creates a file without a name (O_TMPFILE).
    pub(super) fn begin_file(
        &mut self,
        here: &Fd,
        member: &Member,
    ) -> Result<UnnamedFile, Failure> {
        let mode = self.rights.mode(member) & 0o777;
        // Setting extended attributes needs write permission, except for root, so such a file gets
        // its final mode later.
        let is_exact = self.rights.is_root || member.xattrs.is_empty();
        let made = match self.has_unnamed {
            true => NewFile::unnamed(here, if is_exact { mode } else { mode | 0o600 }),
            false => Ok(None),
        };
        let made = made.and_then(|made| match made {
            Some(fresh) => Ok((fresh, is_exact)),
            None => {
                self.has_unnamed = false;
                Ok((NewFile::named(here)?, false))
            }
        });
        let (fresh, is_exact) =
            made.map_err(|e| Failure::call(Gate::Openat, e, NotRestored::FileNotMade))?;
        if member.sparse.is_some() {
            ftruncate(fresh.fd(), member.size)
                .map_err(|e| Failure::call(Gate::Ftruncate, e, NotRestored::TooLarge))?;
        }
        Ok(UnnamedFile {
            fresh,
            is_exact,
            bytes: 0,
        })
    }

    pub(super) fn write(
        &mut self,
        file: &mut UnnamedFile,
        mut offset: u64,
        mut piece: &[u8],
    ) -> Result<(), Failure> {
        file.bytes += piece.len() as u64;
        self.progress.bytes.fetch_add(piece.len() as u64, Relaxed);
        while !piece.is_empty() {
            match pwrite64(file.fresh.fd(), piece, offset) {
                Ok(n) => {
                    offset += n as u64;
                    piece = &piece[n..];
                }
                Err(Errno::EINTR) => {}
                Err(e) => return Err(Failure::call(Gate::Pwrite64, e, NotRestored::NotWritten)),
            }
        }
        Ok(())
    }

    /// Sets the attributes of a file, then links it to its name.
    pub(super) fn finish_file(
        &mut self,
        place: OpenDirectory<'_>,
        entry: &NewEntry,
        mut file: UnnamedFile,
    ) -> Result<(), Failure> {
        let on = AttributeTarget::Open(file.fresh.fd());
        self.set_all(on, &entry.path, &entry.member, file.is_exact, place.traits);
        let publish = |here: &Fd, name: &CStr| file.fresh.publish(here, name);
        self.put(place.here, entry, publish, Gate::Linkat)?;
        self.counts.files += 1;
        self.counts.bytes = self.counts.bytes.saturating_add(file.bytes);
        Ok(())
    }

    /// Creates an entry whose data is in memory; a hard link only within its directory.
    pub(super) fn entry(
        &mut self,
        place: OpenDirectory<'_>,
        entry: &NewEntry,
    ) -> Result<(), Failure> {
        match entry.member.kind {
            MemberKind::File => {
                let mut file = self.begin_file(place.here, &entry.member)?;
                self.write(&mut file, 0, &entry.data)?;
                self.finish_file(place, entry, file)
            }
            MemberKind::Link => self.link(place.here, entry, place.here, &entry.target),
            MemberKind::Symlink => self.symlink(place, entry),
            _ => self.node(place, entry),
        }
    }

    fn symlink(&mut self, place: OpenDirectory<'_>, entry: &NewEntry) -> Result<(), Failure> {
        let target = c_string(&entry.member.link)
            .map_err(|e| Failure::call(Gate::Symlinkat, e, NotRestored::BadTarget))?;
        let make = |here: &Fd, name: &CStr| symlinkat(&target, here, name);
        self.put(place.here, entry, make, Gate::Symlinkat)?;
        let on = AttributeTarget::Name(place.here, &entry.name);
        self.set_all(on, &entry.path, &entry.member, true, place.traits);
        self.counts.symlinks += 1;
        Ok(())
    }

    fn node(&mut self, place: OpenDirectory<'_>, entry: &NewEntry) -> Result<(), Failure> {
        let member = &entry.member;
        let rdev @ Dev { major, minor } = member.rdev;
        // Linux has 12 bits for the major and 20 for the minor number, and silently truncates both.
        if major >= 1 << 12 || minor >= 1 << 20 {
            return Err(NotRestored::ImpossibleDevice { major, minor }.into());
        }
        let node = match member.kind {
            MemberKind::Char => Node::Char(rdev),
            MemberKind::Block => Node::Block(rdev),
            _ => Node::Fifo,
        };
        let mode = self.rights.mode(member) & 0o777;
        let make = |here: &Fd, name: &CStr| mknodat(here, name, node, mode);
        self.put(place.here, entry, make, Gate::Mknodat)?;
        let on = AttributeTarget::Name(place.here, &entry.name);
        self.set_all(on, &entry.path, member, true, place.traits);
        self.counts.other += 1;
        Ok(())
    }

    /// Creates a hard link to a file in the directory `from`. `target` is the path of that file,
    /// which is already restored unless its restore failed.
    pub(super) fn link(
        &mut self,
        here: &Fd,
        entry: &NewEntry,
        from: &Fd,
        target: &[u8],
    ) -> Result<(), Failure> {
        if self.failures.has(target) {
            return Err(NotRestored::LinkTarget(target.to_vec()).into());
        }
        let name = entry.name.as_c_str();
        let missing = |e| no_target(target, e);
        let file = c_string(split(target).1).map_err(missing)?;
        // If the name is already a link to the same file, removing it could delete the last link.
        let is_same = |here: &Fd| {
            let inode = |dir: &Fd, name: &CStr| {
                let seen = attributes(dir, name).ok()?;
                Some((seen.dev, seen.ino))
            };
            inode(from, &file).is_some_and(|target| inode(here, name) == Some(target))
        };
        let mut is_there = false;
        let make = |here: &Fd, name: &CStr| match linkat(from, &file, here, name, AtFlags::empty())
        {
            Err(Errno::EEXIST) if is_same(here) => {
                is_there = true;
                Ok(())
            }
            other => other,
        };
        let done = self.put(here, entry, make, Gate::Linkat);
        done.map_err(|failure| match failure.call {
            Some((_, e @ Errno::ENOENT)) => missing(e),
            _ => failure,
        })?;
        self.counts.links += u64::from(!is_there);
        Ok(())
    }

    /// Creates a name with `make`, removing any existing file first.
    fn put(
        &mut self,
        here: &Fd,
        entry: &NewEntry,
        mut make: impl FnMut(&Fd, &CStr) -> gate::Result<()>,
        gate: Gate,
    ) -> Result<(), Failure> {
        let name = entry.name.as_c_str();
        let mut has_synced = false;
        for _ in 0..TRIES {
            match make(here, name) {
                Ok(()) => {
                    self.failures.remove(&entry.path);
                    return Ok(());
                }
                // XFS reserves more space for delayed allocation than written data needs. On ENOSPC
                // the kernel flushes and retries only when it creates files, not when a directory
                // needs a block.
                Err(Errno::ENOSPC) if !has_synced && !self.is_full.get() => {
                    has_synced = true;
                    let _ = syncfs(here); // a failure shows in the next attempt
                }
                Err(Errno::EEXIST | Errno::EISDIR | Errno::ENOTEMPTY) => {
                    let is_ours = entry.is_replacement && !self.failures.may_keep_old(&entry.path);
                    let seen = is_ours.then(|| attributes(here, name).ok()).flatten();
                    clear(here, name)?;
                    self.remarks.count_gone(seen);
                }
                Err(e @ Errno::EPERM) if gate == Gate::Mknodat && !self.rights.is_root => {
                    return Err(Failure::call(gate, e, NotRestored::DeviceTakesRoot));
                }
                Err(e) => {
                    if has_synced && e == Errno::ENOSPC {
                        self.is_full.set(true);
                    }
                    return Err(Failure::call(gate, e, NotRestored::NotMade));
                }
            }
        }
        Err(NotRestored::NameTaken.into())
    }
}

/// The failure of a hard link whose target does not exist.
pub(super) fn no_target(target: &[u8], errno: Errno) -> Failure {
    Failure::call(
        Gate::Linkat,
        errno,
        NotRestored::NoSuchTarget(target.to_vec()),
    )
}

/// Removes a file, symlink or empty directory.
fn clear(here: &Fd, name: &CStr) -> Result<(), Failure> {
    let done = match unlinkat(here, name) {
        Err(Errno::EISDIR) => unlinkat_directory(here, name),
        other => other,
    };
    let reason = match done {
        Ok(()) | Err(Errno::ENOENT) => return Ok(()),
        Err(Errno::ENOTEMPTY) => NotRestored::DirectoryInTheWay,
        Err(_) => NotRestored::InTheWay,
    };
    done.map_err(|e| Failure::call(Gate::Unlinkat, e, reason))
}

/// The attributes of an entry, without following a symlink.
pub(super) fn attributes(here: &Fd, name: &CStr) -> gate::Result<Statx> {
    const ITSELF: AtFlags = AtFlags::SYMLINK_NOFOLLOW;
    statx(here, name, ITSELF, StatxMask::BASIC_STATS)
}
