//! What subjects are called: `--devices`.

use crate::cli::NameArgs;
use anyhow::Context;
use exitscope_model::TraceInfo;
use exitscope_trace::{Devices, NoDevices};
use std::cell::OnceCell;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// The list that the flag names. It is read when its names are first needed, and once: it may be a pipe.
#[derive(Default)]
pub struct DeviceList {
    path: Option<PathBuf>,
    read: OnceCell<Devices>,
}

impl DeviceList {
    pub fn of(NameArgs { devices }: &NameArgs) -> DeviceList {
        DeviceList { path: devices.clone(), read: OnceCell::new() }
    }

    /// What the list says; `None` if the flag names none.
    pub fn get(&self) -> anyhow::Result<Option<&Devices>> {
        if let Some(path) = &self.path
            && self.read.get().is_none()
        {
            let devices = read(path)?;
            self.read.get_or_init(|| devices);
        }
        Ok(self.read.get())
    }

    /// The same, for whoever needs it on.
    pub fn into_devices(self) -> anyhow::Result<Option<Devices>> {
        self.get()?;
        Ok(self.read.into_inner())
    }
}

fn read(path: &Path) -> anyhow::Result<Devices> {
    let file = File::open(path).map_err(NoDevices::from);
    let devices = file.and_then(|file| Devices::read(BufReader::new(file)));
    devices.with_context(|| path.display().to_string())
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
