//! The names of users and groups, as /etc/passwd and /etc/group have them. Who is not there has no name in the archive: other
//! services of names would have to be asked by way of the C library, past every gate.

use std::collections::HashMap;

use gate::file::Reader;

/// Names by number.
#[derive(Debug, Default)]
pub(crate) struct Users {
    users: HashMap<u32, Vec<u8>>,
    groups: HashMap<u32, Vec<u8>>,
}

impl Users {
    /// Reads both files. One that cannot be read names nobody.
    pub(crate) fn read() -> Users {
        Users { users: names(&whole(b"/etc/passwd")), groups: names(&whole(b"/etc/group")) }
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

fn whole(path: &[u8]) -> Vec<u8> {
    /// No such file is larger; if one is, the rest has no names.
    const MOST: u64 = 16 << 20;
    let Ok(reader) = Reader::open(path) else { return Vec::new() };
    let mut bytes = vec![0; reader.len().min(MOST) as usize];
    let read = reader.read_at(0, &mut bytes).unwrap_or(0);
    bytes.truncate(read);
    bytes
}

/// The third field of each line is the number of the first. Of several names, the first counts, as in getpwuid(3).
fn names(text: &[u8]) -> HashMap<u32, Vec<u8>> {
    let mut names = HashMap::new();
    for line in text.split(|&b| b == b'\n') {
        let mut fields = line.split(|&b| b == b':');
        if let (Some(name @ [_, ..]), Some(_), Some(number)) = (fields.next(), fields.next(), fields.next())
            && let Some(number) = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok())
        {
            names.entry(number).or_insert_with(|| name.to_vec());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn the_first_name_of_a_number_counts() {
        let names = names(b"root:x:0:0:root:/root:/bin/sh\ntoor:x:0:0::/:\nodd\nbad:x:many:\n\n:x:5:\nx:*:7");
        assert_eq!(names.len(), 2);
        assert_eq!((&names[&0][..], &names[&7][..]), (&b"root"[..], &b"x"[..]));
    }
}
