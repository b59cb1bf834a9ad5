//! Draws findings and advice from what a survey gathered.

use std::cmp::Reverse;

use crate::conclusion::Conclusion;
use crate::survey::Survey;

mod activities;
mod advice;
mod costs;
mod findings;

pub use activities::{activity_costs, useful_fixes};

/// Draws the findings and the advice, the most important first.
pub fn conclude(mut survey: Survey<'_>) -> Survey<'_> {
    survey.findings = most_important(findings::all(&survey));
    survey.advice = most_important(advice::all(&survey));
    survey
}

fn most_important(mut conclusions: Vec<Conclusion<'_>>) -> Vec<Conclusion<'_>> {
    const KEPT: usize = 5;
    // The sort is stable: among equals the first stays first.
    conclusions.sort_by_key(|conclusion| Reverse(conclusion.weight));
    conclusions.truncate(KEPT);
    conclusions
}
