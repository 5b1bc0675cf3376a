//! A xentrace log, made.

/// A record: event, time stamp, extra words.
pub fn record(id: u32, stamp: Option<u64>, words: &[u32]) -> Vec<u8> {
    let header = id | (words.len() as u32) << 28 | u32::from(stamp.is_some()) << 31;
    let mut bytes = header.to_le_bytes().to_vec();
    bytes.extend(stamp.into_iter().flat_map(u64::to_le_bytes));
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    bytes
}

/// A window of `cpu`.
pub fn window(cpu: u32, records: &[Vec<u8>]) -> Vec<u8> {
    let data = records.concat();
    [record(0x1f003, None, &[cpu, data.len() as u32]), data].concat()
}

/// Domain and vCPU as run-state records have them.
pub const fn packed(domain: u32, vcpu: u32) -> u32 {
    domain << 16 | vcpu
}
