//! `getmnt2` (1987): like getmnt1, with directories read a file-system block at a time, and leaf
//! pruning: no mount point can be beneath a leaf of the table of device pairs. Without a table,
//! getmnt2 stops at the same depth as getmnt1.

use super::context::SearchContext;
use super::depth;
use crate::pairs::Pairs;
use crate::point::Point;
use crate::root::Root;

/// Block size of present file systems, in bytes.
const BLOCK: usize = 4096;

/// Finds every visible directory down to depth `bound` where `st_dev` changes.
pub fn find(
    root: &Root,
    bound: Option<usize>,
    pairs: Option<&Pairs>,
    context: &mut SearchContext<'_>,
) -> Vec<Point> {
    let style = depth::SearchStyle {
        full_names: false,
        buffer: BLOCK,
        bound,
        is_leaf: &|dev| pairs.is_some_and(|pairs| pairs.is_leaf(dev)),
    };
    depth::search(root, &style, context)
}
