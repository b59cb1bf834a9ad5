//! The instructions of the BPF programs: from the object file, with this kernel's offsets of struct
//! fields and the descriptors of the maps filled in.

use std::collections::HashMap;
use std::os::fd::RawFd;

use aya_obj::Object;
use aya_obj::btf::Btf;
use aya_obj::generated::bpf_insn;
use gate::bpf::Program;

use super::types::Types;
use crate::error::Unavailable;

/// The kernel allows some BPF helpers only to programs of GPL-compatible licences.
const LICENSE: &std::ffi::CStr = c"Dual MIT/GPL";

/// The ELF reader casts bytes to structs, so the bytes must be aligned.
#[repr(align(8))]
struct Aligned<T: ?Sized>(T);

/// The object file that `tools/bpf` compiles from `meter.bpf.c`.
static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!("meter.bpf.o"));

/// The map of [`Config`](super::layout::Config), named after its section of the object file.
pub(super) const CONFIG: &str = ".rodata";
/// The map of the counters that the BPF programs share with the meter.
pub(super) const WORDS: &str = ".bss";

/// BPF programs, ready to load.
pub(super) struct Code {
    /// The instructions of each program, by its name.
    programs: HashMap<String, Vec<u64>>,
    knows_types: bool,
}

impl Code {
    /// Links the `wanted` programs to maps by descriptors. Without `types`, they must not use
    /// fields of kernel structs.
    pub(super) fn link(
        wanted: impl Fn(&str) -> bool,
        types: Option<&Types>,
        maps: &[(&str, RawFd)],
    ) -> Result<Code, Unavailable> {
        let mut object = Object::parse(&OBJECT.0).map_err(|_| Unavailable::BpfObject)?;
        if let Some(types) = types {
            let types = Btf::parse(&types.btf, object.endianness).ok();
            let relocated = types.map(|types| object.relocate_btf(&types));
            relocated
                .and_then(Result::ok)
                .ok_or(Unavailable::BpfObject)?;
        }
        object
            .functions
            .retain(|_, function| wanted(&function.name));
        let sections = object.functions.keys().map(|(section, _)| *section);
        let sections = sections.collect();
        let declared = std::mem::take(&mut object.maps);
        let maps = maps
            .iter()
            .filter_map(|&(name, fd)| Some((name, fd, declared.get(name)?)));
        object
            .relocate_maps(maps, &sections)
            .map_err(|_| Unavailable::BpfObject)?;
        let code = object.functions.into_values().map(|function| {
            let instructions = function.instructions.iter().map(encode);
            (function.name, instructions.collect())
        });
        Ok(Code {
            programs: code.collect(),
            knows_types: types.is_some_and(|types| types.are_complete),
        })
    }

    /// Whether the programs know all fields of the kernel structs.
    pub(super) fn knows_types(&self) -> bool {
        self.knows_types
    }

    pub(super) fn load(&self, name: &str) -> Result<Program, Unavailable> {
        let code = self.programs.get(name).ok_or(Unavailable::BpfObject)?;
        Ok(Program::load_raw_tracepoint(name, code, LICENSE)?)
    }
}

/// Encodes an instruction: see [RFC 9669](https://www.rfc-editor.org/rfc/rfc9669.html).
fn encode(instruction: &bpf_insn) -> u64 {
    let registers = instruction.dst_reg() | instruction.src_reg() << 4;
    u64::from(instruction.code)
        | u64::from(registers) << 8
        | u64::from(instruction.off.cast_unsigned()) << 16
        | u64::from(instruction.imm.cast_unsigned()) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::layout::{Config, shared, slot, task};

    #[test]
    fn values_of_the_maps_have_the_sizes_of_the_layout() {
        let object = Object::parse(&OBJECT.0).unwrap();
        let size = |name: &str| object.maps[name].value_size() as usize;
        assert_eq!(size("tasks"), task::LEN as usize);
        assert_eq!(size("slots"), slot::LEN as usize);
        assert_eq!(size(WORDS), 8 * shared::WORDS);
        assert_eq!(size(CONFIG), 8 * Config::WORDS);
    }
}
