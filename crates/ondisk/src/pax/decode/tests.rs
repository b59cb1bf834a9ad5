//! Tests of the decoder.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::pax::{header, trailer};

/// The events of an archive, up to its end.
fn read(archive: &[u8]) -> Result<Vec<Event>, Fault> {
    let mut decoder = Decoder::new();
    let mut events = Vec::new();
    while let Some(block) = archive
        .get(decoder.at() as usize..)
        .and_then(<[u8]>::first_chunk)
    {
        match decoder.push(block)? {
            Event::More => {}
            Event::End => return Ok(events),
            event => events.push(event),
        }
    }
    Err(Fault {
        at: decoder.at(),
        what: "cut",
    })
}

fn end(archive: &mut Vec<u8>) {
    archive.resize(archive.len().next_multiple_of(BLOCK) + 2 * BLOCK, 0);
}

/// The archive of one member and its data.
fn archive_of(member: &Member) -> Vec<u8> {
    let mut archive = Vec::new();
    header(member, &mut archive);
    if let Some(map) = &member.sparse {
        map.encode(member.size, &mut archive);
        archive.resize(archive.len() + map.data() as usize, b'd');
    } else {
        archive.resize(archive.len() + member.stored as usize, b'd');
    }
    end(&mut archive);
    archive
}

/// A ustar header with a valid checksum.
fn raw(letter: u8, size: u64, edit: impl FnOnce(&mut [u8; BLOCK])) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block[..4].copy_from_slice(b"name");
    block[TYPE] = letter;
    block[MAGIC].copy_from_slice(field::POSIX);
    field::put(&mut block, SIZE, size);
    edit(&mut block);
    field::put_sum(&mut block);
    block
}

fn fault(archive: &[u8]) -> Fault {
    read(archive).unwrap_err()
}

fn bytes(range: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    vec(
        prop_oneof![4 => b'a'..b'e', 1 => Just(b'/'), 1 => 1u8..],
        range,
    )
}

fn time() -> impl Strategy<Value = Time> {
    (prop_oneof![-9i64..9, any::<i64>()], 0..1_000_000_000u32)
        .prop_map(|(sec, nsec)| Time { sec, nsec })
}

prop_compose! {
    fn member()(
        kind in prop_oneof![
            3 => Just(Kind::File), 1 => Just(Kind::Link), 1 => Just(Kind::Symlink), 1 => Just(Kind::Char),
            1 => Just(Kind::Block), 1 => Just(Kind::Directory), 1 => Just(Kind::Fifo),
        ],
        path in prop_oneof![bytes(1..20), bytes(90..110), bytes(240..270), bytes(500..600)],
        link in prop_oneof![bytes(1..20), bytes(90..110)],
        names in (bytes(0..40), bytes(0..40)),
        ids in any::<[u32; 4]>(),
        mode in 0u32..0o10000,
        stored in 0u64..2000,
        steps in option::of(vec((1u64..1 << 40, 1u64..300), 0..30)),
        hole in any::<u32>(),
        times in (time(), option::of(time()), option::of(time())),
        acls in (option::of(bytes(1..30)), option::of(bytes(1..30))),
        xattrs in proptest::collection::btree_map(vec(1u8.., 1..20), vec(any::<u8>(), 0..30), 0..4),
        dumpdir in option::of(vec(any::<u8>(), 0..2000)),
        blake3 in option::of(any::<[u8; 32]>()),
    ) -> Member {
        let mut path = path;
        if path.last() == Some(&b'/') {
            path.push(b'x');
        }
        if kind == Kind::Directory {
            path.push(b'/');
        }
        let is_file = kind == Kind::File;
        let mut member = Member {
            path,
            kind,
            link: if matches!(kind, Kind::Link | Kind::Symlink) { link } else { Vec::new() },
            mode,
            uid: ids[0],
            gid: ids[1],
            uname: names.0,
            gname: names.1,
            size: if is_file { stored } else { 0 },
            stored: if is_file { stored } else { 0 },
            mtime: times.0,
            atime: times.1,
            ctime: times.2,
            rdev: if matches!(kind, Kind::Char | Kind::Block) { Dev { major: ids[2], minor: ids[3] } } else { Dev::default() },
            acl_access: acls.0,
            acl_default: acls.1,
            xattrs: xattrs.into_iter().collect(),
            sparse: None,
            dumpdir,
            blake3,
        };
        if let (true, Some(steps)) = (is_file, steps) {
            let mut map = Map::default();
            for (gap, len) in steps {
                map.add(member.size + gap, len);
                member.size += gap + len;
            }
            member.size += u64::from(hole);
            let mut text = Vec::new();
            map.encode(member.size, &mut text);
            member.stored = text.len() as u64 + map.data();
            member.sparse = Some(map);
        }
        member
    }
}

proptest! {
    #[test]
    fn a_written_member_is_read_back(members in vec(member(), 1..4)) {
        for wanted in members {
            let archive = archive_of(&wanted);
            prop_assert_eq!(archive.len() % BLOCK, 0);
            prop_assert_eq!(archive_of(&wanted), &archive[..]);
            let events = read(&archive);
            let Ok([Event::Member { member, at: 0, data }]) = events.as_deref() else { panic!("{events:?}") };
            prop_assert_eq!(&**member, &wanted);
            prop_assert_eq!(*data, wanted.sparse.as_ref().map_or(wanted.stored, Map::data));
        }
    }

    #[test]
    fn no_archive_makes_the_decoder_panic(member in member(), spoils in vec((any::<prop::sample::Index>(), any::<u8>()), 0..9), sound: bool) {
        let mut archive = archive_of(&member);
        for (at, byte) in spoils {
            let at = at.index(archive.len());
            archive[at] = byte;
        }
        if sound && let Some(block) = archive.first_chunk_mut() {
            field::put_sum(block);
        }
        let mut decoder = Decoder::new();
        for block in archive.as_chunks().0 {
            if decoder.push(block).is_err() {
                decoder.recover();
            }
        }
    }
}

#[test]
fn checksums_are_read_before_and_after_the_data() {
    let file = |path: &[u8], blake3| Member {
        path: path.to_vec(),
        stored: 3,
        size: 3,
        blake3,
        ..Member::default()
    };
    let mut archive = Vec::new();
    for (path, before) in [(b"a", Some([7; 32])), (b"b", None)] {
        header(&file(path, before), &mut archive);
        archive.extend_from_slice(&[b'x'; BLOCK]);
    }
    trailer(&[9; 32], &mut archive);
    end(&mut archive);
    let events = read(&archive).unwrap();
    let [
        Event::Member {
            member: a, at: 0, ..
        },
        Event::Member {
            member: b,
            at: 2048,
            ..
        },
        Event::Checksum(sum),
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!((a.blake3, b.blake3, *sum), (Some([7; 32]), None, [9; 32]));
}

#[test]
fn malformed_archives_are_refused_with_the_offset() {
    let with = |parts: &[&[u8]]| {
        let mut archive = parts.concat();
        end(&mut archive);
        archive
    };
    let file = raw(b'0', 0, |_| {});
    let records = |letter, text: &[u8]| {
        let mut block = [raw(letter, text.len() as u64, |_| {}).as_slice(), text].concat();
        block.resize(block.len().next_multiple_of(BLOCK), 0);
        block
    };
    let mut spoilt = file;
    spoilt[0] ^= 1;
    assert_eq!(
        fault(&with(&[&file, &spoilt])),
        Fault {
            at: 512,
            what: "wrong header checksum"
        }
    );
    assert_eq!(
        fault(&with(&[&records(b'x', b"10 path=\0\n"), &file])),
        Fault {
            at: 512,
            what: "a name contains a NUL"
        }
    );
    assert_eq!(
        fault(&with(&[&file, &records(b'x', b"5 a=\n9 b=\n")])).at,
        512 + 512 + 5
    );
    assert_eq!(
        fault(&with(&[
            &records(b'x', b"5 a=\n"),
            &records(b'x', b"5 a=\n")
        ]))
        .at,
        1024
    );
    assert!(
        fault(&with(&[&records(b'x', b"5 a=\n")]))
            .what
            .contains("between an extended header")
    );
    assert!(
        fault(&with(&[&file, &[0; BLOCK], &file]))
            .what
            .contains("single block")
    );
    assert!(
        fault(&with(&[
            &records(b'x', b"28 size=9223372036854775807\n"),
            &file
        ]))
        .what
        .contains("cut")
    );
    assert!(
        fault(&with(&[
            &records(b'x', b"28 size=9223372036854775808\n"),
            &file
        ]))
        .what
        .contains("invalid number")
    );
    assert!(
        fault(&with(&[&records(b'g', b"8 path=a\n")]))
            .what
            .contains("record")
    );
    assert!(
        fault(&with(&[&records(b'g', b"9 path=a\n")]))
            .what
            .contains("global")
    );
    for huge in [b'x', b'g', b'L', b'K'] {
        let block = raw(huge, 8 << 30, |_| {});
        assert!(fault(&with(&[&block])).what.contains("too long"), "{huge}");
    }
    let negative = raw(b'0', 0, |block| block[SIZE].fill(0xff));
    assert!(fault(&with(&[&negative])).what.contains("size"));
    let sparse = |text: &[u8], size, data: &[u8]| {
        let mut archive = records(b'x', text);
        archive.extend_from_slice(&raw(b'0', size, |_| {}));
        archive.extend_from_slice(data);
        fault(&with(&[&archive])).what
    };
    let map = |text: &[u8]| [text, &vec![0; BLOCK - text.len()]].concat();
    let head = b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n28 GNU.sparse.realsize=1000\n";
    assert!(sparse(head, 512, &map(b"1\n1000\n1\n")).contains("exceeds its size"));
    assert!(sparse(head, 512, &map(b"1\n0\n5\n")).contains("match the stored size"));
    assert!(sparse(head, 512, &map(b"9999999\n")).contains("too many extents"));
    assert!(sparse(head, 512, &[b'1'; BLOCK]).contains("too large"));
    assert!(sparse(head, 512, &[map(b"2\n1\n"), map(b"")].concat()).contains("invalid number"));
    assert!(sparse(head, 700, &[[b'0'; BLOCK], [b'0'; BLOCK]].concat()).contains("incomplete"));
    assert!(
        sparse(
            b"22 GNU.sparse.major=2\n28 GNU.sparse.realsize=1000\n",
            0,
            b""
        )
        .contains("unknown format")
    );
    assert!(sparse(b"22 GNU.sparse.major=1\n", 0, b"").contains("no size"));
    let old = raw(b'S', 0, |block| {
        block[MAGIC].copy_from_slice(GNU);
        block[gnu::EXTENTS.start..][..24].copy_from_slice(b"00000000005\x0077777777777\0");
    });
    assert!(fault(&with(&[&old])).what.contains("exceeds its size"));
}

#[test]
fn recover_finds_the_next_valid_header() {
    let file = raw(b'0', 0, |_| {});
    let mut decoder = Decoder::new();
    assert!(decoder.push(&[1; BLOCK]).is_err());
    decoder.recover();
    for block in [[0; BLOCK], [2; BLOCK]] {
        assert_eq!(decoder.push(&block), Ok(Event::More));
        assert!(decoder.is_lost());
    }
    assert!(matches!(
        decoder.push(&file),
        Ok(Event::Member { at: 1536, .. })
    ));
    assert!(!decoder.is_lost());
}

#[test]
fn old_headers_give_long_names_and_prefixes() {
    let long = vec![b'l'; 700];
    let mut archive = raw(b'L', 701, |_| {}).to_vec();
    archive.extend_from_slice(&long);
    archive.resize(3 * BLOCK, 0);
    archive.extend_from_slice(&raw(b'0', 0, |block| block[MAGIC].copy_from_slice(GNU)));
    archive.extend_from_slice(&raw(0, 0, |block| {
        block[MAGIC].fill(0);
        block[4] = b'/';
    }));
    archive.extend_from_slice(&raw(b'0', 0, |block| {
        block[PREFIX][..4].copy_from_slice(b"a/b ")
    }));
    end(&mut archive);
    let members: Vec<_> = read(&archive)
        .unwrap()
        .into_iter()
        .map(|event| match event {
            Event::Member { member, .. } => (member.path, member.kind),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [
        (long, Kind::File),
        (b"name/".to_vec(), Kind::Directory),
        (b"a/b /name".to_vec(), Kind::File),
    ];
    assert_eq!(members, expected);
}
