//! A row of the list, and what names it.

use crate::frame::{RateFigures, TopVcpuRow, VmRow};

/// What names a row from one interval to the next: a process; and a thread, or a vCPU's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowId {
    pub pid: u32,
    pub vcpu: Option<u32>,
}

/// A row of the list.
#[derive(Clone, Copy, Debug)]
pub struct ListLine<'a> {
    pub vm: &'a VmRow,
    /// None: the VM itself.
    pub vcpu: Option<&'a TopVcpuRow>,
}

impl<'a> ListLine<'a> {
    pub fn id(&self) -> RowId {
        RowId { pid: self.vm.pid, vcpu: self.vcpu.map(|vcpu| vcpu.tid.or(vcpu.vcpu).unwrap_or(0)) }
    }

    pub fn figures(&self) -> &'a RateFigures {
        self.vcpu.map_or(&self.vm.figures, |vcpu| &vcpu.figures)
    }

    pub fn ended(&self) -> bool {
        self.vcpu.map_or(self.vm.ended, |vcpu| vcpu.ended)
    }
}

/// `vCPU 3`, or `thread 4711` where nothing says which vCPU that is.
pub fn vcpu_name(vcpu: &TopVcpuRow) -> String {
    match (vcpu.vcpu, vcpu.tid) {
        (Some(number), _) => format!("vCPU {number}"),
        (None, tid) => format!("thread {}", tid.unwrap_or(0)),
    }
}
