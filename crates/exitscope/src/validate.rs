//! `exitscope validate`.

use crate::cli::{ValidateArgs, ValidateFormat as Format};
use crate::{Outcome, validate_lab, write_json};
use exitscope_validation::{experiments, validate, validation_page, write_validation_csv, write_validation_markdown};
use exitscope_view::write_page;
use std::io::Write;

pub fn run(args: &ValidateArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    if let Some(file) = &args.lab {
        return validate_lab::run(args, file, out);
    }
    let mut list = experiments()?;
    if let Some(unknown) = args.experiments.iter().find(|name| list.iter().all(|known| known.name != **name)) {
        let known: Vec<&str> = list.iter().map(|known| known.name.as_str()).collect();
        anyhow::bail!("there is no experiment {unknown:?}; there are {}", known.join(", "));
    }
    if !args.experiments.is_empty() {
        list.retain(|experiment| args.experiments.contains(&experiment.name));
    }
    let validation = validate(&list, args.replicates)?;
    match args.format {
        Format::Json => write_json(&validation, out)?,
        Format::Csv => write_validation_csv(&validation, out)?,
        Format::Markdown => write_validation_markdown(&validation, out)?,
        Format::Text => write_page(&validation_page(&validation), crate::terminal::terminal_style(), out)?,
    }
    Ok(if validation.has_failed() { Outcome::Findings } else { Outcome::Fine })
}
