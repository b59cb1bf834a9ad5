//! The interpreter of an ELF program or of a script, and the directories in which an ELF file has its
//! libraries searched for.
//! [elf(5)](https://man7.org/linux/man-pages/man5/elf.5.html),
//! [execve(2)](https://man7.org/linux/man-pages/man2/execve.2.html)

use crate::{u16_at, u32_at, u64_at};

/// The type of an executable file, with the path of its interpreter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Program<'a> {
    /// An ELF program with an interpreter: ld.so.
    Dynamic {
        interpreter: &'a [u8],
    },
    /// An ELF program or library without an interpreter, or with one beyond the bytes that are
    /// known.
    Static,
    Script {
        interpreter: &'a [u8],
    },
    /// Another file.
    Other,
}

/// The type of a file by its first bytes. As linkers write programs, 4 KiB of them suffice.
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

/// Bytes of the header of a 64-bit ELF file.
const HEADER: usize = 64;

/// The table of program headers of a 64-bit ELF file: its offset, the size of an entry, and their
/// number.
fn program_headers(head: &[u8]) -> Option<(u64, usize, usize)> {
    const CLASS_64: u8 = 2;
    /// The byte order of this machine: programs of the other one cannot run.
    const ENDIAN: u8 = if cfg!(target_endian = "little") { 1 } else { 2 };
    const LEAST: usize = 56;
    if head.get(..6)? != [0x7f, b'E', b'L', b'F', CLASS_64, ENDIAN] {
        return None;
    }
    let size = usize::from(u16_at(head, 54)?).max(LEAST);
    Some((u64_at(head, 32)?, size, usize::from(u16_at(head, 56)?)))
}

/// The class and the machine of an ELF file. ld.so continues a search after a library that differs
/// from the program in one of them.
pub fn architecture(head: &[u8]) -> Option<(u8, u16)> {
    let class = *head.strip_prefix(b"\x7fELF")?.first()?;
    Some((class, u16_at(head, 18)?))
}

/// The directories that an ELF file lists for the search of libraries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SearchPath {
    /// Directories, separated by colons; they may contain `$ORIGIN` and the like.
    pub value: Vec<u8>,
    /// It is `DT_RUNPATH`, which comes after LD_LIBRARY_PATH; else `DT_RPATH`, which comes before it
    /// and is also for the libraries of its libraries.
    pub is_runpath: bool,
}

/// The RUNPATH of a 64-bit ELF program or library, or its RPATH if it has no RUNPATH. `read` returns
/// at most so many bytes of the file from an offset on.
pub fn search_path(mut read: impl FnMut(u64, usize) -> Option<Vec<u8>>) -> Option<SearchPath> {
    const PT_LOAD: u32 = 1;
    const PT_DYNAMIC: u32 = 2;
    const DT_NULL: u64 = 0;
    const DT_STRTAB: u64 = 5;
    const DT_RPATH: u64 = 15;
    const DT_RUNPATH: u64 = 29;
    /// The most bytes of a section that are read.
    const MOST: u64 = 64 << 10;
    let (table, size, count) = program_headers(&read(0, HEADER)?)?;
    let table = read(table, size.checked_mul(count)?)?;
    // Type, offset in the file, address, and bytes in the file.
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

/// The segment `PT_INTERP` of a 64-bit ELF file.
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

    /// Reads a file in memory.
    fn reader(file: &[u8]) -> impl FnMut(u64, usize) -> Option<Vec<u8>> {
        |from, most| {
            let rest = file.get(usize::try_from(from).ok()?..)?;
            Some(rest[..most.min(rest.len())].to_vec())
        }
    }

    /// A file whose dynamic section has these tags, each with the offset of its string.
    fn with_dynamic(tags: &[(u64, u64)], strings: &[u8]) -> Vec<u8> {
        let mut file = elf(b"");
        file.resize(256, 0);
        let dynamic = tags.iter().flat_map(|(tag, value)| [*tag, *value]);
        // The strings are at offset 512, which has this address.
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
