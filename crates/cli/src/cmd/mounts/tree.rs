//! The tree of mount points as findmnt(8) draws it: each mount below its parent mount.

use std::collections::HashMap;

use base::path;
use mounts::Point;

/// A line of the tree of mount points.
pub(crate) struct Branch {
    /// The index of the mount point.
    pub(crate) at: usize,
    /// The line-drawing characters before the path.
    pub(crate) limb: String,
}

/// The mount points in tree order: each follows its parent mount, and siblings are ordered by path.
/// As in the kernel, a covered mount is the parent of the mount that covers it.
pub(crate) fn tree(points: &[Point]) -> Vec<Branch> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|&a, &b| {
        let (a, b) = (&points[a], &points[b]);
        path::compare(&a.target, &b.target).then(b.hidden.cmp(&a.hidden))
    });
    let placed = depths(points, &order);
    let limbs = limbs(&placed);
    let branches = placed.into_iter().zip(limbs);
    branches
        .map(|((at, _), limb)| Branch { at, limb })
        .collect()
}

/// The index of each mount point and its depth in the tree, in tree order.
fn depths(points: &[Point], order: &[usize]) -> Vec<(usize, usize)> {
    let parents = parents(points, order);
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); points.len()];
    let mut todo: Vec<(usize, usize)> = Vec::new();
    for &at in order.iter().rev() {
        match parents[at] {
            Some(parent) => children[parent].push(at),
            None => todo.push((at, 0)),
        }
    }
    let mut is_placed = vec![false; points.len()];
    let mut placed = Vec::with_capacity(points.len());
    let mut others = order.iter();
    loop {
        while let Some((at, depth)) = todo.pop() {
            if !std::mem::replace(&mut is_placed[at], true) {
                placed.push((at, depth));
                todo.extend(children[at].iter().map(|&child| (child, depth + 1)));
            }
        }
        // An inconsistent mount table can contain a cycle of parents.
        match others.find(|at| !is_placed[**at]) {
            Some(&at) => todo.push((at, 0)),
            None => return placed,
        }
    }
}

/// The index of each mount point by its mount id.
pub(super) fn by_id<'a>(points: impl Iterator<Item = &'a Point>) -> HashMap<u64, usize> {
    let ids = points.enumerate();
    ids.filter_map(|(at, point)| Some((point.id?, at)))
        .collect()
}

/// The parent of each mount point: by the mount ids of the table; without ids, by the paths.
fn parents(points: &[Point], order: &[usize]) -> Vec<Option<usize>> {
    let ids = by_id(points.iter());
    let mut above: Vec<usize> = Vec::new();
    let mut parents = vec![None; points.len()];
    for &at in order {
        let point = &points[at];
        while above
            .pop_if(|top| path::below(&points[*top].target, &point.target).is_none())
            .is_some()
        {}
        parents[at] = match point.parent {
            Some(id) => ids.get(&id).copied().filter(|&parent| parent != at),
            None => above.last().copied(),
        };
        above.push(at);
    }
    parents
}

fn limbs(placed: &[(usize, usize)]) -> Vec<String> {
    /// Maximum number of levels that are drawn, to leave room for the paths.
    const DEEPEST: usize = 12;
    // For each depth, whether a sibling follows in a later line. The loop goes backwards, so later
    // lines are known.
    let mut more: Vec<bool> = Vec::new();
    let mut limbs = vec![String::new(); placed.len()];
    for (nth, &(_, depth)) in placed.iter().enumerate().rev() {
        more.resize(depth.max(more.len()), false);
        if depth > 0 {
            let upper = more[..depth - 1].iter().take(DEEPEST);
            limbs[nth] = upper.map(|&more| if more { "│ " } else { "  " }).collect();
            limbs[nth].push_str(if more[depth - 1] { "├─" } else { "└─" });
            more[depth - 1] = true;
        }
        more.truncate(depth);
    }
    limbs
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::Dev;

    fn drawn(points: &[Point]) -> Vec<String> {
        let line = |branch: &Branch| {
            let point = &points[branch.at];
            let state = if point.hidden { " hidden" } else { "" };
            let target = String::from_utf8_lossy(&point.target);
            format!("{}{target}{state}", branch.limb)
        };
        tree(points).iter().map(line).collect()
    }

    fn point(target: &str, ids: Option<(u64, u64)>, hidden: bool) -> Point {
        Point {
            id: ids.map(|(id, _)| id),
            parent: ids.map(|(_, parent)| parent),
            hidden,
            ..Point::bare(target.into(), Dev::default(), None)
        }
    }

    #[test]
    fn covered_mount_is_above_the_one_that_covers_it() {
        let points = [
            point("/", Some((1, 0)), false),
            point("/db", Some((2, 1)), true),
            point("/db/log", Some((3, 2)), true),
            point("/db", Some((4, 2)), false),
            point("/db/log", Some((5, 4)), false),
            point("/www", Some((6, 1)), false),
        ];
        assert_eq!(
            drawn(&points),
            [
                "/",
                "├─/db hidden",
                "│ ├─/db",
                "│ │ └─/db/log",
                "│ └─/db/log hidden",
                "└─/www"
            ]
        );
    }

    #[test]
    fn without_ids_the_tree_is_that_of_the_names() {
        let points = ["/", "/a", "/a/b", "/ab", "/c"].map(|target| point(target, None, false));
        assert_eq!(drawn(&points), ["/", "├─/a", "│ └─/a/b", "├─/ab", "└─/c"]);
    }

    #[test]
    fn each_mount_of_a_circle_is_drawn_once() {
        let points = [
            point("/a", Some((1, 2)), false),
            point("/a/b", Some((2, 1)), false),
            point("/c", Some((3, 3)), false),
        ];
        let mut lines = drawn(&points);
        lines.sort();
        assert_eq!(lines.len(), 3, "{lines:?}");
    }
}
