//! `exitscope advise --try N`: the value that an advice sets, tried on the running host.

use super::apply::check_host;
use crate::Outcome;
use crate::cli::{AdviseArgs, Cli, Command};
use crate::trial;
use anyhow::{Context, bail};
use clap::Parser;
use exitscope_advice::{AdviceSetting, Judgement, SettingSide};
use exitscope_view::AdviceReport;
use std::io::Write;

pub fn run(
    args: &AdviseArgs,
    number: usize,
    (judgement, advised): (&Judgement, &AdviceReport),
    recorded_on: &str,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let setting = setting(judgement, number)?;
    check_host(args, recorded_on)?;
    let command = [&["exitscope".to_string(), "try".to_string(), setting][..], &args.trial].concat();
    let Command::Try(mut trial) = Cli::try_parse_from(command)?.command else { bail!("flags of a trial") };
    if let Some(advice) = advised.advice.get(number - 1).filter(|_| trial.is_text()) {
        writeln!(out, "Advice {number}: {}", advice.change)?;
        writeln!(out, "  predicted from the recording: {}", advice.gain.text)?;
    }
    trial.root = args.root.clone();
    trial.state = trial.state.or_else(|| args.state.clone());
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
