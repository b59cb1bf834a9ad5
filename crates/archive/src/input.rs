//! Reads an archive from a file, device, FIFO, standard input or object of a store, plain or
//! compressed. In a plain file or object, unneeded data is skipped without reading it.

use std::sync::Arc;

use catalog::ranges::Ranges;
use catalog::remote;
use catalog::stream::Buffered;
use gate::Fd;
use gate::fs::{FileType, StatxMask};
use gate::long::stat_long;
use ondisk::Time;
use ondisk::members::IndexReader;
use ondisk::pax::sparse::Extent;
use ondisk::pax::{BLOCK, Decoder, Event, Lineage, Member, MemberKind, PartOfRun, padded};
use ondisk::seekable::FrameStart;
use source::{InputSource, check_format, open_source};

use crate::compression::Compression;
use crate::decompress::Decompressor;
use crate::error::{Action, Damage, Defect, Error, ErrorKind};
use crate::route::{ReadAction, Region, Route};
use crate::seek::Seekable;

mod source;

/// Number of bytes per read(2).
const CHUNK: usize = 256 << 10;

/// Whether the data of a member matches its checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChecksumStatus {
    Right,
    Wrong,
    /// The archive has no checksum of the member.
    NoChecksum,
}

/// An archive being read.
pub struct Input {
    path: Vec<u8>,
    source: InputSource,
    /// The bytes last read; those before `from` are consumed.
    buffer: Vec<u8>,
    from: usize,
    /// Uncompressed offset of the next byte.
    place: u64,
    decoder: Decoder,
    /// Bytes left of the current member's data.
    left: u64,
    padding: u64,
    /// Offset of the current member.
    at: u64,
    is_over: bool,
    is_empty: bool,
    defects: Vec<Defect>,
    /// Number of defects found, including those not kept.
    defect_count: u64,
    check: Option<Check>,
    /// The archive, if it is a regular file or an object.
    file: Option<Ranges>,
    seekable: Option<Seekable>,
    /// Lineage and part headers of the archive, once read.
    origin: ArchiveOrigin,
    /// The first member (or `None` if there is none), if [`Input::origin`] has read it already.
    ahead: Option<Option<Member>>,
    /// Whether a member with a checksum was found.
    has_checksums: bool,
    /// Set if only some members are read, by the index.
    route: Option<Route>,
    /// How often reading continued in a later frame after damage.
    resumed: u32,
    /// Whether the compressed stream has ended in damage.
    is_broken: bool,
    /// Whether the end-of-archive blocks were read.
    has_ended: bool,
}

/// The headers of an archive before its first member, and facts about that member.
#[derive(Clone, Debug, Default)]
pub struct ArchiveOrigin {
    /// Ids of the archive and its base; `None` for an archive of another program or an older
    /// version.
    pub lineage: Option<Lineage>,
    /// The part of a dump by many ranks; `None` for a single archive.
    pub part: Option<PartOfRun>,
    /// Name of the first member; empty if there is none.
    pub first: Vec<u8>,
    /// The ctime of the first member.
    pub changed: Option<Time>,
}

/// Maximum number of defects kept, since an archive can have any number of them.
const MOST_DEFECTS: u64 = 100_000;

/// Computes the checksum of a member's data while it is read.
#[derive(Default)]
struct Check {
    hasher: blake3::Hasher,
    /// Whether only members are checked whose contents are read anyway.
    is_for_used: bool,
    /// Whether the current member is a regular file to be checked.
    is_due: bool,
    /// The checksum stored in the archive.
    stored: Option<[u8; 32]>,
    checksum_status: Option<ChecksumStatus>,
}

impl Input {
    /// Opens an archive; `-` is standard input.
    ///
    /// # Errors
    /// A system call fails, or the file does not begin like an archive.
    pub fn open(path: &[u8]) -> Result<Input, Error> {
        Input::from_file(path, None)
    }

    /// Opens an archive; `open` is a descriptor of the file, if it is already open.
    pub(crate) fn from_file(path: &[u8], open: Option<Arc<Fd>>) -> Result<Input, Error> {
        let error = |kind| Error::new(Action::ReadArchive, path, kind);
        let (source, head, file) = open_source(path, open).map_err(error)?;
        check_format(&head).map_err(|what| error(ErrorKind::NotArchive(what)))?;
        Ok(Input {
            path: path.to_vec(),
            source,
            buffer: head,
            from: 0,
            place: 0,
            decoder: Decoder::new(),
            left: 0,
            padding: 0,
            at: 0,
            is_over: false,
            is_empty: true,
            defects: Vec::new(),
            defect_count: 0,
            check: None,
            file,
            seekable: None,
            origin: ArchiveOrigin::default(),
            ahead: None,
            has_checksums: false,
            route: None,
            resumed: 0,
            is_broken: false,
            has_ended: false,
        })
    }

    /// The headers of the archive before its first member, whose name and ctime are read ahead. To
    /// be called before [`Input::next`].
    ///
    /// # Errors
    /// Those of [`Input::next`].
    pub fn origin(&mut self) -> Result<ArchiveOrigin, Error> {
        let first = self.next_member()?;
        let mut origin = self.origin.clone();
        if let Some(first) = &first {
            (origin.first, origin.changed) = (first.path.clone(), first.ctime);
        }
        self.ahead = Some(first);
        Ok(origin)
    }

    /// The ids of the archive and of its base, once its first headers are read.
    pub fn lineage(&self) -> Option<Lineage> {
        self.origin.lineage
    }

    /// Whether headers that only fathom writes were found so far.
    pub(crate) fn is_by_fathom(&self) -> bool {
        self.origin.lineage.is_some() || self.has_checksums
    }

    /// Restricts reading to the regions of some members, if the archive has an index. Other members
    /// may be returned, too. To be called before [`Input::next`].
    pub(crate) fn narrow(&mut self, regions: Vec<Region>) {
        /// With more regions, comparing all of them with each indexed member costs more than it
        /// saves.
        const MOST: usize = 10_000;
        let Some(file) = self.file.as_ref().filter(|_| regions.len() <= MOST) else {
            return;
        };
        let is_zstd = self.source.is_zstd();
        let Some(seekable) = is_zstd.then(|| Seekable::read(file)).flatten() else {
            return;
        };
        let content = seekable.table.end().content;
        let index = seekable.index.as_deref();
        let route = index.and_then(|index| Route::plan(index, regions, content));
        let has_index = seekable.has_bad_index || index.is_some();
        self.seekable = Some(seekable);
        let begins_there = route.as_ref().is_some_and(|route| {
            route.begins_at == Some(0) || self.first_member_at() == route.begins_at
        });
        let route = route.filter(|_| begins_there);
        if route.is_none() && has_index {
            self.note(None, 0, Damage::WrongIndex);
        }
        match route.as_ref().map(Route::first_place) {
            None | Some(Some(0)) => {}
            Some(Some(place)) => self.jump(place),
            Some(None) => self.is_over = true,
        }
        self.route = route;
    }

    /// The offset of the first member. Rewinds the archive afterwards.
    fn first_member_at(&mut self) -> Option<u64> {
        let (defects, check) = (self.defects.len(), self.check.take());
        let found = self.next_member();
        let at = self.at;
        self.defects.truncate(defects);
        self.check = check;
        self.jump(0);
        found.ok().flatten().map(|_| at)
    }

    /// Enables checksums of all members: their data is read completely
    /// ([`Input::checksum_status`]).
    pub(crate) fn check(&mut self) {
        self.check = Some(Check::default());
    }

    /// Like [`Input::check`], but only for members whose contents are read.
    pub(crate) fn check_used(&mut self) {
        self.check = Some(Check {
            is_for_used: true,
            ..Check::default()
        });
    }

    /// Uncompressed offset of the current member's headers.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Uncompressed offset up to which the archive was read.
    pub(crate) fn place(&self) -> u64 {
        self.place
    }

    /// The checksum status of the member **before** the one last returned by [`Input::next`], or of
    /// the last member after `None` or an error: the checksum of a large member follows its data.
    /// `None` if that member is no file, was not read completely, or is not checked.
    pub(crate) fn checksum_status(&self) -> Option<ChecksumStatus> {
        self.check.as_ref().and_then(|check| check.checksum_status)
    }

    /// The defects found since the last call, which did not prevent reading.
    pub fn take_defects(&mut self) -> Vec<Defect> {
        std::mem::take(&mut self.defects)
    }

    /// Skips the rest of the current member's data, and reads the next member; `None` at the end of
    /// the archive. After a damaged header, continues with the next intact one
    /// ([`Input::take_defects`]).
    ///
    /// # Errors
    /// The archive cannot be read any further.
    #[allow(
        clippy::should_implement_trait,
        reason = "an error and the end are different, as for a reader"
    )]
    pub fn next(&mut self) -> Result<Option<Member>, Error> {
        let Some(mut route) = self.route.take() else {
            return self.next_member();
        };
        let next = self.next_on(&mut route);
        self.route = Some(route);
        next
    }

    /// The next member, on a route given by the index.
    fn next_on(&mut self, route: &mut Route) -> Result<Option<Member>, Error> {
        let mut checksum_status = None;
        loop {
            let defects = self.defects.len();
            let next = self.next_member();
            // Keep the status of the last member returned, not of members passed over since.
            let first = *checksum_status.get_or_insert(self.checksum_status());
            let is_sound = next.is_ok() && self.defects.len() == defects;
            let turn = match &next {
                _ if route.is_after_jump && !is_sound => ReadAction::Wrong,
                Ok(Some(member)) => route.next_action(self.at, &member.path),
                Ok(None) if route.is_after_jump => ReadAction::Wrong,
                Ok(None) | Err(_) => ReadAction::Deliver,
            };
            if let Some(check) = &mut self.check {
                check.checksum_status = first;
                check.is_due &= turn == ReadAction::Deliver;
            }
            match turn {
                ReadAction::Deliver => return next,
                ReadAction::Pass => {}
                ReadAction::Jump(place) => self.jump(place),
                ReadAction::End => {
                    self.is_over = true;
                    self.recover();
                    return Ok(None);
                }
                ReadAction::Wrong => {
                    self.defects.truncate(defects);
                    self.note(None, self.at, Damage::WrongIndex);
                    route.give_up();
                    self.jump(0);
                }
            }
        }
    }

    /// Seeks in a compressed archive, to an offset where a member begins.
    fn jump(&mut self, place: u64) {
        let table = self.seekable.as_ref().map(|seekable| &seekable.table);
        if let Some(start) = table.map(|table| table.find(place)) {
            self.jump_to(start, place);
        }
    }

    /// Seeks to an offset in the frame that begins at `start`.
    fn jump_to(&mut self, start: FrameStart, place: u64) {
        let Some(file) = &self.file else {
            return;
        };
        let input = Buffered::new(file.stream(start.file), Vec::new());
        self.source = InputSource::Compressed(Decompressor::new(Compression::Zstd, input));
        self.buffer.clear();
        self.from = 0;
        self.place = start.content;
        self.decoder = Decoder::starting_at(place);
        self.left = 0;
        self.padding = place - start.content;
        self.is_over = false;
        self.is_broken = false;
        self.has_ended = false;
        self.forget_check();
    }

    /// Gives up the checksum of the current member, whose data is not read completely.
    fn forget_check(&mut self) {
        if let Some(check) = &mut self.check {
            check.is_due = false;
        }
    }

    /// Like [`Input::next`], but continues after a damaged frame of zstd, if the archive has an
    /// index. The damage and the loss of members are defects ([`Input::take_defects`]).
    ///
    /// # Errors
    /// The archive cannot be read any further.
    pub(crate) fn next_or_resume(&mut self) -> Result<Option<Member>, Error> {
        let mut first_status = None;
        loop {
            let next = self.next();
            // Keep the status of the last member returned: the attempts after it have none.
            let status = *first_status.get_or_insert(self.checksum_status());
            let next = match next {
                Ok(None) if self.resume_after_damage() => continue,
                Err(error) => match self.skip_damage(error) {
                    Ok(()) => continue,
                    Err(error) => Err(error),
                },
                next => next,
            };
            if let Some(check) = &mut self.check {
                check.checksum_status = status;
            }
            return next;
        }
    }

    /// Continues after an error that is damage in a frame of zstd, if the archive has an index. The
    /// error and the loss of members become defects.
    ///
    /// # Errors
    /// The same error, if the archive cannot be read any further.
    pub(crate) fn skip_damage(&mut self, error: Error) -> Result<(), Error> {
        let first = self.defects.len();
        match error.kind {
            ErrorKind::DamagedArchive { at, damage } if self.resume_after_damage() => {
                let member = None;
                self.defects.insert(first, Defect { member, at, damage });
                Ok(())
            }
            kind => Err(Error { kind, ..error }),
        }
    }

    /// After damage that has ended a zstd stream: continues at the first indexed member in a later
    /// frame that can be read, or at the end of the archive, and adds the loss of members to the
    /// defects. False if the stream has not ended in damage, or if the archive has no index.
    pub(crate) fn resume_after_damage(&mut self) -> bool {
        /// Each attempt searches the index from its beginning, which takes long in an archive
        /// without any intact frame.
        const MOST: u32 = 1000;
        if !self.is_broken || !self.source.is_zstd() || self.resumed == MOST {
            return false;
        }
        if self.seekable.is_none() {
            self.seekable = self.file.as_ref().and_then(Seekable::read);
        }
        let Some(seekable) = self.seekable.take() else {
            return false;
        };
        let mut route = self.route.take();
        let is_resumed = self.resume_by(&seekable, route.as_mut()).is_some();
        (self.seekable, self.route) = (Some(seekable), route);
        self.resumed += u32::from(is_resumed);
        is_resumed
    }

    /// `None` if the index cannot be used.
    fn resume_by(&mut self, seekable: &Seekable, mut route: Option<&mut Route>) -> Option<()> {
        let mut members = IndexReader::new(seekable.index.as_deref()?)?;
        let archive_len = seekable.table.end().content;
        if members.archive_len != archive_len {
            return None;
        }
        // Only padding follows the end-of-archive blocks, so damage there costs no member.
        let is_complete = self.has_ended;
        // A frame can begin here: the checksum of the previous one may be wrong.
        let (mut from, defects) = (self.place, self.defects.len());
        while let Some(member) = members.next().filter(|_| !is_complete) {
            if member.at < from || seekable.table.find(member.at).content < from {
                continue;
            }
            let next = match &mut route {
                Some(route) => route.resume_at(member.at, member.name),
                None => Some((member.at, member.name.to_vec())),
            };
            let Some((at, name)) = next else {
                break;
            };
            let start = seekable.table.find(at);
            self.jump_to(start, at);
            let is_readable = self.fill().is_ok_and(|read| read > 0);
            self.defects.truncate(defects);
            if is_readable {
                self.note(None, at, Damage::FrameLost { next: Some(name) });
                return Some(());
            }
            from = start.content + 1;
        }
        self.recover();
        self.forget_check();
        (self.is_over, self.is_broken) = (true, false);
        if !is_complete {
            self.note(None, archive_len, Damage::FrameLost { next: None });
        }
        Some(())
    }

    fn next_member(&mut self) -> Result<Option<Member>, Error> {
        if let Some(member) = self.ahead.take() {
            return Ok(member);
        }
        let skipped = self.skip();
        let mut computed: Option<[u8; 32]> = None;
        if let Some(check) = &mut self.check {
            let is_read = check.is_due && skipped.is_ok();
            computed = is_read.then(|| check.hasher.finalize().into());
            check.hasher.reset();
        }
        let next = skipped.and_then(|()| self.read_headers());
        if let Some(check) = &mut self.check {
            check.checksum_status = computed.map(|computed| match check.stored {
                None => ChecksumStatus::NoChecksum,
                Some(stored) if stored == computed => ChecksumStatus::Right,
                Some(_) => ChecksumStatus::Wrong,
            });
            let member = next.as_ref().ok().and_then(Option::as_ref);
            let is_file = member.is_some_and(|member| member.kind == MemberKind::File);
            check.is_due = is_file && !check.is_for_used;
            check.stored = member.and_then(|member| member.blake3);
        }
        next
    }

    /// Reads headers until there is a member.
    fn read_headers(&mut self) -> Result<Option<Member>, Error> {
        // A checksum after a damaged header belongs to the lost member, not to the one before it.
        let mut is_lost = false;
        while !self.is_over {
            let is_data = self.decoder.is_data();
            let Some(block) = self.block()? else {
                return self.ended_early();
            };
            let event = match self.decoder.push(&block) {
                Ok(event) => event,
                Err(fault) => {
                    is_lost = true;
                    self.note(None, fault.at, Damage::Header(fault));
                    self.padding = self.decoder.recover();
                    self.skip()?;
                    continue;
                }
            };
            let path = match &event {
                Event::Member { member, .. } => Some(&member.path),
                _ => None,
            };
            for fault in self.decoder.take_faults() {
                self.note(path, fault.at, Damage::Fault(fault));
            }
            if let Some(check) = self.check.as_mut().filter(|_| is_data) {
                check.hasher.update(&block);
            }
            match event {
                Event::More => {}
                Event::Checksum(sum) => {
                    self.has_checksums = true;
                    if let Some(check) = self
                        .check
                        .as_mut()
                        .filter(|_| !self.decoder.is_within() && !is_lost)
                    {
                        check.stored = Some(sum);
                    }
                }
                Event::Part(part) => self.origin.part = Some(part),
                Event::Lineage(lineage) => self.origin.lineage = Some(lineage),
                Event::Member { member, at, data } => {
                    self.is_empty = false;
                    self.has_checksums |= member.blake3.is_some();
                    self.at = at;
                    self.left = data;
                    self.padding = padded(data).unwrap_or(data) - data;
                    return Ok(Some(*member));
                }
                Event::End => {
                    self.is_over = true;
                    self.has_ended = true;
                    let end = self.place;
                    if self.drain()? {
                        let damage = match self.is_empty {
                            true => Damage::Empty,
                            false => Damage::DataAfterEnd,
                        };
                        self.note(None, end, damage);
                    }
                }
            }
        }
        self.count_rest();
        Ok(None)
    }

    fn note(&mut self, member: Option<&Vec<u8>>, at: u64, damage: Damage) {
        self.defect_count += 1;
        if self.defect_count <= MOST_DEFECTS {
            let member = member.cloned();
            self.defects.push(Defect { member, at, damage });
        }
    }

    /// Adds a defect with the number of defects that were not kept.
    fn count_rest(&mut self) {
        let rest = self.defect_count.saturating_sub(MOST_DEFECTS);
        if rest > 0 {
            let (member, at, damage) = (None, self.place, Damage::MoreDefects(rest));
            self.defects.push(Defect { member, at, damage });
            self.defect_count = 0;
        }
    }

    /// Recovers from [`ErrorKind::DamagedArchive`] in the data of a member, so that
    /// [`Input::next`] can continue.
    pub(crate) fn recover(&mut self) {
        self.left = 0;
        self.padding = 0;
    }

    /// The next piece of the current member's data as stored, at most `most` bytes; empty at its
    /// end.
    pub(crate) fn data(&mut self, most: u64) -> Result<&[u8], Error> {
        let wanted = self.left.min(most);
        if wanted > 0 && self.from == self.buffer.len() && self.fill()? == 0 {
            return Err(self.cut_short(self.left));
        }
        let taken = wanted.min((self.buffer.len() - self.from) as u64);
        let piece = self.from..self.from + taken as usize;
        self.take(piece.len());
        self.left -= taken;
        let piece = &self.buffer[piece];
        if let Some(check) = &mut self.check {
            check.hasher.update(piece);
        }
        Ok(piece)
    }

    /// Enables the checksum of the current member, for [`Input::check_used`].
    pub(crate) fn use_contents(&mut self, member: &Member) {
        if let Some(check) = &mut self.check {
            check.is_due |= member.kind == MemberKind::File;
        }
    }

    /// The contents of `member`, which must be the current one: pieces of data with their file
    /// offsets.
    pub(crate) fn contents<'a>(&'a mut self, member: &'a Member) -> Contents<'a> {
        self.use_contents(member);
        let (offset, len) = (0, self.left);
        let (extents, current) = match &member.sparse {
            Some(map) => (map.extents(), Extent::default()),
            None => (&[][..], Extent { offset, len }),
        };
        Contents {
            input: self,
            extents,
            current,
        }
    }

    /// Skips the rest of the current member's data.
    fn skip(&mut self) -> Result<(), Error> {
        if self.check.as_ref().is_some_and(|check| check.is_due) {
            while !self.data(u64::MAX)?.is_empty() {}
        }
        let mut left = std::mem::take(&mut self.left) + std::mem::take(&mut self.padding);
        while left > 0 {
            let here = left.min((self.buffer.len() - self.from) as u64);
            self.take(here as usize);
            left -= here;
            if left > 0 {
                let skipped = self.source.skip(left);
                self.place += skipped;
                left -= skipped;
            }
            if left > 0 && self.from == self.buffer.len() && self.fill()? == 0 {
                return Err(self.cut_short(left));
            }
        }
        Ok(())
    }

    /// The next tar block; `None` at the end of the archive.
    fn block(&mut self) -> Result<Option<[u8; BLOCK]>, Error> {
        let mut block = [0; BLOCK];
        let mut have = 0;
        while have < BLOCK {
            if self.from == self.buffer.len() && self.fill()? == 0 {
                return match have {
                    0 => Ok(None),
                    _ => Err(self.cut_short((BLOCK - have) as u64)),
                };
            }
            let taken = (BLOCK - have).min(self.buffer.len() - self.from);
            block[have..have + taken].copy_from_slice(&self.buffer[self.from..self.from + taken]);
            self.take(taken);
            have += taken;
        }
        Ok(Some(block))
    }

    fn take(&mut self, n: usize) {
        self.from += n;
        self.place += n as u64;
    }

    /// Refills the buffer, all of which must be consumed; returns 0 at the end.
    fn fill(&mut self) -> Result<usize, Error> {
        self.from = 0;
        self.buffer.resize(CHUNK, 0);
        let read = self.source.read(&mut self.buffer, self.place);
        let have = *read.as_ref().unwrap_or(&0);
        self.buffer.truncate(have);
        // Treat an error like the end, since a stream cannot continue after one.
        self.is_over |= have == 0;
        self.is_broken |= matches!(read, Err(ErrorKind::DamagedArchive { .. }));
        if let (0, InputSource::Compressed(from)) = (have, &mut self.source)
            && from.take_garbage()
        {
            let damage = Damage::Garbage(from.format());
            self.is_broken = true;
            self.note(None, self.place, damage);
        }
        read.map_err(|kind| self.error(kind))
    }

    /// Reads up to 1 MiB after the end-of-archive blocks: the padding of the last record, so that a
    /// program writing into a pipe gets no SIGPIPE, and the end of the compressed stream. Returns
    /// whether there were bytes other than zeros.
    fn drain(&mut self) -> Result<bool, Error> {
        const MOST: usize = 1 << 20;
        let (mut read, mut is_followed) = (0, false);
        loop {
            is_followed |= self.buffer[self.from..].iter().any(|&byte| byte != 0);
            let n = self.fill()?;
            if n == 0 || read >= MOST {
                return Ok(is_followed);
            }
            read += n;
        }
    }

    fn ended_early(&mut self) -> Result<Option<Member>, Error> {
        if self.decoder.is_within() {
            return Err(self.damaged(self.place, Damage::CutShortInHeaders));
        }
        if self.decoder.may_end() {
            for fault in self.decoder.take_faults() {
                self.note(None, fault.at, Damage::Fault(fault));
            }
        } else if !self.decoder.is_lost() {
            self.note(None, self.place, Damage::NoEnd);
        }
        self.count_rest();
        Ok(None)
    }

    fn cut_short(&self, missing: u64) -> Error {
        self.damaged(self.place, Damage::CutShort { missing })
    }

    fn damaged(&self, at: u64, damage: Damage) -> Error {
        self.error(ErrorKind::DamagedArchive { at, damage })
    }

    fn error(&self, kind: ErrorKind) -> Error {
        Error::new(Action::ReadArchive, &self.path, kind)
    }
}

/// Whether an archive can be read twice: a regular file or an object.
pub(crate) fn is_regular(archive: &[u8]) -> bool {
    let seen = || stat_long(archive, StatxMask::TYPE);
    remote::is_remote(archive)
        || archive != b"-" && seen().is_ok_and(|seen| seen.file_type == FileType::Regular)
}

/// Reads the contents of a member.
pub(crate) struct Contents<'a> {
    input: &'a mut Input,
    extents: &'a [Extent],
    /// The rest of the current extent.
    current: Extent,
}

impl Contents<'_> {
    /// The next piece with its file offset, ascending; `None` at the end. Pieces are never empty.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, &[u8])>, Error> {
        if self.current.len == 0 {
            let Some((next, rest)) = self.extents.split_first() else {
                return Ok(None);
            };
            (self.current, self.extents) = (*next, rest);
        }
        let offset = self.current.offset;
        let piece = self.input.data(self.current.len)?;
        let len = piece.len() as u64;
        self.current = Extent {
            offset: offset + len,
            len: self.current.len - len,
        };
        Ok((len > 0).then_some((offset, piece)))
    }
}
