//! The names of users and groups, from /etc/passwd and /etc/group only.

use std::collections::BTreeMap;

use crate::passwd;

/// User and group names by number.
#[derive(Debug, Default)]
pub struct Users([BTreeMap<u32, Vec<u8>>; 2]);

impl Users {
    /// Reads /etc/passwd and /etc/group. A file that cannot be read counts as empty.
    pub fn read() -> Users {
        /// Maximum size of /etc/passwd or /etc/group that is read.
        const MOST: u64 = 16 << 20;
        Users(passwd::read(MOST).map(names))
    }

    /// All users and all groups, by number.
    pub fn all(&self) -> [Vec<(u32, &[u8])>; 2] {
        self.0.each_ref().map(|names| {
            let all = names.iter().map(|(number, name)| (*number, &name[..]));
            all.collect()
        })
    }

    /// The name of a user; empty if there is none.
    pub fn user(&self, uid: u32) -> &[u8] {
        self.0[0].get(&uid).map_or(b"", |name| name)
    }

    /// The name of a group; empty if there is none.
    pub fn group(&self, gid: u32) -> &[u8] {
        self.0[1].get(&gid).map_or(b"", |name| name)
    }
}

/// Names by number. For duplicates the first name is kept, like getpwuid(3).
fn names(entries: Vec<(Vec<u8>, u32)>) -> BTreeMap<u32, Vec<u8>> {
    let entries = entries.into_iter().rev();
    entries.map(|(name, number)| (number, name)).collect()
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn first_name_of_a_number_is_kept() {
        let names = names(vec![
            (b"root".to_vec(), 0),
            (b"toor".to_vec(), 0),
            (b"x".to_vec(), 7),
        ]);
        assert_eq!(names.len(), 2);
        assert_eq!((&names[&0][..], &names[&7][..]), (&b"root"[..], &b"x"[..]));
    }
}
