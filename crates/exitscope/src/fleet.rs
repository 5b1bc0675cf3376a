//! `exitscope fleet`, and the page of a store: what differs between its hosts, kernels or weeks.

use crate::cli::{ComparedArgs, EventsFormat, FleetByArg, FleetCommand, QueryLimits};
use crate::html_output;
use crate::sql;
use crate::terminal::terminal_style;
use crate::{Outcome, write_json};
use exitscope_fleet::FleetOptions;
use exitscope_page::{ResultPage, write_result_data, write_result_page};
use exitscope_view::{Fleet, FleetBy, fleet_page, write_page};
use std::io::Write;
use std::path::Path;

pub fn run(command: &FleetCommand, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let FleetCommand::Report(args) = command;
    if let Some(to) = &args.html {
        html_output::check(to, &[])?;
    }
    let fleet = report(&args.dir, &args.compared, &args.limits)?;
    if let Some(to) = &args.html {
        html_output::write(to, |out| write_result_page(&ResultPage::Fleet { fleet: &fleet }, out))?;
        return Ok(Outcome::Fine);
    }
    match args.format {
        EventsFormat::Json => write_json(&fleet, out)?,
        EventsFormat::Text => write_page(&fleet_page(&fleet), terminal_style(), out)?,
    }
    Ok(Outcome::Fine)
}

/// Fails if there is no store.
pub fn check(dir: &Path, limits: &QueryLimits) -> anyhow::Result<()> {
    sql::open(dir, limits).map(drop)
}

/// What the page of a store shows, packed.
pub fn data(dir: &Path, compared: &ComparedArgs, limits: &QueryLimits) -> anyhow::Result<Vec<u8>> {
    let fleet = report(dir, compared, limits)?;
    let mut data = Vec::new();
    write_result_data(&ResultPage::Fleet { fleet: &fleet }, &mut data)?;
    Ok(data)
}

fn report(dir: &Path, compared: &ComparedArgs, limits: &QueryLimits) -> anyhow::Result<Fleet> {
    let options = FleetOptions {
        by: match compared.by {
            FleetByArg::Kernel => FleetBy::Kernel,
            FleetByArg::Host => FleetBy::Host,
            FleetByArg::Week => FleetBy::Week,
            FleetByArg::Day => FleetBy::Day,
        },
        against: compared.against.clone(),
        since: compared.since,
        before: compared.before,
        top: compared.top,
        confidence_percent: compared.confidence,
    };
    let engine = sql::open(dir, limits)?;
    let fleet = exitscope_fleet::report(&engine, &options)?;
    sql::say_verified(engine.verified());
    Ok(fleet)
}
