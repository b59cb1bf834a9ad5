//! Overhead and useful; what a proposal would make of them; what that saves.

use crate::gates::{Gate, Per, asking};

/// What the calls for one directory or one file take, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Calls times the fixed price.
    pub overhead: f64,
    /// The rest.
    pub useful: f64,
}

impl Cost {
    /// Both.
    pub fn total(&self) -> f64 {
        self.overhead + self.useful
    }
}

/// What the calls for information take today.
pub fn cost(gates: &[Gate], fixed: f64) -> Per<Cost> {
    let today = Proposal {
        name: "",
        swaps: &[],
        keeps: Keeps::All,
    };
    predict(gates, fixed, &today).unwrap_or_default()
}

/// Another way to ask.
#[derive(Clone, Copy, Debug)]
pub struct Proposal {
    /// Its name.
    pub name: &'static str,
    /// The gates that would go, and those that would come.
    pub swaps: &'static [Swap],
    /// The useful work that is left.
    pub keeps: Keeps,
}

/// Gates that give way to others.
#[derive(Clone, Copy, Debug)]
pub struct Swap {
    /// Those that go.
    pub gates: GateSet,
    /// Those that come, each with its calls for a directory and for a file.
    pub by: &'static [(&'static str, Per<f64>)],
}

/// Gates that ask for something.
#[derive(Clone, Copy, Debug)]
pub enum GateSet {
    /// All of them.
    All,
    /// Those of these names.
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

/// The useful work that a proposal leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// All of it: it is done in other calls.
    All,
    /// What is done for each entry, whether directory or file; what is done for directories alone
    /// is spared.
    Entries,
}

/// What a proposal would make of a table; `None` when it would replace a gate that is not in it.
pub fn predict(gates: &[Gate], fixed: f64, proposal: &Proposal) -> Option<Per<Cost>> {
    let is_here = |name: &&str| asking(gates).any(|gate| gate.name == *name);
    let all_here = |swap: &Swap| match swap.gates {
        GateSet::All => true,
        GateSet::These(names) => names.iter().all(is_here),
    };
    if !proposal.swaps.iter().all(all_here) {
        return None;
    }
    let mut costs = Per::<Cost>::default();
    for gate in asking(gates) {
        if !proposal.swaps.iter().any(|swap| swap.gates.has(&gate.name)) {
            costs.dir.overhead += gate.calls.dir * fixed;
            costs.file.overhead += gate.calls.file * fixed;
        }
        if proposal.keeps == Keeps::All || gate.calls.file > 0.0 {
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

/// What is saved, in percent of the whole, when calls that take `share` percent of it cost `then`
/// instead of `today`, and directories and files come in the proportion `mix`.
pub fn saves(today: &Per<Cost>, then: &Per<Cost>, mix: Per<f64>, share: f64) -> f64 {
    let mean = |costs: &Per<Cost>| mix.dir * costs.dir.total() + mix.file * costs.file.total();
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
            calls: Per { dir, file },
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
        const ONE: Per<f64> = Per {
            dir: 1.0,
            file: 1.0,
        };
        const THESE: Swap = Swap {
            gates: GateSet::These(&["a", "b"]),
            by: &[("ab", ONE)],
        };
        let proposal = Proposal {
            name: "ab",
            swaps: &[THESE],
            keeps: Keeps::All,
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
        let none = Per::<Cost>::default();
        assert_eq!(
            saves(
                &none,
                &none,
                Per {
                    dir: 1.0,
                    file: 1.0
                },
                51.0
            ),
            0.0
        );
    }
}
