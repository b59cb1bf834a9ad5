//! The buffer of a tree search: items lie in the buffer one after another, names lie in items, and
//! what is written anew is found again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::btrfs::{Inode, Item, Subvolume, is_name, items, kind, links, root_ref, way_to_root};

/// What stands before an item.
const HEADER: usize = 32;

fuzz_target!(|buffer: &[u8]| {
    let found: Vec<_> = items(buffer, usize::MAX).collect();
    let anew: Vec<u8> = found.iter().flat_map(record).collect();
    assert_eq!(
        anew.len(),
        found
            .iter()
            .map(|item| HEADER + item.data.len())
            .sum::<usize>()
    );
    assert!(anew.len() <= buffer.len());
    assert!(items(&anew, found.len()).eq(found.iter().copied()));
    assert_eq!(items(buffer, found.len() / 2).count(), found.len() / 2);

    for item in found {
        for kind in [
            item.key.1,
            kind::INODE_REF,
            kind::INODE_EXTREF,
            kind::DIR_INDEX,
            kind::ROOT_REF,
        ] {
            let item = Item {
                key: (item.key.0, kind, item.key.2),
                ..item
            };
            let names = links(item).map(|link| link.name);
            let names = names
                .chain(way_to_root(item))
                .chain(root_ref(item).map(|link| link.name));
            for name in names {
                assert!(item.data.as_ptr_range().contains(&name.as_ptr()) || name.is_empty());
                assert_eq!(
                    is_name(name),
                    !name.is_empty()
                        && name.len() < 256
                        && !name.iter().any(|b| b"/\0".contains(b))
                );
            }
        }
        assert_eq!(Inode::parse(item.data).is_some(), item.data.len() >= 160);
    }
    assert_eq!(Subvolume::parse(buffer).is_some(), buffer.len() >= 328);
});

fn record(item: &Item) -> Vec<u8> {
    let (object, kind, offset) = item.key;
    let words = [item.transid, object, offset]
        .map(u64::to_ne_bytes)
        .concat();
    let len = u32::try_from(item.data.len()).expect("it came from 32 bits");
    [
        &words[..],
        &u32::from(kind).to_ne_bytes(),
        &len.to_ne_bytes(),
        item.data,
    ]
    .concat()
}
