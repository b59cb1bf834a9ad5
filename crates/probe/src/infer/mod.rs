//! Inference from samples: pure functions that return nothing rather than guess.

pub(crate) mod comb;
pub(crate) mod fold;
pub(crate) mod knee;
pub(crate) mod peaks;
pub(crate) mod robust;
pub(crate) mod series;
pub(crate) mod windows;

#[cfg(test)]
mod tests;
