//! Makes tar members of rows: reads the contents, and checks that the files did not change
//! meanwhile.

use base::Warning;
use blake3::Hasher;
use catalog::rows::Rows;
use gate::attribution::{CallSubject, with_subject};
use gate::file::read_full_at;
use gate::fs::{lstatat, readlinkat};
use gate::{Errno, Fd, Gate};
use ondisk::pax::sparse::{Extent, Map};
use ondisk::pax::{self, Member, MemberKind, acl, dumpdir};
use walk::entry::Time;
use walk::{FileType, Meta};

use super::attributes::{AttributeReader, AttributesOf};
use super::contents::{copy_extents, may_have_holes, read_whole};
use super::holes;
use super::load::{
    ArchiveChunk, DumpInput, DumpedRow, EmitChunk, NO_CHECKSUM, PIECE, RowOutcome, WriterStopped,
};
use super::member::{MemberNames, member};
use super::places::{NotOpened, OpenAncestors, stat};
use crate::plan::PlanStep;
use crate::warning::WarningKind;

/// Files with at most this much data are read before their header is written, so the header has the
/// checksum, and a file that changes meanwhile can be read again. For larger files the checksum
/// follows the data.
pub(super) const WHOLE: u64 = 1 << 20;
/// Maximum number of times that a file is read again because it changed while being read.
const TRIES: u32 = 3;

/// Makes members in one reader thread.
pub(crate) struct MemberReader<'a> {
    work: DumpInput<'a>,
    names: MemberNames<'a>,
    places: OpenAncestors<&'a Rows>,
    attributes: AttributeReader,
    /// Whether some extended attributes of the last file could not be read.
    misses_attributes: bool,
    /// A member already written, kept to reuse its memory.
    spare: Member,
}

impl<'a> MemberReader<'a> {
    pub(crate) fn new(work: DumpInput<'a>) -> MemberReader<'a> {
        MemberReader {
            work,
            names: MemberNames::new(work.rows),
            places: OpenAncestors::new(work.rows, work.open_directories),
            attributes: AttributeReader::default(),
            misses_attributes: false,
            spare: Member::default(),
        }
    }

    /// Appends the planned member of a row, if there is one.
    pub(crate) fn put(
        &mut self,
        row: usize,
        load: &mut ArchiveChunk,
        emit: EmitChunk<'_>,
    ) -> Result<(), WriterStopped> {
        match self.work.plan.step(row) {
            PlanStep::Whole => {
                let subject = match self.work.rows.is_dir(row) {
                    true => CallSubject::Directory,
                    false => CallSubject::File,
                };
                with_subject(subject, || self.put_whole(row, load, emit))?;
            }
            PlanStep::Link => {
                load.link = Some(row);
                *load = emit(std::mem::take(load))?;
            }
            PlanStep::Unchanged | PlanStep::LeftOut => {}
        }
        if load.bytes.len() >= PIECE {
            *load = emit(std::mem::take(load))?;
        }
        Ok(())
    }

    /// Appends a row with its contents, not as a hard link.
    pub(crate) fn put_whole(
        &mut self,
        row: usize,
        load: &mut ArchiveChunk,
        emit: EmitChunk<'_>,
    ) -> Result<(), WriterStopped> {
        let planned = self.work.rows.meta(row);
        let mut meta = planned;
        let outcome = match planned.kind() {
            _ if self.is_too_long(row) => RowOutcome::Missing,
            FileType::Regular => self.put_file(row, &mut meta, load, emit)?,
            _ => self.put_other(row, &mut meta, load),
        };
        // A ctime of 0 never matches that of the file, so the next increment dumps the file again.
        if std::mem::take(&mut self.misses_attributes) {
            meta.ctime = Time::default();
        }
        load.done.push(DumpedRow {
            row,
            outcome,
            meta: (meta != planned).then(|| Box::new(meta)),
        });
        Ok(())
    }

    pub(crate) fn put_link(&mut self, row: usize, to: usize, load: &mut ArchiveChunk) {
        let meta = self.work.rows.meta(row);
        let is_too_long = self.is_too_long(row);
        let member = self.member(row, &meta).filter(|_| !is_too_long);
        let link = member.and_then(|member| self.names.link(member, to));
        let outcome = match &link {
            Some(_) => RowOutcome::Link,
            None => RowOutcome::NoMember,
        };
        if let Some(link) = link {
            load.begin(row, &link);
        }
        load.done.push(DumpedRow {
            row,
            outcome,
            meta: None,
        });
    }

    fn member(&mut self, row: usize, meta: &Meta) -> Option<Member> {
        let spare = std::mem::take(&mut self.spare);
        member(row, meta, &self.names, self.work.users, spare)
    }

    /// Whether the member name of a row is longer than readers accept; if so, warns.
    fn is_too_long(&self, row: usize) -> bool {
        /// The warning's path is cut to this many bytes, because warnings are kept in memory.
        const SHOWN: usize = 4096;
        let is_too_long = self.names.is_too_long(row);
        if is_too_long {
            let mut path = self.work.rows.full_path(row);
            path.truncate(SHOWN);
            let warning = Warning::about(&path, WarningKind::LongName);
            self.work.diagnostics.warn(warning);
        }
        is_too_long
    }

    /// Appends a member other than a regular file. The attributes are read by name, so the name is
    /// checked afterwards: a different file may have had it meanwhile. `meta` becomes the metadata
    /// of the member.
    fn put_other(&mut self, row: usize, meta: &mut Meta, load: &mut ArchiveChunk) -> RowOutcome {
        let mut tries = 0;
        loop {
            let Some(mut member) = self.member(row, meta) else {
                // Skipped sockets are reported by a note, not by a warning each.
                if meta.kind() != FileType::Socket {
                    self.warn(row, WarningKind::UnsupportedType(meta.kind().name()));
                }
                return RowOutcome::NoMember;
            };
            match member.kind {
                MemberKind::Symlink => match self.places.at(row, |dir, name| readlinkat(dir, name))
                {
                    Ok(link) => member.link = link,
                    Err(why) => return self.missing(row, Gate::Readlinkat, why),
                },
                MemberKind::Directory => member.dumpdir = self.dumpdir(row),
                _ => {}
            }
            let has_read = self.read_attributes(row, meta, None, &mut member)
                || member.kind == MemberKind::Symlink;
            let now = if has_read {
                self.stat_by_name(row)
            } else {
                Ok(*meta)
            };
            let outcome = match now {
                Ok(now) if is_unchanged(&now, meta) => RowOutcome::Member(0, None),
                Ok(now) if (now.dev, now.ino, now.kind()) == (meta.dev, meta.ino, meta.kind()) => {
                    tries += 1;
                    if tries < TRIES {
                        *meta = now;
                        continue;
                    }
                    self.changed(row, meta, &now);
                    RowOutcome::Spoiled(0)
                }
                // Keep a directory that was replaced: its entries may still be readable.
                now if member.kind == MemberKind::Directory => {
                    (member.acl_access, member.acl_default) = (None, None);
                    member.xattrs.clear();
                    match now {
                        Ok(_) => self.warn(row, WarningKind::Replaced),
                        Err(why) => drop(self.missing(row, Gate::Statx, why)),
                    }
                    RowOutcome::Spoiled(0)
                }
                now => {
                    let why = now.err().unwrap_or(NotOpened::Replaced);
                    return self.missing(row, Gate::Statx, why);
                }
            };
            load.begin(row, &member);
            return outcome;
        }
    }

    /// The list of names in a directory, for an increment; `None` if it is larger than a restore
    /// accepts.
    fn dumpdir(&self, row: usize) -> Option<Vec<u8>> {
        let names = self.work.plan.dumpdir(self.work.rows, row)?;
        if names.len() <= dumpdir::MOST {
            return Some(names);
        }
        self.warn(row, WarningKind::TooManyNames);
        None
    }

    /// The current metadata of the file with the name of a row.
    fn stat_by_name(&mut self, row: usize) -> Result<Meta, NotOpened> {
        self.places
            .at(row, |dir, name| lstatat(dir, name, Meta::WANT))
            .map(|seen| Meta::from_statx(&seen).lasting())
    }

    fn put_file(
        &mut self,
        row: usize,
        meta: &mut Meta,
        load: &mut ArchiveChunk,
        emit: EmitChunk<'_>,
    ) -> Result<RowOutcome, WriterStopped> {
        let mut tries = 0;
        loop {
            match self.try_file(row, meta, tries, load, emit) {
                Ok(Some(outcome)) => return Ok(outcome),
                Ok(None) => tries += 1,
                Err(ReadFailure::Call(gate, why)) => return Ok(self.missing(row, gate, why)),
                Err(ReadFailure::Stopped) => return Err(WriterStopped),
            }
        }
    }

    /// Reads a file once. `None` if the file changed meanwhile and is to be read again. `meta` is
    /// set to the metadata with which the file is compared after reading.
    fn try_file(
        &mut self,
        row: usize,
        meta: &mut Meta,
        tries: u32,
        load: &mut ArchiveChunk,
        emit: EmitChunk<'_>,
    ) -> Result<Option<RowOutcome>, ReadFailure> {
        // An empty file without extended attributes need not be opened, if everybody may read it.
        // Otherwise open(2) shows whether the dump may read the file.
        let is_public = meta.mode & 0o444 == 0o444;
        if meta.size == 0 && is_public && tries == 0 && !self.attributes.may_have(meta) {
            let outcome = match self.begin_file(row, meta, None, (None, Some(NO_CHECKSUM)), load) {
                Some(begun) => begun.end(meta, load),
                None => RowOutcome::NoMember,
            };
            return Ok(Some(outcome));
        }
        let fd = self
            .places
            .open_file(row, meta.uid)
            .map_err(failed(Gate::Openat))?;
        if tries > 0 || meta.size > WHOLE {
            let now = stat(&fd).map_err(failed(Gate::Statx))?;
            if now.kind() != FileType::Regular {
                return Err(ReadFailure::Call(Gate::Openat, NotOpened::Replaced));
            }
            if !is_unchanged(&now, meta) {
                *meta = now;
            }
        }
        let map = match may_have_holes(meta) {
            true => holes::data(&fd, meta.size).map_err(failed(Gate::Lseek))?,
            false => None,
        };
        let stored = map.as_ref().map_or(meta.size, Map::data);
        if stored > WHOLE {
            let outcome = self.stream(row, fd, meta, map.as_ref(), load, emit)?;
            return Ok(Some(outcome));
        }
        self.read_small(row, fd, meta, (map.as_ref(), tries), load)
    }

    /// Appends a small file. `None` as in [`MemberReader::try_file`].
    fn read_small(
        &mut self,
        row: usize,
        fd: Fd,
        meta: &Meta,
        (map, tries): (Option<&Map>, u32),
        load: &mut ArchiveChunk,
    ) -> Result<Option<RowOutcome>, ReadFailure> {
        let begun = self.begin_file(row, meta, map, (Some(&fd), Some(NO_CHECKSUM)), load);
        let Some(begun) = begun else {
            return Ok(Some(RowOutcome::NoMember));
        };
        let read = read_whole(&fd, meta, map, &mut load.bytes);
        let read = read.map_err(failed(Gate::Read));
        let read = read.and_then(|end| Ok((end, stat(&fd).map_err(failed(Gate::Statx))?)));
        drop(fd);
        let (end, now) = read.inspect_err(|_| load.take_back())?;
        if !is_unchanged_as_read(&now, meta, end) && tries < TRIES {
            load.take_back();
            return Ok(None);
        }
        let outcome = begun.end(meta, load);
        Ok(Some(
            self.check_read(row, meta, &now, end).unwrap_or(outcome),
        ))
    }

    /// Compares the metadata of a file after reading with that before, and warns of a difference.
    /// `end` is set if the file ended before its size. `None` if the next increment would notice
    /// any change by the metadata.
    fn check_read(
        &self,
        row: usize,
        meta: &Meta,
        now: &Meta,
        end: Option<u64>,
    ) -> Option<RowOutcome> {
        if !is_unchanged_as_read(now, meta, end) {
            self.changed(row, meta, now);
            return None;
        }
        // Files of sysfs, and of some servers, are shorter than the size that they report.
        let (end, size, is_padded) = (end?, meta.size, true);
        let kind = WarningKind::EndsEarly {
            end,
            size,
            is_padded,
        };
        self.warn(row, kind);
        Some(RowOutcome::Spoiled(size))
    }

    /// Appends the headers of a file, and the map of a sparse file.
    fn begin_file(
        &mut self,
        row: usize,
        meta: &Meta,
        map: Option<&Map>,
        (fd, blake3): (Option<&Fd>, Option<[u8; 32]>),
        load: &mut ArchiveChunk,
    ) -> Option<MemberOffsets> {
        let mut member = self.member(row, meta)?;
        self.read_attributes(row, meta, fd, &mut member);
        member.blake3 = blake3;
        let mut text = Vec::new();
        if let Some(map) = map {
            map.encode(meta.size, &mut text);
            member.stored = text.len() as u64 + map.data();
            member.sparse = Some(map.clone());
        }
        let checksum = load.begin(row, &member);
        let data = load.bytes.len();
        load.bytes.extend_from_slice(&text);
        let stored = member.stored;
        self.spare = member;
        Some(MemberOffsets {
            checksum,
            data,
            stored,
        })
    }

    fn stream(
        &mut self,
        row: usize,
        fd: Fd,
        meta: &Meta,
        map: Option<&Map>,
        load: &mut ArchiveChunk,
        emit: EmitChunk<'_>,
    ) -> Result<RowOutcome, ReadFailure> {
        let whole = [Extent {
            offset: 0,
            len: meta.size,
        }];
        let extents = map.map_or(&whole[..], Map::extents);
        // Read one byte first, so that an unreadable file gets no header.
        let start = extents.first().map_or(0, |extent| extent.offset);
        read_full_at(&fd, start, &mut [0]).map_err(failed(Gate::Pread64))?;
        let Some(begun) = self.begin_file(row, meta, map, (Some(&fd), None), load) else {
            return Ok(RowOutcome::NoMember);
        };
        let mut hasher = Hasher::new();
        hasher.update(&load.bytes[begun.data..]);
        let ended = copy_extents(&fd, extents, &mut hasher, load, emit)?;
        pad(&mut load.bytes, begun.stored);
        let hash = *hasher.finalize().as_bytes();
        pax::trailer(&hash, &mut load.bytes);
        match (ended, stat(&fd)) {
            (Some((at, Some(e))), _) => {
                self.failed(row, Gate::Pread64, e, WarningKind::ZerosFrom { at });
                Ok(RowOutcome::Spoiled(meta.size))
            }
            (_, Err(e)) => {
                self.failed(row, Gate::Statx, e, WarningKind::NotCheckedAfterwards);
                Ok(RowOutcome::Spoiled(meta.size))
            }
            (ended, Ok(now)) => {
                let end = ended.map(|(at, _)| at);
                let outcome = self.check_read(row, meta, &now, end);
                Ok(outcome.unwrap_or(RowOutcome::Member(meta.size, Some(hash))))
            }
        }
    }

    /// Reads extended attributes and access control lists, of an open file or by name. Returns
    /// `false` if the file can have none, so that no call was made.
    fn read_attributes(
        &mut self,
        row: usize,
        meta: &Meta,
        fd: Option<&Fd>,
        member: &mut Member,
    ) -> bool {
        if !self.attributes.may_have(meta) {
            return false;
        }
        let attributes = &mut self.attributes;
        let (mut room, mut left_out) = (pax::MOST_ATTRIBUTES, 0);
        let take = |name: &[u8], value: &[u8]| match name {
            b"system.posix_acl_access" => member.acl_access = acl::to_text(value),
            b"system.posix_acl_default" => member.acl_default = acl::to_text(value),
            _ => match room.checked_sub(name.len() + value.len()) {
                None => left_out += 1,
                Some(rest) => {
                    room = rest;
                    member.xattrs.push((name.to_vec(), value.to_vec()));
                }
            },
        };
        let failures = match fd {
            Some(fd) => attributes.read(meta.dev, AttributesOf::Open(fd), take),
            None => attributes.read_row(meta.dev, &mut self.places, row, take),
        };
        self.misses_attributes = !failures.is_empty();
        for (gate, errno, kind) in failures {
            self.failed(row, gate, errno, kind);
        }
        if left_out > 0 {
            self.warn(row, WarningKind::TooManyXattrs(left_out));
        }
        true
    }

    fn failed(&self, row: usize, gate: Gate, errno: Errno, kind: WarningKind) {
        let warning = Warning::failed(&self.work.rows.full_path(row), gate, errno, kind);
        self.work.diagnostics.warn(warning);
    }

    fn warn(&self, row: usize, kind: WarningKind) {
        let warning = Warning::about(&self.work.rows.full_path(row), kind);
        self.work.diagnostics.warn(warning);
    }

    /// Warns of a row that could not be dumped.
    fn missing(&self, row: usize, gate: Gate, why: NotOpened) -> RowOutcome {
        let DumpInput {
            rows, diagnostics, ..
        } = self.work;
        diagnostics.warn(why.warning(&rows.full_path(row), rows.kind(row), gate));
        RowOutcome::Missing
    }

    /// Warns of a file that changed while it was read.
    fn changed(&self, row: usize, meta: &Meta, now: &Meta) {
        self.warn(row, WarningKind::changed(meta.size, now.size));
    }
}

/// Why a file was not read.
enum ReadFailure {
    Call(Gate, NotOpened),
    Stopped,
}

impl From<WriterStopped> for ReadFailure {
    fn from(_: WriterStopped) -> ReadFailure {
        ReadFailure::Stopped
    }
}

fn failed<E: Into<NotOpened>>(gate: Gate) -> impl Fn(E) -> ReadFailure {
    move |why| ReadFailure::Call(gate, why.into())
}

/// Whether two metadata are of the same, unchanged file.
pub fn is_unchanged(a: &Meta, b: &Meta) -> bool {
    (a.ino, a.dev, a.mode, a.size, a.mtime, a.ctime)
        == (b.ino, b.dev, b.mode, b.size, b.mtime, b.ctime)
}

/// Like [`is_unchanged`], but if the file ended at `end`, before its size, the sizes are not
/// compared: FUSE corrects the size of such a file without changing a time.
pub fn is_unchanged_as_read(now: &Meta, before: &Meta, end: Option<u64>) -> bool {
    let size = if end.is_some() { now.size } else { before.size };
    is_unchanged(now, &Meta { size, ..*before })
}

/// Offsets of the parts of a file's member in an archive chunk.
struct MemberOffsets {
    /// Offset of the checksum in the header.
    checksum: Option<usize>,
    /// Offset of the data as stored.
    data: usize,
    /// Length of the data as stored.
    stored: u64,
}

impl MemberOffsets {
    /// Completes a small file: sets its checksum, and pads the data.
    fn end(self, meta: &Meta, load: &mut ArchiveChunk) -> RowOutcome {
        let hash = self.checksum.map(|at| {
            let hash = *blake3::hash(&load.bytes[self.data..]).as_bytes();
            pax::set_checksum(&mut load.bytes, at, &hash);
            hash
        });
        pad(&mut load.bytes, self.stored);
        RowOutcome::Member(meta.size, hash)
    }
}

/// Pads data of length `len` to tar blocks.
fn pad(bytes: &mut Vec<u8>, len: u64) {
    let missing = len.next_multiple_of(pax::BLOCK as u64) - len;
    bytes.resize(bytes.len() + missing as usize, 0);
}
