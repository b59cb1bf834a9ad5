//! POSIX access control lists: as the kernel has them (the value of the extended attributes
//! `system.posix_acl_access` and `system.posix_acl_default`), and as archives do (text, a line for
//! each entry). [acl(5)](https://man7.org/linux/man-pages/man5/acl.5.html)

use super::record::decimal;

/// The version that begins the kernel's form.
const VERSION: [u8; 4] = [2, 0, 0, 0];

/// The tag of an entry, in the kernel's order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Tag {
    Owner,
    User(u32),
    OwningGroup,
    Group(u32),
    Mask,
    Other,
}

impl Tag {
    /// The number of the kernel's, and the id that goes with it.
    fn number(self) -> (u16, u32) {
        match self {
            Tag::Owner => (0x01, u32::MAX),
            Tag::User(id) => (0x02, id),
            Tag::OwningGroup => (0x04, u32::MAX),
            Tag::Group(id) => (0x08, id),
            Tag::Mask => (0x10, u32::MAX),
            Tag::Other => (0x20, u32::MAX),
        }
    }

    fn from_number(number: u16, id: u32) -> Option<Tag> {
        Some(match number {
            0x01 => Tag::Owner,
            0x02 => Tag::User(id),
            0x04 => Tag::OwningGroup,
            0x08 => Tag::Group(id),
            0x10 => Tag::Mask,
            0x20 => Tag::Other,
            _ => return None,
        })
    }
}

/// Whose name is to be looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    /// A user's.
    User,
    /// A group's.
    Group,
}

/// The text of a list of the kernel's, with numbers for names: `user::rw-`, `user:1000:r--`, a line
/// each. `None` for bytes that are none.
pub fn to_text(binary: &[u8]) -> Option<Vec<u8>> {
    let (entries, []) = binary.strip_prefix(&VERSION)?.as_chunks::<8>() else {
        return None;
    };
    let mut text = String::new();
    for &[tag0, tag1, perm0, perm1, ref id @ ..] in entries {
        let tag = Tag::from_number(u16::from_le_bytes([tag0, tag1]), u32::from_le_bytes(*id))?;
        let who = match tag {
            Tag::Owner => "user:".to_owned(),
            Tag::User(id) => format!("user:{id}"),
            Tag::OwningGroup => "group:".to_owned(),
            Tag::Group(id) => format!("group:{id}"),
            Tag::Mask => "mask:".to_owned(),
            Tag::Other => "other:".to_owned(),
        };
        let may = u16::from_le_bytes([perm0, perm1]);
        let letter = |bit: u16, letter| if may & bit != 0 { letter } else { '-' };
        text.push_str(&who);
        text.extend([':', letter(4, 'r'), letter(2, 'w'), letter(1, 'x'), '\n']);
    }
    Some(text.into_bytes())
}

/// The kernel's form of a text: entries with newlines or commas between, blanks and what follows a
/// `#` left out, as GNU tar and bsdtar write them. Where a user or group has a name that is no
/// number, `id_of` is asked for the number; what it does not know is the number that bsdtar puts
/// behind the entry. `None` for a text that is none, and for a name that nobody knows.
pub fn to_binary(text: &[u8], id_of: impl Fn(Who, &[u8]) -> Option<u32>) -> Option<Vec<u8>> {
    let mut entries = Vec::new();
    for line in text.split(|&byte| byte == b'\n') {
        let line = line.split(|&byte| byte == b'#').next().unwrap_or_default();
        for part in line
            .split(|&byte| byte == b',')
            .map(<[u8]>::trim_ascii)
            .filter(|part| !part.is_empty())
        {
            entries.push(entry(part, &id_of)?);
        }
    }
    entries.sort_unstable_by_key(|(tag, _)| *tag);
    let mut binary = VERSION.to_vec();
    for (tag, may) in entries {
        let (number, id) = tag.number();
        binary.extend_from_slice(&number.to_le_bytes());
        binary.extend_from_slice(&may.to_le_bytes());
        binary.extend_from_slice(&id.to_le_bytes());
    }
    Some(binary)
}

/// One entry of a text.
fn entry(text: &[u8], id_of: impl Fn(Who, &[u8]) -> Option<u32>) -> Option<(Tag, u16)> {
    let text = text.strip_prefix(b"default:").unwrap_or(text);
    let mut fields = text.split(|&byte| byte == b':').map(<[u8]>::trim_ascii);
    let (kind, name) = (fields.next()?, fields.next()?);
    // Some write "other:r--" for "other::r--".
    let (name, may) = match (fields.next(), kind) {
        (Some(may), _) => (name, may),
        (None, b"mask" | b"m" | b"other" | b"o") => (&b""[..], name),
        (None, _) => return None,
    };
    let behind = fields.next().map(decimal);
    let number = |digits: Option<u64>| digits.and_then(|id| u32::try_from(id).ok());
    let id = |who| match name {
        b"" => Some(None),
        name if name.iter().all(u8::is_ascii_digit) => number(decimal(name)).map(Some),
        name => id_of(who, name)
            .or_else(|| number(behind.flatten()))
            .map(Some),
    };
    let tag = match kind {
        b"user" | b"u" => id(Who::User)?.map_or(Tag::Owner, Tag::User),
        b"group" | b"g" => id(Who::Group)?.map_or(Tag::OwningGroup, Tag::Group),
        b"mask" | b"m" if name.is_empty() => Tag::Mask,
        b"other" | b"o" if name.is_empty() => Tag::Other,
        _ => return None,
    };
    let may = may.iter().try_fold(0, |bits, letter| match letter {
        b'r' => Some(bits | 4),
        b'w' => Some(bits | 2),
        b'x' => Some(bits | 1),
        b'-' => Some(bits),
        _ => None,
    })?;
    Some((tag, may))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn unknown(_: Who, _: &[u8]) -> Option<u32> {
        None
    }

    #[test]
    fn forms_of_text() {
        let ours = b"user::rw-\nuser:1000:r--\ngroup::r--\nmask::r--\nother::---\n";
        let binary = to_binary(ours, unknown).unwrap();
        assert_eq!(binary.len(), 4 + 5 * 8);
        assert_eq!(to_text(&binary).unwrap(), ours);
        for same in [
            &b"user::rw-,group::r--,other::---,user:joe:r--:1000,mask::r--"[..],
            b"default:user::rw-,default:user:joe:r--:1000,default:group::r--,default:mask::r--,default:other::---",
            b"u::rw\nuser:1000:r--\t#effective:r--\ng::r\nm:r--\n\no:---\n",
        ] {
            assert_eq!(to_binary(same, unknown).as_ref(), Some(&binary), "{}", String::from_utf8_lossy(same));
        }
        let known = |who, name: &[u8]| (who == Who::User && name == b"joe").then_some(1000);
        assert_eq!(
            to_binary(b"user:joe:r--:7", known),
            to_binary(b"user:1000:r--", unknown)
        );
    }

    #[test]
    fn what_is_none() {
        for bad in [
            "user",
            "user:",
            "user::q",
            "who::r--",
            "user:joe:r--",
            "mask:1:r--",
            "user:4294967296:r--",
            "group:1",
            "user:1:r--:x:y:z,,q",
        ] {
            assert_eq!(to_binary(bad.as_bytes(), unknown), None, "{bad}");
        }
        for bad in [
            &b""[..],
            b"\x01\0\0\0",
            b"\x02\0\0\0\x01",
            b"\x02\0\0\0\x03\0\0\0\0\0\0\0",
        ] {
            assert_eq!(to_text(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn text_comes_back(entries in proptest::collection::vec((0..6u8, any::<u32>(), 0..8u16), 0..10)) {
            let mut binary = VERSION.to_vec();
            let mut tags: Vec<_> = entries.into_iter().map(|(tag, id, may)| (Tag::from_number(1 << tag, id).unwrap(), may)).collect();
            tags.sort_by_key(|(tag, _)| *tag);
            for (tag, may) in tags {
                let (number, id) = tag.number();
                binary.extend([&number.to_le_bytes()[..], &may.to_le_bytes(), &id.to_le_bytes()].concat());
            }
            let text = to_text(&binary).unwrap();
            prop_assert_eq!(to_binary(&text, unknown), Some(binary));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), text in "[ugmorwx:,#\n0-9-]{0,40}") {
            to_text(&[&VERSION[..], &bytes].concat());
            to_binary(&bytes, unknown);
            to_binary(text.as_bytes(), |_, _| Some(1));
        }
    }
}
