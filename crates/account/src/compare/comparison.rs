//! Programs against a base program, on the systems where both ran.

use super::runs::{Kind, Measure, NoRatio, Pair, Runs, System, Took};

/// Runs of the same programs on some systems, each program against the base.
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    /// The runs.
    pub runs: &'a Runs,
    /// The program that the others are compared with, in [`Runs::names`].
    pub base: usize,
    /// The others, each against the base.
    pub pairs: Vec<Pair>,
}

impl<'a> Comparison<'a> {
    /// Compares all programs with the base.
    pub fn new(runs: &'a Runs, base: usize) -> Comparison<'a> {
        Comparison {
            runs,
            base,
            pairs: runs.pairs(base),
        }
    }

    /// The pairs, with their runs.
    pub fn pairs(&'a self) -> impl Iterator<Item = PairView<'a>> {
        let runs = self.runs;
        self.pairs.iter().map(move |pair| PairView { runs, pair })
    }
}

/// A pair, and the runs that it is made of.
#[derive(Clone, Copy, Debug)]
pub struct PairView<'a> {
    /// All runs.
    pub runs: &'a Runs,
    /// The pair.
    pub pair: &'a Pair,
}

impl<'a> PairView<'a> {
    /// The two programs, by their places in [`Runs::names`].
    pub fn both(self) -> [usize; 2] {
        [self.pair.of, self.pair.to]
    }

    /// The name of a program.
    pub fn name(self, at: usize) -> &'a str {
        self.runs.names.get(at).map_or("", |name| name)
    }

    /// The systems on which both ran, with their ratios.
    pub fn rows(self) -> impl Iterator<Item = (&'a System, Took)> {
        let ran = move |system: &System, at: usize| {
            system
                .took
                .get(at)
                .is_some_and(|took| took.iter().any(Option::is_some))
        };
        let rows = self.runs.systems.iter().zip(&self.pair.ratios);
        rows.filter(move |(system, _)| self.both().iter().all(|at| ran(system, *at)))
            .map(|(system, ratios)| (system, ratios.map(Result::ok)))
    }

    /// What a program took on a system.
    pub fn took(self, system: &System, at: usize, measure: Measure) -> Option<f64> {
        system.took.get(at)?[measure as usize]
    }

    /// What a program took, on all systems.
    pub fn times(self, at: usize, measure: Measure) -> impl Iterator<Item = f64> {
        self.rows()
            .filter_map(move |(system, _)| self.took(system, at, measure))
    }

    /// The ratios of one measure.
    pub fn ratios(self, measure: Measure) -> impl Iterator<Item = f64> {
        self.rows()
            .filter_map(move |(_, ratios)| ratios[measure as usize])
    }

    /// The ratios of one measure that were printed, if there are two programs and it is clear whose
    /// they are: those of the first against the second.
    pub fn printed(self, measure: Measure) -> impl Iterator<Item = f64> {
        let is_clear = self.runs.names.len() == 2 && self.pair.of < self.pair.to;
        self.rows()
            .filter(move |_| is_clear)
            .filter_map(move |(system, _)| system.printed[measure as usize])
    }

    /// What was measured of both on any system.
    pub fn measures(self) -> impl Iterator<Item = Measure> {
        Measure::ALL.into_iter().filter(move |&measure| {
            let is_measured = |system, at: &usize| self.took(system, *at, measure).is_some();
            self.rows()
                .any(|(system, _)| self.both().iter().all(|at| is_measured(system, at)))
        })
    }

    /// The shortest time that is not 0, in seconds; infinite when there is none.
    pub fn shortest(self) -> f64 {
        self.rows()
            .flat_map(|(system, _)| self.both().map(|at| system.took.get(at)))
            .flatten()
            .flat_map(|took| {
                let is_time = |measure: &Measure| *measure != Measure::Calls;
                let times = Measure::ALL.into_iter().filter(is_time);
                times.filter_map(|measure| took[measure as usize])
            })
            .filter(|time| *time > 0.0)
            .fold(f64::INFINITY, f64::min)
    }

    /// The systems without a ratio because one of the two is 0.
    pub fn too_short(self, measure: Measure) -> impl Iterator<Item = &'a System> {
        let rows = self.runs.systems.iter().zip(&self.pair.ratios);
        rows.filter(move |(_, ratios)| ratios[measure as usize] == Err(NoRatio::TooShort))
            .map(|(system, _)| system)
    }
}

impl Kind {
    /// The subcommand of fathom that printed the runs; `None` for comma-separated values.
    pub fn command(self) -> Option<&'static str> {
        (self != Kind::Csv).then(|| self.name())
    }
}
