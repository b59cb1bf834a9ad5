//! The names of users and groups, as /etc/passwd and /etc/group have them. Who is not there has no
//! name in the archive.

use std::collections::HashMap;

use crate::passwd;

/// Names by number.
#[derive(Debug, Default)]
pub(crate) struct Users {
    users: HashMap<u32, Vec<u8>>,
    groups: HashMap<u32, Vec<u8>>,
}

impl Users {
    /// Reads both files. One that cannot be read names nobody.
    pub(crate) fn read() -> Users {
        /// No such file is larger; if one is, the rest has no names.
        const MOST: u64 = 16 << 20;
        Users {
            users: names(passwd::users(MOST)),
            groups: names(passwd::groups(MOST)),
        }
    }

    /// The name of a user; empty where there is none.
    pub(crate) fn user(&self, uid: u32) -> &[u8] {
        self.users.get(&uid).map_or(b"", |name| name)
    }

    /// The name of a group; empty where there is none.
    pub(crate) fn group(&self, gid: u32) -> &[u8] {
        self.groups.get(&gid).map_or(b"", |name| name)
    }
}

/// Of several names, the first counts, as in getpwuid(3).
fn names(entries: Vec<(Vec<u8>, u32)>) -> HashMap<u32, Vec<u8>> {
    entries
        .into_iter()
        .rev()
        .map(|(name, number)| (number, name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn the_first_name_of_a_number_counts() {
        let names = names(vec![
            (b"root".to_vec(), 0),
            (b"toor".to_vec(), 0),
            (b"x".to_vec(), 7),
        ]);
        assert_eq!(names.len(), 2);
        assert_eq!((&names[&0][..], &names[&7][..]), (&b"root"[..], &b"x"[..]));
    }
}
