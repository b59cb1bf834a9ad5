//! The table and the proposals of the Multics memo of 1974.
//!
//! The memo prints rounded numbers: directories to 5 ms, files to 1 ms, savings to whole percents.
//! The memo gives 30 ms for a directory that is copied out, and 5 ms for a file in it, without a
//! derivation: two calls per directory and a third of a call per file amount to that. Raw dumping
//! saves the useful work of calls that are made for directories only (listing a directory, and
//! reading its access list): 100 of 115 ms.

use crate::gates::{Gate, PerKind, parse};
use crate::model::{CallReplacement, Cost, GateSet, KeptWork, Proposal, cost, predict, saves};

const TABLE: &str = include_str!("../data/multics-1974.csv");

/// The percentage of the backup's CPU time in calls that return information.
pub const SHARE: f64 = 51.0;
/// The percentage of the system's CPU time that the backup used.
pub const SYSTEM: f64 = 20.0;

/// An option of the memo: a column of its last table.
#[derive(Clone, Copy, Debug)]
pub struct MemoOption {
    /// The name of the option.
    pub name: &'static str,
    /// The proposed change.
    pub proposal: Proposal<'static>,
    /// The saving of the backup's CPU time that the memo prints, in percent; `None` for the status
    /// quo.
    pub printed: Option<f64>,
    /// The saving of the system's CPU time that the memo prints, in percent.
    pub printed_system: Option<f64>,
}

const COPY: CallReplacement = CallReplacement {
    gates: GateSet::All,
    by: &[("copy_directory", PerKind::new(2.0, 1.0 / 3.0))],
};

/// The memo's options, in its order.
pub const OPTIONS: [MemoOption; 4] = [
    MemoOption {
        name: "today",
        proposal: Proposal {
            swaps: &[],
            keeps: KeptWork::All,
        },
        printed: None,
        printed_system: None,
    },
    MemoOption {
        name: "two_gates",
        proposal: Proposal {
            swaps: &[
                CallReplacement {
                    gates: GateSet::These(&["list_inacl_seg", "list_inacl_dir"]),
                    by: &[("list_inacl_all", PerKind::new(1.0, 0.0))],
                },
                CallReplacement {
                    gates: GateSet::These(&[
                        "get_author",
                        "status_seg_activity",
                        "get_bc_author",
                        "get_safety_sw",
                        "get_max_length",
                    ]),
                    by: &[("status_for_backup", PerKind::new(1.0, 1.0))],
                },
            ],
            keeps: KeptWork::All,
        },
        printed: Some(27.0),
        printed_system: Some(5.0),
    },
    MemoOption {
        name: "copyout",
        proposal: Proposal {
            swaps: &[COPY],
            keeps: KeptWork::All,
        },
        printed: Some(32.0),
        printed_system: Some(6.0),
    },
    MemoOption {
        name: "rawdump",
        proposal: Proposal {
            swaps: &[COPY],
            keeps: KeptWork::Entries,
        },
        printed: Some(41.0),
        printed_system: Some(8.0),
    },
];

/// The memo's table of system calls.
pub fn table() -> Vec<Gate> {
    parse(TABLE).unwrap_or_default()
}

/// Whether a table has the system calls of the memo's table, in any order.
pub fn is_table(gates: &[Gate]) -> bool {
    let sorted = |mut gates: Vec<Gate>| {
        gates.sort_by(|a, b| a.name.cmp(&b.name));
        gates
    };
    sorted(table()) == sorted(gates.to_vec())
}

/// Rounds costs as the memo prints them.
pub fn rounded(costs: &PerKind<Cost>) -> PerKind<Cost> {
    let to = |grain: f64, cost: Cost| {
        let round = |ms: f64| (ms / grain).round() * grain;
        Cost {
            overhead: round(cost.overhead),
            useful: round(cost.useful),
        }
    };
    PerKind::new(to(5.0, costs.dir), to(1.0, costs.file))
}

/// A column of the memo's last table, computed for any table of system calls.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The name of the option.
    pub name: &'static str,
    /// The costs with this option.
    pub costs: PerKind<Cost>,
    /// The saving of the backup's CPU time, in percent.
    pub saves: f64,
    /// The saving of the backup's CPU time that the memo prints.
    pub printed: Option<f64>,
    /// The saving of the system's CPU time, in percent.
    pub saves_system: f64,
    /// The saving of the system's CPU time that the memo prints.
    pub printed_system: Option<f64>,
}

/// The proportions that turn a saving per entry into a saving of CPU time.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// The proportion of directories to files.
    pub mix: PerKind<f64>,
    /// The percentage of the backup's time in calls that return information.
    pub backup: f64,
    /// The percentage of the system's time that the backup uses.
    pub system: f64,
}

/// Applies the options of the Multics memo of 1974 to a table of system calls. Figures are rounded
/// as in the memo if the table is the memo's. An option is skipped if it replaces calls that the
/// table does not contain.
pub fn columns(gates: &[Gate], fixed: f64, shares: &Shares) -> Vec<Column> {
    let is_memo = is_table(gates);
    let today = cost(gates, fixed);
    let column = |choice: &MemoOption| {
        let then = predict(gates, fixed, &choice.proposal)?;
        let saved = saves(&today, &then, shares.mix, shares.backup);
        let round = |percent: f64| if is_memo { percent.round() } else { percent };
        Some(Column {
            name: choice.name,
            costs: if is_memo { rounded(&then) } else { then },
            saves: round(saved),
            printed: choice.printed.filter(|_| is_memo),
            saves_system: round(saved * shares.system / 100.0),
            printed_system: choice.printed_system.filter(|_| is_memo),
        })
    };
    OPTIONS.iter().filter_map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates::fixed_price;

    /// The percentages of directories and other segments in an incremental dump of 1974.
    const MIX: PerKind<f64> = PerKind::new(40.0, 60.0);

    #[test]
    fn its_totals_hold() {
        let gates = table();
        assert_eq!(fixed_price(&gates), Some(14.0));
        let calls = |per: fn(&Gate) -> f64| {
            gates
                .iter()
                .filter(|gate| !gate.for_effect)
                .map(per)
                .sum::<f64>()
        };
        assert_eq!(
            (calls(|gate| gate.calls.dir), calls(|gate| gate.calls.file)),
            (25.0, 6.0)
        );
        let today = cost(&gates, 14.0);
        assert_eq!(
            (today.dir, today.dir.total()),
            (
                Cost {
                    overhead: 350.0,
                    useful: 115.0
                },
                465.0
            )
        );
        assert_eq!(
            (today.file, today.file.total()),
            (
                Cost {
                    overhead: 84.0,
                    useful: 15.0
                },
                99.0
            )
        );
    }

    #[test]
    fn its_last_table_comes_out() {
        let gates = table();
        let printed = [
            ("today", [350.0, 115.0, 465.0], [84.0, 15.0, 99.0]),
            ("two_gates", [85.0, 115.0, 200.0], [28.0, 15.0, 43.0]),
            ("copyout", [30.0, 115.0, 145.0], [5.0, 15.0, 20.0]),
            ("rawdump", [30.0, 15.0, 45.0], [5.0, 15.0, 20.0]),
        ];
        for (option, (name, dir, file)) in OPTIONS.iter().zip(printed) {
            let costs = rounded(&predict(&gates, 14.0, &option.proposal).unwrap());
            assert_eq!(option.name, name);
            let column = |cost: Cost| [cost.overhead, cost.useful, cost.total()];
            assert_eq!(
                (column(costs.dir), column(costs.file)),
                (dir, file),
                "{name}"
            );
        }
    }

    #[test]
    fn its_savings_are_not_what_it_prints() {
        let gates = table();
        let today = cost(&gates, 14.0);
        let saved = |round: fn(&PerKind<Cost>) -> PerKind<Cost>| {
            let then =
                OPTIONS.map(|option| round(&predict(&gates, 14.0, &option.proposal).unwrap()));
            then.map(|then| saves(&round(&today), &then, MIX, SHARE))
        };
        assert_eq!(
            saved(|costs| *costs).map(f64::round),
            [0.0, 29.0, 37.0, 45.0]
        );
        // With rounded costs, copying out saves 36.45 %, which rounds to 36 %, not to 37 %.
        assert_eq!(saved(rounded).map(f64::round), [0.0, 29.0, 36.0, 45.0]);
        assert_eq!(
            OPTIONS.map(|option| option.printed),
            [None, Some(27.0), Some(32.0), Some(41.0)]
        );
    }

    #[test]
    fn a_table_is_the_memos_or_not() {
        let mut gates = table();
        gates.reverse();
        assert!(is_table(&gates));
        gates[0].ms += 1.0;
        assert!(!is_table(&gates) && !is_table(&gates[1..]));
    }
}
