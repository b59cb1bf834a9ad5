//! Compares the members of an archive with a tree.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::Duration;

use base::path::split;
use base::{Warning, path};
use gate::file::read_full_at;
use gate::fs::{Open, Statx, StatxMask, Whence, lseek, lstatat, openat, pread64, readlinkat};
use gate::long::{c_string, open_beneath, open_long, reach};
use gate::process::{has_one_thread, is_me, is_root};
use gate::xattr::{getxattrat, listxattrat};
use gate::{Errno, Fd, Gate};
use ondisk::pax::acl::{self, AclNameKind};
use ondisk::pax::{Member, MemberKind};
use ondisk::{Dev, nfs4_acl};
use walk::entry::{joined, relative};
use walk::{FileType, Filter, ReachableMounts};

use super::difference::{Difference, IgnoredMetadata, TreeAccess};
use super::known::ArchivedFiles;
use crate::dump::holes;
use crate::dump::places::open_to_read;
use crate::error::Error;
use crate::gather::SortedNames;
use crate::input::Input;
use crate::list::plain;
use crate::restore::owners::Owners;

/// A tree to compare an archive with.
#[derive(Debug)]
pub struct Tree {
    /// Path of the tree's directory, as given.
    pub(super) dir: Vec<u8>,
    pub(super) top: Fd,
    /// Directories above all members that were reached through symlinks, as the SRC of a dump can
    /// be.
    followed: Vec<(Vec<u8>, Fd)>,
    /// The open directory of the last member, because the next is mostly in the same one.
    last: Option<(Vec<u8>, Fd)>,
    /// Resolves the names in access control lists.
    owners: Rc<Owners>,
    /// Excluded entries, which need not be in the archive.
    pub(super) filter: Filter,
    /// The dump's list of files (`--files-from`): only these must be in the archive. `None` without
    /// a list.
    pub(super) listed: Option<SortedNames>,
    /// Device and inode of the archive files, which need not be in the archive.
    pub(super) archives: Vec<(Dev, u64)>,
    /// Metadata that is not compared.
    ignored: Rc<[IgnoredMetadata]>,
    /// Mounts in the tree that do not answer.
    pub(super) silent: SilentMounts,
    /// Symlinks above all members for which the mounts at their targets were checked.
    checked: BTreeSet<Vec<u8>>,
}

/// Mount points in a tree that do not answer. A system call on a path at or below one of them could
/// block forever.
#[derive(Debug)]
pub(super) struct SilentMounts {
    deadline: Duration,
    /// Paths below the tree, each with whether a comparison has skipped a file there.
    points: Vec<(Vec<u8>, Cell<bool>)>,
}

impl SilentMounts {
    /// Adds the silent mounts of a directory that was given to [`ReachableMounts::find`] as `dir`,
    /// and that has the path `at` in the tree.
    fn add(&mut self, dir: &[u8], at: &[u8], around: &ReachableMounts) {
        let (at, paths) = (plain(at), around.silent_paths().iter());
        let points = paths.map(|path| (joined(&at, relative(dir, path)), Cell::new(false)));
        self.points.extend(points);
    }

    /// Whether a path in the tree is on one of the mounts, so that it must be skipped. Records the
    /// mount for [`SilentMounts::warnings`].
    pub(super) fn has(&self, path: &[u8]) -> bool {
        if self.points.is_empty() {
            return false;
        }
        let path = plain(path);
        let mut points = self.points.iter();
        let found = points.find(|(point, _)| path::below(point, &path).is_some());
        found.map(|(_, is_met)| is_met.set(true)).is_some()
    }

    /// One warning for each mount on which files were skipped. `dir` is the directory of the tree.
    fn warnings(&self, dir: &[u8]) -> Vec<Warning> {
        let met = self.points.iter().filter(|(_, is_met)| is_met.get());
        let warn = |(point, _): &(Vec<u8>, Cell<bool>)| {
            let kind = walk::WarningKind::Silent(self.deadline);
            Warning::about(&joined(dir, point), kind)
        };
        met.map(warn).collect()
    }
}

/// A file to compare, by name in an open directory.
pub(super) struct TreeFile<'a> {
    dir: BorrowedFd<'a>,
    name: CString,
}

/// Collects the differences of one member.
struct Differences<'a> {
    path: &'a [u8],
    found: &'a mut Vec<Warning>,
    ignored: Rc<[IgnoredMetadata]>,
}

impl Differences<'_> {
    fn report_difference(&mut self, what: Difference) {
        if !what.metadata().is_some_and(|it| self.ignores(it)) {
            self.found.push(Warning::about(self.path, what));
        }
    }

    fn ignores(&self, metadata: IgnoredMetadata) -> bool {
        self.ignored.contains(&metadata)
    }

    fn failed(&mut self, access: TreeAccess, gate: Gate) -> impl FnMut(Errno) {
        move |errno| {
            let warning = Warning::failed(self.path, gate, errno, access);
            self.found.push(warning);
        }
    }

    fn check<T: PartialEq>(&mut self, is: T, was: T, difference: fn(T, T) -> Difference) {
        if is != was {
            self.report_difference(difference(is, was));
        }
    }
}

impl Tree {
    /// Opens the directory of a tree. Members are looked up by name below it; files that the filter
    /// excludes, by their names below the directory, need not be in the archive. Files on the
    /// silent mounts of `around`, which was found for `dir` with this `deadline`, are skipped.
    ///
    /// # Errors
    /// Those of openat(2).
    pub fn open(
        dir: &[u8],
        filter: Filter,
        around: &ReachableMounts,
        deadline: Duration,
    ) -> Result<Tree, Errno> {
        let top = open_long(dir, Open::DIRECTORY | Open::PATH)?;
        let points = Vec::new();
        let mut silent = SilentMounts { deadline, points };
        silent.add(dir, b"", around);
        Ok(Tree {
            dir: dir.to_vec(),
            top,
            followed: Vec::new(),
            last: None,
            owners: Rc::new(Owners::default()),
            filter,
            listed: None,
            archives: Vec::new(),
            ignored: Rc::default(),
            silent,
            checked: BTreeSet::new(),
        })
    }

    /// Does not compare some of the metadata.
    #[must_use]
    pub fn with_ignored(self, ignored: &[IgnoredMetadata]) -> Tree {
        let ignored = ignored.into();
        Tree { ignored, ..self }
    }

    /// Restricts the names that must be in the archive to the listed ones, with everything below
    /// them.
    pub fn with_listed(self, listed: Option<SortedNames>) -> Tree {
        let listed = listed.map(|listed| listed.without_excluded(&self.filter));
        Tree { listed, ..self }
    }

    /// One warning for each mount that did not answer, if files on it were skipped.
    pub(super) fn silent_warnings(&self) -> Vec<Warning> {
        self.silent.warnings(&self.dir)
    }

    /// Checks the mounts at and below the directory `above`, if it is a symlink, which may lead out
    /// of the tree. Checks nothing if this process has several threads, because the check forks.
    fn check_followed(&mut self, above: &[u8]) {
        let seen = self.spot(above).and_then(|spot| spot.statx());
        let is_symlink = |seen: Statx| FileType::from_mode(seen.mode) == FileType::Symlink;
        if !seen.is_ok_and(is_symlink)
            || !has_one_thread(Duration::ZERO)
            || !self.checked.insert(above.to_vec())
        {
            return;
        }
        let (dir, deadline) = (joined(&self.dir, above), self.silent.deadline);
        let dirs = std::slice::from_ref(&dir);
        match ReachableMounts::find(dirs, false, &Filter::default(), deadline) {
            Ok(around) => self.silent.add(&dir, above, &around),
            Err(_) => self
                .silent
                .points
                .push((plain(above).into_owned(), Cell::new(false))),
        }
    }

    /// Opens a directory. Symlinks are followed only above all members. `ETIMEDOUT` on a mount that
    /// does not answer.
    pub(super) fn open_directory(&self, path: &[u8], how: Open) -> Result<Fd, Errno> {
        if self.silent.has(path) {
            return Err(Errno::ETIMEDOUT);
        }
        let followed = self.followed.iter();
        let below = followed.filter_map(|(above, fd)| Some((fd, path::below(above, path)?)));
        let nearest = below.min_by_key(|(_, rest)| rest.len());
        let (from, rest) = nearest.unwrap_or((&self.top, path));
        open_beneath(from.as_fd(), rest, how | Open::DIRECTORY)
    }

    /// Opens the directories on the path `dir` that are above all members of the archive. Only
    /// there are symlinks followed.
    fn follow(&mut self, dir: &[u8], known: &ArchivedFiles) {
        let ends = (0..=dir.len()).filter(|&end| dir.get(end).is_none_or(|&byte| byte == b'/'));
        let ends = ends.take_while(|&end| !known.names.contains(&known.hash(&dir[..end])));
        for above in ends.map(|end| &dir[..end]) {
            if self.followed.iter().any(|(path, _)| path == above) {
                continue;
            }
            self.check_followed(above);
            if self.silent.has(above) {
                return;
            }
            let open = || -> Result<Fd, Errno> {
                let reach = reach(self.top.as_fd(), above)?;
                openat(reach.dir(), reach.rest(), Open::DIRECTORY | Open::PATH)
            };
            if let Ok(fd) = open() {
                self.followed.push((above.to_vec(), fd));
            }
        }
    }

    /// Opens the parent directory of a member, unless it is already open.
    fn enter(&mut self, dir: &[u8]) -> Result<(), Errno> {
        let is_last = |(last, _): &(Vec<u8>, Fd)| last == dir;
        if !dir.is_empty() && !self.last.as_ref().is_some_and(is_last) {
            let how = Open::DIRECTORY | Open::PATH;
            self.last = Some((dir.to_vec(), self.open_directory(dir, how)?));
        }
        Ok(())
    }

    /// Looks up the file of a member's name. Symlinks are followed only above all members.
    /// `ETIMEDOUT` on a mount that does not answer.
    pub(super) fn spot(&mut self, name: &[u8]) -> Result<TreeFile<'_>, Errno> {
        if self.silent.has(name) {
            return Err(Errno::ETIMEDOUT);
        }
        let name = name.strip_suffix(b"/").unwrap_or(name);
        let (dir, base) = split(name);
        self.enter(dir)?;
        let dir = match &self.last {
            Some((_, fd)) if !dir.is_empty() => fd.as_fd(),
            _ => self.top.as_fd(),
        };
        let name = c_string(base)?;
        Ok(TreeFile { dir, name })
    }

    /// Finds the file with a member's name, and records it in `known`. `None` without a difference
    /// on a mount that does not answer.
    fn find(
        &mut self,
        member: &Member,
        known: &mut ArchivedFiles,
        differ: &mut Differences<'_>,
    ) -> Option<(TreeFile<'_>, Statx)> {
        let Some(name) = below(&member.path) else {
            differ.report_difference(Difference::LeadsOut);
            return None;
        };
        if self.silent.has(name) {
            return None;
        }
        let (dir, _) = split(name.strip_suffix(b"/").unwrap_or(name));
        if let Err(Errno::ELOOP | Errno::ENOTDIR) = self.enter(dir) {
            self.follow(dir, known);
            // The target of a symlink can be on a silent mount outside of the tree.
            if self.silent.has(name) {
                return None;
            }
        }
        let spot = self.spot(name);
        let spot = spot.map_err(|errno| (TreeAccess::Reach, Gate::Openat2, errno));
        let found = spot.and_then(|spot| match spot.statx() {
            Ok(is) => Ok((spot, is)),
            Err(errno) => Err((TreeAccess::ReadAttributes, Gate::Statx, errno)),
        });
        let (spot, is) = match found {
            Ok(found) => found,
            Err((.., Errno::ENOENT)) => {
                differ.report_difference(Difference::NotInTree);
                return None;
            }
            Err((access, gate, errno)) => {
                differ.failed(access, gate)(errno);
                return None;
            }
        };
        let is_whole = member.kind == MemberKind::Directory && member.dumpdir.is_none();
        let is_directory = FileType::from_mode(is.mode) == FileType::Directory;
        known.add(name, is_whole && is_directory);
        Some((spot, is))
    }

    fn differences<'a>(&self, path: &'a [u8], found: &'a mut Vec<Warning>) -> Differences<'a> {
        let ignored = Rc::clone(&self.ignored);
        Differences {
            path,
            found,
            ignored,
        }
    }

    /// Compares an entry of a catalog with the file of the same name, and the contents by checksum.
    pub(super) fn compare_by_hash(
        &mut self,
        member: &Member,
        hash: Option<[u8; 32]>,
        had_holes: bool,
        known: &mut ArchivedFiles,
        found: &mut Vec<Warning>,
    ) {
        let mut differ = self.differences(&member.path, found);
        let Some((spot, is)) = self.find(member, known, &mut differ) else {
            return;
        };
        if !attributes(member, &is, &mut differ) || is.size != member.size {
            return;
        }
        let Some(hash) = hash.filter(|_| member.kind == MemberKind::File) else {
            return;
        };
        let fd = spot.open(is.uid);
        let Ok(fd) = fd.map_err(differ.failed(TreeAccess::Open, Gate::Openat)) else {
            return;
        };
        let has_hash = |now: Result<[u8; 32], Errno>| now.map(|now| now == hash);
        let is_equal = match has_hash(hash_file(&fd)) {
            Ok(false) if had_holes => has_hash(hash_extents(&fd, is.size)),
            is_equal => is_equal,
        };
        match is_equal {
            Ok(true) => {}
            Ok(false) if had_holes => differ.report_difference(Difference::SparseChecksum),
            Ok(false) => differ.report_difference(Difference::Checksum),
            Err(errno) => differ.failed(TreeAccess::Read, Gate::Pread64)(errno),
        }
    }

    /// Compares a hard link with its target in the tree: the identity, or if links are ignored, the
    /// contents, which the archive has only for the target. `own` is the open file of the link.
    fn compare_link(
        &mut self,
        member: &Member,
        is: &Statx,
        own: Option<Result<Fd, Errno>>,
        differ: &mut Differences<'_>,
    ) {
        if self.silent.has(&member.link) {
            return;
        }
        let target = match below(&member.link) {
            Some(name) => self.spot(name),
            None => Err(Errno::ENOENT),
        };
        let target = target.and_then(|spot| Ok((spot.statx()?, spot)));
        let ignores_links = differ.ignores(IgnoredMetadata::Links);
        let kind = |file: &Statx| FileType::from_mode(file.mode);
        let not_linked = Difference::NotLinkedTo(member.link.clone());
        match (target, own) {
            (Ok((to, _)), _) if (to.dev, to.ino) == (is.dev, is.ino) => {}
            (Ok((to, _)), _) if ignores_links && kind(&to) != kind(is) => {
                differ.report_difference(Difference::Type(kind(is), kind(&to)));
            }
            (Ok((to, spot)), Some(own)) => {
                let size = to.size.max(is.size);
                let files = own.and_then(|own| Ok((own, spot.open(to.uid)?)));
                match files.map(|(own, target)| first_difference(own, &target, size)) {
                    Ok(Ok(None)) => {}
                    Ok(Ok(Some(from))) => differ.report_difference(Difference::Contents { from }),
                    Ok(Err(errno)) => differ.failed(TreeAccess::Read, Gate::Pread64)(errno),
                    Err(errno) => differ.failed(TreeAccess::Open, Gate::Openat)(errno),
                }
            }
            (Err(_), _) if ignores_links => {
                differ.found.push(Warning::about(differ.path, not_linked));
            }
            _ => differ.report_difference(not_linked),
        }
    }

    /// Compares the current member of `input` with the file of the same name.
    pub(super) fn compare(
        &mut self,
        input: &mut Input,
        member: &Member,
        known: &mut ArchivedFiles,
        found: &mut Vec<Warning>,
    ) -> Result<(), Error> {
        let mut differ = self.differences(&member.path, found);
        let owners = Rc::clone(&self.owners);
        if matches!(member.kind, MemberKind::Label | MemberKind::Continuation) {
            return Ok(());
        }
        let Some((spot, is)) = self.find(member, known, &mut differ) else {
            return Ok(());
        };
        if member.kind == MemberKind::Link {
            let is_regular = FileType::from_mode(is.mode) == FileType::Regular;
            let is_read = is_regular && differ.ignores(IgnoredMetadata::Links);
            // The next lookup may close the directory of this file.
            let own = is_read.then(|| spot.open(is.uid));
            self.compare_link(member, &is, own, &mut differ);
            return Ok(());
        }
        if !attributes(member, &is, &mut differ) {
            return Ok(());
        }
        match member.kind {
            MemberKind::Symlink => match readlinkat(spot.dir, &spot.name) {
                Ok(target) => differ.check(target, member.link.clone(), Difference::Target),
                Err(errno) => differ.failed(TreeAccess::ReadSymlink, Gate::Readlinkat)(errno),
            },
            MemberKind::File if is.size == member.size => {
                contents(input, member, (&spot, is.uid), &mut differ)?
            }
            _ => {}
        }
        if !differ.ignores(IgnoredMetadata::Xattrs) {
            let id_of = |who, name: &[u8], number| owners.id(who, name, number);
            extended(member, &spot, id_of, &mut differ);
        }
        Ok(())
    }
}

impl TreeFile<'_> {
    pub(super) fn statx(&self) -> Result<Statx, Errno> {
        lstatat(self.dir, &self.name, StatxMask::BASIC_STATS)
    }

    /// Opens the file, owned by the user `owner`, with O_NOATIME where permitted: a purge by access
    /// time must not take a comparison for a use of the file.
    fn open(&self, owner: u32) -> Result<Fd, Errno> {
        let may_keep_atime = is_root() || is_me(owner);
        open_to_read(self.dir, &self.name, may_keep_atime)
    }
}

/// A member's name relative to the tree: without leading slashes. `None` if it contains `..`.
fn below(name: &[u8]) -> Option<&[u8]> {
    let name = &name[name.iter().take_while(|&&byte| byte == b'/').count()..];
    (!name.is_empty()
        && !name.contains(&0)
        && name.split(|&byte| byte == b'/').all(|part| part != b".."))
    .then_some(name)
}

/// Compares the attributes of statx(2). Returns `false` if the types differ.
fn attributes(member: &Member, is: &Statx, differ: &mut Differences<'_>) -> bool {
    let said = match member.kind {
        MemberKind::File => FileType::Regular,
        MemberKind::Symlink => FileType::Symlink,
        MemberKind::Char => FileType::Char,
        MemberKind::Block => FileType::Block,
        MemberKind::Directory => FileType::Directory,
        MemberKind::Fifo => FileType::Fifo,
        MemberKind::Link | MemberKind::Label | MemberKind::Continuation => return false,
    };
    let kind = FileType::from_mode(is.mode);
    differ.check(kind, said, Difference::Type);
    if kind != said {
        return false;
    }
    if kind != FileType::Symlink {
        // With an access control list, the mode's group bits are the mask, but some programs
        // archive the owning group's bits instead.
        let has_acl = member.acl_access.is_some();
        let bits = if has_acl { 0o7707 } else { 0o7777 };
        differ.check(is.mode & bits, member.mode & bits, Difference::Mode);
    }
    let (is_owner, owner) = ((is.uid, is.gid), (member.uid, member.gid));
    differ.check(is_owner, owner, Difference::Owner);
    if kind == FileType::Regular {
        differ.check(is.size, member.size, Difference::Size);
    }
    if matches!(kind, FileType::Char | FileType::Block) {
        differ.check(is.rdev, member.rdev, Difference::Device);
    }
    let mut mtime = is.mtime;
    if member.mtime.nsec == 0 {
        mtime.nsec = 0; // old tar formats have whole seconds
    }
    differ.check(mtime, member.mtime, Difference::ModificationTime);
    true
}

/// Compares the data of a file with that in the archive, which has the same length. `owner` is the
/// user id of the file's owner.
fn contents(
    input: &mut Input,
    member: &Member,
    (spot, owner): (&TreeFile<'_>, u32),
    differ: &mut Differences<'_>,
) -> Result<(), Error> {
    let fd = spot.open(owner);
    let Ok(fd) = fd.map_err(differ.failed(TreeAccess::Open, Gate::Openat)) else {
        return Ok(());
    };
    let mut other = OpenTreeFile::new(fd);
    let mut said = input.contents(member);
    let mut at = 0;
    loop {
        let piece = said.next()?;
        let (offset, bytes) = piece.unwrap_or((member.size, &[]));
        let different = match other.first_nonzero(at..offset) {
            Ok(None) => other.first_difference(offset, bytes),
            other => other,
        };
        match different {
            Ok(None) if piece.is_some() => {
                at = offset + bytes.len() as u64;
                continue;
            }
            Ok(None) => {}
            Ok(Some(from)) => differ.report_difference(Difference::Contents { from }),
            Err(errno) => differ.failed(TreeAccess::Read, Gate::Pread64)(errno),
        }
        return Ok(());
    }
}

/// Offset of the first byte in which two files differ; `size` is the larger of their sizes.
fn first_difference(one: Fd, other: &Fd, size: u64) -> Result<Option<u64>, Errno> {
    let (mut one, mut buffer) = (OpenTreeFile::new(one), vec![0; 256 << 10]);
    let mut at = 0;
    while at < size {
        let n = pread64(other, &mut buffer, at)?;
        if n == 0 {
            return Ok(Some(at));
        }
        let different = one.first_difference(at, &buffer[..n])?;
        if different.is_some() {
            return Ok(different);
        }
        at += n as u64;
    }
    Ok(None)
}

/// The BLAKE3 checksum of a file's contents.
fn hash_file(fd: &Fd) -> Result<[u8; 32], Errno> {
    let (mut hasher, mut buffer) = (blake3::Hasher::new(), vec![0; 256 << 10]);
    let mut at = 0;
    loop {
        let n = pread64(fd, &mut buffer, at)?;
        if n == 0 {
            return Ok(hasher.finalize().into());
        }
        hasher.update(&buffer[..n]);
        at += n as u64;
    }
}

/// The checksum of a sparse file as stored in an archive: of the map and the data.
fn hash_extents(fd: &Fd, size: u64) -> Result<[u8; 32], Errno> {
    let (mut hasher, mut buffer) = (blake3::Hasher::new(), Vec::new());
    let map = holes::data(fd, size)?.unwrap_or_default();
    map.encode(size, &mut buffer);
    hasher.update(&buffer);
    buffer.resize(256 << 10, 0);
    for extent in map.extents() {
        let mut at = extent.offset;
        while at < extent.end() {
            let wanted = (extent.end() - at).min(buffer.len() as u64) as usize;
            match pread64(fd, &mut buffer[..wanted], at)? {
                0 => break,
                n => {
                    hasher.update(&buffer[..n]);
                    at += n as u64;
                }
            }
        }
    }
    Ok(hasher.finalize().into())
}

/// An open file of the tree, to compare with a member.
struct OpenTreeFile {
    fd: Fd,
    buffer: Vec<u8>,
}

impl OpenTreeFile {
    fn new(fd: Fd) -> OpenTreeFile {
        let buffer = Vec::new();
        OpenTreeFile { fd, buffer }
    }

    /// Offset of the first byte that differs.
    fn first_difference(&mut self, offset: u64, said: &[u8]) -> Result<Option<u64>, Errno> {
        self.buffer.resize(said.len(), 0);
        let have = read_full_at(&self.fd, offset, &mut self.buffer)?;
        let is = &self.buffer[..have];
        if is == said {
            return Ok(None);
        }
        let different = is.iter().zip(said).position(|(is, said)| is != said);
        Ok(Some(offset + different.unwrap_or(have) as u64))
    }

    /// Offset of the first nonzero byte in a hole of the archive. Holes of the file are not read.
    fn first_nonzero(&mut self, hole: Range<u64>) -> Result<Option<u64>, Errno> {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        let mut at = hole.start;
        while at < hole.end {
            at = match lseek(&self.fd, at, Whence::Data) {
                Ok(data) => data.max(at),
                Err(Errno::ENXIO) => return Ok(None),
                Err(Errno::EINVAL) => at, // without SEEK_DATA
                Err(errno) => return Err(errno),
            };
            let len = hole.end.saturating_sub(at).min(ZEROS.len() as u64);
            let different = self.first_difference(at, &ZEROS[..len as usize])?;
            if different.is_some() {
                return Ok(different);
            }
            at += len.max(1);
        }
        Ok(None)
    }
}

/// Compares extended attributes and access control lists.
fn extended(
    member: &Member,
    spot: &TreeFile<'_>,
    id_of: impl Fn(AclNameKind, &[u8], Option<u32>) -> Option<u32>,
    differ: &mut Differences<'_>,
) {
    const ACLS: [&CStr; 2] = [c"system.posix_acl_access", c"system.posix_acl_default"];
    let (mut names, mut value) = (Vec::new(), Vec::new());
    match listxattrat(spot.dir, &spot.name, &mut names) {
        Ok(()) | Err(Errno::EOPNOTSUPP) => {}
        Err(errno) => return differ.failed(TreeAccess::ListXattrs, Gate::Listxattrat)(errno),
    }
    let is_acl =
        |name: &[u8]| ACLS.iter().any(|acl| acl.to_bytes() == name) || acl::is_xfs_form(name);
    let listed = || names.split(|&byte| byte == 0);
    let mut read = |attribute: &CStr| match getxattrat(spot.dir, &spot.name, attribute, &mut value)
    {
        Ok(()) => Ok(Some(value.clone())),
        Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(None),
        Err(errno) => Err(errno),
    };
    for name in listed().filter(|name| !name.is_empty() && !is_acl(name)) {
        let is_new = member.xattrs.iter().all(|(said, _)| said != name);
        // Security modules label every file, and NFS clients report an access control list for
        // each, so these are no differences.
        let mut is_of_all = || match name {
            b"security.selinux" => true,
            nfs4_acl::NAME => c_string(name).is_ok_and(|attribute| {
                let list = read(&attribute).unwrap_or_default();
                list.is_none_or(|list| nfs4_acl::is_minimal(&list))
            }),
            _ => false,
        };
        if is_new && !is_of_all() {
            differ.report_difference(Difference::XattrAdded(name.to_vec()));
        }
    }
    for (name, said) in member.xattrs.iter().filter(|(name, _)| !is_acl(name)) {
        let Ok(attribute) = c_string(name) else {
            continue;
        };
        match read(&attribute) {
            Ok(Some(is)) if is == *said => {}
            Ok(Some(_)) => differ.report_difference(Difference::XattrChanged(name.clone())),
            Ok(None) if name == nfs4_acl::NAME && nfs4_acl::is_minimal(said) => {}
            Ok(None) => differ.report_difference(Difference::XattrRemoved(name.clone())),
            Err(errno) => differ.failed(TreeAccess::ReadXattr, Gate::Getxattrat)(errno),
        }
    }
    for (attribute, said) in ACLS
        .into_iter()
        .zip([&member.acl_access, &member.acl_default])
    {
        let said = said.as_deref().map(|text| acl::to_binary(text, &id_of));
        if said == Some(None) {
            differ.report_difference(Difference::AclWithUnknownNames);
            continue;
        }
        let said = said.flatten();
        // The kernel does not store an access list of three entries, which equals the mode, but
        // does store such a default list.
        let said = said.filter(|said| attribute != ACLS[0] || said.len() > acl::MINIMAL);
        let is_listed = listed().any(|name| name == attribute.to_bytes());
        match if is_listed { read(attribute) } else { Ok(None) } {
            Ok(is) if is == said => {}
            Ok(_) => differ.report_difference(Difference::Acl(attribute)),
            Err(errno) => differ.failed(TreeAccess::ReadAcl, Gate::Getxattrat)(errno),
        }
    }
}
