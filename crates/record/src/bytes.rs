//! Numbers in a ring's record, as this machine writes them; zero where it is too short.

pub fn u16_at(record: &[u8], at: usize) -> u16 {
    record.get(at..at + 2).and_then(|raw| raw.try_into().ok()).map_or(0, u16::from_ne_bytes)
}

pub fn u32_at(record: &[u8], at: usize) -> u32 {
    record.get(at..at + 4).and_then(|raw| raw.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

pub fn u64_at(record: &[u8], at: usize) -> u64 {
    record.get(at..at + 8).and_then(|raw| raw.try_into().ok()).map_or(0, u64::from_ne_bytes)
}
