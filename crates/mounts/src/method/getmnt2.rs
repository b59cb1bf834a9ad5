//! `getmnt2` (1987): getmnt1, with directories read a file-system block at a time, and leaf
//! pruning: no mount point can be beneath a leaf of the table of device pairs. Without a table it
//! stops where getmnt1 does.

use super::{SearchContext, depth};
use crate::Point;
use crate::pairs::Pairs;
use crate::root::Root;

/// The block of today's file systems, in bytes.
const BLOCK: usize = 4096;

/// Every visible directory within `bound` where `st_dev` changes.
pub fn find(
    root: &Root,
    bound: Option<usize>,
    pairs: Option<&Pairs>,
    hunt: &mut SearchContext<'_>,
) -> Vec<Point> {
    let leaf = |dev| pairs.is_some_and(|pairs| pairs.leaf(dev));
    let style = depth::Style {
        full_names: false,
        buffer: BLOCK,
        bound,
        leaf: &leaf,
    };
    depth::search(root, &style, hunt)
}
