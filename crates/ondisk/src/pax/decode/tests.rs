//! Tests of the decoder.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::member::NOBODY;
use super::*;
use crate::pax::field::{GID, GNU, MAJOR, MINOR, MODE, MTIME, PREFIX, UID, star};
use crate::pax::{
    ArchiveId, Base, MemberKind, header, lineage_header, part_header, record, trailer,
};
use crate::{Dev, Time};

/// All events of an archive, up to its end or the first fault.
fn read(archive: &[u8]) -> Result<Vec<Event>, Fault> {
    let mut decoder = Decoder::new();
    let mut events = Vec::new();
    while let Some(block) = archive
        .get(decoder.at as usize..)
        .and_then(<[u8]>::first_chunk)
    {
        let event = decoder.push(block)?;
        if let [fault, ..] = decoder.take_faults()[..] {
            return Err(fault);
        }
        match event {
            Event::More => {}
            Event::End => return Ok(events),
            event => events.push(event),
        }
    }
    Err(Fault {
        at: decoder.at,
        what: "cut",
    })
}

/// Names of all members, and the faults in an archive that is read to its end.
fn read_all(archive: &[u8]) -> (Vec<String>, Vec<&'static str>) {
    let (mut decoder, mut names, mut faults) = (Decoder::new(), Vec::new(), Vec::new());
    while let Some(block) = archive
        .get(decoder.at as usize..)
        .and_then(<[u8]>::first_chunk)
    {
        match decoder.push(block) {
            Ok(Event::Member { member, .. }) => {
                names.push(String::from_utf8(member.path).unwrap());
            }
            Ok(Event::End) => {
                faults.extend(decoder.take_faults().iter().map(|fault| fault.what));
                return (names, faults);
            }
            Ok(_) => {}
            Err(fault) => {
                faults.push(fault.what);
                decoder.recover();
            }
        }
        faults.extend(decoder.take_faults().iter().map(|fault| fault.what));
    }
    (names, faults)
}

/// A tar member with data, as header and data blocks.
fn named(name: &str, letter: u8, data: &[u8], edit: impl FnOnce(&mut [u8; BLOCK])) -> Vec<u8> {
    let header = raw(letter, data.len() as u64, |block| {
        block[..4].fill(0);
        block[..name.len()].copy_from_slice(name.as_bytes());
        edit(block);
    });
    let mut archive = [&header[..], data].concat();
    archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    archive
}

/// A pax extended header with these records.
fn extended(letter: u8, records: &[(&str, &str)]) -> Vec<u8> {
    let mut text = Vec::new();
    for (key, value) in records {
        record::push(&mut text, key.as_bytes(), value.as_bytes());
    }
    named("x", letter, &text, |_| {})
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
            3 => Just(MemberKind::File), 1 => Just(MemberKind::Link), 1 => Just(MemberKind::Symlink), 1 => Just(MemberKind::Char),
            1 => Just(MemberKind::Block), 1 => Just(MemberKind::Directory), 1 => Just(MemberKind::Fifo),
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
        if kind == MemberKind::Directory {
            path.push(b'/');
        }
        let is_file = kind == MemberKind::File;
        let mut member = Member {
            path,
            kind,
            link: if matches!(kind, MemberKind::Link | MemberKind::Symlink) { link } else { Vec::new() },
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
            rdev: if matches!(kind, MemberKind::Char | MemberKind::Block) { Dev::new(ids[2], ids[3]) } else { Dev::default() },
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
fn the_part_of_a_dump_is_read_before_the_first_member() {
    let part = PartOfRun {
        number: 2,
        of: 3,
        run: "1 run=x\n".to_owned(),
    };
    let member = Member {
        path: b"a".to_vec(),
        ..Member::default()
    };
    let mut archive = Vec::new();
    part_header(&part, &mut archive);
    header(&member, &mut archive);
    end(&mut archive);
    let events = read(&archive).unwrap();
    assert_eq!(events[0], Event::Part(part));
    for text in [
        "part=3/3 run=x",
        "part=1 run=x",
        "part=0/1",
        "part=a/b run=",
    ] {
        let mut archive = extended(b'g', &[("comment", text)]);
        header(&member, &mut archive);
        end(&mut archive);
        assert!(matches!(
            read(&archive).unwrap()[..],
            [Event::Member { .. }]
        ));
    }
}

#[test]
fn ids_are_read_before_the_first_member() {
    let member = Member {
        path: b"a".to_vec(),
        ..Member::default()
    };
    let (id, other) = (ArchiveId(7), ArchiveId(u128::MAX));
    for base in [Base::Nothing, Base::Unknown, Base::Archive(other)] {
        let lineage = Lineage { id, base };
        let mut archive = Vec::new();
        lineage_header(&lineage, &mut archive);
        header(&member, &mut archive);
        end(&mut archive);
        let events = read(&archive).unwrap();
        assert_eq!(events[0], Event::Lineage(lineage));
        assert!(matches!(events[1], Event::Member { .. }));
    }
    let id = id.to_string();
    for text in [
        "archive=".to_owned(),
        format!("archive=+{}", &id[1..]),
        format!("archive={id}0"),
        format!("archive={id} base="),
        format!("archive={id} base=none"),
        format!("archive={} base={id}", &id[1..]),
    ] {
        let mut archive = extended(b'g', &[("comment", &text)]);
        header(&member, &mut archive);
        end(&mut archive);
        let events = read(&archive).unwrap();
        assert!(matches!(events[..], [Event::Member { .. }]), "{text}");
    }
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
        (long, MemberKind::File),
        (b"name/".to_vec(), MemberKind::Directory),
        (b"a/b /name".to_vec(), MemberKind::File),
    ];
    assert_eq!(members, expected);
}

#[test]
fn directories_have_no_data_whatever_their_size() {
    let directory = |name: &str, letter, magic: &[u8; 8]| {
        named(name, letter, b"", |block| {
            block[MAGIC].copy_from_slice(magic);
            field::put(block, SIZE, 100);
        })
    };
    for magic in [field::POSIX, GNU, &[0; 8]] {
        for (name, letter) in [("d", b'5'), ("d/", b'0'), ("d/", 0), ("d/", b'7')] {
            let mut archive = directory(name, letter, magic);
            archive.extend(named("next", b'0', b"data", |_| {}));
            end(&mut archive);
            let expected = vec![name.to_owned(), "next".to_owned()];
            assert_eq!(read_all(&archive), (expected, vec![]), "{letter}");
        }
    }
    let mut archive = named("d/", b'D', b"Yname\0\0", |_| {});
    archive.extend(named("next", b'0', b"data", |_| {}));
    end(&mut archive);
    let Event::Member { member, .. } = &read(&archive).unwrap()[0] else {
        panic!("no member")
    };
    assert_eq!(member.dumpdir.as_deref(), Some(&b"Yname\0\0"[..]));
    assert_eq!(read_all(&archive).0, ["d/", "next"]);
}

#[test]
fn members_after_a_fault_are_read() {
    let next = named("next", b'0', b"data", |_| {});
    let all = |parts: &[&[u8]]| {
        let mut archive = parts.concat();
        archive.extend(&next);
        end(&mut archive);
        let (names, faults) = read_all(&archive);
        (names.join(" "), faults.join("; "))
    };
    // An archive inside the data of a lost member must not be read as members.
    let inner = named("inner", b'0', b"", |_| {});
    let sparse = [
        extended(b'x', &[("GNU.sparse.size", "9"), ("GNU.sparse.map", "x")]),
        named("s", b'0', &inner, |_| {}),
    ]
    .concat();
    let (names, faults) = all(&[&sparse]);
    assert_eq!(names, "next");
    assert!(faults.contains("map of a sparse file"), "{faults}");
    let mut spoilt = named("bad", b'0', &[b'q'; 600], |_| {});
    spoilt[0] ^= 1;
    assert_eq!(
        all(&[&spoilt]),
        ("next".into(), "wrong header checksum".into())
    );
    for (edit, fault) in [
        (MODE, "invalid mode in a header; only the owner has access"),
        (UID, "invalid owner in a header; nobody is used"),
        (GID, "invalid group in a header; nogroup is used"),
        (MTIME, "invalid time in a header"),
    ] {
        let member = named("m", b'0', b"", |block| block[edit.start] = b'9');
        assert_eq!(all(&[&member]), ("m next".into(), fault.into()));
    }
    let size = named("m", b'0', b"", |block| block[SIZE.start] = b'9');
    assert_eq!(
        all(&[&size]),
        ("next".into(), "invalid size in a header".into())
    );
    let record = [
        extended(b'x', &[("mtime", "z"), ("path", "new")]),
        inner.clone(),
    ]
    .concat();
    assert_eq!(
        all(&[&record]),
        ("new next".into(), "invalid time in a record".into())
    );
    let name = [extended(b'x', &[("path", "a\0b")]), inner.clone()].concat();
    assert_eq!(
        all(&[&name]),
        ("next".into(), "a name contains a NUL".into())
    );
    let twice = [
        extended(b'x', &[("path", "one"), ("uid", "7")]),
        extended(b'x', &[("path", "two")]),
        inner.clone(),
    ]
    .concat();
    assert_eq!(all(&[&twice]), ("two next".into(), String::new()));
    let unknown = [
        named("q", b'Q', b"data", |_| {}),
        named("a", b'a', b"", |_| {}),
    ]
    .concat();
    let (names, faults) = all(&[&unknown]);
    assert_eq!(names, "q a next");
    assert!(faults.contains("plain file"), "{faults}");
}

#[test]
fn too_long_headers_cost_their_member_only() {
    let next = named("next", b'0', b"", |_| {});
    for (letter, len) in [
        (b'x', MOST_EXTENDED),
        (b'L', MOST_NAME),
        (b'K', MOST_NAME),
        (b'g', MOST_OTHER),
    ] {
        let mut archive = named("x", letter, &vec![b'1'; len + 1], |_| {});
        archive.extend(named("lost", b'0', b"data", |_| {}));
        archive.extend(&next);
        end(&mut archive);
        let (names, faults) = read_all(&archive);
        assert_eq!(faults, ["an extended header is too long"]);
        let expected: &[&str] = if letter == b'g' {
            &["lost", "next"]
        } else {
            &["next"]
        };
        assert_eq!(names, expected);
    }
    // Only the last extended header counts.
    let mut archive = named("x", b'x', &vec![b'1'; MOST_EXTENDED + 1], |_| {});
    archive.extend(extended(b'x', &[("path", "kept")]));
    archive.extend(named("x", b'0', b"", |_| {}));
    end(&mut archive);
    assert_eq!(read_all(&archive).0, ["kept"]);
}

/// Two extended headers before a member: GNU tar, bsdtar and Go use the last one.
#[test]
fn of_two_extended_headers_the_last_counts() {
    let mut archive = extended(
        b'x',
        &[("path", "one"), ("uid", "7"), ("SCHILY.xattr.user.a", "1")],
    );
    archive.extend(extended(b'x', &[("path", "two"), ("gid", "8")]));
    archive.extend(named("m", b'0', b"", |_| {}));
    end(&mut archive);
    match &read(&archive).unwrap()[..] {
        [Event::Member { member, at: 0, .. }] => {
            assert_eq!(
                (&member.path[..], member.uid, member.gid),
                (&b"two"[..], 0, 8)
            );
            assert!(member.xattrs.is_empty());
        }
        other => panic!("{other:?}"),
    }
}

/// Names of several MiB, and more attributes than usual: only the length of an extended header
/// limits them.
#[test]
fn long_headers_are_read_as_they_were_written() {
    let xattrs = (0..200).map(|n| (format!("user.{n:03}").into_bytes(), vec![n; 60_000]));
    let member = Member {
        path: b"dir/".repeat(1 << 20),
        kind: MemberKind::Link,
        link: b"d/".repeat(2 << 20),
        xattrs: xattrs.collect(),
        acl_access: Some(b"user:12345678:rw-\n".repeat(8190)),
        ..Member::default()
    };
    let mut archive = Vec::new();
    header(&member, &mut archive);
    end(&mut archive);
    match &read(&archive).unwrap()[..] {
        [Event::Member { member: read, .. }] => assert!(**read == member),
        other => panic!("{} events", other.len()),
    }
}

#[test]
fn directories_with_too_many_names_are_read_without_them() {
    let names = vec![b'Y'; dumpdir::MOST + 1];
    let mut record_of_names = Vec::new();
    record::push(&mut record_of_names, b"GNU.dumpdir", &names);
    let directory = named("d/", b'5', b"", |_| {});
    for mut archive in [
        named("d/", b'D', &names, |_| {}),
        [named("x", b'x', &record_of_names, |_| {}), directory].concat(),
    ] {
        archive.extend(named("next", b'0', b"", |_| {}));
        end(&mut archive);
        let (members, faults) = read_all(&archive);
        assert_eq!(members, ["d/", "next"]);
        assert_eq!(faults, ["a dumpdir is too long; it is skipped"]);
    }
}

#[test]
fn long_maps_in_records_are_read() {
    let extents = 100_000;
    let list: Vec<String> = (0..extents).map(|n| format!("{},1", n * 4096)).collect();
    let size = (extents * 4096).to_string();
    let mut archive = extended(
        b'x',
        &[
            ("GNU.sparse.size", &size),
            ("GNU.sparse.map", &list.join(",")),
        ],
    );
    assert!(archive.len() > 1 << 20);
    archive.extend(named("s", b'0', &vec![b'd'; extents], |_| {}));
    end(&mut archive);
    let events = read(&archive).unwrap();
    let [Event::Member { member, .. }] = &events[..] else {
        panic!("{} events", events.len())
    };
    assert_eq!(member.sparse.as_ref().unwrap().extents().len(), extents);
}

#[test]
fn ends_of_archives_are_read_as_by_gnu_tar() {
    let file = named("a", b'0', b"", |_| {});
    let after = named("b", b'0', b"", |_| {});
    let lone = read_all(&[&file[..], &[0; BLOCK], &after].concat());
    assert_eq!(lone.0, ["a"]);
    assert!(lone.1[0].contains("single block"), "{lone:?}");
    let header = extended(b'x', &[("path", "lost")]);
    let within = read_all(&[&file[..], &header, &[0; 2 * BLOCK]].concat());
    assert_eq!(within.0, ["a"]);
    assert!(
        within.1[0].contains("between an extended header"),
        "{within:?}"
    );
}

#[test]
fn empty_values_remove_those_of_global_headers() {
    let mut archive = extended(b'g', &[("uid", "77"), ("gid", "78")]);
    archive.extend(named("a", b'0', b"", |_| {}));
    archive.extend(extended(b'x', &[("uid", "")]));
    archive.extend(named("b", b'0', b"", |_| {}));
    archive.extend(extended(b'g', &[("uid", "")]));
    archive.extend(named("c", b'0', b"", |_| {}));
    end(&mut archive);
    let events = read(&archive).unwrap().into_iter();
    let ids: Vec<_> = events
        .map(|event| match event {
            Event::Member { member, .. } => (member.uid, member.gid),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ids, [(77, 78), (0, 78), (0, 78)]);
}

#[test]
fn ids_are_those_of_the_header() {
    let owner = |bytes: &[u8; 8]| {
        let archive = named("f", b'0', b"", |block| {
            block[UID].copy_from_slice(bytes);
            field::put(block, MODE, 0o6755);
        });
        let mut decoder = Decoder::new();
        match decoder.push(archive.first_chunk().unwrap()) {
            Ok(Event::Member { member, .. }) => (member.uid, member.mode),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(owner(b"\x80\0\0\0\xff\xff\xff\xfe"), (u32::MAX - 1, 0o6755));
    assert_eq!(
        owner(b"\xff\xff\xff\xff\xff\xff\xff\xfe"),
        (u32::MAX - 1, 0o6755)
    );
    // A set-user-ID program of an unknown owner must not become a set-user-ID program of the user
    // who restores it.
    assert_eq!(owner(b"\x80\0\0\x01\0\0\0\0"), (NOBODY, 0o755));
    assert_eq!(owner(b"9999999\0"), (NOBODY, 0o755));
    assert_eq!(owner(b"\x80\0\0\0\xff\xff\xff\xff"), (u32::MAX, 0o755));
}

#[test]
fn device_numbers_are_read_from_ustar_headers_only() {
    let device = |magic: &[u8; 8], major: &[u8; 8]| {
        named("d", b'3', b"", |block| {
            block[MAGIC].copy_from_slice(magic);
            block[MAJOR].copy_from_slice(major);
            block[MINOR].copy_from_slice(b"0000003\0");
        })
    };
    let rdev = |archive: &[u8]| match Decoder::new().push(archive.first_chunk().unwrap()) {
        Ok(Event::Member { member, .. }) => Some((member.rdev.major, member.rdev.minor)),
        _ => None,
    };
    assert_eq!(rdev(&device(field::POSIX, b"0000001\0")), Some((1, 3)));
    assert_eq!(rdev(&device(GNU, b"0000001\0")), Some((1, 3)));
    assert_eq!(rdev(&device(&[0; 8], b"0000001\0")), Some((0, 0)));
    assert_eq!(rdev(&device(&[0; 8], b"garbage!")), Some((0, 0)));
    assert_eq!(rdev(&device(field::POSIX, b"garbage!")), None);
}

#[test]
fn sparse_files_of_star_are_read() {
    let number = |n: u64| format!("{n:011o} ").into_bytes();
    let extent = |offset, len| [number(offset), number(len)].concat();
    let data = vec![b'd'; 600];
    // In the old format, the header has four extents, and a flag that more follow.
    for (in_header, magic) in [(true, field::POSIX), (false, field::POSIX), (true, &[0; 8])] {
        let mut blocks = vec![0u8; BLOCK];
        let extents = [extent(0, 100), extent(4096, 500), extent(8192, 0)].concat();
        let mut content = Vec::new();
        if !in_header {
            blocks[..extents.len()].copy_from_slice(&extents);
            content.extend(&blocks);
        }
        content.extend(&data);
        let mut archive = named("s", b'S', &content, |block| {
            block[MAGIC].copy_from_slice(magic);
            if in_header {
                block[star::EXTENTS.start..][..extents.len()].copy_from_slice(&extents);
            }
            block[star::REAL_SIZE].copy_from_slice(&number(8192));
            block[star::MAGIC].copy_from_slice(b"tar\0");
        });
        archive.extend(named("next", b'0', b"", |_| {}));
        end(&mut archive);
        let events = read(&archive).unwrap();
        let [
            Event::Member { member, data, .. },
            Event::Member { member: next, .. },
        ] = &events[..]
        else {
            panic!("{events:?}")
        };
        let extents = member.sparse.as_ref().unwrap().extents();
        let extents: Vec<_> = extents.iter().map(|it| (it.offset, it.len)).collect();
        assert_eq!(extents, [(0, 100), (4096, 500)]);
        assert_eq!(
            (member.size, *data, &next.path[..]),
            (8192, 600, &b"next"[..])
        );
    }
}

#[test]
fn lists_of_solaris_are_those_of_the_next_member() {
    let list =
        b"1000007\0user::rw-,user:lp:--x:71,mask:r--,other:r--,defaultuser::rwx,defaultother:---\0";
    let mut archive = named("acl", b'A', list, |_| {});
    archive.extend(named("a", b'0', b"", |_| {}));
    archive.extend(named(
        "nfs4",
        b'A',
        b"3000001\0owner@:rw-p--aARWcCos:-------:allow\0",
        |_| {},
    ));
    archive.extend(named("b", b'0', b"", |_| {}));
    end(&mut archive);
    let (names, faults) = read_all(&archive);
    assert_eq!(
        (names, faults),
        (
            vec!["a".into(), "b".into()],
            vec!["an access control list of NFSv4 is skipped"]
        )
    );
    let mut decoder = Decoder::new();
    let mut blocks = archive.as_chunks().0.iter();
    let member = blocks.find_map(|block| match decoder.push(block) {
        Ok(Event::Member { member, .. }) => Some(member),
        _ => None,
    });
    let member = member.unwrap();
    assert_eq!(
        member.acl_access.unwrap(),
        b"user::rw-,user:lp:--x:71,mask:r--,other:r--"
    );
    assert_eq!(
        member.acl_default.unwrap(),
        b"defaultuser::rwx,defaultother:---"
    );
}
