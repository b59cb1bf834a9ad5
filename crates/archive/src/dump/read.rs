//! Makes members of rows: reads what they hold, and sees whether it stayed as it was meanwhile.

use blake3::Hasher;
use gate::fs::{At, Open, openat, pread64, read, readlinkat, statx};
use gate::xattr::{fgetxattr, flistxattr, getxattrat, listxattrat};
use gate::{Errno, Fd, Gate};
use mounts::Warning;
use ondisk::Dev;
use ondisk::pax::sparse::{Extent, Map};
use ondisk::pax::{self, Kind, Member, acl, dumpdir};
use walk::attribution::{Subject, with_subject};
use walk::{Diagnostics, Meta, Type};

use super::holes;
use super::load::{Done, Hand, Load, PIECE, Stopped, What};
use super::member::{Names, member};
use super::places::Places;
use super::users::Users;
use super::work::Work;
use crate::plan::{Plan, Step};
use crate::rows::Rows;
use crate::warning::WarningKind;

/// Data of at most so many bytes is read before its header is written, so that the header can say
/// what it comes to, and the reading can be done again. Of more, the header is a promise.
const WHOLE: u64 = 1 << 20;
/// How often a file is read again that is changed meanwhile.
const TRIES: u32 = 3;

/// One thread's means of making members.
pub(crate) struct Reader<'a> {
    rows: &'a Rows,
    plan: &'a Plan,
    users: &'a Users,
    desk: &'a Diagnostics,
    names: Names<'a>,
    places: Places<'a>,
    data: Vec<u8>,
    attributes: Vec<u8>,
    value: Vec<u8>,
    /// A device whose file system has no extended attributes.
    bare: Option<Dev>,
    /// Whether access times of everybody's files may be kept.
    is_root: bool,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(work: Work<'a>) -> Reader<'a> {
        let Work {
            rows,
            plan,
            users,
            desk,
        } = work;
        Reader {
            rows,
            plan,
            users,
            desk,
            names: Names::new(rows),
            places: Places::new(rows),
            data: Vec::new(),
            attributes: Vec::new(),
            value: Vec::new(),
            bare: None,
            is_root: gate::process::is_root(),
        }
    }

    /// Adds what a row comes to.
    ///
    /// # Errors
    /// Nobody wants any more.
    pub(crate) fn put(
        &mut self,
        row: usize,
        load: &mut Load,
        hand: Hand<'_>,
    ) -> Result<(), Stopped> {
        match self.plan.step(row) {
            Step::Whole => {
                let subject = if self.rows.is_dir(row) {
                    Subject::Directory
                } else {
                    Subject::File
                };
                with_subject(subject, || self.whole(row, load, hand))?;
            }
            Step::Link(_) => {
                load.link = Some(row);
                *load = hand(std::mem::take(load))?;
            }
            Step::Unchanged | Step::LeftOut => {}
        }
        if load.bytes.len() >= PIECE {
            *load = hand(std::mem::take(load))?;
        }
        Ok(())
    }

    /// Adds a row as a member of its own.
    ///
    /// # Errors
    /// Nobody wants any more.
    pub(crate) fn whole(
        &mut self,
        row: usize,
        load: &mut Load,
        hand: Hand<'_>,
    ) -> Result<(), Stopped> {
        let meta = self.rows.meta(row);
        if meta.kind() == Type::File {
            return self.file(row, meta, load, hand);
        }
        let mut now = meta;
        let what = self.other(row, &mut now, load);
        load.done.push(Done {
            row,
            what,
            meta: (now != meta).then(|| Box::new(now)),
        });
        Ok(())
    }

    /// Adds a link to another row.
    pub(crate) fn link(&mut self, row: usize, to: usize, load: &mut Load) {
        let link = self.names.name(to);
        if let Some(member) = member(&self.rows.meta(row), self.names.name(row), self.users) {
            pax::header(
                &Member {
                    kind: Kind::Link,
                    link,
                    size: 0,
                    stored: 0,
                    ..member
                },
                &mut load.bytes,
            );
        }
        load.done.push(Done {
            row,
            what: What::Link,
            meta: None,
        });
    }

    /// What is no plain file. It is asked for by its name, so it is looked at afterwards: what was
    /// asked about another one that had the name for a while is not what it has. `meta` is what the
    /// member then says.
    fn other(&mut self, row: usize, meta: &mut Meta, load: &mut Load) -> What {
        let mut tries = 0;
        loop {
            let Some(mut member) = member(meta, self.names.name(row), self.users) else {
                self.warn(row, WarningKind::UnsupportedType(meta.kind().name()));
                return What::NoMember;
            };
            match member.kind {
                Kind::Symlink => match self.places.at(row, |dir, name| readlinkat(dir, name)) {
                    Ok(link) => member.link = link,
                    Err(e) => return self.missing(row, Gate::Readlinkat, e),
                },
                Kind::Directory => member.dumpdir = self.names_in(row),
                _ => {}
            }
            let is_asked =
                self.attributes(row, meta, None, &mut member) || member.kind == Kind::Symlink;
            let what = match if is_asked {
                self.look_by_name(row)
            } else {
                Ok(*meta)
            } {
                Ok(now) if is_same(&now, meta) => What::Member(0, None),
                Ok(now) if (now.dev, now.ino, now.kind()) == (meta.dev, meta.ino, meta.kind()) => {
                    tries += 1;
                    if tries < TRIES {
                        *meta = now;
                        continue;
                    }
                    self.changed(row, meta, &now);
                    What::Spoiled(0)
                }
                // What is in a directory may be reached nevertheless.
                seen if member.kind == Kind::Directory => {
                    take(&mut member, Member::default());
                    match seen {
                        Ok(_) => self.warn(row, WarningKind::Replaced),
                        Err(e) => drop(self.missing(row, Gate::Statx, e)),
                    }
                    What::Spoiled(0)
                }
                seen => return self.missing(row, Gate::Statx, seen.err().unwrap_or(Errno::EISDIR)),
            };
            pax::header(&member, &mut load.bytes);
            return what;
        }
    }

    /// What is in a directory, for an increment; nothing where that is more than can be read again.
    fn names_in(&self, row: usize) -> Option<Vec<u8>> {
        let names = self.plan.dumpdir(self.rows, row)?;
        if names.len() <= dumpdir::MOST {
            return Some(names);
        }
        self.warn(row, WarningKind::TooManyNames);
        None
    }

    /// What has the name of a row now.
    fn look_by_name(&mut self, row: usize) -> Result<Meta, Errno> {
        const AT: At = At::SYMLINK_NOFOLLOW.union(At::NO_AUTOMOUNT);
        self.places
            .at(row, |dir, name| statx(dir, name, AT, Meta::WANT))
            .map(|seen| Meta::from_statx(&seen).lasting())
    }

    fn file(
        &mut self,
        row: usize,
        planned: Meta,
        load: &mut Load,
        hand: Hand<'_>,
    ) -> Result<(), Stopped> {
        let mut meta = planned;
        let mut tries = 0;
        loop {
            match self.once(row, &mut meta, tries, load, hand)? {
                Some(what) => {
                    let meta = (meta != planned).then(|| Box::new(meta));
                    load.done.push(Done { row, what, meta });
                    return Ok(());
                }
                None => tries += 1,
            }
        }
    }

    /// Reads a file once. `None` if it was changed meanwhile, and is to be read again; `meta` is
    /// what it is then held to.
    fn once(
        &mut self,
        row: usize,
        meta: &mut Meta,
        tries: u32,
        load: &mut Load,
        hand: Hand<'_>,
    ) -> Result<Option<What>, Stopped> {
        // An empty file without extended attributes is what is known of it; one that not everybody
        // may read is opened, to see whether we may.
        if meta.size == 0
            && meta.mode & 0o444 == 0o444
            && tries == 0
            && !self.may_have_attributes(meta)
        {
            self.data.clear();
            return Ok(Some(self.emit(row, meta, None, Member::default(), 0, load)));
        }
        let fd = match self.open(row, meta) {
            Ok(fd) => fd,
            Err(e) => return Ok(Some(self.missing(row, Gate::Openat, e))),
        };
        if tries > 0 || meta.size > WHOLE {
            let now = match look(&fd) {
                Ok(now) => now,
                Err(e) => return Ok(Some(self.missing(row, Gate::Statx, e))),
            };
            if now.kind() != Type::File {
                return Ok(Some(self.missing(row, Gate::Openat, Errno::ELOOP)));
            }
            if !is_same(&now, meta) {
                *meta = now;
            }
        }
        let map = match meta.blocks.saturating_mul(512) < meta.size {
            true => match holes::data(&fd, meta.size) {
                Ok(map) => map,
                Err(e) => return Ok(Some(self.missing(row, Gate::Lseek, e))),
            },
            false => None,
        };
        let stored = map.as_ref().map_or(meta.size, Map::data);
        if stored > WHOLE {
            return self
                .stream(row, fd, meta, map.as_ref(), load, hand)
                .map(Some);
        }
        let have = match self.read_whole(&fd, meta, map.as_ref()) {
            Ok(have) => have,
            Err(e) => return Ok(Some(self.missing(row, Gate::Read, e))),
        };
        let mut extra = Member::default();
        self.attributes(row, meta, Some(&fd), &mut extra);
        let now = look(&fd);
        drop(fd);
        match now {
            Ok(now) if is_same(&now, meta) => {}
            Ok(_) if tries < TRIES => return Ok(None),
            Ok(now) => self.changed(row, meta, &now),
            Err(e) => return Ok(Some(self.missing(row, Gate::Statx, e))),
        }
        Ok(Some(self.emit(row, meta, map, extra, have, load)))
    }

    /// Adds a file whose stored data is `self.data`, up to `have`.
    fn emit(
        &mut self,
        row: usize,
        meta: &Meta,
        map: Option<Map>,
        extra: Member,
        have: usize,
        load: &mut Load,
    ) -> What {
        let Some(mut member) = member(meta, self.names.name(row), self.users) else {
            return What::NoMember;
        };
        take(&mut member, extra);
        let data = self.data.get(..have).unwrap_or_default();
        let hash = *blake3::hash(data).as_bytes();
        member.blake3 = Some(hash);
        member.stored = data.len() as u64;
        member.sparse = map;
        pax::header(&member, &mut load.bytes);
        load.bytes.extend_from_slice(data);
        fill(&mut load.bytes, data.len());
        What::Member(meta.size, Some(hash))
    }

    /// Opens a file, so that its access time stays where that is permitted.
    fn open(&mut self, row: usize, meta: &Meta) -> Result<Fd, Errno> {
        const HOW: Open = Open::NOFOLLOW.union(Open::NONBLOCK);
        let quietly = self.is_root || gate::process::is_me(meta.uid);
        self.places.at(row, |dir, name| {
            match openat(dir, name, if quietly { HOW | Open::NOATIME } else { HOW }) {
                Err(Errno::EPERM) if quietly => openat(dir, name, HOW),
                other => other,
            }
        })
    }

    /// Reads into `self.data` what is stored of a file, and how much that is: as much as there
    /// should be, if need be with zeros at its end.
    fn read_whole(&mut self, fd: &Fd, meta: &Meta, map: Option<&Map>) -> Result<usize, Errno> {
        let data = &mut self.data;
        if let Some(map) = map {
            data.clear();
            map.encode(meta.size, data);
            for extent in map.extents() {
                let at = data.len();
                data.resize(at + extent.len as usize, 0);
                read_at(fd, extent.offset, &mut data[at..])?;
            }
            return Ok(data.len());
        }
        let size = meta.size as usize;
        // One more byte tells whether it has grown, and that this was its end.
        if data.len() <= size {
            data.resize(size + 1, 0);
        }
        // Where a hole was looked for, and none is, it no longer stands at its beginning.
        let is_moved = meta.blocks.saturating_mul(512) < meta.size;
        let mut have = 0;
        while have < size.max(1) {
            let rest = &mut data[have..=size];
            match if is_moved {
                pread64(fd, rest, have as u64)
            } else {
                read(fd, rest)
            } {
                Ok(0) => break,
                Ok(n) => have += n,
                Err(Errno::EINTR) => {}
                Err(e) => return Err(e),
            }
        }
        if have < size {
            data[have..size].fill(0);
        }
        Ok(size)
    }

    /// Adds a large file, piece by piece.
    fn stream(
        &mut self,
        row: usize,
        fd: Fd,
        meta: &Meta,
        map: Option<&Map>,
        load: &mut Load,
        hand: Hand<'_>,
    ) -> Result<What, Stopped> {
        let Some(mut member) = member(meta, self.names.name(row), self.users) else {
            return Ok(What::NoMember);
        };
        let whole = [Extent {
            offset: 0,
            len: meta.size,
        }];
        let extents = map.map_or(&whole[..], Map::extents);
        // A file that cannot be read at all has no place in the archive.
        let start = extents.first().map_or(0, |extent| extent.offset);
        if let Err(e) = read_at(&fd, start, &mut [0]) {
            return Ok(self.missing(row, Gate::Pread64, e));
        }
        self.attributes(row, meta, Some(&fd), &mut member);
        let mut text = Vec::new();
        if let Some(map) = map {
            map.encode(meta.size, &mut text);
            member.stored = text.len() as u64 + map.data();
            member.sparse = Some(map.clone());
        }
        pax::header(&member, &mut load.bytes);
        load.bytes.extend_from_slice(&text);
        let mut hasher = Hasher::new();
        hasher.update(&text);
        // Where the reading failed, or the file came to its end too soon: from there on there are
        // zeros.
        let mut failed = None;
        for extent in extents {
            let mut at = extent.offset;
            while at < extent.end() {
                if load.bytes.len() >= PIECE {
                    *load = hand(std::mem::take(load))?;
                }
                let from = load.bytes.len();
                let n = (extent.end() - at).min((PIECE - from.min(PIECE - 1)) as u64) as usize;
                load.bytes.resize(from + n, 0);
                let piece = &mut load.bytes[from..];
                if failed.is_none() {
                    match read_at(&fd, at, piece) {
                        Ok(have) if have == n => {}
                        Ok(have) => failed = Some((at + have as u64, None)),
                        Err(e) => {
                            piece.fill(0);
                            failed = Some((at, Some(e)));
                        }
                    }
                }
                hasher.update(piece);
                at += n as u64;
            }
        }
        fill(
            &mut load.bytes,
            usize::try_from(member.stored % pax::BLOCK as u64).unwrap_or(0),
        );
        let hash = *hasher.finalize().as_bytes();
        pax::trailer(&hash, &mut load.bytes);
        match (failed, look(&fd)) {
            (Some((at, Some(e))), _) => {
                self.failed(row, Gate::Pread64, e, WarningKind::ZerosFrom { at });
                return Ok(What::Spoiled(meta.size));
            }
            (_, Err(e)) => {
                self.failed(row, Gate::Statx, e, WarningKind::NotCheckedAfterwards);
                return Ok(What::Spoiled(meta.size));
            }
            (None, Ok(now)) if is_same(&now, meta) => {}
            (_, Ok(now)) => self.changed(row, meta, &now),
        }
        Ok(What::Member(meta.size, Some(hash)))
    }

    fn may_have_attributes(&self, meta: &Meta) -> bool {
        meta.xattrs != Some(false) && self.bare != Some(meta.dev)
    }

    /// Asks for access control lists and other extended attributes, of an open file or by name;
    /// unless there can be none: then it is `false`.
    fn attributes(
        &mut self,
        row: usize,
        meta: &Meta,
        fd: Option<&Fd>,
        member: &mut Member,
    ) -> bool {
        if !self.may_have_attributes(meta) {
            return false;
        }
        let mut list = std::mem::take(&mut self.attributes);
        let listed = match fd {
            Some(fd) => flistxattr(fd, &mut list),
            None => self
                .places
                .at(row, |dir, name| listxattrat(dir, name, &mut list)),
        };
        match listed {
            Ok(()) => {}
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => {
                self.bare = Some(meta.dev);
                list.clear();
            }
            Err(e) => {
                let gate = if fd.is_some() {
                    Gate::Flistxattr
                } else {
                    Gate::Listxattrat
                };
                self.failed(row, gate, e, WarningKind::XattrsUnreadable);
                list.clear();
            }
        }
        let mut names: Vec<&[u8]> = list.split_inclusive(|&b| b == 0).collect();
        names.sort_unstable();
        for name in names {
            let Ok(attribute) = std::ffi::CStr::from_bytes_with_nul(name) else {
                continue;
            };
            let value = &mut self.value;
            let got = match fd {
                Some(fd) => fgetxattr(fd, attribute, value),
                None => self
                    .places
                    .at(row, |dir, name| getxattrat(dir, name, attribute, value)),
            };
            let name = attribute.to_bytes();
            match got {
                Ok(()) => {}
                Err(Errno::ENODATA) => continue,
                Err(e) => {
                    let gate = if fd.is_some() {
                        Gate::Fgetxattr
                    } else {
                        Gate::Getxattrat
                    };
                    let kind = WarningKind::XattrUnreadable(name.to_vec());
                    self.failed(row, gate, e, kind);
                    continue;
                }
            }
            match name {
                b"system.posix_acl_access" => member.acl_access = acl::to_text(value),
                b"system.posix_acl_default" => member.acl_default = acl::to_text(value),
                _ => member.xattrs.push((name.to_vec(), value.clone())),
            }
        }
        self.attributes = list;
        true
    }

    fn path(&self, row: usize) -> Vec<u8> {
        let mut path = Vec::new();
        self.rows.path(row, &mut path);
        path
    }

    fn failed(&self, row: usize, gate: Gate, errno: Errno, kind: WarningKind) {
        self.desk
            .warn(Warning::failed(&self.path(row), gate, errno, kind));
    }

    fn warn(&self, row: usize, kind: WarningKind) {
        self.desk.warn(Warning::about(&self.path(row), kind));
    }

    /// A row that does not come into the archive.
    fn missing(&self, row: usize, gate: Gate, errno: Errno) -> What {
        let kind = match errno {
            Errno::ENOENT | Errno::ESTALE | Errno::ENOTDIR => WarningKind::Vanished,
            Errno::ELOOP | Errno::ENXIO | Errno::EINVAL | Errno::EISDIR => {
                WarningKind::ReplacedAndSkipped
            }
            _ => WarningKind::Unreadable,
        };
        self.failed(row, gate, errno, kind);
        What::Missing
    }

    /// A file that was not left alone while it was read.
    fn changed(&self, row: usize, meta: &Meta, now: &Meta) {
        let (before, now) = (meta.size, now.size);
        self.warn(
            row,
            match now.cmp(&before) {
                std::cmp::Ordering::Less => WarningKind::Shrunk { before, now },
                std::cmp::Ordering::Greater => WarningKind::Grown { before, now },
                std::cmp::Ordering::Equal => WarningKind::ChangedWhileRead,
            },
        );
    }
}

/// What an open file is now.
fn look(fd: &Fd) -> Result<Meta, Errno> {
    statx(fd, c"", At::EMPTY_PATH, Meta::WANT).map(|seen| Meta::from_statx(&seen).lasting())
}

/// Whether it is the file that it was, and as it was.
fn is_same(a: &Meta, b: &Meta) -> bool {
    (a.ino, a.dev, a.mode, a.size, a.mtime, a.ctime)
        == (b.ino, b.dev, b.mode, b.size, b.mtime, b.ctime)
}

/// Reads until there is no more room, or the end.
fn read_at(fd: &Fd, mut offset: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
    let mut have = 0;
    while have < buffer.len() {
        match pread64(fd, &mut buffer[have..], offset) {
            Ok(0) => break,
            Ok(n) => {
                have += n;
                offset += n as u64;
            }
            Err(Errno::EINTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(have)
}

/// Fills up with zeros what ends with `len` bytes of data.
fn fill(bytes: &mut Vec<u8>, len: usize) {
    bytes.resize(bytes.len() + len.next_multiple_of(pax::BLOCK) - len, 0);
}

/// Takes over access control lists and extended attributes.
fn take(member: &mut Member, from: Member) {
    member.acl_access = from.acl_access;
    member.acl_default = from.acl_default;
    member.xattrs = from.xattrs;
}
