//! The best order of the directories of PATH: with it, the programs that were searched for are
//! found after as few misses as can be, and each name that leads to different programs in two
//! directories leads to the same one as before.

/// Directories for which the best order is found by trying all sets of them.
const MOST_EXACT: usize = 16;

/// The best order of `weights.len()` directories, of which the first ones come before the others
/// now.
///
/// `weights` says how often something was found in each; `after[i]` which must stay before `i`.
/// Directories in which nothing was found come last, in their old order. With more than 16 that
/// matter, what comes is good, but need not be the best.
pub fn best(weights: &[u64], after: &[Vec<usize>]) -> Vec<usize> {
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

/// What is found in comes before what is not, and so must all that has to stay before it.
fn matters(weights: &[u64], after: &[Vec<usize>]) -> Vec<bool> {
    let mut matters: Vec<bool> = weights.iter().map(|weight| *weight > 0).collect();
    // Whoever must stay before another had a smaller number, always.
    for i in (0..weights.len()).rev() {
        if matters[i] {
            for before in after
                .get(i)
                .into_iter()
                .flatten()
                .copied()
                .filter(|before| *before < i)
            {
                matters[before] = true;
            }
        }
    }
    matters
}

/// Dynamic programming over sets: the cheapest way to put a set of directories first.
fn exact(order: &[usize], weights: &[u64], after: &[Vec<usize>]) -> Vec<usize> {
    let n = order.len();
    let before: Vec<usize> = order
        .iter()
        .map(|i| {
            let stays = |j: &usize| after.get(*i).is_some_and(|list| list.contains(j));
            order
                .iter()
                .enumerate()
                .filter(|(_, j)| stays(j))
                .fold(0, |set, (bit, _)| set | 1 << bit)
        })
        .collect();
    // The cost of each set, and which comes last in it; of equals, the one that was last before.
    let mut costs = vec![(u64::MAX, 0_usize); 1 << n];
    costs[0].0 = 0;
    for set in 1_usize..1 << n {
        let place = u64::from(set.count_ones()) - 1;
        for last in (0..n).filter(|bit| set & (1 << bit) != 0) {
            let rest = set & !(1 << last);
            if before[last] & !rest != 0 || costs[rest].0 == u64::MAX {
                continue;
            }
            let cost = costs[rest]
                .0
                .saturating_add(weights[order[last]].saturating_mul(place));
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

/// Again and again the directory that is worth most, with all that must come before it, for the
/// room that they take together.
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
    fn what_is_found_in_most_comes_first_unless_something_must_stay_before_it() {
        assert_eq!(best(&[0, 1, 5], &[vec![], vec![], vec![]]), [2, 1, 0]);
        assert_eq!(best(&[0, 1, 5], &[vec![], vec![], vec![0]]), [0, 2, 1]);
        assert_eq!(best(&[3, 3, 3], &[vec![], vec![], vec![]]), [0, 1, 2]);
        assert_eq!(best(&[0, 0], &[vec![], vec![0]]), [0, 1]);
        assert_eq!(best(&[], &[]), [0_usize; 0]);
    }

    /// For each of `n`, what it must come after: of each pair the first, where that is a smaller
    /// one.
    fn constraints(n: usize, pairs: Vec<(usize, usize)>) -> Vec<Vec<usize>> {
        let mut after = vec![Vec::new(); n];
        for (a, b) in pairs.into_iter().filter(|(a, b)| a < b && *b < n) {
            after[b].push(a);
        }
        after
    }

    proptest! {
        #[test]
        fn no_order_that_keeps_what_must_be_kept_is_better(
            weights in proptest::collection::vec(0_u64..6, 1..6),
            pairs in proptest::collection::vec((0_usize..6, 0_usize..6), 0..6),
        ) {
            let n = weights.len();
            let after = constraints(n, pairs);
            let found = best(&weights, &after);
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
        fn many_are_ordered_well_and_soundly(
            weights in proptest::collection::vec(0_u64..9, 20..30),
            pairs in proptest::collection::vec((0_usize..30, 0_usize..30), 0..20),
        ) {
            let n = weights.len();
            let after = constraints(n, pairs);
            let found = best(&weights, &after);
            prop_assert!(keeps(&found, &after));
            let mut sorted = found.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..n).collect::<Vec<_>>());
        }
    }
}
