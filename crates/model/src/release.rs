//! What a kernel or a hypervisor calls its release.

/// The first two numbers of a release: `6.1.0-56-cloud-amd64`, `Xen 4.17.5`.
pub fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.trim_start_matches("Xen ").split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}
