//! Finds the data and the holes of a sparse file.

use gate::fs::{Whence, lseek};
use gate::{Errno, Fd};
use ondisk::pax::sparse::{Extent, Map};

/// The data extents of an open file; `None` if it has no holes, or the file system does not report
/// them.
pub(crate) fn data(fd: &Fd, size: u64) -> Result<Option<Map>, Errno> {
    let mut map = Map::default();
    let mut at = 0;
    while at < size {
        let from = match lseek(fd, at, Whence::Data) {
            Ok(from) if from < size => from,
            Ok(_) | Err(Errno::ENXIO) => break,
            Err(Errno::EINVAL | Errno::EOPNOTSUPP) => return Ok(None),
            Err(e) => return Err(e),
        };
        // ENXIO means that the file was truncated meanwhile; the reader detects that later.
        let to = match lseek(fd, from, Whence::Hole) {
            Ok(to) => to.min(size),
            Err(Errno::ENXIO) => size,
            Err(e) => return Err(e),
        };
        if to <= from {
            break;
        }
        map.add(from, to - from);
        at = to;
    }
    let is_whole = matches!(map.extents(), [Extent { offset: 0, len }] if *len == size);
    Ok((!is_whole).then_some(map))
}
