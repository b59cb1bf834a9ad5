//! Mount events of fanotify. [fanotify(7)](https://man7.org/linux/man-pages/man7/fanotify.7.html),
//! `FAN_REPORT_MNT`

use crate::{u16_at, u32_at, u64_at};

/// A mount event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MountEvent {
    /// `FAN_MNT_ATTACH`, `FAN_MNT_DETACH` or `FAN_Q_OVERFLOW`.
    pub mask: u64,
    /// 64-bit id of the mount; `None` for an overflow.
    pub mount: Option<u64>,
}

/// The events in a buffer that was read from a fanotify group. Ends early at malformed bytes.
pub fn events(buffer: &[u8]) -> impl Iterator<Item = MountEvent> {
    const METADATA: usize = 24;
    const VERSION: u8 = 3;
    const INFO_TYPE_MNT: u8 = 7;
    let mut rest = buffer;
    std::iter::from_fn(move || {
        let length = u32_at(rest, 0)? as usize;
        let event = rest.get(..length).filter(|_| length >= METADATA)?;
        let mask = u64_at(event, 8)?;
        rest = &rest[length..];
        let metadata = usize::from(u16_at(event, 6)?);
        let mut info = event
            .get(metadata..)
            .filter(|_| metadata >= METADATA && event[4] == VERSION)?;
        let mut mount = None;
        while let Some(length) = u16_at(info, 2)
            .map(usize::from)
            .filter(|&n| n >= 4 && n <= info.len())
        {
            if info[0] == INFO_TYPE_MNT {
                mount = u64_at(&info[..length], 8); // the mount id follows four bytes of padding
            }
            info = &info[length..];
        }
        Some(MountEvent { mask, mount })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(mask: u64, mount: Option<u64>) -> Vec<u8> {
        let mut bytes = vec![0u8; 24];
        bytes[4] = 3;
        bytes[6..8].copy_from_slice(&24u16.to_ne_bytes());
        bytes[8..16].copy_from_slice(&mask.to_ne_bytes());
        if let Some(id) = mount {
            bytes.extend([7, 0]);
            bytes.extend(16u16.to_ne_bytes());
            bytes.extend([0; 4]);
            bytes.extend(id.to_ne_bytes());
        }
        let length = (bytes.len() as u32).to_ne_bytes();
        bytes[..4].copy_from_slice(&length);
        bytes
    }

    #[test]
    fn events_and_an_overflow_are_parsed() {
        let buffer = [event(0x100_0000, Some(77)), event(0x4000, None)].concat();
        let found: Vec<_> = events(&buffer).map(|e| (e.mask, e.mount)).collect();
        assert_eq!(found, [(0x100_0000, Some(77)), (0x4000, None)]);
    }

    proptest! {
        #[test]
        fn no_buffer_makes_it_panic(buffer in proptest::collection::vec(any::<u8>(), 0..200)) {
            events(&buffer).for_each(drop);
        }
    }
}
