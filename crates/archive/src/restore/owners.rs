//! The numbers of users and groups, by their names in /etc/passwd and /etc/group.

use std::collections::HashMap;

use crate::passwd;

/// Numbers by name.
#[derive(Debug, Default)]
pub struct Owners {
    users: HashMap<Vec<u8>, u32>,
    groups: HashMap<Vec<u8>, u32>,
}

impl Owners {
    /// Reads both files. One that cannot be read has no names.
    pub fn read() -> Owners {
        /// Names beyond this many are unknown.
        const MOST: u64 = 4 << 20;
        Owners {
            users: numbers(passwd::users(MOST)),
            groups: numbers(passwd::groups(MOST)),
        }
    }

    /// The number of a user.
    pub fn user(&self, name: &[u8]) -> Option<u32> {
        self.users.get(name).copied()
    }

    /// The number of a group.
    pub fn group(&self, name: &[u8]) -> Option<u32> {
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
    fn the_first_of_several_lines_with_a_name_is_used() {
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
