//! Metrics that commands record, for `--report` and `--metrics`.

use gate::sync::Mutex;
use serde_json::Value;

/// A metric with its value: a gauge of OpenMetrics.
pub(crate) struct Fact {
    /// The name of the metric without `fathom_COMMAND_`; its unit is its last word.
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    /// Labels that distinguish metrics of the same name.
    pub(crate) labels: Vec<(&'static str, String)>,
    pub(crate) value: Value,
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
    pub(crate) fn add(&self, name: &'static str, help: &'static str, value: impl Into<Value>) {
        self.add_with(name, help, Vec::new(), value);
    }

    /// Adds a metric with labels.
    pub(crate) fn add_with(
        &self,
        name: &'static str,
        help: &'static str,
        labels: Vec<(&'static str, String)>,
        value: impl Into<Value>,
    ) {
        self.0.lock().push(Fact {
            name,
            help,
            labels,
            value: value.into(),
        });
    }
}
