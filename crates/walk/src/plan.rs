//! Which engine, and why.

use crate::engine::{By, Ground, Refusal};

/// The engine chosen for a place.
#[derive(Clone, Debug)]
pub struct Plan {
    /// It.
    pub by: By,
    /// Why it and not another.
    pub why: String,
    /// For each engine, why it cannot work there, or that it can.
    pub engines: Vec<(By, Result<(), Refusal>)>,
}

/// Chooses.
pub fn plan(ground: &Ground<'_>) -> Plan {
    let engines: Vec<_> = By::ALL.into_iter().map(|by| (by, by.engine().possible(ground))).collect();
    Plan { by: By::Stat, why: "it is the only one".to_owned(), engines }
}
