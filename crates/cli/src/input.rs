//! Input files that are read into memory (runs, hints, samples); and archives among the arguments.

use std::ffi::OsString;

use ::show::name::printable;
use archive::run::archives_in;
use catalog::remote::is_remote;
use gate::Errno;
use gate::fs::{AtFlags, FileType, Open, StatxMask, read};
use gate::long::{open_long, statx_long};

use crate::args::values::bytes;
use crate::error::Error;

/// Reads a file or a pipe of at most `most` bytes; `-` is standard input. `next` is the hint for a
/// larger file.
pub(crate) fn whole(path: &[u8], most: usize, doing: &str, next: &str) -> Result<Vec<u8>, Error> {
    const PIECE: usize = 64 << 10;
    let failed = |e| Error::read(doing, path, e, "");
    let file = if path == b"-" {
        None
    } else {
        Some(open_long(path, Open::empty()).map_err(failed)?)
    };
    let (mut bytes, mut have) = (Vec::new(), 0);
    loop {
        bytes.resize(have + PIECE, 0);
        let answer = match &file {
            Some(fd) => read(fd, &mut bytes[have..]),
            None => read(std::io::stdin(), &mut bytes[have..]),
        };
        match answer {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(Errno::EINTR) => {}
            Err(e) => return Err(failed(e)),
        }
        if have > most {
            let over = format!("larger than {} MiB", most >> 20);
            return Err(Error::read(doing, path, over, next));
        }
    }
    bytes.truncate(have);
    Ok(bytes)
}

/// Archives, and the names of members in them.
pub(crate) struct Archives {
    pub(crate) archives: Vec<Vec<u8>>,
    pub(crate) paths: Vec<Vec<u8>>,
    /// Whether the archives are the parts of one dump.
    pub(crate) are_parts: bool,
}

/// Separates archives from names of members. Arguments after `--` are names. Without `--`, the
/// archives are the first argument, and each further file before the first argument that is not a
/// file. A directory with the parts of a dump stands for these parts.
pub(crate) fn archives_and_paths(
    archives: &[OsString],
    paths: &[OsString],
) -> Result<Archives, Error> {
    let (mut archives, mut paths) = (bytes(archives), bytes(paths));
    if paths.is_empty() {
        let is_file = |name: &Vec<u8>| {
            let seen = || statx_long(name, AtFlags::empty(), StatxMask::TYPE);
            name == b"-"
                || is_remote(name)
                || seen().is_ok_and(|seen| seen.file_type != FileType::Directory)
        };
        let first_path = archives.iter().skip(1).position(|name| !is_file(name));
        paths = archives.split_off(first_path.map_or(archives.len(), |at| at + 1));
    }
    let parts = match archives.first() {
        Some(first) if first != b"-" => archives_in(first)?,
        _ => None,
    };
    if let (Some(_), [first, _, ..]) = (&parts, &archives[..]) {
        let message = format!("'{}' has the parts of a dump", printable(first));
        return Err(Error::new(message)
            .with_hint("give one directory, and no other archive; put -- before PATHs"));
    }
    Ok(Archives {
        are_parts: parts.is_some(),
        archives: parts.unwrap_or(archives),
        paths,
    })
}
