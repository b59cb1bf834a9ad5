//! What differs between two saved surveys: the effect of an upgrade of the kernel or the storage.
//!
//! **Times** are compared where both surveys have several trials of the same measurement. A time
//! has changed only if all trials of one survey lie outside of all trials of the other (for prices
//! of calls: their interquartile ranges do not overlap), and the medians differ by at least 10 %.
//! The time of a walk is taken per entry. **Counts** have no noise: every difference counts; where
//! the tree has another number of entries, calls per entry must differ by at least 1 %.
//!
//! | module | contents |
//! |---|---|
//! | [`change`] | a change: its subject, both values, its verdict |
//! | `pair` | elements of two lists that belong together |
//! | `compare` | the rules above |
//! | `sections` | what is compared in each section |

use crate::saved::SavedSurvey;
use crate::section::Section;

pub mod change;
mod compare;
mod pair;
mod sections;

pub use change::{
    Change, Fact, MachineFact, MountFact, Subject, Uncompared, Unit, Verdict, WhyUncompared,
};

use self::change::Values;
use self::compare::Comparison;

/// What differs between two surveys.
#[derive(Clone, Debug)]
pub struct Diff {
    /// The changes, the worst verdict first.
    pub changes: Vec<Change>,
    /// Sections that could not be compared.
    pub uncompared: Vec<Uncompared>,
    /// The number of figures and facts that were compared.
    pub compared: u64,
}

impl Diff {
    /// Compares an old survey with a new one.
    pub fn new(old: &SavedSurvey, new: &SavedSurvey) -> Diff {
        let mut comparison = Comparison::default();
        comparison.machine(&old.machine, &new.machine);
        if old.root_path() == new.root_path() {
            comparison.mounts(&old.mounts, &new.mounts);
            comparison.file_systems(&old.probe, &new.probe);
            comparison.walk(&old.walk, &new.walk);
            comparison.dump(&old.dump, &new.dump);
        } else {
            for section in [
                Section::Mounts,
                Section::Probe,
                Section::Walk,
                Section::Dump,
            ] {
                comparison.cannot(section, WhyUncompared::DifferentDirectories);
            }
            let roots = Values::of_text(&old.root, &new.root);
            comparison.fact(Subject::Machine(MachineFact::Directory), roots);
        }
        comparison.prices(&old.gates, &new.gates);
        comparison.startup(&old.startup, &new.startup);
        comparison.finish()
    }

    /// The changes with a verdict.
    pub fn with(&self, verdict: Verdict) -> impl Iterator<Item = &Change> {
        self.changes
            .iter()
            .filter(move |change| change.verdict == verdict)
    }
}
