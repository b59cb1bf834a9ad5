//! BTF, the kernel's description of its own types in /sys/kernel/btf/vmlinux: offsets of struct fields.
//! [BPF Type Format](https://docs.kernel.org/bpf/btf.html)

use crate::{u16_at, u32_at};

/// The types of one kernel.
#[derive(Debug)]
pub struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// The offset of each type; type 1 is the first.
    starts: Vec<u32>,
}

/// A field of a struct.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Offset in the struct, in bytes.
    pub offset: u32,
    /// The number of its type.
    pub kind: u32,
}

/// Length of a type's header: its name, its kind, and its size or another type.
const HEAD: usize = 12;
/// The most anonymous structs that are searched for a field: malformed ones contain each other.
const MOST_ANONYMOUS: u32 = 1000;
/// How deep they may be nested.
const DEPTH: u32 = 8;

const STRUCT: u32 = 4;
const UNION: u32 = 5;

impl<'a> Btf<'a> {
    /// Indexes the types; `None` when the bytes are not BTF, end too early, or have an unknown kind of
    /// type.
    pub fn parse(bytes: &'a [u8]) -> Option<Btf<'a>> {
        const MAGIC: u16 = 0xeb9f;
        if u16_at(bytes, 0)? != MAGIC {
            return None;
        }
        let number = |at| u32_at(bytes, at).and_then(|n| usize::try_from(n).ok());
        let body = bytes.get(number(4)?..)?;
        let part = |from: usize, len: usize| body.get(from..from.checked_add(len)?);
        let types = part(number(8)?, number(12)?)?;
        let strings = part(number(16)?, number(20)?)?;
        let mut starts = Vec::new();
        let mut at = 0;
        while at < types.len() {
            starts.push(u32::try_from(at).ok()?);
            at = at
                .checked_add(HEAD)?
                .checked_add(tail(u32_at(types, at + 4)?)?)?;
        }
        Some(Btf {
            types,
            strings,
            starts,
        })
    }

    /// The numbers of the structs with these names, in one pass: there are a hundred thousand types.
    pub fn structures<const N: usize>(&self, names: [&[u8]; N]) -> [Option<u32>; N] {
        let mut found = [None; N];
        let mut missing = N;
        for (&start, number) in self.starts.iter().zip(1..) {
            let start = start as usize;
            if self.word(start + 4).is_none_or(|info| kind(info) != STRUCT) {
                continue;
            }
            for (name, found) in names.iter().zip(&mut found) {
                if found.is_none() && self.is_named(start, name) {
                    *found = Some(number);
                    missing -= 1;
                }
            }
            if missing == 0 {
                break;
            }
        }
        found
    }

    /// Size of a struct or another type with a size, in bytes.
    pub fn size(&self, number: u32) -> Option<u32> {
        self.word(self.start(number)? + 8)
    }

    /// A field of a struct, or of an anonymous struct or union in it. Bit fields are not found.
    pub fn member(&self, number: u32, name: &[u8]) -> Option<Member> {
        self.member_within(number, name, DEPTH, &mut { MOST_ANONYMOUS })
    }

    fn member_within(
        &self,
        number: u32,
        name: &[u8],
        depth: u32,
        left: &mut u32,
    ) -> Option<Member> {
        const BYTES: usize = 12;
        let start = self.start(number)?;
        let info = self.word(start + 4)?;
        if !matches!(kind(info), STRUCT | UNION) {
            return None;
        }
        (0..vlen(info)).find_map(|n| {
            let at = start + HEAD + n * BYTES;
            let (named, kind, place) = (self.word(at)?, self.word(at + 4)?, self.word(at + 8)?);
            // With the flag, the upper byte is the width of a bit field.
            let (bits, width) = if info >> 31 == 1 {
                (place & 0xff_ffff, place >> 24)
            } else {
                (place, 0)
            };
            let offset = bits / 8;
            if named == 0 && depth > 0 {
                *left = left.checked_sub(1)?;
                let inner = self.member_within(kind, name, depth - 1, left)?;
                return Some(Member {
                    offset: offset.checked_add(inner.offset)?,
                    ..inner
                });
            }
            (width == 0 && bits % 8 == 0 && self.is_named(at, name))
                .then_some(Member { offset, kind })
        })
    }

    fn start(&self, number: u32) -> Option<usize> {
        let before = usize::try_from(number.checked_sub(1)?).ok()?;
        self.starts.get(before).map(|&start| start as usize)
    }

    fn word(&self, at: usize) -> Option<u32> {
        u32_at(self.types, at)
    }

    /// Whether the type or field at an offset has this name: its first word refers to a string.
    fn is_named(&self, at: usize, name: &[u8]) -> bool {
        let string = self
            .word(at)
            .and_then(|from| self.strings.get(from as usize..));
        string
            .and_then(|string| string.strip_prefix(name))
            .is_some_and(|rest| rest.first() == Some(&0))
    }
}

fn kind(info: u32) -> u32 {
    info >> 24 & 0x1f
}

fn vlen(info: u32) -> usize {
    (info & 0xffff) as usize
}

/// Bytes that follow the header of a type.
fn tail(info: u32) -> Option<usize> {
    Some(match kind(info) {
        2 | 7..=12 | 16 | 18 => 0, // pointers and the like, forward declarations, functions, floats
        1 | 14 | 17 => 4,          // integers, variables, tags of declarations
        3 => 12,                   // arrays
        STRUCT | UNION | 15 | 19 => 12 * vlen(info), // and sections, and enumerations of 64 bits
        6 | 13 => 8 * vlen(info),  // enumerations, prototypes
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `struct task { int state; union { int pid; struct { int low, tgid; }; }; int bit:1; };`, in
    /// that order of types: int, the inner struct, the union, `task`.
    fn sample() -> Vec<u8> {
        let strings = b"\0int\0task\0state\0pid\0low\0tgid\0bit\0";
        let name = |name: &str| {
            let wanted = [b"\0", name.as_bytes(), b"\0"].concat();
            strings
                .windows(wanted.len())
                .position(|w| w == wanted)
                .map_or(0, |at| at as u32 + 1)
        };
        let of = |kind: u32, flag: u32, vlen: u32| flag << 31 | kind << 24 | vlen;
        let types = [
            [name("int"), of(1, 0, 0), 4, 32].to_vec(),
            [
                0,
                of(STRUCT, 0, 2),
                8,
                name("low"),
                1,
                0,
                name("tgid"),
                1,
                32,
            ]
            .to_vec(),
            [0, of(UNION, 0, 2), 8, name("pid"), 1, 0, 0, 2, 0].to_vec(),
            [
                name("task"),
                of(STRUCT, 1, 3),
                16,
                name("state"),
                1,
                0,
                0,
                3,
                32,
                name("bit"),
                1,
                1 << 24 | 96,
            ]
            .to_vec(),
        ]
        .concat();
        let types: Vec<u8> = types.into_iter().flat_map(u32::to_ne_bytes).collect();
        let mut bytes = [0xeb9fu16.to_ne_bytes(), [1, 0]].concat();
        for word in [
            24,
            0,
            types.len() as u32,
            types.len() as u32,
            strings.len() as u32,
        ] {
            bytes.extend(word.to_ne_bytes());
        }
        [bytes, types, strings.to_vec()].concat()
    }

    #[test]
    fn fields_are_found_in_anonymous_structs_too() {
        let bytes = sample();
        let btf = Btf::parse(&bytes).unwrap();
        let [nothing, task, again] = btf.structures([b"tas", b"task", b"task"]);
        assert_eq!((nothing, again), (None, task));
        let task = task.unwrap();
        assert_eq!((btf.starts.len(), task, btf.size(task)), (4, 4, Some(16)));
        let offset = |name: &[u8]| btf.member(task, name).map(|member| member.offset);
        assert_eq!(
            [b"state".as_slice(), b"pid", b"tgid", b"tg", b"bit"].map(offset),
            [Some(0), Some(4), Some(8), None, None]
        );
        assert_eq!(
            (btf.structures([b"int"]), btf.member(1, b"pid")),
            ([None], None)
        );
        assert_eq!((btf.size(0), btf.size(5)), (None, None));
    }

    #[test]
    fn a_struct_that_contains_itself_is_searched_once() {
        let mut bytes = sample();
        let inner = 24 + 16 + 12; // the field `low` of the inner struct: without a name, and of the struct's own type
        bytes[inner..inner + 4].fill(0);
        bytes[inner + 4..inner + 8].copy_from_slice(&2u32.to_ne_bytes());
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(btf.member(4, b"nothing"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Btf::parse(&bytes);
        }

        #[test]
        fn no_change_makes_it_panic(changes in proptest::collection::vec((0usize..200, any::<u8>()), 0..6), cut in 0usize..250) {
            let mut bytes = sample();
            for (at, value) in changes {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            bytes.truncate(cut);
            if let Some(btf) = Btf::parse(&bytes) {
                for number in 0..8 {
                    let _ = (btf.size(number), btf.member(number, b"tgid"), btf.structures([b"task"]));
                }
            }
        }
    }
}
