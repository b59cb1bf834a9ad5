//! Who is who here: the numbers of users and groups, by their names in /etc/passwd and /etc/group.

use std::collections::HashMap;

use crate::passwd;

/// Numbers by names.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    users: HashMap<Vec<u8>, u32>,
    groups: HashMap<Vec<u8>, u32>,
}

impl Owners {
    /// Reads both files; one that cannot be read knows nobody.
    pub(crate) fn read() -> Owners {
        /// More users than this go by number.
        const MOST: u64 = 4 << 20;
        Owners {
            users: numbers(passwd::users(MOST)),
            groups: numbers(passwd::groups(MOST)),
        }
    }

    /// The number of a user whose name is known here.
    pub(crate) fn user(&self, name: &[u8]) -> Option<u32> {
        self.users.get(name).copied()
    }

    /// The number of a group whose name is known here.
    pub(crate) fn group(&self, name: &[u8]) -> Option<u32> {
        self.groups.get(name).copied()
    }
}

/// Of several lines with a name, the first counts.
fn numbers(entries: Vec<(Vec<u8>, u32)>) -> HashMap<Vec<u8>, u32> {
    entries.into_iter().rev().collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_first_line_of_a_name_counts() {
        let numbers = super::numbers(vec![
            (b"root".to_vec(), 0),
            (b"me".to_vec(), 1000),
            (b"me".to_vec(), 7),
        ]);
        assert_eq!(
            (
                numbers.get(&b"root"[..]),
                numbers.get(&b"me"[..]),
                numbers.len()
            ),
            (Some(&0), Some(&1000), 2)
        );
    }
}
