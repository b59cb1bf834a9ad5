//! Where in a file there is data.

use gate::fs::{Whence, lseek};
use gate::{Errno, Fd};
use ondisk::pax::sparse::{Extent, Map};

/// The data of an open file of this size, if it has holes and the file system tells of them.
///
/// # Errors
/// Those of lseek(2), for a file that cannot be read.
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
        // A file that is cut short meanwhile has no hole any more: what was found to be data may be
        // read, if in vain.
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
