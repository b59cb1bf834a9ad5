//! Whether an archive is whole, and whether a tree is as it says.
//!
//! Whole: every header's checksum is right, and that of every member's data where there is one, and
//! the archive has its end. After what is damaged it goes on with the next header that is sound.

use std::ffi::{CStr, CString};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

use gate::fs::{At, Open, Statx, Want, Whence, lseek, openat, pread64, readlinkat, statx};
use gate::long::{c_string, open_beneath, open_long, statx_long};
use gate::xattr::{getxattrat, listxattrat};
use gate::{Errno, Fd, Gate};
use mounts::Warning;
use ondisk::Time;
use ondisk::pax::acl::{self, Who};
use ondisk::pax::{Kind, Member};
use walk::{Filter, Type};

use crate::error::{Error, ErrorKind};
use crate::input::{Input, Verdict};
use crate::restore::owners::Owners;
use crate::warning::WarningKind;
use besides::{Known, Spared};

mod besides;
mod difference;

pub use difference::{Difference, TreeAccess};

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// Members met.
    pub members: u64,
    /// Of them, plain files.
    pub files: u64,
    /// Files whose data is what its checksum says.
    pub right: u64,
    /// Files that have no checksum.
    pub unsaid: u64,
    /// Places where the archive is damaged, checksums of data included.
    pub damaged: u64,
    /// Members that a tree was compared with.
    pub compared: u64,
    /// Of them, those that are otherwise there, or not there.
    pub different: u64,
    /// What is in the directories that were dumped, and not in the archive; what is in a directory
    /// of these is not counted.
    pub unknown: u64,
    /// Length of the archive, uncompressed, in bytes: as far as it was read.
    pub bytes: u64,
    /// What is wrong.
    pub warnings: Vec<Warning>,
    /// Warnings that there were too many of.
    untold: u64,
}

/// More warnings than this nobody reads, and the worst archive could give millions.
const MOST_WARNINGS: usize = 100_000;

/// Reads an archive to its end. `name` is what warnings call it; `watch` is told of each
/// member: what came of it so far, how far the archive is read, the name.
///
/// # Errors
/// What is no archive at all, and what cannot be read any further.
pub fn verify(
    name: &[u8],
    input: &mut Input,
    mut against: Option<&mut Tree>,
    mut watch: impl FnMut(&VerifyReport, u64, &[u8]),
) -> Result<VerifyReport, Error> {
    let mut report = VerifyReport::default();
    let mut last: Option<(Vec<u8>, u64)> = None;
    let mut known = Known::default();
    let own = if name == b"-" {
        None
    } else {
        statx_long(name, At::empty(), Want::BASIC_STATS).ok()
    };
    let own = own.map(|seen| (seen.dev.into(), seen.ino));
    input.check();
    loop {
        let next = input.next();
        if let (Some((path, at)), Some(verdict)) = (&last, input.verdict()) {
            match verdict {
                Verdict::Right => report.right += 1,
                Verdict::NoChecksum => report.unsaid += 1,
                Verdict::Wrong => {
                    report.damaged += 1;
                    let kind = WarningKind::WrongChecksum { at: *at };
                    report.warn(Warning::about(path, kind));
                }
            }
        }
        last = None;
        let member = match next {
            Ok(Some(member)) => member,
            Ok(None) => break,
            Err(Error {
                kind: kind @ ErrorKind::DamagedArchive { .. },
                ..
            }) => {
                report.damaged += 1;
                report.warn(Warning::about(name, WarningKind::Damaged(kind)));
                input.recover();
                continue;
            }
            Err(other) => return Err(other),
        };
        report.members += 1;
        report.files += u64::from(member.kind == Kind::File);
        watch(&report, input.place(), &member.path);
        last = Some((member.path.clone(), input.at()));
        if let Some(tree) = &mut against {
            let mut differences = Vec::new();
            let compared = tree.compare(input, &member, &mut known, &mut differences);
            report.compared += 1;
            report.different += u64::from(!differences.is_empty());
            differences
                .into_iter()
                .for_each(|difference| report.warn(difference));
            if let Err(error) = compared {
                report.damaged += 1;
                report.warn(Warning::about(
                    &member.path,
                    WarningKind::Damaged(error.kind),
                ));
                input.recover();
            }
            if let Some(list) = &member.dumpdir {
                let spared = Spared {
                    own,
                    filter: &tree.filter,
                };
                tree.unlisted(&member.path, list, &spared, |warning| {
                    report.unknown(warning)
                });
            }
        }
    }
    if let Some(tree) = against {
        tree.besides(
            &known,
            &Spared {
                own,
                filter: &tree.filter,
            },
            |warning| report.unknown(warning),
        );
    }
    report.bytes = input.place();
    if input.is_followed() {
        let kind = WarningKind::DataAfterEnd;
        report.warnings.push(Warning::about(name, kind));
    }
    if report.untold > 0 {
        let kind = WarningKind::MoreOfThese(report.untold);
        report.warnings.push(Warning::general(kind));
    }
    Ok(report)
}

impl VerifyReport {
    /// Something is in the tree only; or that could not be seen.
    fn unknown(&mut self, warning: Warning) {
        self.unknown += u64::from(warning.gate.is_none());
        self.warn(warning);
    }

    fn warn(&mut self, warning: Warning) {
        if self.warnings.len() < MOST_WARNINGS {
            self.warnings.push(warning);
        } else {
            self.untold += 1;
        }
    }
}

/// A tree to compare with.
#[derive(Debug)]
pub struct Tree {
    top: Fd,
    /// The directory of the last member, open: the next is mostly in it, too.
    last: Option<(Vec<u8>, Fd)>,
    /// Whose names an archive's access control lists may have.
    owners: Rc<Owners>,
    /// What of it need not be in the archive.
    filter: Filter,
}

/// A name in an open directory.
struct Spot<'a> {
    dir: BorrowedFd<'a>,
    name: CString,
}

/// What is different about a member.
struct Differences<'a> {
    path: &'a [u8],
    found: &'a mut Vec<Warning>,
}

impl Differences<'_> {
    fn say(&mut self, what: Difference) {
        self.found.push(Warning::about(self.path, what));
    }

    fn failed(&mut self, access: TreeAccess, gate: Gate) -> impl FnMut(Errno) {
        move |errno| {
            self.found
                .push(Warning::failed(self.path, gate, errno, access))
        }
    }

    fn unless_same<T: PartialEq>(&mut self, is: T, said: T, what: impl Fn(&T, &T) -> Difference) {
        if is != said {
            self.say(what(&is, &said));
        }
    }
}

impl Tree {
    /// The tree under a directory. Members are looked for below it by their names; what a filter
    /// leaves out need not be in the archive, by names below the directory.
    ///
    /// # Errors
    /// Those of openat(2).
    pub fn open(dir: &[u8], filter: Filter) -> Result<Tree, Errno> {
        let top = open_long(dir, Open::DIRECTORY | Open::PATH)?;
        Ok(Tree {
            top,
            last: None,
            owners: Rc::new(Owners::read()),
            filter,
        })
    }

    /// Where a member's name leads; no symlink on the way is followed.
    fn spot(&mut self, name: &[u8]) -> Result<Spot<'_>, Errno> {
        let name = name.strip_suffix(b"/").unwrap_or(name);
        let at = name
            .iter()
            .rposition(|&byte| byte == b'/')
            .map_or(0, |at| at + 1);
        let (dir, base) = name.split_at(at);
        if dir.is_empty() {
            return Ok(Spot {
                dir: self.top.as_fd(),
                name: c_string(base)?,
            });
        }
        if self.last.as_ref().is_none_or(|(last, _)| last != dir) {
            let how = Open::DIRECTORY | Open::PATH;
            self.last = Some((dir.to_vec(), open_beneath(self.top.as_fd(), dir, how)?));
        }
        let dir = self
            .last
            .as_ref()
            .map_or(self.top.as_fd(), |(_, fd)| fd.as_fd());
        Ok(Spot {
            dir,
            name: c_string(base)?,
        })
    }

    /// Compares a member, the current one of `input`, with what has its name, which is then known.
    fn compare(
        &mut self,
        input: &mut Input,
        member: &Member,
        known: &mut Known,
        found: &mut Vec<Warning>,
    ) -> Result<(), Error> {
        let mut differ = Differences {
            path: &member.path,
            found,
        };
        let owners = Rc::clone(&self.owners);
        if member.kind == Kind::LABEL {
            return Ok(());
        }
        let Some(name) = below(&member.path) else {
            differ.say(Difference::LeadsOut);
            return Ok(());
        };
        let spot = match self.spot(name) {
            Ok(spot) => spot,
            Err(errno) => {
                differ.failed(TreeAccess::Reach, Gate::Openat2)(errno);
                return Ok(());
            }
        };
        let is = match spot.statx() {
            Ok(is) => is,
            Err(Errno::ENOENT) => {
                differ.say(Difference::NotInTree);
                return Ok(());
            }
            Err(errno) => {
                differ.failed(TreeAccess::ReadAttributes, Gate::Statx)(errno);
                return Ok(());
            }
        };
        let is_whole = member.kind == Kind::Directory && member.dumpdir.is_none();
        known.add(
            name,
            is_whole && Type::from_mode(is.mode) == Type::Directory,
        );
        if member.kind == Kind::Link {
            let to = below(&member.link).map(|name| self.spot(name).and_then(|spot| spot.statx()));
            if !matches!(to, Some(Ok(to)) if (to.dev, to.ino) == (is.dev, is.ino)) {
                differ.say(Difference::NotLinkedTo(member.link.clone()));
            }
            return Ok(());
        }
        if !attributes(member, &is, &mut differ) {
            return Ok(());
        }
        match member.kind {
            Kind::Symlink => match readlinkat(spot.dir, &spot.name) {
                Ok(target) => differ.unless_same(&target[..], &member.link[..], |is, said| {
                    let (is, was) = (is.to_vec(), said.to_vec());
                    Difference::Target { is, was }
                }),
                Err(errno) => differ.failed(TreeAccess::ReadSymlink, Gate::Readlinkat)(errno),
            },
            Kind::File if is.size == member.size => contents(input, member, &spot, &mut differ)?,
            _ => {}
        }
        let id_of = |who, name: &[u8]| match who {
            Who::User => owners.user(name),
            Who::Group => owners.group(name),
        };
        extended(member, &spot, id_of, &mut differ);
        Ok(())
    }
}

impl Spot<'_> {
    fn statx(&self) -> Result<Statx, Errno> {
        statx(
            self.dir,
            &self.name,
            At::SYMLINK_NOFOLLOW | At::NO_AUTOMOUNT,
            Want::BASIC_STATS,
        )
    }
}

/// A member's name as it is looked for below a directory: without slashes at its beginning. `None`
/// for one that leads out.
fn below(name: &[u8]) -> Option<&[u8]> {
    let from = name
        .iter()
        .position(|&byte| byte != b'/')
        .unwrap_or(name.len());
    let name = &name[from..];
    (!name.is_empty()
        && !name.contains(&0)
        && name.split(|&byte| byte == b'/').all(|part| part != b".."))
    .then_some(name)
}

/// Compares what statx(2) says. False if it is something else altogether.
fn attributes(member: &Member, is: &Statx, differ: &mut Differences<'_>) -> bool {
    let said = match member.kind {
        Kind::File => Type::File,
        Kind::Symlink => Type::Symlink,
        Kind::Char => Type::Char,
        Kind::Block => Type::Block,
        Kind::Directory => Type::Directory,
        Kind::Fifo => Type::Fifo,
        Kind::Link | Kind::Unknown(_) => return false,
    };
    let kind = Type::from_mode(is.mode);
    differ.unless_same(kind, said, |is, said| {
        let (is, was) = (is.name(), said.name());
        Difference::Type { is, was }
    });
    if kind != said {
        return false;
    }
    if kind != Type::Symlink {
        // With an access control list, the group's bits are its mask, and some programs archive the
        // group's own instead.
        let bits = if member.acl_access.is_some() {
            0o7707
        } else {
            0o7777
        };
        differ.unless_same(is.mode & bits, member.mode & bits, |is, said| {
            Difference::Mode {
                is: *is,
                was: *said,
            }
        });
    }
    differ.unless_same((is.uid, is.gid), (member.uid, member.gid), |is, said| {
        Difference::Owner {
            is: *is,
            was: *said,
        }
    });
    if kind == Type::File {
        differ.unless_same(is.size, member.size, |is, said| Difference::Size {
            is: *is,
            was: *said,
        });
    }
    if matches!(kind, Type::Char | Type::Block) {
        differ.unless_same(is.rdev.into(), member.rdev, |is, said| Difference::Device {
            is: *is,
            was: *said,
        });
    }
    // Archives of old know of whole seconds only.
    let nsec = if member.mtime.nsec == 0 {
        0
    } else {
        is.mtime.nsec
    };
    differ.unless_same(
        Time {
            sec: is.mtime.sec,
            nsec,
        },
        member.mtime,
        |is, said| Difference::ModificationTime {
            is: *is,
            was: *said,
        },
    );
    true
}

/// Compares the data of a file with what is in the archive, which is as long.
fn contents(
    input: &mut Input,
    member: &Member,
    spot: &Spot<'_>,
    differ: &mut Differences<'_>,
) -> Result<(), Error> {
    let fd = match openat(spot.dir, &spot.name, Open::NOFOLLOW | Open::NONBLOCK) {
        Ok(fd) => fd,
        Err(errno) => {
            differ.failed(TreeAccess::Open, Gate::Openat)(errno);
            return Ok(());
        }
    };
    let mut other = Other {
        fd,
        buffer: Vec::new(),
    };
    let mut said = input.contents(member);
    let mut at = 0;
    loop {
        let piece = said.next()?;
        let (offset, bytes) = piece.unwrap_or((member.size, &[]));
        let different = other.zeros(at..offset).and_then(|zeros| match zeros {
            None => other.same(offset, bytes),
            some => Ok(some),
        });
        match different {
            Ok(None) if piece.is_none() => return Ok(()),
            Ok(None) => at = offset + bytes.len() as u64,
            Ok(Some(at)) => {
                differ.say(Difference::Contents { from: at });
                return Ok(());
            }
            Err(errno) => {
                differ.failed(TreeAccess::Read, Gate::Pread64)(errno);
                return Ok(());
            }
        }
    }
}

/// A file in the tree, open to be compared.
struct Other {
    fd: Fd,
    buffer: Vec<u8>,
}

impl Other {
    /// The first place at which there is not what is said.
    fn same(&mut self, offset: u64, said: &[u8]) -> Result<Option<u64>, Errno> {
        self.buffer.resize(said.len(), 0);
        let mut have = 0;
        while have < said.len() {
            match pread64(&self.fd, &mut self.buffer[have..], offset + have as u64)? {
                0 => break,
                n => have += n,
            }
        }
        if self.buffer[..have] == *said {
            return Ok(None);
        }
        let different = self.buffer[..have]
            .iter()
            .zip(said)
            .position(|(is, said)| is != said);
        Ok(Some(offset + different.unwrap_or(have) as u64))
    }

    /// The first place in a hole of the archive's at which there is not a zero. Holes of the file's
    /// are not read.
    fn zeros(&mut self, hole: Range<u64>) -> Result<Option<u64>, Errno> {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        let mut at = hole.start;
        while at < hole.end {
            at = match lseek(&self.fd, at, Whence::Data) {
                Ok(data) => data.max(at),
                Err(Errno::ENXIO) => return Ok(None),
                Err(Errno::EINVAL) => at, // a file system that cannot say
                Err(errno) => return Err(errno),
            };
            let len = hole.end.saturating_sub(at).min(ZEROS.len() as u64);
            let different = self.same(at, &ZEROS[..len as usize])?;
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
    spot: &Spot<'_>,
    id_of: impl Fn(Who, &[u8]) -> Option<u32>,
    differ: &mut Differences<'_>,
) {
    /// Three entries say no more than the mode does, and the kernel keeps no list of them, save a
    /// default one.
    const MINIMAL: usize = 4 + 3 * 8;
    const ACLS: [&CStr; 2] = [c"system.posix_acl_access", c"system.posix_acl_default"];
    let (mut names, mut value) = (Vec::new(), Vec::new());
    match listxattrat(spot.dir, &spot.name, &mut names) {
        Ok(()) | Err(Errno::EOPNOTSUPP) => {}
        Err(errno) => {
            return differ.failed(TreeAccess::ListXattrs, Gate::Listxattrat)(errno);
        }
    }
    let is_acl = |name: &[u8]| ACLS.iter().any(|acl| acl.to_bytes() == name);
    for name in names
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty() && !is_acl(name))
    {
        // Security modules give theirs to every file, whether it was archived or not.
        if member.xattrs.iter().all(|(said, _)| said != name) && name != b"security.selinux" {
            differ.say(Difference::XattrAdded(name.to_vec()));
        }
    }
    let mut read = |attribute: &CStr| match getxattrat(spot.dir, &spot.name, attribute, &mut value)
    {
        Ok(()) => Ok(Some(value.clone())),
        Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(None),
        Err(errno) => Err(errno),
    };
    for (name, said) in member.xattrs.iter().filter(|(name, _)| !is_acl(name)) {
        let Ok(attribute) = c_string(name) else {
            continue;
        };
        match read(&attribute) {
            Ok(Some(is)) if is == *said => {}
            Ok(Some(_)) => differ.say(Difference::XattrChanged(name.clone())),
            Ok(None) => differ.say(Difference::XattrRemoved(name.clone())),
            Err(errno) => differ.failed(TreeAccess::ReadXattr, Gate::Getxattrat)(errno),
        }
    }
    for (attribute, said) in ACLS
        .into_iter()
        .zip([&member.acl_access, &member.acl_default])
    {
        let said = match said.as_deref().map(|text| acl::to_binary(text, &id_of)) {
            Some(None) => {
                differ.say(Difference::AclWithUnknownNames);
                continue;
            }
            said => said.flatten(),
        };
        // Who has none need not be asked for it.
        let is_listed = names
            .split(|&byte| byte == 0)
            .any(|name| name == attribute.to_bytes());
        match if is_listed { read(attribute) } else { Ok(None) } {
            Ok(is) => differ.unless_same(
                is,
                said.filter(|said| attribute != ACLS[0] || said.len() > MINIMAL),
                |_, _| Difference::Acl(attribute),
            ),
            Err(errno) => differ.failed(TreeAccess::ReadAcl, Gate::Getxattrat)(errno),
        }
    }
}
