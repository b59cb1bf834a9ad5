//! Parses lines of mount tables in files: /etc/mtab, /etc/mnttab, /etc/fstab.
//! [fstab(5)](https://man7.org/linux/man-pages/man5/fstab.5.html),
//! [getmntent(3)](https://man7.org/linux/man-pages/man3/getmntent.3.html)

use crate::mountinfo;

pub use crate::escape::{escape, unescape};

/// The mount point in a line of mountinfo, of fstab or mtab (second field), or in a line with only
/// a path. `None` for comments, blank lines, and lines without an absolute path.
pub fn mount_point(line: &[u8]) -> Option<Vec<u8>> {
    if let Some(mount) = mountinfo::parse(line) {
        return mount.target;
    }
    let line = line.trim_ascii_start();
    if line.first() == Some(&b'/') && !line.iter().any(|b| b" \t".contains(b)) {
        return Some(unescape(line));
    }
    let mut fields = line
        .split(|b| b" \t".contains(b))
        .filter(|field| !field.is_empty());
    let source = fields.next().filter(|source| !source.starts_with(b"#"))?;
    match fields.next() {
        Some(target) if target.first() == Some(&b'/') => Some(unescape(target)),
        _ if source.first() == Some(&b'/') => Some(unescape(line)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mount_points_are_found_in_every_kind_of_line() {
        let parse =
            |line: &str| mount_point(line.as_bytes()).map(|t| String::from_utf8(t).unwrap());
        assert_eq!(
            parse("/dev/sda1 /mnt\\040a ext4 rw 0 1").as_deref(),
            Some("/mnt a")
        );
        assert_eq!(parse("tmpfs\t/tmp\ttmpfs").as_deref(), Some("/tmp"));
        assert_eq!(parse("/srv/x").as_deref(), Some("/srv/x"));
        assert_eq!(parse("\t/srv/x y").as_deref(), Some("/srv/x y"));
        assert_eq!(
            parse("36 35 98:0 / /boot rw - ext3 /dev/root rw").as_deref(),
            Some("/boot")
        );
        assert_eq!(parse("# /dev/sda1 /mnt"), None);
        assert_eq!(parse("UUID=1 none swap sw 0 0"), None);
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = mount_point(&line);
        }
    }
}
