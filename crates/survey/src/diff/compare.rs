//! When two values count as changed.

use crate::saved::{Price, Trials};
use crate::section::Section;

use super::Diff;
use super::change::{Change, Fact, Subject, Uncompared, Values, Verdict, WhyUncompared};

/// By this factor medians of times must differ.
const TIMES_APART: f64 = 1.1;

/// The changes found so far.
#[derive(Default)]
pub(super) struct Comparison {
    changes: Vec<Change>,
    uncompared: Vec<Uncompared>,
    pub(super) compared: u64,
}

impl Comparison {
    pub(super) fn finish(mut self) -> Diff {
        self.changes.sort_by_key(|change| change.verdict);
        self.uncompared.dedup();
        Diff {
            changes: self.changes,
            uncompared: self.uncompared,
            compared: self.compared,
        }
    }

    /// Enters a section that cannot be compared.
    pub(super) fn cannot(&mut self, section: Section, why: WhyUncompared) {
        self.uncompared.push(Uncompared { section, why });
    }

    /// Whether both surveys have a section; if not, it is entered as uncompared.
    pub(super) fn have(&mut self, section: Section, old: bool, new: bool) -> bool {
        let why = match (old, new) {
            (true, true) => return true,
            (false, false) => WhyUncompared::InNeither,
            (true, false) => WhyUncompared::NotInNew,
            (false, true) => WhyUncompared::NotInOld,
        };
        self.cannot(section, why);
        false
    }

    /// A section that both surveys have.
    pub(super) fn both<'a, T>(
        &mut self,
        section: Section,
        old: &'a Option<T>,
        new: &'a Option<T>,
    ) -> Option<(&'a T, &'a T)> {
        self.have(section, old.is_some(), new.is_some());
        old.as_ref().zip(new.as_ref())
    }

    /// Enters a change.
    pub(super) fn push(&mut self, subject: Subject, values: Values, verdict: Verdict) {
        self.push_ratio(subject, values, None, verdict);
    }

    fn push_ratio(
        &mut self,
        subject: Subject,
        values: Values,
        ratio: Option<f64>,
        verdict: Verdict,
    ) {
        self.changes.push(Change {
            subject,
            old: values.old,
            new: values.new,
            ratio,
            verdict,
        });
    }

    /// Compares a fact; another value is neither better nor worse.
    pub(super) fn fact(&mut self, subject: Subject, values: Values) {
        self.compared += 1;
        if values.old != values.new {
            self.push(subject, values, Verdict::Other);
        }
    }

    /// Compares a time: more is worse, if it is beyond the noise of the trials.
    pub(super) fn time(&mut self, subject: Subject, old: Spread, new: Spread) {
        self.compared += 1;
        let ratio = ratio(old.middle, new.middle).unwrap_or(1.0);
        let verdict = match ratio {
            r if r > TIMES_APART && new.low > old.high => Verdict::Worse,
            r if r < 1.0 / TIMES_APART && new.high < old.low => Verdict::Better,
            1.0 => return,
            _ => Verdict::Noise,
        };
        let values = Values::of_figures(old.middle, new.middle);
        self.push_ratio(subject, values, Some(ratio), verdict);
    }

    /// Compares a count of calls, of which more is worse; they must differ by the factor `apart`.
    pub(super) fn count(&mut self, subject: Subject, old: f64, new: f64, apart: f64) {
        self.compared += 1;
        let ratio = ratio(old, new);
        if old == new || ratio.is_some_and(|ratio| ratio < apart && ratio > 1.0 / apart) {
            return;
        }
        let verdict = if new > old {
            Verdict::Worse
        } else {
            Verdict::Better
        };
        self.push_ratio(subject, Values::of_figures(old, new), ratio, verdict);
    }

    /// Compares a fact about a file system, where both surveys have it. Numbers must differ by 5 %:
    /// by less they differ from one run to the next.
    pub(super) fn property(&mut self, subject: Subject, values: Values) {
        const APART: f64 = 1.05;
        if !values.are_known() {
            return;
        }
        self.compared += 1;
        let figure = |fact: &Option<Fact>| match fact {
            Some(Fact::Number(number)) => number.as_f64(),
            _ => None,
        };
        let ratio = figure(&values.old)
            .zip(figure(&values.new))
            .and_then(|(old, new)| ratio(old, new));
        let is_near = ratio.is_some_and(|ratio| ratio < APART && ratio > 1.0 / APART);
        if values.old != values.new && !is_near {
            self.push_ratio(subject, values, ratio, Verdict::Other);
        }
    }
}

/// The new value divided by the old one, where that is not zero.
fn ratio(old: f64, new: f64) -> Option<f64> {
    Some(new / old).filter(|ratio| old > 0.0 && ratio.is_finite())
}

/// A time, and the range of its trials.
#[derive(Clone, Copy)]
pub(super) struct Spread {
    middle: f64,
    low: f64,
    high: f64,
}

impl Spread {
    fn new(middle: f64, low: f64, high: f64) -> Option<Spread> {
        let is_ordered = 0.0 <= low && low <= middle && middle <= high && high.is_finite();
        is_ordered.then_some(Spread { middle, low, high })
    }

    /// The median, the minimum and the maximum of trials.
    pub(super) fn from_trials(trials: &Option<Trials>) -> Option<Spread> {
        trials.and_then(|trials| Spread::new(trials.median, trials.min, trials.max))
    }

    /// The median and the interquartile range of a price.
    pub(super) fn from_price(price: &Price) -> Option<Spread> {
        Spread::new((*price.ns)?, (*price.low)?, (*price.high)?)
    }

    /// The time per entry.
    pub(super) fn per_entry(self, entries: f64) -> Spread {
        let entries = entries.max(1.0);
        Spread {
            middle: self.middle / entries,
            low: self.low / entries,
            high: self.high / entries,
        }
    }
}
