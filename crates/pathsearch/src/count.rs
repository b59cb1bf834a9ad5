//! Counting look-ups by kind.

use std::ops::AddAssign;

use crate::kind::Kind;

/// Look-ups of one kind.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Count {
    /// Look-ups that did not end in ENOENT or ENOTDIR.
    pub hits: u64,
    /// Look-ups that did.
    pub misses: u64,
}

impl Count {
    /// Counts one look-up.
    pub fn add(&mut self, is_hit: bool) {
        if is_hit {
            self.hits += 1;
        } else {
            self.misses += 1;
        }
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Count) {
        self.hits += other.hits;
        self.misses += other.misses;
    }
}

/// The look-ups of each kind.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct KindCounts([Count; Kind::ALL.len()]);

impl KindCounts {
    /// The look-ups of one kind.
    pub fn get(&self, kind: Kind) -> Count {
        self.0[kind as usize]
    }

    /// The look-ups of one kind, to count more.
    pub fn get_mut(&mut self, kind: Kind) -> &mut Count {
        &mut self.0[kind as usize]
    }

    /// The kinds that have any look-ups.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, Count)> {
        Kind::ALL
            .into_iter()
            .zip(self.0)
            .filter(|(_, count)| *count != Count::default())
    }

    /// All kinds together.
    pub fn total(&self) -> Count {
        let mut total = Count::default();
        self.0.iter().for_each(|count| total += *count);
        total
    }
}

impl AddAssign for KindCounts {
    fn add_assign(&mut self, other: KindCounts) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}
