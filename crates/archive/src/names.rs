//! Reads names, or patterns of names, from files.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use catalog::stream::Stream;
use gate::fs::Open;
use gate::long::open_long;

use crate::error::{Action, Error, ErrorKind, Result};

/// Reads the names or patterns in a file (`-` is standard input), each ended by a newline, or with
/// `is_null` by a NUL. Empty names are skipped; there are no comments and no escapes.
///
/// # Errors
/// The file cannot be read, or a line has a NUL.
pub fn read_names(path: &[u8], is_null: bool) -> Result<Vec<Vec<u8>>> {
    let bytes = read_all(path)?;
    let end = if is_null { 0 } else { b'\n' };
    let names = bytes.split(|&b| b == end).enumerate();
    let names = names.filter(|(_, name)| !name.is_empty());
    let name = |(at, name): (usize, &[u8])| match name.contains(&0) {
        true => Err(list_error(path, ErrorKind::NulInLine { line: at + 1 })),
        false => Ok(name.to_vec()),
    };
    names.map(name).collect()
}

/// Reads the patterns in a file, one per line. Empty lines are skipped.
///
/// # Errors
/// The file cannot be read, or a line has a NUL, or ends with a carriage return: a pattern from a
/// Windows file would silently match nothing.
pub fn read_patterns(path: &[u8]) -> Result<Vec<Vec<u8>>> {
    let patterns = read_names(path, false)?;
    match patterns.iter().position(|line| line.ends_with(b"\r")) {
        Some(at) => Err(list_error(path, ErrorKind::CarriageReturn { line: at + 1 })),
        None => Ok(patterns),
    }
}

fn list_error(path: &[u8], kind: impl Into<ErrorKind>) -> Error {
    Error::new(Action::ReadList, path, kind)
}

fn read_all(path: &[u8]) -> Result<Vec<u8>> {
    /// Number of bytes per read(2).
    const PIECE: usize = 64 << 10;
    let mut stream = match path {
        b"-" => Stream::Stdin,
        _ => {
            let fd = open_long(path, Open::empty()).map_err(|e| list_error(path, e))?;
            Stream::File(Arc::new(fd))
        }
    };
    let mut all = Vec::new();
    loop {
        let have = all.len();
        all.resize(have + PIECE, 0);
        let read = stream.read(&mut all[have..]);
        let read = read.map_err(|e| list_error(path, e))?;
        all.truncate(have + read);
        if read == 0 {
            return Ok(all);
        }
    }
}
