//! User and group ids, looked up by name in /etc/passwd and /etc/group.

use std::collections::HashMap;
use std::sync::OnceLock;

use ondisk::pax::Member;
use ondisk::pax::acl::AclNameKind;

use crate::passwd;

/// Ids by name. The files are read at the first lookup; an unreadable file counts as empty.
#[derive(Debug, Default)]
pub struct Owners {
    ids: OnceLock<[HashMap<Vec<u8>, u32>; 2]>,
    /// Whether an id in the archive takes precedence over the name (`--numeric-owner`).
    prefer_numbers: bool,
}

impl Owners {
    pub(crate) fn new(prefer_numbers: bool) -> Owners {
        Owners {
            ids: OnceLock::new(),
            prefer_numbers,
        }
    }

    /// The id of a user name.
    pub fn user(&self, name: &[u8]) -> Option<u32> {
        self.ids()[0].get(name).copied()
    }

    /// The id of a group name.
    pub fn group(&self, name: &[u8]) -> Option<u32> {
        self.ids()[1].get(name).copied()
    }

    /// The user and group ids for a member.
    pub(crate) fn of_member(&self, member: &Member) -> (u32, u32) {
        let user = self.id(AclNameKind::User, &member.uname, Some(member.uid));
        let group = self.id(AclNameKind::Group, &member.gname, Some(member.gid));
        (user.unwrap_or(member.uid), group.unwrap_or(member.gid))
    }

    /// The id for a name, or `number` from the archive if the name is unknown.
    pub(crate) fn id(&self, who: AclNameKind, name: &[u8], number: Option<u32>) -> Option<u32> {
        match number {
            Some(number) if self.prefer_numbers || name.is_empty() => Some(number),
            number => {
                let known = match who {
                    AclNameKind::User => self.user(name),
                    AclNameKind::Group => self.group(name),
                };
                known.or(number)
            }
        }
    }

    /// The ids of users and of groups.
    fn ids(&self) -> &[HashMap<Vec<u8>, u32>; 2] {
        /// Maximum bytes read of /etc/passwd or /etc/group.
        const MOST: u64 = 4 << 20;
        self.ids.get_or_init(|| passwd::read(MOST).map(numbers))
    }
}

/// For duplicate names the first line counts.
fn numbers(entries: Vec<(Vec<u8>, u32)>) -> HashMap<Vec<u8>, u32> {
    entries.into_iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_several_lines_with_a_name_is_used() {
        let numbers = numbers(vec![
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

    #[test]
    fn numbers_take_precedence_on_request() {
        for (prefer_numbers, with_number) in [(false, 0), (true, 7)] {
            let owners = Owners::new(prefer_numbers);
            let root = |number| owners.id(AclNameKind::User, b"root", number);
            assert_eq!((root(Some(7)), root(None)), (Some(with_number), Some(0)));
            let unknown = |number| owners.id(AclNameKind::Group, b"no such group", number);
            assert_eq!((unknown(Some(7)), unknown(None)), (Some(7), None));
        }
    }
}
