//! The output of `fathom query --diff`.

use catalog::changed::{Change, Changes};
use show::json_object;
use show::units::duration;
use walk::group::Growth;

use crate::cmd::changed::show::counts;
use crate::cmd::groups::NamedGroups;
use crate::json::Json;

/// What changed between two catalogs: entries, or totals of groups.
pub(super) struct Difference<'a> {
    pub(super) changes: Option<&'a Changes>,
    pub(super) groups: Option<NamedGroups<'a, Growth>>,
    pub(super) seconds: f64,
}

json_object!(Difference<'_>, |difference| {
    "unchanged": difference.is_unchanged(),
    "added": difference.count(Change::Added),
    "changed": difference.count(Change::Changed),
    "removed": difference.count(Change::Removed),
    "renamed": difference.count(Change::Renamed),
    "entries": difference.changes.map(Json),
    "groups": difference.groups,
    "seconds": difference.seconds,
});

impl Difference<'_> {
    fn is_unchanged(&self) -> bool {
        self.changes.is_none_or(Changes::is_empty)
            && self.groups.is_none_or(|groups| groups.groups.is_empty())
    }

    fn count(&self, change: Change) -> Option<usize> {
        self.changes.map(|changes| changes.count(change))
    }
}

pub(super) fn summary(changes: &Changes, seconds: f64) -> String {
    format!("{}; found in {}", counts(changes), duration(seconds))
}
