//! NFSv4 access control lists in the extended attribute `system.nfs4_acl` of the Linux client: the
//! XDR of the attribute `acl`. [RFC 7530, section
//! 6.2.1](https://www.rfc-editor.org/rfc/rfc7530#section-6.2.1)

/// Name of the extended attribute. The client lists it for every file.
pub const NAME: &[u8] = b"system.nfs4_acl";

/// Whether a list has entries only for owner, group and everyone, without inheritance, so that it
/// adds nothing to the mode. For a file without a list, a server derives such a list from the mode.
pub fn is_minimal(list: &[u8]) -> bool {
    parse(list).is_some_and(|is_minimal| is_minimal)
}

/// Whether an access control list adds nothing to the mode; `None` for malformed bytes.
fn parse(list: &[u8]) -> Option<bool> {
    const ALLOW_OR_DENY: u32 = 1;
    const ACE4_IDENTIFIER_GROUP: u32 = 0x40;
    let mut rest = list;
    let count = take_word(&mut rest)?;
    let mut is_minimal = true;
    for _ in 0..count {
        let kind = take_word(&mut rest)?;
        let flags = take_word(&mut rest)?;
        let _mask = take_word(&mut rest)?;
        let len = usize::try_from(take_word(&mut rest)?).ok()?;
        let who = rest.get(..len)?;
        rest = rest.get(len.checked_next_multiple_of(4)?..)?;
        is_minimal &= kind <= ALLOW_OR_DENY
            && flags & !ACE4_IDENTIFIER_GROUP == 0
            && matches!(who, b"OWNER@" | b"GROUP@" | b"EVERYONE@");
    }
    rest.is_empty().then_some(is_minimal)
}

fn take_word(rest: &mut &[u8]) -> Option<u32> {
    let (word, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u32::from_be_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(entries: &[(u32, u32, &str)]) -> Vec<u8> {
        let mut bytes = (entries.len() as u32).to_be_bytes().to_vec();
        for (kind, flags, who) in entries {
            for word in [*kind, *flags, 0x0016_01a7, who.len() as u32] {
                bytes.extend(word.to_be_bytes());
            }
            bytes.extend(who.as_bytes());
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn lists_about_others_say_more_than_the_mode() {
        let of_mode = [(0, 0, "OWNER@"), (0, 0x40, "GROUP@"), (0, 0, "EVERYONE@")];
        assert!(is_minimal(&list(&of_mode)));
        assert!(is_minimal(&list(&[(1, 0, "OWNER@"), (0, 0, "OWNER@")])));
        for other in [
            (0, 0, "ann@example.org"),
            (0, 1, "OWNER@"),
            (2, 0, "OWNER@"),
        ] {
            assert!(!is_minimal(&list(&[of_mode[0], other])), "{other:?}");
        }
        let whole = list(&of_mode);
        assert!((0..whole.len()).all(|len| !is_minimal(&whole[..len])));
        assert!(!is_minimal(&[&whole[..], b"\0"].concat()));
    }

    proptest! {
        #[test]
        fn no_list_makes_it_panic(bytes: Vec<u8>) {
            let _ = is_minimal(&bytes);
        }
    }
}
