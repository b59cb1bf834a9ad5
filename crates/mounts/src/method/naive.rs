//! `naive`: full names, the attributes of everything, depth first, as `find / -depth` of 1988.

use super::context::SearchContext;
use super::depth;
use crate::point::Point;
use crate::root::Root;

/// Buffer size for one directory entry with the longest name, so that few entries are read at a
/// time.
const ONE_ENTRY: usize = 280;

/// Finds every visible directory where `st_dev` changes.
pub fn find(root: &Root, context: &mut SearchContext<'_>) -> Vec<Point> {
    let style = depth::SearchStyle {
        full_names: true,
        buffer: ONE_ENTRY,
        bound: None,
        is_leaf: &|_| false,
    };
    depth::search(root, &style, context)
}
