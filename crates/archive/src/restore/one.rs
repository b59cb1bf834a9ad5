//! Writes one file of a dump to a stream, from the archives of its chain.
//!
//! Searches the chain backwards for the last archive with the file. Before each step back, the
//! archive's renames are undone in the name. If a dumpdir does not list the name, the file does not
//! exist in the dump.

use std::io::Write;

use base::Warning;
use base::path::below;
use ondisk::pax::dumpdir::{self, Code};
use ondisk::pax::{Member, MemberKind};

use super::increment::renames;
use super::name::clean;
use super::name_map::after;
use crate::error::{Action, Error, ErrorKind, Result};
use crate::increment::record::DumpRecord;
use crate::input::{ChecksumStatus, Input};
use crate::list::{defect, plain};
use crate::route::Region;
use crate::warning::WarningKind;

/// The contents of an archive for a file.
enum InArchive {
    /// Nothing: the file is unchanged since the base.
    Nothing,
    /// A hard link to this name.
    Link(Vec<u8>),
    /// The contents were written; with a warning if they are damaged.
    Written(Option<Warning>),
}

/// Writes the contents of a file of the last dump of a chain. Returns a warning if they are
/// damaged.
///
/// # Errors
/// There is no regular file of this name, or an archive cannot be read; those of `to`.
pub fn write_file(
    chain: &[DumpRecord],
    name: &[u8],
    to: &mut dyn Write,
) -> Result<Option<Warning>> {
    let error = |kind| Error::new(Action::Restore, name, kind);
    let mut now = clean(name)
        .map_err(|why| error(ErrorKind::BadName(why)))?
        .path;
    for (nth, dump) in chain.iter().enumerate().rev() {
        let archive = dump.archive.clone().unwrap_or_default();
        let mut links = 0;
        loop {
            match look_in(dump, &archive, &now, to).map_err(|e| match e.kind {
                ErrorKind::NotInDump | ErrorKind::NotPlainFile => error(e.kind),
                _ => e,
            })? {
                InArchive::Nothing => break,
                InArchive::Written(warning) => return Ok(warning),
                InArchive::Link(target) => now = target,
            }
            links += 1;
            if links > 8 {
                return Err(error(ErrorKind::NotInDump));
            }
        }
        if nth > 0 {
            for (old, new) in read_renames(dump, &archive)?.into_iter().rev() {
                now = after(now, &new, &old);
            }
        }
    }
    Err(error(ErrorKind::NotInDump))
}

/// The renames of an increment, which precede its members.
fn read_renames(dump: &DumpRecord, archive: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut input = Input::from_file(archive, dump.open(archive)?)?;
    while let Some(member) = input.next()? {
        if member.kind == MemberKind::Directory {
            return Ok(member.dumpdir.as_deref().map_or_else(Vec::new, renames));
        }
    }
    Ok(Vec::new())
}

/// Searches an archive for a file, and writes its contents.
fn look_in(
    dump: &DumpRecord,
    archive: &[u8],
    name: &[u8],
    to: &mut dyn Write,
) -> Result<InArchive> {
    let error = |kind: ErrorKind| Error::new(Action::Restore, name, kind);
    let mut input = Input::from_file(archive, dump.open(archive)?)?;
    input.check_used();
    let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let mut regions: Vec<Region> = slashes.map(|(at, _)| Region::single(&name[..at])).collect();
    regions.push(Region::single(name));
    input.narrow(regions);
    let mut found = InArchive::Nothing;
    loop {
        let next = input.next()?;
        if let Some(it) = input.take_defects().into_iter().next() {
            return Ok(InArchive::Written(Some(defect(archive, it))));
        }
        let Some(member) = next else {
            return Ok(found);
        };
        let path = plain(&member.path).into_owned();
        if path == name {
            match member.kind {
                MemberKind::File => return write_member(&mut input, &member, to),
                MemberKind::Link => found = InArchive::Link(plain(&member.link).into_owned()),
                _ => return Err(error(ErrorKind::NotPlainFile)),
            }
        } else if let Some(list) = &member.dumpdir
            && let Some(rest) = below(&path, name)
            && !lists(
                list,
                rest.split(|byte| *byte == b'/').next().unwrap_or_default(),
            )
        {
            return Err(error(ErrorKind::NotInDump));
        }
    }
}

/// Whether a dumpdir lists a name as an existing entry.
fn lists(list: &[u8], name: &[u8]) -> bool {
    let is_entry = |code| matches!(code, Code::Y | Code::N | Code::D);
    let mut entries = dumpdir::entries(list).into_iter().flatten();
    entries.any(|(code, entry)| is_entry(code) && entry == name)
}

fn write_member(input: &mut Input, member: &Member, to: &mut dyn Write) -> Result<InArchive> {
    let error = |e: std::io::Error| Error::new(Action::WriteFile, b"-", e);
    let zeros = vec![0; 1 << 16];
    let mut at = 0;
    let fill = |to: &mut dyn Write, at: &mut u64, end: u64| {
        while *at < end {
            let n = (end - *at).min(zeros.len() as u64);
            to.write_all(&zeros[..n as usize]).map_err(error)?;
            *at += n;
        }
        Ok::<(), Error>(())
    };
    let mut contents = input.contents(member);
    while let Some((offset, piece)) = contents.next()? {
        fill(to, &mut at, offset)?;
        to.write_all(piece).map_err(error)?;
        at += piece.len() as u64;
    }
    fill(to, &mut at, member.size)?;
    to.flush().map_err(error)?;
    let place = input.at();
    // For large files the checksum follows the data, so read the next header.
    let _ = input.next();
    let is_wrong = input.checksum_status() == Some(ChecksumStatus::Wrong);
    let wrong = WarningKind::WrongChecksum { at: place };
    Ok(InArchive::Written(
        is_wrong.then(|| Warning::about(&member.path, wrong)),
    ))
}
