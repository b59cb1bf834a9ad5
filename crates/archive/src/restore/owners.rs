//! Who is who here: the numbers of users and groups, by their names in /etc/passwd and /etc/group.

use std::collections::HashMap;

use gate::file::Reader;

/// Numbers by names.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    users: HashMap<Vec<u8>, u32>,
    groups: HashMap<Vec<u8>, u32>,
}

impl Owners {
    /// Reads both files; one that cannot be read knows nobody.
    pub(crate) fn read() -> Owners {
        let file = |path| numbers(&whole(path).unwrap_or_default());
        Owners { users: file(b"/etc/passwd"), groups: file(b"/etc/group") }
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

fn whole(path: &[u8]) -> gate::Result<Vec<u8>> {
    /// More users than this go by number.
    const MOST: u64 = 4 << 20;
    let reader = Reader::open(path)?;
    let mut text = vec![0; reader.len().min(MOST) as usize];
    let n = reader.read_at(0, &mut text)?;
    text.truncate(n);
    Ok(text)
}

/// The third field of each line by the first, the first line of a name first.
fn numbers(text: &[u8]) -> HashMap<Vec<u8>, u32> {
    let mut numbers = HashMap::new();
    for line in text.split(|&b| b == b'\n') {
        let mut fields = line.split(|&b| b == b':');
        let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse().ok();
        if let (Some(name), Some(_), Some(number)) = (fields.next(), fields.next(), fields.next().and_then(number)) {
            numbers.entry(name.to_vec()).or_insert(number);
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    #[test]
    fn lines_of_passwd() {
        let numbers =
            super::numbers(b"root:x:0:0:root:/root:/bin/sh\n# a comment\nme:x:1000:1000::/:\nme:x:7:\nbad:x:no\n");
        assert_eq!((numbers.get(&b"root"[..]), numbers.get(&b"me"[..]), numbers.len()), (Some(&0), Some(&1000), 2));
    }
}
