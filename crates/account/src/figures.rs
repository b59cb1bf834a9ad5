//! Figures: measured values in the common form that all commands use in their JSON, and the
//! comparison of two lists of figures.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use base::runs::{Stats, Times};
use serde::{Deserialize, Serialize};

/// A measured value.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// The name of the measurement, such as `threads real`, by which figures of two runs are
    /// paired.
    pub name: String,
    /// The value; the median of repeated measurements.
    pub value: f64,
    /// `s`, `bytes`, `calls`, or another unit; empty for a number without one.
    pub unit: Cow<'static, str>,
    /// The largest of repeated measurements less the smallest, or the interquartile range of a
    /// batch of calls; 0 for a value that does not vary; `None` if unknown, as after a single
    /// measurement.
    #[serde(default)]
    pub spread: Option<f64>,
}

impl Figure {
    /// A figure from a single measurement, whose spread is unknown.
    pub fn single(name: impl Into<String>, value: f64, unit: &'static str) -> Figure {
        Figure {
            name: name.into(),
            value,
            unit: Cow::Borrowed(unit),
            spread: None,
        }
    }

    /// A figure that is the same in each measurement, such as the number of calls of an engine.
    pub fn exact(name: impl Into<String>, value: f64, unit: &'static str) -> Figure {
        Figure::single(name, value, unit).with_spread(0.0)
    }

    /// The figure with a spread.
    pub fn with_spread(self, spread: f64) -> Figure {
        Figure {
            spread: Some(spread),
            ..self
        }
    }

    /// The median and spread of repeated measurements; `None` if there are none.
    pub fn from_trials(
        name: impl Into<String>,
        trials: impl IntoIterator<Item = f64>,
        unit: &'static str,
    ) -> Option<Figure> {
        let trials: Vec<f64> = trials.into_iter().collect();
        let stats = Stats::from_values(trials.iter().copied())?;
        let figure = Figure::single(name, stats.median, unit);
        Some(match trials.len() {
            1 => figure,
            _ => figure.with_spread(stats.max - stats.min),
        })
    }
}

/// The figures `NAME real`, `NAME user` and `NAME sys` of several runs, and `NAME calls` of one of
/// them. `user` and `sys` are means, because the kernel's CPU clock is coarse.
pub fn figures_of_runs(name: &str, runs: &[Times], calls: u64) -> Vec<Figure> {
    let figure = |measure: &str, time: fn(&Times) -> f64| {
        let name = format!("{name} {measure}");
        Figure::from_trials(name, runs.iter().map(time), "s")
    };
    let mean = |measure: &str, time: fn(&Times) -> f64| {
        let value = Stats::from_runs(runs, time)?.mean;
        Some(Figure {
            value,
            ..figure(measure, time)?
        })
    };
    let figures = [
        figure("real", |times| times.real),
        mean("user", |times| times.user),
        mean("sys", |times| times.sys),
    ];
    let calls = Figure::exact(format!("{name} calls"), calls as f64, "calls");
    figures.into_iter().flatten().chain([calls]).collect()
}

base::named! {
    /// Whether a figure has changed between two files; the most important verdict first.
    #[derive(PartialOrd, Ord)]
    Verdict {
        /// The values differ by more than the sum of both spreads.
        Changed "changed",
        /// The values differ, but a spread is unknown.
        Unknown "unknown",
        /// Only one of the files has the figure.
        Missing "missing",
        /// The values are equal, or differ by no more than the spreads.
        Unchanged "unchanged",
    }
}

/// A figure of two files, one of which may lack it.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct FigureChange {
    pub name: String,
    pub unit: Cow<'static, str>,
    pub old: Option<Figure>,
    pub new: Option<Figure>,
}

impl FigureChange {
    fn both(&self) -> Option<[&Figure; 2]> {
        Some([self.old.as_ref()?, self.new.as_ref()?])
    }

    /// The new value less the old one.
    pub fn difference(&self) -> Option<f64> {
        self.both().map(|[old, new]| new.value - old.value)
    }

    /// The new value divided by the old value; `None` if a value is missing or the old value is 0.
    pub fn ratio(&self) -> Option<f64> {
        let [old, new] = self.both()?;
        Some(new.value / old.value).filter(|ratio| ratio.is_finite())
    }

    /// Whether the figure has changed. In one of 70 comparisons, three trials of the same program
    /// differ by more than both spreads, so a change must also exceed a share of the value: 10 % of
    /// a time, which other programs disturb, and 1 % of other figures. The number of calls of a
    /// program varies little, so for calls two single runs suffice.
    pub fn verdict(&self) -> Verdict {
        let (Some([old, new]), Some(difference)) = (self.both(), self.difference()) else {
            return Verdict::Missing;
        };
        let share = if self.unit == "s" { 0.1 } else { 0.01 };
        if difference.abs() <= share * old.value.abs() {
            return Verdict::Unchanged;
        }
        match old.spread.zip(new.spread) {
            None if self.unit == "calls" && difference.abs() > least_of_calls(old.value) => {
                Verdict::Changed
            }
            None => Verdict::Unknown,
            Some((old, new)) if difference.abs() > old + new => Verdict::Changed,
            Some(_) => Verdict::Unchanged,
        }
    }
}

/// The largest difference in the number of calls that two runs of the same program may have.
fn least_of_calls(old: f64) -> f64 {
    (0.1 * old.abs()).max(10.0)
}

/// Combines the figures of several runs: the medians, with the range of the runs as spread. A system
/// call that some of `accounts` reports of `fathom account` lack did not occur in these runs: its
/// figures there are 0, see [`add_absent_calls`]. `accounts` is 0 for other reports.
pub(crate) fn combine(runs: impl IntoIterator<Item = Figure>, accounts: usize) -> Vec<Figure> {
    let mut by_name: BTreeMap<String, Vec<Figure>> = BTreeMap::new();
    for figure in runs {
        by_name.entry(figure.name.clone()).or_default().push(figure);
    }
    let combined = by_name.into_values().filter_map(|mut figures| {
        if figures.len() < accounts && figures.first().is_some_and(is_of_system_call) {
            let absent = Figure {
                value: 0.0,
                spread: None,
                ..figures[0].clone()
            };
            figures.resize(accounts, absent);
        }
        let stats = Stats::from_values(figures.iter().map(|figure| figure.value))?;
        let own = figures.iter().filter_map(|figure| figure.spread);
        let own = own.reduce(f64::max);
        let spread = match figures.len() {
            1 => own,
            _ => Some(own.unwrap_or(0.0).max(stats.max - stats.min)),
        };
        let first = figures.into_iter().next()?;
        Some(Figure {
            value: stats.median,
            spread,
            ..first
        })
    });
    combined.collect()
}

/// Adds figures of 0 for the system calls that `others` has, but a report of `fathom account` does
/// not have: the report lists all system calls of its run, so that an absent call did not occur.
/// With several `runs`, the spread of these figures is 0, otherwise unknown.
///
/// Programs and directories are not added: their names often contain temporary paths, and
/// `--top` limits the directories.
pub fn add_absent_calls(figures: &mut Vec<Figure>, others: &[Figure], runs: usize) {
    let known: HashSet<String> = figures.iter().map(|it| it.name.clone()).collect();
    let others = others.iter().filter(|it| is_of_system_call(it));
    let absent = others.filter(|it| !known.contains(&it.name));
    figures.extend(absent.map(|other| Figure {
        value: 0.0,
        spread: (runs > 1).then_some(0.0),
        ..other.clone()
    }));
}

/// Whether a figure of `fathom account` has the calls or the seconds of one system call, such as
/// `openat calls`. Names of programs, directories and waits have a prefix with a space.
fn is_of_system_call(figure: &Figure) -> bool {
    let suffix = match &*figure.unit {
        "calls" => " calls",
        "s" => " seconds",
        _ => return false,
    };
    let gate = figure.name.strip_suffix(suffix);
    gate.is_some_and(|gate| !gate.contains(' '))
}

/// Compares the figures of an old and a new file. Changed figures come first, figures of single
/// directories after all other figures, times before other units, and the largest differences
/// first.
pub fn compare(old: &[Figure], new: &[Figure]) -> Vec<FigureChange> {
    let mut changes: BTreeMap<(&str, &str), [Option<&Figure>; 2]> = BTreeMap::new();
    for (side, figures) in [old, new].into_iter().enumerate() {
        for figure in figures {
            let key = (&figure.name[..], &*figure.unit);
            changes.entry(key).or_default()[side] = Some(figure);
        }
    }
    let change = |((name, unit), [old, new]): ((&str, &str), [Option<&Figure>; 2])| FigureChange {
        name: name.to_owned(),
        unit: unit.to_owned().into(),
        old: old.cloned(),
        new: new.cloned(),
    };
    let mut changes: Vec<FigureChange> = changes.into_iter().map(change).collect();
    let size = |change: &FigureChange| change.difference().map_or(0.0, f64::abs);
    changes.sort_by(|a, b| {
        let key = |change: &FigureChange| {
            let is_of_directory = change.name.starts_with("directory ");
            (change.verdict(), is_of_directory, change.unit != "s")
        };
        let order = key(a).cmp(&key(b)).then_with(|| a.unit.cmp(&b.unit));
        order.then_with(|| size(b).total_cmp(&size(a)))
    });
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn change(old: Figure, new: Figure) -> FigureChange {
        compare(&[old], &[new]).remove(0)
    }

    fn time(value: f64, spread: f64) -> Figure {
        Figure::single("real", value, "s").with_spread(spread)
    }

    #[test]
    fn only_a_difference_beyond_both_spreads_is_a_change() {
        for (old, new, verdict) in [
            (time(1.0, 0.1), time(1.3, 0.1), Verdict::Changed),
            (time(1.3, 0.1), time(1.0, 0.1), Verdict::Changed),
            (time(1.0, 0.2), time(1.3, 0.2), Verdict::Unchanged),
            // The difference exceeds the spreads, but not a tenth of the value.
            (time(1.0, 0.01), time(1.09, 0.01), Verdict::Unchanged),
            (time(0.0, 0.0), time(0.0, 0.0), Verdict::Unchanged),
            (time(0.0, 0.0), time(0.1, 0.0), Verdict::Changed),
            (
                time(1.0, 0.0),
                Figure::single("real", 2.0, "s"),
                Verdict::Unknown,
            ),
            (
                Figure::single("real", 1.0, "s"),
                Figure::single("real", 1.05, "s"),
                Verdict::Unchanged,
            ),
        ] {
            let change = change(old, new);
            assert_eq!(change.verdict(), verdict, "{change:?}");
        }
    }

    #[test]
    fn calls_do_not_vary() {
        let calls = |value| Figure::exact("calls", value, "calls");
        let verdict = |old, new| change(calls(old), calls(new)).verdict();
        assert_eq!(verdict(100.0, 102.0), Verdict::Changed);
        assert_eq!(verdict(10_000.0, 10_001.0), Verdict::Unchanged);
    }

    #[test]
    fn calls_of_single_runs_are_compared() {
        let calls = |value| Figure::single("calls", value, "calls");
        let verdict = |old, new| change(calls(old), calls(new)).verdict();
        assert_eq!(verdict(5082.0, 6352.0), Verdict::Changed);
        assert_eq!(verdict(0.0, 11.0), Verdict::Changed);
        assert_eq!(verdict(3.0, 9.0), Verdict::Unknown);
        assert_eq!(verdict(1000.0, 1050.0), Verdict::Unknown);
        assert_eq!(verdict(1000.0, 1005.0), Verdict::Unchanged);
    }

    #[test]
    fn figures_of_other_names_or_units_are_missing() {
        let old = [
            Figure::exact("a", 1.0, "calls"),
            Figure::exact("b", 1.0, "s"),
        ];
        let new = [
            Figure::exact("a", 1.0, "calls"),
            Figure::exact("b", 1.0, "ms"),
        ];
        let changes = compare(&old, &new);
        let verdicts: Vec<_> = changes.iter().map(FigureChange::verdict).collect();
        assert_eq!(
            verdicts,
            [Verdict::Missing, Verdict::Missing, Verdict::Unchanged]
        );
    }

    #[test]
    fn an_absent_system_call_occurred_0_times() {
        let run = |calls: &[(&str, f64)]| -> Vec<Figure> {
            let names = calls.iter();
            let names = names.flat_map(|(name, value)| {
                [
                    Figure::single(format!("{name} calls"), *value, "calls"),
                    Figure::single(format!("{name} seconds"), value * 1e-6, "s"),
                ]
            });
            names.collect()
        };
        let old = run(&[("read", 9.0)]);
        let new = run(&[
            ("read", 9.0),
            ("fsync", 300.0),
            ("flock", 3.0),
            ("directory /d", 300.0),
            ("program /p", 300.0),
        ]);
        let mut filled = old.clone();
        add_absent_calls(&mut filled, &new, 1);
        let verdict = |old: &[Figure], new: &[Figure], name: &str| {
            let changes = compare(old, new);
            let change = changes.into_iter().find(|it| it.name == name).unwrap();
            (change.verdict(), change.ratio())
        };
        for (name, expected) in [
            ("fsync calls", (Verdict::Changed, None)),
            ("fsync seconds", (Verdict::Unknown, None)),
            // A single run may have so few calls by chance.
            ("flock calls", (Verdict::Unknown, None)),
            ("directory /d calls", (Verdict::Missing, None)),
            ("program /p calls", (Verdict::Missing, None)),
            ("read calls", (Verdict::Unchanged, Some(1.0))),
        ] {
            assert_eq!(verdict(&filled, &new, name), expected, "{name}");
        }
        // A call that no longer occurs has the ratio 0.
        let fsync = verdict(&new, &filled, "fsync calls");
        assert_eq!(fsync, (Verdict::Changed, Some(0.0)));
        // Several runs have a spread.
        let mut filled = combine([old.clone(), old].concat(), 0);
        let new = combine([new.clone(), new].concat(), 0);
        add_absent_calls(&mut filled, &new, 2);
        for name in ["fsync seconds", "flock calls"] {
            assert_eq!(verdict(&filled, &new, name), (Verdict::Changed, None));
        }
    }

    #[test]
    fn those_that_changed_most_come_first() {
        let figures = |by: f64| {
            [
                Figure::exact("more calls", 10.0 * by, "calls"),
                Figure::exact("little time", 1.0 * by, "s"),
                Figure::exact("much time", 5.0 * by, "s"),
                Figure::exact("same", 7.0, "s"),
                Figure::single("once", 9.0 * by, "s"),
            ]
        };
        let changes = compare(&figures(1.0), &figures(2.0));
        let names: Vec<&str> = changes.iter().map(|change| &change.name[..]).collect();
        let expected = ["much time", "little time", "more calls", "once", "same"];
        assert_eq!(names, expected);
        assert_eq!(
            (changes[0].ratio(), changes[0].difference()),
            (Some(2.0), Some(5.0))
        );
    }

    #[test]
    fn several_runs_have_a_median_and_a_range() {
        let runs = [3.0, 1.0, 2.0].map(|value| Figure::single("real", value, "s"));
        assert_eq!(combine(runs, 0), [time(2.0, 2.0)]);
        let one = Figure::single("real", 3.0, "s");
        assert_eq!(combine([one.clone()], 0), [one]);
        assert_eq!(
            combine([time(3.0, 0.5), time(3.1, 0.5)], 0)[0].spread,
            Some(0.5)
        );
    }

    #[test]
    fn times_of_one_run_have_no_spread() {
        let run = |real| Times {
            real,
            user: real / 2.0,
            sys: 0.0,
        };
        let figures = figures_of_runs("threads", &[run(1.0), run(2.0), run(6.0)], 7);
        let parts: Vec<_> = figures
            .iter()
            .map(|figure| (&figure.name[..], figure.value, figure.spread))
            .collect();
        assert_eq!(
            parts,
            [
                ("threads real", 2.0, Some(5.0)),
                ("threads user", 1.5, Some(2.5)),
                ("threads sys", 0.0, Some(0.0)),
                ("threads calls", 7.0, Some(0.0)),
            ]
        );
        let of_one = figures_of_runs("threads", &[run(1.0)], 7);
        assert_eq!(of_one[0].spread, None);
        assert_eq!(figures_of_runs("threads", &[], 7), of_one[3..]);
    }

    proptest! {
        #[test]
        fn a_file_does_not_differ_from_itself(values in prop::collection::vec(("[a-c]", -1e300..1e300, prop::option::of(0.0..1e300)), 0..9)) {
            let figures = values.into_iter().map(|(name, value, spread)| Figure {
                spread,
                ..Figure::single(name, value, "s")
            });
            let figures = combine(figures, 0);
            let changes = compare(&figures, &figures);
            prop_assert!(changes.iter().all(|change| change.verdict() == Verdict::Unchanged));
        }
    }
}
