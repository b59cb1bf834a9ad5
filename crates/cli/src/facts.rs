//! What a command finds, for monitoring.

use gate::sync::Mutex;
use serde_json::Value;

/// A value that was measured: a gauge.
pub(crate) struct Fact {
    /// The name of the metric without `fathom_COMMAND_`; its unit is its last word.
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    /// What tells it from others of the same name.
    pub(crate) labels: Vec<(&'static str, String)>,
    pub(crate) value: Value,
}

/// What a run has found.
#[derive(Default)]
pub(crate) struct Facts(Mutex<Vec<Fact>>);

impl Facts {
    /// Takes all of them.
    pub(crate) fn take(&self) -> Vec<Fact> {
        std::mem::take(&mut *self.0.lock())
    }

    /// Adds a value.
    pub(crate) fn add(&self, name: &'static str, help: &'static str, value: impl Into<Value>) {
        self.add_with(name, help, Vec::new(), value);
    }

    /// Adds one of several values of a name.
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
