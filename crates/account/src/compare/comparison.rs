//! Compares programs with a base program, on the systems where both ran.

use super::runs::{Measure, MeasureValues, NoRatio, Ratios, Runs, System, ratio};

/// Runs of several programs on several systems, and the base program of the comparison.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'a> {
    /// The runs of all programs.
    pub runs: &'a Runs,
    /// The index of the base program in [`Runs::names`].
    pub base: usize,
}

impl<'a> Comparison<'a> {
    /// The pairs of programs to compare: each program except the base program, with the base
    /// program.
    pub fn pairs(&self) -> impl Iterator<Item = Pair<'a>> + use<'a> {
        let Comparison { runs, base: to } = *self;
        let others = (0..runs.names.len()).filter(move |of| *of != to);
        others.map(move |of| Pair { runs, of, to })
    }
}

/// The 97.5 % quantile of Student's t distribution with `freedom` degrees of freedom. If the table
/// has no entry for `freedom`, the quantile of the next smaller entry, which is a little larger.
fn student(freedom: usize) -> Option<f64> {
    const FIRST: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    match freedom {
        0 => None,
        31..=39 => FIRST.last().copied(),
        40..=59 => Some(2.021),
        60..=119 => Some(2.000),
        120.. => Some(1.980),
        few => FIRST.get(few - 1).copied(),
    }
}

/// Two programs whose ratio is computed.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// The runs of all programs.
    pub runs: &'a Runs,
    /// The index of the numerator's program in [`Runs::names`].
    pub of: usize,
    /// The index of the denominator's program in [`Runs::names`].
    pub to: usize,
}

impl<'a> Pair<'a> {
    /// The indexes of the numerator's and the denominator's program in [`Runs::names`].
    pub fn both(self) -> [usize; 2] {
        [self.of, self.to]
    }

    /// The name of the program with this index.
    pub fn name(self, at: usize) -> &'a str {
        self.runs.names.get(at).map_or("", |name| name)
    }

    /// All systems, each with the ratios of the two programs on it.
    pub fn all_ratios(self) -> impl Iterator<Item = (&'a System, Ratios)> {
        self.runs.systems.iter().map(move |system| {
            let [of, to] = self.both().map(|at| system.took_by(at));
            let ratios = std::array::from_fn(|measure| ratio(of[measure], to[measure]));
            (system, ratios)
        })
    }

    /// The systems on which both programs ran, with their ratios.
    pub fn rows(self) -> impl Iterator<Item = (&'a System, MeasureValues)> {
        let ran = |system: &System, at: usize| system.took_by(at).iter().any(Option::is_some);
        let rows = self.all_ratios();
        rows.filter(move |(system, _)| self.both().iter().all(|at| ran(system, *at)))
            .map(|(system, ratios)| (system, ratios.map(Result::ok)))
    }

    /// A program's values of one measure on all systems.
    pub fn times(self, at: usize, measure: Measure) -> impl Iterator<Item = f64> {
        self.rows()
            .filter_map(move |(system, _)| system.took_by(at)[measure as usize])
    }

    /// The ratios of one measure, on all systems that have a ratio of this measure.
    pub fn ratios(self, measure: Measure) -> impl Iterator<Item = f64> {
        self.rows()
            .filter_map(move |(_, ratios)| ratios[measure as usize])
    }

    /// The 95 % confidence interval of the mean ratio, by Student's t distribution; `None` for
    /// fewer than two ratios.
    pub fn interval(self, measure: Measure) -> Option<[f64; 2]> {
        let ratios: Vec<f64> = self.ratios(measure).collect();
        let count = ratios.len() as f64;
        let mean = ratios.iter().sum::<f64>() / count;
        let squares = ratios.iter().map(|ratio| (ratio - mean).powi(2));
        let deviation = (squares.sum::<f64>() / (count - 1.0)).sqrt();
        let half = student(ratios.len().checked_sub(1)?)? * deviation / count.sqrt();
        Some([mean - half, mean + half])
    }

    /// The ratios of one measure that the file itself contains. Empty unless the file has exactly
    /// two programs and the pair is the first to the second: otherwise it is unclear which two
    /// programs a printed ratio compares.
    pub fn printed(self, measure: Measure) -> impl Iterator<Item = f64> {
        let is_clear = self.runs.names.len() == 2 && self.of < self.to;
        self.rows()
            .filter(move |_| is_clear)
            .filter_map(move |(system, _)| system.printed[measure as usize])
    }

    /// The measures for which both programs have a value on at least one system.
    pub fn measures(self) -> impl Iterator<Item = Measure> {
        Measure::ALL.into_iter().filter(move |&measure| {
            let is_measured = |system: &System, at| system.took_by(at)[measure as usize].is_some();
            self.rows()
                .any(|(system, _)| self.both().iter().all(|at| is_measured(system, *at)))
        })
    }

    /// The shortest nonzero time of either program on any system, in seconds; infinity if there is
    /// no nonzero time.
    pub fn shortest(self) -> f64 {
        let took = self
            .rows()
            .flat_map(|(system, _)| self.both().map(|at| system.took_by(at)));
        let times = took.flat_map(|[times @ .., _calls]| times).flatten();
        times
            .filter(|time| *time > 0.0)
            .fold(f64::INFINITY, f64::min)
    }

    /// The systems without a ratio of this measure because the value of at least one program is 0.
    pub fn too_short(self, measure: Measure) -> impl Iterator<Item = &'a System> {
        let is_short = move |ratios: &Ratios| ratios[measure as usize] == Err(NoRatio::TooShort);
        let rows = self
            .all_ratios()
            .filter(move |(_, ratios)| is_short(ratios));
        rows.map(|(system, _)| system)
    }
}

#[cfg(test)]
mod tests {
    use super::super::runs::CSV;
    use super::*;

    fn runs(ratios: &[f64]) -> Runs {
        let system = |ratio: &f64| System {
            took: vec![
                [Some(*ratio), None, None, None],
                [Some(1.0), None, None, None],
            ],
            ..System::default()
        };
        Runs {
            names: vec!["a".to_owned(), "b".to_owned()],
            systems: ratios.iter().map(system).collect(),
            ..Runs::new(CSV)
        }
    }

    #[test]
    fn interval_of_the_mean_is_that_of_students_t() {
        let interval = |ratios: &[f64]| {
            let runs = runs(ratios);
            let pair = Pair {
                runs: &runs,
                of: 0,
                to: 1,
            };
            pair.interval(Measure::Real)
        };
        assert_eq!((interval(&[]), interval(&[2.0])), (None, None));
        // SciPy gives the expected interval: scipy.stats.t.interval(0.95, 4, 3, sem), with mean 3
        // and standard deviation sqrt(2.5).
        let [low, high] = interval(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!(
            (low - 1.0367).abs() < 1e-3 && (high - 4.9633).abs() < 1e-3,
            "{low} {high}"
        );
        assert_eq!(interval(&[2.0, 2.0]), Some([2.0, 2.0]));
    }
}
