//! An assembler for the few instructions of BPF that the meter's programs are made of, with labels;
//! and the way back, so that a test can read them.
//!
//! Instructions are 64 bits: operation, two registers, an offset, a number.
//! [RFC 9669](https://www.rfc-editor.org/rfc/rfc9669.html)

use std::fmt::Write;

/// A register. `R0` has results, `R1` to `R5` arguments, and a call destroys all of these; `R6` to
/// `R9` keep what they have, and `R10` is the end of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// How many bytes are read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// 4, without a sign.
    Word = 0x00,
    /// 8.
    Double = 0x18,
}

/// What is computed: in 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// The sum.
    Add = 0x00,
    /// The difference.
    Sub = 0x10,
    /// The product.
    Mul = 0x20,
    /// Bits of either.
    Or = 0x40,
    /// Bits of both.
    And = 0x50,
    /// Moved to the left.
    Left = 0x60,
    /// Moved to the right, zeros following.
    Right = 0x70,
    /// The other itself.
    Mov = 0xb0,
}

/// A condition of two numbers of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum If {
    /// They are the same.
    Equal = 0x10,
    /// Without signs, the first is the greater.
    Above = 0x20,
    /// They have a bit in common.
    Common = 0x40,
    /// They are not the same.
    Differ = 0x50,
    /// Without signs, the first is the smaller.
    Below = 0xa0,
    /// With signs, the first is not the greater.
    AtMost = 0xd0,
}

/// What the kernel does for programs: `BPF_FUNC_*` of linux/bpf.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Helper {
    MapLookupElem = 1,
    MapUpdateElem = 2,
    MapDeleteElem = 3,
    KtimeGetNs = 5,
    GetCurrentPidTgid = 14,
    GetCurrentComm = 16,
    GetCurrentTask = 35,
    ProbeReadUser = 112,
    ProbeReadKernel = 113,
    ProbeReadUserStr = 114,
    ProbeReadKernelStr = 115,
    RingbufOutput = 130,
    RingbufQuery = 134,
}

/// A place in a program that can be jumped to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// A program that is being written.
#[derive(Debug, Default)]
pub struct Asm {
    code: Vec<u64>,
    /// Instructions that jump, and where to.
    jumps: Vec<(usize, Label)>,
    /// Where each label is.
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

fn pack(code: u8, to: u8, from: u8, offset: i16, number: i32) -> u64 {
    u64::from(code)
        | u64::from(to | from << 4) << 8
        | u64::from(offset.cast_unsigned()) << 16
        | u64::from(number.cast_unsigned()) << 32
}

impl Asm {
    /// An empty program.
    pub fn new() -> Asm {
        Asm::default()
    }

    fn put(&mut self, code: u8, to: u8, from: u8, offset: i16, number: i32) {
        self.code.push(pack(code, to, from, offset, number));
    }

    /// `to = to op number`, the number extended by its sign.
    pub fn by(&mut self, op: Op, to: Reg, number: i32) {
        self.put(COMPUTE | op as u8, to as u8, 0, 0, number);
    }

    /// `to = to op from`.
    pub fn with(&mut self, op: Op, to: Reg, from: Reg) {
        self.put(COMPUTE | BY_REG | op as u8, to as u8, from as u8, 0, 0);
    }

    /// `to = number`.
    pub fn set(&mut self, to: Reg, number: i32) {
        self.by(Op::Mov, to, number);
    }

    /// `to = from`.
    pub fn copy(&mut self, to: Reg, from: Reg) {
        self.with(Op::Mov, to, from);
    }

    /// `to = from + offset`.
    pub fn address(&mut self, to: Reg, from: Reg, offset: i16) {
        self.copy(to, from);
        if offset != 0 {
            self.by(Op::Add, to, offset.into());
        }
    }

    /// `to = -to`.
    pub fn negate(&mut self, to: Reg) {
        self.put(COMPUTE | 0x80, to as u8, 0, 0, 0);
    }

    /// Reads from memory: `to = [from + offset]`.
    pub fn load(&mut self, size: Size, to: Reg, from: Reg, offset: i16) {
        self.put(LOAD | size as u8, to as u8, from as u8, offset, 0);
    }

    /// Writes to memory: `[to + offset] = from`.
    pub fn store(&mut self, size: Size, to: Reg, offset: i16, from: Reg) {
        self.put(STORE | size as u8, to as u8, from as u8, offset, 0);
    }

    /// Writes a number, extended by its sign, to memory.
    pub fn store_number(&mut self, size: Size, to: Reg, offset: i16, number: i32) {
        self.put(STORE_NUMBER | size as u8, to as u8, 0, offset, number);
    }

    /// Adds to 8 bytes of memory at once, whoever else does so at that time.
    pub fn add_atomically(&mut self, to: Reg, offset: i16, from: Reg) {
        self.put(ATOMIC | Size::Double as u8, to as u8, from as u8, offset, 0);
    }

    /// A number of 64 bits.
    pub fn set_wide(&mut self, to: Reg, number: u64) {
        self.wide(to, 0, number as u32, (number >> 32) as u32);
    }

    /// The map with this descriptor, as helpers take it.
    pub fn map(&mut self, to: Reg, fd: i32) {
        self.wide(to, 1, fd.cast_unsigned(), 0);
    }

    /// The address of a byte in the first value of the array with this descriptor.
    pub fn map_value(&mut self, to: Reg, fd: i32, offset: u32) {
        self.wide(to, 2, fd.cast_unsigned(), offset);
    }

    fn wide(&mut self, to: Reg, meaning: u8, low: u32, high: u32) {
        self.put(WIDE, to as u8, meaning, 0, low.cast_signed());
        self.put(0, 0, 0, 0, high.cast_signed());
    }

    /// Calls a helper.
    pub fn call(&mut self, helper: Helper) {
        self.put(CALL, 0, 0, 0, helper as i32);
    }

    /// Ends the program.
    pub fn exit(&mut self) {
        self.put(EXIT, 0, 0, 0, 0);
    }

    /// A label that has no place yet.
    pub fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// Several of them.
    pub fn labels<const N: usize>(&mut self) -> [Label; N] {
        std::array::from_fn(|_| self.label())
    }

    /// Gives a label its place: what is written next.
    pub fn place(&mut self, label: Label) {
        if let Some(place) = self.places.get_mut(label.0) {
            *place = Some(self.code.len());
        }
    }

    /// Jumps.
    pub fn jump(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.put(JUMP, 0, 0, 0, 0);
    }

    /// Jumps if `reg` and a number, extended by its sign, are so.
    pub fn jump_if(&mut self, reg: Reg, condition: If, number: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.put(JUMP | condition as u8, reg as u8, 0, 0, number);
    }

    /// Jumps if two registers are so.
    pub fn jump_if_reg(&mut self, reg: Reg, condition: If, other: Reg, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.put(
            JUMP | BY_REG | condition as u8,
            reg as u8,
            other as u8,
            0,
            0,
        );
    }

    /// The instructions, with every jump going where it should; `None` when a label has no place,
    /// or is too far away.
    pub fn finish(mut self) -> Option<Vec<u64>> {
        for (from, label) in self.jumps {
            let to = self.places.get(label.0).copied().flatten()?;
            let offset = i16::try_from(to as i64 - from as i64 - 1).ok()?;
            *self.code.get_mut(from)? |= u64::from(offset.cast_unsigned()) << 16;
        }
        Some(self.code)
    }
}

/// A program as text, an instruction a line, in the words of the kernel's verifier; `?` for one
/// that this assembler does not make.
pub fn listing(code: &[u64]) -> String {
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

#[cfg(test)]
mod tests {
    use super::Reg::*;
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let mut asm = Asm::new();
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
    fn instructions_are_as_the_standard_packs_them() {
        let mut asm = Asm::new();
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
    fn a_label_without_a_place_is_no_program() {
        let mut asm = Asm::new();
        let nowhere = asm.label();
        asm.jump(nowhere);
        assert_eq!(asm.finish(), None);
    }

    #[test]
    fn a_jump_that_is_too_far_is_no_program() {
        let mut asm = Asm::new();
        let far = asm.label();
        asm.jump(far);
        (0..40_000).for_each(|_| asm.exit());
        asm.place(far);
        asm.exit();
        assert_eq!(asm.finish(), None);
    }
}
