//! `exitscope doctor`.

use crate::Outcome;
use crate::cli::{DoctorArgs, EventsFormat};
use crate::report::look;
use exitscope_lab::doctor::checkup;
use exitscope_lab::{catch_signals, open_kvm};
use exitscope_view::{Checkup, doctor_page, write_page};
use std::io::Write;

pub fn run(args: &DoctorArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    catch_signals()?;
    let checkup = Checkup::of(&checkup()?);
    match args.format {
        EventsFormat::Json => {
            serde_json::to_writer(&mut *out, &checkup)?;
            writeln!(out)?;
        }
        EventsFormat::Text => write_page(&doctor_page(&checkup), look(), out)?,
    }
    // The page has said all; without KVM the exit code and one line say so as well.
    out.flush()?;
    open_kvm()?;
    Ok(Outcome::Fine)
}
