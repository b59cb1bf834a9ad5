//! A run is what a program, by its NAME, took on a system: seconds real, user and sys, and calls
//! where they were counted.

use std::collections::HashMap;

use crate::number::is_measurable;

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// Elapsed seconds.
    Real,
    /// Seconds in the program.
    User,
    /// Seconds in the kernel for it.
    Sys,
    /// Calls through the gates.
    Calls,
}

impl Measure {
    /// All of them, in the order of the papers' columns; [`Took`] is in it.
    pub const ALL: [Measure; 4] = [Measure::Real, Measure::User, Measure::Sys, Measure::Calls];

    /// Its name: what stands behind the NAME in a heading, and in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Real => "real",
            Measure::User => "user",
            Measure::Sys => "sys",
            Measure::Calls => "calls",
        }
    }
}

/// One value for each of [`Measure::ALL`], where there is one: seconds, and a number of calls; or
/// ratios of them.
pub type Took = [Option<f64>; Measure::ALL.len()];

/// Where runs come from: only those of one kind are put into one table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Comma-separated values.
    Csv,
    /// `fathom mounts --compare --json`: the NAMEs are methods.
    Mounts,
    /// `fathom walk --compare --json`: the NAMEs are engines.
    Walk,
    /// `fathom account --json`: the NAME is the last part of the file's name.
    Account,
    /// `fathom pathwalk --json`: likewise.
    Pathwalk,
}

impl Kind {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Csv => "csv",
            Kind::Mounts => "mounts",
            Kind::Walk => "walk",
            Kind::Account => "account",
            Kind::Pathwalk => "pathwalk",
        }
    }
}

/// A system, and what each program took on it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct System {
    /// Its name; empty where nothing names it.
    pub name: Vec<u8>,
    /// The file that it was read from.
    pub file: Vec<u8>,
    /// The line there, from 1.
    pub line: usize,
    /// What else its row says: column and cell.
    pub labels: Vec<(String, String)>,
    /// What each took, in the order of [`Runs::names`].
    pub took: Vec<Took>,
    /// Ratios that stood in its row.
    pub printed: Took,
}

/// Runs on some systems, all of the same programs.
#[derive(Clone, PartialEq, Debug)]
pub struct Runs {
    /// Where they come from.
    pub kind: Kind,
    /// The programs, by their NAMEs.
    pub names: Vec<String>,
    /// The systems.
    pub systems: Vec<System>,
    /// Cells with nothing in them: line and column.
    pub empty: Vec<(usize, String)>,
}

/// Why there is no ratio.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoRatio {
    /// One of the two was not measured.
    #[error("one of the two was not measured")]
    Unknown,
    /// One of the two is 0, or next to it: less than the clock tells apart. The papers' ratios have
    /// none of these either.
    #[error("one of the two is 0")]
    TooShort,
}

/// How many times as much the one takes as the other.
///
/// # Errors
/// Why that cannot be told.
pub fn ratio(one: Option<f64>, other: Option<f64>) -> Result<f64, NoRatio> {
    let (one, other) = one.zip(other).ok_or(NoRatio::Unknown)?;
    if is_measurable(one) && is_measurable(other) {
        Ok(one / other)
    } else {
        Err(NoRatio::TooShort)
    }
}

/// One program against another.
#[derive(Clone, PartialEq, Debug)]
pub struct Pair {
    /// The one above the line, in [`Runs::names`].
    pub of: usize,
    /// The one below it.
    pub to: usize,
    /// For each system the ratios.
    pub ratios: Vec<[Result<f64, NoRatio>; Measure::ALL.len()]>,
}

impl Runs {
    /// The NAME that the others are held against unless one is given: the last, as in the papers,
    /// where the newest is.
    pub fn base(&self) -> usize {
        self.names.len().saturating_sub(1)
    }

    /// Each program against one of them.
    pub fn pairs(&self, base: usize) -> Vec<Pair> {
        let pair = |of: usize| {
            let took =
                |system: &System, at: usize| system.took.get(at).copied().unwrap_or_default();
            let ratios = |system: &System| {
                let (of, to) = (took(system, of), took(system, base));
                std::array::from_fn(|measure| ratio(of[measure], to[measure]))
            };
            Pair {
                of,
                to: base,
                ratios: self.systems.iter().map(ratios).collect(),
            }
        };
        (0..self.names.len())
            .filter(|of| *of != base)
            .map(pair)
            .collect()
    }

    /// Whether the same programs are compared in both.
    fn goes_with(&self, other: &Runs) -> bool {
        // What fathom compares are ways to do one thing, of which some are not possible everywhere.
        // Of other files nothing is known: those with other NAMEs are another table, as Figure 10
        // is beside Figure 7.
        let same = || {
            self.names.len() == other.names.len()
                && other.names.iter().all(|name| self.names.contains(name))
        };
        self.kind == other.kind && (self.kind != Kind::Csv || same())
    }

    /// Adds what is in another file.
    pub(super) fn add(&mut self, other: Runs) {
        // A NAME that is new goes behind the one that it follows there, so that the order stays
        // what it is in each file; where each file has one, the order is that of the files.
        let mut behind = if other.names.len() == 1 {
            self.names.len()
        } else {
            0
        };
        for name in &other.names {
            behind = match self.names.iter().position(|known| known == name) {
                Some(at) => at + 1,
                None => {
                    self.names.insert(behind, name.clone());
                    self.systems
                        .iter_mut()
                        .for_each(|system| system.took.insert(behind, Took::default()));
                    behind + 1
                }
            };
        }
        let places: Vec<_> = self
            .names
            .iter()
            .map(|name| other.names.iter().position(|own| own == name))
            .collect();
        for system in other.systems {
            let took = |place: &Option<usize>| {
                place
                    .and_then(|at| system.took.get(at).copied())
                    .unwrap_or_default()
            };
            let took = places.iter().map(took).collect();
            self.systems.push(System { took, ..system });
        }
    }
}

/// What fathom gave of one system in several files, one for each NAME, is one row; where the same
/// was measured twice, it is two.
fn merged(systems: Vec<System>) -> Vec<System> {
    let mut rows: Vec<System> = Vec::with_capacity(systems.len());
    let mut first: HashMap<Vec<u8>, usize> = HashMap::new();
    for system in systems {
        let known = first.get(&system.name).and_then(|at| rows.get_mut(*at));
        let fits = |row: &System| {
            row.took
                .iter()
                .zip(&system.took)
                .all(|(a, b)| is_nothing(a) || is_nothing(b))
        };
        match known.filter(|row| fits(row)) {
            Some(row) => {
                for (has, new) in row
                    .took
                    .iter_mut()
                    .zip(&system.took)
                    .filter(|(has, _)| is_nothing(has))
                {
                    *has = *new;
                }
            }
            None => {
                first.entry(system.name.clone()).or_insert(rows.len());
                rows.push(system);
            }
        }
    }
    rows
}

fn is_nothing(took: &Took) -> bool {
    took.iter().all(Option::is_none)
}

/// Puts together what can be compared together: one table for each kind of runs, and of files with
/// comma-separated values one for each set of NAMEs.
pub fn join(files: impl IntoIterator<Item = Runs>) -> Vec<Runs> {
    let mut tables: Vec<Runs> = Vec::new();
    for file in files {
        match tables.iter_mut().find(|table| table.goes_with(&file)) {
            Some(table) => table.add(file),
            None => tables.push(file),
        }
    }
    for table in tables
        .iter_mut()
        .filter(|table| matches!(table.kind, Kind::Account | Kind::Pathwalk))
    {
        table.systems = merged(std::mem::take(&mut table.systems));
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(kind: Kind, names: &[&str], system: &str, real: &[f64]) -> Runs {
        let took = real
            .iter()
            .map(|&real| [Some(real), None, None, None])
            .collect();
        let system = System {
            name: system.into(),
            took,
            ..System::default()
        };
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Runs {
            kind,
            names,
            systems: vec![system],
            empty: Vec::new(),
        }
    }

    fn mean(pair: &Pair, measure: usize) -> f64 {
        let ratios: Vec<f64> = pair
            .ratios
            .iter()
            .filter_map(|ratios| ratios[measure].ok())
            .collect();
        ratios.iter().sum::<f64>() / ratios.len() as f64
    }

    #[test]
    fn the_means_of_figures_7_and_10() {
        let figures = [
            include_str!("../../data/getmnt-figure7.csv"),
            include_str!("../../data/getmnt-figure10.csv"),
        ];
        for (text, systems, means) in [
            (figures[0], 40, ["10.38", "13.10", "5.03"]),
            (figures[1], 37, ["3.72", "3.65", "3.08"]),
        ] {
            let runs = crate::compare::csv::parse(text).unwrap();
            let pairs = runs.pairs(runs.base());
            assert_eq!((pairs.len(), runs.systems.len()), (1, systems));
            assert_eq!(
                [0, 1, 2].map(|measure| format!("{:.2}", mean(&pairs[0], measure))),
                means
            );
            // Each single ratio is printed right, to rounding.
            for (ratios, system) in pairs[0].ratios.iter().zip(&runs.systems) {
                for (ours, printed) in ratios.iter().zip(system.printed).take(3) {
                    assert!(
                        (ours.unwrap() - printed.unwrap()).abs() <= 0.011,
                        "{system:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn nothing_is_divided_by_nothing() {
        assert_eq!(ratio(Some(6.0), Some(2.0)), Ok(3.0));
        for (of, to) in [
            (1.0, 0.0),
            (0.0, 1.0),
            (0.0, 0.0),
            (-0.0, 1.0),
            (1e15, 1e-308),
        ] {
            assert_eq!(
                ratio(Some(of), Some(to)),
                Err(NoRatio::TooShort),
                "{of}/{to}"
            );
        }
        assert_eq!(ratio(None, Some(1.0)), Err(NoRatio::Unknown));
    }

    #[test]
    fn tables_with_other_names_stay_apart() {
        let a = runs(Kind::Csv, &["old", "new"], "a", &[4.0, 2.0]);
        let b = runs(Kind::Csv, &["new", "old"], "b", &[2.0, 6.0]);
        let c = runs(Kind::Csv, &["new", "newest"], "c", &[2.0, 1.0]);
        let tables = join([a, c, b]);
        assert_eq!(tables.len(), 2);
        let pairs = tables[0].pairs(tables[0].base());
        assert_eq!(
            pairs[0]
                .ratios
                .iter()
                .map(|ratios| ratios[0])
                .collect::<Vec<_>>(),
            [Ok(2.0), Ok(3.0)]
        );
    }

    #[test]
    fn an_engine_that_is_not_everywhere_takes_its_place() {
        let ext4 = runs(
            Kind::Walk,
            &["threads", "ext4", "stat"],
            "a",
            &[2.0, 1.0, 4.0],
        );
        let xfs = runs(
            Kind::Walk,
            &["threads", "bulkstat", "stat"],
            "b",
            &[2.0, 1.0, 4.0],
        );
        let tables = join([ext4, xfs]);
        assert_eq!(tables[0].names, ["threads", "bulkstat", "ext4", "stat"]);
        let pairs = tables[0].pairs(3);
        assert_eq!(
            pairs
                .iter()
                .map(|pair| pair.ratios[0][0])
                .collect::<Vec<_>>(),
            [Ok(0.5), Err(NoRatio::Unknown), Ok(0.25)]
        );
    }

    #[test]
    fn files_of_one_system_are_one_row() {
        let file = |name, system, real| runs(Kind::Account, &[name], system, &[real]);
        let tables = join([
            file("before", "a", 6.0),
            file("after", "a", 2.0),
            file("after", "b", 1.0),
            file("after", "a", 3.0),
        ]);
        assert_eq!(tables[0].names, ["before", "after"]);
        let real: Vec<_> = tables[0]
            .systems
            .iter()
            .map(|system| [system.took[0][0], system.took[1][0]])
            .collect();
        assert_eq!(
            real,
            [[Some(6.0), Some(2.0)], [None, Some(1.0)], [None, Some(3.0)]]
        );
    }
}
