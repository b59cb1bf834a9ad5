//! Derives findings and advice from the measurements of a survey.

use std::cmp::Reverse;

use crate::conclusion::Conclusion;
use crate::survey::Survey;

mod activities;
mod advice;
mod costs;
mod findings;

pub use activities::{activity_costs, useful_fixes};

/// Adds the findings and the advice, the most important first.
pub fn conclude(mut survey: Survey<'_>) -> Survey<'_> {
    survey.findings = most_important(findings::all(&survey));
    survey.advice = most_important(advice::all(&survey));
    survey
}

fn most_important(mut conclusions: Vec<Conclusion<'_>>) -> Vec<Conclusion<'_>> {
    const KEPT: usize = 5;
    // The sort is stable, so conclusions of equal weight keep their order.
    conclusions.sort_by_key(|conclusion| Reverse(conclusion.weight));
    conclusions.truncate(KEPT);
    conclusions
}
