//! Order-independent sums over rows.

use serde::{Deserialize, Serialize};
use walk::Digest;

/// Sums that tell whether some rows are the same in two walks, modulo powers of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "([u64; 2], u64)", into = "([u64; 2], u64)")]
pub struct Sums {
    /// The digest over the rows.
    pub digest: Digest,
    /// The sum over a hash of each row's name, and of the paths and metadata of its directory and
    /// all ancestors.
    pub above: u64,
}

impl From<([u64; 2], u64)> for Sums {
    fn from((digest, above): ([u64; 2], u64)) -> Sums {
        let digest = Digest::from_halves(digest);
        Sums { digest, above }
    }
}

impl From<Sums> for ([u64; 2], u64) {
    fn from(sums: Sums) -> ([u64; 2], u64) {
        (sums.digest.halves(), sums.above)
    }
}

impl Sums {
    /// Adds the sums of other rows.
    pub fn merge(&mut self, other: &Sums) {
        self.digest.merge(other.digest);
        self.above = self.above.wrapping_add(other.above);
    }
}
