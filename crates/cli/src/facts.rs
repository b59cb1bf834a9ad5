//! Metrics that commands record, for `--report` and `--metrics`.

use gate::sync::Mutex;
use serde_json::Value;

/// The help of each metric. The last word of a name is its unit.
const METRICS: &str = "\
exit_status: Exit status of the last run: 0 done, 1 with warnings, 2 not done
warnings: Warnings of the last run
duration_seconds: Duration of the last run
start_timestamp_seconds: When the last run began
entries: Entries that the last dump has found
dumped_entries: Entries that the last dump has written
dumped_bytes: Size of the files that the last dump has written
archive_bytes: Size of the archive of the last dump
level: Level of the last dump: 0 for a full one
removed_dumps: Dumps that were removed after the last one
state_dumps: Recorded dumps in the state directory
state_bytes: Size of the archives of the state directory
last_dump_timestamp_seconds: When the last recorded dump began
last_complete_dump_timestamp_seconds: When the last dump began in which everything was read
members: Members that the last verification has read
damaged_places: Places where archives are damaged
unrestorable_dumps: Recorded dumps that cannot be restored
mount_points: Mount points that were found
mount_ok: Whether a mount answers
mount_verdict: The verdict on a mount, as a label
size_bytes: Size of the file system
used_bytes: Space that is used
available_bytes: Space that users can use
inodes: Inodes of the file system
inodes_used: Inodes that are used
used_ratio: Used percentage as df reports it, divided by 100
unaccounted_bytes: Used space that is not accounted for
item_bytes: Space by what it is used for";

/// A metric with its value: a gauge of OpenMetrics.
pub(crate) struct Fact {
    /// The name of the metric in [`METRICS`], without `fathom_COMMAND_`.
    pub(crate) name: &'static str,
    /// Labels that distinguish metrics of the same name.
    pub(crate) labels: Vec<(&'static str, String)>,
    pub(crate) value: Value,
}

impl Fact {
    pub(crate) fn help(&self) -> &'static str {
        let mut rows = METRICS.lines().filter_map(|row| row.split_once(": "));
        let row = rows.find(|(name, _)| *name == self.name);
        debug_assert!(row.is_some(), "{} is not in METRICS", self.name);
        row.map_or("", |(_, help)| help)
    }
}

/// The metrics of a run.
#[derive(Default)]
pub(crate) struct Facts(Mutex<Vec<Fact>>);

impl Facts {
    /// Removes and returns all metrics.
    pub(crate) fn take(&self) -> Vec<Fact> {
        std::mem::take(&mut *self.0.lock())
    }

    /// Adds a metric without labels.
    pub(crate) fn add(&self, name: &'static str, value: impl Into<Value>) {
        self.add_with(name, Vec::new(), value);
    }

    /// Adds a metric with labels.
    pub(crate) fn add_with(
        &self,
        name: &'static str,
        labels: Vec<(&'static str, String)>,
        value: impl Into<Value>,
    ) {
        self.0.lock().push(Fact {
            name,
            labels,
            value: value.into(),
        });
    }
}
