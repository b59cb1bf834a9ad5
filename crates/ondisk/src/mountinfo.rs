//! Lines of /proc/self/mountinfo.
//! [proc_pid_mountinfo(5)](https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html)

use crate::mnttab::unescape;
use crate::mount::merge_options;
use crate::{Dev, Mount};

/// Parses one line, without its newline. `None` when it is none.
pub fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&b| b == b' ');
    let id = number(fields.next()?)?;
    let parent = number(fields.next()?)?;
    let mut dev = fields.next()?.split(|&b| b == b':');
    let dev = Dev { major: number(dev.next()?)?, minor: number(dev.next()?)? };
    let fsroot = unescape(fields.next()?);
    let target = unescape(fields.next()?);
    let mount_options = fields.next()?;
    let mut slave = false;
    loop {
        match fields.next()? {
            b"-" => break,
            tag => slave |= tag.starts_with(b"master:"),
        }
    }
    let fstype = unescape(fields.next()?);
    let source = Some(unescape(fields.next()?)).filter(|source| !source.is_empty());
    let options = merge_options(mount_options, fields.next()?);
    let target = Some(target).filter(|t| t.first() == Some(&b'/'))?;
    Some(Mount { id, parent, dev, fsroot, target: Some(target), fstype, source, options, slave })
}

fn number<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_line_of_the_manual_page() {
        let line = b"36 35 98:0 /mnt1 /mnt\\040two rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let mount = parse(line).unwrap();
        assert_eq!((mount.id, mount.parent, mount.dev), (36, 35, Dev { major: 98, minor: 0 }));
        assert_eq!(mount.target.as_deref(), Some(&b"/mnt two"[..]));
        assert_eq!((mount.fsroot.as_slice(), mount.fstype.as_slice()), (&b"/mnt1"[..], &b"ext3"[..]));
        assert!(mount.slave);
    }

    #[test]
    fn an_empty_source_is_none() {
        let mount = parse(b"36 35 0:40 / /x rw - tmpfs  rw").unwrap();
        assert_eq!(mount.source, None);
    }

    #[test]
    fn what_is_no_line_is_none() {
        for bad in ["", "36", "36 35 98:0 / /mnt rw master:1", "x 35 98:0 / /m rw - a b c", "1 2 3 / /m rw - a b c"] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&line);
        }
    }
}
