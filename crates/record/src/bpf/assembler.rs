//! Puts BPF instructions together.
//!
//! ```text
//! 64 bits:  imm (32) │ off (16) │ src (4) dst (4) │ opcode (8)
//! ```

use std::os::fd::{AsRawFd, OwnedFd};

/// Registers. r0 has results; r1 to r5 are arguments, which calls destroy; r6 to r9 stay; r10 is the stack's end.
#[derive(Clone, Copy)]
pub struct Reg(pub u8);

/// Helper functions, `include/uapi/linux/bpf.h`.
#[derive(Clone, Copy)]
pub enum Helper {
    MapLookupElem = 1,
    MapUpdateElem = 2,
    KtimeGetNs = 5,
    GetSmpProcessorId = 8,
    GetCurrentPidTgid = 14,
    RingbufReserve = 131,
    RingbufSubmit = 132,
}

/// Bytes that one load or store moves.
#[derive(Clone, Copy)]
pub enum Width {
    Byte,
    Half,
    Word,
    Double,
}

impl Width {
    /// The widest that fits `bytes`, which are not zero.
    pub fn of(bytes: usize) -> Width {
        match bytes {
            8.. => Width::Double,
            4.. => Width::Word,
            2.. => Width::Half,
            _ => Width::Byte,
        }
    }

    pub fn bytes(self) -> usize {
        match self {
            Width::Byte => 1,
            Width::Half => 2,
            Width::Word => 4,
            Width::Double => 8,
        }
    }

    fn bits(self) -> u64 {
        match self {
            Width::Word => 0x00,
            Width::Half => 0x08,
            Width::Byte => 0x10,
            Width::Double => 0x18,
        }
    }
}

/// A place in the program that jumps go to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Label(usize);

/// A program that grows.
#[derive(Default)]
pub struct BpfAssembler {
    code: Vec<u64>,
    /// Where each label is, once it is.
    labels: Vec<Option<usize>>,
    /// Jumps, and to where.
    jumps: Vec<(usize, Label)>,
}

impl BpfAssembler {
    fn emit(&mut self, opcode: u64, dst: Reg, src: Reg, off: i16, imm: i32) {
        let regs = u64::from(dst.0) << 8 | u64::from(src.0) << 12;
        self.code.push(opcode | regs | u64::from(off as u16) << 16 | u64::from(imm as u32) << 32);
    }

    pub fn set(&mut self, dst: Reg, value: i32) {
        self.emit(0xb7, dst, Reg(0), 0, value);
    }

    pub fn copy(&mut self, dst: Reg, src: Reg) {
        self.emit(0xbf, dst, src, 0, 0);
    }

    pub fn add(&mut self, dst: Reg, value: i32) {
        self.emit(0x07, dst, Reg(0), 0, value);
    }

    /// dst += src
    pub fn add_of(&mut self, dst: Reg, src: Reg) {
        self.emit(0x0f, dst, src, 0, 0);
    }

    /// dst -= src
    pub fn subtract(&mut self, dst: Reg, src: Reg) {
        self.emit(0x1f, dst, src, 0, 0);
    }

    /// dst -= src; zero if that is more
    pub fn subtract_down_to_zero(&mut self, dst: Reg, src: Reg) {
        let enough = self.label();
        self.jump_if_at_most(src, dst, enough);
        self.copy(dst, src);
        self.here(enough);
        self.subtract(dst, src);
    }

    /// dst |= src
    pub fn or(&mut self, dst: Reg, src: Reg) {
        self.emit(0x4f, dst, src, 0, 0);
    }

    pub fn shift_left(&mut self, dst: Reg, bits: i32) {
        self.emit(0x67, dst, Reg(0), 0, bits);
    }

    pub fn shift_right(&mut self, dst: Reg, bits: i32) {
        self.emit(0x77, dst, Reg(0), 0, bits);
    }

    /// dst >>= bits
    pub fn shift_right_by(&mut self, dst: Reg, bits: Reg) {
        self.emit(0x7f, dst, bits, 0, 0);
    }

    /// dst = *(src + off)
    pub fn load(&mut self, width: Width, dst: Reg, src: Reg, off: i16) {
        self.emit(0x61 | width.bits(), dst, src, off, 0);
    }

    /// *(dst + off) = src
    pub fn store(&mut self, width: Width, dst: Reg, off: i16, src: Reg) {
        self.emit(0x63 | width.bits(), dst, src, off, 0);
    }

    /// *(dst + off) = value
    pub fn store_number(&mut self, width: Width, dst: Reg, off: i16, value: i32) {
        self.emit(0x62 | width.bits(), dst, Reg(0), off, value);
    }

    /// dst = the map
    pub fn map(&mut self, dst: Reg, map: &OwnedFd) {
        const PSEUDO_MAP_FD: u8 = 1;
        self.emit(0x18, dst, Reg(PSEUDO_MAP_FD), 0, map.as_raw_fd());
        self.code.push(0);
    }

    /// r0 = the map's element for the key at r10 + `key`; zero if there is none
    pub fn lookup(&mut self, map: &OwnedFd, key: i32) {
        self.map(Reg(1), map);
        self.copy(Reg(2), Reg(10));
        self.add(Reg(2), key);
        self.call(Helper::MapLookupElem);
    }

    /// *(base + off), a number of 8 bytes that nobody else changes meanwhile, grows by `value`; r1 has it then
    pub fn grow(&mut self, base: Reg, off: i16, value: i32) {
        self.load(Width::Double, Reg(1), base, off);
        self.add(Reg(1), value);
        self.store(Width::Double, base, off, Reg(1));
    }

    pub fn call(&mut self, helper: Helper) {
        self.emit(0x85, Reg(0), Reg(0), 0, helper as i32);
    }

    pub fn exit(&mut self) {
        self.emit(0x95, Reg(0), Reg(0), 0, 0);
    }

    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The label is here.
    pub fn here(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// Whether anything jumps there.
    pub fn is_target(&self, label: Label) -> bool {
        self.jumps.iter().any(|&(_, to)| to == label)
    }

    pub fn jump(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(0x05, Reg(0), Reg(0), 0, 0);
    }

    /// Goes to `to` if `reg` is `value`.
    pub fn jump_if(&mut self, reg: Reg, value: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(0x15, reg, Reg(0), 0, value);
    }

    /// Goes to `to` unless `reg` is `value`.
    pub fn jump_unless(&mut self, reg: Reg, value: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(0x55, reg, Reg(0), 0, value);
    }

    /// Goes to `to` unless `reg` and `other` are the same.
    pub fn jump_unless_same(&mut self, reg: Reg, other: Reg, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(0x5d, reg, other, 0, 0);
    }

    /// Goes to `to` if `reg`, without sign, is less than `value`.
    pub fn jump_if_less(&mut self, reg: Reg, value: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(0xa5, reg, Reg(0), 0, value);
    }

    /// Goes to `to` if `reg` is at most `other`, both without sign.
    pub fn jump_if_at_most(&mut self, reg: Reg, other: Reg, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(0xbd, reg, other, 0, 0);
    }

    /// The program.
    pub fn finish(mut self) -> Vec<u64> {
        for (at, to) in self.jumps {
            let target = self.labels[to.0].expect("every label has its place");
            let distance = target as i64 - at as i64 - 1;
            let off = i16::try_from(distance).expect("programs are short");
            self.code[at] |= u64::from(off as u16) << 16;
        }
        self.code
    }
}
