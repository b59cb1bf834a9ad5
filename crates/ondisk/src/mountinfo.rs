//! Parses /proc/self/mountinfo.
//! [proc_pid_mountinfo(5)](https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html)

use std::sync::Arc;

use crate::escape::unescape;
use crate::mount::{is_read_only, merge_options};
use crate::{Content, Dev, Mount};

/// Parses one line without its newline; `None` if it is malformed.
pub fn parse(line: &[u8]) -> Option<Mount> {
    Parser::default().line(line)
}

/// Parses lines of mountinfo. Adjacent lines with the same content share one [`Content`].
#[derive(Debug, Default)]
pub struct Parser {
    /// The raw fields of the previous line from which its [`Content`] was parsed.
    last: Vec<u8>,
    content: Arc<Content>,
}

impl Parser {
    /// Parses one line without its newline; `None` if it is malformed.
    pub fn line(&mut self, line: &[u8]) -> Option<Mount> {
        let mut fields = line.split(|&b| b == b' ');
        let id = number(fields.next()?)?;
        let parent = number(fields.next()?)?;
        let mut dev = fields.next()?.split(|&b| b == b':');
        let dev = Dev::new(number(dev.next()?)?, number(dev.next()?)?);
        let fsroot = fields.next()?;
        let target =
            Some(unescape(fields.next()?)).filter(|target| target.first() == Some(&b'/'))?;
        let mount_options = fields.next()?;
        let mut slave = false;
        loop {
            match fields.next()? {
                b"-" => break,
                tag => slave |= tag.starts_with(b"master:"),
            }
        }
        let fields = [
            fsroot,
            mount_options,
            fields.next()?,
            fields.next()?,
            fields.next()?,
        ];
        Some(Mount {
            id,
            parent,
            dev,
            target: Some(target),
            content: self.content(fields),
            slave,
        })
    }

    fn content(&mut self, fields: [&[u8]; 5]) -> Arc<Content> {
        let mut last = self.last.as_slice();
        let same = fields.iter().all(|field| match last.strip_prefix(*field) {
            Some([b' ', rest @ ..]) => {
                last = rest;
                true
            }
            _ => false,
        });
        if !same || !last.is_empty() {
            let [fsroot, mount_options, fstype, source, super_options] = fields;
            self.last.clear();
            for field in fields {
                self.last.extend_from_slice(field);
                self.last.push(b' ');
            }
            self.content = Arc::new(Content {
                fsroot: unescape(fsroot),
                fstype: unescape(fstype),
                source: Some(unescape(source)).filter(|source| !source.is_empty()),
                options: merge_options(mount_options, super_options),
                mount_read_only: is_read_only(mount_options),
                super_read_only: is_read_only(super_options),
            });
        }
        Arc::clone(&self.content)
    }
}

fn number<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_the_manual_page_is_parsed() {
        let line = b"36 35 98:0 /mnt1 /mnt\\040two rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let mount = parse(line).unwrap();
        assert_eq!(
            (mount.id, mount.parent, mount.dev),
            (36, 35, Dev::new(98, 0))
        );
        assert_eq!(mount.target.as_deref(), Some(&b"/mnt two"[..]));
        assert_eq!(
            (
                mount.content.fsroot.as_slice(),
                mount.content.fstype.as_slice()
            ),
            (&b"/mnt1"[..], &b"ext3"[..])
        );
        assert!(mount.slave);
    }

    #[test]
    fn an_empty_source_is_none() {
        let mount = parse(b"36 35 0:40 / /x rw - tmpfs  rw").unwrap();
        assert_eq!(mount.content.source, None);
    }

    #[test]
    fn malformed_lines_are_refused() {
        for bad in [
            "",
            "36",
            "36 35 98:0 / /mnt rw master:1",
            "x 35 98:0 / /m rw - a b c",
            "1 2 3 / /m rw - a b c",
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn lines_with_the_same_content_share_it() {
        let mut parser = Parser::default();
        let line =
            |id: u32, rest: &str| format!("{id} 1 8:1 {rest} - ext4 /dev/a rw,x").into_bytes();
        let mut content = |id, rest| parser.line(&line(id, rest)).unwrap().content;
        let [a, b, c, d] = [
            content(1, "/s /a rw"),
            content(2, "/s /b rw shared:3"),
            content(3, "/s /c ro"),
            content(4, "/s /d rw"),
        ];
        assert!(Arc::ptr_eq(&a, &b) && a == d);
        assert_eq!(
            (c.options.as_slice(), a.options.as_slice()),
            (&b"ro,x"[..], &b"rw,x"[..])
        );
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&line);
        }
    }
}
