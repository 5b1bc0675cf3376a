use super::*;
use exitscope_model::{SubjectKind, SubjectNames};

/// What QEMU 7.2 says of `-machine q35 -device virtio-blk-pci,id=vda -device virtio-net-pci,id=net0`, in part.
const MTREE: &str = r#"QEMU 7.2.22 monitor - type 'help' for more information
(qemu) qemu-system-x86_64: warning: nic net0 has no peer
(qemu) info mtree -f
FlatView #0
 AS "mch", root: bus master container
 AS "VGA", root: bus master container
 Root memory region: (none)
  No rendered FlatView

FlatView #1
 AS "I/O", root: io
 Root memory region: io
  0000000000000062-0000000000000063 (prio 0, i/o): io @0000000000000062
  0000000000000064-0000000000000064 (prio 0, i/o): i8042-cmd
  0000000000000071-0000000000000071 (prio 0, i/o): rtc @0000000000000001
  000000000000c000-000000000000c07f (prio 1, i/o): virtio-pci

FlatView #2
 AS "memory", root: system
 AS "cpu-memory-0", root: system
 AS "virtio-blk-pci", root: bus master container
 Root memory region: system
  0000000000000000-000000000009ffff (prio 0, ram): pc.ram KVM
  00000000fe002000-00000000fe002fff (prio 0, i/o): virtio-pci-device-virtio-blk
  00000000fe003000-00000000fe003fff (prio 0, i/o): virtio-pci-notify-virtio-blk
  00000000fe004000-00000000fe004fff (prio 0, i/o): virtio-pci-common-virtio-net
  00000000febd0400-00000000febd041f (prio 0, i/o): vga ioports remapped
  00000000febd0420-00000000febd04ff (prio 1, i/o): vga.mmio @0000000000000420
  00000000fffc0000-00000000ffffffff (prio 0, rom): pc.bios KVM

FlatView #3
 AS "cpu-smm-0", root: memory
 Root memory region: memory
  00000000fe002000-00000000fe00ffff (prio 0, i/o): only in SMM
"#;

const PCI: &str = r#"(qemu) info pci
  Bus  0, device   0, function 0:
    Host bridge: PCI device 8086:29c0
      PCI subsystem 1af4:1100
      id ""
  Bus  0, device   2, function 0:
    SCSI controller: PCI device 1af4:1001
      PCI subsystem 1af4:0002
      IRQ 11, pin A
      BAR0: I/O at 0xc000 [0xc07f].
      BAR1: 32 bit memory at 0xfebd1000 [0xfebd1fff].
      BAR4: 64 bit prefetchable memory at 0xfe000000 [0xfe003fff].
      BAR6: 32 bit memory at 0xffffffffffffffff [0x0000fffe].
      id "vda"
  Bus  0, device  31, function 2:
    SATA controller: PCI device 8086:2922
      BAR4: I/O at 0xc0e0 [0xc0ff]
      BAR5: 32 bit memory (not configured)
      id ""
  Bus  1, device   0, function 0:
    PCI bridge: PCI device 1b36:000c
      BUS 0.
      secondary bus 1.
      subordinate bus 1.
      IO range [0x1000, 0x1fff]
      memory range [0xfe800000, 0xfe9fffff]
      prefetchable memory range [0xfd000000, 0xfd1fffff]
      id "rp"
"#;

const IOMEM: &str = "\
00000000-00000fff : Reserved
00001000-0009fbff : System RAM
000a0000-000bffff : PCI Bus 0000:00
00100000-bfffffff : System RAM
  01000000-0220bb07 : Kernel code
c0000000-febfffff : PCI Bus 0000:00
  fe000000-fe003fff : 0000:00:03.0
    fe000000-fe003fff : virtio-pci-modern
  febfb000-febfbfff : 0000:00:04.0
fec00000-fec003ff : IOAPIC 0
";

const IOPORTS: &str = "\
0000-0cf7 : PCI Bus 0000:00
  0000-001f : dma1
  03f8-03ff : serial
  0600-063f : 0000:00:01.3
    0608-060b : ACPI PM_TMR
0cf8-0cff : PCI conf1
";

fn names(text: &str) -> SubjectNames {
    let comms = [(5, "web".to_string()), (7, "qemu-system-x86".to_string())].into_iter().collect();
    let info = TraceInfo { arch: "x86_64".to_string(), comms, ..TraceInfo::default() };
    let given = Devices::read(text.as_bytes()).unwrap().of(&info).0.into();
    SubjectNames::of(&TraceInfo { given, ..info })
}

/// What is there, of VM 5.
fn check(text: &str, cases: &[(SubjectKind, u64, Option<&str>)]) {
    let names = names(text);
    for &(kind, key, name) in cases {
        assert_eq!(names.exact(VmId(5), kind, key).as_deref(), name, "{kind:?} {key:#x}");
    }
}

fn error(text: &str) -> String {
    Devices::read(text.as_bytes()).unwrap_err().to_string()
}

use SubjectKind::{Mmio, Port};

#[test]
fn a_table_names_ports_and_addresses() {
    let text = "# what the VMM has where\n\nport 0x3f8-0x3ff serial ttyS0\r\n  port 0x505 pvpanic\n\
        0xfebfb000-0xfebfbfff  virtio-blk vda notify \nmmio 0xfee00000-0xfee00fff lapic\n";
    check(
        text,
        &[
            (Port, 0x3f9, Some("serial ttyS0")),
            (Port, 0x505, Some("pvpanic")),
            (Port, 0x506, None),
            (Mmio, 0xfebf_b010, Some("virtio-blk vda notify")),
            (Mmio, 0xfee0_00b0, Some("lapic")),
            (Mmio, 0x3f8, None),
        ],
    );
}

#[test]
fn what_follows_a_vms_name_is_of_that_vm() {
    let text = "port 0x505 of all\nvm web\nport 0x3f8 console\nguest linux 6.8.0-45-generic\nvm qemu-system-x86_64\n\
        port 0x3f8 log\nvm 11\nport 0x3f8 of eleven\nvm *\nport 0x506 of all, too\nvm web\nport 0x507 again\n";
    let names = names(text);
    let of = |vm, key| names.exact(VmId(vm), Port, key).map(|name| name.to_string());
    let [console, log, eleven] = ["console", "log", "of eleven"].map(|name| Some(name.to_string()));
    assert_eq!([of(5, 0x3f8), of(7, 0x3f8), of(11, 0x3f8)], [console, log, eleven]);
    assert_eq!(of(13, 0x3f8).as_deref(), Some("COM1"));
    for vm in [5, 7, 13] {
        assert_eq!([of(vm, 0x505), of(vm, 0x506)], ["of all", "of all, too"].map(|name| Some(name.to_string())));
    }
    assert_eq!(of(5, 0x507).as_deref(), Some("again"));
    assert_eq!(names.guest_vector(&[VmId(5)], 0xfd).as_deref(), Some("RESCHEDULE"));
    assert!(names.guest_vector(&[VmId(7)], 0xfd).is_none());
    let devices = Devices::read(&b"vm elsewhere\nport 0x3f8 console\n"[..]).unwrap();
    assert_eq!(devices.of(&TraceInfo::default()).1, ["elsewhere"]);
}

#[test]
fn the_monitors_text_is_taken_as_it_is() {
    let of_mtree = [
        (Port, 0x64, Some("i8042-cmd")),
        (Port, 0x71, Some("rtc")),
        (Port, 0x62, None),
        (Port, 0xc010, Some("virtio-pci")),
        (Mmio, 0xfe00_3000, Some("virtio-pci-notify-virtio-blk")),
        (Mmio, 0xfebd_0400, Some("vga ioports remapped")),
        (Mmio, 0xfebd_0420, Some("vga.mmio")),
        (Mmio, 0xffff_fff0, Some("pc.bios")),
        (Mmio, 0xfe00_5000, None),
        (Mmio, 0x1000, None),
    ];
    check(MTREE, &of_mtree);
    // In a log of the terminal.
    check(&format!("(qemu) i\u{1b}[K\u{1b}[Di\ni\u{1b}[Knfo mtree -f\u{1b}[K\n{MTREE}"), &of_mtree);
    check(
        PCI,
        &[
            (Port, 0xc010, Some("virtio-blk 00:02.0 BAR0")),
            (Mmio, 0xfe00_3000, Some("virtio-blk 00:02.0 BAR4")),
            (Port, 0xc0e0, Some("SATA controller 00:1f.2 BAR4")),
            (Mmio, 0xfe80_0000, None),
        ],
    );
    // Together they say which disk it is.
    for text in [format!("{MTREE}{PCI}"), format!("{PCI}{MTREE}")] {
        check(
            &text,
            &[
                (Mmio, 0xfe00_3000, Some("virtio-pci-notify-virtio-blk vda")),
                (Mmio, 0xfe00_4000, Some("virtio-pci-common-virtio-net")),
                (Port, 0xc010, Some("virtio-pci vda")),
                (Mmio, 0xfebd_1000, Some("virtio-blk 00:02.0 BAR1")),
            ],
        );
    }
    // What is written by hand comes first.
    check(&format!("0xfe003000-0xfe003fff disk\n{MTREE}{PCI}"), &[(Mmio, 0xfe00_3000, Some("disk"))]);
}

#[test]
fn a_guests_own_lists_are_taken_as_they_are() {
    check(
        &format!("{IOMEM}{IOPORTS}"),
        &[
            (Mmio, 0xfe00_3000, Some("virtio-pci-modern 0000:00:03.0")),
            (Mmio, 0xfebf_b000, Some("0000:00:04.0")),
            (Mmio, 0xfec0_0000, Some("IOAPIC 0")),
            (Mmio, 0x0100_0000, None),
            (Mmio, 0xc000_0000, None),
            (Port, 0x10, Some("dma1")),
            (Port, 0x3f8, Some("serial")),
            (Port, 0x608, Some("ACPI PM_TMR 0000:00:01.3")),
            (Port, 0x600, Some("0000:00:01.3")),
            (Port, 0xcf8, Some("PCI conf1")),
            (Port, 0x402, Some("debug console")),
        ],
    );
    // QEMU knows its own regions better.
    check(&format!("{MTREE}{IOMEM}"), &[(Mmio, 0xfe00_3000, Some("virtio-pci-notify-virtio-blk"))]);
}

#[test]
fn what_cannot_be_used_is_told_with_its_line() {
    for (text, says) in [
        ("port 0x3f8\n", "line 1: 0x3f8: no name"),
        ("\nport 3f8 serial\n", "line 2: \"3f8\" is no address like 0xfebfb000"),
        ("port 0x3ff-0x3f8 serial\n", "line 1: 0x3ff-0x3f8 ends before it begins"),
        ("port 0x3f8-0x10000 serial\n", "line 1: 0x3f8-0x10000: the last port is 0xffff"),
        ("vm\n", "line 1: `vm` wants a VM's name or number, or `*` for all"),
        ("guest windows 11\n", "line 1: `guest windows 11` is not like `guest linux 6.8`"),
        ("guest linux\n", "line 1: `guest linux` is not like `guest linux 6.8`"),
        (
            "port 0x3f0-0x3f8 a\nport 0x400 b\nport 0x3f8-0x3ff c\n",
            "line 3: 0x3f8-0x3ff overlaps 0x3f0-0x3f8 of line 1, which is called \"a\"",
        ),
        ("0x0-0xffffffffffffffff a\n0xfee00000 b\n", "line 2: 0xfee00000 overlaps 0x0-0xffffffffffffffff of line 1"),
        ("serial: 0x3f8\n", "line 1: \"serial: 0x3f8\" is no line of a table of devices"),
        ("0x3f8 \u{7}\n", "line 1: 0x3f8: a name with a control character"),
        (
            "00000000-00000000 : Reserved\n  00000000-00000000 : System RAM\n",
            "all addresses are zero: read /proc/iomem",
        ),
        ("address-space: memory\n", "line 1: this is of `info mtree`: only `info mtree -f` says"),
        (
            "fec00000-fec003ff : a\nfec00300-fec007ff : b\n",
            "line 2: 0xfec00300-0xfec007ff overlaps 0xfec00000-0xfec003ff",
        ),
        ("# nothing\n", "nothing in it names a port or an address"),
        ("", "nothing in it names a port or an address"),
    ] {
        assert!(error(text).starts_with(says), "{text:?}: {}", error(text));
    }
    assert!(error(&format!("port 0x1 {}\n", "x".repeat(200))).contains("more than 120 characters"));
    assert!(error(&"x".repeat(10_000)).starts_with("line 1: longer than 4096 bytes"));
    assert!(Devices::read(&b"port 0x1 \xff\n"[..]).is_err());
    let many = |ranges: usize| (0..ranges).map(|at| format!("{:#x} a{at}\n", at * 2)).collect::<String>();
    assert_eq!(error(&many(MOST + 1)), "more than 65536 ranges");
    assert!(Devices::read(many(MOST).as_bytes()).is_ok());
}

#[test]
fn the_same_twice_is_no_contradiction() {
    check(&format!("{MTREE}{MTREE}"), &[(Mmio, 0xfe00_3000, Some("virtio-pci-notify-virtio-blk"))]);
    check(&format!("{PCI}{PCI}"), &[(Port, 0xc010, Some("virtio-blk 00:02.0 BAR0"))]);
    check(&format!("{IOMEM}{IOMEM}"), &[(Mmio, 0xfebf_b000, Some("0000:00:04.0"))]);
    check("port 0x505 pvpanic\nport 0x505 pvpanic\n", &[(Port, 0x505, Some("pvpanic"))]);
    // Of another VM it is another.
    names("port 0x505 pvpanic\nvm web\nport 0x505 else\n");
    let moved = MTREE.replace("00000000fe003000-00000000fe003fff", "00000000fe002800-00000000fe003fff");
    assert!(error(&moved).contains("overlaps 0xfe002000-0xfe002fff of line"), "{}", error(&moved));
}
