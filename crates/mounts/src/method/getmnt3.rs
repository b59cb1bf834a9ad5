//! `getmnt3` (1988): breadth first, because mount points lie near the root; the table of device
//! pairs made into a tree, from which leaves are removed as they are found, so that the search ends
//! when the root turns leaf; directories read whole; names bunched (see `breadth.rs`); /dev left
//! out.
//!
//! /dev was left out as an unlikely place for mounts, and today it is a likely one. Here it is left
//! out until the rest is searched, and looked into then only if mounts are still sought; where the
//! table says that something is mounted on the file system at /dev, it takes its ordinary turn.
//! Without a table the search stops where getmnt1's does.

use gate::Gate;
use gate::fs::{At, FileType, newfstatat};
use ondisk::Dev;

use super::breadth::Queue;
use super::{SearchContext, root_point};
use crate::pairs::Pairs;
use crate::path::join;
use crate::root::Root;
use crate::{Incompleteness, Kind, Point};

/// Room for a whole directory of some thousand names, in bytes.
const WHOLE_DIRECTORY: usize = 256 << 10;

/// Every visible directory within `bound` where `st_dev` changes.
pub fn find(
    root: &Root,
    bound: Option<usize>,
    mut pairs: Option<Pairs>,
    hunt: &mut SearchContext<'_>,
) -> Vec<Point> {
    let mut points: Vec<Point> = root_point(root, hunt).into_iter().collect();
    let mut list = Queue::new(root, root.dev);
    let mut left_out: Option<(usize, Dev)> = None;
    let mut buffer = vec![0u8; WHOLE_DIRECTORY];
    let mut cut_off = 0u64;
    loop {
        if pairs.as_ref().is_some_and(Pairs::all_found) {
            hunt.progress.pruned += list.waiting() as u64;
            cut_off = 0; // nothing is sought in what was cut off
            break;
        }
        let Some(at) = list.pop() else {
            match left_out.take() {
                Some((parent, dev)) => list.push(parent, b"dev", dev),
                None => break,
            }
            continue;
        };
        let mut dev = list.node(at).about;
        if pairs.as_ref().is_some_and(|pairs| pairs.leaf(dev)) {
            hunt.progress.pruned += 1;
            continue;
        }
        if bound.is_some_and(|bound| list.node(at).depth as usize >= bound) {
            cut_off += 1;
            continue;
        }
        let path = list.path(at);
        hunt.directory(&path);
        let mut dev_is_sure = false;
        hunt.read(&path, list.open(at), &mut buffer, |hunt, dir, entry| {
            let name = entry.name.to_bytes();
            let stat = match newfstatat(dir, entry.name, At::SYMLINK_NOFOLLOW | At::NO_AUTOMOUNT) {
                Ok(stat) => stat,
                Err(errno) => return hunt.failed(&join(&path, name), Gate::Newfstatat, errno),
            };
            if stat.file_type != FileType::Directory {
                return;
            }
            let entry_dev = Dev::from(stat.dev);
            if entry_dev != dev && !dev_is_sure {
                // Something may have been mounted on the directory since its device was asked for.
                dev = newfstatat(dir, c"", At::EMPTY_PATH).map_or(dev, |stat| stat.dev.into());
                dev_is_sure = true;
            }
            if entry_dev != dev {
                points.push(Point::bare(join(&path, name), entry_dev, Some(Kind::Dir)));
                if let Some(pairs) = &mut pairs {
                    pairs.found(entry_dev, dev);
                }
            }
            let is_dev = path == b"/" && name == b"dev";
            let something_on_it = pairs
                .as_ref()
                .is_some_and(|p| entry_dev != dev && !p.leaf(entry_dev));
            if pairs.as_ref().is_some_and(|pairs| pairs.leaf(entry_dev)) {
                hunt.progress.pruned += 1;
            } else if is_dev && !something_on_it {
                left_out = Some((at, entry_dev));
            } else {
                list.push(at, name, entry_dev);
            }
        });
    }
    if cut_off > 0 {
        let bound = bound.unwrap_or_default();
        hunt.mark_incomplete(Incompleteness::DepthBound {
            bound,
            unread: cut_off,
        });
    }
    points
}
