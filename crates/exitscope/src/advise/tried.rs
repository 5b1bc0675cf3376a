//! `exitscope advise --try N`: the value that an advice sets, tried on the running host.

use super::Advised;
use super::apply::{ChangedHost, check_host};
use crate::Outcome;
use crate::cli::{Cli, Command};
use crate::trial;
use anyhow::{Context, bail};
use clap::Parser;
use exitscope_advice::{AdviceSetting, Judgement, SettingSide};
use std::io::Write;

/// Tries the value of the advice of this number, with these flags of a trial.
pub fn run(
    host: &ChangedHost,
    (number, flags): (usize, &[String]),
    advised: &Advised,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let setting = setting(&advised.judgement, number)?;
    check_host(host, &advised.recorded_on)?;
    let command = [&["exitscope".to_string(), "try".to_string(), setting][..], flags].concat();
    let Command::Try(mut trial) = Cli::try_parse_from(command)?.command else { bail!("flags of a trial") };
    if let Some(advice) = advised.report.advice.get(number - 1).filter(|_| trial.is_text()) {
        writeln!(out, "Advice {number}: {}", advice.change)?;
        writeln!(out, "  predicted from the recording: {}", advice.gain.text)?;
    }
    trial.root = host.root.clone();
    trial.state = trial.state.or_else(|| host.state.clone());
    trial::run(&trial, out)
}

/// What the advice of this number sets, as `try` has it.
fn setting(judgement: &Judgement, number: usize) -> anyhow::Result<String> {
    let count = judgement.advice().len();
    let of = number.checked_sub(1).and_then(|at| judgement.advice().get(at));
    let plan = of.with_context(|| format!("there is no advice {number}; there are {count}"))?.plan();
    let knob = |setting: &AdviceSetting| match setting {
        AdviceSetting::Knob { side: SettingSide::Host, knob, value } => {
            Some(format!("{}={}", knob.name, knob.text(*value)))
        }
        _ => None,
    };
    plan.settings.iter().find_map(knob).with_context(|| {
        format!(
            "advice {number} sets no knob of the host's kernel, so it cannot be tried here: {}. docs/settings.md lists what \
             `exitscope try` can set",
            plan.change
        )
    })
}
