//! An assembler, with labels, for the BPF instructions that the meter's programs use.
//!
//! An instruction has 64 bits: operation, two registers, an offset, a number. See
//! [RFC 9669](https://www.rfc-editor.org/rfc/rfc9669.html).

/// A register. A call takes its arguments from `R1` to `R5`, returns its result in `R0`, destroys
/// all of these, and preserves `R6` to `R9`. `R10` is the frame pointer.
#[derive(Clone, Copy)]
pub(super) enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R6 = 6,
    R7,
    R8,
    R9,
    R10,
}

/// The size of an operand in memory: 4 bytes, unsigned, or 8.
#[derive(Clone, Copy)]
pub(super) enum Size {
    Word = 0x00,
    Double = 0x18,
}

/// A computation with 64 bits; shifts are logical.
#[derive(Clone, Copy)]
pub(super) enum Op {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    Or = 0x40,
    And = 0x50,
    Left = 0x60,
    Right = 0x70,
    Mov = 0xb0,
}

/// A comparison of two numbers of 64 bits: `Above` and `Below` are unsigned, `AtMost` is signed,
/// and `Common` is true if they have a bit in common.
#[derive(Clone, Copy)]
pub(super) enum If {
    Equal = 0x10,
    Above = 0x20,
    Common = 0x40,
    Differ = 0x50,
    Below = 0xa0,
    AtMost = 0xd0,
}

/// A function of the kernel: `BPF_FUNC_*` of linux/bpf.h.
#[derive(Clone, Copy)]
pub(super) enum Helper {
    MapLookupElem = 1,
    MapUpdateElem = 2,
    MapDeleteElem = 3,
    KtimeGetNs = 5,
    GetCurrentPidTgid = 14,
    GetCurrentComm = 16,
    GetCurrentTask = 35,
    CurrentTaskUnderCgroup = 37,
    ProbeReadKernel = 113,
    ProbeReadUserStr = 114,
    ProbeReadKernelStr = 115,
    RingbufOutput = 130,
    RingbufQuery = 134,
}

#[derive(Clone, Copy)]
pub(super) struct Label(usize);

/// A program that is being written.
#[derive(Default)]
pub(super) struct Asm {
    code: Vec<u64>,
    /// The instructions that jump, with their targets.
    jumps: Vec<(usize, Label)>,
    /// The instruction at each label.
    places: Vec<Option<usize>>,
}

const LOAD: u8 = 0x61;
const STORE_NUMBER: u8 = 0x62;
const STORE: u8 = 0x63;
const ATOMIC: u8 = 0xc3;
const COMPUTE: u8 = 0x07;
const JUMP: u8 = 0x05;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const WIDE: u8 = 0x18;
/// The second operand is a register, not a number.
const BY_REG: u8 = 0x08;

impl Asm {
    fn put(&mut self, code: u8, to: u8, from: u8, offset: i16, number: i32) {
        let instruction = u64::from(code)
            | u64::from(to | from << 4) << 8
            | u64::from(offset.cast_unsigned()) << 16
            | u64::from(number.cast_unsigned()) << 32;
        self.code.push(instruction);
    }

    /// `to = to op number`, the number sign-extended.
    pub(super) fn by(&mut self, op: Op, to: Reg, number: i32) {
        self.put(COMPUTE | op as u8, to as u8, 0, 0, number);
    }

    /// `to = to op from`.
    pub(super) fn with(&mut self, op: Op, to: Reg, from: Reg) {
        self.put(COMPUTE | BY_REG | op as u8, to as u8, from as u8, 0, 0);
    }

    /// `to = number`.
    pub(super) fn set(&mut self, to: Reg, number: i32) {
        self.by(Op::Mov, to, number);
    }

    /// `to = from`.
    pub(super) fn copy(&mut self, to: Reg, from: Reg) {
        self.with(Op::Mov, to, from);
    }

    /// `to = from + offset`.
    pub(super) fn address(&mut self, to: Reg, from: Reg, offset: i16) {
        self.copy(to, from);
        if offset != 0 {
            self.by(Op::Add, to, offset.into());
        }
    }

    /// `to = -to`.
    pub(super) fn negate(&mut self, to: Reg) {
        self.put(COMPUTE | 0x80, to as u8, 0, 0, 0);
    }

    /// `to = [from + offset]`.
    pub(super) fn load(&mut self, size: Size, to: Reg, from: Reg, offset: i16) {
        self.put(LOAD | size as u8, to as u8, from as u8, offset, 0);
    }

    /// `[to + offset] = from`.
    pub(super) fn store(&mut self, size: Size, to: Reg, offset: i16, from: Reg) {
        self.put(STORE | size as u8, to as u8, from as u8, offset, 0);
    }

    /// `[to + offset] = number`, sign-extended.
    pub(super) fn store_number(&mut self, size: Size, to: Reg, offset: i16, number: i32) {
        self.put(STORE_NUMBER | size as u8, to as u8, 0, offset, number);
    }

    /// `[to + offset] += from`, atomically, with 8 bytes.
    pub(super) fn add_atomically(&mut self, to: Reg, offset: i16, from: Reg) {
        self.put(ATOMIC | Size::Double as u8, to as u8, from as u8, offset, 0);
    }

    /// `to = number`, with 64 bits.
    pub(super) fn set_wide(&mut self, to: Reg, number: u64) {
        self.wide(to, 0, number as u32, (number >> 32) as u32);
    }

    /// `to` = the map with this descriptor, as helpers take it.
    pub(super) fn map(&mut self, to: Reg, fd: i32) {
        self.wide(to, 1, fd.cast_unsigned(), 0);
    }

    /// `to` = the address of a byte in the first value of the array map with this descriptor.
    pub(super) fn map_value(&mut self, to: Reg, fd: i32, offset: u32) {
        self.wide(to, 2, fd.cast_unsigned(), offset);
    }

    fn wide(&mut self, to: Reg, meaning: u8, low: u32, high: u32) {
        self.put(WIDE, to as u8, meaning, 0, low.cast_signed());
        self.put(0, 0, 0, 0, high.cast_signed());
    }

    pub(super) fn call(&mut self, helper: Helper) {
        self.put(CALL, 0, 0, 0, helper as i32);
    }

    pub(super) fn exit(&mut self) {
        self.put(EXIT, 0, 0, 0, 0);
    }

    /// A new label, to be placed.
    pub(super) fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    pub(super) fn labels<const N: usize>(&mut self) -> [Label; N] {
        std::array::from_fn(|_| self.label())
    }

    /// Places a label at the next instruction.
    pub(super) fn place(&mut self, label: Label) {
        if let Some(place) = self.places.get_mut(label.0) {
            *place = Some(self.code.len());
        }
    }

    pub(super) fn jump(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.put(JUMP, 0, 0, 0, 0);
    }

    /// Jumps if the condition holds for `reg` and a sign-extended number.
    pub(super) fn jump_if(&mut self, reg: Reg, condition: If, number: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.put(JUMP | condition as u8, reg as u8, 0, 0, number);
    }

    /// Jumps if the condition holds for two registers.
    pub(super) fn jump_if_reg(&mut self, reg: Reg, condition: If, other: Reg, label: Label) {
        self.jumps.push((self.code.len(), label));
        let code = JUMP | BY_REG | condition as u8;
        self.put(code, reg as u8, other as u8, 0, 0);
    }

    /// The instructions, with the offsets of all jumps; `None` if a label is not placed, or is too
    /// far from a jump.
    pub(super) fn finish(mut self) -> Option<Vec<u64>> {
        for (from, label) in self.jumps {
            let to = self.places.get(label.0).copied().flatten()?;
            let offset = i16::try_from(to as i64 - from as i64 - 1).ok()?;
            *self.code.get_mut(from)? |= u64::from(offset.cast_unsigned()) << 16;
        }
        Some(self.code)
    }
}

/// A disassembler with the syntax of the kernel's verifier: an instruction per line, `?` for one
/// that the assembler does not write.
#[cfg(test)]
pub(super) mod disassembler {
    use std::fmt::Write;

    use super::{BY_REG, CALL, EXIT, JUMP, WIDE};

    pub(in super::super) fn listing(code: &[u64]) -> String {
        let mut text = String::new();
        let mut rest = code.iter().copied().enumerate();
        while let Some((at, instruction)) = rest.next() {
            let (op, regs) = (instruction as u8, (instruction >> 8) as u8);
            let (to, from) = (regs & 15, regs >> 4);
            let offset = ((instruction >> 16) as u16).cast_signed();
            let number = ((instruction >> 32) as u32).cast_signed();
            let other = if op & BY_REG == 0 {
                number.to_string()
            } else {
                format!("r{from}")
            };
            let place = at as i64 + 1 + i64::from(offset);
            let size = if op & 0x18 == 0x18 { "u64" } else { "u32" };
            let line = match op {
                WIDE => {
                    let high = rest.next().map_or(0, |(_, second)| second >> 32);
                    match from {
                        1 => format!("r{to} = map"),
                        2 => format!("r{to} = value + {high}"),
                        _ => format!(
                            "r{to} = {:#x}",
                            high << 32 | u64::from(number.cast_unsigned())
                        ),
                    }
                }
                0x61 | 0x79 => format!("r{to} = *({size} *)(r{from} {offset:+})"),
                0x62 | 0x7a => format!("*({size} *)(r{to} {offset:+}) = {number}"),
                0x63 | 0x7b => format!("*({size} *)(r{to} {offset:+}) = r{from}"),
                0xdb => format!("lock *({size} *)(r{to} {offset:+}) += r{from}"),
                0x87 => format!("r{to} = -r{to}"),
                CALL => format!("call {number}"),
                EXIT => "exit".to_owned(),
                JUMP => format!("goto {place}"),
                _ => match (op & 0x07, symbol(op)) {
                    (0x07, Some(symbol)) => format!("r{to} {symbol} {other}"),
                    (0x05, Some(symbol)) => format!("if r{to} {symbol} {other} goto {place}"),
                    _ => "?".to_owned(),
                },
            };
            let _ = writeln!(text, "{at}: {line}");
        }
        text
    }

    fn symbol(op: u8) -> Option<&'static str> {
        Some(match (op & 0x07, op & 0xf0) {
            (0x07, 0x00) => "+=",
            (0x07, 0x10) => "-=",
            (0x07, 0x20) => "*=",
            (0x07, 0x40) => "|=",
            (0x07, 0x50) => "&=",
            (0x07, 0x60) => "<<=",
            (0x07, 0x70) => ">>=",
            (0x07, 0xb0) => "=",
            (0x05, 0x10) => "==",
            (0x05, 0x20) => ">",
            (0x05, 0x40) => "&",
            (0x05, 0x50) => "!=",
            (0x05, 0xa0) => "<",
            (0x05, 0xd0) => "s<=",
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Reg::*;
    use super::disassembler::listing;
    use super::*;

    #[test]
    fn the_disassembler_reads_what_the_assembler_writes() {
        let mut asm = Asm::default();
        let (end, again) = (asm.label(), asm.label());
        asm.address(R2, R10, -8);
        asm.place(again);
        asm.load(Size::Double, R6, R1, 8);
        asm.load(Size::Word, R7, R6, 4);
        asm.jump_if(R7, If::Above, 511, end);
        asm.jump_if_reg(R7, If::Equal, R6, again);
        asm.jump_if(R6, If::Below, -4095, end);
        asm.map(R1, 5);
        asm.call(Helper::MapLookupElem);
        asm.jump_if(R0, If::Equal, 0, end);
        asm.by(Op::Left, R7, 3);
        asm.with(Op::Sub, R0, R7);
        asm.negate(R7);
        asm.store(Size::Word, R0, 4, R7);
        asm.store_number(Size::Double, R10, -16, -1);
        asm.add_atomically(R0, 8, R7);
        asm.set_wide(R3, 0x1234_5678_9abc_def0);
        asm.map_value(R4, 5, 128);
        asm.jump(again);
        asm.place(end);
        asm.set(R0, 0);
        asm.exit();
        let code = asm.finish().unwrap();
        let expected = "0: r2 = r10\n1: r2 += -8\n2: r6 = *(u64 *)(r1 +8)\n3: r7 = *(u32 *)(r6 +4)\n4: if r7 > 511 goto 22\n\
            5: if r7 == r6 goto 2\n6: if r6 < -4095 goto 22\n7: r1 = map\n9: call 1\n10: if r0 == 0 goto 22\n11: r7 <<= 3\n\
            12: r0 -= r7\n13: r7 = -r7\n14: *(u32 *)(r0 +4) = r7\n15: *(u64 *)(r10 -16) = -1\n\
            16: lock *(u64 *)(r0 +8) += r7\n17: r3 = 0x123456789abcdef0\n19: r4 = value + 128\n21: goto 2\n";
        assert_eq!(listing(&code), format!("{expected}22: r0 = 0\n23: exit\n"));
    }

    #[test]
    fn instructions_have_the_bytes_of_the_standard() {
        let mut asm = Asm::default();
        asm.copy(R6, R1); // bf 16 00 00 00 00 00 00
        asm.load(Size::Double, R8, R6, 8); // 79 68 08 00 00 00 00 00
        asm.store_number(Size::Word, R10, -4, 2); // 62 0a fc ff 02 00 00 00
        asm.call(Helper::KtimeGetNs); // 85 00 00 00 05 00 00 00
        let bytes: Vec<u8> = asm
            .finish()
            .unwrap()
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .collect();
        assert_eq!(
            bytes,
            [
                0xbf, 0x16, 0, 0, 0, 0, 0, 0, //
                0x79, 0x68, 8, 0, 0, 0, 0, 0, //
                0x62, 0x0a, 0xfc, 0xff, 2, 0, 0, 0, //
                0x85, 0, 0, 0, 5, 0, 0, 0
            ]
        );
    }

    #[test]
    fn a_label_that_is_not_placed_is_an_error() {
        let mut asm = Asm::default();
        let nowhere = asm.label();
        asm.jump(nowhere);
        assert_eq!(asm.finish(), None);
    }

    #[test]
    fn a_jump_that_is_too_far_is_an_error() {
        let mut asm = Asm::default();
        let far = asm.label();
        asm.jump(far);
        (0..40_000).for_each(|_| asm.exit());
        asm.place(far);
        asm.exit();
        assert_eq!(asm.finish(), None);
    }
}
