//! The interpreter of an ELF program or of a script.
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

/// The segment `PT_INTERP` of a 64-bit ELF file.
fn interpreter(head: &[u8]) -> Option<&[u8]> {
    const CLASS_64: u8 = 2;
    /// The byte order of this machine: programs of the other one cannot run.
    const ENDIAN: u8 = if cfg!(target_endian = "little") { 1 } else { 2 };
    const PT_INTERP: u32 = 3;
    const LEAST: usize = 56;
    if head.get(4..6)? != [CLASS_64, ENDIAN] {
        return None;
    }
    let table = usize::try_from(u64_at(head, 32)?).ok()?;
    let size = usize::from(u16_at(head, 54)?).max(LEAST);
    let count = usize::from(u16_at(head, 56)?);
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

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            program(&bytes);
            let mut head = elf(b"/lib/ld.so");
            head.iter_mut().skip(6).zip(&bytes).for_each(|(to, from)| *to = *from);
            program(&head);
        }
    }
}
