//! Archives: any blocks give members that hold together, or an error with a place in the archive; a
//! member that is read can be written, and is then read again as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::pax::{BLOCK, Decoder, Event, Member, MemberKind, header, padded};

fuzz_target!(|bytes: &[u8]| {
    let mut decoder = Decoder::new();
    let mut at = 0;
    // Data is passed over where there is any; after an error, the next sound header is looked for.
    while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk::<BLOCK>()) {
        at += BLOCK;
        match decoder.push(block) {
            Ok(Event::Member {
                member,
                at: start,
                data,
            }) => {
                assert!(start < at as u64);
                assert!(data <= member.stored);
                is_sound(&member);
                at = at.saturating_add(usize::try_from(padded(data).unwrap()).unwrap());
            }
            Ok(Event::End) => break,
            Ok(Event::More | Event::Checksum(_) | Event::Part(_) | Event::Lineage(_)) => {}
            Err(fault) => {
                assert!(fault.at < at as u64);
                let skipped = usize::try_from(decoder.recover()).unwrap();
                at = at.saturating_add(skipped);
            }
        }
    }
});

fn is_sound(member: &Member) {
    assert!(member.mode <= 0o7777);
    assert!(!member.link.contains(&0));
    assert!(member.xattrs.is_sorted() && member.xattrs.iter().all(|(name, _)| !name.is_empty()));
    if let Some(map) = &member.sparse {
        assert!(
            map.extents()
                .windows(2)
                .all(|pair| pair[0].end() <= pair[1].offset)
        );
        assert!(
            map.extents()
                .last()
                .is_none_or(|last| last.end() <= member.size)
        );
    }
    // A sparse file is written in one form only, and nothing but files has data when it is written.
    if member.path.is_empty()
        || member.sparse.is_some()
        || !matches!(member.kind, MemberKind::File | MemberKind::Symlink)
    {
        return;
    }
    let mut written = Vec::new();
    header(member, &mut written);
    let mut decoder = Decoder::new();
    let mut events = written
        .as_chunks::<BLOCK>()
        .0
        .iter()
        .map(|block| decoder.push(block).unwrap());
    let read = events.find_map(|event| {
        if let Event::Member { member, .. } = event {
            Some(member)
        } else {
            None
        }
    });
    let read = read.unwrap();
    assert_eq!(
        (&read.path, &read.link, read.stored),
        (&member.path, &member.link, member.stored)
    );
    assert_eq!(
        (read.mtime, &read.xattrs, &read.blake3),
        (member.mtime, &member.xattrs, &member.blake3)
    );
}
