//! BTF, the kernel's description of its own types in /sys/kernel/btf/vmlinux: offsets of struct fields.
//! [BPF Type Format](https://docs.kernel.org/bpf/btf.html)

use std::collections::HashMap;

use crate::{u16_at, u32_at};

/// The BTF types of one kernel.
#[derive(Debug)]
pub struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Offset of each BTF type; the first is type 1.
    starts: Vec<u32>,
}

/// Length of a BTF type's header: name, kind, and its size or a referenced type.
const HEAD: usize = 12;
const MAGIC: u16 = 0xeb9f;
/// Length of the BTF header.
const BYTES: u32 = 24;

const INT: u32 = 1;
const POINTER: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const ENUM64: u32 = 19;

impl<'a> Btf<'a> {
    /// Indexes the types; `None` if the bytes are not BTF, are truncated, or have an unknown kind
    /// of type.
    pub fn parse(bytes: &'a [u8]) -> Option<Btf<'a>> {
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

    /// Finds the type numbers of the structs with these names, in one pass over all types, of which
    /// a kernel has about a hundred thousand.
    fn structures<const N: usize>(&self, names: [&[u8]; N]) -> [Option<u32>; N] {
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

    /// BTF with only the structs of these names and the types of their fields; pointers become
    /// `void *`. With all types, a loader of BPF programs takes forty times as long.
    ///
    /// `None` if a type number or string offset is out of range.
    pub fn extract<const N: usize>(&self, names: [&[u8]; N]) -> Option<Vec<u8>> {
        let mut extract = Extract::default();
        for number in self.structures(names).into_iter().flatten() {
            extract.renumber(number);
        }
        let mut builder = Builder::default();
        let mut at = 0;
        while let Some(&number) = extract.wanted.get(at) {
            let words = self.copy_type(number, &mut extract, &mut builder.strings)?;
            builder.add(&words);
            at += 1;
        }
        Some(builder.finish())
    }

    /// Copies a BTF type as 32-bit words with new numbers: names become offsets in `strings`, and
    /// references become type numbers of `extract`.
    fn copy_type(
        &self,
        number: u32,
        extract: &mut Extract,
        strings: &mut Strings,
    ) -> Option<Vec<u32>> {
        let start = self.start(number)?;
        let info = self.word(start + 4)?;
        let mut words = (0..(HEAD + tail(info)?) / 4)
            .map(|n| self.word(start + 4 * n))
            .collect::<Option<Vec<u32>>>()?;
        words[0] = strings.add(self.name(words[0])?);
        match kind(info) {
            POINTER => words[2] = 0,
            STRUCT | UNION => {
                for member in words[3..].chunks_exact_mut(3) {
                    member[0] = strings.add(self.name(member[0])?);
                    member[1] = extract.renumber(member[1]);
                }
            }
            ARRAY => {
                words[3] = extract.renumber(words[3]);
                words[4] = extract.renumber(words[4]);
            }
            // Typedefs, qualifiers and type tags refer to one type.
            8..=11 | 18 => words[2] = extract.renumber(words[2]),
            // Drop the constants of an enumeration.
            ENUM | ENUM64 => {
                words.truncate(3);
                words[1] &= !0xffff;
            }
            _ => {}
        }
        Some(words)
    }

    fn name(&self, at: u32) -> Option<&'a [u8]> {
        self.strings
            .get(at as usize..)?
            .split(|&byte| byte == 0)
            .next()
    }

    fn start(&self, number: u32) -> Option<usize> {
        let before = usize::try_from(number.checked_sub(1)?).ok()?;
        self.starts.get(before).map(|&start| start as usize)
    }

    fn word(&self, at: usize) -> Option<u32> {
        u32_at(self.types, at)
    }

    /// Whether the type or field at an offset has this name: its first word is a string offset.
    fn is_named(&self, at: usize, name: &[u8]) -> bool {
        let string = self
            .word(at)
            .and_then(|from| self.strings.get(from as usize..));
        string
            .and_then(|string| string.strip_prefix(name))
            .is_some_and(|rest| rest.first() == Some(&0))
    }
}

/// The BTF types to be extracted: `wanted` has their old numbers in order, `numbers` the new number
/// of each, from 1 on.
#[derive(Default)]
struct Extract {
    wanted: Vec<u32>,
    numbers: HashMap<u32, u32>,
}

impl Extract {
    fn renumber(&mut self, before: u32) -> u32 {
        if before == 0 {
            return 0; // type number 0 means void, in every BTF
        }
        *self.numbers.entry(before).or_insert_with(|| {
            self.wanted.push(before);
            self.wanted.len() as u32
        })
    }
}

/// The string section of BTF that is being written.
struct Strings(Vec<u8>);

impl Default for Strings {
    fn default() -> Strings {
        Strings(vec![0])
    }
}

impl Strings {
    fn add(&mut self, name: &[u8]) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let at = self.0.len() as u32;
        self.0.extend(name);
        self.0.push(0);
        at
    }
}

#[derive(Default)]
struct Builder {
    types: Vec<u8>,
    strings: Strings,
}

impl Builder {
    fn add(&mut self, words: &[u32]) {
        let bytes = words.iter().flat_map(|word| word.to_ne_bytes());
        self.types.extend(bytes);
    }

    fn finish(self) -> Vec<u8> {
        let (types, strings) = (self.types, self.strings.0);
        let mut bytes = [MAGIC.to_ne_bytes(), [1, 0]].concat();
        let len = types.len() as u32;
        for word in [BYTES, 0, len, len, strings.len() as u32] {
            bytes.extend(word.to_ne_bytes());
        }
        [bytes, types, strings].concat()
    }
}

/// A struct field with its offset, for [`describe`].
#[derive(Clone, Copy, Debug)]
pub enum Field<'a> {
    /// A 32-bit integer: name and byte offset.
    Number(&'a [u8], u32),
    /// A pointer: name and byte offset.
    Pointer(&'a [u8], u32),
}

/// BTF with a single struct, for a kernel without BTF whose field offsets are known from elsewhere.
pub fn describe(name: &[u8], fields: &[Field<'_>]) -> Vec<u8> {
    let mut builder = Builder::default();
    let int = builder.strings.add(b"int");
    builder.add(&[int, INT << 24, 4, 32]);
    builder.add(&[0, POINTER << 24, 0]);
    let name = builder.strings.add(name);
    let mut words = vec![name, STRUCT << 24 | fields.len() as u32, 0];
    for field in fields {
        let (name, kind, offset) = match *field {
            Field::Number(name, offset) => (name, 1, offset),
            Field::Pointer(name, offset) => (name, 2, offset),
        };
        words.extend([builder.strings.add(name), kind, 8 * offset]);
        words[2] = words[2].max(offset + 8);
    }
    builder.add(&words);
    builder.finish()
}

fn kind(info: u32) -> u32 {
    info >> 24 & 0x1f
}

fn vlen(info: u32) -> usize {
    (info & 0xffff) as usize
}

/// Number of bytes after the header of a BTF type, by its kind.
fn tail(info: u32) -> Option<usize> {
    Some(match kind(info) {
        // also forward declarations, typedefs, qualifiers, functions, floats
        POINTER | 7..=12 | 16 | 18 => 0,
        INT | 14 | 17 => 4, // also variables, declaration tags
        ARRAY => 12,
        STRUCT | UNION | 15 | ENUM64 => 12 * vlen(info), // also data sections
        ENUM | 13 => 8 * vlen(info),                     // also function prototypes
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// BTF of `struct task { int state; union { int pid; struct { int low, tgid; }; }; int bit:1;
    /// };`, with the types in this order: int, the inner struct, the union, `task`.
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

    fn parts(bytes: &[u8]) -> (Vec<u32>, &[u8]) {
        let btf = Btf::parse(bytes).unwrap();
        let words = btf.types.chunks_exact(4);
        (
            words.map(|word| u32_at(word, 0).unwrap()).collect(),
            btf.strings,
        )
    }

    #[test]
    fn an_extract_has_the_types_that_a_struct_consists_of() {
        let bytes = sample();
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(btf.starts.len(), 4);
        let extract = btf.extract([b"tas", b"task"]).unwrap();
        let (words, strings) = parts(&extract);
        let strings = strings.split(|&byte| byte == 0).map(str::from_utf8);
        let strings: Vec<&str> = strings.map(Result::unwrap).collect();
        assert_eq!(
            strings,
            ["", "task", "state", "bit", "int", "pid", "low", "tgid", ""]
        );
        // The extract begins with the wanted struct, as type 1; the types of its members follow.
        let expected = [
            &[1, STRUCT << 24 | 1 << 31 | 3, 16][..],
            &[6, 2, 0, 0, 3, 32, 12, 2, 1 << 24 | 96],
            &[16, INT << 24, 4, 32],
            &[0, UNION << 24 | 2, 8, 20, 2, 0, 0, 4, 0],
            &[0, STRUCT << 24 | 2, 8, 24, 2, 0, 28, 2, 32],
        ];
        assert_eq!(words, expected.concat());
        assert_eq!(parts(&btf.extract([b"int"]).unwrap()).0, []);
    }

    #[test]
    fn pointers_of_an_extract_lead_nowhere() {
        let mut bytes = sample();
        let union = 24 + 16 + 12 + 24; // the union becomes a pointer to the inner struct
        bytes[union + 4..union + 8].copy_from_slice(&(POINTER << 24).to_ne_bytes());
        bytes[union + 8..union + 12].copy_from_slice(&2u32.to_ne_bytes());
        // Turn the members of the union into an array of pointers.
        let array = [0, ARRAY << 24, 0, 3, 1, 2].map(u32::to_ne_bytes).concat();
        bytes[union + 12..union + 36].copy_from_slice(&array);
        let extract = Btf::parse(&bytes).unwrap().extract([b"task"]).unwrap();
        let (words, _) = parts(&extract);
        assert_eq!(words[16..], [0, POINTER << 24, 0]);
    }

    #[test]
    fn a_struct_that_contains_itself_is_extracted_once() {
        let mut bytes = sample();
        // Let the field `low` of the inner struct refer to its own struct.
        let inner = 24 + 16 + 12;
        bytes[inner + 4..inner + 8].copy_from_slice(&2u32.to_ne_bytes());
        let extract = Btf::parse(&bytes).unwrap().extract([b"task"]).unwrap();
        assert_eq!(Btf::parse(&extract).unwrap().starts.len(), 4);
    }

    #[test]
    fn a_described_struct_has_its_fields() {
        let fields = [Field::Number(b"pid", 40), Field::Pointer(b"stack", 8)];
        let bytes = describe(b"task", &fields);
        let (words, strings) = parts(&bytes);
        assert_eq!(strings, b"\0int\0task\0pid\0stack\0");
        let expected = [
            &[1, INT << 24, 4, 32][..],
            &[0, POINTER << 24, 0],
            &[5, STRUCT << 24 | 2, 48, 10, 1, 320, 14, 2, 64],
        ];
        assert_eq!(words, expected.concat());
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
            if let Some(btf) = Btf::parse(&bytes)
                && let Some(extract) = btf.extract([b"task"])
            {
                prop_assert!(Btf::parse(&extract).is_some());
            }
        }
    }
}
