//! What has changed from one survey to another: a report on an upgrade of the kernel, or of the
//! storage.
//!
//! It is made of the two JSON documents, which may be of different versions, and of anybody's
//! making: what one of them lacks is not compared, and nothing in them is believed to be of a
//! certain form.
//!
//! **Times** are compared where each survey has several trials of the same thing. They count as
//! changed only if all those of one survey lie outside of all those of the other (for prices of
//! calls: the middle half of each), and the middle ones are a tenth apart as well; a time of a tree
//! is taken for each entry of it. **Counts** have no noise, and count as changed when they are; but
//! if the tree has other entries than before, calls for each entry must be a hundredth apart.
//!
//! | file | what is in it |
//! |---|---|
//! | `document` | the two documents, and what both have |
//! | `sections` | what is compared in each section |
//! | `text` | the changes, for people |

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use self::document::{Both, Spread, name, survey};
use show::name::entry;

mod document;
mod sections;
#[cfg(test)]
mod tests;
mod text;

/// How far apart the middle ones of two times must be.
const APART: f64 = 1.1;

/// What a change means.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// It costs more, or is gone, or no longer does what it did.
    Worse,
    /// It costs less, or does what it did not.
    Better,
    /// It is otherwise than it was.
    Other,
    /// A time that differs by no more than its trials do.
    Noise,
}

impl Verdict {
    /// Its name in tables and in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Worse => "worse",
            Verdict::Better => "better",
            Verdict::Other => "other",
            Verdict::Noise => "noise",
        }
    }
}

/// Something that has changed.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// The section of the survey.
    pub section: &'static str,
    /// What it is about, if that has a name: a mount, a directory.
    pub path: Option<Vec<u8>>,
    /// What has changed.
    pub what: String,
    /// What it was; null for nothing.
    pub old: Value,
    /// What it is.
    pub new: Value,
    /// What it is counted in: `s`, `ns`, `bytes`, `calls`; empty for what is not counted.
    pub unit: &'static str,
    /// How many times as much it is.
    pub ratio: Option<f64>,
    /// What that means.
    pub verdict: Verdict,
}

impl Change {
    /// Of what has no name, and is not counted.
    fn of(
        section: &'static str,
        what: impl Into<String>,
        [old, new]: [Value; 2],
        verdict: Verdict,
    ) -> Change {
        Change {
            section,
            path: None,
            what: what.into(),
            old,
            new,
            unit: "",
            ratio: None,
            verdict,
        }
    }
}

impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("section", self.section)?;
        entry(&mut map, "path", self.path.as_deref())?;
        map.serialize_entry("what", &self.what)?;
        map.serialize_entry("old", &self.old)?;
        map.serialize_entry("new", &self.new)?;
        map.serialize_entry("unit", self.unit)?;
        map.serialize_entry("ratio", &self.ratio)?;
        map.serialize_entry("verdict", self.verdict.name())?;
        map.end()
    }
}

/// A section that could not be compared.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Uncompared {
    /// Its name in the survey.
    pub section: &'static str,
    /// Why not.
    pub why: String,
}

/// What has changed.
#[derive(Clone, Debug)]
pub struct Diff {
    /// All that has, what got worse first; and at last times that differ by no more than noise.
    pub changes: Vec<Change>,
    /// What could not be compared.
    pub uncompared: Vec<Uncompared>,
    /// Figures and facts that were compared.
    pub compared: u64,
}

impl Serialize for Diff {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for verdict in [
            Verdict::Worse,
            Verdict::Better,
            Verdict::Other,
            Verdict::Noise,
        ] {
            map.serialize_entry(verdict.name(), &self.of(verdict).count())?;
        }
        map.serialize_entry("compared", &self.compared)?;
        map.serialize_entry("changes", &self.changes)?;
        map.serialize_entry("uncompared", &self.uncompared)?;
        map.end()
    }
}

/// Compares two surveys.
///
/// # Errors
/// Which of them, 0 or 1, is no survey, and what it is instead.
pub fn diff(old: &Value, new: &Value) -> Result<Diff, (usize, String)> {
    let both = Both {
        old: survey(old).map_err(|why| (0, why))?,
        new: survey(new).map_err(|why| (1, why))?,
    };
    let mut report = Report::default();
    report.machine(both.of("machine"));
    let is_same_tree = name(both.old, "root") == name(both.new, "root");
    if is_same_tree {
        report.mounts(&both);
        report.methods(both.of("mounts").of("compare"));
        report.file_systems(&both);
        report.walk(both.of("walk"));
        report.dump(both.of("dump"));
    } else {
        let why = || "the surveys are of different directories".to_owned();
        for section in ["mounts", "probe", "walk", "dump"] {
            report.uncompared.push(Uncompared {
                section,
                why: why(),
            });
        }
        report.note(
            "machine",
            "the directory surveyed",
            "",
            both.of("root"),
            Verdict::Other,
        );
    }
    report.prices(both.of("gates"));
    report.startup(both.of("startup"));
    let Report {
        mut changes,
        mut uncompared,
        compared,
    } = report;
    changes.sort_by_key(|change| change.verdict);
    uncompared.dedup();
    Ok(Diff {
        changes,
        uncompared,
        compared,
    })
}

#[derive(Default)]
struct Report {
    changes: Vec<Change>,
    uncompared: Vec<Uncompared>,
    compared: u64,
}

impl Report {
    /// A fact that should be as it was.
    fn note(
        &mut self,
        section: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        both: Both<'_>,
        verdict: Verdict,
    ) {
        self.compared += 1;
        if both.old != both.new {
            self.changes.push(Change {
                unit,
                ..Change::of(section, what, both.values(), verdict)
            });
        }
    }

    /// Whether both have a section; else why not.
    fn has(&mut self, section: &'static str, both: Both<'_>) -> bool {
        let lacks = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        let why = match (lacks(both.old), lacks(both.new)) {
            (false, false) => return true,
            (true, true) => "neither survey has it",
            (true, false) => "the old survey has it not",
            (false, true) => "the new survey has it not",
        };
        self.uncompared.push(Uncompared {
            section,
            why: why.to_owned(),
        });
        false
    }

    /// A time: more is worse, beyond the noise of its trials.
    fn timed(
        &mut self,
        section: &'static str,
        what: String,
        unit: &'static str,
        old: Spread,
        new: Spread,
    ) {
        self.compared += 1;
        let ratio = ratio(old.middle, new.middle).unwrap_or(1.0);
        let verdict = match ratio {
            r if r > APART && new.low > old.high => Verdict::Worse,
            r if r < 1.0 / APART && new.high < old.low => Verdict::Better,
            1.0 => return,
            _ => Verdict::Noise,
        };
        let values = [old.middle.into(), new.middle.into()];
        self.changes.push(Change {
            unit,
            ratio: Some(ratio),
            ..Change::of(section, what, values, verdict)
        });
    }

    /// A count of calls, of which more is worse.
    fn counted(&mut self, section: &'static str, what: String, old: f64, new: f64, apart: f64) {
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
        let values = [old.into(), new.into()];
        self.changes.push(Change {
            unit: "calls",
            ratio,
            ..Change::of(section, what, values, verdict)
        });
    }
}

/// How many times as much it is, where there was something.
fn ratio(old: f64, new: f64) -> Option<f64> {
    Some(new / old).filter(|ratio| old > 0.0 && ratio.is_finite())
}

impl Diff {
    /// The changes of one kind.
    pub fn of(&self, verdict: Verdict) -> impl Iterator<Item = &Change> {
        self.changes
            .iter()
            .filter(move |change| change.verdict == verdict)
    }
}
