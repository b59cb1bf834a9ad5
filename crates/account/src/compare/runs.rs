//! A run is the measurement of a program, identified by NAME, on a system: real, user and sys
//! seconds, and calls where they were counted.

use std::collections::HashMap;

use crate::error::Error;
use crate::figures::Figure;

base::named! {
    /// A measured quantity of a run, in the order of the papers' columns.
    Measure {
        /// Elapsed seconds.
        Real "real",
        /// CPU seconds in user mode.
        User "user",
        /// CPU seconds in the kernel.
        Sys "sys",
        /// Number of system calls.
        Calls "calls",
    }
}

/// One optional value for each of [`Measure::ALL`]: a measurement, in seconds or a number of calls,
/// or a ratio of two measurements.
pub type MeasureValues = [Option<f64>; Measure::ALL.len()];

/// One ratio for each of [`Measure::ALL`].
pub type Ratios = [Result<f64, NoRatio>; Measure::ALL.len()];

/// A system, and the measurements of each program on it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct System {
    /// The name of the system; empty if the file has none.
    pub name: Vec<u8>,
    /// The file that has the measurements.
    pub file: Vec<u8>,
    /// The line number in the file, from 1.
    pub line: usize,
    /// Heading and cell of each column of the system's row that is no measurement.
    pub labels: Vec<(String, String)>,
    /// The measurements of each program, in the order of [`Runs::names`].
    pub took: Vec<MeasureValues>,
    /// The ratios that the file's row for this system contains.
    pub printed: MeasureValues,
}

impl System {
    /// The measurements of the program with this index.
    pub fn took_by(&self, at: usize) -> MeasureValues {
        self.took.get(at).copied().unwrap_or_default()
    }
}

/// The [`Runs::kind`] of comma-separated values.
pub const CSV: &str = "csv";

/// Runs of the same programs on several systems.
#[derive(Clone, PartialEq, Debug)]
pub struct Runs {
    /// The origin of the runs: the subcommand of fathom that printed them, or [`CSV`]. Only runs of
    /// one kind share a table.
    pub kind: String,
    /// The names of the programs: NAME in the headings.
    pub names: Vec<String>,
    /// The systems on which programs ran.
    pub systems: Vec<System>,
    /// The cells without a value: line number and heading.
    pub empty: Vec<(usize, String)>,
}

/// The contents of a file of measurements.
#[derive(Debug)]
pub struct MeasuredFile {
    /// The runs, for tables of ratios, or why there are none.
    pub runs: Result<Runs, Error>,
    /// Number of runs in the file.
    pub count: usize,
    /// The subcommand and the figures, if the file is fathom's JSON.
    pub figures: Option<(String, Vec<Figure>)>,
}

/// Why there is no ratio of two measurements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoRatio {
    /// At least one value was not measured.
    Unknown,
    /// At least one value is 0. The papers give no ratio for such values either.
    TooShort,
}

/// The ratio of two measurements.
pub(super) fn ratio(one: Option<f64>, other: Option<f64>) -> Result<f64, NoRatio> {
    /// Smaller values count as 0. A picosecond: no clock has a finer resolution, and no call takes
    /// less.
    const SHORTEST: f64 = 1e-12;
    let (one, other) = one.zip(other).ok_or(NoRatio::Unknown)?;
    if one >= SHORTEST && other >= SHORTEST {
        Ok(one / other)
    } else {
        Err(NoRatio::TooShort)
    }
}

impl Runs {
    /// An empty list of runs.
    pub(super) fn new(kind: &str) -> Runs {
        Runs {
            kind: kind.to_owned(),
            names: Vec::new(),
            systems: Vec::new(),
            empty: Vec::new(),
        }
    }

    /// The index of the default base program: the last program, which is the newest in the papers.
    pub fn base(&self) -> usize {
        self.names.len().saturating_sub(1)
    }

    /// Whether the runs of both files belong in one table.
    fn goes_with(&self, other: &Runs) -> bool {
        // The NAMEs in fathom's JSON are methods for the same task, and a system may lack some
        // methods, so the NAMEs of two files may differ. In CSV, different NAMEs mean different
        // tables, such as the report's Figures 7 and 10.
        let has = |name: &String| self.names.contains(name);
        let has_same = || self.names.len() == other.names.len() && other.names.iter().all(has);
        self.kind == other.kind && (self.kind != CSV || has_same())
    }

    /// Adds the runs of another file.
    pub(super) fn add(&mut self, other: Runs) {
        // Insert a new NAME after its predecessor in the other file, which keeps the order of each
        // file. If each file has one NAME, keep the order of the files.
        let is_one = other.names.len() == 1;
        let mut behind = if is_one { self.names.len() } else { 0 };
        for name in &other.names {
            let known = self.names.iter().position(|known| known == name);
            behind = 1 + known.unwrap_or_else(|| {
                self.names.insert(behind, name.clone());
                for system in &mut self.systems {
                    system.took.insert(behind, MeasureValues::default());
                }
                behind
            });
        }
        let place = |name: &String| other.names.iter().position(|own| own == name);
        let places: Vec<_> = self.names.iter().map(place).collect();
        for system in other.systems {
            let took = places
                .iter()
                .map(|place| place.map(|at| system.took_by(at)));
            let took = took.map(Option::unwrap_or_default).collect();
            self.systems.push(System { took, ..system });
        }
    }
}

/// Merges the rows of one system from several files with one NAME each. Duplicate measurements stay
/// separate rows.
fn merged(systems: Vec<System>) -> Vec<System> {
    let mut rows: Vec<System> = Vec::with_capacity(systems.len());
    let mut first: HashMap<Vec<u8>, usize> = HashMap::new();
    for system in systems {
        let known = first.get(&system.name).and_then(|at| rows.get_mut(*at));
        let fits = |row: &System| {
            let mut both = row.took.iter().zip(&system.took);
            both.all(|(a, b)| is_nothing(a) || is_nothing(b))
        };
        match known.filter(|row| fits(row)) {
            Some(row) => {
                let both = row.took.iter_mut().zip(&system.took);
                both.filter(|(has, _)| is_nothing(has))
                    .for_each(|(has, new)| *has = *new);
            }
            None => {
                first.entry(system.name.clone()).or_insert(rows.len());
                rows.push(system);
            }
        }
    }
    rows
}

fn is_nothing(took: &MeasureValues) -> bool {
    took.iter().all(Option::is_none)
}

/// Joins runs into tables: one per kind, and for CSV one per set of NAMEs.
pub fn join(files: impl IntoIterator<Item = Runs>) -> Vec<Runs> {
    let mut tables: Vec<Runs> = Vec::new();
    for file in files {
        match tables.iter_mut().find(|table| table.goes_with(&file)) {
            Some(table) => table.add(file),
            None => tables.push(file),
        }
    }
    for table in &mut tables {
        if table.kind != CSV {
            table.systems = merged(std::mem::take(&mut table.systems));
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::comparison::{Comparison, Pair};

    fn runs(kind: &str, names: &[&str], system: &str, real: &[f64]) -> Runs {
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
            names,
            systems: vec![system],
            ..Runs::new(kind)
        }
    }

    fn pairs(runs: &Runs, base: usize) -> Vec<Pair<'_>> {
        Comparison { runs, base }.pairs().collect()
    }

    fn mean(pair: Pair<'_>, measure: Measure) -> f64 {
        let ratios: Vec<f64> = pair.ratios(measure).collect();
        ratios.iter().sum::<f64>() / ratios.len() as f64
    }

    fn real(pair: Pair<'_>) -> Vec<Result<f64, NoRatio>> {
        pair.all_ratios().map(|(_, ratios)| ratios[0]).collect()
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
            let pairs = pairs(&runs, runs.base());
            assert_eq!((pairs.len(), runs.systems.len()), (1, systems));
            assert_eq!(
                [Measure::Real, Measure::User, Measure::Sys]
                    .map(|measure| format!("{:.2}", mean(pairs[0], measure))),
                means
            );
            // Each printed ratio is correct up to rounding.
            for (system, ratios) in pairs[0].all_ratios() {
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
    fn there_is_no_ratio_of_0() {
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
        let a = runs(CSV, &["old", "new"], "a", &[4.0, 2.0]);
        let b = runs(CSV, &["new", "old"], "b", &[2.0, 6.0]);
        let c = runs(CSV, &["new", "newest"], "c", &[2.0, 1.0]);
        let tables = join([a, c, b]);
        assert_eq!(tables.len(), 2);
        let pairs = pairs(&tables[0], tables[0].base());
        assert_eq!(real(pairs[0]), [Ok(2.0), Ok(3.0)]);
    }

    #[test]
    fn an_engine_that_is_not_everywhere_takes_its_place() {
        let ext4 = runs("walk", &["threads", "ext4", "stat"], "a", &[2.0, 1.0, 4.0]);
        let xfs = runs(
            "walk",
            &["threads", "bulkstat", "stat"],
            "b",
            &[2.0, 1.0, 4.0],
        );
        let tables = join([ext4, xfs]);
        assert_eq!(tables[0].names, ["threads", "bulkstat", "ext4", "stat"]);
        let pairs = pairs(&tables[0], 3);
        assert_eq!(
            pairs.iter().map(|pair| real(*pair)[0]).collect::<Vec<_>>(),
            [Ok(0.5), Err(NoRatio::Unknown), Ok(0.25)]
        );
    }

    #[test]
    fn files_of_one_system_are_one_row() {
        let file = |name, system, real| runs("account", &[name], system, &[real]);
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
