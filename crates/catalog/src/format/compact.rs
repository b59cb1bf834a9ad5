//! Writes the parts of a data set as one catalog.
//!
//! The rows are decoded and encoded again, one row group at a time, because each part has numbered
//! the file systems in its own order.

use walk::Fields;

use super::about::About;
use super::columns::{BLAKE3, PART};
use super::lazy::RowColumns;
use super::output::{CatalogOutput, SealedCatalog};
use super::read::Reader;
use super::schema::Record;
use crate::error::Error;
use crate::part::{magic_of, may_have_changed};

/// Writes the parts of a run as one catalog, whose file is not yet renamed into place.
///
/// # Errors
/// A part cannot be read, or the file cannot be written.
pub(crate) fn compact(reader: &Reader, file: &[u8]) -> Result<SealedCatalog, Error> {
    write(reader, reader.about().clone(), file)
}

/// Copies a catalog to `file`, atomically, with a new description of the same rows. The parts of a
/// run become one catalog.
pub fn copy(reader: &Reader, about: &About, file: &[u8]) -> Result<(), Error> {
    match reader.single_file() {
        Some(single) => single.copy_to(file, about),
        None => write(reader, about.clone(), file)?.publish().map(drop),
    }
}

fn write(reader: &Reader, mut about: About, file: &[u8]) -> Result<SealedCatalog, Error> {
    let at_rest_before = about.at_rest_before();
    let (encoder, mut out) = CatalogOutput::create(file)?;
    about.racy = 0;
    for group in 0..reader.groups() {
        let columns = RowColumns::new(reader, group);
        let metas = columns.metas(Fields::all())?;
        let (dirs, names) = (columns.dirs()?, columns.names()?);
        let (parts, tops) = (reader.read(PART, group)?, columns.tops()?);
        let (majors, minors) = (columns.dev_majors()?, columns.dev_minors()?);
        let hashes = reader.read(BLAKE3, group)?;
        let record = |row: usize| {
            let mut meta = metas(row);
            (meta.dev.major, meta.dev.minor) = (majors[row], minors[row]);
            Record {
                meta,
                part: parts[row],
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
        let appended = encoded.and_then(|group| out.append(group));
        appended.map_err(|error| out.error(error.into()))?;
    }
    out.seal(about)
}
