//! Builds a member from its own header and the additional headers before it.

use super::super::acl;
use super::super::field::{
    GID, GNAME, GNU, LINK, MAGIC, MAJOR, MINOR, MODE, MTIME, PREFIX, TYPE, UID, UNAME, gnu, number,
    star, text,
};
use super::super::record::{GlobalRecords, Records, Sparse};
use super::super::sparse::{self, Map};
use super::super::{BLOCK, Fault, Member, MemberKind, dumpdir, padded};
use super::header::{Header, kind};
use super::{Decoder, Event, HeaderKind, Layout, Problem, SparseRemainder, State};
use crate::{Dev, Time};

/// User and group id for a member with an invalid owner: the kernel's overflowuid.
pub(super) const NOBODY: u32 = 65_534;

impl Decoder {
    pub(super) fn member(
        &mut self,
        block: &[u8; BLOCK],
        size: u64,
        at: u64,
    ) -> Result<Event, Problem> {
        let mut ahead = std::mem::take(&mut self.ahead);
        self.ahead.at = Some(ahead.at.unwrap_or(at));
        let records = ahead.records.take();
        let mut records = records.unwrap_or_else(|| Records::new(self.common.clone()));
        let mut sparse = std::mem::take(&mut records.sparse);
        let header = Header { block, at };
        let path = sparse.name.take().or(records.path.take()).or(ahead.path);
        let path = path.unwrap_or_else(|| header.name());
        let kind = kind(block[TYPE], &path);
        let stored = match Member::has_data(kind) || block[TYPE] == b'D' {
            true => records.size.unwrap_or(size),
            false => 0,
        };
        let lost = ahead.lost.or(ahead.lost_records);
        let lost = lost.or(records.unusable.map(|it| it.fault));
        let is_size_known = records.unusable.is_none_or(|unusable| !unusable.is_size);
        self.skip = padded(stored).filter(|_| is_size_known);
        if let Some(Fault { at, what }) = lost {
            return Err(Problem { at: Some(at), what });
        }
        let star_size = records.star_size;
        records.acl(ahead.acl);
        records.link = records.link.or(ahead.link);
        let member = Member {
            path,
            kind,
            stored,
            size: if Member::has_data(kind) { stored } else { 0 },
            ..self.describe(&header, kind, records)?
        };
        let member = Box::new(member);
        match (block[TYPE], kind) {
            (b'D', _) if stored > dumpdir::MOST as u64 => {
                self.fault(at, "a dumpdir is too long; it is skipped");
                self.done(member, stored)
            }
            (b'D', _) => self.expect(HeaderKind::Dumpdir(member), stored),
            (b'S', _) => self.old_sparse_header(member, block, star_size),
            (_, MemberKind::File)
                if sparse.major.is_some() || sparse.map.is_some() || sparse.size.is_some() =>
            {
                self.sparse_member(member, sparse)
            }
            _ => self.done(member, stored),
        }
    }

    /// Builds the metadata of a member from its header and records. Invalid fields are replaced by
    /// harmless values.
    fn describe(
        &mut self,
        header: &Header<'_>,
        kind: MemberKind,
        records: Records,
    ) -> Result<Member, Problem> {
        let (block, common) = (header.block, records.common);
        let link = match kind {
            MemberKind::Link | MemberKind::Symlink => {
                let link = records.link;
                link.unwrap_or_else(|| text(&block[LINK]).to_vec())
            }
            _ => Vec::new(),
        };
        let is_known = matches!(block[TYPE], 0 | b'0'..=b'7' | b'D' | b'M' | b'S' | b'V');
        if !is_known {
            self.fault(header.at, "unknown member type, read as a plain file");
        }
        let rdev = match kind {
            MemberKind::Char | MemberKind::Block => Dev::new(
                header.device(records.major, MAJOR)?,
                header.device(records.minor, MINOR)?,
            ),
            _ => Dev::default(),
        };
        let mut xattrs = match records.coded_xattrs.is_empty() {
            true => records.xattrs,
            false => records.coded_xattrs,
        };
        // GNU tar with `--xattrs` but not `--acls` stores access control lists as extended
        // attributes.
        let mut list = |recorded: Option<Vec<u8>>, name: &[u8]| {
            let text = xattrs.get(name).and_then(|binary| acl::to_text(binary));
            if text.is_some() {
                xattrs.remove(name);
            }
            recorded.or(text)
        };
        let acl_access = list(records.acl_access, b"system.posix_acl_access");
        let acl_default = list(records.acl_default, b"system.posix_acl_default");
        let (uid, gid, mode) = self.owner_and_mode(header, kind, &common);
        let time =
            |recorded: Option<Time>, field| recorded.map_or_else(|| header.seconds(field), Ok);
        let gnu_time = |recorded: Option<Time>, field| {
            recorded.map_or_else(|| header.gnu_time(field), |time| Ok(Some(time)))
        };
        Ok(Member {
            link,
            mode,
            uid,
            gid,
            uname: common.uname.unwrap_or_else(|| header.owner(UNAME)),
            gname: common.gname.unwrap_or_else(|| header.owner(GNAME)),
            mtime: self.or_default(header.at, time(common.mtime, MTIME), Time::default()),
            atime: self.or_default(header.at, gnu_time(common.atime, gnu::ATIME), None),
            ctime: self.or_default(header.at, gnu_time(common.ctime, gnu::CTIME), None),
            rdev,
            acl_access,
            acl_default,
            xattrs: xattrs.into_iter().collect(),
            dumpdir: records.dumpdir,
            blake3: records.blake3,
            ..Member::default()
        })
    }

    fn owner_and_mode(
        &mut self,
        header: &Header<'_>,
        kind: MemberKind,
        common: &GlobalRecords,
    ) -> (u32, u32, u32) {
        let uid = header.id(common.uid, UID);
        let gid = header.id(common.gid, GID);
        // Drop the set-user-ID and set-group-ID bits if an owner is invalid: chown(2) with -1 keeps
        // the owner of the new file, so the program would run as the user who restores it.
        let is_owner = |id: Option<u32>| id.is_some_and(|id| id != u32::MAX);
        let permitted = match is_owner(uid) && is_owner(gid) {
            true => 0o7777,
            false => 0o1777,
        };
        let private = match kind {
            MemberKind::Directory => 0o700,
            _ => 0o600,
        };
        let uid = uid.ok_or("invalid owner in a header; nobody is used");
        let gid = gid.ok_or("invalid group in a header; nogroup is used");
        let mode = number(&header.block[MODE]);
        let mode = mode.ok_or("invalid mode in a header; only the owner has access");
        let mode = self.or_default(header.at, mode, private) as u32 & permitted;
        (
            self.or_default(header.at, uid, NOBODY),
            self.or_default(header.at, gid, NOBODY),
            mode,
        )
    }

    /// Returns a value, or a default in place of an invalid one, which is recorded as a fault.
    fn or_default<T>(&mut self, at: u64, value: Result<T, &'static str>, default: T) -> T {
        value.unwrap_or_else(|what| {
            self.fault(at, what);
            default
        })
    }

    /// Handles the header of a sparse file in an old format, which has the first extents.
    fn old_sparse_header(
        &mut self,
        mut member: Box<Member>,
        block: &[u8; BLOCK],
        recorded: Option<u64>,
    ) -> Result<Event, Problem> {
        let layout = match &block[MAGIC] == GNU {
            true => Layout::Gnu,
            false => Layout::Star,
        };
        let real_size = match layout {
            Layout::Gnu => gnu::REAL_SIZE,
            Layout::Star => star::REAL_SIZE,
        };
        let size = number(&block[real_size]).and_then(|size| u64::try_from(size).ok());
        member.size = recorded.or(size).ok_or("invalid size of a sparse file")?;
        let left = member.stored;
        let mut map = Map::default();
        let is_extended = match layout {
            Layout::Gnu => {
                extents(&block[gnu::EXTENTS], &mut map)?;
                block[gnu::IS_EXTENDED] != 0
            }
            // star before xstar also stores extents in the header, in place of the prefix.
            Layout::Star if block[PREFIX.start] == 0 && block[star::EXTENTS.start + 10] != 0 => {
                extents(&block[star::EXTENTS], &mut map)?;
                block[star::IS_EXTENDED] != 0
            }
            Layout::Star => true,
        };
        self.old_sparse(member, map, SparseRemainder { layout, left }, is_extended)
    }

    /// Handles a sparse file whose map is in its records or at the beginning of its data.
    fn sparse_member(&mut self, mut member: Box<Member>, sparse: Sparse) -> Result<Event, Problem> {
        let left = member.stored;
        member.size = sparse.size.ok_or("a sparse file has no size")?;
        if !sparse.map_is_in_data() {
            return self.sparse(member, sparse.map.unwrap_or_default(), left);
        }
        if (sparse.major, sparse.minor.unwrap_or(0)) != (Some(1), 0) {
            return Err("unknown format of a sparse file".into());
        }
        self.state = State::Map(member, sparse::Text::default(), left);
        Ok(Event::More)
    }

    /// Continues with an old sparse file after reading some of its extents.
    pub(super) fn old_sparse(
        &mut self,
        member: Box<Member>,
        map: Map,
        rest: SparseRemainder,
        is_extended: bool,
    ) -> Result<Event, Problem> {
        if is_extended {
            self.state = State::Extents(member, map, rest);
            return Ok(Event::More);
        }
        self.sparse(member, map, rest.left)
    }

    /// Completes a sparse file with its map; `data` bytes of its data follow.
    pub(super) fn sparse(
        &mut self,
        mut member: Box<Member>,
        map: Map,
        data: u64,
    ) -> Result<Event, Problem> {
        map.check(member.size, data)?;
        member.sparse = Some(map);
        self.done(member, data)
    }

    pub(super) fn done(&mut self, member: Box<Member>, data: u64) -> Result<Event, Problem> {
        let at = std::mem::take(&mut self.ahead).at.unwrap_or(self.at);
        let end = padded(data).and_then(|data| self.at.checked_add(data));
        self.at = end.ok_or(Problem {
            at: Some(at),
            what: "a member is too large",
        })?;
        Ok(Event::Member { member, at, data })
    }
}

/// Parses the extents in an old header: pairs of numbers, up to the first blank one.
pub(super) fn extents(fields: &[u8], map: &mut Map) -> Result<(), &'static str> {
    for pair in fields.as_chunks::<{ gnu::EXTENT }>().0 {
        let (offset, len) = pair.split_at(gnu::EXTENT / 2);
        if len.first() == Some(&0) {
            break;
        }
        let size = |field| number(field).and_then(|n| u64::try_from(n).ok());
        let extent = size(offset)
            .zip(size(len))
            .ok_or("invalid number in the map of a sparse file")?;
        map.push(extent.0, extent.1)?;
    }
    Ok(())
}
