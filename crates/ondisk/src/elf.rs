//! The interpreter of an ELF program or script, and the library search path (RUNPATH) of an ELF
//! file. [elf(5)](https://man7.org/linux/man-pages/man5/elf.5.html),
//! [execve(2)](https://man7.org/linux/man-pages/man2/execve.2.html)

use crate::{u16_at, u32_at, u64_at};

/// The type of an executable file, with the path of its interpreter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Program<'a> {
    /// An ELF program whose interpreter is the dynamic linker (ld.so).
    Dynamic {
        interpreter: &'a [u8],
    },
    /// An ELF program or library without an interpreter, or whose interpreter is beyond the bytes
    /// read.
    Static,
    Script {
        interpreter: &'a [u8],
    },
    /// A file that is neither an ELF file nor a script.
    Other,
}

/// Determines the type of a file by its first bytes. In the layout that linkers use, the first 4
/// KiB contain the path of the interpreter.
pub fn program(head: &[u8]) -> Program<'_> {
    if let Some(rest) = head.strip_prefix(b"#!") {
        let line = rest
            .split(|&b| b == b'\n')
            .next()
            .unwrap_or_default()
            .trim_ascii();
        let interpreter = line
            .split(|b| b.is_ascii_whitespace() || *b == 0)
            .next()
            .unwrap_or_default();
        return if interpreter.is_empty() {
            Program::Other
        } else {
            Program::Script { interpreter }
        };
    }
    if !head.starts_with(b"\x7fELF") {
        return Program::Other;
    }
    match interpreter(head) {
        Some(interpreter) => Program::Dynamic { interpreter },
        None => Program::Static,
    }
}

/// Length of the ELF header of a 64-bit file.
const HEADER: usize = 64;

/// The table of program headers of a 64-bit ELF file: offset, size of an entry, number of entries.
fn program_headers(head: &[u8]) -> Option<(u64, usize, usize)> {
    const CLASS_64: u8 = 2;
    /// Byte order of this machine: programs of the other order cannot run.
    const ENDIAN: u8 = if cfg!(target_endian = "little") { 1 } else { 2 };
    const LEAST: usize = 56;
    if head.get(..6)? != [0x7f, b'E', b'L', b'F', CLASS_64, ENDIAN] {
        return None;
    }
    let size = usize::from(u16_at(head, 54)?).max(LEAST);
    Some((u64_at(head, 32)?, size, usize::from(u16_at(head, 56)?)))
}

/// Class and machine of an ELF file. ld.so skips a library that differs from the program in either,
/// and continues its search.
pub fn architecture(head: &[u8]) -> Option<(u8, u16)> {
    let class = *head.strip_prefix(b"\x7fELF")?.first()?;
    Some((class, u16_at(head, 18)?))
}

/// The library search path in an ELF file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SearchPath {
    /// Directories, separated by colons; they may contain `$ORIGIN` and the like.
    pub value: Vec<u8>,
    /// Whether the path is a `DT_RUNPATH`, which ld.so searches after LD_LIBRARY_PATH; otherwise
    /// the path is a `DT_RPATH`, which ld.so searches before LD_LIBRARY_PATH, and also for the
    /// libraries that libraries need.
    pub is_runpath: bool,
}

/// The RUNPATH of a 64-bit ELF program or library, or its RPATH without a RUNPATH. `read` returns
/// at most the given number of bytes of the file from an offset on.
pub fn search_path(mut read: impl FnMut(u64, usize) -> Option<Vec<u8>>) -> Option<SearchPath> {
    const PT_LOAD: u32 = 1;
    const PT_DYNAMIC: u32 = 2;
    const DT_NULL: u64 = 0;
    const DT_STRTAB: u64 = 5;
    const DT_RPATH: u64 = 15;
    const DT_RUNPATH: u64 = 29;
    /// Maximum number of bytes that are read of a section.
    const MOST: u64 = 64 << 10;
    let (table, size, count) = program_headers(&read(0, HEADER)?)?;
    let table = read(table, size.checked_mul(count)?)?;
    // For each segment: type, file offset, address, and length in the file.
    let segments: Vec<(u32, u64, u64, u64)> = table
        .chunks_exact(size)
        .filter_map(|header| {
            let long = |at| u64_at(header, at);
            Some((u32_at(header, 0)?, long(8)?, long(16)?, long(32)?))
        })
        .collect();
    let (_, offset, _, bytes) = segments.iter().find(|(kind, ..)| *kind == PT_DYNAMIC)?;
    let dynamic = read(*offset, usize::try_from(*bytes.min(&MOST)).ok()?)?;
    let entries = dynamic.chunks_exact(16).filter_map(|entry| {
        let (tag, value) = entry.split_at(8);
        Some((u64_at(tag, 0)?, u64_at(value, 0)?))
    });
    let entries: Vec<(u64, u64)> = entries.take_while(|(tag, _)| *tag != DT_NULL).collect();
    let value = |wanted: u64| {
        let entry = entries.iter().find(|(tag, _)| *tag == wanted)?;
        Some(entry.1)
    };
    let (runpath, rpath) = (value(DT_RUNPATH), value(DT_RPATH));
    let address = value(DT_STRTAB)?.checked_add(runpath.or(rpath)?)?;
    let string = segments.iter().find_map(|(kind, offset, start, bytes)| {
        let inside = address.checked_sub(*start).filter(|at| at < bytes)?;
        let file_offset = offset.checked_add(inside)?;
        (*kind == PT_LOAD).then_some((file_offset, bytes - inside))
    })?;
    let text = read(string.0, usize::try_from(string.1.min(MOST)).ok()?)?;
    let value = text.split(|&b| b == 0).next()?.to_vec();
    (!value.is_empty()).then_some(SearchPath {
        value,
        is_runpath: runpath.is_some(),
    })
}

/// The contents of the segment `PT_INTERP` of a 64-bit ELF file.
fn interpreter(head: &[u8]) -> Option<&[u8]> {
    const PT_INTERP: u32 = 3;
    let (table, size, count) = program_headers(head)?;
    let table = usize::try_from(table).ok()?;
    for at in 0..count {
        let header = head.get(table.checked_add(at.checked_mul(size)?)?..)?;
        if u32_at(header, 0)? != PT_INTERP {
            continue;
        }
        let from = usize::try_from(u64_at(header, 8)?).ok()?;
        let length = usize::try_from(u64_at(header, 32)?).ok()?;
        let name = head.get(from..from.checked_add(length)?)?;
        return name
            .split(|&b| b == 0)
            .next()
            .filter(|name| !name.is_empty());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn elf(interpreter: &[u8]) -> Vec<u8> {
        let mut head = vec![0; 64 + 2 * 56];
        head[..5].copy_from_slice(b"\x7fELF\x02");
        head[5] = if cfg!(target_endian = "little") { 1 } else { 2 };
        head[32..40].copy_from_slice(&64_u64.to_ne_bytes());
        head[54..56].copy_from_slice(&56_u16.to_ne_bytes());
        head[56..58].copy_from_slice(&2_u16.to_ne_bytes());
        head[64] = 1; // PT_LOAD
        head[120] = 3;
        head[128..136].copy_from_slice(&176_u64.to_ne_bytes());
        head[152..160].copy_from_slice(&(interpreter.len() as u64 + 1).to_ne_bytes());
        head.extend_from_slice(interpreter);
        head.push(0);
        head
    }

    #[test]
    fn interpreters_of_programs_and_scripts_are_found() {
        let head = elf(b"/lib64/ld-linux-x86-64.so.2");
        assert_eq!(
            program(&head),
            Program::Dynamic {
                interpreter: b"/lib64/ld-linux-x86-64.so.2"
            }
        );
        assert_eq!(program(&head[..150]), Program::Static);
        assert_eq!(
            program(b"#! /usr/bin/env python3\nimport"),
            Program::Script {
                interpreter: b"/usr/bin/env"
            }
        );
        assert_eq!(
            program(b"#!/bin/sh"),
            Program::Script {
                interpreter: b"/bin/sh"
            }
        );
        assert_eq!(
            (program(b"#!\n"), program(b""), program(b"text")),
            (Program::Other, Program::Other, Program::Other)
        );
    }

    /// Returns a function that reads ranges of a file in memory.
    fn reader(file: &[u8]) -> impl FnMut(u64, usize) -> Option<Vec<u8>> {
        |from, most| {
            let rest = file.get(usize::try_from(from).ok()?..)?;
            Some(rest[..most.min(rest.len())].to_vec())
        }
    }

    /// Builds an ELF file whose dynamic section has these tags, each with a string offset.
    fn with_dynamic(tags: &[(u64, u64)], strings: &[u8]) -> Vec<u8> {
        let mut file = elf(b"");
        file.resize(256, 0);
        let dynamic = tags.iter().flat_map(|(tag, value)| [*tag, *value]);
        // The strings are at file offset 512, which is mapped to address 0x1200.
        let dynamic: Vec<u8> = dynamic
            .chain([5, 0x1200, 0, 0])
            .flat_map(u64::to_ne_bytes)
            .collect();
        let mut header = |at: usize, kind: u32, offset: u64, address: u64, bytes: u64| {
            file[at..at + 4].copy_from_slice(&kind.to_ne_bytes());
            file[at + 8..at + 16].copy_from_slice(&offset.to_ne_bytes());
            file[at + 16..at + 24].copy_from_slice(&address.to_ne_bytes());
            file[at + 32..at + 40].copy_from_slice(&bytes.to_ne_bytes());
        };
        header(64, 1, 256, 0x1100, 256 + strings.len() as u64);
        header(120, 2, 256, 0x1100, dynamic.len() as u64);
        file.extend(dynamic);
        file.resize(512, 0);
        file.extend(strings);
        file
    }

    #[test]
    fn a_runpath_is_preferred_to_an_rpath() {
        let strings = b"\0/a:/b\0$ORIGIN/lib\0";
        let found = |tags: &[(u64, u64)]| search_path(reader(&with_dynamic(tags, strings)));
        let path = |value: &[u8], is_runpath| {
            Some(SearchPath {
                value: value.to_vec(),
                is_runpath,
            })
        };
        assert_eq!(found(&[(15, 1)]), path(b"/a:/b", false));
        assert_eq!(found(&[(15, 1), (29, 7)]), path(b"$ORIGIN/lib", true));
        for none in [
            &[][..],
            &[(1, 1)],
            &[(29, 0)],
            &[(29, 1 << 40)],
            &[(29, u64::MAX)],
        ] {
            assert_eq!(found(none), None, "{none:?}");
        }
        assert_eq!(search_path(reader(b"#!/bin/sh")), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            program(&bytes);
            let mut head = elf(b"/lib/ld.so");
            head.iter_mut().skip(6).zip(&bytes).for_each(|(to, from)| *to = *from);
            program(&head);
            search_path(reader(&head));
            let mut file = with_dynamic(&[(29, 1)], b"\0/a\0");
            file.iter_mut().skip(64).zip(&bytes).for_each(|(to, from)| *to = *from);
            search_path(reader(&file));
        }
    }
}
