//! Writes the parts of a data set as one catalog.
//!
//! The rows are read and encoded again, a row group at a time: each part has numbered the file systems
//! in the order in which it met them.

use std::collections::BTreeSet;

use walk::Digest;

use super::about::{About, Options};
use super::columns::{BLAKE3, DEV_MAJOR, DEV_MINOR, DIR, NAME, PART, TOP};
use super::output::{Output, Sealed};
use super::read::Reader;
use super::schema::Record;
use crate::error::{Action, Error, ErrorKind};
use crate::part::{Part, magic_of, may_have_changed};

/// Writes the parts of a run, in the directory `data`, as one catalog, which has no name yet.
///
/// # Errors
/// These are not all parts of one run, a part cannot be read, or the file cannot be written.
pub(crate) fn compact(data: &[u8], parts: &[Reader], file: &[u8]) -> Result<Sealed, Error> {
    let mut about = describe(parts).map_err(|kind| Error::new(Action::UseCatalog, data, kind))?;
    let at_rest_before = about.at_rest_before();
    let (encoder, mut out) = Output::create(file)?;
    for reader in parts {
        let numbers = number(&reader.about().parts, &mut about.parts);
        for group in 0..reader.groups() {
            let metas = reader.metas(group)?;
            let (dirs, names) = (reader.read(DIR, group)?, reader.read(NAME, group)?);
            let (parts, tops) = (reader.read(PART, group)?, reader.read(TOP, group)?);
            let (majors, minors) = (
                reader.read(DEV_MAJOR, group)?,
                reader.read(DEV_MINOR, group)?,
            );
            let hashes = reader.read(BLAKE3, group)?;
            let record = |row: usize| {
                let mut meta = metas(row);
                (meta.dev.major, meta.dev.minor) = (majors[row], minors[row]);
                Record {
                    meta,
                    part: number_of(&numbers, parts[row]),
                    top: tops[row],
                    blake3: hashes[row],
                    dir: &dirs[row],
                    name: &names[row],
                }
            };
            let is_racy = |row: &usize| {
                let Record { meta, part, .. } = record(*row);
                may_have_changed(&meta, magic_of(&about.parts, part as usize), at_rest_before)
            };
            let rows = reader.rows(group);
            about.racy += (0..rows).filter(is_racy).count() as u64;
            let encoded = encoder.encode_together(rows, record);
            let appended = encoded.and_then(|columns| out.append(columns));
            appended.map_err(|error| out.error(error.into()))?;
        }
    }
    out.seal(about)
}

/// The description of all parts together, but for what is counted row by row.
///
/// # Errors
/// These are not all parts of one run.
fn describe(parts: &[Reader]) -> Result<About, ErrorKind> {
    let abouts = || parts.iter().map(Reader::about);
    let first = abouts().min_by_key(|about| about.started);
    let first = first.ok_or(ErrorKind::NotAllParts)?;
    let of_run = abouts().filter(|about| about.run() == first.run());
    let numbers: BTreeSet<u32> = of_run
        .filter_map(|about| about.options.shard.as_ref())
        .filter(|part| part.of as usize == parts.len())
        .map(|part| part.number)
        .collect();
    if numbers.len() != parts.len() {
        return Err(ErrorKind::NotAllParts);
    }
    let mut digest = Digest::default();
    for about in abouts() {
        let own = u128::from_str_radix(&about.digest, 16).map_err(|_| ErrorKind::DamagedCatalog)?;
        digest.merge(Digest::from_halves([own as u64, (own >> 64) as u64]));
    }
    Ok(About {
        complete: abouts().all(|about| about.complete),
        digest: digest.to_string(),
        entries: abouts().map(|about| about.entries).sum(),
        finished: abouts().map(|it| it.finished).max().unwrap_or_default(),
        options: Options {
            shard: None,
            ..first.options.clone()
        },
        parts: Vec::new(),
        racy: 0,
        ..first.clone()
    })
}

/// The numbers of some file systems among all, to which unknown ones are added. Only if all parts have
/// the same token, nothing has changed while they were written.
fn number(own: &[Part], all: &mut Vec<Part>) -> Vec<u32> {
    let number = |part: &Part| {
        let is_same = |known: &Part| {
            (known.top, &known.path, known.ino) == (part.top, &part.path, part.ino)
                && known.is_same_file_system(part)
        };
        let nth = all.iter().position(is_same).unwrap_or_else(|| {
            all.push(part.clone());
            all.len() - 1
        });
        if all[nth].token != part.token {
            all[nth].token = None;
        }
        u32::try_from(nth).unwrap_or(u32::MAX)
    };
    own.iter().map(number).collect()
}

fn number_of(numbers: &[u32], part: u32) -> u32 {
    numbers.get(part as usize).copied().unwrap_or(u32::MAX)
}
