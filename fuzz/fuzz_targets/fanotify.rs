//! Mount events: as many as the bytes have room for, and found again when they are written anew.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::fanotify::{MountEvent, events};

/// The length of an event that tells of no mount.
const METADATA: usize = 24;

fuzz_target!(|buffer: &[u8]| {
    let found: Vec<_> = events(buffer).collect();
    assert!(found.len() <= buffer.len() / METADATA);

    let anew: Vec<u8> = found.iter().flat_map(event).collect();
    assert!(events(&anew).eq(found.iter().copied()));

    // A buffer that ends too soon loses its last events, and no others change.
    let half: Vec<_> = events(&buffer[..buffer.len() / 2]).collect();
    assert!(found.starts_with(&half));
});

fn event(event: &MountEvent) -> Vec<u8> {
    let mut bytes = vec![0; METADATA];
    bytes[4] = 3; // FANOTIFY_METADATA_VERSION
    bytes[6..8].copy_from_slice(&(METADATA as u16).to_ne_bytes());
    bytes[8..16].copy_from_slice(&event.mask.to_ne_bytes());
    if let Some(id) = event.mount {
        bytes.extend([7, 0]); // FAN_EVENT_INFO_TYPE_MNT
        bytes.extend(16u16.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(id.to_ne_bytes());
    }
    let length = u32::try_from(bytes.len()).expect("an event is short");
    bytes[..4].copy_from_slice(&length.to_ne_bytes());
    bytes
}
