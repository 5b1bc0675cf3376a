//! What subjects are called: `--devices`.

use crate::cli::NameArgs;
use anyhow::Context;
use exitscope_model::TraceInfo;
use exitscope_trace::{Devices, NoDevices};
use std::fs::File;
use std::io::BufReader;

/// Reads what the flag names.
pub fn read(args: &NameArgs) -> anyhow::Result<Option<Devices>> {
    let Some(path) = &args.devices else { return Ok(None) };
    let file = File::open(path).map_err(NoDevices::from);
    let devices = file.and_then(|file| Devices::read(BufReader::new(file)));
    devices.map(Some).with_context(|| path.display().to_string())
}

/// Has the subjects of what was read be called so, and says of which VM it has none.
pub fn name(info: &mut TraceInfo, devices: Option<&Devices>) {
    let Some(devices) = devices else { return };
    let (given, unknown) = devices.of(info);
    for vm in unknown {
        say!("--devices names the VM {vm:?}, which no recording has");
    }
    info.given = given.into();
}
