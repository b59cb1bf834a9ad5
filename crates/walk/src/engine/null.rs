//! An engine that finds nothing: what is left is the cost of everything around the engines.

use super::{Engine, MountContext, Refusal};
use crate::job::Job;

/// Finds nothing.
#[derive(Clone, Copy, Debug)]
pub struct Null;

impl Engine for Null {
    fn name(&self) -> &'static str {
        "null"
    }

    fn possible(&self, _: &MountContext<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    fn walk(&self, _: &Job<'_>) -> Result<(), Refusal> {
        Ok(())
    }
}
