//! Space and inodes of a file system, and the percentages of df(1).

use gate::fs::Statfs;

/// Space and inodes of a file system, as reported by statfs(2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Capacity {
    /// The total space in bytes.
    pub size: u64,
    /// The used space in bytes.
    pub used: u64,
    /// The free space in bytes that unprivileged users may use.
    pub available: u64,
    /// The total number of inodes; 0 if the file system has no fixed number.
    pub inodes: u64,
    /// Number of used inodes.
    pub inodes_used: u64,
}

impl Capacity {
    /// The percentage of used space or inodes from which a file system is nearly full.
    pub const NEARLY_FULL: f64 = 90.0;

    /// The capacity that statfs(2) reports.
    pub fn from_statfs(statfs: &Statfs) -> Capacity {
        Capacity {
            size: statfs.size,
            used: statfs.size.saturating_sub(statfs.free),
            available: statfs.available,
            inodes: statfs.files,
            inodes_used: statfs.files.saturating_sub(statfs.files_free),
        }
    }

    /// The used percentage of the space, without the reserve for root.
    pub fn percent(&self) -> Option<f64> {
        percent(self.used, self.used.saturating_add(self.available))
    }

    /// The used percentage of the inodes.
    pub fn inodes_percent(&self) -> Option<f64> {
        percent(self.inodes_used, self.inodes)
    }

    /// The used percentage of the space as df(1) prints it (`Use%`): rounded up, so that free space
    /// is never overstated.
    pub fn df_percent(&self) -> Option<u64> {
        df_percent(self.used, self.used.saturating_add(self.available))
    }

    /// The used percentage of the inodes as `df -i` prints it (`IUse%`).
    pub fn inodes_df_percent(&self) -> Option<u64> {
        df_percent(self.inodes_used, self.inodes)
    }

    /// Whether no inodes are left, even if space is available.
    pub fn lacks_inodes(&self) -> bool {
        self.inodes > 0 && self.inodes_used >= self.inodes
    }

    /// Whether users have no space or no inodes left.
    pub fn is_full(&self) -> bool {
        self.lacks_inodes() || self.used > 0 && self.available == 0
    }
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

fn df_percent(part: u64, whole: u64) -> Option<u64> {
    let percent = (u128::from(part) * 100).div_ceil(u128::from(whole.max(1)));
    (whole > 0).then_some(u64::try_from(percent).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded_up_without_the_reserve() {
        let of = |used, available| {
            Capacity {
                size: 1000,
                used,
                available,
                ..Capacity::default()
            }
            .df_percent()
        };
        assert_eq!(of(0, 0), None);
        assert_eq!(of(0, 7), Some(0));
        assert_eq!(of(1, 999), Some(1));
        assert_eq!(of(740, 260), Some(74));
        assert_eq!(of(741, 259), Some(75));
        // All free space is reserved for root.
        assert_eq!(of(970, 0), Some(100));
        assert_eq!(of(u64::MAX, u64::MAX), Some(100));
        let inodes = |inodes, inodes_used| Capacity {
            inodes,
            inodes_used,
            ..Capacity::default()
        };
        assert_eq!(inodes(0, 0).inodes_df_percent(), None);
        assert_eq!(inodes(72, 72).inodes_df_percent(), Some(100));
        assert_eq!(inodes(72, 1).inodes_df_percent(), Some(2));
        assert!(inodes(72, 72).is_full() && !inodes(72, 71).is_full());
    }
}
