//! A trace.dat, made: of either byte order, version and compression.

use std::io::Write;

/// How numbers are written.
#[derive(Clone, Copy)]
pub struct Machine {
    pub big: bool,
    /// Bytes of the kernel's long.
    pub long: usize,
    /// Bytes of a ring page.
    pub page: usize,
    /// As `uname -m` has it.
    pub arch: &'static str,
}

pub const HOST: Machine = Machine { big: false, long: 8, page: PAGE, arch: "x86_64" };
pub const PAGE: usize = 256;

const KVM_ENTRY: &str = "name: kvm_entry\nID: 7\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:unsigned int vcpu_id;\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: \"vcpu %u\", REC->vcpu_id\n";

impl Machine {
    pub fn u16(self, value: u16) -> Vec<u8> {
        if self.big { value.to_be_bytes().to_vec() } else { value.to_le_bytes().to_vec() }
    }

    pub fn u32(self, value: u32) -> Vec<u8> {
        if self.big { value.to_be_bytes().to_vec() } else { value.to_le_bytes().to_vec() }
    }

    pub fn u64(self, value: u64) -> Vec<u8> {
        if self.big { value.to_be_bytes().to_vec() } else { value.to_le_bytes().to_vec() }
    }

    /// A number of the kernel's long.
    pub fn long(self, value: u64) -> Vec<u8> {
        if self.long == 8 { self.u64(value) } else { self.u32(value as u32) }
    }

    /// The first word of a record.
    pub fn head(self, kind: u32, delta: u32) -> Vec<u8> {
        self.u32(if self.big { kind << 27 | delta } else { delta << 5 | kind })
    }

    /// `kvm_entry` of `tid` and `vcpu`, `delta` after the record before.
    pub fn entry(self, delta: u32, tid: u32, vcpu: u32) -> Vec<u8> {
        [self.head(3, delta), self.payload(7, tid, vcpu)].concat()
    }

    pub fn payload(self, id: u16, tid: u32, vcpu: u32) -> Vec<u8> {
        [self.u16(id), vec![0, 0], self.u32(tid), self.u32(vcpu)].concat()
    }

    /// A page that begins at `ticks`; `flags` go into its commit word, `after` stands behind its data.
    pub fn page(self, ticks: u64, flags: u64, records: &[Vec<u8>], after: &[u8]) -> Vec<u8> {
        let data = records.concat();
        let mut page = [self.u64(ticks), self.long(flags | data.len() as u64), data, after.to_vec()].concat();
        assert!(page.len() <= self.page);
        page.resize(self.page, 0xee);
        page
    }

    fn start(self, version: &str) -> Vec<u8> {
        let start = [b"\x17\x08\x44tracing", version.as_bytes(), &[0, u8::from(self.big), 8]].concat();
        [start, self.u32(self.page as u32)].concat()
    }

    pub fn header_info(self) -> Vec<u8> {
        let long = self.long;
        let page = format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char data;\toffset:{};\tsize:{};\tsigned:0;\n",
            8 + long,
            self.page - 8 - long
        );
        let event = "# compressed entry header\n";
        let (page_size, event_size) = (self.u64(page.len() as u64), self.u64(event.len() as u64));
        [b"header_page\0", &page_size[..], page.as_bytes(), b"header_event\0", &event_size, event.as_bytes()].concat()
    }

    pub fn event_formats(self) -> Vec<u8> {
        let size = self.u64(KVM_ENTRY.len() as u64);
        [&self.u32(1)[..], b"kvm\0", &self.u32(1), &size, KVM_ENTRY.as_bytes()].concat()
    }

    fn cmdlines(self) -> Vec<u8> {
        let text = "42 qemu vcpu 0\n";
        [&self.u64(text.len() as u64)[..], text.as_bytes()].concat()
    }

    fn uname(self) -> String {
        format!("Linux host 6.1.0 {}\0", self.arch)
    }

    pub fn option(self, id: u16, data: &[u8]) -> Vec<u8> {
        [&self.u16(id)[..], &self.u32(data.len() as u32), data].concat()
    }
}

/// A trace to be written down.
pub struct Trace<'a> {
    pub machine: Machine,
    /// Name and clock of each buffer, and the pages of each of its CPUs.
    pub buffers: &'a [(&'a str, &'a str, &'a [Vec<u8>])],
    /// Further options.
    pub options: &'a [(u16, &'a [u8])],
    pub compressor: &'a str,
}

impl Trace<'_> {
    /// Version 6. The clock is told behind the CPU table, as recorders do.
    pub fn v6(&self) -> Vec<u8> {
        self.v6_with(&self.machine.header_info(), &self.machine.event_formats())
    }

    /// Version 6 with these headers and formats.
    pub fn v6_with(&self, header_info: &[u8], event_formats: &[u8]) -> Vec<u8> {
        let m = self.machine;
        let (_, clock, top) = self.buffers[0];
        let mut file = [&m.start("6")[..], header_info, &m.u32(0), event_formats, &m.u32(4)].concat();
        file.extend(b"kall");
        file.extend(m.u32(0));
        file.extend(m.cmdlines());
        file.extend(m.u32(top.len() as u32));
        file.extend(b"options  \0");
        file.extend(m.option(5, m.uname().as_bytes()));
        file.extend(m.option(4, &[]));
        self.options.iter().for_each(|(id, data)| file.extend(m.option(*id, data)));
        let mut patches = Vec::new();
        for (name, _, _) in &self.buffers[1..] {
            patches.push(file.len() + 6);
            file.extend(m.option(3, &[&[0; 8], name.as_bytes(), &[0]].concat()));
        }
        file.extend(m.u16(0));
        for (at, (_, _, cpus)) in self.buffers.iter().enumerate() {
            if at > 0 {
                let here = m.u64(file.len() as u64);
                file[patches[at - 1]..][..8].copy_from_slice(&here);
                file.extend(b"options  \0");
                file.extend(m.option(8, &m.u32(cpus.len() as u32)));
                file.extend(m.u16(0));
            }
            file.extend(b"flyrecord\0");
            let mut offset = (file.len() + cpus.len() * 16 + 8 + 64).next_multiple_of(m.page);
            let end = offset;
            for pages in *cpus {
                file.extend(m.u64(offset as u64));
                file.extend(m.u64(pages.len() as u64));
                offset += pages.len();
            }
            let text = format!("[{clock}] counter");
            file.extend(m.u64(text.len() as u64));
            file.extend(text.as_bytes());
            file.resize(end, 0);
            cpus.iter().for_each(|pages| file.extend(pages));
        }
        file
    }

    pub fn pack(&self, plain: &[u8]) -> Vec<u8> {
        let packed = match self.compressor {
            "zlib" => {
                let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
                packer.write_all(plain).unwrap();
                packer.finish().unwrap()
            }
            _ => {
                // Recorders leave the content size out.
                let mut packer = zstd::bulk::Compressor::new(3).unwrap();
                packer.include_contentsize(false).unwrap();
                packer.compress(plain).unwrap()
            }
        };
        let m = self.machine;
        [m.u32(packed.len() as u32), m.u32(plain.len() as u32), packed].concat()
    }

    fn section(&self, id: u16, data: &[u8]) -> Vec<u8> {
        let (m, packed) = (self.machine, self.compressor != "none");
        let data = if packed { self.pack(data) } else { data.to_vec() };
        let size = m.u64(data.len() as u64);
        [m.u16(id), m.u16(u16::from(packed)), m.u32(0), size, data].concat()
    }

    /// Version 7, in the order that recorders write: sections, their options, data, its options.
    pub fn v7(&self) -> Vec<u8> {
        self.v7_with(&self.machine.header_info(), &self.machine.event_formats())
    }

    /// Version 7 with these headers and formats.
    pub fn v7_with(&self, header_info: &[u8], event_formats: &[u8]) -> Vec<u8> {
        let (m, packed) = (self.machine, self.compressor != "none");
        let mut file = [&m.start("7")[..], self.compressor.as_bytes(), b"\x001.0\0"].concat();
        let first = file.len();
        file.extend(m.u64(0));
        let mut options = Vec::new();
        let sections = [(16, header_info), (17, &m.u32(0)[..]), (18, event_formats), (21, &m.cmdlines()[..])];
        for (id, data) in sections {
            options.extend(m.option(id, &m.u64(file.len() as u64)));
            file.extend(self.section(id, data));
        }
        options.extend(m.option(4, b"[local] global counter\0"));
        options.extend(m.option(5, m.uname().as_bytes()));
        self.options.iter().for_each(|(id, data)| options.extend(m.option(*id, data)));
        let here = m.u64(file.len() as u64);
        file[first..][..8].copy_from_slice(&here);
        // The second section of options is behind the data, whose length is known by then.
        let link = file.len();
        let with_link = |next: u64| self.section(0, &[options.clone(), m.option(0, &m.u64(next))].concat());
        file.extend(with_link(u64::MAX));
        file.resize(file.len() + 64, 0);
        let mut buffers = Vec::new();
        for (name, clock, cpus) in self.buffers {
            let section = file.len() as u64;
            file.extend([m.u16(3), m.u16(u16::from(packed)), m.u32(0), m.u64(0)].concat());
            file.resize(file.len().next_multiple_of(m.page), 0);
            let mut table = Vec::new();
            for (cpu, pages) in cpus.iter().enumerate() {
                let offset = file.len() as u64;
                if packed {
                    let chunks = pages.chunks(2 * m.page);
                    file.extend(m.u32(chunks.len() as u32));
                    chunks.for_each(|chunk| file.extend(self.pack(chunk)));
                } else {
                    file.extend(pages);
                }
                // The size of compressed data does not count the number of chunks.
                let size = file.len() as u64 - offset - if packed { 4 } else { 0 };
                table.extend([m.u32(cpu as u32), m.u64(offset), m.u64(size)].concat());
            }
            let described = [&m.u64(section)[..], name.as_bytes(), &[0], clock.as_bytes(), &[0]].concat();
            let counts = [m.u32(m.page as u32), m.u32(cpus.len() as u32)].concat();
            buffers.extend(m.option(3, &[described, counts, table].concat()));
        }
        let linked = with_link(file.len() as u64);
        file[link..][..linked.len()].copy_from_slice(&linked);
        file.extend(self.section(0, &[buffers, m.option(0, &m.u64(0))].concat()));
        file
    }
}
