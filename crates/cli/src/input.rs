//! Input files that are read into memory (runs, hints, samples); and archives among the arguments.

use std::ffi::OsString;

use ::show::name::printable;
use ::show::shell::quoted;
use archive::run::archives_in;
use catalog::remote::is_remote;
use gate::Errno;
use gate::fs::{FileType, Open, StatxMask, read};
use gate::long::{open_long, stat_long};

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
            let seen = || stat_long(name, StatxMask::TYPE);
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
    if let (Some(parts), [first, others @ ..]) = (&parts, &archives[..])
        && !others.is_empty()
    {
        let message = format!("'{}' has the parts of a dump", printable(first));
        let others: Vec<String> = others.iter().map(|other| quoted(other)).collect();
        return Err(Error::new(message).with_hint(&format!(
            "give {} {} instead; put -- before PATHs",
            pattern_of_parts(first, parts),
            others.join(" ")
        )));
    }
    Ok(Archives {
        are_parts: parts.is_some(),
        archives: parts.unwrap_or(archives),
        paths,
    })
}

/// A shell pattern for the parts of a dump in a directory: `DIR/part-*.tar.zst`.
fn pattern_of_parts(dir: &[u8], parts: &[Vec<u8>]) -> String {
    let name = parts
        .first()
        .and_then(|part| part.rsplit(|&b| b == b'/').next());
    let name = String::from_utf8_lossy(name.unwrap_or_default());
    let extension = name.find('.').map_or("", |at| &name[at..]);
    format!("{}/part-*{extension}", quoted(dir).trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_of_parts_has_their_extension() {
        let pattern = |dir: &str, part: &str| {
            pattern_of_parts(dir.as_bytes(), &[format!("{dir}/{part}").into_bytes()])
        };
        for (dir, part, expected) in [
            ("d", "part-0-of-2.tar.zst", "d/part-*.tar.zst"),
            ("/a.b/d/", "part-0-of-2.tar", "/a.b/d/part-*.tar"),
            ("my d", "part-0-of-2.tar.gz", "'my d'/part-*.tar.gz"),
        ] {
            assert_eq!(pattern(dir, part), expected);
        }
    }
}
