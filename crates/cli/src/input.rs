//! Input files that are read into memory: runs, hints, samples.

use gate::Errno;
use gate::fs::{Open, read};
use gate::long::open_long;

use crate::error::Error;

/// Reads a file or a pipe of at most `most` bytes; `-` is standard input. `next` is the hint if there
/// are more.
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
