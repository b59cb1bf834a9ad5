//! `getmnt3` (1988): breadth first, because mount points are near the root. The table of device
//! pairs becomes a tree, from which leaves are removed as they are found, so that the search ends
//! when the root becomes a leaf. Directories are read completely, names are bunched (see
//! `breadth.rs`), and /dev is excluded.
//!
//! The authors excluded /dev as an unlikely place for mounts; today it is a likely one. This
//! implementation searches /dev last, and only if mounts are still missing; if the table has a
//! mount on the file system at /dev, it is searched in the usual order. Without a table the search
//! stops where getmnt1 does.

use base::path::join;
use gate::Gate;
use gate::fs::{AtFlags, FileType, newfstatat};
use ondisk::Dev;

use super::breadth::Queue;
use super::context::SearchContext;
use crate::pairs::Pairs;
use crate::point::{Point, PointKind};
use crate::root::Root;

/// Buffer size for a whole directory of some thousand names, in bytes.
const WHOLE_DIRECTORY: usize = 256 << 10;

/// Finds every visible directory down to depth `bound` where `st_dev` changes.
pub fn find(
    root: &Root,
    bound: Option<usize>,
    mut pairs: Option<Pairs>,
    context: &mut SearchContext<'_>,
) -> Vec<Point> {
    let mut points: Vec<Point> = context.root_point(root).into_iter().collect();
    let mut queue = Queue::new(root, root.dev);
    let mut skipped_dev: Option<(usize, Dev)> = None;
    let mut buffer = vec![0u8; WHOLE_DIRECTORY];
    let mut unread = 0u64;
    loop {
        if pairs.as_ref().is_some_and(Pairs::all_found) {
            context.progress.pruned += queue.waiting() as u64;
            unread = 0; // if no mount is missing, no directory counts as unread
            break;
        }
        let Some(at) = queue.pop() else {
            match skipped_dev.take() {
                Some((parent, dev)) => queue.push(parent, b"dev", dev),
                None => break,
            }
            continue;
        };
        let mut dev = queue.node(at).data;
        if pairs.as_ref().is_some_and(|pairs| pairs.is_leaf(dev)) {
            context.progress.pruned += 1;
            continue;
        }
        if bound.is_some_and(|bound| queue.node(at).depth as usize >= bound) {
            unread += 1;
            continue;
        }
        let path = queue.path(at);
        context.directory(&path);
        let mut dev_is_sure = false;
        context.read(&path, queue.open(at), &mut buffer, |context, dir, entry| {
            let name = entry.name.to_bytes();
            let stat = match newfstatat(
                dir,
                entry.name,
                AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT,
            ) {
                Ok(stat) => stat,
                Err(errno) => return context.failed(&join(&path, name), Gate::Newfstatat, errno),
            };
            if stat.file_type != FileType::Directory {
                return;
            }
            let entry_dev = stat.dev;
            if entry_dev != dev && !dev_is_sure {
                // Read the device number again: something may have been mounted on the directory
                // meanwhile.
                dev = newfstatat(dir, c"", AtFlags::EMPTY_PATH).map_or(dev, |stat| stat.dev);
                dev_is_sure = true;
            }
            if entry_dev != dev {
                points.push(Point::bare(
                    join(&path, name),
                    entry_dev,
                    Some(PointKind::Dir),
                ));
                if let Some(pairs) = &mut pairs {
                    pairs.found(entry_dev, dev);
                }
            }
            let is_dev = path == b"/" && name == b"dev";
            let is_leaf = pairs.as_ref().map(|pairs| pairs.is_leaf(entry_dev));
            if is_leaf == Some(true) {
                context.progress.pruned += 1;
            } else if is_dev && (is_leaf.is_none() || entry_dev == dev) {
                skipped_dev = Some((at, entry_dev));
            } else {
                queue.push(at, name, entry_dev);
            }
        });
    }
    context.mark_unread(bound, unread);
    points
}
