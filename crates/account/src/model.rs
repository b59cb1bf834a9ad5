//! The model of overhead and useful work, the effect of a proposal on both, and its saving.

use crate::gates::{Gate, PerKind, information_calls};

/// The cost of the calls for one directory or one file, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Number of calls × the fixed price.
    pub overhead: f64,
    /// The cost beyond the overhead.
    pub useful: f64,
}

impl Cost {
    /// The sum of overhead and useful work.
    pub fn total(&self) -> f64 {
        self.overhead + self.useful
    }
}

/// The current cost of the calls for information.
pub fn cost(gates: &[Gate], fixed: f64) -> PerKind<Cost> {
    let today = Proposal {
        swaps: &[],
        keeps: KeptWork::All,
    };
    predict(gates, fixed, &today).unwrap_or_default()
}

/// A proposed change of the calls for information.
#[derive(Clone, Copy, Debug)]
pub struct Proposal<'a> {
    /// The calls that are replaced, and their replacements.
    pub swaps: &'a [CallReplacement],
    /// The useful work that remains.
    pub keeps: KeptWork,
}

/// Calls that are replaced by others.
#[derive(Clone, Copy, Debug)]
pub struct CallReplacement {
    /// The replaced calls.
    pub gates: GateSet,
    /// The new calls, each with its number per directory and per file.
    pub by: &'static [(&'static str, PerKind<f64>)],
}

/// A set of calls for information.
#[derive(Clone, Copy, Debug)]
pub enum GateSet {
    /// All calls that ask for metadata.
    All,
    /// Only those with these names.
    These(&'static [&'static str]),
}

impl GateSet {
    fn has(&self, name: &str) -> bool {
        match self {
            GateSet::All => true,
            GateSet::These(names) => names.contains(&name),
        }
    }
}

/// The useful work that remains with a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptWork {
    /// All of the useful work, which is done in other calls.
    All,
    /// The useful work of calls that are made for files, too; that of calls for directories only is
    /// saved.
    Entries,
}

/// The cost with a proposal; `None` if it replaces a call that is not in the table.
pub fn predict(gates: &[Gate], fixed: f64, proposal: &Proposal<'_>) -> Option<PerKind<Cost>> {
    let is_here = |name: &&str| information_calls(gates).any(|gate| gate.name == *name);
    let all_here = |swap: &CallReplacement| match swap.gates {
        GateSet::All => true,
        GateSet::These(names) => names.iter().all(is_here),
    };
    if !proposal.swaps.iter().all(all_here) {
        return None;
    }
    let mut costs = PerKind::<Cost>::default();
    for gate in information_calls(gates) {
        if !proposal.swaps.iter().any(|swap| swap.gates.has(&gate.name)) {
            costs.dir.overhead += gate.calls.dir * fixed;
            costs.file.overhead += gate.calls.file * fixed;
        }
        if proposal.keeps == KeptWork::All || gate.calls.file > 0.0 {
            let beyond = (gate.ms - fixed).max(0.0);
            costs.dir.useful += gate.calls.dir * beyond;
            costs.file.useful += gate.calls.file * beyond;
        }
    }
    for (_, calls) in proposal.swaps.iter().flat_map(|swap| swap.by) {
        costs.dir.overhead += calls.dir * fixed;
        costs.file.overhead += calls.file * fixed;
    }
    Some(costs)
}

/// The saving in percent of the whole, when calls with a share of `share` percent cost `then`
/// instead of `today`, with directories and files in the proportion `mix`.
pub fn saves(today: &PerKind<Cost>, then: &PerKind<Cost>, mix: PerKind<f64>, share: f64) -> f64 {
    let mean = |costs: &PerKind<Cost>| mix.dir * costs.dir.total() + mix.file * costs.file.total();
    let before = mean(today);
    if before > 0.0 {
        share * (1.0 - mean(then) / before)
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates::fixed_price;

    fn gate(name: &str, ms: f64, dir: f64, file: f64) -> Gate {
        Gate {
            name: name.to_owned(),
            ms,
            calls: PerKind { dir, file },
            for_effect: false,
        }
    }

    #[test]
    fn the_cheapest_call_that_asks_is_the_price_of_any() {
        let effect = Gate {
            for_effect: true,
            ..gate("set", 1.0, 1.0, 1.0)
        };
        let gates = [
            effect,
            gate("never", 2.0, 0.0, 0.0),
            gate("list", 9.0, 2.0, 0.0),
            gate("stat", 5.0, 1.0, 1.0),
        ];
        assert_eq!(fixed_price(&gates), Some(5.0));
        let costs = cost(&gates, 5.0);
        assert_eq!(
            costs.dir,
            Cost {
                overhead: 15.0,
                useful: 8.0
            }
        );
        assert_eq!(
            costs.file,
            Cost {
                overhead: 5.0,
                useful: 0.0
            }
        );
        assert_eq!(fixed_price(&gates[..2]), None);
    }

    #[test]
    fn a_proposal_replaces_only_what_is_there() {
        const THESE: CallReplacement = CallReplacement {
            gates: GateSet::These(&["a", "b"]),
            by: &[("ab", PerKind::new(1.0, 1.0))],
        };
        let proposal = Proposal {
            swaps: &[THESE],
            keeps: KeptWork::All,
        };
        let gates = [
            gate("a", 2.0, 1.0, 1.0),
            gate("b", 3.0, 1.0, 2.0),
            gate("c", 2.0, 1.0, 0.0),
        ];
        let costs = predict(&gates, 2.0, &proposal).unwrap();
        assert_eq!(
            costs.dir,
            Cost {
                overhead: 4.0,
                useful: 1.0
            }
        );
        assert_eq!(
            costs.file,
            Cost {
                overhead: 2.0,
                useful: 2.0
            }
        );
        assert_eq!(predict(&gates[1..], 2.0, &proposal), None);
    }

    #[test]
    fn nothing_is_saved_of_nothing() {
        let none = PerKind::<Cost>::default();
        assert_eq!(saves(&none, &none, PerKind::new(1.0, 1.0), 51.0), 0.0);
    }
}
