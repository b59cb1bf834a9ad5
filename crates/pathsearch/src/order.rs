//! The best order of the directories of PATH: the one with the fewest failed lookups for the
//! programs searched for. A name with different programs in two directories must keep its program.

/// The maximum number of directories for which all subsets are tried.
const MOST_EXACT: usize = 16;

/// The best order of `weights.len()` directories, as indices into their present order.
///
/// `weights[i]` is the number of hits in directory `i`; `after[i]` are the directories that must
/// stay before it. Directories without hits come last, in their present order. With more than 16
/// relevant directories, the order is good, but not always optimal.
pub(crate) fn order_directories(weights: &[u64], after: &[Vec<usize>]) -> Vec<usize> {
    let n = weights.len();
    let matters = matters(weights, after);
    let order: Vec<usize> = (0..n).filter(|i| matters[*i]).collect();
    let mut best = if order.len() <= MOST_EXACT {
        exact(&order, weights, after)
    } else {
        by_density(&order, weights, after)
    };
    best.extend((0..n).filter(|i| !matters[*i]));
    best
}

/// The directories that come first: those with hits, and those that must stay before them.
fn matters(weights: &[u64], after: &[Vec<usize>]) -> Vec<bool> {
    let mut matters: Vec<bool> = weights.iter().map(|weight| *weight > 0).collect();
    // A directory that must stay before another one always has a smaller index.
    for i in (0..weights.len()).rev() {
        if matters[i] {
            let before = after.get(i).into_iter().flatten();
            before.for_each(|before| matters[*before] = true);
        }
    }
    matters
}

/// Dynamic programming over subsets: the cheapest order of each set of directories.
fn exact(order: &[usize], weights: &[u64], after: &[Vec<usize>]) -> Vec<usize> {
    let n = order.len();
    let before = |i: &usize| {
        let stays = |bit: &usize| {
            after
                .get(*i)
                .is_some_and(|list| list.contains(&order[*bit]))
        };
        (0..n).filter(stays).fold(0, |set, bit| set | 1 << bit)
    };
    let before: Vec<usize> = order.iter().map(before).collect();
    // The minimum cost of each set of directories, and the last directory in the cheapest order. Of
    // equally cheap last directories, take the largest index, which keeps the present order where
    // possible.
    let mut costs = vec![(u64::MAX, 0_usize); 1 << n];
    costs[0].0 = 0;
    for set in 1_usize..1 << n {
        let place = u64::from(set.count_ones()) - 1;
        for last in (0..n).filter(|bit| set & (1 << bit) != 0) {
            let rest = set & !(1 << last);
            if before[last] & !rest != 0 || costs[rest].0 == u64::MAX {
                continue;
            }
            let hits = weights[order[last]].saturating_mul(place);
            let cost = costs[rest].0.saturating_add(hits);
            if cost <= costs[set].0 {
                costs[set] = (cost, last);
            }
        }
    }
    let mut set = (1 << n) - 1;
    let mut best = Vec::with_capacity(n);
    while set != 0 {
        let (_, last) = costs[set];
        best.push(order[last]);
        set &= !(1 << last);
    }
    best.reverse();
    best
}

/// Greedy: repeatedly takes the directory with the most hits per position, counting the positions
/// of directories that must come before it.
fn by_density(order: &[usize], weights: &[u64], after: &[Vec<usize>]) -> Vec<usize> {
    let mut best: Vec<usize> = Vec::with_capacity(order.len());
    while best.len() < order.len() {
        let left = order.iter().copied().filter(|i| !best.contains(i));
        let bundle = |i: usize| {
            let mut bundle = vec![i];
            let mut at = 0;
            while let Some(next) = bundle.get(at).copied() {
                let needs = after.get(next).into_iter().flatten().copied();
                let new: Vec<usize> = needs
                    .filter(|j| !best.contains(j) && !bundle.contains(j))
                    .collect();
                bundle.extend(new);
                at += 1;
            }
            bundle.sort_unstable();
            bundle.dedup();
            bundle
        };
        let density = |bundle: &[usize]| {
            bundle.iter().map(|i| weights[*i] as f64).sum::<f64>() / bundle.len() as f64
        };
        let densest = left
            .map(bundle)
            .rev()
            .max_by(|a, b| density(a).total_cmp(&density(b)));
        match densest {
            Some(bundle) => best.extend(bundle),
            None => break,
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cost(order: &[usize], weights: &[u64]) -> u64 {
        order
            .iter()
            .zip(0..)
            .map(|(i, place)| weights[*i] * place)
            .sum()
    }

    fn keeps(order: &[usize], after: &[Vec<usize>]) -> bool {
        let place = |i: usize| order.iter().position(|j| *j == i).unwrap();
        after
            .iter()
            .enumerate()
            .all(|(i, before)| before.iter().all(|j| place(*j) < place(i)))
    }

    #[test]
    fn the_most_hits_come_first_unless_a_constraint_forbids_it() {
        assert_eq!(
            order_directories(&[0, 1, 5], &[vec![], vec![], vec![]]),
            [2, 1, 0]
        );
        assert_eq!(
            order_directories(&[0, 1, 5], &[vec![], vec![], vec![0]]),
            [0, 2, 1]
        );
        assert_eq!(
            order_directories(&[3, 3, 3], &[vec![], vec![], vec![]]),
            [0, 1, 2]
        );
        assert_eq!(order_directories(&[0, 0], &[vec![], vec![0]]), [0, 1]);
        assert_eq!(order_directories(&[], &[]), [0_usize; 0]);
    }

    /// For each of `n` directories, the directories that must stay before it, from pairs (before,
    /// after).
    fn constraints(n: usize, pairs: Vec<(usize, usize)>) -> Vec<Vec<usize>> {
        let mut after = vec![Vec::new(); n];
        for (a, b) in pairs.into_iter().filter(|(a, b)| a < b && *b < n) {
            after[b].push(a);
        }
        after
    }

    proptest! {
        #[test]
        fn no_order_within_the_constraints_is_better(
            weights in proptest::collection::vec(0_u64..6, 1..6),
            pairs in proptest::collection::vec((0_usize..6, 0_usize..6), 0..6),
        ) {
            let n = weights.len();
            let after = constraints(n, pairs);
            let found = order_directories(&weights, &after);
            prop_assert!(keeps(&found, &after));
            let mut all = vec![vec![]];
            for _ in 0..n {
                all = all.iter().flat_map(|order: &Vec<usize>| {
                    (0..n).filter(|i| !order.contains(i)).map(|i| [&order[..], &[i]].concat()).collect::<Vec<_>>()
                }).collect();
            }
            let least = all.iter().filter(|order| keeps(order, &after)).map(|order| cost(order, &weights)).min().unwrap();
            prop_assert_eq!(cost(&found, &weights), least);
        }

        #[test]
        fn many_directories_are_ordered_within_the_constraints(
            weights in proptest::collection::vec(0_u64..9, 20..30),
            pairs in proptest::collection::vec((0_usize..30, 0_usize..30), 0..20),
        ) {
            let n = weights.len();
            let after = constraints(n, pairs);
            let found = order_directories(&weights, &after);
            prop_assert!(keeps(&found, &after));
            let mut sorted = found.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..n).collect::<Vec<_>>());
        }
    }
}
