//! `getmnt1` (1983): relative names, directories read 512 bytes at a time, a depth limit.

use super::context::SearchContext;
use super::depth;
use crate::point::Point;
use crate::root::Root;

/// Block size of the file system that the program was written for, in bytes.
const OLD_BLOCK: usize = 512;

/// Finds every visible directory down to depth `bound` where `st_dev` changes.
pub fn find(root: &Root, bound: Option<usize>, context: &mut SearchContext<'_>) -> Vec<Point> {
    let style = depth::SearchStyle {
        full_names: false,
        buffer: OLD_BLOCK,
        bound,
        is_leaf: &|_| false,
    };
    depth::search(root, &style, context)
}
