//! POSIX access control lists: in the kernel's format (the value of the extended attributes
//! `system.posix_acl_access` and `system.posix_acl_default`), and as text in archives, one line per
//! entry. [acl(5)](https://man7.org/linux/man-pages/man5/acl.5.html)

use super::record::decimal;

/// The version number at the beginning of an access control list in the kernel's format.
const VERSION: [u8; 4] = [2, 0, 0, 0];

/// Length of an access control list with three entries in the kernel's format. Such a list adds
/// nothing to the mode.
pub const MINIMAL: usize = VERSION.len() + 3 * 8;

/// Whether an extended attribute is the form in which XFS stores an access control list. XFS lists
/// this attribute and the attribute in the kernel's form.
pub fn is_xfs_form(name: &[u8]) -> bool {
    matches!(name, b"trusted.SGI_ACL_FILE" | b"trusted.SGI_ACL_DEFAULT")
}

/// Tags of ACL entries, with their numbers in the kernel's format, in the kernel's order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u16)]
enum Tag {
    Owner = 0x01,
    User = 0x02,
    OwningGroup = 0x04,
    Group = 0x08,
    Mask = 0x10,
    Other = 0x20,
}

impl Tag {
    fn from_number(number: u16) -> Option<Tag> {
        use Tag::{Group, Mask, Other, Owner, OwningGroup, User};
        [Owner, User, OwningGroup, Group, Mask, Other]
            .into_iter()
            .find(|tag| *tag as u16 == number)
    }
}

/// Id of an ACL entry that is not for a named user or group.
const NO_ID: u32 = u32::MAX;

/// Whether [`to_binary`] looks up the name of a user or of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum AclNameKind {
    User,
    Group,
}

/// Converts a list from the kernel's format to text with numeric ids: `user::rw-`, `user:1000:r--`,
/// one per line. `None` for malformed bytes.
pub fn to_text(binary: &[u8]) -> Option<Vec<u8>> {
    let (entries, []) = binary.strip_prefix(&VERSION)?.as_chunks::<8>() else {
        return None;
    };
    let mut text = String::new();
    for &[tag0, tag1, perm0, perm1, ref id @ ..] in entries {
        let id = u32::from_le_bytes(*id);
        let who = match Tag::from_number(u16::from_le_bytes([tag0, tag1]))? {
            Tag::Owner => "user:".to_owned(),
            Tag::User => format!("user:{id}"),
            Tag::OwningGroup => "group:".to_owned(),
            Tag::Group => format!("group:{id}"),
            Tag::Mask => "mask:".to_owned(),
            Tag::Other => "other:".to_owned(),
        };
        let permissions = u16::from_le_bytes([perm0, perm1]);
        let letter = |bit, letter| if permissions & bit != 0 { letter } else { '-' };
        text.push_str(&who);
        text.extend([':', letter(4, 'r'), letter(2, 'w'), letter(1, 'x'), '\n']);
    }
    Some(text.into_bytes())
}

/// Converts a list from text to the kernel's format. Entries are separated by newlines or commas,
/// without blanks and comments (`#`), as GNU tar and bsdtar write them. `id_of` returns the id for
/// a name that is not a number; its last argument is the number that bsdtar appends to an entry.
/// `None` for malformed text, and for a name without an id.
pub fn to_binary(
    text: &[u8],
    id_of: impl Fn(AclNameKind, &[u8], Option<u32>) -> Option<u32>,
) -> Option<Vec<u8>> {
    let mut entries = Vec::new();
    for line in text.split(|&byte| byte == b'\n') {
        let line = line.split(|&byte| byte == b'#').next().unwrap_or_default();
        for part in line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            if !part.is_empty() {
                entries.push(entry(part, &id_of)?);
            }
        }
    }
    entries.sort_unstable_by_key(|&(tag, id, _)| (tag, id));
    let mut binary = VERSION.to_vec();
    for (tag, id, permissions) in entries {
        binary.extend_from_slice(&(tag as u16).to_le_bytes());
        binary.extend_from_slice(&permissions.to_le_bytes());
        binary.extend_from_slice(&id.to_le_bytes());
    }
    Some(binary)
}

/// The permission bits that belong to a list in the kernel's format, as the kernel would set them.
/// The mode in an archive of bsdtar differs: it has the owning group's permissions instead of the
/// mask.
pub fn permissions(binary: &[u8]) -> Option<u32> {
    let find = |tag| find(binary, tag);
    let group = find(Tag::Mask).or(find(Tag::OwningGroup))?;
    Some(find(Tag::Owner)? << 6 | group << 3 | find(Tag::Other)?)
}

/// Permission bits for a file to which this access control list cannot be applied: the mask limits
/// the owning group's permissions, so that nobody has more access than the list allows. Names are
/// not looked up. `None` for malformed text.
pub fn permissions_without(text: &[u8]) -> Option<u32> {
    let binary = to_binary(text, |_, _, _| Some(0))?;
    let find = |tag| find(&binary, tag);
    let group = find(Tag::OwningGroup)? & find(Tag::Mask).unwrap_or(7);
    Some(find(Tag::Owner)? << 6 | group << 3 | find(Tag::Other)?)
}

/// Permissions of the first entry with a tag, in an access control list in the kernel's format.
fn find(binary: &[u8], tag: Tag) -> Option<u32> {
    let (entries, _) = binary.strip_prefix(&VERSION)?.as_chunks::<8>();
    let number = (tag as u16).to_le_bytes();
    let entry = entries.iter().find(|entry| entry[..2] == number)?;
    Some(u32::from(entry[2]) & 7)
}

fn entry(
    text: &[u8],
    id_of: impl Fn(AclNameKind, &[u8], Option<u32>) -> Option<u32>,
) -> Option<(Tag, u32, u16)> {
    // Solaris writes no colon after "default".
    let text = text.strip_prefix(b"default").unwrap_or(text);
    let text = text.strip_prefix(b":").unwrap_or(text);
    let mut fields = text.split(|&byte| byte == b':').map(<[u8]>::trim_ascii);
    let (kind, name) = (fields.next()?, fields.next()?);
    // Some programs write "other:r--" for "other::r--", and append an id.
    let (name, permissions) = match (fields.next(), kind) {
        (_, b"mask" | b"m" | b"other" | b"o") if !name.is_empty() => (&b""[..], name),
        (Some(permissions), _) => (name, permissions),
        (None, _) => return None,
    };
    let behind = fields.next().map(decimal);
    let number = |digits: Option<u64>| digits.and_then(|id| u32::try_from(id).ok());
    let id = |who| match name {
        name if name.iter().all(u8::is_ascii_digit) => number(decimal(name)),
        name => id_of(who, name, number(behind.flatten())),
    };
    let (tag, id) = match kind {
        b"user" | b"u" if name.is_empty() => (Tag::Owner, NO_ID),
        b"user" | b"u" => (Tag::User, id(AclNameKind::User)?),
        b"group" | b"g" if name.is_empty() => (Tag::OwningGroup, NO_ID),
        b"group" | b"g" => (Tag::Group, id(AclNameKind::Group)?),
        b"mask" | b"m" if name.is_empty() => (Tag::Mask, NO_ID),
        b"other" | b"o" if name.is_empty() => (Tag::Other, NO_ID),
        _ => return None,
    };
    let permissions = permissions
        .iter()
        .try_fold(0, |bits, letter| match letter {
            b'r' | b'R' => Some(bits | 4),
            b'w' | b'W' => Some(bits | 2),
            b'x' | b'X' => Some(bits | 1),
            b'-' | b' ' => Some(bits),
            _ => None,
        })?;
    Some((tag, id, permissions))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn unknown(_: AclNameKind, _: &[u8], number: Option<u32>) -> Option<u32> {
        number
    }

    #[test]
    fn all_forms_of_text_are_read() {
        let ours = b"user::rw-\nuser:1000:r--\ngroup::r--\nmask::r--\nother::---\n";
        let binary = to_binary(ours, unknown).unwrap();
        assert_eq!(binary.len(), 4 + 5 * 8);
        assert_eq!(to_text(&binary).unwrap(), ours);
        for same in [
            &b"user::rw-,group::r--,other::---,user:joe:r--:1000,mask::r--"[..],
            b"default:user::rw-,default:user:joe:r--:1000,default:group::r--,default:mask::r--,default:other::---",
            b"u::rw\nuser:1000:r--\t#effective:r--\ng::r\nm:r--\n\no:---\n",
            b" user: :rw- , user : joe : R-- :1000,group::r-- ,mask:r--,other:---:",
            b"defaultuser::rw-,defaultuser:joe:r--:1000,defaultgroup::r--,defaultmask:r--,defaultother:---",
        ] {
            assert_eq!(to_binary(same, unknown).as_ref(), Some(&binary), "{}", String::from_utf8_lossy(same));
        }
        let known = |who, name: &[u8], number| {
            assert_eq!(number, Some(7));
            (who == AclNameKind::User && name == b"joe").then_some(1000)
        };
        assert_eq!(
            to_binary(b"user:joe:r--:7", known),
            to_binary(b"user:1000:r--", unknown)
        );
    }

    #[test]
    fn malformed_lists_are_refused() {
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
        fn a_list_survives_as_text(entries in proptest::collection::vec((0..6u8, any::<u32>(), 0..8u16), 0..10)) {
            let mut binary = VERSION.to_vec();
            let mut tags: Vec<_> = entries.into_iter().map(|(tag, id, may)| {
                let tag = 1u16 << tag;
                (tag, if tag == 0x02 || tag == 0x08 { id } else { NO_ID }, may)
            }).collect();
            tags.sort_by_key(|&(tag, id, _)| (tag, id));
            for (tag, id, may) in tags {
                binary.extend([&tag.to_le_bytes()[..], &may.to_le_bytes(), &id.to_le_bytes()].concat());
            }
            let text = to_text(&binary).unwrap();
            prop_assert_eq!(to_binary(&text, unknown), Some(binary));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), text in "[ugmorwx:,#\n0-9-]{0,40}") {
            to_text(&[&VERSION[..], &bytes].concat());
            to_binary(&bytes, unknown);
            to_binary(text.as_bytes(), |_, _, _| Some(1));
        }
    }
}
